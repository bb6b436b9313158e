//! Creates the system objects at startup: system namespaces, the service `kubernetes` with its endpoints, the
//! service CIDR, system priority classes, the identity lease of this server, three config maps that clients
//! read, the default roles and bindings, the defaults of flow control, and an APIService for every version
//! that is served.
//!
//! Each part is a post-start hook with a name, which is also its check in `/livez` and `/readyz`. Existing
//! objects are not changed, except for fields about this process, for roles and bindings that lack something
//! (`rbac`), and for defaults that the server keeps (`flow_control`, `api_services`).

mod api_services;
mod authentication_info;
mod components;
mod flow_config;
mod flow_control;
mod flow_schemas;
pub mod health;
mod identity;
mod options;
mod peers;
mod rbac;
mod service;
mod storage_versions;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kinds::{SYSTEM_PRIORITY_CLASSES, SystemPriorityClass};
use object::time::Time;
use object::{Map, Value};
use pki::Cluster;
use registry::{Address, Client, Registry};
use schema::{Status, json};
use store::Revision;
use tasks::{Ended, Name, Task};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

pub use self::components::LocalComponents;
use self::identity::Identity;
pub use self::identity::{host_name, identity_name};
pub use self::options::ServiceOptions;
pub use self::peers::Peers;
use api_services::ApiServices;
pub use flow_config::FlowConfig;
use flow_control::Defaults;
use flow_schemas::FlowSchemas;

/// The field manager of the reference.
const MANAGER: &str = "kube-apiserver";

/// How often the identity lease is renewed, and the service is looked at.
const RENEWAL: Duration = Duration::from_secs(10);
/// How often the system namespaces are looked at: one that was deleted is made again.
const NAMESPACE_INTERVAL: Duration = Duration::from_secs(60);
/// How often `StorageVersion` objects are looked at.
const VERSIONS_INTERVAL: Duration = Duration::from_secs(600);
/// How often the identity leases of servers that are gone are removed.
const SWEEP: Duration = Duration::from_secs(3600);

/// The values in the system objects.
#[derive(Debug, Clone)]
pub struct SystemValues {
    /// The address of this server for the rest of the cluster.
    pub advertise: IpAddr,
    /// The port of this server.
    pub port: u16,
    /// What services are given.
    pub services: ServiceOptions,
    /// The authorities of client certificates, in PEM.
    pub client_authority: String,
    /// What servers behind this one need to know of the proxies that it trusts: keys and values of a config
    /// map.
    pub proxy: Vec<(&'static str, String)>,
    /// The feature gates of kinds.
    pub gates: kinds::Gates,
    /// The pages about the server that monitoring may get.
    pub pages: Vec<&'static str>,
    /// Whether flow schemas decide about requests, and so say whether they can.
    pub priority_and_fairness: bool,
    /// What new nodes need to know of this server.
    pub cluster_info: Option<Cluster>,
    /// The other servers on the same store, if there can be any.
    pub peers: Option<Peers>,
}

/// A post-start hook.
#[derive(Debug)]
pub struct Hook {
    /// The name of the hook, and of its health check.
    pub name: &'static str,
    done: AtomicBool,
}

impl Hook {
    /// Whether the hook has succeeded.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }
}

/// The post-start hooks that create objects.
#[derive(Debug)]
pub struct Hooks {
    all: Vec<Arc<Hook>>,
    /// What keeps the objects of the start.
    keeping: Mutex<Vec<Task>>,
}

const NAMESPACES: &str = "poststarthook/start-system-namespaces-controller";
const AUTHENTICATION_INFO: &str = "poststarthook/start-cluster-authentication-info-controller";
const IDENTITY: &str = "poststarthook/start-kube-apiserver-identity-lease-controller";
const TOKEN_TRACKING: &str = "poststarthook/start-legacy-token-tracking-controller";
const ROLES: &str = "poststarthook/rbac/bootstrap-roles";
const PRIORITY_CLASSES: &str = "poststarthook/scheduling/bootstrap-system-priority-classes";
const SERVICE: &str = "poststarthook/bootstrap-controller";
const SERVICE_RANGE: &str = "poststarthook/start-kubernetes-service-cidr-controller";
const FLOW_CONTROL: &str = "poststarthook/priority-and-fairness-config-producer";
const FLOW_SCHEMAS: &str = "poststarthook/priority-and-fairness-config-consumer";
const API_SERVICES: &str = "autoregister-completion";

impl Default for Hooks {
    /// All hooks, none of them done.
    fn default() -> Self {
        let names = [
            NAMESPACES,
            AUTHENTICATION_INFO,
            IDENTITY,
            TOKEN_TRACKING,
            ROLES,
            PRIORITY_CLASSES,
            SERVICE,
            SERVICE_RANGE,
            FLOW_CONTROL,
            FLOW_SCHEMAS,
            API_SERVICES,
        ];
        let hook = |name| Arc::new(Hook { name, done: AtomicBool::new(false) });
        Self { all: names.map(hook).into(), keeping: Mutex::default() }
    }
}

impl Hooks {
    /// The hook called `name`.
    pub fn find(&self, name: &str) -> Option<Arc<Hook>> {
        self.all.iter().find(|hook| hook.name == name).cloned()
    }

    /// Whether all of them are done.
    pub fn all_done(&self) -> bool {
        self.all.iter().all(|hook| hook.is_done())
    }

    /// Creates all objects, does `then`, renews the identity lease, removes those of servers that are gone,
    /// and keeps the system namespaces, the service and what servers behind this one need to know until the
    /// process ends.
    pub async fn run(&self, registry: &Arc<Registry>, values: &SystemValues, then: impl FnOnce()) {
        let mut boot = Boot::new(registry, values);
        if boot.is_served(flow_control::SCHEMAS) && boot.is_served(flow_control::LEVELS) {
            boot.defaults = Some(Defaults::new(registry));
            boot.schemas = FlowSchemas::new(registry).filter(|_| values.priority_and_fairness).map(Arc::new);
        }
        if boot.is_served(api_services::API_SERVICES) {
            boot.api_services = ApiServices::new(registry).map(Arc::new);
        }
        let first = registry.cache().committed() == Revision::ZERO;
        // Namespaces first: the other objects are in them.
        self.repeat(NAMESPACES, || boot.namespaces()).await;
        tokio::join!(
            async {
                self.repeat(FLOW_CONTROL, || boot.flow_control()).await;
                self.repeat(FLOW_SCHEMAS, || boot.flow_schemas()).await;
            },
            self.repeat(API_SERVICES, || boot.api_services()),
            self.repeat(AUTHENTICATION_INFO, || boot.authentication_info()),
            self.repeat(IDENTITY, || boot.renew_identity()),
            self.repeat(TOKEN_TRACKING, || boot.token_tracking()),
            self.repeat(ROLES, || boot.roles()),
            self.repeat(PRIORITY_CLASSES, || boot.priority_classes()),
            self.attempt("cluster-info", || boot.cluster_info()),
            async {
                // Services get their addresses from it.
                self.attempt(SERVICE_RANGE, || boot.service_range()).await;
                tokio::join!(
                    self.repeat(SERVICE, || boot.first_service()),
                    self.repeat(SERVICE_RANGE, || boot.service_range_status()),
                );
            },
        );
        if first {
            forget(registry).await;
        }
        *self.keeping.lock().unwrap_or_else(PoisonError::into_inner) = boot.keep_defaults();
        then();
        let mut sweep = Instant::now();
        let mut versions = Instant::now();
        let mut namespaces = Instant::now() + NAMESPACE_INTERVAL;
        loop {
            if sweep <= Instant::now() {
                sweep += SWEEP;
                if let Err(error) = identity::remove_expired(&boot.client).await {
                    log::warn!(error:% = error.message; "the identities of servers that are gone could not be removed");
                }
            }
            if values.gates.storage_version_api && versions <= Instant::now() {
                versions = Instant::now() + VERSIONS_INTERVAL;
                if let Err(error) = boot.storage_versions().await {
                    log::warn!(error:% = error.message; "the versions that this server stores could not be written down");
                }
            }
            sleep(RENEWAL).await;
            if namespaces <= Instant::now() {
                namespaces = Instant::now() + NAMESPACE_INTERVAL;
                if let Err(error) = boot.namespaces().await {
                    log::warn!(error:% = error.message; "a system namespace could not be made again");
                }
            }
            if let Err(error) = boot.renew_identity().await {
                log::warn!(error:% = error.message; "the identity of this server could not be renewed");
            }
            if let Err(error) = boot.authentication_info().await {
                log::warn!(error:% = error.message; "what servers behind this one need to know could not be kept");
            }
            if let Err(error) = boot.keep_service().await {
                log::warn!(error:% = error.message; "the service of this server could not be kept");
            }
        }
    }

    /// Retries a hook until it succeeds, and is done.
    async fn repeat<F: Future<Output = Result<(), Status>>>(&self, name: &str, part: impl Fn() -> F) {
        self.attempt(name, part).await;
        if let Some(hook) = self.find(name) {
            hook.done.store(true, Ordering::Release);
        }
    }

    /// Retries a part of a hook until it succeeds.
    async fn attempt<F: Future<Output = Result<(), Status>>>(&self, name: &str, part: impl Fn() -> F) {
        let mut pause = Duration::from_millis(50);
        while let Err(error) = part().await {
            log::error!(part = name, error:% = error.message; "a part of the start failed and is tried again");
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(10));
        }
    }
}

/// Takes this server off the endpoints of the service, and off the list of servers that share its store.
/// Those that go on do not wait for the end of its lifetime there.
pub async fn withdraw(registry: &Arc<Registry>, values: &SystemValues) -> Result<(), Status> {
    let Some(peers) = &values.peers else { return Ok(()) };
    peers.leave();
    Boot::new(registry, values).endpoints().await
}

/// Drops the history of the first start of a store, which no client has seen: as in the reference, no watch
/// can start before its end.
async fn forget(registry: &Registry) {
    let cache = registry.cache();
    if let Err(error) = cache.forget(cache.committed()).await {
        log::warn!(error:%; "the history of the first start could not be given up");
    }
}

struct Boot<'a> {
    client: Client,
    values: &'a SystemValues,
    now: Time,
    identity: Identity,
    /// None of these if their resources are not served.
    defaults: Option<Defaults>,
    schemas: Option<Arc<FlowSchemas>>,
    api_services: Option<Arc<ApiServices>>,
    /// The resources that are not served and were logged as such.
    skipped: Mutex<BTreeSet<&'static str>>,
}

impl<'a> Boot<'a> {
    fn new(registry: &Arc<Registry>, values: &'a SystemValues) -> Self {
        Self {
            client: Client::of_startup(registry.clone(), MANAGER),
            values,
            now: Time::now(),
            identity: Identity::new(),
            defaults: None,
            schemas: None,
            api_services: None,
            skipped: Mutex::default(),
        }
    }
}

impl Boot<'_> {
    async fn namespaces(&self) -> Result<(), Status> {
        let make = |name: &'static str| async move {
            self.create(Address::core("namespaces", ""), &format!(r#"{{"metadata":{{"name":"{name}"}}}}"#))
                .await
        };
        tokio::try_join!(make("default"), make("kube-node-lease"), make("kube-public"), make("kube-system"))
            .map(drop)
    }

    /// The default roles and bindings.
    async fn roles(&self) -> Result<(), Status> {
        let resources = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"];
        let served =
            resources.map(|resource| self.is_served(Address::v1(auth::rbac::GROUP, resource, "kube-system")));
        if served.contains(&false) {
            return Ok(());
        }
        rbac::reconcile(&self.client, self.values.gates, &self.values.pages).await
    }

    /// What this server says of the versions that it stores.
    async fn storage_versions(&self) -> Result<(), Status> {
        match self.is_served(storage_versions::STORAGE_VERSIONS) {
            true => storage_versions::write(&self.client).await,
            false => Ok(()),
        }
    }

    async fn flow_control(&self) -> Result<(), Status> {
        match &self.defaults {
            Some(defaults) => defaults.ensure().await,
            None => Ok(()),
        }
    }

    async fn flow_schemas(&self) -> Result<(), Status> {
        match &self.schemas {
            Some(schemas) => schemas.set_conditions().await,
            None => Ok(()),
        }
    }

    async fn api_services(&self) -> Result<(), Status> {
        match &self.api_services {
            Some(services) => services.register().await,
            None => Ok(()),
        }
    }

    /// Keeps what was made at the start, for as long as the tasks run.
    fn keep_defaults(&self) -> Vec<Task> {
        let defaults = self
            .defaults
            .clone()
            .map(|defaults| tasks::spawn(Name::FlowControlDefaults, move || done(defaults.clone().keep())));
        let schemas = self
            .schemas
            .clone()
            .map(|schemas| tasks::spawn(Name::FlowSchemas, move || done(Box::pin(schemas.clone().run()))));
        let services = self
            .api_services
            .clone()
            .map(|services| tasks::spawn(Name::ApiServices, move || done(Box::pin(services.clone().run()))));
        [defaults, schemas, services].into_iter().flatten().collect()
    }

    async fn priority_classes(&self) -> Result<(), Status> {
        let place = Address::v1("scheduling.k8s.io", "priorityclasses", "");
        for SystemPriorityClass { name, value, description } in SYSTEM_PRIORITY_CLASSES {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}"}},"value":{value},"description":"{description}","preemptionPolicy":"PreemptLowerPriority"}}"#
            );
            self.create(place, &text).await?;
        }
        Ok(())
    }

    async fn token_tracking(&self) -> Result<(), Status> {
        let now = self.now.to_string();
        let day = now.get(..10).unwrap_or_default();
        let text = format!(
            r#"{{"metadata":{{"name":"kube-apiserver-legacy-service-account-token-tracking"}},"data":{{"since":"{day}"}}}}"#
        );
        self.create(Address::core("configmaps", "kube-system"), &text).await
    }

    /// Where new nodes find the server, and how they verify it; a controller signs it. One that is there
    /// stays as it is.
    async fn cluster_info(&self) -> Result<(), Status> {
        let Some(cluster) = &self.values.cluster_info else { return Ok(()) };
        let text = format!(
            r#"{{"metadata":{{"name":"cluster-info"}},"data":{{"kubeconfig":{}}}}}"#,
            json::string(&cluster.to_yaml())
        );
        self.create(Address::core("configmaps", "kube-public"), &text).await
    }

    /// Whether the resource is served: `--runtime-config` can turn it off, or namespaces.
    fn is_served(&self, address: Address<'static>) -> bool {
        let namespaces = Address::core("namespaces", "");
        let Address { resource, namespace, .. } = address;
        if self.client.serves(address) && (namespace.is_empty() || self.client.serves(namespaces)) {
            return true;
        }
        if self.skipped.lock().unwrap_or_else(PoisonError::into_inner).insert(resource) {
            log::warn!(resource; "objects of the start are left out, because they are not served");
        }
        false
    }

    /// Creates an object unless it exists. One that cannot be read exists too: what it says is lost when it
    /// is made anew, so that is left to people.
    async fn create(&self, address: Address<'static>, text: &str) -> Result<(), Status> {
        if !self.is_served(address) {
            return Ok(());
        }
        Box::pin(self.create_object(address, self.client.decode(address, text)?)).await
    }

    async fn create_object(&self, address: Address<'static>, object: Value) -> Result<(), Status> {
        match self.client.get(address.named(name(&object))).await {
            Err(absent) if absent.code == 404 => {}
            Err(damaged) if registry::is_damaged(&damaged) => {
                log::error!(error:% = damaged.message; "the start goes on without an object of the system");
                return Ok(());
            }
            found => return found.map(drop),
        }
        unless_there(self.client.create(address, object).await)
    }

    /// Creates an object, or sets these fields of the existing one.
    async fn apply(
        &self,
        address: Address<'static>,
        text: &str,
        fields: &[&'static str],
    ) -> Result<(), Status> {
        self.apply_with(address, text, |object, wanted| {
            for field in fields {
                match wanted.get(field) {
                    Some(value) => drop(object.insert(*field, value.clone())),
                    None => drop(object.remove(field)),
                }
            }
        })
        .await
    }

    /// Creates an object, or takes the existing one, and sets some of it. `set` also gets what the text says.
    async fn apply_with(
        &self,
        address: Address<'static>,
        text: &str,
        set: impl Fn(&mut Map, &Value),
    ) -> Result<(), Status> {
        if !self.is_served(address) {
            return Ok(());
        }
        let decoded = self.client.decode(address, text)?;
        let mut wanted = decoded.clone();
        wanted.as_map_mut().into_iter().for_each(|object| set(object, &decoded));
        self.create_object(address, wanted.clone()).await?;
        match self.client.modify(address.named(name(&wanted)), |object| set(object, &decoded)).await {
            // The server is the author of the whole object.
            Err(damaged) if registry::is_damaged(&damaged) => {
                self.client.create(address, wanted).await.map(drop)
            }
            outcome => outcome,
        }
    }

    /// An object that cannot be read is left to people; `create` has named it.
    fn readable(&self, outcome: Result<(), Status>) -> Result<(), Status> {
        match outcome {
            Err(damaged) if registry::is_damaged(&damaged) => Ok(()),
            outcome => outcome,
        }
    }
}

/// A loop that ends when there is nothing left to follow.
pub async fn done(work: impl Future<Output = ()>) -> Ended {
    work.await;
    Ended::Done
}

/// Waits for all tasks; the first error that one of them ends with.
async fn finish(mut tasks: JoinSet<Result<(), Status>>) -> Result<(), Status> {
    let mut failed = None;
    while let Some(outcome) = tasks.join_next().await {
        let outcome = outcome.unwrap_or_else(|error| Err(Status::internal_error(&error.to_string())));
        failed = failed.or(outcome.err());
    }
    failed.map_or(Ok(()), Err)
}

/// The outcome of a write that does not matter if another client wrote the object first.
fn unless_there(outcome: Result<Value, Status>) -> Result<(), Status> {
    match outcome {
        Err(conflict) if conflict.code == 409 => Ok(()),
        outcome => outcome.map(drop),
    }
}

fn name(object: &Value) -> &str {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get("name"))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

#[cfg(test)]
mod testing {
    use super::*;
    use store::memory::Memory;

    /// The values of a server without anything special.
    pub(crate) fn values() -> SystemValues {
        SystemValues {
            advertise: [192, 0, 2, 1].into(),
            port: 6443,
            services: ServiceOptions::default(),
            client_authority: String::new(),
            proxy: Vec::new(),
            gates: kinds::Gates::default(),
            pages: Vec::new(),
            priority_and_fairness: false,
            cluster_info: None,
            peers: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_system_namespace_that_was_removed_is_made_again() {
        let registry = registry().await;
        let (hooks, values) = (Hooks::default(), values());
        let (ready, is_ready) = tokio::sync::oneshot::channel();
        let client = Client::new(registry.clone(), auth::SystemIdentity::ApiServer, "test");
        let address = Address::core("namespaces", "").named("kube-node-lease");
        let removed = async {
            is_ready.await.unwrap();
            let before = client.get(address).await.unwrap();
            let end = |object: &mut Map| drop(object.insert("spec", Map::new()));
            client.delete(address, &registry::DeleteOptions::default()).await.unwrap();
            client.modify(address.subresource("finalize"), end).await.unwrap();
            assert_eq!(client.get(address).await.unwrap_err().code, 404);
            loop {
                sleep(Duration::from_secs(1)).await;
                match client.get(address).await {
                    Ok(after) => break assert_ne!(uid(&after), uid(&before)),
                    Err(error) => assert_eq!(error.code, 404),
                }
            }
        };
        let kept = hooks.run(&registry, &values, || ready.send(()).unwrap());
        tokio::select! { () = kept => {}, () = removed => {} }
    }

    fn uid(object: &Value) -> &str {
        object.get("metadata").and_then(|metadata| metadata.get("uid")?.as_str()).unwrap()
    }

    /// A registry over memory, with two namespaces.
    pub(crate) async fn registry() -> Arc<Registry> {
        let specs = registry::specs().unwrap();
        let cache =
            cache::Cache::open(Arc::new(Memory::default()), specs, cache::CacheOptions::default()).await;
        let cache = Arc::new(cache.unwrap());
        let config = registry::Config::new(&cache).unwrap();
        let registry = Arc::new(Registry::new(cache, config).unwrap());
        let client = Client::new(registry.clone(), auth::SystemIdentity::ApiServer, "test");
        for name in ["kube-public", "kube-system"] {
            let namespaces = Address::core("namespaces", "");
            let text = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
            client.create(namespaces, client.decode(namespaces, &text).unwrap()).await.unwrap();
        }
        registry
    }
}

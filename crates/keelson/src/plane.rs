//! A control plane over a cache: what serves, admits, allocates and controls its objects. The server has one,
//! and each fork has one of its own, put together of the same parts.

use std::sync::Arc;
use std::time::Duration;

use access::authorization;
use admission::plugins::Quotas;
use admission::webhook::Breakers;
use aggregation::Aggregation;
use allocation::{PortRecord, Services};
use auth::{Authenticators, SystemIdentity};
use cache::Cache;
use controllers::{ControllerSettings, Leadership, Supervisor, event_expiry, service_repair};
use definitions::conversion::Clients;
use definitions::{Definitions, Handled, Inherited, SharedKinds};
use registry::{Client, Escalation, PluginWriter, PolicyPermissions, Registry, TokenIssuing, WriteHooks};
use server::{Lifecycle, Phase};
use store::Revision;
use system::{LocalComponents, ServiceOptions};
use tasks::{Name, Task};

use crate::backends;
use crate::kubelets;
use crate::options::ServerOptions;
use crate::run::{Error, keep};
use crate::service_accounts::LastUses;

/// What serves the objects of a cache.
pub(crate) struct Plane {
    pub(crate) registry: Arc<Registry>,
    pub(crate) breakers: Breakers,
    pub(crate) quotas: Quotas,
    pub(crate) services: Services,
    /// Services up to this revision were made by an earlier process.
    pub(crate) services_before: Revision,
    pub(crate) aggregation: Option<Arc<Aggregation>>,
    /// The custom kinds, for forks.
    pub(crate) kinds: SharedKinds,
}

/// What a control plane is put together with beside the options.
pub(crate) struct PlaneParts<'a> {
    pub(crate) cache: Arc<Cache>,
    pub(crate) authenticators: Arc<Authenticators>,
    pub(crate) tokens: TokenIssuing,
    pub(crate) last_uses: LastUses,
    /// The node ports that several servers share.
    pub(crate) ports: Option<PortRecord>,
    /// How other API servers know this server.
    pub(crate) proxy: &'a backends::Identity,
    /// The host and port of this server.
    pub(crate) own_address: String,
    /// What a fork shares with its server.
    pub(crate) beside: Option<Beside<'a>>,
}

/// What a fork shares with its server.
pub(crate) struct Beside<'a> {
    /// What is known of built-in kinds.
    pub(crate) registry: &'a Registry,
    /// Custom kinds.
    pub(crate) kinds: Inherited,
}

impl Plane {
    /// Serves the objects of a cache, custom kinds included.
    pub(crate) async fn assemble(options: &ServerOptions, parts: PlaneParts<'_>) -> Result<Self, Error> {
        let PlaneParts { cache, authenticators, tokens, last_uses, ports, proxy, own_address, beside } =
            parts;
        let shared = admission::config::shared(&options.admission, &cache)?;
        let services = services(options, &cache, ports)?;
        let handled =
            Handled::new(&cache).ok_or_else(|| registry::Error::Missing(definitions::RESOURCE.into()))?;
        let services_before = service_repair::earlier(&cache);
        let hooks = WriteHooks::default().with("", "services", Arc::new(services.clone())).with(
            definitions::GROUP,
            definitions::RESOURCE,
            Arc::new(handled.clone()),
        );
        let config = config(options, &cache, authenticators, tokens, &shared, hooks)?;
        let registry = match &beside {
            Some(server) => server.registry.beside(cache, config)?,
            None => Registry::new(cache, config)?,
        };
        let registry = Arc::new(registry);
        services.connect(&registry);
        shared.writer.connect(Arc::new(PluginWriter::new(&registry)));
        last_uses.start(&registry);
        // Custom kinds are there from the first request on.
        let mut definitions =
            Definitions::new(&registry, handled, conversion_clients(options, registry.cache())?)
                .inheriting(beside.map(|server| server.kinds));
        definitions.load().await;
        let kinds = definitions.shared();
        definitions.start().detach();
        let aggregation = backends::start(options, &registry, proxy, own_address)?;
        let (breakers, quotas) = (shared.breakers, shared.quotas);
        Ok(Self { registry, breakers, quotas, services, services_before, aggregation, kinds })
    }

    /// Keeps the addresses and node ports of services: the record that servers share, and the repair.
    pub(crate) fn keep_services(&self) {
        let registry = &self.registry;
        if registry.cache().store().is_shared() {
            let services = self.services.clone();
            keep(Name::PortRecord, move || services.clone().keep_port_record());
        }
        let (cache, services, before) =
            (registry.cache().clone(), self.services.clone(), self.services_before);
        let client = Client::new(registry.clone(), SystemIdentity::ApiServer, service_repair::COMPONENT);
        keep(Name::ServiceRepair, move || {
            Box::pin(service_repair::run(cache.clone(), services.clone(), before, client.clone()))
        });
    }
}

/// Deletes expired events where the store does not.
pub(crate) fn keep_events(registry: &Registry, time_to_live: Duration) {
    if !registry.cache().store().expires() {
        let cache = registry.cache().clone();
        keep(Name::EventExpiry, move || event_expiry::run(cache.clone(), time_to_live));
    }
}

/// What runs beside requests and acts on objects.
#[derive(Clone)]
pub(crate) struct Loops {
    /// Which controllers run; `None` for none.
    pub(crate) controllers: Option<controllers::Selection>,
    /// Whether pods are assigned to nodes.
    pub(crate) schedules: bool,
    /// Whether nodes that exist on paper are played.
    pub(crate) plays_nodes: bool,
}

impl Loops {
    /// Those of the options.
    pub(crate) fn of(options: &ServerOptions, cache: &Cache) -> Self {
        Self {
            controllers: Some(options.controllers.clone()),
            schedules: options.scheduler.unwrap_or_else(|| is_whole(options, cache)),
            plays_nodes: plays_nodes(options, cache),
        }
    }

    /// Starts them; the task ends with the server.
    pub(crate) fn start(
        self,
        options: &ServerOptions,
        settings: ControllerSettings,
        registry: &Arc<Registry>,
        lifecycle: &Lifecycle,
    ) -> impl FnOnce() -> Task + Send + 'static {
        let nodes = options.nodes.clone();
        let (registry, lifecycle) = (registry.clone(), lifecycle.clone());
        let run = move || {
            let host = system::host_name();
            let leadership = Leadership::new(&registry, &host);
            let none = || {
                let mut none = controllers::Selection::default();
                // It is a valid entry.
                let _ = none.add("-*");
                none
            };
            let selection = self.controllers.clone().unwrap_or_else(none);
            let mut supervisor = Supervisor::new(&registry, &selection, settings.clone());
            if self.schedules {
                let registry = registry.clone();
                supervisor = supervisor.and(move || scheduler::start(&registry, &host));
            }
            if self.plays_nodes {
                let (registry, options) = (registry.clone(), nodes.clone());
                supervisor = supervisor.and(move || nodes::start(&registry, &options));
            }
            let lifecycle = lifecycle.clone();
            system::done(supervisor.run(leadership, async move { lifecycle.reached(Phase::Draining).await }))
        };
        move || tasks::spawn(Name::Controllers, run)
    }
}

/// Whether nodes that exist on paper are played by this server, or by another one on the same etcd.
fn plays_nodes(options: &ServerOptions, cache: &Cache) -> bool {
    options.plays_nodes.unwrap_or_else(|| is_whole(options, cache))
}

/// Whether this process is a whole control plane, as far as flags do not say more: it keeps its objects
/// itself, and runs controllers.
fn is_whole(options: &ServerOptions, cache: &Cache) -> bool {
    let runs_controllers = controllers::CONTROLLERS.iter().any(|each| options.controllers.runs(each));
    !cache.store().is_shared() && runs_controllers
}

/// What gives addresses and node ports to services.
fn services(options: &ServerOptions, cache: &Cache, record: Option<PortRecord>) -> Result<Services, Error> {
    let ServiceOptions { range, secondary_range, node_ports, .. } = options.services;
    let config = allocation::Config { range, secondary: secondary_range, ports: node_ports };
    let services = Services::new(cache, &config, record);
    Ok(services.ok_or_else(|| registry::Error::Missing("services".into()))?)
}

/// What connects to the conversion webhooks of definitions.
fn conversion_clients(options: &ServerOptions, cache: &Cache) -> Result<Clients, Error> {
    let find = |name: &str| cache.resource(name).ok_or_else(|| registry::Error::Missing(name.to_owned()));
    let endpoints =
        options.admission.settings.webhooks.endpoint_routing.then(|| find("endpoints")).transpose()?;
    Ok(Clients::new(admission::webhook::services(find("services")?, endpoints)))
}

/// The configuration of a registry.
fn config(
    options: &ServerOptions,
    cache: &Arc<Cache>,
    authenticators: Arc<Authenticators>,
    tokens: TokenIssuing,
    shared: &admission::plugins::Shared,
    hooks: WriteHooks,
) -> Result<registry::Config, Error> {
    let rbac = authorization::rbac(cache)?;
    let authorizer = authorization::authorizer(&options.access, cache, &rbac)?;
    let authorizer = match options.gates.authorization_selectors {
        true => authorizer,
        false => authorizer.without_selectors(),
    };
    Ok(registry::Config {
        selection: options.selection.clone(),
        watch_list: options.gates.watch_list,
        watch_caches: options.watch_caches.clone(),
        unsafe_delete: options.gates.unsafe_delete,
        garbage_collection: options.garbage_collection,
        objects: options.objects,
        binding_labels: options.gates.admission.pod_topology_labels,
        authenticators,
        tokens: Some(tokens),
        components: Some(Arc::new(LocalComponents::new(cache))),
        kubelets: kubelets::addresses(&options.kubelets),
        paper_nodes: plays_nodes(options, cache),
        admission: admission::config::chain(&options.admission, cache, &authorizer, shared)?,
        authorizer,
        hooks: PolicyPermissions::add_to(Escalation::add_to(hooks, &rbac), cache),
    })
}

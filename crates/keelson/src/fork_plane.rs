//! Puts the control planes of forks together: over their caches, with what they share with the server.
//!
//! | part of a fork | |
//! |---|---|
//! | states of objects, compiled kinds | shared with the server until one side changes them |
//! | client certificates, static tokens, issuers, webhooks for tokens; limits of requests in flight and of memory; audit, spans, costs | those of the server |
//! | custom kinds, permissions, admission, allocation, documents, controllers, other API servers | its own |
//! | the key of service account tokens | its own; tokens of the server are accepted while their account is there |
//!
//! Controllers start when something has changed in the fork, or a moment after its first request. Before that
//! nobody can see whether they run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use audit::Auditor;
use auth::Authenticators;
use cache::Cache;
use controllers::ControllerSettings;
use definitions::{Inherited, SharedKinds};
use forks::{Assemble, Controllers, Parts};
use registry::Registry;
use server::api::{self, Api};
use server::forks::{DynHandler, PATH};
use server::version::Info;
use server::{ForkLayers, Lifecycle};
use system::{Hooks, SystemValues, health};
use tasks::{BoxFuture, Ended, Name};

use crate::backends;
use crate::kubelets;
use crate::options::ServerOptions;
use crate::plane::{Beside, Loops, Plane, PlaneParts, keep_events};
use crate::run::Error;
use crate::service_accounts::{LastUses, TokenKeys};
use access::authentication;

/// How long after the first request controllers start, if nothing changes before.
const SETTLED: Duration = Duration::from_secs(1);
/// The names by which a fork asks for the scheduler, and for nodes on paper.
const SCHEDULER: &str = "scheduler";
const NODES: &str = "nodes";

/// What forks share with the server.
pub(crate) struct ForkPlanes {
    pub(crate) options: ServerOptions,
    pub(crate) registry: Arc<Registry>,
    /// The custom kinds of the server.
    pub(crate) kinds: SharedKinds,
    pub(crate) authenticators: Arc<Authenticators>,
    pub(crate) keys: TokenKeys,
    /// The host and port of the server for its clients.
    pub(crate) external: String,
    pub(crate) proxy: backends::Identity,
    pub(crate) own_address: String,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) auditor: Option<Arc<Auditor>>,
    pub(crate) values: Arc<SystemValues>,
    /// The settings of the controllers of the server.
    pub(crate) settings: ControllerSettings,
    pub(crate) api: api::ApiConfig,
    pub(crate) version: Arc<Info>,
    pub(crate) layers: ForkLayers,
}

/// The forks of a server, as [`forks::Assemble`].
pub(crate) struct Assembly(pub(crate) Arc<ForkPlanes>);

impl Assemble for Assembly {
    fn assemble(&self, parts: Parts) -> BoxFuture<'static, Result<Arc<dyn DynHandler>, String>> {
        let planes = self.0.clone();
        Box::pin(async move { planes.assemble(parts).await.map_err(|error| error.to_string()) })
    }

    fn check(&self, controllers: &Controllers) -> Result<(), String> {
        self.0.loops(controllers, self.0.registry.cache()).map(drop)
    }
}

impl ForkPlanes {
    async fn assemble(&self, parts: Parts) -> Result<Arc<dyn DynHandler>, Error> {
        let Parts { name, snapshot, store, key, controllers } = parts;
        let options = &self.options;
        let settings = storage::cache_options(&options.storage);
        let cache = Arc::new(Cache::over(&snapshot, store, settings));
        let loops = self.loops(&controllers, &cache).map_err(Error::Flag)?;
        let service_accounts =
            self.keys.of_fork(options, &key, &format!("{}{PATH}/{name}/server", self.external))?;
        let last_uses = LastUses::default();
        let tokens = service_accounts.authenticator(options, &cache, last_uses.clone())?;
        let methods = authentication::by_objects(&options.access, &cache, tokens)?;
        let authenticators = Arc::new(self.authenticators.with_objects_of(methods));
        let parts = PlaneParts {
            cache,
            authenticators: authenticators.clone(),
            tokens: service_accounts.issuing,
            last_uses,
            ports: None,
            proxy: &self.proxy,
            own_address: self.own_address.clone(),
            beside: Some(Beside {
                registry: &self.registry,
                kinds: Inherited { kinds: self.kinds.clone(), revision: snapshot.revision() },
            }),
        };
        let plane = Plane::assemble(options, parts).await?;
        let registry = plane.registry.clone();
        // The objects of the start are there: the fork began with them.
        let hooks = Arc::new(Hooks::done());
        let encrypted = health::Encrypted { plugins: None, is_reloaded: false };
        let (breakers, auditor) = (plane.breakers.clone(), self.auditor.clone());
        let checks =
            health::checks(&registry, &hooks, &self.lifecycle, breakers, encrypted, auditor, Instant::now())?;
        let authorizer = registry.config().authorizer.clone();
        let backends = kubelets::backends(&options.kubelets)?;
        let api = Api::new(registry.clone(), self.lifecycle.clone(), self.api.clone(), backends)
            .with_aggregation(plane.aggregation.clone());
        let fairness = self.layers.fairness.as_ref();
        let layers = ForkLayers {
            fairness: fairness.map(|limits| limits.of_fork(registry.clone(), authorizer.clone())),
            memory: self.layers.memory.as_ref().map(|limits| limits.of_fork(registry.clone())),
            ..self.layers.clone()
        };
        let version = self.version.clone();
        let handler = server::fork_stack(api, authenticators, &authorizer, Arc::new(checks), version, layers);
        self.start_later(plane, loops);
        Ok(server::forks::shared(handler))
    }

    /// What runs in a fork beside requests.
    fn loops(&self, wanted: &Controllers, cache: &Cache) -> Result<Loops, String> {
        let own = Loops::of(&self.options, cache);
        match wanted {
            Controllers::AsParent => Ok(own),
            Controllers::None => Ok(Loops { controllers: None, schedules: false, plays_nodes: false }),
            Controllers::Named(names) => {
                let mut loops = Loops { controllers: None, schedules: false, plays_nodes: false };
                for name in names {
                    match name.as_str() {
                        SCHEDULER => loops.schedules = true,
                        NODES => loops.plays_nodes = true,
                        "" | "*" => return Err("a name of a controller is needed".into()),
                        name if name.starts_with('-') || name.contains(',') => {
                            return Err(format!("{name} is not the name of a controller"));
                        }
                        name => {
                            let selection = loops.controllers.get_or_insert_default();
                            selection.add(name).map_err(|unknown| unknown.to_string())?;
                        }
                    }
                }
                Ok(loops)
            }
        }
    }

    /// Starts what acts on objects by itself, when something has changed or a moment has passed.
    fn start_later(&self, plane: Plane, loops: Loops) {
        let store = plane.registry.cache().store().clone();
        let first = store.known_revision();
        let settings = ControllerSettings {
            aggregation: plane.aggregation.clone(),
            quotas: plane.quotas.clone(),
            indexes: controllers::Indexes::default(),
            ..self.settings.clone()
        };
        let acts = loops.controllers.is_some() || loops.schedules || loops.plays_nodes;
        let controllers = loops.start(&self.options, settings, &plane.registry, &self.lifecycle);
        let (values, time_to_live) = (self.values.clone(), self.options.storage.event_ttl);
        let start = move || {
            plane.keep_services();
            keep_events(&plane.registry, time_to_live);
            system::keep_fork(&plane.registry, &values).into_iter().for_each(tasks::Task::detach);
            if acts {
                controllers().detach();
            }
        };
        // The task may be started again, the controllers are started once.
        let start = Arc::new(Mutex::new(Some(start)));
        tasks::spawn(Name::ForkControllers, move || {
            let (store, start) = (store.clone(), start.clone());
            async move {
                tokio::select! {
                    // It fails when the fork has ended, and then this task ends too.
                    _ = store.changed(first) => {}
                    () = tokio::time::sleep(SETTLED) => {}
                }
                if let Some(start) = start.lock().unwrap_or_else(PoisonError::into_inner).take() {
                    start();
                }
                Ended::Done
            }
        })
        .detach();
    }
}

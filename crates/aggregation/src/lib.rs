//! Aggregation: other API servers behind this one, each registered by an `APIService`.
//!
//! 1. [`Table`] is everything that is known of them at one moment: which group versions they serve, how they
//!    are reached, whether they are available, and what they say of themselves. It is immutable, and swapped
//!    as a whole. A request takes it once.
//! 2. [`Aggregation::run`] is the task that keeps it: it follows API services, services and endpoints, and
//!    asks the servers behind them. A server that hangs costs its own questions their time, and nothing else.
//! 3. [`Mirror`] has the metadata of their objects, for garbage collection and quotas. It is kept by lists
//!    and watches, and only while somebody follows it.
//! 4. [`Remote`] is one group version of such a server. The crate `server` hands requests on through it.
//!
//! API services that this server serves itself are made and kept by the crate `system`.

#![deny(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::indexing_slicing, reason = "an index out of range fails the test"))]

mod availability;
mod content;
mod discovery;
mod documents;
mod families;
mod fetch;
mod headers;
mod jobs;
mod objects;
mod priorities;
mod registration;
mod remote;
mod table;
#[cfg(test)]
mod tests;
mod work;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use admission::Lister;
use cache::Resource;
use outbound::{CertificateFiles, ForwardTo, Forwarder, ResolveService, TlsError, Trust};
use registry::{Address, Client, Registry};
use schema::view::View as _;
use schema::views::apiregistration::v1::APIService;
use tokio::sync::watch;

pub use content::{RemoteObjects, RemoteResource, RemoteResources, RemoteWrite};
pub use documents::{V2, V3};
pub use families::{count_unavailable, forget_availability, register_families, show_availability};
pub use headers::InvalidHeader;
pub use objects::{Known, Mirror, MirrorChange, RemoteObject, Subscription};
pub use priorities::{Priorities, builtin as builtin_priorities, of as priorities_of};
pub use registration::Available;
pub use remote::{Refusal, Remote, Use};
pub use table::Table;

use discovery::Discoveries;
use registration::Registration;

/// The resource of API services.
pub const API_SERVICES: Address<'static> = Address::v1("apiregistration.k8s.io", "apiservices", "");

/// The name under which conditions are written.
const MANAGER: &str = "kube-apiserver";

/// How servers behind this one are reached.
pub struct Config {
    /// Finds the addresses of services.
    pub resolve: ResolveService,
    /// The certificate by which the servers know this one.
    pub certificate: Option<CertificateFiles>,
    /// Whether the servers are told the uids of users: the gate RemoteRequestHeaderUID.
    pub uids: bool,
    /// Whether a redirect by a server is refused: `--aggregator-reject-forwarding-redirect`.
    pub refuses_redirects: bool,
}

/// The servers behind this one.
pub struct Aggregation {
    client: Client,
    config: Config,
    known: Lister<Registration>,
    resource: Arc<Resource>,
    services: Arc<Resource>,
    endpoints: Arc<Resource>,
    /// Asks whether servers answer, without verifying who they are: nothing that they say is used.
    prober: Forwarder,
    table: RwLock<Arc<Table>>,
    /// Whether the table has a remote group version, so that a request learns that there is none by one load.
    has_remotes: AtomicBool,
    discoveries: Mutex<Discoveries>,
    /// The generation of the table.
    generation: watch::Sender<u64>,
    /// The metadata of the objects of other servers, while somebody follows it.
    mirror: Mutex<Weak<Mirror>>,
}

impl std::fmt::Debug for Aggregation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Aggregation").finish_non_exhaustive()
    }
}

impl Aggregation {
    /// The servers that the stored API services name; `None` if one of the resources does not exist.
    pub fn new(registry: &Arc<Registry>, config: Config) -> Result<Option<Self>, TlsError> {
        let find = |name: &str| registry.cache().resource(name);
        let Some(resource) = find(&format!("{}.{}", API_SERVICES.resource, API_SERVICES.group)) else {
            return Ok(None);
        };
        let (Some(services), Some(endpoints)) = (find("services"), find("endpoints")) else {
            return Ok(None);
        };
        let prober = Forwarder::new(ForwardTo {
            trust: Trust::Anyone,
            server_name: None,
            certificate: config.certificate.clone(),
            http2: true,
        })?;
        let aggregation = Self {
            client: Client::of_startup(registry.clone(), MANAGER),
            config,
            known: Lister::new(resource.clone(), APIService::schema(), |object| {
                Some(Registration::read(object))
            }),
            resource,
            services,
            endpoints,
            prober,
            table: RwLock::default(),
            has_remotes: AtomicBool::new(false),
            discoveries: Mutex::default(),
            generation: watch::Sender::default(),
            mirror: Mutex::default(),
        };
        aggregation.refresh();
        Ok(Some(aggregation))
    }

    /// Whether a redirect by a server is refused.
    pub fn refuses_redirects(&self) -> bool {
        self.config.refuses_redirects
    }

    /// Whether the servers are told the uids of users.
    pub fn tells_uids(&self) -> bool {
        self.config.uids
    }

    /// The remote group version that a decoded path is in.
    #[inline]
    pub fn find(&self, path: &str) -> Option<Arc<Remote>> {
        if !self.has_remotes.load(Ordering::Relaxed) {
            return None;
        }
        self.table().find(path).cloned()
    }

    /// What is known now.
    pub fn table(&self) -> Arc<Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells when the table has become another one.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Takes the API services as they are stored now.
    fn refresh(&self) {
        let known = self.known.all();
        let mut current = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(next) = current.with_registrations(known, &self.config) {
            self.publish(&mut current, next);
        }
    }

    /// Changes what is known of one remote group version. Nothing happens if it is gone.
    fn change(&self, name: &str, change: impl FnOnce(&mut Remote)) {
        let mut current = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(next) = current.with_change(name, change) {
            self.publish(&mut current, next);
        }
    }

    fn publish(&self, current: &mut Arc<Table>, next: Table) {
        self.has_remotes.store(next.has_remotes(), Ordering::Relaxed);
        let generation = next.generation();
        *current = Arc::new(next);
        self.generation.send_replace(generation);
    }
}

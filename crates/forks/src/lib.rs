//! Forks: control planes within the process of a server that begin as copies of it.
//!
//! A fork has the objects of its parent as they were when it was made, and shares their memory for as long as
//! neither side changes them. It has revisions, watches, permissions and controllers of its own; nothing that
//! happens in it is seen by the parent or by another fork, or the other way round.
//!
//! 1. **A fork is a snapshot and an empty store over it.** Making one, resetting it and dropping it take the
//!    time of some pointers. The control plane is put together by the first request to it ([`Assemble`]).
//! 2. **A reset begins a new life.** The tasks, watches and requests of the life before end. Revisions go on
//!    after those of the life before, so that no client takes a state of one life for one of the other: its
//!    watches are too old, and begin anew.
//! 3. **Nothing is written to disk.** A fork ends with the process, and leaves nothing behind.
//! 4. **Bounded**: by their number, and by the memory of all of them together ([`Limits`]). What a fork
//!    shares with its parent does not count.
//!
//! What it leaves to others: what a control plane consists of (`keelson::plane`), and the way of requests
//! into a fork ([`server::forks`]).

mod control;
mod endpoints;
mod families;
mod fork;
mod kubeconfig;
mod request;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cache::{Cache, Snapshot};
use object::name;
use object::quote::quote;
use schema::Status;
use schema::status::Reason;
use server::forks::DynHandler;
use store::Codec;
use store::memory::{Budget, Memory, MemoryOptions};
use tasks::BoxFuture;

use fork::Fork;

pub use families::register_families;
pub use request::{Controllers, ForkRequest};

/// What a control plane takes beside what is changed in it, about: its types, kinds, indexes and tasks.
const PLANE: usize = 1 << 20;

/// What forks may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many there may be at once.
    pub forks: usize,
    /// The bytes that all of them together may hold beside what they share with the parent.
    pub bytes: usize,
    /// For how long each keeps its history.
    pub retention: Duration,
}

/// What a control plane is put together of.
pub struct Parts {
    /// The name of the fork.
    pub name: String,
    /// What it begins with.
    pub snapshot: Arc<Snapshot>,
    /// The store over that, which nothing was written to.
    pub store: Arc<Memory>,
    /// The key that signs tokens of its service accounts, in PEM.
    pub key: String,
    /// Which controllers run in it.
    pub controllers: Controllers,
}

/// Puts control planes together.
pub trait Assemble: Send + Sync + 'static {
    /// A control plane. The tasks that it starts, it starts while the future runs: they belong to the fork.
    fn assemble(&self, parts: Parts) -> BoxFuture<'static, Result<Arc<dyn DynHandler>, String>>;

    /// Why a choice of controllers cannot be met, if it cannot.
    fn check(&self, controllers: &Controllers) -> Result<(), String>;
}

/// How the server is reached by the administrator of its data directory.
pub struct Administrator {
    /// The URL of the server.
    pub url: String,
    /// The text of the administrator's kubeconfig, with that URL.
    pub kubeconfig: Box<dyn Fn() -> std::io::Result<String> + Send + Sync>,
}

/// The forks of a server.
pub struct Forks(Option<Arc<Table>>);

/// The table of forks, of a server that can have some.
struct Table {
    parent: Arc<Cache>,
    limits: Limits,
    budget: Arc<Budget>,
    assemble: Arc<dyn Assemble>,
    /// How values lie in a backup, if they are encrypted there.
    sealed: Option<Arc<dyn Codec>>,
    administrator: Administrator,
    /// The authority of the server, in PEM.
    authority: Box<dyn Fn() -> Arc<str> + Send + Sync>,
    forks: Mutex<BTreeMap<String, Arc<Fork>>>,
}

/// What a server has for its forks.
pub struct Config {
    /// The objects of the server.
    pub parent: Arc<Cache>,
    /// What forks may be.
    pub limits: Limits,
    /// Puts control planes together.
    pub assemble: Arc<dyn Assemble>,
    /// How values lie in a backup, if they are encrypted there.
    pub sealed: Option<Arc<dyn Codec>>,
    /// How the administrator reaches the server.
    pub administrator: Administrator,
    /// The authority by which clients verify the server, in PEM.
    pub authority: Box<dyn Fn() -> Arc<str> + Send + Sync>,
}

impl Forks {
    /// No forks yet. There are none at all where other servers may write to the objects of the parent.
    pub fn new(config: Config) -> Arc<Self> {
        let Config { parent, limits, assemble, sealed, administrator, authority } = config;
        if parent.store().is_shared() {
            return Arc::new(Self(None));
        }
        let budget = Budget::new(limits.bytes);
        let forks = Mutex::default();
        let table = Table { parent, limits, budget, assemble, sealed, administrator, authority, forks };
        let table = Arc::new(table);
        families::observe(&table);
        Arc::new(Self(Some(table)))
    }

    fn table(&self) -> Result<&Arc<Table>, Status> {
        self.0.as_ref().ok_or_else(|| {
            let why = "a server on etcd has no forks: they begin with objects that one process alone writes";
            refusal(501, Reason::from("NotImplemented"), why)
        })
    }
}

impl Table {
    /// Makes a fork of the parent as it is now.
    fn create(self: &Arc<Self>, request: ForkRequest) -> Result<Arc<Fork>, Status> {
        self.assemble.check(&request.controllers).map_err(Status::bad_request)?;
        if let Some(name) = &request.name
            && let Some(wrong) = name::dns1123_label(name).first()
        {
            return Err(Status::bad_request(format!("the name {} is no DNS label: {wrong}", quote(name))));
        }
        let mut forks = self.forks();
        self.check_limits(forks.len())?;
        let name = match request.name {
            Some(name) if forks.contains_key(&name) => {
                return Err(Status::already_exists("", "forks", &name));
            }
            Some(name) => name,
            None => self.free_name(&forks)?,
        };
        // The lock is held: it is a matter of microseconds.
        let snapshot = self.parent.snapshot().map_err(not_now)?;
        let fork = Arc::new(Fork::new(self, &name, Arc::new(snapshot), request.controllers));
        forks.insert(name.clone(), fork.clone());
        drop(forks);
        log::info!(fork = name.as_str(), revision = fork.revision().0, objects = fork.objects(); "a fork was made");
        Ok(fork)
    }

    fn check_limits(&self, number: usize) -> Result<(), Status> {
        if number >= self.limits.forks {
            let why = format!("there are {number} forks already, as many as --max-forks says: drop some");
            return Err(Status::too_many_requests(why));
        }
        if self.budget.is_spent() {
            let (used, limit) = (self.budget.used(), self.budget.limit());
            let why =
                format!("the forks hold {used} of the {limit} bytes of --forks-memory: drop or reset some");
            return Err(Status::too_many_requests(why));
        }
        Ok(())
    }

    fn free_name(&self, forks: &BTreeMap<String, Arc<Fork>>) -> Result<String, Status> {
        let mut names = (0..8).map(|_| name::generate("fork-"));
        let free = names.find(|name| !forks.contains_key(name));
        free.ok_or_else(|| Status::internal_error("no free name was found for a fork"))
    }

    fn find(&self, name: &str) -> Result<Arc<Fork>, Status> {
        self.forks().get(name).cloned().ok_or_else(|| Status::not_found("", "forks", name))
    }

    /// All forks, in the order of their names.
    fn all(&self) -> Vec<Arc<Fork>> {
        self.forks().values().cloned().collect()
    }

    /// Ends a fork.
    fn remove(&self, name: &str) -> Result<Arc<Fork>, Status> {
        let removed = self.forks().remove(name);
        let fork = removed.ok_or_else(|| Status::not_found("", "forks", name))?;
        fork.end();
        log::info!(fork = name; "a fork was dropped");
        Ok(fork)
    }

    fn memory_options(&self) -> MemoryOptions {
        let (retention, budget) = (self.limits.retention, Some(self.budget.clone()));
        MemoryOptions { retention, budget, ..MemoryOptions::default() }
    }

    fn forks(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Fork>>> {
        self.forks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A refusal of requests about forks.
fn refusal(code: u16, reason: Reason, why: impl Into<String>) -> Status {
    Status { code, reason, message: why.into(), details: None, token: String::new() }
}

/// The status of a cache that gives no snapshot at present.
fn not_now(error: cache::Error) -> Status {
    Status::service_unavailable(format!("the state of the server cannot be taken now: {error}"))
}

#[cfg(test)]
mod tests;

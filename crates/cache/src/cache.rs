//! All resource types of a store, kept in step with it.

use crate::{
    CacheOptions, Encodings, Error, Resource, Spec,
    follow::{self, Command},
    load,
    resource::Core,
};
use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, atomic::Ordering},
};
use store::{Health, Revision, Store};
use tokio::sync::{mpsc, oneshot};

/// The resource types that are served, by the prefixes of their keys.
pub(crate) type Routes = RwLock<HashMap<String, Arc<Resource>>>;

/// All resource types of a store, in memory, and kept in step with it by one task.
///
/// Dropping the cache ends the task; its resources and their watchers then answer [`Error::Closed`].
pub struct Cache {
    core: Arc<Core>,
    routes: Arc<Routes>,
    commands: mpsc::UnboundedSender<Command>,
    /// The caches of other stores: see [`Cache::with`].
    beside: Vec<Self>,
}

impl Cache {
    /// Loads these types from a store, with the newest of their history, and follows it from there. Needs a
    /// runtime, on which the task runs.
    pub async fn open(
        store: Arc<dyn Store>,
        specs: impl IntoIterator<Item = Spec>,
        options: CacheOptions,
    ) -> Result<Self, Error> {
        let mut by_prefix = HashMap::new();
        for spec in specs {
            let prefix = spec.prefix().to_owned();
            if by_prefix.insert(prefix.clone(), Arc::new(spec)).is_some() {
                return Err(Error::Exists { prefix });
            }
        }
        // The following task notices if the store begins another lineage during the load.
        let lineage = store.lineage();
        let loaded = load::everything(store.clone(), by_prefix.into_values().collect()).await?;
        let revision = loaded.revision;
        let logs = load::history(&store, &loaded, &options).await;
        let core = Arc::new(Core::new(store, lineage, revision, options));
        let resources = loaded.views.into_iter().zip(logs).map(|((spec, view), log)| {
            let resource = Resource::new(spec.clone(), core.clone(), view, log);
            (spec.prefix().to_owned(), Arc::new(resource))
        });
        let resources = resources.collect();
        Ok(Self::follow(core, resources))
    }

    /// The cache of these types, which follows its store from now on. Needs a runtime.
    pub(crate) fn follow(core: Arc<Core>, resources: HashMap<String, Arc<Resource>>) -> Self {
        let routes = Arc::new(RwLock::new(resources));
        core.applier.open(routes.clone());
        let (commands, received) = mpsc::unbounded_channel();
        follow::start(core.clone(), routes.clone(), received);
        Self { core, routes, commands, beside: Vec::new() }
    }

    /// Adds the types of another store. Their revisions are those of their own store, and cannot be compared
    /// with the revisions of this cache.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.beside.push(other);
        self
    }

    /// The resource type whose keys start with a prefix.
    pub fn resource(&self, prefix: &str) -> Option<Arc<Resource>> {
        let own = self.routes.read().unwrap_or_else(PoisonError::into_inner).get(prefix).cloned();
        own.or_else(|| self.beside.iter().find_map(|other| other.resource(prefix)))
    }

    /// All resource types, in no order.
    pub fn resources(&self) -> Vec<Arc<Resource>> {
        let mut all = self.own_resources();
        all.extend(self.beside.iter().flat_map(Self::resources));
        all
    }

    /// The resource types of the first store.
    pub(crate) fn own_resources(&self) -> Vec<Arc<Resource>> {
        self.routes.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The objects whose stored bytes cannot be read, of all types.
    pub fn unreadable(&self) -> Vec<store::Unreadable> {
        self.resources().iter().flat_map(|resource| resource.unreadable()).collect()
    }

    /// Adds a resource type, with the objects of it that the store holds. The others go on meanwhile.
    pub async fn add(&self, spec: Spec) -> Result<Arc<Resource>, Error> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(Command::Add { spec: Arc::new(spec), reply }).map_err(|_| Error::Closed)?;
        answer.await.unwrap_or(Err(Error::Closed))
    }

    /// Stops serving a resource type; its objects stay in the store. False if the type was not served.
    pub async fn remove(&self, prefix: &str) -> Result<bool, Error> {
        let (reply, answer) = oneshot::channel();
        self.commands
            .send(Command::Remove { prefix: prefix.to_owned(), reply })
            .map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)
    }

    /// The newest revision that every type can serve.
    pub fn revision(&self) -> Revision {
        self.core.progress.revision()
    }

    /// The newest committed revision that this process knows, without a question to the store.
    pub fn committed(&self) -> Revision {
        self.core.store.known_revision()
    }

    /// Asks the store for the newest committed revision, of this process or another that shares the data.
    pub async fn newest(&self) -> Result<Revision, Error> {
        Ok(self.core.store.newest_revision().await?)
    }

    /// Waits until every type can serve a revision, at most for the time that the options say.
    pub async fn wait_for(&self, revision: Revision) -> Result<(), Error> {
        self.core.wait_for(self.core.progress.lineage(), revision).await
    }

    /// Compacts all history before a revision, in the cache and in the store: watches and exact reads of
    /// earlier revisions are then too old.
    pub async fn forget(&self, to: Revision) -> Result<(), Error> {
        self.wait_for(to).await?;
        for resource in self.own_resources() {
            resource.forget(to);
        }
        Ok(self.core.store.compact(to).await?)
    }

    /// Other encodings of entries.
    pub fn encodings(&self) -> &Encodings {
        &self.core.encodings
    }

    /// The bytes of superseded states that the logs of all types hold.
    pub fn log_bytes(&self) -> usize {
        let beside = self.beside.iter().map(Self::log_bytes).sum::<usize>();
        self.core.log_bytes.load(Ordering::Relaxed) + beside
    }

    /// The bytes of all states that were superseded since the start, whether they are still held or not: the
    /// difference of two such figures bounds what a state that was taken in between keeps in memory by
    /// itself.
    pub fn superseded_bytes(&self) -> u64 {
        let beside = self.beside.iter().map(Self::superseded_bytes).sum::<u64>();
        self.core.superseded_bytes.load(Ordering::Relaxed) + beside
    }

    /// The store underneath; of several, the first.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.core.store
    }

    /// Whether the stores underneath accept writes; of several, the first that does not.
    pub fn health(&self) -> Health {
        let beside = self.beside.iter().map(Self::health);
        let mut all = [self.core.store.health()].into_iter().chain(beside);
        all.find(|health| !health.is_good()).unwrap_or(Health::Good)
    }

    /// Whether all types are being loaded again after a panic interrupted the application of a change.
    pub fn is_recovering(&self) -> bool {
        self.core.progress.is_broken() || self.beside.iter().any(Self::is_recovering)
    }

    /// Whether the cache has stopped following a store.
    pub fn is_closed(&self) -> bool {
        self.core.progress.is_closed() || self.beside.iter().any(Self::is_closed)
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    pub(crate) fn beside(&self) -> &[Self] {
        &self.beside
    }
}

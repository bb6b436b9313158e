//! What the tests of the cache share: stores to run on, objects to write, and short ways to read.

#![allow(dead_code, unreachable_pub, reason = "each test file uses some of it")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use cache::{
    Cache, CacheOptions, Change, Committed, Encoding, Entry, Error, Field, Filter, Freshness, List, Mode,
    Query, Resource, Spec,
    watch::{self, EventType, Mark, WatchOptions, Watcher},
};
use object::{field_selector, label};
use std::{sync::Arc, time::Duration};
use store::{
    Revision, Store,
    contract::Sparse,
    embedded::{self, Embedded},
    memory::{self, Memory},
};
use tempfile::TempDir;

/// The encoding in which watchers share chunks.
pub const FORM: Encoding = Encoding(1);

/// Which store to run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    Memory,
    Embedded,
    /// In memory, with gaps between revisions, and revisions that changes share.
    Sparse,
}

/// A store that can be ended and started again.
pub struct Stored {
    backing: Backing,
    directory: TempDir,
    retention: Duration,
    store: Option<Arc<dyn Store>>,
}

impl Stored {
    pub fn new(backing: Backing) -> Self {
        Self::with_retention(backing, Duration::from_secs(3600))
    }

    /// A store that keeps its history for a time.
    pub fn with_retention(backing: Backing, retention: Duration) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut stored = Self { backing, directory, retention, store: None };
        stored.start();
        stored
    }

    pub fn store(&self) -> Arc<dyn Store> {
        self.store.clone().unwrap()
    }

    fn start(&mut self) {
        let retention = self.retention;
        let memory = || Memory::new(memory::MemoryOptions { retention, ..Default::default() });
        self.store = Some(match self.backing {
            Backing::Memory => Arc::new(memory()),
            Backing::Sparse => Arc::new(Sparse::new(memory(), fastrand::u64(..))),
            Backing::Embedded => {
                let options = embedded::EmbeddedOptions { retention, ..Default::default() };
                Arc::new(Embedded::open(&self.directory.path().join("data"), options).unwrap())
            }
        });
    }

    /// Ends the store and starts it again; one in memory just goes on.
    pub fn restart(&mut self) {
        if self.backing == Backing::Embedded {
            if let Some(store) = self.store.take() {
                store.close();
            }
            self.start();
        }
    }
}

/// Pods in namespaces, indexed by node.
pub fn pods() -> Spec {
    Spec::namespaced("pods")
        .unwrap()
        .field(Field::new("spec.nodeName").indexed())
        .field(Field::new("status.phase"))
}

/// Nodes of the cluster.
pub fn nodes() -> Spec {
    Spec::cluster("nodes").unwrap().field(Field::new("spec.unschedulable").absent("false"))
}

pub async fn open(stored: &Stored, options: CacheOptions) -> Cache {
    Cache::open(stored.store(), [pods(), nodes()], options).await.unwrap()
}

/// A cache on a store, and its pods.
pub struct Fixture {
    pub stored: Stored,
    pub cache: Cache,
    pub pods: Arc<Resource>,
}

impl Fixture {
    pub async fn new(backing: Backing, options: CacheOptions) -> Self {
        Self::on(Stored::new(backing), options).await
    }

    pub async fn on(stored: Stored, options: CacheOptions) -> Self {
        let cache = open(&stored, options).await;
        let pods = cache.resource("pods").unwrap();
        Self { stored, cache, pods }
    }

    pub async fn put(&self, pod: Pod<'_>) -> Revision {
        self.commit(pod.change(&self.pods)).await.revision()
    }

    pub async fn delete(&self, namespace: &str, name: &str) -> Revision {
        self.commit(Change::delete(&self.pods, namespace, name)).await.revision()
    }

    pub async fn commit(&self, change: Change) -> Committed {
        self.cache.commit(change).await.unwrap()
    }

    pub async fn list(&self, mode: Mode, filter: Filter) -> Result<List, Error> {
        self.pods.list(Query { mode, filter, limit: None }).await
    }

    pub async fn watch(&self, request: WatchOptions) -> Watching {
        Watching { watcher: self.pods.watch(request).await.unwrap(), ahead: Vec::new() }
    }

    /// Ends the cache and its store, and starts both again.
    pub async fn restart(self, options: CacheOptions) -> Self {
        let Self { mut stored, cache, pods } = self;
        drop((cache, pods));
        stored.restart();
        let cache = open(&stored, options).await;
        let pods = cache.resource("pods").unwrap();
        Self { stored, cache, pods }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Pod<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub app: &'a str,
    pub node: &'a str,
    pub phase: &'a str,
}

pub fn pod<'a>(namespace: &'a str, name: &'a str) -> Pod<'a> {
    Pod { namespace, name, ..Pod::default() }
}

impl<'a> Pod<'a> {
    pub fn app(self, app: &'a str) -> Self {
        Self { app, ..self }
    }

    pub fn node(self, node: &'a str) -> Self {
        Self { node, ..self }
    }

    pub fn phase(self, phase: &'a str) -> Self {
        Self { phase, ..self }
    }

    pub fn json(&self) -> String {
        let Self { namespace, name, app, node, phase } = self;
        let labels = if app.is_empty() { String::new() } else { format!(r#","labels":{{"app":"{app}"}}"#) };
        format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"{namespace}","uid":"u-{name}","resourceVersion":"1"{labels}}},"spec":{{"containers":[{{"name":"c"}}],"nodeName":"{node}"}},"status":{{"phase":"{phase}"}}}}"#
        )
    }

    pub fn change(&self, pods: &Arc<Resource>) -> Change {
        Change::put(pods, self.namespace, self.name, self.json())
    }
}

pub fn node_json(name: &str) -> String {
    format!(r#"{{"kind":"Node","metadata":{{"name":"{name}"}}}}"#)
}

pub fn labels(text: &str) -> Filter {
    Filter::all().labels(label::Selector::parse(text).unwrap())
}

pub fn fields(text: &str) -> Filter {
    Filter::all().fields(field_selector::Selector::parse(text).unwrap())
}

pub fn most_recent() -> Mode {
    Mode::Current(Freshness::MostRecent)
}

/// `namespace/name@revision` of each entry.
pub fn texts(entries: impl Iterator<Item = Arc<Entry>>) -> Vec<String> {
    entries.map(|entry| format!("{}@{}", entry.key(), entry.mod_revision())).collect()
}

/// A watcher whose items are taken one by one.
pub struct Watching {
    pub watcher: Watcher,
    ahead: Vec<Item>,
}

/// An item of a watch, kept.
#[derive(Clone)]
pub enum Item {
    Event(Event),
    Bookmark { revision: Revision, mark: Mark },
}

#[derive(Clone)]
pub struct Event {
    pub kind: EventType,
    pub entry: Arc<Entry>,
}

impl Event {
    pub fn revision(&self) -> Revision {
        self.entry.mod_revision()
    }
}

impl From<watch::Item<'_>> for Item {
    fn from(item: watch::Item<'_>) -> Self {
        match item {
            watch::Item::Event(watch::Event { kind, entry }) => {
                Self::Event(Event { kind, entry: entry.clone() })
            }
            watch::Item::Bookmark { revision, mark } => Self::Bookmark { revision, mark },
        }
    }
}

impl Watching {
    pub async fn item(&mut self) -> Result<Item, Error> {
        if self.ahead.is_empty() {
            let batch = tokio::time::timeout(Duration::from_secs(20), self.watcher.next()).await;
            self.ahead = batch.expect("an item is due")?.iter().map(Item::from).collect();
        }
        Ok(self.ahead.remove(0))
    }

    /// The next items, as text.
    pub async fn take(&mut self, count: usize) -> Vec<String> {
        let mut texts = Vec::new();
        for _ in 0..count {
            texts.push(text(&self.item().await.unwrap()));
        }
        texts
    }

    /// Nothing comes for a little while.
    pub async fn is_quiet(&mut self) -> bool {
        self.ahead.is_empty()
            && tokio::time::timeout(Duration::from_millis(30), self.watcher.next()).await.is_err()
    }

    pub async fn error(&mut self) -> Error {
        loop {
            if let Err(error) = self.item().await {
                return error;
            }
        }
    }
}

/// `ADDED namespace/name@revision`, or `BOOKMARK revision`.
pub fn text(item: &Item) -> String {
    match item {
        Item::Event(Event { kind, entry }) => {
            format!("{} {}@{}", kind.as_str(), entry.key(), entry.mod_revision())
        }
        Item::Bookmark { revision, mark } => format!("BOOKMARK {revision} {mark:?}"),
    }
}

/// Makes a test of each function, on each store.
#[macro_export]
macro_rules! on_every_store {
    ($($name:ident,)*) => {
        mod on_memory {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name(super::common::Backing::Memory).await;
                }
            )*
        }
        mod on_embedded {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name(super::common::Backing::Embedded).await;
                }
            )*
        }
    };
}

//! What a cache does when its follower or its load fails.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

mod common;

use bytes::Bytes;
use cache::{
    Cache, CacheOptions, Change, Cursor, Encoding, Error, Filter, Freshness, Mode, Query, Update,
    watch::{Start, WatchOptions},
};
use common::{Backing, Fixture, Stored, node_json, nodes, pod, pods, texts};
use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use store::{Batch, BoxFuture, Committed, Entry, Follow, Follower, Health, Key, Revision, Store, Visitor};
use tokio::sync::watch;

/// A store whose followers and loads fail as often as the test asks, and whose contents can be replaced.
struct Unreliable {
    store: Mutex<Arc<dyn Store>>,
    /// How often the contents were replaced.
    lineage: watch::Sender<u64>,
    lose: Arc<AtomicU32>,
    fail_loads: AtomicU32,
    /// How many questions for the newest revision fail.
    no_quorum: AtomicU32,
    /// A change that is committed before the next follower starts.
    behind: Mutex<Vec<store::Change>>,
    /// Changes that are committed after the next load, and then compacted.
    passing: Mutex<Vec<store::Change>>,
    /// The key whose bytes fail their checksum.
    damaged: Mutex<Option<Key>>,
}

impl Unreliable {
    fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            store: Mutex::new(store),
            lineage: watch::Sender::new(0),
            lose: Arc::default(),
            fail_loads: AtomicU32::new(0),
            no_quorum: AtomicU32::new(0),
            behind: Mutex::default(),
            passing: Mutex::default(),
            damaged: Mutex::default(),
        })
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.lock().unwrap().clone()
    }

    /// The contents are those of another store from now on.
    fn replace(&self, store: Arc<dyn Store>) {
        let mut own = self.store.lock().unwrap();
        *own = store;
        self.lineage.send_modify(|lineage| *lineage += 1);
    }

    /// A store in memory commits before its future is waited for.
    fn commit_at_once(&self, changes: Vec<store::Change>) {
        changes.into_iter().for_each(|change| drop(self.store().commit(change)));
    }

    /// The followers there are end with the next change.
    fn lose_follower(&self, failing_loads: u32) {
        self.fail_loads.store(failing_loads, Ordering::SeqCst);
        self.lose.store(1, Ordering::SeqCst);
    }
}

fn count_down(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

struct Losing {
    follower: Box<dyn Follower>,
    lose: Arc<AtomicU32>,
    lineage: watch::Receiver<u64>,
    own_lineage: u64,
}

impl Follower for Losing {
    fn next(&mut self) -> BoxFuture<'_, Result<Batch, store::Error>> {
        Box::pin(async {
            let batch = self.follower.next().await?;
            self.pass(batch)
        })
    }

    fn try_next(&mut self) -> Option<Result<Batch, store::Error>> {
        let batch = self.follower.try_next()?;
        Some(batch.and_then(|batch| self.pass(batch)))
    }
}

impl Losing {
    /// A batch, unless this is where the follower is lost.
    fn pass(&self, batch: Batch) -> Result<Batch, store::Error> {
        if count_down(&self.lose) || *self.lineage.borrow() != self.own_lineage {
            return Err(store::Error::Compacted { requested: Revision(0), compacted: batch.revision });
        }
        Ok(batch)
    }
}

impl Store for Unreliable {
    fn commit(&self, change: store::Change) -> BoxFuture<'static, Result<Committed, store::Error>> {
        self.store().commit(change)
    }

    fn known_revision(&self) -> Revision {
        self.store().known_revision()
    }

    fn newest_revision(&self) -> BoxFuture<'static, Result<Revision, store::Error>> {
        if count_down(&self.no_quorum) {
            let source = Arc::new(std::io::Error::other("no quorum"));
            return Box::pin(async { Err(store::Error::Io { fate: store::Fate::NotWritten, source }) });
        }
        self.store().newest_revision()
    }

    fn lineage(&self) -> u64 {
        *self.lineage.borrow()
    }

    fn changed(&self, after: Revision) -> BoxFuture<'static, Result<(), store::Error>> {
        let (changed, mut lineage) = (self.store().changed(after), self.lineage.subscribe());
        Box::pin(async move {
            tokio::select! {
                changed = changed => changed,
                _ = lineage.changed() => Ok(()),
            }
        })
    }

    fn compacted(&self) -> Revision {
        self.store().compacted()
    }

    fn get(&self, key: &Key) -> Result<Option<Entry>, store::Error> {
        self.store().get(key)
    }

    fn load(
        &self,
        prefix: &[u8],
        at: Option<Revision>,
        visit: &mut Visitor<'_>,
    ) -> Result<Revision, store::Error> {
        if count_down(&self.fail_loads) {
            let source = Arc::new(std::io::Error::other("unplugged"));
            return Err(store::Error::Io { fate: store::Fate::NotWritten, source });
        }
        let damaged = self.damaged.lock().unwrap().clone();
        let loaded = self.store().load(prefix, at, &mut |entry| match entry {
            Ok(entry) if Some(&entry.key) == damaged.as_ref() => visit(Err(store::Corrupt {
                key: entry.key,
                revision: entry.head.mod_revision,
                reason: "it fails its checksum".into(),
            }
            .into())),
            entry => visit(entry),
        });
        let passing = std::mem::take(&mut *self.passing.lock().unwrap());
        if !passing.is_empty() {
            self.commit_at_once(passing);
            drop(self.store().compact(self.known_revision()));
        }
        loaded
    }

    fn follow(&self, follow: Follow) -> Result<Box<dyn Follower>, store::Error> {
        self.commit_at_once(std::mem::take(&mut *self.behind.lock().unwrap()));
        let own_lineage = self.lineage();
        let follower = self.store().follow(follow)?;
        Ok(Box::new(Losing {
            follower,
            lose: self.lose.clone(),
            lineage: self.lineage.subscribe(),
            own_lineage,
        }))
    }

    fn compact(&self, to: Revision) -> BoxFuture<'static, Result<(), store::Error>> {
        self.store().compact(to)
    }

    fn is_shared(&self) -> bool {
        self.store().is_shared()
    }

    fn health(&self) -> Health {
        self.store().health()
    }

    fn close(&self) {
        self.store().close();
    }
}

struct Troubled {
    unreliable: Arc<Unreliable>,
    f: Fixture,
}

async fn troubled() -> Troubled {
    let stored = Stored::new(Backing::Memory);
    let unreliable = Unreliable::new(stored.store());
    let cache = Cache::open(unreliable.clone(), [pods(), nodes()], CacheOptions::default()).await.unwrap();
    let pods = cache.resource("pods").unwrap();
    Troubled { unreliable, f: Fixture { stored, cache, pods } }
}

#[tokio::test]
async fn a_cache_whose_follower_fell_behind_loads_everything_again() {
    let Troubled { unreliable, f } = troubled().await;
    f.put(pod("n", "a")).await;
    let mut all = f.watch(WatchOptions::new(Start::After(Revision(1)))).await;
    let mut set = f.watch(WatchOptions::new(Start::After(Revision(1))).filter(Filter::namespace("n"))).await;
    unreliable.lose_follower(0);
    assert_eq!(f.put(pod("n", "b")).await, Revision(2), "the writer is answered all the same");
    f.delete("n", "a").await;
    let list = f.list(Mode::default(), Filter::all()).await.unwrap();
    assert_eq!((list.revision, texts(list)), (Revision(3), vec!["n/b@2".to_owned()]));
    // The log starts anew, so the watchers find what they missed in the store.
    assert_eq!(all.take(2).await, ["ADDED n/b@2", "DELETED n/a@3"]);
    assert_eq!(set.take(2).await, ["ADDED n/b@2", "DELETED n/a@3"]);
}

#[tokio::test]
async fn a_watcher_ends_with_too_old_after_a_reload() {
    let Troubled { unreliable, f } = troubled().await;
    f.put(pod("n", "a")).await;
    let mut watching = f.watch(WatchOptions::new(Start::After(Revision(1)))).await;
    unreliable.lose_follower(0);
    f.put(pod("n", "b")).await;
    f.put(pod("n", "c")).await;
    f.stored.store().compact(Revision(3)).await.unwrap();
    assert_eq!(watching.error().await.to_string(), "too old resource version: 1 (3)");
}

#[tokio::test]
async fn loading_is_tried_until_it_works_and_reads_go_on_meanwhile() {
    let Troubled { unreliable, f } = troubled().await;
    f.put(pod("n", "a")).await;
    unreliable.lose_follower(2);
    let writing = f.put(pod("n", "b"));
    let reading = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        f.pods.get("n", "a", Freshness::Any).await.unwrap().unwrap().mod_revision()
    };
    let (written, read) = tokio::join!(writing, reading);
    assert_eq!((written, read), (Revision(2), Revision(1)));
    assert_eq!(f.pods.len(), 2);
}

#[tokio::test]
async fn a_type_that_is_added_meanwhile_misses_nothing() {
    let Troubled { unreliable, f } = troubled().await;
    let nodes = f.cache.resource("nodes").unwrap();
    f.cache.remove("pods").await.unwrap();
    unreliable.lose_follower(1);
    let writing = async { f.commit(Change::put(&nodes, "", "x", node_json("x"))).await.revision() };
    let (written, added) = tokio::join!(writing, f.cache.add(pods()));
    assert_eq!(written, Revision(1));
    // The failing load may be this one or the other.
    let added = match added {
        Ok(added) => added,
        Err(Error::Store(_)) => f.cache.add(pods()).await.unwrap(),
        Err(error) => panic!("{error}"),
    };
    f.cache.commit(pod("n", "a").change(&added)).await.unwrap();
    assert_eq!(texts(added.list(Query::default()).await.unwrap()), ["n/a@2"]);
}

/// A store in memory with these pods.
async fn memory_with(names: &[&str]) -> Arc<dyn Store> {
    let store = Arc::new(store::memory::Memory::default());
    let cache = Cache::open(store.clone(), [pods()], CacheOptions::default()).await.unwrap();
    let pods = cache.resource("pods").unwrap();
    for name in names {
        cache.commit(pod("n", name).change(&pods)).await.unwrap();
    }
    store
}

#[tokio::test]
async fn a_cache_whose_store_goes_back_starts_again_from_the_older_state() {
    let Troubled { unreliable, f } = troubled().await;
    for name in ["a", "b", "c", "d", "e"] {
        f.put(pod("n", name)).await;
    }
    let page = f.pods.list(Query::default().limit(2)).await.unwrap();
    let (revision, start) = (page.revision, page.next.clone().unwrap());
    assert_eq!((revision, texts(page)), (Revision(5), vec!["n/a@1".to_owned(), "n/b@2".to_owned()]));
    let mut index = Cursor::new(f.pods.clone());
    let mut seen = BTreeSet::new();
    let mut advance = |index: &mut Cursor| {
        index.advance(|update| match update {
            Update::Reset => seen.clear(),
            Update::Change { after, .. } => seen.extend(after.map(|entry| entry.name().to_owned())),
        });
        seen.iter().cloned().collect::<Vec<_>>().concat()
    };
    assert_eq!(advance(&mut index), "abcde");
    let encoding = |entry: &cache::Entry, text: &'static str| {
        let make = |_: &cache::Entry| Ok::<_, Infallible>(Bytes::from_static(text.as_bytes()));
        f.cache.encodings().get(entry, Encoding(1), make).unwrap()
    };
    let before = f.pods.get("n", "c", Freshness::Any).await.unwrap().unwrap();
    assert_eq!(encoding(&before, "before"), "before");
    let mut all = f.watch(WatchOptions::new(Start::After(Revision(5)))).await;
    let mut set = f.watch(WatchOptions::new(Start::After(Revision(5))).filter(Filter::namespace("n"))).await;

    unreliable.replace(memory_with(&["a", "x"]).await);
    let list = f.list(Mode::default(), Filter::all()).await.unwrap();
    assert_eq!((list.revision, texts(list)), (Revision(2), vec!["n/a@1".to_owned(), "n/x@2".to_owned()]));
    assert_eq!(f.cache.revision(), Revision(2));
    for watching in [&mut all, &mut set] {
        assert_eq!(watching.error().await.to_string(), "too old resource version: 5 (2)");
    }
    assert!(!index.is_current());
    assert_eq!(advance(&mut index), "ax");

    // Revisions are given again, and nothing of the changes that had them before is left.
    let mut all = f.watch(WatchOptions::new(Start::After(Revision(2)))).await;
    let mut set = f.watch(WatchOptions::new(Start::After(Revision(2))).filter(Filter::namespace("n"))).await;
    for (name, revision) in ["c", "y", "z"].into_iter().zip(3..) {
        assert_eq!(f.put(pod("n", name)).await, Revision(revision));
    }
    assert_eq!(advance(&mut index), "acxyz");
    for watching in [&mut all, &mut set] {
        assert_eq!(watching.take(3).await, ["ADDED n/c@3", "ADDED n/y@4", "ADDED n/z@5"]);
    }
    let after = f.pods.get("n", "c", Freshness::MostRecent).await.unwrap().unwrap();
    assert_eq!(after.mod_revision(), before.mod_revision());
    assert_eq!(encoding(&after, "after"), "after");
    let exact = f.pods.list(Query::default().mode(Mode::Exact(revision))).await.unwrap();
    assert_eq!(texts(exact), ["n/a@1", "n/c@3", "n/x@2", "n/y@4", "n/z@5"]);
    let rest = f.pods.list(Query::default().mode(Mode::Continue { revision: Some(revision), start })).await;
    assert_eq!(texts(rest.unwrap()), ["n/c@3", "n/x@2", "n/y@4", "n/z@5"]);
}

#[tokio::test]
async fn a_writer_whose_store_goes_back_is_answered() {
    let Troubled { unreliable, f } = troubled().await;
    for name in ["a", "b", "c"] {
        f.put(pod("n", name)).await;
    }
    // The change is committed, and not applied yet when the store goes back.
    unreliable.lose_follower(1);
    let writing = f.cache.commit(pod("n", "d").change(&f.pods));
    let older = memory_with(&["a"]).await;
    let replacing = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        unreliable.replace(older);
    };
    let (written, ()) = tokio::join!(writing, replacing);
    assert_eq!(written.unwrap().revision(), Revision(4));
    assert_eq!(texts(f.list(Mode::default(), Filter::all()).await.unwrap()), ["n/a@1"]);
}

#[tokio::test]
async fn a_watch_from_a_revision_that_was_lost_ends_with_too_old() {
    let stored = Stored::new(Backing::Memory);
    let options = CacheOptions { wait: Duration::from_millis(50), ..CacheOptions::default() };
    let cache = Cache::open(stored.store(), [pods()], options).await.unwrap();
    let pods = cache.resource("pods").unwrap();
    let f = Fixture { stored, cache, pods };
    f.put(pod("n", "a")).await;
    let mut lost = f.watch(WatchOptions::new(Start::After(Revision(7)))).await;
    assert_eq!(lost.error().await.to_string(), "too old resource version: 7 (1)");
}

#[tokio::test]
async fn a_closed_store_closes_the_cache() {
    let Troubled { f, .. } = troubled().await;
    let mut watching = f.watch(WatchOptions::new(Start::After(Revision(0)))).await;
    f.stored.store().close();
    assert!(matches!(watching.error().await, Error::Closed));
    assert!(matches!(f.cache.commit(pod("n", "a").change(&f.pods)).await, Err(Error::Closed)));
    assert!(f.cache.is_closed());
}

/// Makes another pod from pod `a` of namespace `n`.
fn like_a(store: &dyn Store, name: &str) -> store::Change {
    let stored = store.get(&Key::try_from("pods/n/a").unwrap()).unwrap().unwrap();
    let text =
        String::from_utf8(stored.value[4..].to_vec()).unwrap().replace("\"a\"", &format!("\"{name}\""));
    let value = [&stored.value[..4], text.as_bytes()].concat();
    store::Change::put(Key::try_from(format!("pods/n/{name}")).unwrap(), value)
}

/// A cache that was loaded at a revision that is compacted by now can be watched from there, and goes on to
/// what is newer.
#[tokio::test]
async fn a_start_whose_revision_is_compacted_can_be_followed() {
    let first = troubled().await.f;
    first.put(pod("n", "a")).await;
    let store = first.stored.store();
    let unreliable = Unreliable::new(store.clone());
    unreliable.passing.lock().unwrap().extend([like_a(&*store, "b"), like_a(&*store, "c")]);
    let cache = Cache::open(unreliable, [pods()], CacheOptions::default()).await.unwrap();
    let pods = cache.resource("pods").unwrap();
    let from = cache.revision();
    assert!(from < store.compacted());
    let mut watching = pods.watch(WatchOptions::new(Start::After(from))).await.unwrap();
    assert!(matches!(watching.next().await, Err(Error::TooOld { .. })), "changes are missing");
    let list = pods.list(Query::default()).await.unwrap();
    assert_eq!((list.revision, list.count()), (Revision(3), 3));
}

/// A change between the load and the replay of history is one event.
#[tokio::test]
async fn a_write_during_the_start_is_one_event() {
    let first = troubled().await.f;
    first.put(pod("n", "a")).await;
    let store = first.stored.store();
    let unreliable = Unreliable::new(store.clone());
    unreliable.behind.lock().unwrap().extend([like_a(&*store, "b"), like_a(&*store, "c")]);
    let cache = Cache::open(unreliable, [pods()], CacheOptions::default()).await.unwrap();
    let pods = cache.resource("pods").unwrap();
    let list = pods.list(Query::default()).await.unwrap();
    assert_eq!(
        (list.revision, texts(list)),
        (Revision(3), vec!["n/a@1".into(), "n/b@2".into(), "n/c@3".into()])
    );
    let f = Fixture { stored: first.stored, cache, pods };
    let mut watching = f.watch(WatchOptions::new(Start::After(Revision(0)))).await;
    assert_eq!(watching.take(3).await, ["ADDED n/a@1", "ADDED n/b@2", "ADDED n/c@3"]);
    assert!(watching.is_quiet().await);
    assert_eq!(f.pods.stats().log_changes, 3);
}

#[tokio::test]
async fn a_value_with_a_bad_checksum_is_reported_by_its_key() {
    let first = troubled().await.f;
    for name in ["a", "b", "c"] {
        first.put(pod("n", name)).await;
    }
    let unreliable = Unreliable::new(first.stored.store());
    *unreliable.damaged.lock().unwrap() = Some(Key::try_from("pods/n/b").unwrap());
    let cache = Cache::open(unreliable, [pods()], CacheOptions::default()).await.unwrap();
    let pods = cache.resource("pods").unwrap();
    let error = pods.get("n", "b", Freshness::MostRecent).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the stored object pods/n/b (revision 2) is corrupt: it fails its checksum"
    );
    let list = pods.list(Query::default()).await.unwrap();
    assert_eq!(list.damaged.len(), 1);
    assert_eq!(texts(list), ["n/a@1", "n/c@3"]);
    assert_eq!(cache.unreadable().len(), 1);
    cache.commit(pod("n", "b").change(&pods)).await.unwrap();
    assert_eq!(texts(pods.list(Query::default()).await.unwrap()), ["n/a@1", "n/b@4", "n/c@3"]);
    assert!(cache.unreadable().is_empty());
}

#[tokio::test]
async fn a_create_takes_the_place_of_a_value_that_cannot_be_read() {
    let first = troubled().await.f;
    first.put(pod("n", "a")).await;
    first.put(pod("n", "b")).await;
    let unreliable = Unreliable::new(first.stored.store());
    *unreliable.damaged.lock().unwrap() = Some(Key::try_from("pods/n/b").unwrap());
    let cache = Cache::open(unreliable, [pods()], CacheOptions::default()).await.unwrap();
    let pods = cache.resource("pods").unwrap();
    cache.commit(pod("n", "b").change(&pods).create_or_replace_damaged()).await.unwrap();
    assert_eq!(texts(pods.list(Query::default()).await.unwrap()), ["n/a@1", "n/b@3"]);
    for name in ["a", "b"] {
        let exists =
            cache.commit(pod("n", name).change(&pods).create_or_replace_damaged()).await.unwrap_err();
        assert!(matches!(exists, Error::Conflict(_)), "{exists:?}");
    }
}

/// A read of the newest state asks the store; other reads do not.
#[tokio::test]
async fn a_consistent_read_fails_if_the_newest_revision_cannot_be_learned() {
    let unreliable = Unreliable::new(Arc::new(store::memory::Memory::default()));
    let cache = Cache::open(unreliable.clone(), [common::pods()], CacheOptions::default()).await.unwrap();
    let pods = cache.resource("pods").unwrap();
    cache.commit(pod("n", "a").change(&pods)).await.unwrap();
    unreliable.no_quorum.store(1, Ordering::SeqCst);
    let failed = pods.get("n", "a", Freshness::MostRecent).await;
    assert!(matches!(failed, Err(Error::Store(store::Error::Io { .. }))), "{failed:?}");
    unreliable.no_quorum.store(1, Ordering::SeqCst);
    assert!(pods.get("n", "a", Freshness::Any).await.unwrap().is_some());
    assert!(pods.get("n", "a", Freshness::NotOlderThan(Revision(1))).await.unwrap().is_some());
    unreliable.no_quorum.store(0, Ordering::SeqCst);
    assert!(pods.get("n", "a", Freshness::MostRecent).await.unwrap().is_some());
}

//! The contract suite, run by every store of this crate.

#![allow(clippy::unwrap_used, reason = "test code")]

use bytes::Bytes;
use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};
use store::{
    Codec, Coded, DecodeError, Entry, Error, Head, Key, Patience, Revision, Store, Visitor,
    contract::{Harness, Setup, Sparse, Window, restore},
    embedded::{self, Embedded},
    memory::{self, Base, Budget, Memory},
};
use tempfile::TempDir;

struct InMemory {
    store: Arc<dyn Store>,
    directory: TempDir,
}

impl Harness for InMemory {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn restart(&mut self) -> bool {
        false
    }

    fn restore(&mut self, backup: &Path) -> Result<Arc<dyn Store>, Error> {
        Ok(Arc::new(Memory::restore(backup, memory::MemoryOptions::default())?))
    }

    fn scratch(&self) -> PathBuf {
        self.directory.path().into()
    }
}

fn memory(setup: Setup) -> Memory {
    Memory::new(memory::MemoryOptions { retention: setup.retention, ..Default::default() })
}

fn in_memory(setup: Setup) -> Box<dyn Harness> {
    Box::new(InMemory { store: Arc::new(memory(setup)), directory: tempfile::tempdir().unwrap() })
}

/// Revisions with gaps, shared by commits that come together.
fn sparse(setup: Setup) -> Box<dyn Harness> {
    let store = Arc::new(Sparse::new(memory(setup), seed()));
    Box::new(InMemory { store, directory: tempfile::tempdir().unwrap() })
}

/// A state that stores in memory begin with.
#[derive(Default)]
struct Frozen(BTreeMap<Key, (Head, Bytes)>);

impl Frozen {
    fn of(store: &dyn Store) -> Arc<Self> {
        let mut entries = BTreeMap::new();
        let loaded = store.load(b"", None, &mut |entry| {
            let Entry { key, head, value } = entry.unwrap();
            entries.insert(key, (head, value));
            ControlFlow::Continue(())
        });
        loaded.unwrap();
        Arc::new(Self(entries))
    }
}

impl Base for Frozen {
    fn head(&self, key: &Key) -> Option<Head> {
        self.0.get(key).map(|(head, _)| *head)
    }

    fn get(&self, key: &Key) -> Option<(Head, store::Value)> {
        self.0.get(key).map(|(head, value)| (*head, Ok(value.clone())))
    }

    fn visit(&self, prefix: &[u8], visit: &mut Visitor<'_>) -> ControlFlow<()> {
        let found = self.0.iter().filter(|(key, _)| key.as_bytes().starts_with(prefix));
        found
            .map(|(key, (head, value))| Entry { key: key.clone(), head: *head, value: value.clone() })
            .try_for_each(|entry| visit(Ok(entry)))
    }
}

/// A store in memory that begins with a state, in which there is nothing as in every new store of the suite.
/// Those of the model begin with something.
fn over(setup: Setup) -> Box<dyn Harness> {
    let options = memory::MemoryOptions { retention: setup.retention, ..Default::default() };
    let store = Arc::new(Memory::over(Arc::new(Frozen::default()), Revision::ZERO, options));
    Box::new(InMemory { store, directory: tempfile::tempdir().unwrap() })
}

/// Each call for the store gives one that begins where the one before is.
struct Forking(Mutex<Arc<dyn Store>>, TempDir);

impl Harness for Forking {
    fn store(&self) -> Arc<dyn Store> {
        let mut current = self.0.lock().unwrap();
        let options = memory::MemoryOptions { retention: Duration::from_secs(3600), ..Default::default() };
        *current = Arc::new(Memory::over(Frozen::of(&**current), current.known_revision(), options));
        current.clone()
    }

    fn restart(&mut self) -> bool {
        false
    }

    fn restore(&mut self, backup: &Path) -> Result<Arc<dyn Store>, Error> {
        Ok(Arc::new(Memory::restore(backup, memory::MemoryOptions::default())?))
    }

    fn scratch(&self) -> PathBuf {
        self.1.path().into()
    }
}

fn forking(setup: Setup) -> Box<dyn Harness> {
    Box::new(Forking(Mutex::new(Arc::new(memory(setup))), tempfile::tempdir().unwrap()))
}

/// A layout of its own: other keys, other values, and keys of other software beside them.
struct Mirrored;

impl Codec for Mirrored {
    fn encode_prefix(&self, prefix: &[u8]) -> Bytes {
        [b"/registry/", prefix].concat().into()
    }

    fn encode_key(&self, key: &Key) -> Option<Key> {
        Key::new(self.encode_prefix(key.as_bytes())).ok()
    }

    fn decode_key(&self, stored: &Key) -> Option<Key> {
        Key::try_from(str::from_utf8(stored.as_bytes()).ok()?.strip_prefix("/registry/")?).ok()
    }

    fn encode_value(&self, _: &Key, value: Bytes) -> Result<Bytes, String> {
        Ok(b"mirrored".iter().copied().chain(value.iter().rev().copied()).collect())
    }

    fn decode_value(&self, _: &Key, stored: Bytes, _: Patience) -> Result<Bytes, DecodeError> {
        let foreign = || DecodeError::Damaged("it is not mirrored".into());
        let mirrored = stored.strip_prefix(b"mirrored").ok_or_else(foreign)?;
        Ok(mirrored.iter().rev().copied().collect())
    }
}

fn coded(setup: Setup) -> Box<dyn Harness> {
    let store = Arc::new(Coded::new(Arc::new(memory(setup)), Arc::new(Mirrored)));
    Box::new(InMemory { store, directory: tempfile::tempdir().unwrap() })
}

struct OnDisk {
    store: Option<Arc<dyn Store>>,
    directory: TempDir,
    options: embedded::EmbeddedOptions,
    restored: u32,
}

impl OnDisk {
    fn open(&self) -> Arc<dyn Store> {
        Arc::new(Embedded::open(&self.directory.path().join("data"), self.options.clone()).unwrap())
    }
}

impl Harness for OnDisk {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone().unwrap()
    }

    fn restart(&mut self) -> bool {
        if let Some(store) = self.store.take() {
            store.close();
        }
        self.store = Some(self.open());
        true
    }

    fn restore(&mut self, backup: &Path) -> Result<Arc<dyn Store>, Error> {
        self.restored += 1;
        let path = self.directory.path().join(format!("restored-{}", self.restored));
        restore(backup, &path)?;
        Ok(Arc::new(Embedded::open(&path, self.options.clone())?))
    }

    fn scratch(&self) -> PathBuf {
        self.directory.path().into()
    }
}

fn on_disk(setup: Setup) -> Box<dyn Harness> {
    let mut options = embedded::EmbeddedOptions { retention: setup.retention, ..Default::default() };
    if setup.window == Window::Tiny {
        options.window = 0;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut harness = OnDisk { store: None, directory, options, restored: 0 };
    harness.store = Some(harness.open());
    Box::new(harness)
}

mod memory_keeps_the_contract {
    store::contract_tests!(super::in_memory);
}

mod memory_over_a_state_keeps_the_contract {
    store::contract_tests!(super::over);
}

mod sparse_revisions_keep_the_contract {
    store::contract_tests!(super::sparse);
}

mod a_store_behind_a_codec_keeps_the_contract {
    store::contract_tests!(super::coded);
}

/// Otherwise the suite would not see what it is run on this store for.
#[tokio::test]
async fn sparse_revisions_have_gaps_and_are_shared() {
    use store::{Change, contract::key};
    let store = Sparse::new(Memory::default(), seed());
    let (mut shared, mut gaps, mut last) = (0, 0, 0);
    for round in 0..20 {
        let commits = (0..8).map(|n| store.commit(Change::put(key(&format!("k/{n}")), round.to_string())));
        for commit in commits.collect::<Vec<_>>() {
            let revision = commit.await.unwrap().revision.0;
            shared += u32::from(revision == last);
            gaps += u32::from(revision > last + 1);
            last = revision;
        }
    }
    assert!(shared > 20 && gaps > 5, "{shared} changes share a revision, {gaps} revisions follow a gap");
}

/// What was deleted stays so after its history is given up, and comes again by a put alone.
#[tokio::test]
async fn a_deleted_entry_of_the_base_does_not_come_back() {
    use store::{Change, contract::key};
    let first = Memory::default();
    first.commit(Change::put(key("a"), "base")).await.unwrap();
    first.commit(Change::put(key("b"), "base")).await.unwrap();
    let budget = Budget::new(10_000);
    let options = memory::MemoryOptions { budget: Some(budget.clone()), ..Default::default() };
    let fork = Memory::over(Frozen::of(&first), first.known_revision(), options);
    assert_eq!(fork.compacted(), Revision(2));
    let deleted = fork.commit(Change::delete(key("a")).returning_value()).await.unwrap();
    assert_eq!(
        (deleted.create_revision, deleted.previous.unwrap().head.mod_revision),
        (Revision(1), Revision(1))
    );
    fork.compact(fork.known_revision()).await.unwrap();
    assert!(fork.get(&key("a")).unwrap().is_none());
    assert_eq!(first.get(&key("a")).unwrap().unwrap().value, "base");
    let conflict = fork.commit(Change::put(key("b"), "mine").create_only()).await.unwrap_err();
    assert!(
        matches!(conflict, Error::Conflict(found) if found.found.as_ref().unwrap().head.mod_revision == Revision(2))
    );
    fork.commit(Change::put(key("a"), "again").create_only()).await.unwrap();
    let again = fork.get(&key("a")).unwrap().unwrap();
    assert_eq!((again.value, again.head.create_revision), ("again".into(), Revision(4)));
    // Past the budget nothing is stored, and what is there can be deleted.
    let full = fork.commit(Change::put(key("c"), vec![b'x'; 10_000])).await.unwrap_err();
    assert!(matches!(full, Error::OverBudget { limit: 10_000, .. }));
    fork.commit(Change::delete(key("b"))).await.unwrap();
    assert!(budget.used() > 0 && budget.used() == fork.own_bytes());
    drop(fork);
    assert_eq!(budget.used(), 0);
}

/// Keys of other software are not seen; a value that the codec cannot read is damaged, and can be
/// overwritten.
#[tokio::test]
async fn a_codec_hides_foreign_keys_and_reports_foreign_values() {
    use store::{Change, Follow, Revision, contract::key};
    let memory = Arc::new(Memory::default());
    let coded: Arc<dyn Store> = Arc::new(Coded::new(memory.clone(), Arc::new(Mirrored)));
    for stored in ["/elsewhere/a", "/registry/pods/a"] {
        memory.commit(Change::put(key(stored), "not ours")).await.unwrap();
    }
    let mut found = Vec::new();
    coded
        .load(b"", None, &mut |entry| {
            found.push(entry.unwrap_err().to_string());
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(found, ["the stored object pods/a (revision 2) is corrupt: it is not mirrored"]);
    assert!(
        matches!(coded.get(&key("pods/a")), Err(Error::Corrupt(corrupt)) if corrupt.key == key("pods/a"))
    );
    coded.commit(Change::put(key("pods/a"), "ours").expect_revision(Revision(2))).await.unwrap();
    assert_eq!(coded.get(&key("pods/a")).unwrap().unwrap().value, "ours");
    assert_eq!(memory.get(&key("/registry/pods/a")).unwrap().unwrap().value, "mirroredsruo");
    let batch = coded.follow(Follow::after(Revision::ZERO)).unwrap().next().await.unwrap();
    let events: Vec<_> =
        batch.events.iter().map(|event| (event.key.to_string(), event.value.is_ok())).collect();
    assert_eq!(events, [("pods/a".to_owned(), false), ("pods/a".to_owned(), true)]);
    assert_eq!(batch.revision, Revision(3));
}

mod embedded_keeps_the_contract {
    store::contract_tests!(super::on_disk);
}

/// The seed of the model checker's runs: fixed, or from `STORE_MODEL_SEED` to look elsewhere.
fn seed() -> u64 {
    std::env::var("STORE_MODEL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

mod random_histories {
    use store::contract::model::{Plan, check};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn memory_agrees_with_the_model() {
        check(&super::in_memory, Plan { seed: super::seed(), histories: 2000, per_store: 20 }).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn forks_of_forks_agree_with_the_model() {
        check(&super::forking, Plan { seed: super::seed(), histories: 1000, per_store: 20 }).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sparse_revisions_agree_with_the_model() {
        check(&super::sparse, Plan { seed: super::seed(), histories: 1000, per_store: 20 }).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn embedded_agrees_with_the_model() {
        check(&super::on_disk, Plan { seed: super::seed(), histories: 200, per_store: 20 }).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn slow_embedded_agrees_with_the_model_for_long() {
        check(&super::on_disk, Plan { seed: super::seed() + 10_000, histories: 3000, per_store: 50 }).await;
    }
}

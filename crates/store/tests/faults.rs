//! A disk that fills up, fails, or is slow: what writers, readers and followers get, and what remains.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use bytes::Bytes;
use fastrand::Rng;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use store::{
    Change, Error, Fate, Follow, Follower, Health, Kind, Revision, Store,
    contract::{events, key, load, next, put},
    embedded::{Embedded, Options},
    fault::{Cause, Fault, Faults, Lasting},
};
use tempfile::TempDir;

struct Faulty {
    store: Arc<dyn Store>,
    faults: Arc<Faults>,
    directory: TempDir,
}

impl Faulty {
    fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let faults = Arc::new(Faults::default());
        let store = open(&directory, Options { media: faults.clone(), ..Options::default() });
        Self { store, faults, directory }
    }

    fn reopen(self) -> (Arc<dyn Store>, TempDir) {
        self.store.close();
        drop(self.store);
        (open(&self.directory, Options::default()), self.directory)
    }

    async fn until_healthy(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.store.health().is_good() {
            assert!(Instant::now() < deadline, "the store should have recovered: {:?}", self.store.health());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn open(directory: &TempDir, options: Options) -> Arc<dyn Store> {
    Arc::new(Embedded::open(&directory.path().join("data"), options).unwrap())
}

async fn follower_at_end(store: &Arc<dyn Store>) -> Box<dyn Follower> {
    store.follow(Follow::after(store.known_revision())).unwrap()
}

#[tokio::test]
async fn a_full_disk_fails_writes_while_reads_go_on_and_mends_by_itself() {
    let faulty = Faulty::open();
    let store = &faulty.store;
    put(store, "a", "1").await;
    put(store, "a", "2").await;
    let mut follower = follower_at_end(store).await;

    faulty.faults.inject(Fault::Write(Cause::Full), Lasting::UntilCleared);
    let failed = store.commit(Change::put(key("a"), "3")).await;
    assert!(matches!(failed, Err(Error::Full { fate: Fate::Unknown, .. })), "{failed:?}");
    let refused = store.commit(Change::put(key("a"), "4")).await;
    assert!(matches!(refused, Err(Error::Full { fate: Fate::NotWritten, .. })), "{refused:?}");
    assert!(matches!(store.compact(Revision(1)).await, Err(Error::Full { .. })));
    let Health::Failing(why) = store.health() else { panic!("writes fail") };
    assert!(why.to_string().contains("full"), "{why}");

    assert_eq!(store.known_revision(), Revision(2));
    assert_eq!(store.get(&key("a")).unwrap().unwrap().value, "2");
    assert_eq!(load(store, "", None).unwrap().texts(), ["a=2"]);
    assert_eq!(load(store, "", Some(Revision(1))).unwrap().texts(), ["a=1"]);
    assert_eq!(events(store, Follow::after(Revision::ZERO), Revision(2)).await.len(), 2);

    faulty.faults.clear();
    faulty.until_healthy().await;
    assert_eq!(put(store, "a", "5").await, Revision(3));
    let batch = next(&mut follower).await.unwrap();
    assert_eq!(
        batch.events.iter().map(|event| event.value.clone()).collect::<Vec<_>>(),
        [Ok(Bytes::from("5"))]
    );
    let (store, _directory) = faulty.reopen();
    assert_eq!(load(&store, "", None).unwrap().texts(), ["a=5"]);
    assert_eq!(store.known_revision(), Revision(3));
}

#[tokio::test]
async fn a_write_whose_sync_failed_is_unacknowledged_but_followed_if_it_survived() {
    let faulty = Faulty::open();
    let store = &faulty.store;
    put(store, "a", "1").await;
    let mut follower = follower_at_end(store).await;
    faulty.faults.inject(Fault::Sync(Cause::Broken), Lasting::Times(1));
    let failed = store.commit(Change::put(key("a"), "2")).await;
    assert!(matches!(failed, Err(Error::Io { fate: Fate::Unknown, .. })), "{failed:?}");
    assert_eq!(store.known_revision(), Revision(1), "nothing is visible before it is known to be on disk");
    assert_eq!(load(store, "", None).unwrap().texts(), ["a=1"]);

    faulty.until_healthy().await;
    assert_eq!(store.known_revision(), Revision(2));
    let batch = next(&mut follower).await.unwrap();
    assert_eq!((batch.events.len(), batch.revision), (1, Revision(2)));
    assert_eq!(batch.events[0].previous.as_ref().unwrap().head.mod_revision, Revision(1));
    assert_eq!(load(store, "", None).unwrap().texts(), ["a=2"]);
    let guarded = Change::put(key("a"), "3").expect_revision(Revision(2));
    assert_eq!(store.commit(guarded).await.unwrap().revision, Revision(3));
    let (store, _directory) = faulty.reopen();
    assert_eq!(load(&store, "", None).unwrap().texts(), ["a=3"]);
}

#[tokio::test]
async fn a_conflict_with_a_failed_write_is_reported_as_the_failure() {
    let faulty = Faulty::open();
    let store = &faulty.store;
    faulty.faults.inject(Fault::SlowSync(Duration::from_millis(200)), Lasting::Times(1));
    let first = store.commit(Change::put(key("other"), "v"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    let creates = [(); 2].map(|()| store.commit(Change::put(key("a"), "v").create_only()));
    faulty.faults.inject(Fault::Sync(Cause::Broken), Lasting::Times(1));
    first.await.unwrap();
    let [winner, loser] = creates;
    assert!(matches!(winner.await, Err(Error::Io { fate: Fate::Unknown, .. })));
    assert!(matches!(loser.await, Err(Error::Io { fate: Fate::NotWritten, .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_disk_delays_writers_together_and_readers_not_at_all() {
    let faulty = Faulty::open();
    let store = &faulty.store;
    put(store, "a", "1").await;
    faulty.faults.inject(Fault::SlowSync(Duration::from_millis(200)), Lasting::UntilCleared);
    let started = Instant::now();
    let writers: Vec<_> =
        (0..64).map(|n| tokio::spawn(store.commit(Change::put(key(&format!("k/{n}")), "v")))).collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let reading = Instant::now();
    assert_eq!(load(store, "", None).unwrap().texts(), ["a=1"]);
    assert_eq!(store.get(&key("a")).unwrap().unwrap().value, "1");
    assert!(reading.elapsed() < Duration::from_millis(150), "{:?}", reading.elapsed());
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    assert!(faulty.faults.hits() <= 4, "64 writers shared {} syncs", faulty.faults.hits());
    assert!(started.elapsed() >= Duration::from_millis(200));
    assert!(store.health().is_good());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_that_waits_behind_a_failing_write_goes_through() {
    let faulty = Faulty::open();
    put(&faulty.store, "a", "1").await;
    faulty.faults.inject(Fault::SlowSync(Duration::from_millis(200)), Lasting::Times(1));
    let slow = faulty.store.commit(Change::put(key("a"), "2"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    let failing = faulty.store.commit(Change::put(key("a"), "3"));
    let closing = tokio::task::spawn_blocking({
        let store = faulty.store.clone();
        move || store.close()
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    faulty.faults.inject(Fault::Write(Cause::Broken), Lasting::UntilCleared);
    slow.await.unwrap();
    failing.await.unwrap_err();
    tokio::time::timeout(Duration::from_secs(10), closing).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_store_that_is_failing_can_be_closed() {
    let faulty = Faulty::open();
    put(&faulty.store, "a", "1").await;
    faulty.faults.inject(Fault::Write(Cause::Broken), Lasting::UntilCleared);
    faulty.store.commit(Change::put(key("a"), "2")).await.unwrap_err();
    let (store, _directory) = faulty.reopen();
    assert_eq!(load(&store, "", None).unwrap().texts(), ["a=1"]);
}

/// What one writer knows of its own key.
#[derive(Default)]
struct Known {
    acknowledged: u64,
    attempted: u64,
}

/// Writes ever larger numbers to one key while the disk comes and goes.
async fn count_up(store: Arc<dyn Store>, name: String, until: Instant) -> (String, Known) {
    let mut known = Known::default();
    while Instant::now() < until {
        known.attempted += 1;
        match store.commit(Change::put(key(&name), known.attempted.to_string())).await {
            Ok(_) => known.acknowledged = known.attempted,
            Err(Error::Full { .. } | Error::Io { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => panic!("unexpected: {error}"),
        }
    }
    (name, known)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_faults_lose_nothing_acknowledged_and_hide_nothing_from_followers() {
    let faulty = Faulty::open();
    let store = faulty.store.clone();
    let until = Instant::now() + Duration::from_secs(3);
    let writers: Vec<_> =
        (0..8).map(|n| tokio::spawn(count_up(store.clone(), format!("k/{n}"), until))).collect();
    let mut rng = Rng::with_seed(11);
    while Instant::now() < until {
        let cause = if rng.bool() { Cause::Full } else { Cause::Broken };
        let fault = if rng.bool() { Fault::Write(cause) } else { Fault::Sync(cause) };
        faulty.faults.inject_after(rng.u32(..20), fault, Lasting::Times(rng.u32(1..4)));
        tokio::time::sleep(Duration::from_millis(rng.u64(20..200))).await;
    }
    faulty.faults.clear();
    let mut known = BTreeMap::new();
    for writer in writers {
        let (name, knows) = writer.await.unwrap();
        known.insert(name, knows);
    }
    faulty.until_healthy().await;
    assert!(faulty.faults.hits() >= 5, "only {} faults", faulty.faults.hits());
    let newest = store.known_revision();
    let mut replayed = BTreeMap::new();
    for event in events(&store, Follow::after(Revision::ZERO), newest).await {
        assert_eq!(event.kind, Kind::Put);
        let number: u64 = String::from_utf8_lossy(&event.value.unwrap()).parse().unwrap();
        let before = replayed.insert(event.key.to_string(), number);
        assert!(before < Some(number), "numbers grow");
    }
    drop(store);
    let (store, _directory) = faulty.reopen();
    assert_eq!(store.known_revision(), newest);
    for entry in load(&store, "", None).unwrap().entries {
        let number: u64 = String::from_utf8_lossy(&entry.value).parse().unwrap();
        let name = entry.key.to_string();
        let Known { acknowledged, attempted } = known[&name];
        assert!((acknowledged..=attempted).contains(&number), "{name}: {acknowledged} {number} {attempted}");
        assert_eq!(replayed.get(&name), Some(&number), "followers saw the last number of {name}");
    }
}

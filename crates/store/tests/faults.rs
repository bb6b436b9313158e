//! A disk that fills up, fails, or is slow: what writers, readers and followers get, and what remains.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use bytes::Bytes;
use fastrand::Rng;
use std::{
    collections::BTreeMap,
    fs,
    sync::Arc,
    time::{Duration, Instant},
};
use store::{
    Change, ChangeKind, Error, Fate, Follow, Follower, Health, Revision, Store,
    contract::{commit_all, events, key, load, next, put},
    embedded::{Embedded, EmbeddedOptions},
    fault::{Cause, Fault, Faults, Lasting},
};
use tasks::Name;
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
        let store = open(&directory, EmbeddedOptions { media: faults.clone(), ..EmbeddedOptions::default() });
        Self { store, faults, directory }
    }

    fn reopen(self) -> (Arc<dyn Store>, TempDir) {
        self.store.close();
        drop(self.store);
        (open(&self.directory, EmbeddedOptions::default()), self.directory)
    }

    async fn until_healthy(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.store.health().is_good() {
            assert!(Instant::now() < deadline, "the store should have recovered: {:?}", self.store.health());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn open(directory: &TempDir, options: EmbeddedOptions) -> Arc<dyn Store> {
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
async fn a_full_disk_is_noticed_while_there_is_room_for_deletes() {
    let faulty = Faulty::open();
    let store = &faulty.store;
    put(store, "a", "1").await;
    put(store, "b", "1").await;
    let reserve = faulty.directory.path().join("data/reserve");
    assert!(reserve.metadata().unwrap().len() > 0);

    faulty.faults.inject(Fault::Reserve(Cause::Full), Lasting::UntilCleared);
    let large = vec![0; 3 << 20];
    let refused = store.commit(Change::put(key("c"), large.clone())).await;
    assert!(matches!(refused, Err(Error::Full { fate: Fate::NotWritten, .. })), "{refused:?}");
    assert_eq!(reserve.metadata().unwrap().len(), 0, "it is released");
    assert!(matches!(store.health(), Health::Failing(Error::Full { .. })), "{:?}", store.health());
    let refused = store.commit(Change::put(key("a"), "2")).await;
    assert!(matches!(refused, Err(Error::Full { fate: Fate::NotWritten, .. })), "{refused:?}");
    store.commit(Change::delete(key("b"))).await.unwrap();
    store.compact(store.known_revision()).await.unwrap();
    assert_eq!(load(store, "", None).unwrap().texts(), ["a=1"]);

    faulty.faults.clear();
    faulty.until_healthy().await;
    assert!(reserve.metadata().unwrap().len() > 0, "it is made again");
    assert_eq!(store.commit(Change::put(key("c"), large)).await.unwrap().revision, Revision(4));
}

#[tokio::test]
async fn deletes_do_not_use_up_what_reclaiming_needs() {
    let faulty = Faulty::open();
    let store = &faulty.store;
    let names: Vec<String> = (0..20_000).map(|n| format!("pods/default/pod-{n:05}")).collect();
    commit_all(store, names.iter().map(|name| Change::put(key(name), "v"))).await;
    faulty.faults.inject(Fault::Reserve(Cause::Full), Lasting::UntilCleared);
    store.commit(Change::put(key("c"), vec![0; 3 << 20])).await.unwrap_err();
    let mut deleted = 0;
    for names in names.chunks(1000) {
        let deletes: Vec<_> = names.iter().map(|name| store.commit(Change::delete(key(name)))).collect();
        for delete in deletes {
            deleted += u32::from(delete.await.is_ok());
        }
    }
    assert!((1000..20_000).contains(&deleted), "{deleted}");
    faulty.faults.clear();
    faulty.until_healthy().await;
    assert_eq!(load(store, "", None).unwrap().entries.len() as u32, 20_000 - deleted);
}

/// Nothing is acknowledged that was written to files that are not there any more.
#[tokio::test]
async fn a_store_whose_directory_is_gone_takes_no_writes() {
    for path in ["data", "data/db", "data/db/0.jnl"] {
        let faulty = Faulty::open();
        let store = &faulty.store;
        put(store, "a", "1").await;
        let (place, aside) = (faulty.directory.path().join(path), faulty.directory.path().join("aside"));
        fs::rename(&place, &aside).unwrap();
        let lost = store.commit(Change::put(key("a"), "2")).await;
        assert!(matches!(lost, Err(Error::Io { fate: Fate::Unknown, .. })), "{path}: {lost:?}");
        let refused = store.commit(Change::put(key("a"), "3")).await.unwrap_err();
        assert!(refused.to_string().contains("removed or replaced"), "{path}: {refused}");
        assert!(matches!(store.health(), Health::Failing(_)), "{path}");
        assert_eq!(store.get(&key("a")).unwrap().unwrap().value, "1", "{path}");

        fs::rename(&aside, &place).unwrap();
        faulty.until_healthy().await;
        assert_eq!(store.get(&key("a")).unwrap().unwrap().value, "2", "{path}: it was written after all");
        put(store, "a", "4").await;
    }
}

#[tokio::test]
async fn a_store_whose_directory_is_removed_notices_without_a_write() {
    let faulty = Faulty::open();
    put(&faulty.store, "a", "1").await;
    fs::remove_dir_all(faulty.directory.path().join("data")).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while faulty.store.health().is_good() {
        assert!(Instant::now() < deadline, "the store should have noticed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(faulty.store.commit(Change::put(key("a"), "2")).await.is_err());
    assert!(!faulty.directory.path().join("data").exists(), "nothing is made in its place");
}

/// Another store in the place of the own one is left alone.
#[tokio::test]
async fn a_store_whose_directory_is_replaced_does_not_use_the_other() {
    let (faulty, other) = (Faulty::open(), Faulty::open());
    put(&faulty.store, "a", "1").await;
    put(&other.store, "b", "1").await;
    other.store.close();
    let place = faulty.directory.path().join("data");
    fs::rename(&place, faulty.directory.path().join("aside")).unwrap();
    fs::rename(other.directory.path().join("data"), &place).unwrap();
    faulty.store.commit(Change::put(key("a"), "2")).await.unwrap_err();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(faulty.store.commit(Change::put(key("a"), "3")).await.is_err());
    let replaced = open(&faulty.directory, EmbeddedOptions::default());
    assert_eq!(load(&replaced, "", None).unwrap().texts(), ["b=1"]);
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

/// Waits until the disk holds a sync.
async fn until_held(faults: &Faults, hits: u64) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while faults.hits() < hits {
        assert!(Instant::now() < deadline, "a change should be on its way");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_dropped_before_it_began_is_not_made() {
    let faulty = Faulty::open();
    let store = &faulty.store;
    put(store, "a", "1").await;
    faulty.faults.inject(Fault::HeldSync, Lasting::UntilCleared);
    let begun = store.commit(Change::put(key("begun"), "v"));
    until_held(&faulty.faults, 1).await;
    drop(begun);
    let waiting: Vec<_> = (0..100)
        .map(|n| store.commit(Change::put(key(&format!("waiting/{n}")), "v").create_only()))
        .collect();
    for (n, commit) in waiting.into_iter().enumerate() {
        match n % 2 {
            0 => drop(commit),
            // A caller with a deadline.
            _ => drop(tokio::time::timeout(Duration::from_millis(1), commit).await.unwrap_err()),
        }
    }
    let patient = store.commit(Change::put(key("patient"), "v"));
    assert_eq!(load(store, "", None).unwrap().texts(), ["a=1"], "reads go on");
    faulty.faults.clear();
    patient.await.unwrap();
    assert_eq!(load(store, "", None).unwrap().texts(), ["a=1", "begun=v", "patient=v"]);
    assert_eq!(store.known_revision(), Revision(3), "no revision was given to what was withdrawn");
    let (store, _directory) = faulty.reopen();
    assert_eq!(load(&store, "", None).unwrap().texts(), ["a=1", "begun=v", "patient=v"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_that_wait_for_a_disk_are_bounded() {
    let faulty = Faulty::open();
    let store = &faulty.store;
    faulty.faults.inject(Fault::HeldSync, Lasting::UntilCleared);
    let begun = store.commit(Change::put(key("a"), "1"));
    until_held(&faulty.faults, 1).await;
    let value = Bytes::from(vec![b'x'; 3 << 20]);
    let large = |n: usize| store.commit(Change::put(key(&format!("large/{n}")), value.clone()));
    let mut waiting: Vec<_> = (0..21).map(large).collect();
    for n in 0..3 {
        let refused = large(100 + n).await;
        assert!(matches!(refused, Err(Error::Busy { changes: 21, .. })), "{refused:?}");
    }
    drop(waiting.pop());
    waiting.push(large(20));
    let refused = large(100).await.unwrap_err();
    assert!(refused.to_string().ends_with("nothing was written"), "{refused}");
    waiting.clear();

    let small = |n: usize| store.commit(Change::put(key(&format!("small/{n}")), "v"));
    let waiting: Vec<_> = (0..16_384).map(small).collect();
    assert!(matches!(small(16_384).await, Err(Error::Busy { changes: 16_384, .. })));
    store::register_families();
    let counted = |family: &str| {
        let text = metrics::MAIN.expose(metrics::Format::Text);
        let line =
            text.lines().find_map(|line| line.strip_prefix(family)?.strip_prefix(' ').map(str::to_owned));
        line.unwrap().parse::<f64>().unwrap()
    };
    assert_eq!(counted("keelson_store_waiting_changes"), 16_384.0);
    assert_eq!(counted("keelson_store_refused_changes_total"), 5.0);
    faulty.faults.clear();
    begun.await.unwrap();
    for commit in waiting {
        commit.await.unwrap();
    }
    assert_eq!(load(store, "", None).unwrap().entries.len(), 16_385);
    small(16_384).await.unwrap();
    assert_eq!(counted("keelson_store_waiting_changes"), 0.0);
    assert_eq!(counted("keelson_store_waiting_bytes"), 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_does_not_answer_is_a_failing_one_until_it_does() {
    let faulty = Faulty::open();
    let store = &faulty.store;
    faulty.faults.inject(Fault::HeldSync, Lasting::UntilCleared);
    let begun = store.commit(Change::put(key("a"), "1"));
    let waiting = store.commit(Change::put(key("b"), "1"));
    assert!(store.health().is_good(), "a sync may take a while");
    let begin = Instant::now();
    let stalled = loop {
        match store.health() {
            Health::Failing(error @ Error::Stalled { .. }) => break error,
            _ => assert!(begin.elapsed() < Duration::from_secs(20), "nobody has noticed"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(begin.elapsed() >= Duration::from_secs(4), "{:?}", begin.elapsed());
    assert!(stalled.to_string().contains("the disk has not answered for 5 s, and "), "{stalled}");
    drop(waiting);
    assert!(!store.health().is_good(), "what was begun is not finished");
    faulty.faults.clear();
    begun.await.unwrap();
    faulty.until_healthy().await;
    put(store, "c", "1").await;
    assert!(store.health().is_good());
}

/// What one writer knows of its own key.
#[derive(Default)]
struct Known {
    acknowledged: u64,
    attempted: u64,
}

/// Writes ever larger numbers to one key while the disk comes and goes.
/// Has a thread panic at its next fault point.
async fn make_panic(thread: Name) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while tasks::faults::inject(thread, tasks::faults::Fault::Panic) == 0 {
        assert!(Instant::now() < deadline, "{thread} does not run");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Commits until that works.
async fn commit_at_last(store: &Arc<dyn Store>, change: Change) -> Revision {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match store.commit(change.clone()).await {
            Ok(committed) => return committed.revision,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_committer_that_panics_after_a_write_begins_again_with_what_is_on_disk() {
    let faulty = Faulty::open();
    let store = &faulty.store;
    put(store, "a", "1").await;
    let mut follower = follower_at_end(store).await;

    make_panic(Name::StoreCommit).await;
    let unknown = store.commit(Change::put(key("a"), "2")).await;
    assert!(matches!(unknown, Err(Error::Io { fate: Fate::Unknown, .. })), "{unknown:?}");
    assert_eq!(store.get(&key("a")).unwrap().unwrap().value, "1");
    // Changes wait for the next run, in which the first one may find that the engine is being opened.
    assert_eq!(commit_at_last(store, Change::put(key("b"), "3")).await, Revision(3));
    assert_eq!(store.get(&key("a")).unwrap().unwrap().value, "2");
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let batch = next(&mut follower).await.unwrap();
        seen.extend(batch.events.iter().map(|event| (event.revision(), event.key.to_string())));
    }
    assert_eq!(seen, [(Revision(2), "a".to_owned()), (Revision(3), "b".to_owned())]);
    faulty.until_healthy().await;
    let (store, _directory) = faulty.reopen();
    assert_eq!(load(&store, "", None).unwrap().texts(), ["a=2", "b=3"]);
}

#[tokio::test]
async fn a_reader_that_panics_fails_its_job_alone() {
    let faulty = Faulty::open();
    let store = &faulty.store;
    put(store, "a", "1").await;
    make_panic(Name::StoreRead).await;
    let wants_value = || Change::put(key("a"), "2").returning_value();
    let unknown = store.commit(wants_value()).await;
    assert!(matches!(unknown, Err(Error::Io { fate: Fate::Unknown, .. })), "{unknown:?}");
    assert_eq!(store.get(&key("a")).unwrap().unwrap().value, "2", "it was committed");
    let again = store.commit(wants_value()).await.unwrap();
    assert_eq!(again.previous.unwrap().value.unwrap().unwrap(), "2");
    assert!(store.health().is_good());
}

#[tokio::test]
async fn a_reclaimer_that_panics_goes_on_reclaiming() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(
        &directory,
        EmbeddedOptions { retention: Duration::from_millis(400), ..EmbeddedOptions::default() },
    );
    make_panic(Name::StoreReclaim).await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while tasks::faults::running(Name::StoreReclaim) == 1 {
        assert!(Instant::now() < deadline, "it does not meet the fault");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    put(&store, "a", "1").await;
    while store.compacted() < Revision(1) {
        assert!(Instant::now() < deadline, "history is not given up");
        put(&store, "a", "2").await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

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
        assert_eq!(event.kind, ChangeKind::Put);
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

#[tokio::test]
async fn a_store_that_does_not_sync_never_asks_the_disk_and_keeps_what_was_committed() {
    let directory = tempfile::tempdir().unwrap();
    let faults = Arc::new(Faults::default());
    let options = || EmbeddedOptions { syncs: false, media: faults.clone(), ..EmbeddedOptions::default() };
    let store = open(&directory, options());
    faults.inject(Fault::Sync(Cause::Full), Lasting::UntilCleared);
    assert_eq!(put(&store, "a", "1").await, Revision(1));
    assert_eq!(put(&store, "a", "2").await, Revision(2));
    store.compact(Revision(1)).await.unwrap();
    assert!(store.health().is_good());
    store.close();
    drop(store);
    let store = open(&directory, options());
    assert_eq!(load(&store, "", None).unwrap().texts(), ["a=2"]);
    assert_eq!(faults.hits(), 0, "no commit waited for a sync");
}

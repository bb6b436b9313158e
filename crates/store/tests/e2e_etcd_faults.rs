//! Members that die, stop and come back, connections that are cut, held and delayed, compaction under load:
//! random histories of several clients on a cluster of three, judged afterwards.
//!
//! A commit answers with its revision, and every value is written once, so the order of all changes is known
//! in the end: it is what etcd itself has. Each answer is compared with it. A write with an unknown outcome
//! may have happened, at any time after it was begun; one that was refused may not.
//!
//! Everything random comes from a seed, which every failure names; `STORE_FAULT_SEED` sets it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use bytes::Bytes;
use fastrand::Rng;
use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use store::{
    Change, ChangeKind, Committed, Entry, Error, Event, Expect, Fate, Follow, Key, Op, Revision, Store,
    etcd::{Etcd, EtcdOptions},
};
use testkit::{Proxy, ProxyMode, Signal};

const FLAGS: &[&str] = &["--heartbeat-interval=50", "--election-timeout=500", "--unsafe-no-fsync"];
const KEYS: usize = 6;
const WRITERS: usize = 3;
/// The index of the store that observes.
const OBSERVER: usize = 2;

fn seed() -> u64 {
    std::env::var("STORE_FAULT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

fn key(number: usize) -> Key {
    Key::try_from(format!("/registry/k/{number}")).unwrap()
}

/// A write, when it ran, and what came of it.
struct Write {
    change: Change,
    outcome: Result<Committed, Error>,
    begun: Instant,
    ended: Instant,
    /// The largest revision that any client had been answered when it began.
    floor: u64,
}

impl Write {
    fn is_unknown(&self) -> bool {
        let fate = match &self.outcome {
            Err(Error::Io { fate, .. } | Error::Full { fate, .. }) => *fate,
            _ => Fate::NotWritten,
        };
        fate == Fate::Unknown
    }
}

struct Get {
    key: Key,
    found: Option<Entry>,
    floor: u64,
    known: Revision,
}

struct Load {
    revision: Revision,
    entries: Vec<Entry>,
}

/// A stretch of history that a follower has received without a break.
struct Stretch {
    store: usize,
    from: Revision,
    to: Revision,
    events: Vec<Event>,
}

/// What all clients share.
struct Run {
    /// Two that fail, and the observer, whose connections do not.
    stores: Vec<Arc<Etcd>>,
    /// The revision at which everything began.
    start: Revision,
    stop: AtomicBool,
    /// The largest revision that any client was answered.
    acknowledged: AtomicU64,
    writes: Mutex<Vec<Write>>,
    gets: Mutex<Vec<Get>>,
    loads: Mutex<Vec<Load>>,
    stretches: Mutex<Vec<Stretch>>,
}

impl Run {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn floor(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    async fn write(self: Arc<Self>, store: usize, writer: usize, mut rng: Rng) {
        let store = self.stores[store].clone();
        let mut known: HashMap<Key, Revision> = HashMap::new();
        let mut turn = 0;
        while !self.is_over() {
            turn += 1;
            let key = key(rng.usize(..KEYS));
            let mut change = match rng.u8(..5) {
                0 => Change::delete(key.clone()),
                _ => Change::put(key.clone(), format!("{writer}.{turn}{}", ".".repeat(rng.usize(..300)))),
            };
            change.expect = match rng.u8(..4) {
                0 => Expect::Any,
                1 if matches!(change.op, Op::Put(_)) => Expect::Absent,
                _ => known.get(&key).map_or(Expect::Any, |known| Expect::At(*known)),
            };
            let (begun, floor) = (Instant::now(), self.floor());
            let outcome = store.commit(change.clone()).await;
            let took = begun.elapsed();
            assert!(took < Duration::from_secs(25), "a commit took {took:?}");
            match &outcome {
                Ok(committed) => {
                    self.acknowledged.fetch_max(committed.revision.0, Ordering::SeqCst);
                    assert!(store.known_revision() >= committed.revision);
                    known.insert(key, committed.revision);
                }
                Err(Error::Conflict(conflict)) => {
                    match &conflict.found {
                        Some(found) => known.insert(key, found.head.mod_revision),
                        None => known.remove(&key),
                    };
                }
                Err(_) => drop(known.remove(&key)),
            }
            let ended = Instant::now();
            self.writes.lock().unwrap().push(Write { change, outcome, begun, ended, floor });
            tokio::time::sleep(Duration::from_millis(rng.u64(..10))).await;
        }
    }

    /// Gets, loads, and asks for the newest revision, in turns.
    fn read(&self, store: usize, mut rng: Rng) {
        let store = &self.stores[store];
        while !self.is_over() {
            let floor = self.floor();
            if rng.u8(..4) > 0 {
                let key = key(rng.usize(..KEYS));
                if let Ok(found) = store.get(&key) {
                    self.gets.lock().unwrap().push(Get { key, found, floor, known: store.known_revision() });
                }
            } else {
                let mut entries = Vec::new();
                let loaded = store.load(b"/registry/k/", None, &mut |entry| {
                    entries.push(entry.unwrap());
                    ControlFlow::Continue(())
                });
                match loaded {
                    Ok(revision) => self.loads.lock().unwrap().push(Load { revision, entries }),
                    Err(Error::Compacted { .. } | Error::Io { .. }) => {}
                    Err(error) => panic!("a load failed: {error}"),
                }
            }
            std::thread::sleep(Duration::from_millis(rng.u64(..20)));
        }
    }

    /// The newest revision covers every acknowledged one, and a follower comes to it.
    async fn follow(self: Arc<Self>, index: usize, mut rng: Rng) {
        let store = self.stores[index].clone();
        let mut stretch = Stretch { store: index, from: self.start, to: self.start, events: Vec::new() };
        let mut goal = Revision::ZERO;
        loop {
            if self.is_over() && stretch.to >= goal && goal > Revision::ZERO {
                break;
            }
            if goal <= stretch.to {
                let floor = self.floor();
                if let Ok(newest) = store.newest_revision().await {
                    assert!(
                        newest.0 >= floor,
                        "the newest revision is {newest}, but {floor} was acknowledged"
                    );
                    goal = newest;
                }
            }
            let Ok(mut follower) = store.follow(Follow::after(stretch.to)) else {
                stretch = self.reload(&store, stretch).await;
                continue;
            };
            for _ in 0..rng.usize(1..50) {
                match tokio::time::timeout(Duration::from_millis(300), follower.next()).await {
                    Ok(Ok(batch)) => {
                        stretch.to = batch.revision;
                        stretch.events.extend(batch.events);
                    }
                    Ok(Err(Error::Compacted { .. })) => {
                        stretch = self.reload(&store, stretch).await;
                        break;
                    }
                    Ok(Err(Error::Io { .. })) | Err(_) => break,
                    Ok(Err(error)) => panic!("a follower ended: {error}"),
                }
            }
        }
        self.stretches.lock().unwrap().push(stretch);
    }

    /// Starts again from a load, as a cache does.
    async fn reload(&self, store: &Arc<Etcd>, done: Stretch) -> Stretch {
        let index = done.store;
        self.stretches.lock().unwrap().push(done);
        loop {
            let store = store.clone();
            let mut entries = Vec::new();
            let loaded = tokio::task::spawn_blocking(move || {
                let revision = store.load(b"/registry/k/", None, &mut |entry| {
                    entries.push(entry.unwrap());
                    ControlFlow::Continue(())
                });
                revision.map(|revision| Load { revision, entries })
            });
            if let Ok(load) = loaded.await.unwrap() {
                let from = load.revision;
                self.loads.lock().unwrap().push(load);
                return Stretch { store: index, from, to: from, events: Vec::new() };
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The truth: all events, as the observer has received them.
#[derive(Default)]
struct Truth {
    events: BTreeMap<(Revision, Key), Event>,
    states: HashMap<Key, Vec<(Revision, Option<Entry>)>>,
}

impl Truth {
    fn new(observed: &Stretch) -> Self {
        let mut truth = Self::default();
        for event in &observed.events {
            truth.events.insert((event.revision(), event.key.clone()), event.clone());
        }
        for event in truth.events.values() {
            let live = (event.kind == ChangeKind::Put).then(|| Entry {
                key: event.key.clone(),
                head: event.head,
                value: event.value.clone().unwrap(),
            });
            truth.states.entry(event.key.clone()).or_default().push((event.revision(), live));
        }
        truth
    }

    fn at(&self, key: &Key, revision: Revision) -> Option<&Entry> {
        let states = self.states.get(key)?;
        let after = states.partition_point(|(at, _)| *at <= revision);
        states.get(after.checked_sub(1)?)?.1.as_ref()
    }

    fn all_at(&self, revision: Revision) -> Vec<Entry> {
        let mut all: Vec<Entry> =
            self.states.keys().filter_map(|key| self.at(key, revision).cloned()).collect();
        all.sort_by(|one, next| one.key.cmp(&next.key));
        all
    }
}

fn judge(run: &Run) -> String {
    let stretches = run.stretches.lock().unwrap();
    let observed: Vec<_> = stretches.iter().filter(|stretch| stretch.store == OBSERVER).collect();
    assert_eq!(observed.len(), 1, "the observer has missed nothing");
    let truth = Truth::new(observed[0]);
    for stretch in stretches.iter() {
        assert!(stretch.events.iter().map(Event::revision).is_sorted(), "events are in order");
        let seen = stretch.events.iter().all(|event| {
            let same = truth.events.get(&(event.revision(), event.key.clone()));
            same.is_some_and(|same| {
                same.value == event.value && same.kind == event.kind && same.head == event.head
            })
        });
        assert!(
            seen,
            "a follower of {}..={} got an event that the observer did not",
            stretch.from, stretch.to
        );
        let expected: Vec<_> = truth
            .events
            .values()
            .filter(|event| stretch.from < event.revision() && event.revision() <= stretch.to)
            .map(|event| (event.revision(), &event.key))
            .collect();
        let mut got: Vec<_> = stretch.events.iter().map(|event| (event.revision(), &event.key)).collect();
        got.sort();
        assert_eq!(got, expected, "a follower of {}..={} missed something", stretch.from, stretch.to);
    }
    let writes = run.writes.lock().unwrap();
    let (mut done, mut unknown, mut happened) = (0, 0, 0);
    let mut explained: HashMap<(Revision, Key), &Write> = HashMap::new();
    let mut by_value: HashMap<&Bytes, &Write> = HashMap::new();
    for write in writes.iter() {
        if let Op::Put(value) = &write.change.op {
            assert!(by_value.insert(value, write).is_none(), "a value is written twice");
        }
        match &write.outcome {
            Ok(committed) => {
                done += 1;
                let place = (committed.revision, write.change.key.clone());
                let event =
                    truth.events.get(&place).unwrap_or_else(|| panic!("acknowledged {place:?} is lost"));
                let previous = committed.previous.as_ref().map(|previous| previous.head);
                assert_eq!(event.previous.as_ref().map(|previous| previous.head), previous);
                assert!(
                    committed.revision.0 > write.floor,
                    "{place:?} was begun after {} was acknowledged",
                    write.floor
                );
                assert!(explained.insert(place, write).is_none(), "two writes have one revision");
            }
            Err(Error::Conflict(conflict)) => {
                let upper = truth.events.keys().last().map_or(0, |(revision, _)| revision.0);
                let is_right = (write.floor..=upper).any(|at| {
                    let current = truth.at(&write.change.key, Revision(at)).map(|entry| entry.head);
                    current == conflict.found.as_ref().map(|found| found.head)
                        && !holds(&write.change, current)
                });
                assert!(is_right, "a conflict is not explained: {conflict}");
            }
            Err(Error::Io { .. } | Error::Full { .. }) => unknown += usize::from(write.is_unknown()),
            Err(error) => panic!("a commit failed: {error}"),
        }
    }
    for ((revision, key), event) in &truth.events {
        let previous = event.previous.as_ref().map(|previous| previous.head);
        let before = truth.at(key, Revision(revision.0 - 1)).map(|entry| entry.head);
        if truth.states[key].first().is_some_and(|(first, _)| first < revision) {
            assert_eq!(previous, before, "the entry before {revision}");
        }
        let write = explained.get(&(*revision, key.clone())).copied().or_else(|| match event.kind {
            ChangeKind::Put => {
                by_value.get(event.value.as_ref().unwrap()).copied().filter(|write| write.is_unknown())
            }
            ChangeKind::Delete => writes.iter().find(|write| {
                write.is_unknown()
                    && matches!(write.change.op, Op::Delete)
                    && write.change.key == *key
                    && holds(&write.change, previous)
                    && write.floor < revision.0
            }),
        });
        let write = write.unwrap_or_else(|| panic!("nobody has written {event:?}"));
        happened += usize::from(write.is_unknown());
        assert!(holds(&write.change, previous), "the precondition of {revision} did not hold");
        assert!(write.floor < revision.0, "{revision} was begun after {} was acknowledged", write.floor);
    }
    // A later write has a larger revision than one that was answered before it began.
    let mut finished: Vec<_> = writes
        .iter()
        .filter_map(|write| Some((write.ended, write.outcome.as_ref().ok()?.revision)))
        .collect();
    finished.sort();
    let mut begun: Vec<_> = writes
        .iter()
        .filter_map(|write| Some((write.begun, write.outcome.as_ref().ok()?.revision)))
        .collect();
    begun.sort();
    let (mut at, mut newest) = (0, Revision::ZERO);
    for (begin, revision) in begun {
        while finished.get(at).is_some_and(|(end, _)| *end < begin) {
            newest = newest.max(finished[at].1);
            at += 1;
        }
        assert!(revision > newest, "{revision} was begun after {newest} was answered");
    }
    let gets = run.gets.lock().unwrap();
    for get in gets.iter() {
        let is_right =
            (get.floor..=get.known.0).any(|at| truth.at(&get.key, Revision(at)) == get.found.as_ref());
        assert!(is_right, "a get of {} in {}..={} is not explained", get.key, get.floor, get.known);
    }
    let loads = run.loads.lock().unwrap();
    for load in loads.iter() {
        assert_eq!(load.entries, truth.all_at(load.revision), "the load at {}", load.revision);
    }
    format!(
        "{done} commits, {unknown} with an unknown outcome of which {happened} happened, {} gets, {} loads, {} stretches",
        gets.len(),
        loads.len(),
        stretches.len()
    )
}

fn holds(change: &Change, current: Option<store::Head>) -> bool {
    match (change.expect, current) {
        (Expect::Any, current) => current.is_some() || matches!(change.op, Op::Put(_)),
        (Expect::Absent, current) => current.is_none(),
        (Expect::At(expected), current) => current.is_some_and(|head| head.mod_revision == expected),
    }
}

/// The cluster, and the ways to its members.
struct Cluster {
    etcd: testkit::Etcd,
    proxies: Vec<Proxy>,
}

async fn connect(endpoints: Vec<String>, window: usize) -> Arc<Etcd> {
    let options = EtcdOptions { endpoints, window, ..EtcdOptions::default() };
    tokio::task::spawn_blocking(|| Arc::new(Etcd::connect(options).unwrap())).await.unwrap()
}

/// Runs clients on a cluster, does `count` faults to it, lets it mend, and judges.
async fn run(seed: u64, count: usize, fault: impl AsyncFn(&mut Cluster, &Arc<Run>, &mut Rng)) {
    let mut rng = Rng::with_seed(seed);
    // Members of 3.5.0 to 3.5.2 that are killed can come back with other contents than the others.
    let etcd = testkit::Etcd::start("etcd-3.4", 3, FLAGS).unwrap();
    let mut proxies = Vec::new();
    for endpoint in etcd.endpoints() {
        proxies.push(Proxy::start(endpoint.trim_start_matches("http://")).unwrap());
    }
    let mut endpoints: Vec<String> =
        proxies.iter().map(|proxy| format!("http://{}", proxy.address())).collect();
    let mut stores = Vec::new();
    for window in [8 << 20, 20_000] {
        stores.push(connect(endpoints.clone(), window).await);
        endpoints.rotate_left(1);
    }
    stores.push(connect(etcd.endpoints(), 64 << 20).await);
    let run = Arc::new(Run {
        start: stores[OBSERVER].known_revision(),
        stores,
        stop: AtomicBool::new(false),
        acknowledged: AtomicU64::new(0),
        writes: Mutex::default(),
        gets: Mutex::default(),
        loads: Mutex::default(),
        stretches: Mutex::default(),
    });
    let (mut tasks, mut threads) = (Vec::new(), Vec::new());
    for store in 0..run.stores.len() {
        tasks.push(tokio::spawn(run.clone().follow(store, rng.fork())));
        if store == OBSERVER {
            continue;
        }
        let (reads, rng_of_reads) = (run.clone(), rng.fork());
        threads.push(std::thread::spawn(move || reads.read(store, rng_of_reads)));
        for writer in 0..WRITERS {
            tasks.push(tokio::spawn(run.clone().write(store, store * WRITERS + writer, rng.fork())));
        }
    }
    let mut cluster = Cluster { etcd, proxies };
    for _ in 0..count {
        fault(&mut cluster, &run, &mut rng).await;
        tokio::time::sleep(Duration::from_millis(rng.u64(..400))).await;
    }
    cluster.etcd.wait_until_ready().unwrap();
    // The stores recover by themselves.
    let mending = Instant::now();
    while !run.stores.iter().all(|store| store.health().is_good()) {
        assert!(mending.elapsed() < Duration::from_secs(30), "seed {seed}: {:?}", run.stores[0].health());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    run.stop.store(true, Ordering::SeqCst);
    for task in tasks {
        tokio::time::timeout(Duration::from_secs(60), task)
            .await
            .expect("a client ends")
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    for thread in threads {
        tokio::task::spawn_blocking(|| thread.join()).await.unwrap().unwrap();
    }
    eprintln!("seed {seed}: {count} faults, {}", judge(&run));
    let writes = run.writes.lock().unwrap();
    assert!(
        writes.iter().filter(|write| write.outcome.is_ok()).count() > 3 * count,
        "seed {seed}: little was done"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_histories_are_linearizable_while_members_fail() {
    run(seed(), 80, async |cluster, _, rng| {
        let leader = cluster.etcd.leader();
        let member = leader.filter(|_| rng.bool()).unwrap_or_else(|| rng.usize(..3));
        match rng.u8(..3) {
            0 => {
                cluster.etcd.kill(member).unwrap();
                tokio::time::sleep(Duration::from_millis(rng.u64(..1500))).await;
                cluster.etcd.launch(member).unwrap();
                cluster.etcd.wait_until_ready().unwrap();
            }
            _ => {
                cluster.etcd.signal(member, Signal::SIGSTOP).unwrap();
                tokio::time::sleep(Duration::from_millis(rng.u64(10..2500))).await;
                cluster.etcd.signal(member, Signal::SIGCONT).unwrap();
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_histories_are_linearizable_while_connections_fail() {
    run(seed() + 1000, 160, async |cluster, run, rng| {
        let proxy = &cluster.proxies[rng.usize(..3)];
        let pause = Duration::from_millis(rng.u64(10..800));
        match rng.u8(..6) {
            0..3 => proxy.cut(),
            3 => {
                proxy.set(ProxyMode::Delay(Duration::from_millis(rng.u64(1..200))));
                tokio::time::sleep(pause).await;
                proxy.set(ProxyMode::Pass);
            }
            4 => {
                proxy.set(ProxyMode::Hold);
                tokio::time::sleep(3 * pause).await;
                proxy.set(ProxyMode::Pass);
            }
            _ => {
                let store = &run.stores[rng.usize(..OBSERVER)];
                drop(store.compact(store.known_revision()).await);
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_that_wait_for_etcd_are_bounded() {
    let etcd = testkit::Etcd::start("etcd", 1, &["--unsafe-no-fsync"]).unwrap();
    let proxy = Proxy::start(etcd.endpoints()[0].trim_start_matches("http://")).unwrap();
    let store = connect(vec![format!("http://{}", proxy.address())], 8 << 20).await;
    let put = |number: usize| store.commit(Change::put(key(number), vec![b'x'; 1 << 20]));
    put(0).await.unwrap();

    proxy.set(ProxyMode::Hold);
    let mut waiting: Vec<_> = (1..64).map(put).collect();
    let refused = put(64).await;
    assert!(matches!(refused, Err(Error::Busy { changes: 63, .. })), "{refused:?}");
    // The bytes of a change that was sent count until its answer, also when nobody waits for that.
    let last = waiting.pop().unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(100), last).await.is_err(), "nothing answers");
    assert!(matches!(put(64).await, Err(Error::Busy { .. })));

    proxy.set(ProxyMode::Pass);
    for commit in waiting {
        commit.await.unwrap();
    }
    let last = put(64).await.unwrap();
    assert!(last.revision.0 > 64, "{last:?}");
    let found = tokio::task::spawn_blocking(move || {
        (0..65).filter(|number| store.get(&key(*number)).unwrap().is_some()).count()
    });
    assert_eq!(found.await.unwrap(), 65);
}

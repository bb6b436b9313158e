//! Two servers on three members of etcd, while members and servers are killed and stopped, connections are
//! delayed, held and cut, the alarm of a full database is raised, and history is compacted: random histories
//! of several HTTP clients, judged afterwards.
//!
//! An observer with connections of its own follows etcd itself: its events are the truth. Every value is
//! written once, so each answer is compared with it:
//!
//! 1. Writes and consistent reads are linearizable: an answer fits the state at a revision between its call
//!    and its return.
//! 2. A write that was acknowledged is there, one that was refused is not, one with an unknown outcome
//!    happened once or never.
//! 3. A watcher gets each event between its resume points once, in order, with the contents of that revision,
//!    on either server.
//!
//! Everything random comes from a seed, which is printed; `KEELSON_FAULT_SEED` sets it.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "test code")]

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};
use store::{ChangeKind, Follow, Revision, Store as _};
use testkit::http::{Connection, Error, Target};
use testkit::{Etcd, Proxy, ProxyMode, Server, Signal, TOKEN};

const FLAGS: &[&str] = &["--heartbeat-interval=50", "--election-timeout=500", "--unsafe-no-fsync"];
const PATH: &str = "/api/v1/namespaces/faults/configmaps";
const PREFIX: &str = "/registry/configmaps/faults/";
const OBJECTS: usize = 4;
const WRITERS: usize = 2;
/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long servers may take to be ready again.
const MENDING: Duration = Duration::from_secs(60);

/// What a client asks for. A token is the value that a write makes, and no other write.
#[derive(Debug)]
enum Call {
    Create {
        token: String,
    },
    /// A PUT, on an object at a revision or on any.
    Update {
        token: String,
        expected: Option<u64>,
    },
    Delete,
    Get,
    List,
}

/// An object as a client has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    name: String,
    revision: u64,
    token: String,
}

#[derive(Debug)]
enum Outcome {
    /// It was written, or read.
    Object(Seen),
    /// All objects, at a revision.
    List {
        revision: u64,
        objects: Vec<Seen>,
    },
    Deleted,
    /// The object is not there.
    Absent,
    /// The object is there already, or at another revision.
    Conflict,
    /// Nobody knows.
    Unknown,
}

#[derive(Debug)]
struct Operation {
    server: usize,
    name: String,
    call: Call,
    outcome: Outcome,
    begun: Instant,
    ended: Instant,
    /// The largest revision that any client had been shown when it began.
    floor: u64,
}

impl Operation {
    fn token(&self) -> Option<&str> {
        match &self.call {
            Call::Create { token } | Call::Update { token, .. } => Some(token),
            _ => None,
        }
    }

    fn is_unknown(&self) -> bool {
        matches!(self.outcome, Outcome::Unknown)
    }
}

/// One event of a watch, or of the truth.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    revision: u64,
    name: String,
    kind: &'static str,
    /// The value that the object has, or had last.
    token: String,
}

/// What a watcher has received without starting over.
struct Stretch {
    server: usize,
    from: u64,
    to: u64,
    events: Vec<Event>,
}

struct Run {
    targets: Vec<RwLock<Target>>,
    stop: AtomicBool,
    /// The revision that watchers go on to after the end.
    end: AtomicU64,
    shown: AtomicU64,
    tokens: AtomicUsize,
    operations: Mutex<Vec<Operation>>,
    stretches: Mutex<Vec<Stretch>>,
    resumed: AtomicUsize,
}

/// The name of one of the objects.
fn object(number: usize) -> String {
    format!("c{number}")
}

/// The token in the bytes of a value.
fn token_in(bytes: &[u8]) -> String {
    let at = bytes.windows(6).position(|part| part == b"token-");
    let found = at.and_then(|at| bytes.get(at..at + 12));
    String::from_utf8_lossy(found.unwrap_or_default()).into_owned()
}

fn seen(object: &Value) -> Option<Seen> {
    let name = object["metadata"]["name"].as_str()?.to_owned();
    let revision = object["metadata"]["resourceVersion"].as_str()?.parse().ok()?;
    let token = object["data"]["token"].as_str().unwrap_or_default().to_owned();
    Some(Seen { name, revision, token })
}

/// Whether an object is one of those that clients write, and not one that a controller made.
fn is_ours(name: &str) -> bool {
    name.starts_with('c')
}

impl Run {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn target(&self, server: usize) -> Target {
        self.targets[server].read().unwrap().clone()
    }

    fn token(&self) -> String {
        format!("token-{:06}", self.tokens.fetch_add(1, Ordering::SeqCst))
    }

    /// One exchange; none if the connection failed.
    fn exchange(
        &self,
        server: usize,
        kept: &mut Option<Connection>,
        call: [&str; 3],
    ) -> Option<(u16, Value)> {
        let [method, path, body] = call;
        let target = self.target(server);
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => target.connect(PATIENCE).ok()?,
        };
        connection.allow(PATIENCE);
        connection.send(request(&target, method, path, body).as_bytes()).ok()?;
        let mut head = connection.head(method).ok()?;
        let answer = connection.body(&mut head).ok()?;
        if head.reusable() {
            *kept = Some(connection);
        }
        Some((head.status, serde_json::from_slice(&answer).ok()?))
    }

    /// Makes a call and notes what came of it.
    fn call(&self, server: usize, kept: &mut Option<Connection>, name: &str, call: Call) {
        let object = |token: &str, expected: Option<u64>| {
            let mut object = json!({"metadata": {"name": name}, "data": {"token": token}});
            if let Some(expected) = expected {
                object["metadata"]["resourceVersion"] = expected.to_string().into();
            }
            object.to_string()
        };
        let one = format!("{PATH}/{name}");
        let (method, path, body) = match &call {
            Call::Create { token } => ("POST", PATH, object(token, None)),
            Call::Update { token, expected } => ("PUT", one.as_str(), object(token, *expected)),
            Call::Delete => ("DELETE", one.as_str(), String::new()),
            Call::Get => ("GET", one.as_str(), String::new()),
            Call::List => ("GET", PATH, String::new()),
        };
        let (begun, floor) = (Instant::now(), self.shown.load(Ordering::SeqCst));
        let answer = self.exchange(server, kept, [method, path, &body]);
        let outcome = match answer {
            None | Some((500.., _)) => Outcome::Unknown,
            Some((404, _)) => Outcome::Absent,
            Some((409, _)) => Outcome::Conflict,
            Some((200, answer)) if matches!(call, Call::List) => {
                let items = answer["items"].as_array().unwrap();
                let objects = items.iter().map(|item| seen(item).unwrap()).filter(|seen| is_ours(&seen.name));
                let revision = answer["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                Outcome::List { revision, objects: objects.collect() }
            }
            Some((200, _)) if matches!(call, Call::Delete) => Outcome::Deleted,
            Some((200 | 201, answer)) => Outcome::Object(seen(&answer).unwrap()),
            Some(other) => panic!("{method} {path}: {other:?}"),
        };
        match &outcome {
            Outcome::Object(Seen { revision, .. }) | Outcome::List { revision, .. } => {
                self.shown.fetch_max(*revision, Ordering::SeqCst);
            }
            _ => {}
        }
        let ended = Instant::now();
        let name = name.to_owned();
        self.operations.lock().unwrap().push(Operation { server, name, call, outcome, begun, ended, floor });
    }

    fn write(&self, server: usize, mut rng: Rng) {
        let mut kept = None;
        let mut known: HashMap<String, u64> = HashMap::new();
        while !self.is_over() {
            let name = object(rng.usize(..OBJECTS));
            let call = match rng.u8(..10) {
                0..3 => Call::Create { token: self.token() },
                3..6 => Call::Update { token: self.token(), expected: known.get(&name).copied() },
                6 | 7 => Call::Update { token: self.token(), expected: None },
                _ => Call::Delete,
            };
            self.call(server, &mut kept, &name, call);
            let operations = self.operations.lock().unwrap();
            let of_this = operations.iter().rev().filter(|operation| operation.name == name);
            let newest = of_this.take(20).find_map(|operation| match &operation.outcome {
                Outcome::Object(seen) => Some(seen.revision),
                _ => None,
            });
            drop(operations);
            known.extend(newest.map(|newest| (name, newest)));
            thread::sleep(Duration::from_millis(rng.u64(..40)));
        }
    }

    fn read(&self, server: usize, mut rng: Rng) {
        let mut kept = None;
        while !self.is_over() {
            let call = if rng.u8(..4) > 0 { Call::Get } else { Call::List };
            self.call(server, &mut kept, &object(rng.usize(..OBJECTS)), call);
            thread::sleep(Duration::from_millis(rng.u64(..30)));
        }
    }

    /// Watches, resumes after cuts, and starts over after 410.
    fn watch(&self, server: usize, mut rng: Rng) {
        let mut stretch: Option<Stretch> = None;
        loop {
            let end = self.end.load(Ordering::SeqCst);
            if let Some(done) = stretch.take_if(|stretch| end > 0 && stretch.to >= end) {
                self.stretches.lock().unwrap().push(done);
                return;
            }
            let Some(current) = &mut stretch else {
                stretch = self.start_over(server);
                continue;
            };
            self.resumed.fetch_add(1, Ordering::SeqCst);
            if self.watch_once(server, current, &mut rng) == Watched::TooOld {
                self.stretches.lock().unwrap().extend(stretch.take());
            }
        }
    }

    /// A list, to watch from there.
    fn start_over(&self, server: usize) -> Option<Stretch> {
        self.call(server, &mut None, "", Call::List);
        let operations = self.operations.lock().unwrap();
        let own =
            operations.iter().rev().find(|operation| operation.server == server && operation.name.is_empty());
        let revision = match own.map(|operation| &operation.outcome) {
            Some(Outcome::List { revision, .. }) => Some(*revision),
            _ => None,
        };
        drop(operations);
        if revision.is_none() {
            thread::sleep(Duration::from_millis(50));
        }
        revision.map(|from| Stretch { server, from, to: from, events: Vec::new() })
    }

    /// One watch, until it ends or is cut, or the end is reached.
    fn watch_once(&self, server: usize, stretch: &mut Stretch, rng: &mut Rng) -> Watched {
        let target = self.target(server);
        let seconds = rng.u64(2..8);
        let path = format!(
            "{PATH}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={}",
            stretch.to
        );
        let open = || -> Result<_, Error> {
            let mut connection = target.connect(Duration::from_secs(seconds + 5))?;
            connection.send(request(&target, "GET", &path, "").as_bytes())?;
            let head = connection.head("GET")?;
            Ok((connection, head))
        };
        let Ok((mut connection, mut head)) = open() else {
            thread::sleep(Duration::from_millis(50));
            return Watched::Cut;
        };
        if head.status != 200 {
            thread::sleep(Duration::from_millis(50));
            return if head.status == 410 { Watched::TooOld } else { Watched::Cut };
        }
        let mut rest = Vec::new();
        while let Ok(Some(line)) = connection.line(&mut head, &mut rest) {
            // The last line of a connection that was cut may be a part.
            let Ok(told) = serde_json::from_slice::<Value>(&line) else { return Watched::Cut };
            let object = &told["object"];
            let kind = match told["type"].as_str() {
                Some("ADDED") => "ADDED",
                Some("MODIFIED") => "MODIFIED",
                Some("DELETED") => "DELETED",
                Some("BOOKMARK") => "BOOKMARK",
                _ if object["code"] == 410 => return Watched::TooOld,
                _ => return Watched::Cut,
            };
            let Seen { name, revision, token } = seen_in_event(object);
            stretch.to = revision;
            if kind != "BOOKMARK" && is_ours(&name) {
                stretch.events.push(Event { revision, name, kind, token });
            }
            let end = self.end.load(Ordering::SeqCst);
            if end > 0 && stretch.to >= end {
                break;
            }
        }
        Watched::Cut
    }
}

#[derive(PartialEq, Eq)]
enum Watched {
    Cut,
    TooOld,
}

/// The object of an event; that of a bookmark has no name.
fn seen_in_event(object: &Value) -> Seen {
    let named = seen(object);
    named.unwrap_or_else(|| {
        let revision = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        Seen { name: String::new(), revision, token: String::new() }
    })
}

fn request(target: &Target, method: &str, path: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        target.authority(),
        body.len()
    )
}

/// Follows etcd itself.
struct Observer {
    etcd: Arc<store::etcd::Etcd>,
    events: Arc<Mutex<Vec<Event>>>,
    reached: Arc<AtomicU64>,
}

impl Observer {
    fn start(etcd: &Etcd, runtime: &tokio::runtime::Runtime) -> Self {
        let options =
            store::etcd::EtcdOptions { endpoints: etcd.endpoints(), window: 64 << 20, ..Default::default() };
        let etcd = Arc::new(store::etcd::Etcd::connect(options).unwrap());
        let (events, reached) = (Arc::<Mutex<Vec<Event>>>::default(), Arc::<AtomicU64>::default());
        let follow = Follow::after(etcd.known_revision()).prefix(PREFIX).with_previous_values();
        let mut follower = etcd.follow(follow).unwrap();
        let (seen, progress) = (events.clone(), reached.clone());
        runtime.spawn(async move {
            loop {
                let batch = match follower.next().await {
                    Ok(batch) => batch,
                    Err(store::Error::Closed) => return,
                    Err(store::Error::Io { .. }) => continue,
                    Err(error) => panic!("the observer has missed something: {error}"),
                };
                seen.lock().unwrap().extend(batch.events.iter().filter_map(observed));
                progress.store(batch.revision.0, Ordering::SeqCst);
            }
        });
        Self { etcd, events, reached }
    }

    fn reached(&self) -> u64 {
        self.reached.load(Ordering::SeqCst)
    }

    /// Gives up history, after a while, up to what it has seen: nobody but it is certain to have that.
    fn compact(&self, runtime: &tokio::runtime::Runtime, after: Duration) {
        thread::sleep(after);
        drop(runtime.block_on(self.etcd.compact(Revision(self.reached()))));
    }
}

/// An event of etcd, if it is of an object that clients write.
fn observed(event: &store::Event) -> Option<Event> {
    let name = str::from_utf8(event.key.as_bytes()).unwrap().strip_prefix(PREFIX)?.to_owned();
    let (kind, value) = match (event.kind, &event.previous) {
        (ChangeKind::Put, None) => ("ADDED", &event.value),
        (ChangeKind::Put, Some(_)) => ("MODIFIED", &event.value),
        (ChangeKind::Delete, previous) => ("DELETED", previous.as_ref()?.value.as_ref()?),
    };
    let token = token_in(value.as_ref().unwrap());
    is_ours(&name).then(|| Event { revision: event.revision().0, name, kind, token })
}

/// All changes in their order, and the states that they make.
struct Truth {
    events: Vec<Event>,
    by_name: HashMap<String, Vec<Event>>,
}

impl Truth {
    fn new(events: Vec<Event>) -> Self {
        let mut by_name: HashMap<String, Vec<Event>> = HashMap::new();
        for event in &events {
            by_name.entry(event.name.clone()).or_default().push(event.clone());
        }
        Self { events, by_name }
    }

    fn of(&self, name: &str) -> &[Event] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// The states of an object from one revision up to another; `None` where it is absent.
    fn states(&self, name: &str, from: u64, to: u64) -> impl Iterator<Item = Option<Seen>> {
        let events = self.of(name);
        let first = events.partition_point(|event| event.revision <= from);
        let last = events.partition_point(|event| event.revision <= to).max(first);
        let state = |event: &Event| {
            let Event { revision, name, token, kind } = event.clone();
            (kind != "DELETED").then_some(Seen { name, revision, token })
        };
        let before = first.checked_sub(1).and_then(|at| state(&events[at]));
        [before].into_iter().chain(events[first..last].iter().map(state))
    }

    fn all_at(&self, revision: u64) -> Vec<Seen> {
        let mut all: Vec<Seen> =
            self.by_name.keys().filter_map(|name| self.states(name, revision, revision).next()?).collect();
        all.sort_by(|one, next| one.name.cmp(&next.name));
        all
    }
}

/// By the time that something ended, the revision that everything later is after.
struct Ceilings(Vec<(Instant, u64)>);

impl Ceilings {
    /// From the writes that were acknowledged: one that begun later has a larger revision.
    fn new(operations: &[Operation]) -> Self {
        let mut begun: Vec<(Instant, u64)> = operations
            .iter()
            .filter(|operation| operation.token().is_some())
            .filter_map(|operation| match &operation.outcome {
                Outcome::Object(seen) => Some((operation.begun, seen.revision)),
                _ => None,
            })
            .collect();
        begun.sort();
        let mut least = u64::MAX;
        for (_, revision) in begun.iter_mut().rev() {
            least = least.min(*revision);
            *revision = least;
        }
        Self(begun)
    }

    /// The first revision that is certainly after what ended at a time.
    fn at(&self, ended: Instant) -> u64 {
        let next = self.0.partition_point(|(begun, _)| *begun <= ended);
        self.0.get(next).map_or(u64::MAX, |(_, revision)| *revision)
    }
}

/// Whether each of `count` points can have a partner of its own among those that `fits` allows.
fn all_have_partners(count: usize, partners: usize, fits: impl Fn(usize, usize) -> bool) -> bool {
    fn find(
        point: usize,
        partners: usize,
        fits: &dyn Fn(usize, usize) -> bool,
        taken: &mut Vec<Option<usize>>,
        tried: &mut Vec<bool>,
    ) -> bool {
        for partner in 0..partners {
            if !tried[partner] && fits(point, partner) {
                tried[partner] = true;
                if taken[partner].is_none_or(|other| find(other, partners, fits, taken, tried)) {
                    taken[partner] = Some(point);
                    return true;
                }
            }
        }
        false
    }
    let mut taken = vec![None; partners];
    (0..count).all(|point| find(point, partners, &fits, &mut taken, &mut vec![false; partners]))
}

/// Compares all answers with the truth; what there was, in words.
fn judge(run: &Run, truth: &Truth) -> String {
    let operations = run.operations.lock().unwrap();
    let ceilings = Ceilings::new(&operations);
    let mut writers: HashMap<&str, &Operation> = HashMap::new();
    for operation in operations.iter() {
        if let Some(token) = operation.token() {
            assert!(writers.insert(token, operation).is_none(), "a token is used twice");
        }
    }
    // Each put is one of a client that was not refused, and none happened twice.
    let mut puts: HashMap<&str, &Event> = HashMap::new();
    for event in truth.events.iter().filter(|event| event.kind != "DELETED") {
        let write = writers.get(event.token.as_str()).unwrap_or_else(|| panic!("nobody wrote {event:?}"));
        let before = puts.insert(&event.token, event);
        assert!(before.is_none(), "{write:?} happened twice: {before:?} {event:?}");
        assert_eq!(write.name, event.name);
        assert!(write.floor < event.revision, "{event:?} was begun after {}: {write:?}", write.floor);
        let expected = match &write.call {
            Call::Create { .. } => event.kind == "ADDED",
            Call::Update { expected: Some(expected), .. } => {
                let mut states = truth.states(&event.name, event.revision - 1, event.revision - 1);
                states.next().flatten().is_some_and(|before| before.revision == *expected)
            }
            _ => event.kind == "MODIFIED",
        };
        assert!(expected, "{write:?} should not have made {event:?}");
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for operation in operations.iter() {
        let Operation { name, call, outcome, floor, ended, .. } = operation;
        let states = || truth.states(name, *floor, ceilings.at(*ended) - 1);
        let put = operation.token().and_then(|token| puts.get(token));
        let what = match (call, outcome) {
            (Call::Create { .. } | Call::Update { .. }, Outcome::Object(seen)) => {
                let put = put.unwrap_or_else(|| panic!("an acknowledged write is lost: {operation:?}"));
                assert_eq!((put.revision, &put.token), (seen.revision, &seen.token), "{operation:?}");
                assert!(put.revision < ceilings.at(*ended), "{operation:?}");
                "writes"
            }
            (Call::Create { .. } | Call::Update { .. }, Outcome::Conflict | Outcome::Absent) => {
                assert!(put.is_none(), "a refused write happened: {operation:?} {put:?}");
                let mut states = states();
                let is_right = match (call, outcome) {
                    (Call::Update { .. }, Outcome::Absent) => states.any(|state| state.is_none()),
                    (Call::Update { expected: Some(expected), .. }, _) => {
                        states.any(|state| state.is_none_or(|state| state.revision != *expected))
                    }
                    (Call::Create { .. }, Outcome::Conflict) => states.any(|state| state.is_some()),
                    _ => false,
                };
                assert!(is_right, "nothing refuses {operation:?}");
                "refused writes"
            }
            (Call::Get, Outcome::Object(seen)) => {
                assert!(states().any(|state| state.as_ref() == Some(seen)), "a stale get: {operation:?}");
                "gets"
            }
            (Call::Get | Call::Delete, Outcome::Absent) => {
                assert!(states().any(|state| state.is_none()), "it was never absent: {operation:?}");
                "gets and deletes of nothing"
            }
            (Call::List, Outcome::List { revision, objects }) => {
                assert!(revision >= floor, "a stale list: {operation:?}");
                assert_eq!(*objects, truth.all_at(*revision), "{operation:?}");
                "lists"
            }
            (Call::Delete, Outcome::Deleted) => "deletes",
            (Call::Get | Call::List, Outcome::Unknown) => "failed reads",
            (_, Outcome::Unknown) if put.is_some() => "unknown writes that happened",
            (_, Outcome::Unknown) => "unknown writes and deletes",
            other => panic!("{other:?} makes no sense"),
        };
        *counts.entry(what).or_default() += 1;
    }
    judge_deletes(&operations, truth, &ceilings);
    let stretches = run.stretches.lock().unwrap();
    for Stretch { server, from, to, events } in stretches.iter() {
        let expected: Vec<&Event> =
            truth.events.iter().filter(|event| *from < event.revision && event.revision <= *to).collect();
        let got: Vec<&Event> = events.iter().collect();
        let differs = got.iter().zip(&expected).find(|(got, expected)| got != expected);
        assert!(differs.is_none(), "a watcher of server {server} from {from} to {to}: {differs:?}");
        assert_eq!(got.len(), expected.len(), "a watcher of server {server} from {from} to {to}");
        *counts.entry("watched events").or_default() += got.len();
    }
    format!("{counts:?}, {} resumed watches, {} starts", run.resumed.load(Ordering::SeqCst), stretches.len())
}

/// The answer to a delete has no revision: each delete of the truth has to fit a client, and each client's a
/// delete of the truth.
fn judge_deletes(operations: &[Operation], truth: &Truth, ceilings: &Ceilings) {
    for name in (0..OBJECTS).map(object) {
        let events: Vec<&Event> = truth.of(&name).iter().filter(|event| event.kind == "DELETED").collect();
        let is_delete =
            |operation: &&Operation| matches!(operation.call, Call::Delete) && operation.name == name;
        let deletes: Vec<&Operation> = operations
            .iter()
            .filter(is_delete)
            .filter(|delete| delete.is_unknown() || matches!(delete.outcome, Outcome::Deleted))
            .collect();
        let fits = |delete: &Operation, event: &Event| {
            let ceiling = if delete.is_unknown() { u64::MAX } else { ceilings.at(delete.ended) };
            delete.floor < event.revision && event.revision < ceiling
        };
        let explained = all_have_partners(events.len(), deletes.len(), |event, delete| {
            fits(deletes[delete], events[event])
        });
        assert!(explained, "a delete of {name} was made by nobody, or twice");
        let acknowledged: Vec<&&Operation> = deletes.iter().filter(|delete| !delete.is_unknown()).collect();
        let kept = all_have_partners(acknowledged.len(), events.len(), |delete, event| {
            fits(acknowledged[delete], events[event])
        });
        assert!(kept, "an acknowledged delete of {name} is lost");
    }
}

/// Everything that can fail.
struct Plane {
    etcd: Etcd,
    /// For each server, its ways to the members.
    proxies: Vec<Vec<Proxy>>,
    servers: Vec<Option<Server>>,
}

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

fn flags(proxies: &[Proxy]) -> Vec<String> {
    let endpoints: Vec<String> = proxies.iter().map(|proxy| format!("http://{}", proxy.address())).collect();
    vec![format!("--etcd-servers={}", endpoints.join(","))]
}

impl Plane {
    fn start() -> Self {
        // Members of 3.5.0 to 3.5.2 that are killed can come back with other revisions than the others.
        let etcd = Etcd::start("etcd-3.4", 3, FLAGS).unwrap();
        let mut endpoints = etcd.endpoints();
        let (mut proxies, mut servers) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let ways = endpoints
                .iter()
                .map(|endpoint| Proxy::start(endpoint.trim_start_matches("http://")).unwrap());
            let ways: Vec<Proxy> = ways.collect();
            let flags = flags(&ways);
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            servers.push(Some(Server::start(&binary(), &flags).unwrap()));
            proxies.push(ways);
            endpoints.rotate_left(1);
        }
        Self { etcd, proxies, servers }
    }

    fn server(&self, index: usize) -> &Server {
        self.servers[index].as_ref().unwrap()
    }

    /// Injects one fault, and ends it; returns a description of the fault.
    fn fault(
        &mut self,
        run: &Run,
        observer: &Observer,
        runtime: &tokio::runtime::Runtime,
        rng: &mut Rng,
    ) -> &'static str {
        let pause = Duration::from_millis(rng.u64(1000..2500));
        let leader = self.etcd.leader().unwrap_or_default();
        let follower = (leader + rng.usize(1..3)) % 3;
        let server = rng.usize(..2);
        match rng.u8(..22) {
            0 | 1 => self.kill_member(leader, rng, "the leader is killed"),
            2 | 3 => self.kill_member(follower, rng, "a follower is killed"),
            4 | 5 => {
                let flags = flags(&self.proxies[server]);
                let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
                let own = self.servers[server].take().unwrap();
                let compacts = rng.bool();
                let crashed = thread::scope(|scope| {
                    if compacts {
                        // So that watchers of this server have to start over.
                        scope.spawn(|| observer.compact(runtime, Duration::from_millis(300)));
                    }
                    own.crash(&binary(), &flags).unwrap()
                });
                *run.targets[server].write().unwrap() = crashed.target().unwrap();
                self.servers[server] = Some(crashed);
                if compacts {
                    return "a server is killed, and history compacted";
                }
                "a server is killed"
            }
            6 | 7 => self.stop_member(leader, pause, "the leader is stopped"),
            8 | 9 => self.stop_member(follower, pause, "a follower is stopped"),
            10 | 11 => {
                let process = self.server(server).process().unwrap();
                process.signal(Signal::SIGSTOP).unwrap();
                thread::sleep(pause);
                process.signal(Signal::SIGCONT).unwrap();
                "a server is stopped"
            }
            12 | 13 => {
                let delay = Duration::from_millis(rng.u64(1..200));
                self.on_ways(server, rng, |way| way.set(ProxyMode::Delay(delay)));
                thread::sleep(pause / 2);
                self.proxies[server].iter().for_each(|way| way.set(ProxyMode::Pass));
                "answers are delayed"
            }
            14 | 15 => {
                self.on_ways(server, rng, |way| way.set(ProxyMode::Hold));
                thread::sleep(pause);
                self.proxies[server].iter().for_each(|way| way.set(ProxyMode::Pass));
                "connections are held"
            }
            16..19 => {
                self.on_ways(server, rng, Proxy::cut);
                "connections are cut"
            }
            19 => {
                let alarm = |action: &str, member: &str| {
                    let body = format!(r#"{{"action":"{action}","alarm":"NOSPACE","memberID":"{member}"}}"#);
                    let answer =
                        self.etcd.ask(follower, "POST", "/v3/maintenance/alarm", &body).unwrap_or_default();
                    let member =
                        answer.split("\"memberID\":\"").nth(1).and_then(|rest| rest.split('"').next());
                    member.map(str::to_owned)
                };
                let status =
                    self.etcd.ask(follower, "POST", "/v3/maintenance/status", "{}").unwrap_or_default();
                let member = status.split("\"member_id\":\"").nth(1).and_then(|rest| rest.split('"').next());
                let Some(member) = member else { return "no member could raise an alarm" };
                alarm("ACTIVATE", member);
                thread::sleep(pause / 2);
                // It is asked until it is done: a request may fail as any other.
                while alarm("GET", "0").is_some() {
                    alarm("DEACTIVATE", member);
                }
                "the database is full"
            }
            _ => {
                observer.compact(runtime, Duration::ZERO);
                "history is compacted"
            }
        }
    }

    fn kill_member(&mut self, member: usize, rng: &mut Rng, what: &'static str) -> &'static str {
        self.etcd.kill(member).unwrap();
        thread::sleep(Duration::from_millis(rng.u64(..1200)));
        self.etcd.launch(member).unwrap();
        self.etcd.wait_until_ready().unwrap();
        what
    }

    fn stop_member(&self, member: usize, pause: Duration, what: &'static str) -> &'static str {
        self.etcd.signal(member, Signal::SIGSTOP).unwrap();
        thread::sleep(pause);
        self.etcd.signal(member, Signal::SIGCONT).unwrap();
        what
    }

    /// Does something to one way of a server, or to all.
    fn on_ways(&self, server: usize, rng: &mut Rng, act: impl Fn(&Proxy)) {
        let ways = &self.proxies[server];
        match rng.u8(..2) {
            0 => ways.iter().for_each(act),
            _ => act(&ways[rng.usize(..ways.len())]),
        }
    }

    fn wait_until_ready(&self, seed: u64) {
        self.etcd.wait_until_ready().unwrap();
        let begin = Instant::now();
        let ready = |server: &Option<Server>| {
            server.as_ref().unwrap().text("GET", "/readyz", "").is_ok_and(|(status, _)| status == 200)
        };
        while !self.servers.iter().all(ready) {
            assert!(begin.elapsed() < MENDING, "seed {seed}: the servers are not ready after {MENDING:?}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Lets all clients end when it is dropped, also by a panic.
struct Ending<'a>(&'a Run);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
        self.0.end.fetch_max(1, Ordering::SeqCst);
    }
}

/// Runs clients, does `count` faults, lets everything mend, and judges.
fn run(count: usize, seed: u64) {
    let given = std::env::var("KEELSON_FAULT_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or(seed);
    println!("seed {seed}: KEELSON_FAULT_SEED={seed} makes the same faults");
    let mut rng = Rng::with_seed(seed);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut plane = Plane::start();
    let observer = Observer::start(&plane.etcd, &runtime);
    let namespace = json!({"metadata": {"name": "faults"}});
    assert_eq!(plane.server(0).call("POST", "/api/v1/namespaces", &namespace).unwrap().0, 201);
    let run = Run {
        targets: (0..2).map(|server| RwLock::new(plane.server(server).target().unwrap())).collect(),
        stop: AtomicBool::new(false),
        end: AtomicU64::new(0),
        shown: AtomicU64::new(0),
        tokens: AtomicUsize::new(0),
        operations: Mutex::default(),
        stretches: Mutex::default(),
        resumed: AtomicUsize::new(0),
    };
    let mut faults: BTreeMap<&str, usize> = BTreeMap::new();
    thread::scope(|scope| {
        let run = &run;
        let _ending = Ending(run);
        let mut clients = Vec::new();
        for server in 0..2 {
            for _ in 0..WRITERS {
                let rng = rng.fork();
                clients.push(scope.spawn(move || run.write(server, rng)));
            }
            let (reads, watches) = (rng.fork(), rng.fork());
            clients.push(scope.spawn(move || run.read(server, reads)));
            scope.spawn(move || run.watch(server, watches));
        }
        for _ in 0..count {
            *faults.entry(plane.fault(run, &observer, &runtime, &mut rng)).or_default() += 1;
            thread::sleep(Duration::from_millis(rng.u64(..300)));
        }
        plane.wait_until_ready(seed);
        run.stop.store(true, Ordering::SeqCst);
        clients.into_iter().for_each(|client| client.join().unwrap());
        // The last write, which watchers and the observer come to.
        let last = json!({"metadata": {"name": "end"}});
        let (status, last) = plane.server(1).call("POST", PATH, &last).unwrap();
        assert_eq!(status, 201, "seed {seed}: {last}");
        run.end.store(seen(&last).unwrap().revision, Ordering::SeqCst);
    });
    let (end, begin) = (run.end.load(Ordering::SeqCst), Instant::now());
    while observer.reached() < end {
        assert!(begin.elapsed() < MENDING, "seed {seed}: the observer has not come to the end");
        thread::sleep(Duration::from_millis(20));
    }
    let truth = Truth::new(observer.events.lock().unwrap().clone());
    println!("seed {seed}: {count} faults, {faults:?}");
    println!("seed {seed}: {}", judge(&run, &truth));
    assert!(truth.events.len() > 3 * count, "seed {seed}: little was done: {} changes", truth.events.len());
    observer.etcd.close();
}

#[test]
fn histories_are_linearizable_and_watches_complete() {
    run(10, 3);
}

/// The seed is one that compacts history between what a starting server has loaded and what it follows.
#[test]
fn slow_histories_are_linearizable_and_watches_complete() {
    run(210, 11);
}

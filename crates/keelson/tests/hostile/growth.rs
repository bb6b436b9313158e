//! Every list and map of every kind, enlarged, in every way of writing: the cost at twice the length is not
//! four times the cost.
//!
//! Three sweeps, so that each place is as long as a body can be at least once, in about a minute:
//!
//! 1. *Every place in every way*, at a length that leaves time for all of them ([`MODERATE`]).
//! 2. *Every place at the limit*: a create of 3 MiB, or of 250,000 values, which the server's decoders count;
//!    where the place is in the status, which a create drops, a PUT of the status. These go through
//!    everything that a kind has of its own.
//! 3. *Every form at the limit in every way*: patches, applies and encodings know the form of a list or map
//!    (its items, how they are told apart), not its kind. One place stands for all of its form. Managed
//!    fields are forms of their own.
//!
//! With `KEELSON_GROWTH_ALL` in the environment the third takes all places, and more than half an hour.
//!
//! Most requests are dry runs, which do everything but commit. A request that takes the server less CPU time
//! than the floor of its sweep is not looked at further: at this length, a square takes longer.

mod places;

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::sync::Mutex;
use std::time::Duration;

use testkit::Server;

use super::{Answer, Caller, start};
use places::{Case, Items, Place};

/// The limit of a body.
const BODY: usize = 3 << 20;
/// The most that a cost may grow by when the length doubles.
const RATIO: f64 = 3.2;
/// How often a square is measured before it counts as one.
const MEASUREMENTS: usize = 3;

/// How long the lists and maps of a sweep are.
#[derive(Clone, Copy)]
struct Length {
    /// The most items.
    items: usize,
    /// The most bytes of a body.
    bytes: usize,
    /// Requests that cost less are fast enough: a square of as many steps of a few nanoseconds does not.
    floor: Duration,
}

const MODERATE: Length = Length { items: 2_500, bytes: 250_000, floor: Duration::from_millis(50) };
const LIMIT: Length = Length { items: usize::MAX, bytes: BODY, floor: Duration::from_millis(2_500) };

/// One way of writing, with a value of some length.
struct Way {
    method: &'static str,
    /// After the collection of the kind.
    path: &'static str,
    /// The type of the body, or of the answer where there is none.
    content: &'static str,
    body: String,
    object: Object,
}

/// The object that a request is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Object {
    /// It is small, and stays so: the request is a dry run.
    Small,
    /// It is enlarged, or small again.
    Changes,
    /// It is large, and stays so.
    Large,
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const JSON_PATCH: &str = "application/json-patch+json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The answers to writes: everything but the encoding is done, which the reads have.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

/// The names of the ways that make the stored object large, and small again.
const GROW: &str = "grow";
const SHRINK: &str = "shrink";

/// The names of the ways in which a place is written, and of those that find it large, in the order in which
/// they are sent.
fn names(case: &Case, place: &Place, items: Items) -> Vec<&'static str> {
    let mut names = vec!["create", "strategic patch", "apply"];
    if items == Items::Equal {
        return names;
    }
    names.extend(["update", "merge patch", "json patch"]);
    if case.has_status() {
        names.push("status");
    }
    names.push(GROW);
    names.extend(["label by merge patch", "label by strategic patch", "label by apply"]);
    if !place.is_in_status {
        names.extend(["update over it", "strategic patch over it", "apply over it"]);
    }
    names.extend(["delete", "read as table", "read as YAML", "read as Protobuf", SHRINK]);
    names
}

fn way(case: &Case, place: &Place, name: &'static str, count: usize, items: Items) -> Way {
    let way = |method, path, content, body: String, object| Way { method, path, content, body, object };
    let body = |name| place.body.text(name, count, items);
    let config = || place.config.text("grown", count, items);
    let label = || r#"{"metadata":{"labels":{"grown":"yes"}}}"#.to_owned();
    let (put, forced) = ("/grown?", "/grown?force=true&");
    let status = if place.is_in_status { "/grown/status?" } else { put };
    match name {
        "create" => way("POST", "?", JSON, body("made"), Object::Small),
        "strategic patch" => way("PATCH", put, STRATEGIC, body("grown"), Object::Small),
        "apply" => way("PATCH", forced, APPLY, config(), Object::Small),
        "update" => way("PUT", put, JSON, body("grown"), Object::Small),
        "merge patch" => way("PATCH", put, MERGE, body("grown"), Object::Small),
        "json patch" => way("PATCH", put, JSON_PATCH, place.operations(count, BODY), Object::Small),
        "status" => way("PUT", "/grown/status?", JSON, body("grown"), Object::Small),
        GROW => way("PUT", status, JSON, body("grown"), Object::Changes),
        "label by merge patch" => way("PATCH", put, MERGE, label(), Object::Large),
        "label by strategic patch" => way("PATCH", put, STRATEGIC, label(), Object::Large),
        "label by apply" => way("PATCH", forced, APPLY, case.label("grown"), Object::Large),
        "update over it" => way("PUT", put, JSON, config(), Object::Large),
        "strategic patch over it" => way("PATCH", put, STRATEGIC, config(), Object::Large),
        "apply over it" => way("PATCH", forced, APPLY, config(), Object::Large),
        "delete" => way("DELETE", put, JSON, String::new(), Object::Large),
        "read as table" => way("GET", put, TABLE, String::new(), Object::Large),
        "read as YAML" => way("GET", put, "application/yaml", String::new(), Object::Large),
        "read as Protobuf" => way("GET", put, PROTOBUF, String::new(), Object::Large),
        SHRINK => way("PUT", status, JSON, case.empty("grown"), Object::Changes),
        other => unreachable!("{other}"),
    }
}

/// What a sweep found.
#[derive(Default)]
struct Found {
    squares: Vec<String>,
    slowest: Vec<(Duration, String)>,
    sent: usize,
    accepted: usize,
    committed: usize,
}

impl Found {
    fn add(&mut self, other: Self) {
        self.squares.extend(other.squares);
        self.slowest.extend(other.slowest);
        self.slowest.sort_by(|a, b| b.cmp(a));
        self.slowest.truncate(8);
        self.sent += other.sent;
        self.accepted += other.accepted;
        self.committed += other.committed;
    }
}

struct Sweep<'s> {
    server: &'s Server,
    caller: Caller,
    length: Length,
    found: Found,
}

impl Sweep<'_> {
    /// Sends a request; its answer, and the CPU time that the server took for it.
    fn send(&mut self, case: &Case, way: &Way) -> (Answer, Duration) {
        let dry = if way.object == Object::Changes { "" } else { "dryRun=All&" };
        let path = format!("{}{}{dry}fieldManager=grower&fieldValidation=Ignore", case.collection, way.path);
        let before = cpu_of_threads(self.server);
        let accept = if way.method == "GET" { way.content } else { METADATA };
        let answer = self.caller.ask_as(way.method, &path, accept, way.content, way.body.as_bytes());
        // A thread that ended meanwhile was idle; what it had taken before is in neither sum.
        let took = cpu_of_threads(self.server)
            .into_iter()
            .map(|(thread, after)| after.saturating_sub(before.get(&thread).copied().unwrap_or_default()));
        (answer, took.sum())
    }

    fn every_way(&mut self, case: &Case, place: &Place) {
        for items in [Items::Distinct, Items::Equal] {
            let mut count = self.count(place);
            for name in names(case, place, items) {
                let status = self.measure(case, place, name, items, count);
                if name == GROW && status == 413 {
                    // The managed fields take as much as what they are about.
                    count /= 2;
                    self.measure(case, place, name, items, count);
                }
            }
        }
    }

    /// As many items as there may be at a place.
    fn count(&self, place: &Place) -> usize {
        self.length.items.min(place.body.most(self.length.bytes))
    }

    /// Asserts that a body with a twentieth more items would not be accepted.
    fn is_at_the_limit(&mut self, case: &Case, place: &Place) {
        let count = self.count(place);
        let more = way(case, place, "create", count + count / 20, Items::Distinct);
        if more.body.len() <= BODY {
            let status = self.send(case, &more).0.status;
            assert!(matches!(status, 400 | 413), "{} {}: {status}", case.collection, place.pointer);
        }
    }

    /// Sends a request, and if it costs much, looks at half the length. Returns the status of the answer.
    fn measure(&mut self, case: &Case, place: &Place, name: &'static str, items: Items, count: usize) -> u16 {
        let way = way(case, place, name, count, items);
        assert!(
            way.body.len() <= BODY,
            "{} {} {name}: {} bytes",
            case.collection,
            place.pointer,
            way.body.len()
        );
        let (answer, cost) = self.send(case, &way);
        assert!(answer.status < 500 || name.contains("apply"), "{name} {}", answer.text());
        let is_accepted = answer.status < 300;
        self.found.sent += 1;
        self.found.accepted += usize::from(is_accepted);
        self.found.committed += usize::from(is_accepted && way.object == Object::Changes);
        let about = format!("{} {} {name} x {count}", case.collection, place.pointer);
        if cost > self.length.floor {
            // What is a square is one each time; what another process has caused is not.
            let square = (0..MEASUREMENTS).try_fold(String::new(), |_, _| {
                let half = self.least(case, place, name, items, count / 2);
                let whole = self.least(case, place, name, items, count);
                let ratio = whole.as_secs_f64() / half.as_secs_f64();
                println!("{about}: {whole:.1?}, {half:.1?} at half the length");
                let is_square = whole > self.length.floor && ratio > RATIO;
                is_square.then(|| format!("{about}: {whole:?}, {ratio:.1} times that of half the length"))
            });
            self.found.squares.extend(square);
        }
        self.found.add(Found { slowest: vec![(cost, about)], ..Found::default() });
        answer.status
    }

    /// The least cost of three requests at a length.
    fn least(
        &mut self,
        case: &Case,
        place: &Place,
        name: &'static str,
        items: Items,
        count: usize,
    ) -> Duration {
        let measured = way(case, place, name, count, items);
        let costs = (0..3).map(|_| {
            if measured.object == Object::Large {
                // A new state, of which no encoding is kept.
                for name in [SHRINK, GROW] {
                    self.send(case, &way(case, place, name, count, items));
                }
            }
            self.send(case, &measured).1
        });
        costs.min().unwrap_or_default()
    }
}

/// The CPU time of each thread of a server.
fn cpu_of_threads(server: &Server) -> HashMap<OsString, Duration> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.process().unwrap().id())).unwrap();
    let of = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        let nanoseconds = text.split_whitespace().next()?.parse().ok()?;
        Some((task.file_name(), Duration::from_nanos(nanoseconds)))
    };
    tasks.filter_map(Result::ok).filter_map(of).collect()
}

/// Takes the places that `is_meant` through `with`, on two servers, and gives what was found.
fn sweep(
    length: Length,
    mut is_meant: impl FnMut(&Place) -> bool,
    with: impl Fn(&mut Sweep<'_>, &Case, &Place) + Sync,
) -> Found {
    let cases = Case::all();
    let all = cases.iter().flat_map(|(case, places)| places.iter().map(move |place| (case, place)));
    let meant: Vec<(&Case, &Place)> = all.filter(|(_, place)| is_meant(place)).collect();
    let next = Mutex::new(meant.iter());
    let found = Mutex::new(Found::default());
    let work = || {
        let server = start(&[]);
        let caller = Caller::new(&server);
        let mut sweep = Sweep { server: &server, caller, length, found: Found::default() };
        let mut made = HashSet::new();
        loop {
            let next = next.lock().unwrap().next();
            let Some((case, place)) = next else { break };
            if made.insert(&case.collection) {
                let made = sweep.caller.ask("POST", &case.collection, case.empty("grown").as_bytes());
                if made.status != 201 {
                    println!("{} cannot be made empty: {}", case.collection, made.json()["message"]);
                }
            }
            with(&mut sweep, case, place);
        }
        found.lock().unwrap().add(sweep.found);
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let found = found.into_inner().unwrap();
    println!(
        "{} lists and maps, {} requests, {} accepted, {} committed; the most CPU time:",
        meant.len(),
        found.sent,
        found.accepted,
        found.committed
    );
    found.slowest.iter().for_each(|(cost, about)| println!("{cost:>10.1?} {about}"));
    assert!(found.squares.is_empty(), "{:#?}", found.squares);
    // Most are refused for what is in the list, after all of it was looked at.
    assert!(found.accepted > found.sent / 8, "{} of {} were accepted", found.accepted, found.sent);
    found
}

#[test]
fn no_list_or_map_costs_the_square_of_its_length() {
    let found = sweep(MODERATE, |_| true, |sweep, case, place| sweep.every_way(case, place));
    assert!(found.committed > 100);
}

#[test]
fn no_list_or_map_costs_the_square_of_its_length_at_the_limit_of_a_body() {
    sweep(
        LIMIT,
        |_| true,
        |sweep, case, place| {
            let name = if place.is_in_status && case.has_status() { "status" } else { "create" };
            sweep.measure(case, place, name, Items::Distinct, sweep.count(place));
        },
    );
}

#[test]
fn no_form_of_list_or_map_costs_the_square_of_its_length_at_the_limit_of_a_body() {
    let mut seen = HashSet::new();
    let wants_all = std::env::var_os("KEELSON_GROWTH_ALL").is_some();
    sweep(
        LIMIT,
        |place| seen.insert(place.form.clone()) || wants_all,
        |sweep, case, place| {
            sweep.every_way(case, place);
            sweep.is_at_the_limit(case, place);
        },
    );
}

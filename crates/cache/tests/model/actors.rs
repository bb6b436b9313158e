//! The actors of a history, and what they record.

use crate::{
    Record,
    common::{Pod, node_json, pod},
};
use bytes::Bytes;
use cache::{
    Cache, Change, Committed, Encoding, Entry, Error, Filter, Freshness, Mode, Query,
    watch::{self, Bookmarks, EventType, Item, Start, WatchOptions, Watcher},
};
use fastrand::Rng;
use object::{field_selector, label};
use std::{
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};
use store::Revision;

const NAMESPACES: &[&str] = &["a", "a-1", "b"];
const NAMES: &[&str] = &["x", "y", "z"];
const APPS: &[&str] = &["", "p", "q"];
const NODES: &[&str] = &["", "n1", "n2"];
const PHASES: &[&str] = &["", "Running"];

/// The encoding in which watchers share chunks.
const LINES: Encoding = Encoding(1);

/// The contents of an object, as far as the model cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) app: String,
    pub(crate) node: String,
    pub(crate) phase: String,
}

/// An object at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) key: String,
    pub(crate) created: Revision,
    pub(crate) revision: Revision,
    pub(crate) object: Object,
}

impl Version {
    /// What an entry says, by its bytes and by its record, which must agree.
    pub(crate) fn of(entry: &Entry) -> Self {
        let json: serde_json::Value = serde_json::from_slice(entry.bytes()).unwrap();
        assert_eq!(json["metadata"]["resourceVersion"], entry.mod_revision().to_string());
        assert_eq!(json["metadata"]["name"], entry.name());
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let object = Object {
            app: text(&json["metadata"]["labels"]["app"]),
            node: text(&json["spec"]["nodeName"]),
            phase: text(&json["status"]["phase"]),
        };
        let label = entry.labels().find(|(key, _)| *key == "app").map_or("", |(_, value)| value);
        assert_eq!(label, object.app);
        assert_eq!(entry.field("spec.nodeName").unwrap_or_default(), object.node);
        let key = format!("{}/{}", entry.spec().prefix(), entry.key());
        Self { key, created: entry.create_revision(), revision: entry.mod_revision(), object }
    }
}

/// A change, as it was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) key: String,
    pub(crate) put: Option<Object>,
    pub(crate) expect: Expect,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Expect {
    Any,
    Absent,
    At(Revision),
}

/// A commit: what was asked, what was answered, and the revisions between which that happened.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) asked: Asked,
    pub(crate) answer: Result<Answer, Refused>,
    pub(crate) from: Revision,
    pub(crate) to: Revision,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) revision: Revision,
    pub(crate) entry: Option<Version>,
}

#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) found: Option<Version>,
}

pub(crate) async fn write(cache: Arc<Cache>, mut random: Rng, record: Arc<Record>) {
    for _ in 0..random.usize(4..14) {
        let (change, asked) = change(&cache, &mut random).await;
        let from = cache.committed();
        let answer = match cache.commit(change).await {
            Ok(committed) => {
                assert!(
                    committed.revision() <= cache.revision(),
                    "an answer came before its change could be read"
                );
                Ok(answer(&committed))
            }
            Err(Error::Conflict(conflict)) => {
                Err(Refused { found: conflict.found.as_deref().map(Version::of) })
            }
            Err(error) => panic!("a commit failed: {error}"),
        };
        let to = cache.committed();
        record.writes.lock().unwrap().push(Write { asked, answer, from, to });
        if random.u8(0..10) == 0 {
            let to = Revision(random.u64(0..=cache.committed().0));
            cache.store().compact(to).await.unwrap();
        }
        if random.bool() {
            tokio::task::yield_now().await;
        }
    }
}

fn answer(committed: &Committed) -> Answer {
    Answer { revision: committed.revision(), entry: committed.entry().map(|entry| Version::of(entry)) }
}

async fn change(cache: &Cache, random: &mut Rng) -> (Change, Asked) {
    let pick = |random: &mut Rng, choices: &[&'static str]| *random.choice(choices).unwrap();
    let on_nodes = random.u8(0..7) == 0;
    let resource = cache.resource(if on_nodes { "nodes" } else { "pods" }).unwrap();
    let namespace = if on_nodes { "" } else { pick(random, NAMESPACES) };
    let name = pick(random, NAMES);
    let wanted: Pod<'_> = pod(namespace, name);
    let wanted = wanted.app(pick(random, APPS)).node(pick(random, NODES)).phase(pick(random, PHASES));
    let key = if on_nodes { format!("nodes/{name}") } else { format!("pods/{namespace}/{name}") };
    let put = random.u8(0..10) < 7;
    let mut change = match (put, on_nodes) {
        (true, true) => Change::put(&resource, "", name, node_json(name)),
        (true, false) => wanted.change(&resource),
        (false, _) => Change::delete(&resource, namespace, name),
    };
    let object = match on_nodes {
        true => Object { app: String::new(), node: String::new(), phase: String::new() },
        false => Object { app: wanted.app.into(), node: wanted.node.into(), phase: wanted.phase.into() },
    };
    let mut expect = Expect::Any;
    match random.u8(0..6) {
        0 if put => {
            change = change.create_or_replace_damaged();
            expect = Expect::Absent;
        }
        1..=3 => {
            let current = resource.get(namespace, name, Freshness::Any).await.unwrap();
            if let Some(current) = current {
                change = change.expect_revision(current.mod_revision());
                expect = Expect::At(current.mod_revision());
            }
        }
        _ => {}
    }
    (change, Asked { key, put: put.then_some(object), expect })
}

/// A filter that the model can judge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) nodes: bool,
    pub(crate) namespace: Option<&'static str>,
    pub(crate) name: Option<&'static str>,
    pub(crate) app: Option<&'static str>,
    pub(crate) node: Option<&'static str>,
    pub(crate) not_phase: Option<&'static str>,
}

impl Wanted {
    fn new(random: &mut Rng) -> Self {
        let mut maybe = |choices: &[&'static str], odds: u8| {
            (random.u8(0..odds) == 0).then(|| *random.choice(choices).unwrap())
        };
        let namespace = maybe(NAMESPACES, 3);
        let name = maybe(NAMES, 5);
        let app = maybe(&APPS[1..], 4);
        let node = maybe(NODES, 3);
        let not_phase = maybe(PHASES, 6);
        let nodes = maybe(&[""], 6).is_some();
        match nodes {
            true => Self { nodes, name, ..Self::default() },
            false => Self { nodes, namespace, name, app, node, not_phase },
        }
    }

    fn filter(&self) -> Filter {
        let mut filter = self.namespace.map_or_else(Filter::all, Filter::namespace);
        if let Some(app) = self.app {
            filter = filter.labels(label::Selector::from_labels([("app", app)]));
        }
        let mut fields = field_selector::Selector::everything();
        if let Some(name) = self.name {
            fields = fields.and(field_selector::Selector::equal("metadata.name", name));
        }
        if let Some(node) = self.node {
            fields = fields.and(field_selector::Selector::equal("spec.nodeName", node));
        }
        if let Some(phase) = self.not_phase {
            fields = fields.and(field_selector::Selector::not_equal("status.phase", phase));
        }
        filter.fields(fields)
    }

    pub(crate) fn matches(&self, version: &Version) -> bool {
        let mut parts = version.key.split('/');
        let nodes = parts.next() == Some("nodes");
        let namespace = if nodes { Some("") } else { parts.next() };
        let object = &version.object;
        nodes == self.nodes
            && self.namespace.is_none_or(|wanted| namespace == Some(wanted))
            && self.name.is_none_or(|wanted| parts.next() == Some(wanted))
            && self.app.is_none_or(|wanted| object.app == wanted)
            && self.node.is_none_or(|wanted| object.node == wanted)
            && self.not_phase.is_none_or(|unwanted| object.phase != unwanted)
    }

    pub(crate) fn selects(&self) -> bool {
        self.name.is_some() || self.app.is_some() || self.node.is_some() || self.not_phase.is_some()
    }

    fn resource(&self) -> &'static str {
        if self.nodes { "nodes" } else { "pods" }
    }
}

/// A list: what was asked, what was answered, and the revisions between which that happened.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) wanted: Wanted,
    pub(crate) mode: Mode,
    pub(crate) limit: usize,
    pub(crate) answer: Result<Listed, Error>,
    pub(crate) from: Revision,
    pub(crate) to: Revision,
    /// What the store had given up when the answer came.
    pub(crate) compacted: Revision,
}

#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) revision: Revision,
    pub(crate) items: Vec<Version>,
    pub(crate) next: Option<String>,
    pub(crate) remaining: Option<usize>,
}

pub(crate) async fn read(cache: Arc<Cache>, mut random: Rng, record: Arc<Record>, stop: Arc<AtomicBool>) {
    let mut page: Option<(Wanted, usize, Mode)> = None;
    let mut left = 60;
    while left > 0 && (!stop.load(Ordering::SeqCst) || left > 55) {
        left -= 1;
        let from = cache.committed();
        let (wanted, limit, mode) = page.take().unwrap_or_else(|| {
            let limit = random.usize(0..5);
            (Wanted::new(&mut random), limit, mode(from, &mut random))
        });
        let query = Query { mode: mode.clone(), filter: wanted.filter(), limit: NonZeroUsize::new(limit) };
        let resource = cache.resource(wanted.resource()).unwrap();
        let answer = resource.list(query).await.map(|list| {
            let (revision, next, remaining) = (list.revision, list.next.clone(), list.remaining);
            Listed { revision, next, remaining, items: list.map(|entry| Version::of(&entry)).collect() }
        });
        if let Ok(Listed { revision, next: Some(start), .. }) = &answer {
            let revision = (random.u8(0..10) > 0).then_some(*revision);
            page = Some((wanted.clone(), limit, Mode::Continue { revision, start: start.clone() }));
        }
        let (to, compacted) = (cache.committed(), cache.store().compacted());
        record.reads.lock().unwrap().push(Read { wanted, mode, limit, answer, from, to, compacted });
        if random.bool() {
            tokio::task::yield_now().await;
        }
    }
}

fn mode(now: Revision, random: &mut Rng) -> Mode {
    let near = Revision(random.u64(now.0.saturating_sub(12)..=now.0));
    match random.u8(0..5) {
        0 => Mode::Current(Freshness::Any),
        1 => Mode::Current(Freshness::NotOlderThan(near)),
        2 | 3 => Mode::Exact(near),
        _ => Mode::Current(Freshness::MostRecent),
    }
}

/// What one watcher does all its life.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    wanted: Wanted,
    bookmarks: Bookmarks,
    /// How often it stops, out of ten batches.
    restless: u8,
    starts_with_state: bool,
    /// Whether it shares chunks.
    shares: bool,
}

impl Plan {
    pub(crate) fn new(random: &mut Rng) -> Self {
        let bookmarks = if random.bool() { Bookmarks::Periodic } else { Bookmarks::Never };
        let (restless, starts_with_state, shares) = (random.u8(0..6), random.bool(), random.bool());
        // Watchers that share chunks watch the same objects.
        let wanted = match random.u8(0..4) {
            0 if shares => Wanted::default(),
            1 if shares => Wanted { namespace: NAMESPACES.first().copied(), ..Wanted::default() },
            _ => Wanted::new(random),
        };
        Self { wanted, bookmarks, restless, starts_with_state, shares }
    }
}

impl Plan {
    async fn next(&self, watcher: &mut Watcher) -> Result<Vec<Delivery>, Error> {
        if !self.shares {
            return Ok(watcher.next().await?.iter().map(Delivery::of).collect());
        }
        match watcher.next_written(LINES).await? {
            watch::Delivery::Batch(batch) => {
                let delivered: Vec<Delivery> = batch.iter().map(Delivery::of).collect();
                watcher.keep(LINES, &Delivery::write(&delivered));
                Ok(delivered)
            }
            watch::Delivery::Chunk(chunk) => {
                let delivered = Delivery::read(&chunk.bytes);
                let Some(Delivery::Event(_, last)) = delivered.last() else {
                    panic!("a chunk without events")
                };
                assert_eq!(last.revision, chunk.last);
                Ok(delivered)
            }
        }
    }
}

/// A part of a watch, from a start to an end.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) wanted: Wanted,
    pub(crate) start: Start,
    pub(crate) bookmarks: Bookmarks,
    /// Where it stood after each batch, if it could say so, and what was in the batch.
    pub(crate) batches: Vec<(Option<Revision>, Vec<Delivery>)>,
    pub(crate) end: End,
    pub(crate) from: Revision,
    /// What the store had given up, if it ended for that.
    pub(crate) compacted: Revision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It goes on.
    Running,
    /// It was dropped.
    Stopped,
    /// It was too slow.
    TooOld(Revision),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Event(EventType, Version),
    Bookmark(Revision),
    InitialEnd(Revision),
}

impl Delivery {
    fn of(item: Item<'_>) -> Self {
        match item {
            Item::Event(event) => Self::Event(event.kind, Version::of(event.entry)),
            Item::Bookmark { revision, mark: cache::watch::Mark::Periodic } => Self::Bookmark(revision),
            Item::Bookmark { revision, .. } => Self::InitialEnd(revision),
        }
    }

    /// Writes events, a line each; of anything else there is nothing to share.
    fn write(delivered: &[Self]) -> Bytes {
        let line = |delivered: &Self| match delivered {
            Self::Event(kind, Version { key, created, revision, object }) => {
                let Object { app, node, phase } = object;
                format!("{}\t{key}\t{created}\t{revision}\t{app}\t{node}\t{phase}\n", kind.as_str())
            }
            other => format!("{other:?}\n"),
        };
        delivered.iter().map(line).collect::<String>().into()
    }

    fn read(bytes: &[u8]) -> Vec<Self> {
        let line = |line: &str| {
            let parts: Vec<&str> = line.split('\t').collect();
            let [kind, key, created, revision, app, node, phase] = parts[..] else {
                panic!("shared: {line}")
            };
            let kinds = [EventType::Added, EventType::Modified, EventType::Deleted];
            let kind = kinds.into_iter().find(|own| own.as_str() == kind).unwrap();
            let [created, revision] = [created, revision].map(|number| Revision(number.parse().unwrap()));
            let [app, node, phase] = [app, node, phase].map(str::to_owned);
            Self::Event(
                kind,
                Version { key: key.to_owned(), created, revision, object: Object { app, node, phase } },
            )
        };
        str::from_utf8(bytes).unwrap().lines().map(line).collect()
    }
}

pub(crate) struct Watch {
    cache: Arc<Cache>,
    plan: Plan,
    resume: Option<Revision>,
    random: Rng,
    record: Arc<Record>,
}

pub(crate) fn watch(
    cache: Arc<Cache>,
    plan: Plan,
    resume: Option<Revision>,
    random: Rng,
    record: Arc<Record>,
) -> Watch {
    Watch { cache, plan, resume, random, record }
}

impl Watch {
    /// Watches in parts until `stop`, and returns where to resume.
    pub(crate) async fn until(mut self, stop: Arc<AtomicBool>) -> Option<Revision> {
        loop {
            let (start, seen) = self.begin();
            let request =
                WatchOptions { start, filter: self.plan.wanted.filter(), bookmarks: self.plan.bookmarks };
            let resource = self.cache.resource(self.plan.wanted.resource()).unwrap();
            let mut watcher = match resource.watch(request).await {
                Ok(watcher) => watcher,
                Err(error) => {
                    self.ended(&seen, &error);
                    continue;
                }
            };
            self.resume = self.part(&mut watcher, &seen, &stop).await;
            if stop.load(Ordering::SeqCst) {
                return self.resume;
            }
        }
    }

    fn begin(&mut self) -> (Start, Arc<Mutex<Seen>>) {
        let from = self.cache.committed();
        let fresh = |random: &mut Rng| match random.u8(0..3) {
            0 => Freshness::Any,
            1 => Freshness::NotOlderThan(Revision(random.u64(0..=from.0))),
            _ => Freshness::MostRecent,
        };
        let start = match (self.resume, self.plan.starts_with_state) {
            (Some(revision), _) => Start::After(revision),
            (None, false) => Start::After(Revision(self.random.u64(0..=from.0 + 2))),
            (None, true) if self.random.bool() => Start::State(fresh(&mut self.random)),
            (None, true) => Start::StreamingList(fresh(&mut self.random)),
        };
        let seen = Seen {
            wanted: self.plan.wanted.clone(),
            start,
            bookmarks: self.plan.bookmarks,
            batches: Vec::new(),
            end: End::Running,
            from,
            compacted: Revision::ZERO,
        };
        let seen = Arc::new(Mutex::new(seen));
        self.record.seen.lock().unwrap().push(seen.clone());
        (start, seen)
    }

    /// One part; where to go on, or `None` to start anew.
    async fn part(
        &mut self,
        watcher: &mut Watcher,
        seen: &Mutex<Seen>,
        stop: &AtomicBool,
    ) -> Option<Revision> {
        loop {
            let delivered = tokio::select! {
                delivered = self.plan.next(watcher) => delivered,
                () = stopped(stop) => break,
            };
            let delivered = match delivered {
                Ok(delivered) => delivered,
                Err(error) => {
                    self.ended(seen, &error);
                    return None;
                }
            };
            seen.lock().unwrap().batches.push((watcher.revision(), delivered));
            let rest = self.random.u8(0..10);
            if rest < self.plan.restless && watcher.revision().is_some() {
                break;
            }
            if rest == 9 {
                tokio::time::sleep(std::time::Duration::from_micros(300)).await;
            }
        }
        let mut seen = seen.lock().unwrap();
        seen.end = End::Stopped;
        seen.batches.push((watcher.revision(), Vec::new()));
        watcher.revision()
    }

    fn ended(&mut self, seen: &Mutex<Seen>, error: &Error) {
        let Error::TooOld { requested, .. } = error else { panic!("a watch failed: {error}") };
        let mut seen = seen.lock().unwrap();
        seen.end = End::TooOld(*requested);
        seen.compacted = self.cache.store().compacted();
        self.resume = None;
    }
}

async fn stopped(stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

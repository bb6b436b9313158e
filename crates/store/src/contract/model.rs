//! The model checker: random concurrent histories against a store, judged by a reference model.
//!
//! A history runs writers, followers that stop and resume, loads at current and old revisions, gets and a
//! compactor at the same time, and notes the answer to each. Since a commit returns its revision, the order
//! of commits is known afterwards without a search (changes that share a revision are of different keys, so
//! their order does not matter): the model replays it, and every answer is compared with the state that the
//! model had at the revision the answer belongs to, or at some revision within the time of the call.
//!
//! Everything random comes from a seed, which is part of every failure's message. The interleaving is the
//! scheduler's, so a seed narrows a failure down, and does not always repeat it.

use super::{Factory, Harness, Loaded, Setup, Window, key};
use crate::{
    Change, ChangeKind, Committed, Conflict, Entry, Error, Event, Expect, Follow, Head, Op, Revision, Store,
    StoredEntry,
};
use bytes::Bytes;
use fastrand::Rng;
use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// How much to check.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed of the first history; the others count up from it.
    pub seed: u64,
    /// How many histories.
    pub histories: u64,
    /// How many histories go by on one store before it is thrown away.
    pub per_store: u64,
}

/// Runs histories, and panics with the seed of the first that the model cannot explain.
pub async fn check(factory: Factory<'_>, plan: Plan) {
    let mut history = 0;
    while history < plan.histories {
        let window = if history.is_multiple_of(2) { Window::Tiny } else { Window::Usual };
        let mut harness = factory(Setup { retention: Duration::from_secs(3600), window });
        let mut model = Model::default();
        for _ in 0..plan.per_store.min(plan.histories - history) {
            let seed = plan.seed + history;
            run(harness.as_mut(), &mut model, seed).await;
            history += 1;
        }
    }
}

/// One history, with a restart at its end for one seed in four.
async fn run(harness: &mut dyn Harness, model: &mut Model, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let store = harness.store();
    let start = store.known_revision();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..rng.usize(1..=4))
        .map(|writer| tokio::spawn(write(store.clone(), Rng::with_seed(rng.u64(..)), writer)))
        .collect();
    let readers: Vec<_> = (0..2)
        .map(|_| tokio::spawn(read(store.clone(), Rng::with_seed(rng.u64(..)), stop.clone())))
        .collect();
    let followers: Vec<_> = (0..2)
        .map(|_| tokio::spawn(follow(store.clone(), Rng::with_seed(rng.u64(..)), start, stop.clone())))
        .collect();

    let mut writes = Vec::new();
    for writer in writers {
        writes.extend(writer.await.unwrap());
    }
    stop.store(true, Ordering::SeqCst);
    let mut reads = Vec::new();
    for reader in readers {
        reads.extend(reader.await.unwrap());
    }
    let mut followed = Vec::new();
    for follower in followers {
        followed.push(follower.await.unwrap());
    }

    let judged = model
        .replay(&writes)
        .and_then(|()| reads.iter().try_for_each(|read| model.judge_read(read)))
        .and_then(|()| followed.iter().try_for_each(|followed| model.judge_follower(followed)))
        .and_then(|()| model.judge_now(&store));
    if let Err(why) = judged {
        panic!("seed {seed}: {why}");
    }

    let (newest, compacted) = (store.known_revision(), store.compacted());
    drop(store);
    if rng.u8(..4) == 0 && harness.restart() {
        let store = harness.store();
        let again = followed_again(&store, &mut rng, compacted, newest).await;
        let judged = model.judge_follower(&again).and_then(|()| model.judge_now(&store));
        if let Err(why) = judged {
            panic!("seed {seed}, after a restart: {why}");
        }
        assert_eq!((store.known_revision(), store.compacted()), (newest, compacted), "seed {seed}");
    }
}

/// A call and the revisions that were current before and after it.
struct Timed<Q, A> {
    asked: Q,
    answer: A,
    from: Revision,
    to: Revision,
}

type Write = Timed<Change, Result<Committed, Error>>;

enum Read {
    Get(Timed<String, Option<Entry>>),
    Load(Timed<Option<Revision>, Result<Loaded, Error>>),
    Compact(Revision),
}

/// What a follower received, in pieces between which it was stopped.
struct Followed {
    from: Revision,
    to: Revision,
    prefix: &'static str,
    events: Vec<Event>,
}

const KEYS: [&str; 8] = ["a/1", "a/2", "a/3", "b", "b/1", "b/2", "c/1", "c/2"];
const PREFIXES: [&str; 4] = ["", "a/", "b", "none/"];

async fn write(store: Arc<dyn Store>, mut rng: Rng, writer: usize) -> Vec<Write> {
    let mut writes = Vec::new();
    let mut known: BTreeMap<String, Revision> = BTreeMap::new();
    for turn in 0..rng.usize(2..12) {
        let name = *rng.choice(KEYS.iter()).unwrap_or(&"b");
        let mut change = if rng.u8(..4) == 0 {
            Change::delete(key(name))
        } else {
            let filler = if rng.u8(..8) == 0 { 2000 } else { 0 };
            Change::put(key(name), format!("{writer}.{turn}.{name}{}", ".".repeat(filler)))
        };
        match rng.u8(..6) {
            0 => change = change.create_only(),
            1 | 2 => change = change.expect_revision(known.get(name).copied().unwrap_or_default()),
            _ => {}
        }
        if rng.u8(..4) == 0 {
            change = change.returning_value();
        }
        let from = store.known_revision();
        let answer = store.commit(change.clone()).await;
        let to = store.known_revision();
        match &answer {
            Ok(committed) => {
                known.insert(name.to_owned(), committed.revision);
            }
            Err(Error::Conflict(conflict)) => {
                let found = conflict.found.as_ref().map_or(Revision::ZERO, |found| found.head.mod_revision);
                known.insert(conflict.key.to_string(), found);
            }
            Err(_) => {}
        }
        writes.push(Write { asked: change, answer, from, to });
        if rng.bool() {
            tokio::task::yield_now().await;
        }
    }
    writes
}

async fn read(store: Arc<dyn Store>, mut rng: Rng, stop: Arc<AtomicBool>) -> Vec<Read> {
    let mut reads = Vec::new();
    while !stop.load(Ordering::SeqCst) || reads.is_empty() {
        let from = store.known_revision();
        match rng.u8(..16) {
            0 => {
                let to = Revision(rng.u64(store.compacted().min(from).0..=from.0));
                store.compact(to).await.expect("a revision in reach can be compacted to");
                reads.push(Read::Compact(to));
            }
            1..5 => {
                let asked = (*rng.choice(KEYS.iter()).unwrap_or(&"b")).to_owned();
                let answer = store.get(&key(&asked)).expect("a get works");
                reads.push(Read::Get(Timed { asked, answer, from, to: store.known_revision() }));
            }
            pick => {
                let old = Revision(rng.u64(from.0.saturating_sub(20)..=from.0));
                let asked = (pick % 2 == 0).then_some(old);
                let mut entries = Vec::new();
                let answer = store.load(b"", asked, &mut |entry| {
                    entries.push(entry.expect("nothing is damaged"));
                    ControlFlow::Continue(())
                });
                let answer = answer.map(|revision| Loaded { entries, revision });
                reads.push(Read::Load(Timed { asked, answer, from, to: store.known_revision() }));
            }
        }
        tokio::task::yield_now().await;
    }
    reads
}

/// How long a follower waits before it is given up; twice as long whenever that was too short.
const IMPATIENT: Duration = Duration::from_millis(3);

/// Follows in pieces until the writers are done and everything has arrived, or history no longer reaches.
async fn follow(store: Arc<dyn Store>, mut rng: Rng, start: Revision, stop: Arc<AtomicBool>) -> Followed {
    let prefix = rng.choice(PREFIXES).unwrap_or_default();
    let mut followed = Followed { from: start, to: start, prefix, events: Vec::new() };
    let mut patience = IMPATIENT;
    loop {
        let done = stop.load(Ordering::SeqCst);
        if done && followed.to >= store.known_revision() {
            return followed;
        }
        let mut follow = Follow::after(followed.to).prefix(prefix);
        if rng.bool() {
            follow = follow.with_previous_values();
        }
        let Ok(mut follower) = store.follow(follow) else { return followed };
        for _ in 0..rng.usize(1..4) {
            match tokio::time::timeout(patience, follower.next()).await {
                Ok(Ok(batch)) => {
                    patience = IMPATIENT;
                    followed.to = batch.revision;
                    followed.events.extend(batch.events);
                }
                Ok(Err(Error::Compacted { .. })) => return followed,
                Ok(Err(error)) => panic!("a follower ended: {error}"),
                Err(_) => {
                    patience *= 2;
                    break;
                }
            }
        }
    }
}

async fn followed_again(
    store: &Arc<dyn Store>,
    rng: &mut Rng,
    compacted: Revision,
    newest: Revision,
) -> Followed {
    let from = Revision(rng.u64(compacted.0..=newest.0));
    let prefix = rng.choice(PREFIXES).unwrap_or_default();
    let events = super::events(store, Follow::after(from).prefix(prefix), newest).await;
    Followed { from, to: newest, prefix, events }
}

/// The reference: every change ever made, and each key's versions.
#[derive(Default)]
struct Model {
    changes: Vec<Applied>,
    versions: BTreeMap<String, Vec<Version>>,
    compacted: Revision,
}

#[derive(Clone)]
struct Applied {
    key: String,
    version: Version,
    previous: Option<Entry>,
}

#[derive(Clone)]
struct Version {
    revision: Revision,
    live: Option<Entry>,
}

impl Model {
    /// The revision of the last change.
    fn revision(&self) -> Revision {
        self.changes.last().map_or(Revision::ZERO, |applied| applied.version.revision)
    }

    fn at(&self, name: &str, revision: Revision) -> Option<&Entry> {
        let versions = self.versions.get(name)?;
        versions.iter().rfind(|version| version.revision <= revision)?.live.as_ref()
    }

    fn all_at(&self, revision: Revision) -> Vec<Entry> {
        self.versions.keys().filter_map(|name| self.at(name, revision).cloned()).collect()
    }

    /// Replays the commits in the order of their revisions, and judges every answer.
    fn replay(&mut self, writes: &[Write]) -> Result<(), String> {
        let mut accepted: Vec<(&Write, &Committed)> =
            writes.iter().filter_map(|write| Some((write, write.answer.as_ref().ok()?))).collect();
        accepted.sort_by_key(|(write, committed)| (committed.revision, write.asked.key.clone()));
        for (write, committed) in accepted {
            self.apply(&write.asked, committed)?;
        }
        for write in writes {
            match &write.answer {
                Ok(_) => {}
                Err(Error::Conflict(conflict)) => self.judge_conflict(write, conflict)?,
                Err(error) => return Err(format!("a commit failed: {error}")),
            }
        }
        Ok(())
    }

    fn apply(&mut self, change: &Change, committed: &Committed) -> Result<(), String> {
        let name = change.key.to_string();
        let (revision, newest) = (committed.revision, self.revision());
        let current = self.at(&name, newest).cloned();
        let same_key = self.versions.get(&name).and_then(|versions| versions.last());
        if revision < newest || same_key.is_some_and(|version| version.revision >= revision) {
            return Err(format!("revision {revision} of {name} came after {newest}"));
        }
        if !holds(change, current.as_ref()) {
            return Err(format!("revision {revision}: the precondition of {name} did not hold"));
        }
        let created = current.as_ref().map_or(revision, |entry| entry.head.create_revision);
        if committed.create_revision != created {
            return Err(format!("revision {revision} of {name} was answered with {committed:?}"));
        }
        if !same(committed.previous.as_ref(), current.as_ref()) {
            return Err(format!("revision {revision}: the previous entry of {name} is wrong"));
        }
        let live = match &change.op {
            Op::Put(value) => Some(entry(&name, value, created, revision)),
            Op::Delete => None,
        };
        let version = Version { revision, live };
        self.versions.entry(name.clone()).or_default().push(version.clone());
        self.changes.push(Applied { key: name, version, previous: current });
        Ok(())
    }

    /// A conflict is right if at some revision during the call the change could not be made on what was
    /// found.
    fn judge_conflict(&self, write: &Write, conflict: &Conflict) -> Result<(), String> {
        let change = &write.asked;
        let name = change.key.to_string();
        if conflict.key != change.key {
            return Err(format!("a conflict on {name} names {}", conflict.key));
        }
        let explained = (write.from.0..=write.to.0).any(|revision| {
            let current = self.at(&name, Revision(revision));
            !holds(change, current) && same(conflict.found.as_ref(), current)
        });
        let has_value = change.expect == Expect::Absent
            || conflict.found.as_ref().is_none_or(|found| found.value.is_some());
        match (explained, has_value) {
            (true, true) => Ok(()),
            (false, _) => {
                Err(format!("a conflict on {name} in {}..={} is not explained", write.from, write.to))
            }
            (true, false) => Err(format!("a conflict on {name} has no value")),
        }
    }

    fn judge_read(&mut self, read: &Read) -> Result<(), String> {
        match read {
            Read::Compact(to) => self.compacted = self.compacted.max(*to),
            Read::Get(get) => {
                let explained = (get.from.0..=get.to.0)
                    .any(|revision| self.at(&get.asked, Revision(revision)) == get.answer.as_ref());
                if !explained {
                    return Err(format!("get {} in {}..={} is not explained", get.asked, get.from, get.to));
                }
            }
            Read::Load(load) => match &load.answer {
                Ok(Loaded { revision, entries }) => {
                    if *revision < load.asked.unwrap_or(load.from)
                        || *revision > load.asked.unwrap_or(load.to)
                    {
                        return Err(format!("a load at {:?} answered revision {revision}", load.asked));
                    }
                    if *entries != self.all_at(*revision) {
                        return Err(format!("the load at {revision} differs"));
                    }
                }
                Err(Error::Compacted { requested, compacted }) if requested < compacted => {}
                Err(error) => return Err(format!("a load at {:?} failed: {error}", load.asked)),
            },
        }
        Ok(())
    }

    fn judge_follower(&self, followed: &Followed) -> Result<(), String> {
        let is_covered = |revision| followed.from < revision && revision <= followed.to;
        let followed_changes = self.changes.iter().filter(|change| is_covered(change.version.revision));
        let expected: Vec<&Applied> =
            followed_changes.filter(|change| change.key.starts_with(followed.prefix)).collect();
        if !followed.events.iter().map(Event::revision).is_sorted() {
            return Err(format!("a follower of {}..={} got events out of order", followed.from, followed.to));
        }
        let mut events: Vec<&Event> = followed.events.iter().collect();
        events.sort_by_key(|event| (event.revision(), &event.key));
        if expected.len() != events.len() {
            let (want, got) = (expected.len(), events.len());
            return Err(format!(
                "a follower of {}..={} got {got} of {want} events",
                followed.from, followed.to
            ));
        }
        for (applied, event) in expected.into_iter().zip(events) {
            if !same_event(applied, event) {
                return Err(format!("a follower got {event:?} for revision {}", applied.version.revision));
            }
        }
        Ok(())
    }

    fn judge_now(&self, store: &Arc<dyn Store>) -> Result<(), String> {
        let loaded = super::load(store, "", None).map_err(|error| error.to_string())?;
        if loaded.revision < self.revision() || store.known_revision() < loaded.revision {
            return Err(format!(
                "the store is at {}, the model at {}",
                store.known_revision(),
                self.revision()
            ));
        }
        if loaded.entries != self.all_at(loaded.revision) {
            return Err("the final states differ".into());
        }
        if store.compacted() < self.compacted {
            return Err(format!("compacted is {} after compacting to {}", store.compacted(), self.compacted));
        }
        Ok(())
    }
}

/// The preconditions again, written differently from the stores' own.
fn holds(change: &Change, current: Option<&Entry>) -> bool {
    let deletes = matches!(change.op, Op::Delete);
    let Some(current) = current else {
        return !deletes && !matches!(change.expect, Expect::At(_));
    };
    match change.expect {
        Expect::Any => true,
        Expect::Absent => false,
        Expect::At(revision) => current.head.mod_revision == revision,
    }
}

fn entry(name: &str, value: &Bytes, create_revision: Revision, mod_revision: Revision) -> Entry {
    let head = Head { create_revision, mod_revision };
    Entry { key: key(name), head, value: value.clone() }
}

fn same(notified: Option<&StoredEntry>, entry: Option<&Entry>) -> bool {
    match (notified, entry) {
        (None, None) => true,
        (Some(notified), Some(entry)) => {
            notified.head == entry.head
                && notified.value.as_ref().is_none_or(|value| value.as_ref() == Ok(&entry.value))
        }
        _ => false,
    }
}

fn same_event(applied: &Applied, event: &Event) -> bool {
    let rest = event.key.to_string() == applied.key
        && event.revision() == applied.version.revision
        && same(event.previous.as_ref(), applied.previous.as_ref());
    rest && match &applied.version.live {
        Some(entry) => {
            event.kind == ChangeKind::Put
                && event.head == entry.head
                && event.value.as_ref() == Ok(&entry.value)
        }
        None => event.kind == ChangeKind::Delete && event.value.as_ref().is_ok_and(Bytes::is_empty),
    }
}

//! What the threads of an embedded store share, and every way of reading it.
//!
//! 1. `heads`, `feed` and the announced revision change only after the change they show is on disk.
//! 2. `compacted` is raised before the rows that it gives up are removed; a reader takes its view of the rows
//!    first and checks `compacted` after, so what it was promised is in its view.
//! 3. Rows with revisions past the announced one may exist (a commit under way, or one that failed): no
//!    reader looks at them.
//! 4. A thread that uses the engine holds `engine` for reading; recovery holds it for writing, and replaces
//!    it.

use super::{
    EmbeddedOptions,
    ahead::{self, Sink},
    clock::Clock,
    engine::{Engine, Found, ReadError, View},
    files::Directory,
    heads::{Heads, trusted},
    layout::{self, Logged, Reach, Version},
};
use crate::{
    Batch, ChangeKind, Corrupt, Entry, Error, Head, Health, Key, Revision, Unreadable, Value, Visitor,
    feed::{BatchBuilder, Feed, check_reach},
};
use bytes::Bytes;
use std::{
    io, iter,
    ops::{Bound, ControlFlow},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

pub(super) struct Shared {
    pub(super) directory: Directory,
    pub(super) options: EmbeddedOptions,
    pub(super) engine: RwLock<Option<Engine>>,
    pub(super) heads: RwLock<Heads>,
    pub(super) feed: Arc<Feed>,
    pub(super) clock: Mutex<Clock>,
    pub(super) health: Mutex<Health>,
    compacted: AtomicU64,
    swept: AtomicU64,
    /// The bytes that tables and files of values took up when they were last measured.
    used: AtomicU64,
    /// The bytes that were ever written: at first, those that tables and files of values took up when the
    /// store was opened.
    written: AtomicU64,
    /// Whether the disk is full and the reserve released, while the engine works.
    full: AtomicBool,
}

/// A view of the rows that stays while it is used.
struct Reading<'a> {
    view: View,
    engine: RwLockReadGuard<'a, Option<Engine>>,
}

impl Reading<'_> {
    fn engine(&self) -> Result<&Engine, Error> {
        self.engine.as_ref().ok_or(Error::Closed)
    }
}

/// The keys that start with `prefix`, from `from` on.
#[derive(Clone, Copy)]
struct Under<'a> {
    prefix: &'a [u8],
    from: &'a [u8],
}

/// What a load finds.
enum Step {
    Entry(Result<Entry, Unreadable>),
    /// The index cannot be read from this key on.
    Unreadable {
        from: Bytes,
    },
}

/// How many keys a part of a load has.
const PART: usize = 512;

impl Shared {
    pub(super) fn new(
        directory: Directory,
        options: EmbeddedOptions,
        engine: Engine,
        recovered: Recovered,
    ) -> Self {
        let window = options.window;
        let used = engine.table_bytes();
        Self {
            directory,
            options,
            engine: RwLock::new(Some(engine)),
            heads: RwLock::new(recovered.heads),
            feed: Arc::new(Feed::new(recovered.revision, window)),
            clock: Mutex::new(recovered.clock),
            health: Mutex::new(Health::Good),
            compacted: AtomicU64::new(recovered.reach.compacted.0),
            swept: AtomicU64::new(recovered.reach.swept.0),
            used: AtomicU64::new(used),
            written: AtomicU64::new(used),
            full: AtomicBool::new(false),
        }
    }

    pub(super) fn compacted(&self) -> Revision {
        Revision(self.compacted.load(Ordering::Acquire))
    }

    pub(super) fn reach(&self) -> Reach {
        let swept = Revision(self.swept.load(Ordering::Acquire));
        Reach { compacted: self.compacted(), swept }
    }

    /// Compacts history before `to`.
    pub(super) fn raise_compacted(&self, to: Revision) {
        self.compacted.fetch_max(to.0, Ordering::AcqRel);
    }

    pub(super) fn set_swept(&self, to: Revision) {
        self.swept.store(to.0, Ordering::Release);
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn set_used(&self, bytes: u64) {
        self.used.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    pub(super) fn count_written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    pub(super) fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    /// Whether the engine takes the removal of expired history.
    pub(super) fn can_reclaim(&self) -> bool {
        self.is_full() || self.health().is_good()
    }

    pub(super) fn health(&self) -> Health {
        self.lock_health().clone()
    }

    pub(super) fn set_health(&self, health: Health) {
        *self.lock_health() = health;
    }

    fn lock_health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn head(&self, key: &[u8]) -> Option<Head> {
        self.heads.read().unwrap_or_else(PoisonError::into_inner).get(key)
    }

    /// The current entry of a key.
    pub(super) fn get(&self, key: &Key) -> Result<Option<Entry>, Error> {
        loop {
            if matches!(self.health(), Health::Closed) {
                return Err(Error::Closed);
            }
            let Some(head) = self.head(key.as_bytes()) else { return Ok(None) };
            let value = self.value(key, head.mod_revision)?;
            if value.is_err() && self.head(key.as_bytes()).as_ref() != Some(&head) {
                continue;
            }
            return Ok(Some(Entry { key: key.clone(), head, value: value? }));
        }
    }

    /// The value that a change wrote, from the window or from disk.
    pub(super) fn value(&self, key: &Key, revision: Revision) -> Result<Value, Error> {
        if let Some(value) = self.feed.value(key, revision) {
            return Ok(value);
        }
        Ok(self.reading()?.view.value(key, revision))
    }

    /// The values that changes wrote, unless history no longer reaches them.
    pub(super) fn values(&self, wanted: &[(Key, Revision)]) -> Result<Vec<Value>, Error> {
        let values: Vec<Value> =
            wanted.iter().map(|(key, revision)| self.value(key, *revision)).collect::<Result<_, _>>()?;
        let missing = wanted.iter().zip(&values).find(|(_, value)| value.is_err());
        if let Some(((key, revision), _)) = missing {
            let superseded = self.head(key.as_bytes()).is_none_or(|head| head.mod_revision != *revision);
            if superseded && *revision < self.compacted() {
                return Err(Error::Compacted { requested: *revision, compacted: self.compacted() });
            }
        }
        Ok(values)
    }

    /// See [`crate::Store::load`].
    pub(super) fn load(
        &self,
        prefix: &[u8],
        at: Option<Revision>,
        visit: &mut Visitor<'_>,
    ) -> Result<Revision, Error> {
        let (reading, at) = loop {
            let current = self.feed.revision();
            let reading = self.reading()?;
            match check_reach(at.unwrap_or(current), self.compacted(), current) {
                Err(Error::Compacted { .. }) if at.is_none() => {}
                checked => {
                    checked?;
                    break (reading, at.unwrap_or(current));
                }
            }
        };
        let marks = self.marks(prefix);
        let parts: Vec<_> = marks.iter().zip(marks.iter().skip(1)).collect();
        let mut outcome = Ok(at);
        ahead::in_order(
            &parts,
            |(from, to), sink| reading.view.entries_at(at, from, to, sink),
            |step| match step {
                Step::Entry(entry) => visit(entry),
                Step::Unreadable { from } => {
                    outcome = self.load_without_index(&reading, Under { prefix, from: &from }, at, visit);
                    ControlFlow::Break(())
                }
            },
        );
        outcome
    }

    /// Row keys between which lies everything under a prefix, in parts that are read each on its own.
    fn marks(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        let heads = self.heads.read().unwrap_or_else(PoisonError::into_inner);
        let first = layout::index_prefix(prefix);
        let end = layout::successor(&first);
        let between = heads.keys(prefix).step_by(PART).skip(1).map(layout::index_prefix);
        iter::once(first).chain(between).chain([end]).collect()
    }

    /// Continues a load where the index cannot be read: with the keys that are live now, and those that were
    /// deleted since according to the log. Each key is looked up on its own, so that only keys in damaged
    /// rows are reported. Returns the revision that was loaded.
    fn load_without_index(
        &self,
        reading: &Reading<'_>,
        under: Under<'_>,
        at: Revision,
        visit: &mut Visitor<'_>,
    ) -> Result<Revision, Error> {
        let mut keys = self.heads.read().unwrap_or_else(PoisonError::into_inner).under(under.prefix);
        let later = reading.engine()?.view();
        for logged in later.log(at, Revision(u64::MAX)) {
            let logged = logged.map_err(|error| self.unreadable(error))?;
            if logged.kind == ChangeKind::Delete && logged.key.as_bytes().starts_with(under.prefix) {
                keys.entry(Bytes::copy_from_slice(logged.key.as_bytes())).or_insert(None);
            }
        }
        for (key, head) in keys.split_off(under.from) {
            let Ok(key) = trusted(key) else { continue };
            let entry = match head.filter(|head| head.mod_revision <= at) {
                Some(head) => {
                    reading.view.value(&key, head.mod_revision).map(|value| Entry { key, head, value })
                }
                None => match reading.view.entry_at(&key, at) {
                    Ok(None) => continue,
                    Ok(Some(entry)) => Ok(entry),
                    Err(corrupt) => Err(corrupt),
                },
            };
            if visit(entry).is_break() {
                break;
            }
        }
        Ok(at)
    }

    /// A batch of history, for a follower that the window has left behind.
    pub(super) fn history(&self, after: Revision, until: Revision, prefix: &[u8]) -> Result<Batch, Error> {
        let reading = self.reading()?;
        check_reach(after, self.compacted(), self.feed.revision())?;
        let mut batch = BatchBuilder::new(after);
        let mut expected = after.next();
        for logged in reading.view.log(after, until) {
            let logged = logged.map_err(|error| self.unreadable(error))?;
            if logged.head.mod_revision != expected {
                break;
            }
            let event = || {
                let value = || reading.view.value_of(&logged);
                logged.key.as_bytes().starts_with(prefix).then(|| logged.clone().event(value()))
            };
            if batch.push(expected, event).is_break() {
                return Ok(batch.full());
            }
            expected = expected.next();
        }
        if expected <= until {
            return Err(self.unreadable(ReadError::Damaged(format!("the log has no change {expected}"))));
        }
        Ok(batch.complete(until))
    }

    /// The rows of the log in `(after, until]`, at most `count`.
    pub(super) fn log(&self, after: Revision, until: Revision, count: usize) -> Result<Vec<Logged>, Error> {
        let reading = self.reading()?;
        let rows = reading.view.log(after, until).take(count);
        rows.collect::<Result<_, _>>().map_err(|error| self.unreadable(error))
    }

    fn reading(&self) -> Result<Reading<'_>, Error> {
        let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner);
        match (engine.as_ref(), self.health()) {
            (Some(open), _) => Ok(Reading { view: open.view(), engine }),
            (None, Health::Failing(error)) => Err(error),
            (None, _) => Err(Error::Closed),
        }
    }

    pub(super) fn unreadable(&self, error: ReadError) -> Error {
        self.directory.unreadable(error)
    }
}

/// What is read from an engine when it is opened.
pub(super) struct Recovered {
    pub(super) heads: Heads,
    pub(super) revision: Revision,
    pub(super) reach: Reach,
    pub(super) clock: Clock,
}

impl Recovered {
    pub(super) fn read(view: &View) -> Result<Self, ReadError> {
        let reach = Self::reach(view)?;
        let revision = view.newest()?.max(reach.compacted);
        let heads = Heads::read(view, reach.compacted, revision)?;
        Ok(Self { heads, revision, reach, clock: Clock::read(view) })
    }

    /// How far history reaches. If the row that says so is damaged, history starts at the newest revision,
    /// and everything before is swept again.
    pub(super) fn reach(view: &View) -> Result<Reach, ReadError> {
        let row = match view.get(layout::STATE) {
            Ok(None) => return Ok(Reach::default()),
            Ok(row) => row,
            Err(ReadError::Damaged(_)) => None,
            Err(error) => return Err(error),
        };
        match row.as_ref().and_then(layout::parse_state_row) {
            Some(reach) => Ok(reach),
            None => Ok(Reach { compacted: view.newest()?, ..Reach::default() }),
        }
    }
}

impl View {
    /// The newest revision in the log.
    pub(super) fn newest(&self) -> Result<Revision, ReadError> {
        let last = self.last(layout::LOG)?;
        Ok(last.and_then(|row| layout::parse_numbered(&row)).unwrap_or_default())
    }

    /// The value that the change with this revision gave to `key`.
    pub(super) fn value(&self, key: &Key, revision: Revision) -> Value {
        self.try_value(key, revision)
            .unwrap_or_else(|error| Err(unreadable_value(key.clone(), revision, &ReadError::Io(error))))
    }

    /// Like [`View::value`], but distinguishes a failed read, which may succeed later, from damage.
    pub(super) fn try_value(&self, key: &Key, revision: Revision) -> io::Result<Value> {
        let row_key = layout::index_key(key.as_bytes(), revision);
        Ok(match self.get(&row_key) {
            Ok(Some(row)) => match layout::parse_version_row(&row_key, revision, row) {
                Some(version) => Ok(version.value),
                None => Err(failed_checksum(key.clone(), revision)),
            },
            Ok(None) => Err(corrupt(key.clone(), revision, "its row is missing".into())),
            Err(ReadError::Io(error)) => return Err(error),
            Err(damaged) => Err(unreadable_value(key.clone(), revision, &damaged)),
        })
    }

    /// The value of a logged change: empty for a delete.
    pub(super) fn value_of(&self, logged: &Logged) -> Value {
        match logged.kind {
            ChangeKind::Put => self.value(&logged.key, logged.head.mod_revision),
            ChangeKind::Delete => Ok(Bytes::new()),
        }
    }

    /// The rows of the log in `(after, until]`.
    pub(super) fn log(
        &self,
        after: Revision,
        until: Revision,
    ) -> impl Iterator<Item = Result<Logged, ReadError>> {
        let from = Bound::Excluded(layout::numbered(layout::LOG, after));
        let to = Bound::Included(layout::numbered(layout::LOG, until));
        self.scan(from, to).map(|row| {
            let row = row?;
            let logged = layout::parse_log_row(&row.key, &row.row);
            logged.ok_or_else(|| ReadError::Damaged("a row of the log fails its checksum".into()))
        })
    }

    /// The entries at a revision whose row keys lie between two others, as far as the index can be read.
    fn entries_at(&self, at: Revision, from: &[u8], to: &[u8], mut sink: Sink<'_, Step>) {
        let mut seen = Bytes::new();
        let mut versions = self.versions(from, to);
        while let Some(found) = versions.next(|key, revision| revision <= at && key != seen) {
            let Ok(Found { key, revision, version }) = found else {
                let from = if seen.is_empty() {
                    Bytes::copy_from_slice(from.get(1..).unwrap_or_default())
                } else {
                    [&*seen, &[0]].concat().into()
                };
                let _ = sink.put(Step::Unreadable { from }, 0);
                return;
            };
            seen = key.clone();
            let Ok(key) = trusted(key) else { continue };
            let entry = match version {
                Ok(Some(Version { kind: ChangeKind::Delete, .. })) => continue,
                Ok(Some(Version { head, value, .. })) => Ok(Entry { key, head, value }),
                Ok(None) => Err(failed_checksum(key, revision)),
                Err(error) => Err(unreadable_value(key, revision, &error)),
            };
            let bytes = entry.as_ref().map_or(0, |entry| entry.value.len());
            if sink.put(Step::Entry(entry), bytes).is_break() {
                return;
            }
        }
    }

    /// The entry of `key` at a revision.
    fn entry_at(&self, key: &Key, at: Revision) -> Result<Option<Entry>, Unreadable> {
        let from = Bound::Included(layout::index_key(key.as_bytes(), at));
        let to = Bound::Included(layout::index_key(key.as_bytes(), Revision::ZERO));
        let Some(row) = self.scan(from, to).next() else { return Ok(None) };
        let row = row.map_err(|error| unreadable_value(key.clone(), at, &error))?;
        let version = layout::parse_index_key(&row.key)
            .and_then(|(_, revision)| layout::parse_version_row(&row.key, revision, row.row));
        match version {
            Some(Version { kind: ChangeKind::Delete, .. }) => Ok(None),
            Some(Version { head, value, .. }) => Ok(Some(Entry { key: key.clone(), head, value })),
            None => Err(failed_checksum(key.clone(), at)),
        }
    }
}

fn failed_checksum(key: Key, revision: Revision) -> Unreadable {
    corrupt(key, revision, "its stored bytes fail their checksum".into())
}

fn unreadable_value(key: Key, revision: Revision, error: &ReadError) -> Unreadable {
    corrupt(key, revision, format!("its stored bytes cannot be read: {error}"))
}

fn corrupt(key: Key, revision: Revision, reason: String) -> Unreadable {
    Corrupt { key, revision, reason }.into()
}

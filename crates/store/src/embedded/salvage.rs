//! Saves what can be read of a store that cannot be opened, because its journal is damaged or missing.
//!
//! 1. Nothing is changed before [`Salvage::write`], which keeps the damaged store in a directory of its own.
//! 2. Every row whose checksum is right is saved: those of the tables, those of whole records of the journal,
//!    also after damage, and those inside of damaged records.
//! 3. The report names what is lost: revisions of which nothing is left, and keys whose value is lost. Such a
//!    key stays, and is reported as corrupt until it is written again or deleted.
//! 4. No revision is used twice. The store continues [`REVISIONS`] after the newest revision that was
//!    acknowledged or found, and history starts there: a watcher of an older revision has to list again.
//!
//! A removal may be lost with its record. The rows that it removed are there again then; a key whose newest
//! row is older than one that a later record has removed was deleted.

mod journals;

use super::{
    build::Builder,
    engine::{self, Engine, ReadError, View},
    files::{Directory, Watermark, remove_dir},
    layout::{self, Logged, Reach, Version},
};
use crate::{ChangeKind, Corrupt, Damage, Error, Head, Key, Revision};
use bytes::Bytes;
use journals::{Gap, Journals};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
};

/// How many revisions are skipped: after a power failure, the watermark may be older than the newest
/// acknowledged revision.
const REVISIONS: u64 = 1_000_000;

/// A store that is damaged, and what of it can be read. Everything here blocks.
pub struct Salvage {
    directory: Directory,
    tables: Tables,
    journals: Journals,
    survivors: BTreeMap<Bytes, Survivor>,
    report: SalvageReport,
}

/// What a salvage saves and what is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvageReport {
    /// How many entries are saved, with those whose value is lost.
    pub entries: u64,
    /// The newest revision that was acknowledged; none if the file that says so cannot be read.
    pub acknowledged: Option<Revision>,
    /// The parts of journals that cannot be read.
    pub damaged: Vec<DamagedJournal>,
    /// Whether there is no journal at all.
    pub is_journal_missing: bool,
    /// The revisions of which nothing is left: puts and deletes of keys that are not known.
    pub lost: Vec<Range<Revision>>,
    /// The changes of which nothing is left, but that later ones have superseded: only history is lost.
    pub superseded: Vec<(Revision, Key)>,
    /// The entries whose value is lost.
    pub without_value: Vec<Corrupt>,
    /// The revision at which the store goes on.
    pub revision: Revision,
}

/// A part of a journal that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedJournal {
    /// The file.
    pub path: PathBuf,
    /// Which bytes of it.
    pub bytes: Range<usize>,
    /// How many rows in it could be read nevertheless; an object has two.
    pub rows: usize,
}

impl SalvageReport {
    /// How many revisions nothing is left of.
    #[must_use]
    pub fn lost_revisions(&self) -> u64 {
        self.lost.iter().map(|range| range.end.0.saturating_sub(range.start.0)).sum()
    }
}

/// The newest state of a key that could be found.
struct Survivor {
    kind: ChangeKind,
    head: Head,
    has_value: bool,
}

/// The tables of the store, opened in a place of their own.
struct Tables {
    view: Option<View>,
    engine: Option<Engine>,
    path: PathBuf,
}

impl Drop for Tables {
    fn drop(&mut self) {
        self.view = None;
        self.engine = None;
        // What is left is removed when the store is opened.
        remove_dir(&self.path).ok();
    }
}

impl Salvage {
    /// Reads the store in a directory that no process uses; `None` if it has all that was acknowledged.
    pub fn read(path: &Path) -> Result<Option<Self>, Error> {
        if super::is_vacant(path).map_err(Error::read)? {
            return Err(Error::Unusable { path: path.into(), damage: Damage::Absent });
        }
        let directory = Directory::lock(path)?;
        directory.settle_damaged()?;
        let unreadable = |error| directory.unreadable(error);
        let acknowledged = Watermark::open(&directory).and_then(|watermark| watermark.read()).ok();
        let tables = Tables::open(&directory)?;
        let (view, flushed) = tables.parts()?;
        let mut journals = Journals::read(&directory.engine(), flushed).map_err(Error::read)?;
        let flushed =
            view.newest().map_err(unreadable)?.max(compacted(view.get(layout::STATE).ok().flatten()));
        let newest = journals.newest.max(flushed);
        let stated = journals.rows.get(layout::STATE).cloned().flatten();
        let has_all = acknowledged.is_some_and(|acknowledged| acknowledged <= newest.max(compacted(stated)));
        // A record that was being written when the process or the power ended.
        journals.gaps.pop_if(|gap| has_all && gap.is_last);
        let is_journal_missing = !engine::has_journal(&directory.engine()).map_err(Error::read)?;
        if has_all && journals.gaps.is_empty() && !is_journal_missing {
            return Ok(None);
        }
        let mut search = Search::new(missing(&journals.gaps, flushed..newest, acknowledged));
        search.tables(view, &journals).map_err(unreadable)?;
        search.journals(&journals);
        let survivors = search.living(&journals);
        let damaged = journals.gaps.iter().map(|gap| DamagedJournal {
            path: gap.journal.clone(),
            bytes: gap.bytes.clone(),
            rows: gap.rows,
        });
        let (lost, superseded) = search.lost();
        let newest = search.newest.max(newest).max(acknowledged.unwrap_or_default());
        let report = SalvageReport {
            entries: survivors.len() as u64,
            acknowledged,
            damaged: damaged.collect(),
            is_journal_missing,
            lost,
            superseded,
            without_value: survivors.iter().filter_map(|(key, survivor)| survivor.corrupt(key)).collect(),
            revision: Revision(newest.0.saturating_add(REVISIONS)),
        };
        Ok(Some(Self { directory, tables, journals, survivors, report }))
    }

    /// What is saved and what is lost.
    #[must_use]
    pub fn report(&self) -> &SalvageReport {
        &self.report
    }

    /// Puts what could be read in the place of the damaged store, which is kept in the new directory `aside`.
    pub fn write(self, aside: &Path) -> Result<SalvageReport, Error> {
        let Self { directory, tables, journals, survivors, report } = self;
        directory.copy_aside(aside).map_err(Error::read)?;
        let (view, _) = tables.parts()?;
        let mut builder = Builder::create(&directory.rebuilt_engine())?;
        for (key, Survivor { head, has_value, .. }) in survivors {
            let Ok(key) = Key::new(key) else { continue };
            let value = match has_value {
                true => value(view, &journals, &key, head.mod_revision)?,
                false => None,
            };
            builder.add(key, head, value)?;
        }
        builder.finish(Reach { compacted: report.revision, swept: report.revision })?;
        drop(tables);
        directory.swap_rebuilt().map_err(Error::read)?;
        Watermark::create(&directory, report.revision)?;
        Ok(report)
    }
}

impl Tables {
    fn open(directory: &Directory) -> Result<Self, Error> {
        let path = directory.salvaged_tables();
        remove_dir(&path)
            .and_then(|()| engine::copy_tables(&directory.engine(), &path))
            .map_err(Error::read)?;
        let mut tables = Self { view: None, engine: None, path };
        let engine = Engine::open(&tables.path).map_err(|error| directory.unreadable(error))?;
        tables.view = Some(engine.view());
        tables.engine = Some(engine);
        Ok(tables)
    }

    fn parts(&self) -> Result<(&View, Option<u64>), Error> {
        let view = self.view.as_ref().ok_or(Error::Closed)?;
        Ok((view, self.engine.as_ref().and_then(Engine::persisted)))
    }
}

impl Survivor {
    fn corrupt(&self, key: &Bytes) -> Option<Corrupt> {
        let key = Key::new(key.clone()).ok().filter(|_| !self.has_value)?;
        Some(Corrupt { key, revision: self.head.mod_revision, reason: "its value is lost".into() })
    }
}

/// How far history is given up, by the row that says so: no change to come is older.
fn compacted(row: Option<Bytes>) -> Revision {
    row.as_ref().and_then(layout::parse_state_row).unwrap_or_default().compacted
}

/// The revisions that may have been in gaps. All changes up to the start of `known` are in tables; its end is
/// the newest one in a whole record.
fn missing(gaps: &[Gap], known: Range<Revision>, acknowledged: Option<Revision>) -> Vec<Range<Revision>> {
    let within = gaps.iter().filter(|gap| !gap.is_flushed).filter_map(|gap| {
        let from = gap.after.unwrap_or_default().max(known.start).next();
        Some(from..gap.before?)
    });
    let after = known.end.next()..acknowledged.unwrap_or_default().next();
    within.chain([after]).filter(|range| range.start < range.end).collect()
}

/// The search for the newest state of every key, and for what became of missing revisions.
struct Search {
    found: BTreeMap<Bytes, Survivor>,
    missing: Vec<Range<Revision>>,
    /// Of the missing revisions, those of which something is left.
    known: BTreeSet<Revision>,
    /// Of the missing revisions, those that later changes have superseded.
    superseded: BTreeMap<Revision, Key>,
    newest: Revision,
}

impl Search {
    fn new(missing: Vec<Range<Revision>>) -> Self {
        Self {
            found: BTreeMap::new(),
            missing,
            known: BTreeSet::new(),
            superseded: BTreeMap::new(),
            newest: Revision::ZERO,
        }
    }

    /// Reads the tables. Damaged rows are skipped: versions and log stand in for each other.
    fn tables(&mut self, view: &View, journals: &Journals) -> Result<(), ReadError> {
        let all = layout::index_prefix(b"");
        let mut versions = view.versions(&all, &layout::successor(&all));
        let mut seen = Bytes::new();
        let is_wanted = |key: &[u8], revision: Revision| !journals.has(&layout::index_key(key, revision));
        while let Some(found) = versions.next(|key, revision| key != seen && is_wanted(key, revision)) {
            // The log has the keys after the damage.
            let Ok(found) = found else { break };
            seen = found.key.clone();
            self.version(found.key, found.revision, found.version.ok().flatten());
        }
        let mut rows = view.log(Revision::ZERO, Revision(u64::MAX));
        let mut is_whole = true;
        for logged in &mut rows {
            match logged {
                Ok(logged) if journals.has(&layout::numbered(layout::LOG, logged.head.mod_revision)) => {}
                Ok(logged) => self.change(&logged),
                Err(ReadError::Io(error)) => return Err(ReadError::Io(error)),
                Err(_) => is_whole = false,
            }
        }
        match is_whole || !self.found.is_empty() {
            true => Ok(()),
            false => Err(ReadError::Damaged("no table can be read".into())),
        }
    }

    /// Reads the rows that are only in journals.
    fn journals(&mut self, journals: &Journals) {
        for (row_key, row) in journals.puts(layout::INDEX) {
            if let Some((key, revision)) = layout::parse_index_key(row_key) {
                self.version(key, revision, layout::parse_version_row(row_key, revision, row.clone()));
            }
        }
        for logged in journals.changes() {
            self.change(&logged);
        }
    }

    /// Notes a version; one that is `None` cannot be read.
    fn version(&mut self, key: Bytes, revision: Revision, version: Option<Version>) {
        let survivor = match version {
            Some(version) => Survivor { kind: version.kind, head: version.head, has_value: true },
            None => {
                let head = Head { create_revision: revision, mod_revision: revision };
                Survivor { kind: ChangeKind::Put, head, has_value: false }
            }
        };
        self.note(key, survivor);
    }

    fn change(&mut self, logged: &Logged) {
        let has_value = logged.kind == ChangeKind::Delete;
        let survivor = Survivor { kind: logged.kind, head: logged.head, has_value };
        self.note(Bytes::copy_from_slice(logged.key.as_bytes()), survivor);
        let previous = logged.previous.map(|previous| previous.mod_revision);
        if let Some(previous) = previous.filter(|previous| self.is_missing(*previous)) {
            self.superseded.insert(previous, logged.key.clone());
        }
    }

    fn note(&mut self, key: Bytes, survivor: Survivor) {
        let revision = survivor.head.mod_revision;
        self.newest = self.newest.max(revision);
        if self.is_missing(revision) {
            self.known.insert(revision);
        }
        let is_better = self.found.get(&key).is_none_or(|known| {
            let known_revision = known.head.mod_revision;
            revision > known_revision || revision == known_revision && !known.has_value
        });
        if is_better {
            // The log knows when an entry was created whose value is lost.
            self.found.insert(key, survivor);
        }
    }

    fn is_missing(&self, revision: Revision) -> bool {
        self.missing.iter().any(|range| range.contains(&revision))
    }

    /// The entries that are there.
    fn living(&mut self, journals: &Journals) -> BTreeMap<Bytes, Survivor> {
        let mut found = std::mem::take(&mut self.found);
        found.retain(|key, survivor| {
            let removed = journals.removed.get(key).copied().unwrap_or_default();
            survivor.kind == ChangeKind::Put && survivor.head.mod_revision > removed
        });
        found
    }

    /// The revisions of which nothing is left; and those that are known to be superseded.
    fn lost(&mut self) -> (Vec<Range<Revision>>, Vec<(Revision, Key)>) {
        let superseded = std::mem::take(&mut self.superseded);
        let superseded = superseded.into_iter().filter(|(revision, _)| !self.known.contains(revision));
        let superseded: Vec<_> = superseded.collect();
        self.known.extend(superseded.iter().map(|(revision, _)| *revision));
        let mut lost = Vec::new();
        for range in &self.missing {
            let mut from = range.start;
            for known in self.known.range(range.clone()) {
                lost.push(from..*known);
                from = known.next();
            }
            lost.push(from..range.end);
        }
        lost.retain(|range| range.start < range.end);
        (lost, superseded)
    }
}

/// The value that a change wrote, where it was found.
fn value(view: &View, journals: &Journals, key: &Key, revision: Revision) -> Result<Option<Bytes>, Error> {
    let row_key = layout::index_key(key.as_bytes(), revision);
    let version = match journals.rows.get(row_key.as_slice()).cloned().flatten() {
        Some(row) => layout::parse_version_row(&row_key, revision, row).map(|version| version.value),
        None => view.try_value(key, revision).map_err(Error::read)?.ok(),
    };
    Ok(version)
}

//! `keelson doctor --salvage`: a store that cannot be opened, because its journal is damaged.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use object::{Map, Value};
use store::embedded::{Salvage, SalvageReport};

use super::findings::{json_text, thousands};
use crate::Error;
use storage::DataDir;

/// The store of a data directory, and what became of it.
pub(super) struct Salvaged {
    store: PathBuf,
    outcome: Outcome,
}

enum Outcome {
    /// It has all that was acknowledged.
    Sound,
    /// Nothing was changed.
    Examined(SalvageReport),
    /// What could be read is in its place, and the damaged one is here.
    Saved(SalvageReport, PathBuf),
}

/// Saves what can be read, and keeps the damaged store in the new directory `aside`; without one, only looks
/// what could be saved. Blocking.
pub(super) fn run(data_dir: &Path, aside: Option<PathBuf>) -> Result<Salvaged, Error> {
    let store = DataDir::at(data_dir)?.store();
    let salvage = match Salvage::read(&store) {
        Err(store::Error::Locked { path }) => return Err(Error::InUse { path }),
        read => read?,
    };
    let outcome = match (salvage, aside) {
        (None, _) => Outcome::Sound,
        (Some(salvage), None) => Outcome::Examined(salvage.report().clone()),
        (Some(salvage), Some(aside)) => Outcome::Saved(salvage.write(&aside)?, aside),
    };
    Ok(Salvaged { store, outcome })
}

impl Salvaged {
    /// Whether the store is damaged still.
    pub(super) fn is_damaged(&self) -> bool {
        matches!(self.outcome, Outcome::Examined(_))
    }

    pub(super) fn text(&self) -> String {
        text(&self.store, &self.outcome)
    }

    pub(super) fn json(&self) -> String {
        json(&self.store, &self.outcome)
    }
}

fn text(store: &Path, outcome: &Outcome) -> String {
    let mut text = String::new();
    let (report, saved) = match outcome {
        Outcome::Sound => {
            let _ = writeln!(
                text,
                "{}: all that was acknowledged is there: nothing was changed",
                store.display()
            );
            return text;
        }
        Outcome::Examined(report) => (report, "can be saved"),
        Outcome::Saved(report, _) => (report, "are saved"),
    };
    let _ = writeln!(text, "{}: the journal is damaged", store.display());
    for damaged in &report.damaged {
        let (from, to) = (damaged.bytes.start, damaged.bytes.end);
        let _ = writeln!(
            text,
            "  {}, bytes {from} to {to}; rows in it that are whole: {}",
            damaged.path.display(),
            damaged.rows
        );
    }
    if report.is_journal_missing {
        text.push_str("  it is missing\n");
    }
    if report.acknowledged.is_none() {
        text.push_str("  the file \"watermark\" cannot be read: revisions after the newest one that is left may be lost, too\n");
    }
    if !report.lost.is_empty() {
        let count = thousands(report.lost_revisions());
        let _ = writeln!(
            text,
            "\nlost: {count} changes of objects that are not known. Each is as it was before such a change, or missing, or there again"
        );
    }
    for range in &report.lost {
        match range.end.0.saturating_sub(1) {
            last if last == range.start.0 => drop(writeln!(text, "  revision {last}")),
            last => drop(writeln!(text, "  revisions {} to {last}", range.start)),
        }
    }
    if !report.superseded.is_empty() {
        text.push_str("\nlost, and written again or deleted since: only history lacks these changes\n");
    }
    for (revision, key) in &report.superseded {
        let _ = writeln!(text, "  {key}: revision {revision}");
    }
    if !report.without_value.is_empty() {
        text.push_str("\nobjects whose contents are lost: they are served as damaged until they are written again or deleted\n");
    }
    for corrupt in &report.without_value {
        let _ = writeln!(text, "  {}: revision {}", corrupt.key, corrupt.revision);
    }
    let whole = report.entries - report.without_value.len() as u64;
    let _ = writeln!(
        text,
        "\n{} objects {saved}; the store goes on at revision {}, and history starts there",
        thousands(whole),
        report.revision
    );
    if let Outcome::Saved(_, aside) = outcome {
        let _ = writeln!(text, "the damaged store is kept in {}", aside.display());
    }
    text
}

fn json(store: &Path, outcome: &Outcome) -> String {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let mut document = Map::new();
    document.insert("subject", store.display().to_string());
    let report = match outcome {
        Outcome::Sound => {
            document.insert("damaged", false);
            return json_text(document);
        }
        Outcome::Examined(report) | Outcome::Saved(report, _) => report,
    };
    document.insert("damaged", true);
    let damaged = report.damaged.iter().map(|damaged| {
        let mut map = Map::new();
        map.insert("journal", damaged.path.display().to_string());
        map.insert("from", number(damaged.bytes.start as u64));
        map.insert("to", number(damaged.bytes.end as u64));
        map.insert("rows", number(damaged.rows as u64));
        Value::from(map)
    });
    document.insert("journals", damaged.collect::<Vec<Value>>());
    let lost = report.lost.iter().map(|range| {
        let mut map = Map::new();
        map.insert("first", number(range.start.0));
        map.insert("last", number(range.end.0.saturating_sub(1)));
        Value::from(map)
    });
    document.insert("lostRevisions", lost.collect::<Vec<Value>>());
    let of_key = |key: &store::Key, revision: store::Revision| {
        let mut map = Map::new();
        map.insert("key", key.to_string());
        map.insert("revision", number(revision.0));
        Value::from(map)
    };
    let superseded = report.superseded.iter().map(|(revision, key)| of_key(key, *revision));
    document.insert("superseded", superseded.collect::<Vec<Value>>());
    let without_value = report.without_value.iter().map(|corrupt| of_key(&corrupt.key, corrupt.revision));
    document.insert("withoutValue", without_value.collect::<Vec<Value>>());
    document.insert("objects", number(report.entries - report.without_value.len() as u64));
    document.insert("revision", number(report.revision.0));
    if let Outcome::Saved(_, aside) = outcome {
        document.insert("saved", aside.display().to_string());
    }
    json_text(document)
}

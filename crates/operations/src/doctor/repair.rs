//! Repairs: only what was asked for, only if it is as it was found, and what is removed or changed is saved
//! first.

use std::fs;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use object::{Map, Value};
use schema::{Shape, json};
use store::{Change, Entry, Key, Store, Unreadable, backup};
use tokio::runtime::Handle;

use super::findings::{EntryId, Outcome, Report};
use super::objects::{self, Address, Object};
use super::problems::Repair;
use super::subject::{Coding, Subject};
use crate::Error;
use crate::OperationOptions;
use controllers::event_expiry;

/// What is to be repaired.
pub(super) struct Orders<'a> {
    /// `--repair-all`.
    pub(super) all: bool,
    /// `--repair`.
    pub(super) keys: &'a [String],
}

impl Orders<'_> {
    pub(super) fn is_empty(&self) -> bool {
        !self.all && self.keys.is_empty()
    }

    fn wants(&self, key: &str, repair: Repair) -> bool {
        self.keys.iter().any(|wanted| wanted == key) || self.all && repair != Repair::RemoveIfNamed
    }
}

/// The repair of one entry.
struct Job {
    key: String,
    id: EntryId,
    repair: Repair,
    problem: &'static str,
}

/// What is stored of an entry, or why it cannot be had.
type Before = Result<Entry, Unreadable>;

/// Repairs what was ordered, and notes in the report what became of it. What was there is saved in a new
/// file. Blocking.
pub(super) fn run(
    subject: &Subject,
    orders: &Orders<'_>,
    report: &mut Report,
    save_to: &Path,
    options: &OperationOptions,
) -> Result<(), Error> {
    for key in orders.keys {
        let mut found = report.findings.iter().filter(|finding| finding.key == *key);
        let why = match found.clone().count() {
            0 => "nothing is wrong with it",
            _ if found.all(|finding| finding.problem.repair.is_none()) => {
                "there is no repair for what is wrong with it"
            }
            _ => continue,
        };
        report.not_repaired.push((key.clone(), why));
    }
    let mut work = Vec::new();
    for job in jobs(report, orders) {
        let store = subject.writable(job.id.store).map_err(Error::NotRepairable)?;
        let before = current(&*store, &job);
        work.push((job, store, before));
    }
    let mut saved = String::new();
    for (job, _, before) in &work {
        if let (Ok(before), true) = (before, job.repair != Repair::WriteAgain) {
            saved.push_str(&row(job, before));
        }
    }
    if !saved.is_empty() {
        save(save_to, &saved)?;
        report.saved = Some(save_to.display().to_string());
    }
    for (job, store, before) in work {
        let outcome = before.and_then(|before| repair(&subject.coding, &*store, &job, before, options));
        let is_of_job = |key: &str, id: Option<EntryId>| key == job.key && id == Some(job.id);
        for finding in report.findings.iter_mut().filter(|finding| is_of_job(&finding.key, finding.entry)) {
            // A removal ends all findings about an entry; another repair ends those that it was made for.
            let is_over = match (job.repair, finding.problem.repair) {
                (Repair::Remove | Repair::RemoveIfNamed, _) => true,
                (Repair::AddStorageVersion, Some(Repair::WriteAgain)) => true,
                (own, other) => other == Some(own),
            };
            if is_over {
                finding.outcome = match &outcome {
                    Ok(what) => Outcome::Done(what),
                    Err(why) => Outcome::Failed(why.clone()),
                };
            }
        }
    }
    Ok(())
}

/// One job for each entry: the repair that does most.
fn jobs(report: &Report, orders: &Orders<'_>) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    let rank = |repair: Repair| match repair {
        Repair::Remove | Repair::RemoveIfNamed => 2,
        Repair::AddStorageVersion => 1,
        Repair::WriteAgain => 0,
    };
    for finding in &report.findings {
        let (Some(repair), Some(id)) = (finding.problem.repair, finding.entry) else { continue };
        if !orders.wants(&finding.key, repair) {
            continue;
        }
        let known = jobs.iter_mut().rev().find(|job| job.key == finding.key && job.id == id);
        match known {
            Some(job) if rank(repair) <= rank(job.repair) => {}
            Some(job) => (job.repair, job.problem) = (repair, finding.problem.name),
            None => jobs.push(Job { key: finding.key.clone(), id, repair, problem: finding.problem.name }),
        }
    }
    jobs
}

/// What is stored now, if it is still what was found.
fn current(store: &dyn Store, job: &Job) -> Result<Before, String> {
    let key = Key::try_from(job.key.as_str()).map_err(|error| error.to_string())?;
    let (before, revision) = match store.get(&key) {
        Ok(Some(entry)) => {
            let revision = entry.head.mod_revision;
            (Ok(entry), revision)
        }
        Ok(None) => return Err("it is not there any more".into()),
        Err(store::Error::Corrupt(corrupt)) => {
            let revision = corrupt.revision;
            (Err(corrupt.into()), revision)
        }
        Err(error) => return Err(error.to_string()),
    };
    match revision == job.id.revision {
        true => Ok(before),
        false => Err("it has changed meanwhile".into()),
    }
}

/// A line of the file with what was stored.
fn row(job: &Job, before: &Before) -> String {
    let mut map = Map::new();
    map.insert("key", job.key.as_str());
    map.insert("revision", i64::try_from(job.id.revision.0).unwrap_or(i64::MAX));
    map.insert("problem", job.problem);
    match before {
        Ok(entry) => map.insert("value", STANDARD.encode(&entry.value)),
        Err(unreadable) => map.insert("damage", unreadable.reason()),
    };
    let mut out = Vec::new();
    json::encode_shape(&Shape::Any, &Value::from(map), &mut out);
    out.push(b'\n');
    String::from_utf8_lossy(&out).into_owned()
}

/// Writes a new file for its owner alone, and waits until it is on the disk.
fn save(path: &Path, text: &str) -> Result<(), Error> {
    let failed = |cause: io::Error| Error::Save { path: path.to_owned(), cause };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut written = Ok(());
    let created = backup::create_with(path, |file| {
        written = file.write_all(text.as_bytes());
        Ok(backup::Report::default())
    });
    written.map_err(failed)?;
    created.map(drop).map_err(Error::Store)
}

fn repair(
    coding: &Coding,
    store: &dyn Store,
    job: &Job,
    before: Before,
    options: &OperationOptions,
) -> Result<&'static str, String> {
    let stored_key = Key::try_from(job.key.as_str()).map_err(|error| error.to_string())?;
    let (change, done) = match job.repair {
        Repair::Remove | Repair::RemoveIfNamed => (Change::delete(stored_key), "removed"),
        Repair::AddStorageVersion | Repair::WriteAgain => {
            let entry = before.map_err(|unreadable| unreadable.reason().to_owned())?;
            let key = coding.key(&stored_key).ok_or("its key is of other software")?;
            let done = if job.repair == Repair::WriteAgain {
                "written again"
            } else {
                "the storage version is noted"
            };
            let value = rewritten(coding, &key, &entry, job.repair)?;
            let change = Change::put(stored_key, value);
            let is_event = key
                .as_bytes()
                .strip_prefix(event_expiry::EVENTS.as_bytes())
                .is_some_and(|rest| rest.starts_with(b"/"));
            match is_event && store.expires() && !options.storage.event_ttl.is_zero() {
                true => (change.expire_after(options.storage.event_ttl), done),
                false => (change, done),
            }
        }
    };
    let committed = Handle::current().block_on(store.commit(change.expect_revision(job.id.revision)));
    committed.map(|_| done).map_err(|error| error.to_string())
}

/// The value that an entry gets.
fn rewritten(coding: &Coding, key: &Key, entry: &Entry, repair: Repair) -> Result<Bytes, String> {
    let shown = key.to_string();
    let address = Address::read(&shown).map_err(|fault| fault.says)?;
    let text = if repair == Repair::AddStorageVersion {
        let mut map = Object::read(&address, coding, key, entry).map_err(|fault| fault.says)?.map;
        kinds::note_stored_version(&mut map);
        address.encode(map)?
    } else {
        let opened = coding.open(&address, key, entry).map_err(|fault| fault.says)?;
        objects::text_of(&opened.framed).map_err(|fault| fault.says)?
    };
    coding.seal(key, cache::frame::of(&text)?)
}

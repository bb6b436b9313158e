//! `keelson doctor`: what is wrong with which object, and repairs where they are asked for.
//!
//! | module | its job |
//! |---|---|
//! | `problems` | everything that can be wrong, as a table |
//! | `subject` | the entries as they lie in their stores, and their layouts |
//! | `objects` | what can be wrong with one object |
//! | `relations` | what can be wrong between objects |
//! | `directory` | what can be wrong with the files beside the store |
//! | `findings` | what was found, as text and as JSON |
//! | `repair` | what is done about it |
//! | `salvage` | a store that cannot be opened: what is saved of it, and what is lost |

mod directory;
mod findings;
mod objects;
mod problems;
mod relations;
mod repair;
mod salvage;
mod subject;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use findings::{EntryId, Finding, Outcome, Report};
use kinds::ObjectOptions;
use object::time::Time;
use objects::{Address, Checks, Object};
use relations::Relations;
use repair::Orders;
use store::{Damage, Entry, Key, Unreadable, embedded};
use subject::{Coding, Fault, Subject};

use super::{Arguments, Command, Error, Own, Progress};
use crate::OperationOptions;
use storage::Backend;
use storage::DataDir;

pub(super) const COMMAND: Command = Command {
    name: "doctor",
    help: HELP,
    own: &[
        Own::OptionalFile,
        Own::Value(REPAIR),
        Own::Switch(REPAIR_ALL),
        Own::Switch(SALVAGE),
        Own::Switch(DRY_RUN),
        Own::Value(SAVE),
        Own::Value(OUTPUT),
    ],
    run,
};

const REPAIR: &str = "repair";
const REPAIR_ALL: &str = "repair-all";
const SALVAGE: &str = "salvage";
const DRY_RUN: &str = "dry-run";
const SAVE: &str = "save";
const OUTPUT: &str = "output";

const HELP: &str = "\
keelson doctor [FILE] [--repair KEY]... [--repair-all] [--save DIR] [--output json] [flags of the server]
keelson doctor --salvage [--dry-run] [--save DIR] [--output json] [flags of the server]

Reads every object of a data directory, of an etcd, or of the backup FILE, and says what is wrong with which one, and what to
do. A server that uses the data directory goes on meanwhile. Nothing is changed unless a repair is asked for. Values
are never shown.

  --data-dir DIR         the data directory of the server (./keelson-data)
  --etcd-servers URLS    the etcd of the servers instead, with --etcd-prefix, --etcd-cafile, ... as for a server
  --encryption-provider-config FILE
                         the keys of encrypted values
  --repair KEY           repairs what is wrong with this key, if there is a repair; may be given several times
  --repair-all           the same for all keys, but removes nothing that another key or version could read
  --salvage              of a data directory that no server can start with, because its journal is damaged: saves all that can be
                         read, keeps the damaged store, and says what is lost
  --dry-run              with --salvage: only says what would be saved and what is lost
  --save DIR             where what is removed or changed is saved before (beside the data directory)
  --output json          one JSON document instead of text

Repairs need a data directory that no server uses, or an etcd. Exit codes: 0 if there are no errors (there may be warnings),
1 if there are, 2 if nothing could be examined.
";

fn run(arguments: &Arguments, options: &OperationOptions) -> Result<String, Error> {
    let as_json = match arguments.value(OUTPUT) {
        None | Some("text") => false,
        Some("json") => true,
        Some(_) => {
            return Err(Error::Usage { command: COMMAND.name, why: format!("--{OUTPUT} is json or text") });
        }
    };
    let orders = Orders { all: arguments.has(REPAIR_ALL), keys: arguments.all(REPAIR) };
    let now = Time::now();
    let mut report = Report::default();
    let file = arguments.optional_file();
    if arguments.has(SALVAGE) {
        if file.is_some() || !orders.is_empty() || options.storage.backend != Backend::Embedded {
            let why = format!("--{SALVAGE} is for a data directory, and stands alone");
            return Err(Error::Usage { command: COMMAND.name, why });
        }
        let aside = save_to(arguments.value(SAVE), options, now, "damaged", "");
        let salvaged = salvage::run(&options.storage.data_dir, (!arguments.has(DRY_RUN)).then_some(aside))?;
        let text = if as_json { salvaged.json() } else { salvaged.text() };
        return if salvaged.is_damaged() { Err(Error::Findings(text)) } else { Ok(text) };
    }
    if arguments.has(DRY_RUN) {
        let why = format!("--{DRY_RUN} is for --{SALVAGE}: without a repair, nothing is changed");
        return Err(Error::Usage { command: COMMAND.name, why });
    }
    let data_dir = DataDir::at(&options.storage.data_dir)?;
    if file.is_none() {
        report.findings = directory::check(&data_dir, options, now);
    }
    match examine(file.clone(), options, &orders, now, &mut report) {
        Ok(subject) => {
            if !orders.is_empty() {
                let save_to = save_to(arguments.value(SAVE), options, now, "repaired", ".jsonl");
                repair::run(&subject, &orders, &mut report, &save_to, options)?;
            }
            subject.close();
        }
        Err(Error::Store(error)) if is_finding(&error, &data_dir) => {
            let path = file.unwrap_or_else(|| data_dir.store());
            report.subject = path.display().to_string();
            report.findings.push(directory::finding(&problems::STORE_UNUSABLE, &path, error.to_string()));
        }
        Err(error) => return Err(error),
    }
    report.sort();
    let text = if as_json { report.json() } else { report.text() };
    if report.is_good() { Ok(text) } else { Err(Error::Findings(text)) }
}

/// Looks at everything.
fn examine(
    file: Option<PathBuf>,
    options: &OperationOptions,
    orders: &Orders<'_>,
    now: Time,
    report: &mut Report,
) -> Result<Subject, Error> {
    let mut subject = Subject::open(file, options)?;
    if !orders.is_empty() {
        subject.writable(0).map_err(Error::NotRepairable)?;
    }
    let mut examination = Examination::new(now, options.objects);
    let mut progress = Progress::new("examining", None);
    report.revision = subject.visit(&mut |coding, store, entry| {
        progress.step(entry.as_ref().map_or(0, |entry| entry.value.len()));
        examination.add(coding, store, entry);
    })?;
    report.subject = format!("{}: {}; revision {}", subject.name, progress.summary(), report.revision);
    (report.objects, report.others) = (examination.objects, examination.others);
    report.findings.extend(examination.findings());
    Ok(subject)
}

/// Whether an error is about what is stored, and not about the look at it.
fn is_finding(error: &store::Error, data_dir: &DataDir) -> bool {
    match error {
        store::Error::Unusable { damage: Damage::Absent, .. } => data_dir.has_lost_store(),
        store::Error::Unusable { .. }
        | store::Error::NewerFormat { .. }
        | store::Error::OlderFormat { .. } => true,
        _ => false,
    }
}

/// The new file or directory for what is removed or changed.
fn save_to(
    directory: Option<&str>,
    options: &OperationOptions,
    now: Time,
    what: &str,
    ending: &str,
) -> PathBuf {
    let name = options
        .storage
        .data_dir
        .file_name()
        .map(|name| name.to_string_lossy())
        .unwrap_or("keelson-data".into());
    let name = format!("{name}.{what}-{}{ending}", now.to_string().replace([':', '-'], ""));
    match directory {
        Some(directory) => Path::new(directory).join(name),
        None => options.storage.data_dir.with_file_name(name),
    }
}

/// A look at all entries.
struct Examination {
    checks: Checks,
    relations: Relations,
    findings: Vec<Finding>,
    objects: u64,
    others: u64,
}

impl Examination {
    fn new(now: Time, objects: ObjectOptions) -> Self {
        let value_limit = embedded::EmbeddedOptions::default().value_limit;
        Self {
            checks: Checks { now, value_limit, objects },
            relations: Relations::default(),
            findings: Vec::new(),
            objects: 0,
            others: 0,
        }
    }

    /// Looks at an entry, as it lies in the store of this number.
    fn add(&mut self, coding: &Coding, store: usize, entry: Result<Entry, Unreadable>) {
        let (stored_key, revision) = match &entry {
            Ok(entry) => (entry.key.clone(), entry.head.mod_revision),
            Err(unreadable) => (unreadable.key().clone(), unreadable.revision()),
        };
        let Some(key) = coding.key(&stored_key) else {
            self.others += 1;
            return;
        };
        self.objects += 1;
        let (shown, id) = (stored_key.to_string(), EntryId { store, revision });
        for Fault { problem, says } in self.check(coding, &key, &shown, id, entry) {
            let outcome = Outcome::NotAsked;
            self.findings.push(Finding { problem, key: shown.clone(), says, entry: Some(id), outcome });
        }
    }

    fn check(
        &mut self,
        coding: &Coding,
        key: &Key,
        shown: &str,
        id: EntryId,
        entry: Result<Entry, Unreadable>,
    ) -> Vec<Fault> {
        let key_text = key.to_string();
        let address = match Address::read(&key_text) {
            Ok(address) => address,
            Err(fault) => return vec![fault],
        };
        let read = match entry {
            Ok(entry) => Object::read(&address, coding, key, &entry),
            Err(Unreadable::Corrupt(corrupt)) => Err(Fault::new(&problems::DAMAGED, corrupt.reason.as_str())),
            Err(Unreadable::Unavailable(unavailable)) => {
                Err(Fault::new(&problems::UNDECRYPTABLE, unavailable.reason.as_str()))
            }
        };
        self.relations.add(shown, id, &address, read.as_ref().ok());
        match read {
            Ok(object) => object.check(&address, &self.checks),
            Err(fault) => vec![fault],
        }
    }

    fn findings(self) -> Vec<Finding> {
        let mut findings = self.findings;
        findings.extend(self.relations.check());
        findings
    }
}

//! Stores whose journal is damaged in a place where the engine would drop what follows: what is whole is
//! saved, and what is not is named.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "test code")]

use bytes::Bytes;
use fastrand::Rng;
use std::{
    collections::BTreeMap,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use store::{
    Change, Damage, Error, Revision, Store,
    contract::key,
    embedded::{Embedded, EmbeddedOptions, Salvage, SalvageReport},
};
use tempfile::TempDir;

/// What was committed: of each key, every change, with the value unless it is a delete.
#[derive(Default)]
struct Written {
    changes: BTreeMap<String, BTreeMap<Revision, Option<Bytes>>>,
    newest: Revision,
}

impl Written {
    async fn put(&mut self, store: &Arc<dyn Store>, name: &str, value: Bytes) {
        let committed = store.commit(Change::put(key(name), value.clone())).await.unwrap();
        self.note(name, committed.revision, Some(value));
    }

    async fn delete(&mut self, store: &Arc<dyn Store>, name: &str) {
        let committed = store.commit(Change::delete(key(name))).await.unwrap();
        self.note(name, committed.revision, None);
    }

    fn note(&mut self, name: &str, revision: Revision, value: Option<Bytes>) {
        self.changes.entry(name.to_owned()).or_default().insert(revision, value);
        self.newest = revision;
    }

    fn is_live(&self, name: &str) -> bool {
        self.changes.get(name).and_then(|changes| changes.values().last()).is_some_and(Option::is_some)
    }

    /// Judges a store that was salvaged: each key is as its newest change made it of which something was
    /// left, and nothing is lost that the report does not name.
    fn judge(&self, store: &Arc<dyn Store>, report: &SalvageReport) {
        let is_lost = |revision: &Revision| {
            report.lost.iter().any(|range| range.contains(revision))
                || report.superseded.iter().any(|(superseded, _)| superseded == revision)
        };
        let mut found: BTreeMap<String, Option<Bytes>> = BTreeMap::new();
        store
            .load(b"", None, &mut |entry| {
                match entry {
                    Ok(entry) => found.insert(entry.key.to_string(), Some(entry.value)),
                    Err(corrupt) => found.insert(corrupt.key().to_string(), None),
                };
                ControlFlow::Continue(())
            })
            .unwrap();
        for (name, changes) in &self.changes {
            let left = changes.iter().rfind(|(revision, _)| !is_lost(revision));
            let without_value = report.without_value.iter().any(|corrupt| corrupt.key.to_string() == *name);
            match (left, found.remove(name)) {
                (None | Some((_, None)), None) => {}
                (Some((_, Some(value))), Some(Some(served))) => {
                    assert!(*value == served, "{name} is served wrong")
                }
                (Some((_, Some(_))), Some(None)) => assert!(without_value, "{name} is not named"),
                // A version that history no longer had.
                (Some((revision, Some(_))), None)
                    if changes.range(*revision..).any(|(later, _)| is_lost(later)) => {}
                (left, served) => panic!("{name}: {left:?}, but {served:?}"),
            }
        }
        assert!(found.is_empty(), "{found:?}");
    }
}

fn open(path: &Path, options: EmbeddedOptions) -> Result<Arc<dyn Store>, Error> {
    Ok(Arc::new(Embedded::open(path, options)?))
}

fn value(name: &str, turn: usize, size: usize) -> Bytes {
    format!("{name}/{turn}|").bytes().cycle().take(size).collect()
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The names and contents of all files.
fn contents(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    all
}

/// The journal of a store, and its bytes up to the last one that is used.
fn journal(path: &Path) -> (PathBuf, Vec<u8>) {
    let all = contents(&path.join("db"));
    let (path, mut bytes) =
        all.into_iter().rfind(|(path, _)| path.extension().is_some_and(|e| e == "jnl")).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(used);
    (path, bytes)
}

fn place(bytes: &[u8], text: &[u8]) -> usize {
    bytes.windows(text.len()).position(|window| window == text).unwrap()
}

/// Thirty puts, each in a record of its own.
async fn thirty() -> (TempDir, PathBuf, Written) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let store = open(&path, EmbeddedOptions::default()).unwrap();
    let mut written = Written::default();
    for n in 0..30 {
        let name = format!("k/{n:02}");
        written.put(&store, &name, value(&name, 0, 3000)).await;
    }
    store.close();
    (directory, path, written)
}

fn lost(acknowledged: u64, found: u64) -> Damage {
    Damage::Lost { acknowledged: Revision(acknowledged), found: Revision(found) }
}

#[tokio::test]
async fn everything_but_what_was_hit_is_saved() {
    let (directory, path, mut written) = thirty().await;
    let (file, mut bytes) = journal(&path);
    // The eleventh change, from the middle of its value to the end of its record.
    let (from, to) = (place(&bytes, &value("k/10", 0, 100)), place(&bytes, &value("k/11", 0, 100)));
    bytes[from + 1000..to - 66].fill(0xa5);
    fs::write(&file, bytes).unwrap();
    let before = contents(&path);
    let Err(Error::Unusable { damage, path: said }) = open(&path, EmbeddedOptions::default()) else {
        panic!("it is damaged")
    };
    assert_eq!((damage.clone(), said), (lost(30, 10), path.clone()));
    assert!(damage.to_string().contains("keelson doctor --salvage"), "{damage}");
    assert_eq!(contents(&path), before, "the engine has cut nothing off");

    let salvage = Salvage::read(&path).unwrap().unwrap();
    let report = salvage.report().clone();
    assert!(matches!(Salvage::read(&path), Err(Error::Locked { .. })), "one at a time");
    drop(salvage);
    assert_eq!(contents(&path), before, "nothing is changed before the salvage is written");
    assert_eq!((report.entries, report.acknowledged), (29, Some(Revision(30))));
    assert_eq!(report.lost, [Revision(11)..Revision(12)]);
    assert_eq!((report.superseded.len(), report.without_value.len()), (0, 0));
    assert_eq!((report.damaged.len(), &report.damaged[0].path), (1, &file));
    assert!(report.damaged[0].bytes.contains(&(from + 1000)), "{:?}", report.damaged);

    let aside = directory.path().join("aside");
    assert_eq!(Salvage::read(&path).unwrap().unwrap().write(&aside).unwrap(), report);
    assert_eq!(fs::read(aside.join("db").join(file.file_name().unwrap())).unwrap(), before[&file]);
    assert!(Salvage::read(&aside).unwrap().is_some(), "what is kept can be salvaged again");
    assert!(Salvage::read(&path).unwrap().is_none());
    let store = open(&path, EmbeddedOptions::default()).unwrap();
    written.judge(&store, &report);
    assert_eq!((store.known_revision(), store.compacted()), (report.revision, report.revision));
    assert!(report.revision > Revision(30));
    written.put(&store, "k/10", value("k/10", 1, 10)).await;
    assert_eq!(written.newest, report.revision.next(), "no revision is given out twice");
    written.judge(&store, &report);
    store.close();
    written.judge(&open(&path, EmbeddedOptions::default()).unwrap(), &report);
}

#[tokio::test]
async fn rows_inside_of_a_damaged_record_are_saved() {
    let (directory, path, written) = thirty().await;
    let (file, mut bytes) = journal(&path);
    let at = place(&bytes, &value("k/10", 0, 100));
    // The mark of the record, before the head and the key of its first item.
    let mark = bytes[..at].windows(2).rposition(|window| window == [1, 2]).unwrap();
    bytes[mark] = 9;
    fs::write(&file, &bytes).unwrap();
    assert!(matches!(open(&path, EmbeddedOptions::default()), Err(Error::Unusable { .. })));
    let report = Salvage::read(&path).unwrap().unwrap().write(&directory.path().join("aside")).unwrap();
    assert_eq!((report.entries, report.lost_revisions(), report.damaged[0].rows), (30, 0, 2));
    written.judge(&open(&path, EmbeddedOptions::default()).unwrap(), &report);

    // Only the row of the log is left of a change.
    let (directory, path, written) = thirty().await;
    let (file, mut bytes) = journal(&path);
    let at = place(&bytes, &value("k/10", 0, 100));
    bytes[at - 40..at + 2000].fill(0xa5);
    fs::write(&file, &bytes).unwrap();
    let report = Salvage::read(&path).unwrap().unwrap().write(&directory.path().join("aside")).unwrap();
    assert_eq!((report.entries, report.lost_revisions(), report.damaged[0].rows), (30, 0, 1));
    let named: Vec<_> = report.without_value.iter().map(|one| (one.key.to_string(), one.revision)).collect();
    assert_eq!(named, [("k/10".to_owned(), Revision(11))]);
    let store = open(&path, EmbeddedOptions::default()).unwrap();
    written.judge(&store, &report);
    assert!(matches!(store.get(&key("k/10")), Err(Error::Corrupt(_))));
}

#[tokio::test]
async fn cut_and_missing_journals_cost_what_they_held() {
    let (directory, path, written) = thirty().await;
    let (file, bytes) = journal(&path);
    let cut = directory.path().join("cut");
    copy_tree(&path, &cut);
    fs::write(cut.join("db").join(file.file_name().unwrap()), &bytes[..bytes.len() / 2]).unwrap();
    assert!(matches!(open(&cut, EmbeddedOptions::default()), Err(Error::Unusable { .. })));
    let report = Salvage::read(&cut).unwrap().unwrap().write(&directory.path().join("aside")).unwrap();
    assert_eq!(report.lost.last().unwrap().end, Revision(31));
    assert_eq!(report.entries + report.lost_revisions(), 30);
    written.judge(&open(&cut, EmbeddedOptions::default()).unwrap(), &report);

    fs::remove_file(&file).unwrap();
    let report = Salvage::read(&path).unwrap().unwrap().write(&directory.path().join("aside-too")).unwrap();
    assert!(report.is_journal_missing);
    assert_eq!((report.entries, report.lost), (0, vec![Revision(1)..Revision(31)]));
    assert!(open(&path, EmbeddedOptions::default()).is_ok());
}

#[tokio::test]
async fn a_sound_store_is_left_alone() {
    let (directory, path, _) = thirty().await;
    let (file, mut bytes) = journal(&path);
    let before = contents(&path);
    assert!(Salvage::read(&path).unwrap().is_none());
    assert_eq!(contents(&path), before);
    // A record that was being written when the process ended.
    bytes.extend_from_within(..2000);
    fs::write(&file, bytes).unwrap();
    assert!(Salvage::read(&path).unwrap().is_none());
    let absent = directory.path().join("absent");
    let refused = Salvage::read(&absent).err();
    assert!(matches!(refused, Some(Error::Unusable { damage: Damage::Absent, .. })), "{refused:?}");
    assert!(!absent.exists());
}

/// Puts, updates and deletes, while history expires and is swept, and tables are written.
async fn busy(store: &Arc<dyn Store>, written: &mut Written, rng: &mut Rng, changes: usize) {
    for turn in 0..changes {
        let name = format!("k/{:02}", rng.u32(..40));
        if written.is_live(&name) && rng.u8(..3) == 0 {
            written.delete(store, &name).await;
        } else {
            let size = if rng.bool() { 200 } else { rng.usize(600..6000) };
            written.put(store, &name, value(&name, turn, size)).await;
        }
        if turn % 100 == 99 {
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
    }
}

async fn spoil(rounds: u32, seed: u64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let options = || EmbeddedOptions { retention: Duration::from_millis(50), ..EmbeddedOptions::default() };
    let mut rng = Rng::with_seed(seed);
    let mut written = Written::default();
    let store = open(&path, options()).unwrap();
    busy(&store, &mut written, &mut rng, 600).await;
    store.close();
    for round in 0..rounds {
        let (spoiled, aside) = (directory.path().join("spoiled"), directory.path().join("aside"));
        copy_tree(&path, &spoiled);
        let (file, mut bytes) = journal(&spoiled);
        let from = rng.usize(..bytes.len());
        let to = bytes.len().min(from + [1, 16, 4096, 20_000][rng.usize(..4)]);
        bytes[from..to].iter_mut().for_each(|byte| *byte ^= 0x5a);
        fs::write(&file, &bytes).unwrap();
        println!("seed {seed}, round {round}: bytes {from} to {to} of {}", bytes.len());
        let salvage = Salvage::read(&spoiled).unwrap();
        let report = salvage.map(|salvage| salvage.write(&aside).unwrap()).unwrap_or_default();
        println!("  {} lost, {} superseded", report.lost_revisions(), report.superseded.len());
        let store = open(&spoiled, options()).unwrap();
        written.judge(&store, &report);
        store.commit(Change::put(key("new"), "v")).await.unwrap();
        assert!(store.known_revision() > written.newest, "no revision is given out twice");
        store.close();
        fs::remove_dir_all(&spoiled).unwrap();
        fs::remove_dir_all(&aside).ok();
    }
}

#[tokio::test]
async fn random_damage_costs_only_what_is_named() {
    spoil(15, 1).await;
}

#[tokio::test]
async fn slow_random_damage_costs_only_what_is_named() {
    for seed in 2..6 {
        spoil(20, seed).await;
    }
}

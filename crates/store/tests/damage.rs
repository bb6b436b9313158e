//! Torn, truncated and bit-flipped files: detected, reported with the key, never served, never more than was
//! hit.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "test code")]

use bytes::Bytes;
use fastrand::Rng;
use std::{
    collections::BTreeMap,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use store::{
    Change, Damage, Error, Follow, Revision, Store, backup,
    contract::{commit_all, key, load, next},
    embedded::{Embedded, EmbeddedOptions},
};
use tempfile::TempDir;

fn open(path: &Path) -> Result<Arc<dyn Store>, Error> {
    Ok(Arc::new(Embedded::open(path, EmbeddedOptions::default())?))
}

fn value(name: &str, size: usize) -> Bytes {
    name.bytes().chain(*b"|").cycle().take(size).collect()
}

/// What a sound store would answer.
struct Written {
    directory: TempDir,
    entries: BTreeMap<String, Bytes>,
}

impl Written {
    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// A store with this many entries of this size, closed again.
    async fn new(count: usize, size: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory.path().join("data")).unwrap();
        let mut entries = BTreeMap::new();
        let changes = (0..count).map(|n| {
            let name = format!("pods/default/web-{n:05}");
            let value = value(&name, size);
            entries.insert(name.clone(), value.clone());
            Change::put(key(&name), value)
        });
        commit_all(&store, changes).await;
        store.close();
        Self { directory, entries }
    }

    /// A copy to spoil.
    fn copy(&self, name: &str) -> PathBuf {
        let copy = self.directory.path().join(name);
        copy_tree(&self.data(), &copy);
        copy
    }

    /// Judges a store whose files were spoiled: whatever it serves is right, and whatever it does not serve
    /// it reports.
    async fn judge(&self, path: &Path) -> Verdict {
        let store = match open(path) {
            Ok(store) => store,
            Err(Error::Unusable { .. } | Error::NewerFormat { .. } | Error::Io { .. }) => {
                return Verdict::Refused;
            }
            Err(error) => panic!("unexpected: {error}"),
        };
        let mut missing: BTreeMap<&str, &Bytes> = self.entries.iter().map(|(k, v)| (k.as_str(), v)).collect();
        let mut corrupt = Vec::new();
        let mut last = String::new();
        store
            .load(b"", None, &mut |entry| {
                let (name, served) = match entry {
                    Ok(entry) => (entry.key.to_string(), Some(entry.value)),
                    Err(damaged) => {
                        corrupt.push(damaged.clone());
                        (damaged.key().to_string(), None)
                    }
                };
                assert!(last < name, "{name} comes after {last}");
                let expected = missing.remove(name.as_str()).unwrap();
                assert!(served.is_none_or(|served| served == *expected), "{name} is served wrong");
                last = name;
                ControlFlow::Continue(())
            })
            .unwrap();
        assert!(missing.is_empty(), "{} entries are neither served nor reported", missing.len());
        for key in corrupt.iter().map(store::Unreadable::key) {
            assert!(matches!(store.get(key), Err(Error::Corrupt(corrupt)) if corrupt.key == *key));
        }
        self.judge_follower(&store).await;
        assert!(store.commit(Change::put(key("new"), "v")).await.is_ok());
        store.close();
        if corrupt.is_empty() { Verdict::Whole } else { Verdict::Corrupt(corrupt.len()) }
    }

    async fn judge_follower(&self, store: &Arc<dyn Store>) {
        let mut at = store.compacted();
        let mut follower = store.follow(Follow::after(at)).unwrap();
        while at < store.known_revision() {
            let batch = match next(&mut follower).await {
                Ok(batch) => batch,
                Err(Error::Unusable { .. }) => return,
                Err(error) => panic!("unexpected: {error}"),
            };
            for event in &batch.events {
                let name = event.key.to_string();
                assert!(
                    event.value.as_ref().is_ok_and(|v| *v == self.entries[&name]) || event.value.is_err()
                );
            }
            assert_eq!(batch.events.len() as u64, batch.revision.0 - at.0);
            at = batch.revision;
        }
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Whole,
    Corrupt(usize),
    Refused,
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

fn files(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// The place of a file's last byte that is not zero: journals are longer than what is in them.
fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

fn flip(path: &Path, place: usize, bit: u8) {
    let mut bytes = fs::read(path).unwrap();
    bytes[place] ^= 1 << bit;
    fs::write(path, bytes).unwrap();
}

/// The file under `path` that holds `text`, and where.
fn find(path: &Path, text: &[u8]) -> (PathBuf, usize) {
    for file in files(path) {
        let bytes = fs::read(&file).unwrap();
        if let Some(place) = bytes.windows(text.len()).position(|window| window == text) {
            return (file, place);
        }
    }
    panic!("the text is in no file")
}

#[tokio::test]
async fn a_flipped_bit_in_a_value_is_reported_with_its_key_and_nothing_else_is_hurt() {
    let written = Written::new(4000, 5000).await;
    let name = "pods/default/web-00007";
    let path = written.copy("spoiled");
    let (file, place) = find(&path.join("db/keyspaces"), &value(name, 200));
    flip(&file, place + 100, 3);

    let store = open(&path).unwrap();
    let Err(Error::Corrupt(corrupt)) = store.get(&key(name)) else { panic!("the value is damaged") };
    assert_eq!((corrupt.key.to_string(), corrupt.revision), (name.to_owned(), Revision(8)));
    assert!(corrupt.to_string().contains(name), "{corrupt}");
    let backup = written.directory.path().join("backup");
    let report = backup::create(&*store, &backup).unwrap();
    assert_eq!((report.entries, report.missing.len()), (3999, 1));
    let stale = Change::put(key(name), "v").expect_revision(Revision(1));
    let Err(Error::Conflict(conflict)) = store.commit(stale).await else { panic!("the revision differs") };
    assert!(matches!(conflict.found.unwrap().value, Some(Err(_))));
    let deleted = store.commit(Change::delete(key(name)).returning_value()).await.unwrap();
    assert!(matches!(deleted.previous.unwrap().value, Some(Err(_))));
    assert_eq!(store.get(&key(name)).unwrap(), None);
    store.close();
    assert_eq!(load(&open(&path).unwrap(), "", None).unwrap().entries.len(), 3999);
}

#[tokio::test]
async fn a_value_only_in_the_journal_is_protected_too() {
    let written = Written::new(50, 5000).await;
    let path = written.copy("spoiled");
    let (file, place) = find(&path, &value("pods/default/web-00007", 200));
    assert_eq!(file.extension().unwrap(), "jnl");
    flip(&file, place + 100, 3);
    assert_eq!(written.judge(&path).await, Verdict::Corrupt(1));
    let store = open(&path).unwrap();
    assert!(matches!(store.get(&key("pods/default/web-00007")), Err(Error::Corrupt(_))));
}

/// After a power failure the pages of the last write may have arrived out of order. It was not acknowledged.
#[tokio::test]
async fn a_last_write_with_a_hole_in_it_is_dropped() {
    let written = Written::new(50, 5000).await;
    let path = written.copy("hole");
    let watermark = fs::read(path.join("watermark")).unwrap();
    let store = open(&path).unwrap();
    store.commit(Change::put(key("last"), vec![b'#'; 20_000])).await.unwrap();
    store.close();
    let acknowledged = written.directory.path().join("acknowledged");
    let (journal, place) = find(&path, &[b'#'; 100]);
    let mut bytes = fs::read(&journal).unwrap();
    bytes[place + 4096..place + 8192].fill(0);
    fs::write(&journal, bytes).unwrap();
    copy_tree(&path, &acknowledged);
    let store = open(&acknowledged).unwrap();
    assert!(
        matches!(store.get(&key("last")), Err(Error::Corrupt(_))),
        "it was acknowledged, so it is missed"
    );
    assert_eq!(store.known_revision(), Revision(51));
    fs::write(path.join("watermark"), watermark).unwrap();
    assert_eq!(written.judge(&path).await, Verdict::Whole);
}

#[tokio::test]
async fn lost_changes_are_noticed() {
    let written = Written::new(50, 5000).await;
    let path = written.copy("without-journal");
    fs::remove_file(path.join("db/0.jnl")).unwrap();
    assert!(matches!(open(&path), Err(Error::Unusable { damage: Damage::Missing(_), .. })));

    let path = written.copy("emptied-journal");
    fs::write(path.join("db/0.jnl"), []).unwrap();
    let lost = Damage::Lost { acknowledged: Revision(50), found: Revision::ZERO };
    assert!(matches!(open(&path), Err(Error::Unusable { damage, .. }) if damage == lost));

    let path = written.copy("cut-journal");
    let journal = path.join("db/0.jnl");
    let bytes = fs::read(&journal).unwrap();
    fs::write(&journal, &bytes[..used(&bytes) / 2]).unwrap();
    assert!(matches!(open(&path), Err(Error::Unusable { damage: Damage::Lost { .. }, .. })));

    let path = written.copy("without-engine");
    fs::remove_dir_all(path.join("db")).unwrap();
    assert!(matches!(open(&path), Err(Error::Unusable { damage: Damage::Missing(_), .. })));
    assert!(!path.join("db").exists(), "nothing is made where something was");
}

#[tokio::test]
async fn an_unfinished_write_at_the_end_of_the_journal_is_dropped() {
    let written = Written::new(50, 5000).await;
    let path = written.copy("torn");
    let journal = path.join("db/0.jnl");
    let mut bytes = fs::read(&journal).unwrap();
    let end = used(&bytes);
    let piece = bytes[..end.min(3000)].to_vec();
    bytes.truncate(end);
    bytes.extend(piece);
    fs::write(&journal, bytes).unwrap();
    assert_eq!(written.judge(&path).await, Verdict::Whole);
}

/// Spoils one file after the other in random places, and judges what is left.
async fn spoil(written: &Written, rounds: u32, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mut verdicts: BTreeMap<Verdict, u32> = BTreeMap::new();
    for round in 0..rounds {
        let path = written.copy("spoiled");
        let candidates: Vec<PathBuf> =
            files(&path).into_iter().filter(|f| f.metadata().unwrap().len() > 0).collect();
        let file = rng.choice(&candidates).unwrap();
        let bytes = fs::read(file).unwrap();
        let place = rng.usize(..used(&bytes).max(1));
        let what = if rng.u8(..4) == 0 { "cut" } else { "flipped" };
        match what {
            "cut" => fs::write(file, &bytes[..place]).unwrap(),
            _ => flip(file, place, rng.u8(..8)),
        }
        let short = file.strip_prefix(&path).unwrap().display().to_string();
        println!("seed {seed}, round {round}: {short} {what} at {place} of {}", bytes.len());
        let verdict = written.judge(&path).await;
        *verdicts.entry(verdict).or_default() += 1;
        fs::remove_dir_all(&path).unwrap();
    }
    println!("{verdicts:?}");
}

#[tokio::test]
async fn random_damage_to_tables_is_never_served() {
    let written = Written::new(4000, 5000).await;
    spoil(&written, 12, 1).await;
}

#[tokio::test]
async fn random_damage_to_journals_is_never_served() {
    let written = Written::new(60, 700).await;
    spoil(&written, 25, 2).await;
}

#[tokio::test]
async fn slow_random_damage_is_never_served() {
    let written = Written::new(4000, 5000).await;
    spoil(&written, 100, 3).await;
    let written = Written::new(60, 700).await;
    spoil(&written, 150, 4).await;
}

/// Merging files reads every value in them. The damaged one must not stop the store for good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merging_files_with_a_damaged_value_ends_in_a_store_that_takes_writes() {
    let written = Written::new(4000, 5000).await;
    let name = "pods/default/web-00007";
    let path = written.copy("spoiled");
    let (file, place) = find(&path.join("db/keyspaces"), &value(name, 200));
    flip(&file, place + 100, 3);
    let store = open(&path).unwrap();
    let started = Instant::now();
    let mut refused = 0;
    while file.exists() && started.elapsed() < Duration::from_secs(40) {
        let changes = written.entries.iter().skip(8).take(1000);
        let commits: Vec<_> = changes.map(|(n, v)| store.commit(Change::put(key(n), v.clone()))).collect();
        let mut outcome = Ok(());
        for commit in commits {
            outcome = outcome.and(commit.await.map(drop));
        }
        match outcome {
            Ok(()) => store.compact(store.known_revision()).await.map_or_else(|_| refused += 1, |()| {}),
            Err(_) => {
                refused += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    println!("{refused} refused in {:?}", started.elapsed());
    assert!(!file.exists(), "the damaged file should have been merged away");
    while !store.health().is_good() && started.elapsed() < Duration::from_secs(60) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(store.commit(Change::put(key("new"), "v")).await.is_ok());
    assert!(matches!(store.get(&key(name)), Err(Error::Corrupt(_))));
    let mut corrupt = 0;
    let mut sound = 0;
    store
        .load(b"pods/", None, &mut |entry| {
            match entry {
                Ok(entry) => {
                    sound += 1;
                    assert_eq!(entry.value, written.entries[&entry.key.to_string()]);
                }
                Err(_) => corrupt += 1,
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((sound, corrupt), (3999, 1));
    store.commit(Change::put(key(name), written.entries[name].clone())).await.unwrap();
    store.close();
    assert_eq!(load(&open(&path).unwrap(), "pods/", None).unwrap().entries.len(), 4000);
}

//! Who may open a data directory, and which directories are refused.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "test code")]

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};
use store::{
    Change, Damage, Entry, Error, Head, Revision, Store, backup,
    contract::{commit_all, key, load, put, restore},
    embedded::{Embedded, EmbeddedOptions, Filling},
};

fn open(path: &Path) -> Result<Arc<dyn Store>, Error> {
    Ok(Arc::new(Embedded::open(path, EmbeddedOptions::default())?))
}

fn damage(outcome: Result<Arc<dyn Store>, Error>) -> Option<Damage> {
    match outcome {
        Err(Error::Unusable { damage, .. }) => Some(damage),
        _ => None,
    }
}

const OTHER_PROCESS: &str = "STORE_DIRECTORY_OF_OTHER_PROCESS";

/// The other process of the test below: it runs only when it is given a directory.
#[test]
fn other_process() {
    if let Ok(path) = std::env::var(OTHER_PROCESS) {
        let refused = matches!(open(Path::new(&path)), Err(Error::Locked { .. }));
        std::process::exit(if refused { 42 } else { 1 });
    }
}

#[tokio::test]
async fn a_second_process_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "other_process"])
        .env(OTHER_PROCESS, directory.path())
        .status();
    assert_eq!(status.unwrap().code(), Some(42));
    put(&store, "a", "v").await;
    store.close();
    assert_eq!(load(&open(directory.path()).unwrap(), "", None).unwrap().texts(), ["a=v"]);
}

#[test]
fn a_second_store_in_the_same_process_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let _store = open(directory.path()).unwrap();
    let error = open(directory.path()).err().unwrap();
    assert!(matches!(error, Error::Locked { .. }));
    assert!(error.to_string().contains("in use by another process"), "{error}");
}

#[test]
fn another_format_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    open(directory.path()).unwrap().close();
    fs::write(directory.path().join("format"), "keelson store 3\n").unwrap();
    let error = open(directory.path()).err().unwrap();
    assert!(matches!(error, Error::NewerFormat { found: 3, supported: 2, .. }));
    assert!(error.to_string().contains("start the newer version"), "{error}");
    fs::write(directory.path().join("format"), "keelson store 1\n").unwrap();
    let error = open(directory.path()).err().unwrap();
    assert!(matches!(error, Error::OlderFormat { found: 1, supported: 2, .. }));
}

#[test]
fn a_garbled_format_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    open(directory.path()).unwrap().close();
    for text in [&b"keelson stor"[..], b"", b"keelson store x\n", b"\xff\xfe"] {
        fs::write(directory.path().join("format"), text).unwrap();
        assert!(matches!(damage(open(directory.path())), Some(Damage::Engine(_))));
    }
}

#[test]
fn a_directory_with_other_files_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("thesis.txt");
    fs::write(&file, "years of work").unwrap();
    assert_eq!(damage(open(directory.path())), Some(Damage::NotAStore));
    assert_eq!(fs::read_to_string(&file).unwrap(), "years of work");
}

/// What a crash leaves while a store is made: the mark, and any part of the rest but the format.
#[test]
fn a_store_whose_making_was_interrupted_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    open(directory.path()).unwrap().close();
    assert!(!directory.path().join("creating").exists());
    fs::write(directory.path().join("creating"), "").unwrap();
    open(directory.path()).unwrap().close();
    assert!(!directory.path().join("creating").exists(), "with a format, the store is complete");
    fs::write(directory.path().join("creating"), "").unwrap();
    fs::remove_file(directory.path().join("format")).unwrap();
    fs::remove_dir_all(directory.path().join("db").join("keyspaces")).unwrap();
    assert_eq!(open(directory.path()).unwrap().known_revision(), Revision::ZERO);
}

#[tokio::test]
async fn a_store_without_its_format_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    put(&store, "a", "v").await;
    store.close();
    let format = directory.path().join("format");
    let kept = fs::read(&format).unwrap();
    fs::remove_file(&format).unwrap();
    let error = open(directory.path()).err().unwrap();
    let text = error.to_string();
    assert!(text.contains("\"format\" is missing"), "{text}");
    assert!(text.contains("restore a backup") && text.contains("move this one away"), "{text}");
    let mark = directory.path().join("creating");
    fs::write(&mark, "").unwrap();
    assert!(matches!(damage(open(directory.path())), Some(Damage::Missing(_))), "changes were acknowledged");
    fs::remove_file(&mark).unwrap();
    fs::write(&format, kept).unwrap();
    assert_eq!(load(&open(directory.path()).unwrap(), "", None).unwrap().texts(), ["a=v"]);
}

/// A store with tables, files of values, and changes that are only in the journal.
async fn full_store(path: &Path) -> Vec<Entry> {
    let store = open(path).unwrap();
    let large = (0..3600).map(|n| Change::put(key(&format!("large/{}", n % 30)), vec![n as u8; 5000]));
    commit_all(&store, large).await;
    put(&store, "small", "v").await;
    store.close();
    load(&open(path).unwrap(), "", None).unwrap().entries
}

/// The paths of everything in a directory.
fn parts(root: &Path, under: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(under).unwrap() {
        let path = entry.unwrap().path();
        found.push(path.strip_prefix(root).unwrap().to_owned());
        if path.is_dir() {
            parts(root, &path, found);
        }
    }
}

fn copy_tree(from: &Path, to: &Path, without: &[&PathBuf]) {
    fs::create_dir_all(to).unwrap();
    let mut paths = Vec::new();
    parts(from, from, &mut paths);
    for path in paths {
        if without.iter().any(|without| path.starts_with(without)) {
            continue;
        }
        let (from, to) = (from.join(&path), to.join(&path));
        if from.is_dir() { fs::create_dir_all(to).unwrap() } else { fs::copy(from, to).map(drop).unwrap() }
    }
}

/// Whether a directory opens with all entries, or is refused. It must not open with fewer.
fn opens_whole(path: &Path, entries: &[Entry], without: &[&PathBuf]) -> bool {
    match open(path) {
        Ok(store) => {
            let found = load(&store, "", None).unwrap().entries;
            assert!(found == entries, "{without:?} are missing, and {} entries are there", found.len());
            true
        }
        Err(Error::Unusable { .. }) => false,
        Err(error) => panic!("unexpected: {error}"),
    }
}

#[tokio::test]
async fn a_store_with_missing_parts_is_whole_or_refused_and_then_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let sound = directory.path().join("sound");
    let entries = full_store(&sound).await;
    assert_eq!(entries.len(), 31);
    let mut all = Vec::new();
    parts(&sound, &sound, &mut all);
    let mut refused = 0;
    for part in &all {
        let copy = directory.path().join("copy");
        copy_tree(&sound, &copy, &[part]);
        if !opens_whole(&copy, &entries, &[part]) {
            refused += 1;
            let (from, to) = (sound.join(part), copy.join(part));
            if from.is_dir() {
                copy_tree(&from, &to, &[]);
            } else {
                fs::copy(from, to).unwrap();
            }
            assert!(opens_whole(&copy, &entries, &[]), "{part:?} is there again");
        }
        fs::remove_dir_all(&copy).unwrap();
    }
    println!("{} parts, {refused} refusals", all.len());
    assert!(refused >= 10);
}

#[tokio::test]
async fn slow_a_store_with_any_two_parts_missing_is_whole_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let sound = directory.path().join("sound");
    let entries = full_store(&sound).await;
    let mut all = Vec::new();
    parts(&sound, &sound, &mut all);
    let mut opened = 0;
    for (n, one) in all.iter().enumerate() {
        for other in all.iter().skip(n + 1) {
            let copy = directory.path().join("copy");
            copy_tree(&sound, &copy, &[one, other]);
            opened += u32::from(opens_whole(&copy, &entries, &[one, other]));
            fs::remove_dir_all(&copy).unwrap();
        }
    }
    println!("{opened} of {} pairs are not needed", all.len() * (all.len() - 1) / 2);
}

#[tokio::test]
async fn a_rebuild_that_was_interrupted_is_settled() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let store = open(path).unwrap();
    put(&store, "a", "v").await;
    store.close();
    fs::create_dir(path.join("db.rebuild")).unwrap();
    assert_eq!(
        load(&open(path).unwrap(), "", None).unwrap().texts(),
        ["a=v"],
        "before the swap, the old one counts"
    );
    assert!(!path.join("db.rebuild").exists());
    fs::rename(path.join("db"), path.join("db.rebuild")).unwrap();
    fs::create_dir(path.join("db.damaged")).unwrap();
    assert_eq!(
        load(&open(path).unwrap(), "", None).unwrap().texts(),
        ["a=v"],
        "during the swap, the new one counts"
    );
    assert!(!path.join("db.damaged").exists());
}

#[tokio::test]
async fn a_restore_needs_an_empty_place_and_has_to_be_finished() {
    let directory = tempfile::tempdir().unwrap();
    let (data, backup) = (directory.path().join("data"), directory.path().join("backup"));
    let store = open(&data).unwrap();
    put(&store, "a", "v").await;
    backup::create(&*store, &backup).unwrap();
    store.close();
    assert!(matches!(restore(&backup, &data), Err(Error::Unusable { damage: Damage::Exists, .. })));

    let target = directory.path().join("target");
    let bytes = fs::read(&backup).unwrap();
    let cut = directory.path().join("cut");
    fs::write(&cut, &bytes[..bytes.len() - 1]).unwrap();
    assert!(matches!(restore(&cut, &target), Err(Error::Unusable { damage: Damage::Backup(_), .. })));
    assert_eq!(damage(open(&target)), Some(Damage::Unfinished));
    let longer = directory.path().join("longer");
    for more in [&b"\0"[..], &bytes] {
        fs::write(&longer, [&*bytes, more].concat()).unwrap();
        let Err(Error::Unusable { damage, .. }) = restore(&longer, &target) else { panic!("it has no end") };
        assert_eq!(damage, Damage::Backup("there are bytes after its end"));
        assert_eq!(self::damage(open(&target)), Some(Damage::Unfinished));
    }
    assert_eq!(restore(&backup, &target).unwrap(), Revision(1));
    assert_eq!(load(&open(&target).unwrap(), "", None).unwrap().texts(), ["a=v"]);
}

#[tokio::test]
async fn a_filling_goes_on_with_the_same_source_and_starts_over_with_another() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let entry = |name: &str, revision: u64| Entry {
        key: key(name),
        head: Head { create_revision: Revision(1), mod_revision: Revision(revision) },
        value: format!("{name}{revision}").into_bytes().into(),
    };
    let fill = |source: &str, entries: &[Entry]| {
        let mut filling = Filling::begin(&data, source).unwrap();
        let present = filling.present();
        entries.iter().for_each(|entry| filling.add(entry.clone()).unwrap());
        (filling, present)
    };
    // Rows are written a part at a time; what is less than one is lost with the process.
    let large = Entry { value: vec![b'x'; 2 << 20].into(), ..entry("a", 3) };
    assert_eq!(Filling::interrupted(&data).unwrap(), None);
    drop(fill("one", &[large.clone(), entry("b", 4)]));
    assert_eq!(Filling::interrupted(&data).unwrap().as_deref(), Some("one"));
    assert_eq!(damage(open(&data)), Some(Damage::Unfinished));
    let (filling, present) = fill("one", &[large.clone(), entry("b", 4), entry("c", 5)]);
    assert_eq!(present, 1);
    drop(filling);
    let (filling, present) = fill("two", &[entry("b", 4), entry("c", 9), entry("d", 9)]);
    assert_eq!(present, 0);
    let filled = filling.close(Revision(20)).unwrap();
    let mut seen = Vec::new();
    let visited = filled.load(&mut |entry| {
        let entry = entry.unwrap();
        seen.push((entry.key.to_string(), entry.head.mod_revision.0));
        ControlFlow::Continue(())
    });
    visited.unwrap();
    assert_eq!(seen, [("b".to_owned(), 4), ("c".to_owned(), 9), ("d".to_owned(), 21)]);
    filled.reject().unwrap();
    assert_eq!(damage(open(&data)), Some(Damage::Unfinished));
    let (filling, present) = fill("two", &[entry("b", 4), entry("c", 9), entry("d", 9)]);
    assert_eq!(present, 0);
    filling.finish(Revision(20)).unwrap();
    assert_eq!(Filling::interrupted(&data).unwrap(), None);

    let store = open(&data).unwrap();
    assert_eq!(load(&store, "", None).unwrap().texts(), ["b=b4", "c=c9", "d=d9"]);
    assert_eq!((store.known_revision(), store.compacted()), (Revision(21), Revision(21)));
    assert_eq!(put(&store, "e", "v").await, Revision(22));
    drop(store);
    assert!(matches!(Filling::begin(&data, "two"), Err(Error::Unusable { damage: Damage::Exists, .. })));
}

#[tokio::test]
async fn a_backup_of_a_newer_format_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("data")).unwrap();
    let backup = directory.path().join("backup");
    backup::create(&*store, &backup).unwrap();
    let mut bytes = fs::read(&backup).unwrap();
    bytes[8] = 9;
    fs::write(&backup, bytes).unwrap();
    let refused = restore(&backup, &directory.path().join("target"));
    assert!(matches!(refused, Err(Error::NewerFormat { found: 9, supported: 3, .. })));
}

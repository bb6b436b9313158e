//! Who may open a data directory, and which directories are refused.

#![allow(clippy::unwrap_used, reason = "test code")]

use std::{fs, path::Path, process::Command, sync::Arc};
use store::{
    Damage, Error, Revision, Store,
    contract::{load, put},
    embedded::{Embedded, Options, restore},
};

fn open(path: &Path) -> Result<Arc<dyn Store>, Error> {
    Ok(Arc::new(Embedded::open(path, Options::default())?))
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

#[test]
fn a_store_that_was_never_finished_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    open(directory.path()).unwrap().close();
    fs::remove_file(directory.path().join("format")).unwrap();
    fs::remove_dir_all(directory.path().join("db").join("keyspaces")).unwrap();
    assert_eq!(open(directory.path()).unwrap().known_revision(), Revision::ZERO);
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
    store.backup(&backup).unwrap();
    store.close();
    assert!(matches!(restore(&backup, &data), Err(Error::Unusable { damage: Damage::Exists, .. })));

    let target = directory.path().join("target");
    let bytes = fs::read(&backup).unwrap();
    let cut = directory.path().join("cut");
    fs::write(&cut, &bytes[..bytes.len() - 1]).unwrap();
    assert!(matches!(restore(&cut, &target), Err(Error::Unusable { damage: Damage::Backup(_), .. })));
    assert_eq!(damage(open(&target)), Some(Damage::Unfinished));
    assert_eq!(restore(&backup, &target).unwrap(), Revision(1));
    assert_eq!(load(&open(&target).unwrap(), "", None).unwrap().texts(), ["a=v"]);
}

#[tokio::test]
async fn a_backup_of_a_newer_format_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("data")).unwrap();
    let backup = directory.path().join("backup");
    store.backup(&backup).unwrap();
    let mut bytes = fs::read(&backup).unwrap();
    bytes[8] = 9;
    fs::write(&backup, bytes).unwrap();
    let refused = restore(&backup, &directory.path().join("target"));
    assert!(matches!(refused, Err(Error::NewerFormat { found: 9, supported: 2, .. })));
}

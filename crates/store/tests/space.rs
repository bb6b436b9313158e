//! Space: history and dead values are reclaimed while commits go on.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "test code")]

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use store::{
    Change, Revision, Store,
    contract::{commit_all, key, load},
    embedded::{Embedded, EmbeddedOptions},
};

fn used(path: &Path) -> u64 {
    let entries = fs::read_dir(path).unwrap().map(Result::unwrap);
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => used(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

/// Overwrites 2,000 values of 5 kB until `total` bytes were written; returns the most that the files took up.
async fn churn(store: &Arc<dyn Store>, path: &Path, total: u64) -> u64 {
    let (mut written, mut peak, mut slowest) = (0, 0, Duration::ZERO);
    let mut round = 0u64;
    while written < total {
        let changes = (0..100).map(|n| {
            let name = format!("k/{}", (round * 100 + n) % 2000);
            Change::put(key(&name), vec![(round % 251) as u8; 5000])
        });
        let asked = Instant::now();
        commit_all(store, changes).await;
        slowest = slowest.max(asked.elapsed());
        written += 500_000;
        round += 1;
        if round.is_multiple_of(50) {
            peak = peak.max(used(path));
        }
    }
    println!("{} MB written, at most {} MB used, slowest commit {slowest:?}", written >> 20, peak >> 20);
    peak
}

async fn stays_bounded(total: u64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let options = EmbeddedOptions { retention: Duration::from_millis(200), ..EmbeddedOptions::default() };
    let store: Arc<dyn Store> = Arc::new(Embedded::open(&path, options.clone()).unwrap());
    let peak = churn(&store, &path, total).await;
    assert!(peak < 400 << 20, "10 MB of live values took {} MB", peak >> 20);
    let newest = store.known_revision();
    store.close();
    let store: Arc<dyn Store> = Arc::new(Embedded::open(&path, options).unwrap());
    assert_eq!(store.known_revision(), newest);
    let loaded = load(&store, "", None).unwrap();
    assert_eq!(loaded.entries.len(), 2000);
    assert!(loaded.entries.iter().all(|entry| entry.head.mod_revision > Revision(newest.0 - 2000)));
}

/// After the last write, history expires, and nothing but this thread's sleep goes on.
#[tokio::test]
async fn space_is_given_back_when_nothing_is_written_any_more() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let options = EmbeddedOptions { retention: Duration::from_secs(2), ..EmbeddedOptions::default() };
    let store: Arc<dyn Store> = Arc::new(Embedded::open(&path, options).unwrap());
    let peak = churn(&store, &path, 150 << 20).await;
    let begin = Instant::now();
    while used(&path) > 24 << 20 {
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "10 MB of live values take {} MB",
            used(&path) >> 20
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("{} MB at most, {} MB after {:?}", peak >> 20, used(&path) >> 20, begin.elapsed());
    assert_eq!(load(&store, "", None).unwrap().entries.len(), 2000);
    let newest = store.known_revision();
    store.close();
    let store: Arc<dyn Store> = Arc::new(Embedded::open(&path, EmbeddedOptions::default()).unwrap());
    assert_eq!((store.known_revision(), load(&store, "", None).unwrap().entries.len()), (newest, 2000));
}

#[tokio::test]
async fn overwriting_does_not_grow_the_files_without_bound() {
    stays_bounded(400 << 20).await;
}

#[tokio::test]
async fn slow_overwriting_for_long_does_not_grow_the_files_without_bound() {
    stays_bounded(2 << 30).await;
}

//! A cache whose budgets are lowered and raised while it runs, on every store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

mod common;

use bytes::Bytes;
use cache::{
    CacheOptions, Encoding, Entry, Filter, Freshness, Mode, Query,
    watch::{Start, WatchOptions},
};
use common::{Backing, Fixture, pod};
use std::convert::Infallible;
use std::sync::Arc;
use store::Revision;

on_every_store! {
    a_smaller_share_drops_what_can_be_made_again, watches_go_on_from_the_history_of_the_store,
    half_of_the_share_keeps_no_encodings,
}

const LOG: usize = 4 << 20;

fn options() -> CacheOptions {
    CacheOptions { log_bytes: LOG, encodings: LOG, snapshot_bytes: LOG, ..CacheOptions::default() }
}

fn encode(entry: &Entry) -> Result<Bytes, Infallible> {
    Ok(Bytes::copy_from_slice(entry.bytes()))
}

/// A pod that was changed many times; the revision of its first state.
async fn changed_often(fixture: &Fixture, times: usize) -> Revision {
    let long = "x".repeat(2000);
    let first = fixture.put(pod("n", "a").app(&long)).await;
    for _ in 0..times {
        fixture.put(pod("n", "a").app(&long)).await;
    }
    first
}

async fn newest(fixture: &Fixture) -> Arc<Entry> {
    fixture.pods.get("n", "a", Freshness::MostRecent).await.unwrap().unwrap()
}

async fn a_smaller_share_drops_what_can_be_made_again(backing: Backing) {
    let f = Fixture::new(backing, options()).await;
    let first = changed_often(&f, 1).await;
    // A list that is returned in part keeps its state.
    f.put(pod("n", "b")).await;
    let part = Query::new(Freshness::MostRecent, Filter::all()).limit(1);
    f.pods.list(part).await.unwrap();
    changed_often(&f, 400).await;
    f.cache.encodings().get(&*newest(&f).await, Encoding(1), encode).unwrap();
    let before = f.cache.memory();
    assert!(before.log > 400 * 2000 && before.encodings > 2000 && before.entries > 2000, "{before:?}");

    f.cache.set_share(0.0);
    let least = f.cache.memory();
    assert!(least.log <= LOG as u64 / 16, "{least:?}");
    assert!(least.log > 0, "the newest changes stay: {least:?}");
    assert_eq!((least.encodings, least.snapshots, least.entries), (0, 0, before.entries));
    assert_eq!(f.pods.stats().snapshots, 0);
    // What was dropped is made again when it is asked for.
    let old = f.list(Mode::Exact(first), Filter::all()).await.unwrap();
    assert_eq!(common::texts(old), [format!("n/a@{first}")]);
    f.cache.encodings().get(&*newest(&f).await, Encoding(1), encode).unwrap();
    assert_eq!(f.cache.memory().encodings, 0, "it is not kept");

    f.cache.set_share(1.0);
    f.cache.encodings().get(&*newest(&f).await, Encoding(1), encode).unwrap();
    assert!(f.cache.memory().encodings > 2000);
    changed_often(&f, 400).await;
    assert!(f.cache.memory().log > 400 * 2000);
}

async fn watches_go_on_from_the_history_of_the_store(backing: Backing) {
    let f = Fixture::new(backing, options()).await;
    let first = changed_often(&f, 200).await;
    let mut watch = f.watch(WatchOptions::new(Start::After(first))).await;
    watch.take(3).await;
    f.cache.set_share(0.0);
    let revision = first.0 + 3;
    let rest: Vec<String> = watch.take(197).await;
    let expected: Vec<String> =
        (revision + 1..=first.0 + 200).map(|at| format!("MODIFIED n/a@{at}")).collect();
    assert_eq!(rest, expected, "nothing is missing, nothing comes twice");
    f.put(pod("n", "b")).await;
    assert_eq!(watch.take(1).await, [format!("ADDED n/b@{}", first.0 + 201)]);
}

async fn half_of_the_share_keeps_no_encodings(backing: Backing) {
    let f = Fixture::new(backing, options()).await;
    changed_often(&f, 200).await;
    f.cache.encodings().get(&*newest(&f).await, Encoding(1), encode).unwrap();
    f.cache.set_share(0.5);
    let memory = f.cache.memory();
    assert_eq!(memory.encodings, 0);
    assert!(memory.log > 200 * 2000, "what is within the budget stays: {memory:?}");
}

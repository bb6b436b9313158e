//! Watchers of one set send what one of them has encoded, on every store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

mod common;

use bytes::Bytes;
use cache::{
    CacheOptions, Filter,
    watch::{Delivery, Start, WatchOptions},
};
use common::{Backing, FORM, Fixture, labels, pod, text};
use std::time::Duration;
use store::Revision;

on_every_store! {
    watchers_of_one_set_share_written_chunks, a_chunk_does_not_hide_a_bookmark, a_slow_watcher_takes_chunk_after_chunk,
    a_watcher_between_chunks_reads_up_to_the_next_chunk,
}

fn after(revision: u64) -> WatchOptions {
    WatchOptions::new(Start::After(Revision(revision)))
}

async fn fixture(backing: Backing) -> Fixture {
    Fixture::new(backing, CacheOptions::default()).await
}

/// What a watcher delivers next, as text.
async fn delivery(watching: &mut common::Watching) -> String {
    let next = tokio::time::timeout(Duration::from_secs(20), watching.watcher.next_written(FORM)).await;
    match next.expect("something is due").unwrap() {
        Delivery::Batch(batch) => {
            let texts: Vec<String> = batch.iter().map(|item| text(&item.into())).collect();
            let written = Bytes::from(texts.join(", "));
            watching.watcher.keep(FORM, &written);
            format!("wrote {}", texts.join(", "))
        }
        Delivery::Chunk(chunk) => format!("took {}", String::from_utf8_lossy(&chunk.bytes)),
    }
}

async fn watchers_of_one_set_share_written_chunks(backing: Backing) {
    let f = fixture(backing).await;
    let mut alone = f.watch(after(0).filter(Filter::namespace("other"))).await;
    let mut all = [f.watch(after(0)).await, f.watch(after(0)).await, f.watch(after(2)).await];
    let mut named = f.watch(after(0).filter(Filter::namespace("n"))).await;
    let mut labelled = f.watch(after(0).filter(labels("app=web"))).await;
    f.put(pod("n", "a").app("web")).await;
    f.put(pod("n", "b")).await;
    assert_eq!(delivery(&mut all[0]).await, "wrote ADDED n/a@1, ADDED n/b@2");
    assert_eq!(delivery(&mut all[1]).await, "took ADDED n/a@1, ADDED n/b@2");
    assert_eq!(delivery(&mut named).await, "wrote ADDED n/a@1, ADDED n/b@2", "another set");
    assert_eq!(delivery(&mut labelled).await, "wrote ADDED n/a@1", "the same set, but not all of it");
    f.put(pod("n", "a")).await;
    assert_eq!(delivery(&mut all[1]).await, "wrote MODIFIED n/a@3");
    f.put(pod("other", "c")).await;
    assert_eq!(
        delivery(&mut all[0]).await,
        "took MODIFIED n/a@3",
        "nothing beyond what was written is in it"
    );
    assert_eq!(delivery(&mut all[2]).await, "took MODIFIED n/a@3", "it started where the others were");
    for (watching, how) in all.iter_mut().zip(["wrote", "took", "took"]) {
        assert_eq!(delivery(watching).await, format!("{how} ADDED other/c@4"));
        assert!(watching.is_quiet().await);
    }
    assert_eq!(delivery(&mut labelled).await, "wrote DELETED n/a@3");
    assert_eq!(delivery(&mut alone).await, "wrote ADDED other/c@4");
}

async fn a_chunk_does_not_hide_a_bookmark(backing: Backing) {
    let f = fixture(backing).await;
    let mut watching = [f.watch(after(0)).await, f.watch(after(0).with_bookmarks()).await];
    f.put(pod("n", "a")).await;
    assert_eq!(delivery(&mut watching[0]).await, "wrote ADDED n/a@1");
    watching[1].watcher.ask_for_bookmark();
    assert_eq!(delivery(&mut watching[1]).await, "took ADDED n/a@1");
    assert_eq!(delivery(&mut watching[1]).await, "wrote BOOKMARK 1 Periodic");
    watching[1].watcher.ask_for_bookmark();
    assert_eq!(
        delivery(&mut watching[1]).await,
        "wrote BOOKMARK 1 Periodic",
        "asked for while nothing happens"
    );
    assert!(watching[1].is_quiet().await);
}

async fn a_slow_watcher_takes_chunk_after_chunk(backing: Backing) {
    let f = fixture(backing).await;
    let mut all = [f.watch(after(0)).await, f.watch(after(0)).await];
    let large = "x".repeat(20_000);
    for _ in 0..8 {
        f.put(pod("n", "a").phase(&large)).await;
    }
    let full =
        ["ADDED n/a@1, MODIFIED n/a@2, MODIFIED n/a@3", "MODIFIED n/a@4, MODIFIED n/a@5, MODIFIED n/a@6"];
    for (watching, how) in all.iter_mut().zip(["wrote", "took"]) {
        for events in full.iter().chain(&["MODIFIED n/a@7, MODIFIED n/a@8"]) {
            assert_eq!(delivery(watching).await, format!("{how} {events}"));
        }
        assert!(watching.is_quiet().await);
    }
}

async fn a_watcher_between_chunks_reads_up_to_the_next_chunk(backing: Backing) {
    let f = fixture(backing).await;
    for filter in [Filter::all(), Filter::namespace("n")] {
        let start = f.cache.revision().0;
        let watch = |behind: u64| f.watch(after(start + behind).filter(filter.clone()));
        let (mut first, mut second) = (watch(0).await, watch(1).await);
        f.put(pod("n", "a").phase(&"x".repeat(20_000))).await;
        for name in ["b", "c", "d"] {
            f.put(pod("n", name).phase(&"x".repeat(20_000))).await;
        }
        let [a, b, c, d] = [1, 2, 3, 4].map(|number| start + number);
        let kind = if start == 0 { "ADDED" } else { "MODIFIED" };
        let beginning = format!("{kind} n/a@{a}, {kind} n/b@{b}, {kind} n/c@{c}");
        assert_eq!(delivery(&mut first).await, format!("wrote {beginning}"));
        assert_eq!(delivery(&mut first).await, format!("wrote {kind} n/d@{d}"));
        assert_eq!(delivery(&mut second).await, format!("wrote {kind} n/b@{b}, {kind} n/c@{c}"));
        assert_eq!(delivery(&mut second).await, format!("took {kind} n/d@{d}"));
    }
}

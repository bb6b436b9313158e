//! The guarantees of watches, each by its name, on every store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

mod common;

use bytes::Bytes;
use cache::{
    CacheOptions, Change, Error, Filter, Freshness, Mode,
    watch::{self, Delivery, Start, WatchOptions},
};
use common::{Backing, FORM, Fixture, Item, fields, labels, node_json, pod, text, texts};
use std::{
    sync::Arc,
    task::{Context, Wake, Waker},
    time::Duration,
};
use store::Revision;

on_every_store! {
    unique, ordered, reliable, atomic, resumable, resumable_after_a_restart, bookmarkable, bookmarks_are_periodic,
    filtered_by_labels, filtered_by_fields, filtered_by_namespace_and_name,
    a_deleted_event_has_the_last_state_and_the_revision_of_the_delete, state_first, streaming_list,
    a_watch_from_a_future_revision_waits_for_it, a_watcher_older_than_the_log_reads_the_store_s_history,
    a_watcher_older_than_history_gets_too_old, a_watch_older_than_the_history_retention_gets_too_old,
    forgotten_history_cannot_be_watched, a_watcher_set_made_late_reads_older_changes_from_the_log,
    a_change_wakes_only_watchers_of_its_sets, a_signal_during_a_read_is_not_lost,
    every_watcher_gets_the_last_change_without_a_later_one, a_panicking_waker_does_not_stop_other_wake_ups,
    watchers_of_a_closed_cache_end, watchers_of_a_removed_type_end,
    changes_before_the_removal_of_a_type_are_delivered, event_bytes_are_shared,
}

/// Where revisions have gaps, and several changes share one.
mod on_sparse {
    use super::common::Backing;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ordered() {
        super::ordered(Backing::Sparse).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn atomic() {
        super::atomic(Backing::Sparse).await;
    }
}

fn after(revision: u64) -> WatchOptions {
    WatchOptions::new(Start::After(Revision(revision)))
}

async fn fixture(backing: Backing) -> Fixture {
    Fixture::new(backing, CacheOptions::default()).await
}

async fn unique(backing: Backing) {
    let f = fixture(backing).await;
    let mut watching = f.watch(after(0)).await;
    for _ in 0..3 {
        f.put(pod("n", "a")).await;
    }
    f.put(pod("n", "b")).await;
    assert_eq!(watching.take(4).await, ["ADDED n/a@1", "MODIFIED n/a@2", "MODIFIED n/a@3", "ADDED n/b@4"]);
    assert!(watching.is_quiet().await);
}

async fn ordered(backing: Backing) {
    const WRITERS: usize = 8;
    const EACH: usize = 50;
    let Fixture { stored: _stored, cache, pods } = fixture(backing).await;
    let cache = Arc::new(cache);
    let barrier = Arc::new(tokio::sync::Barrier::new(WRITERS));
    let filters = [Filter::all(), Filter::namespace("n"), fields("spec.nodeName=x"), labels("app=a")];
    let mut watchers = Vec::new();
    for filter in filters.into_iter().cycle().take(12) {
        let mut watcher = pods.watch(after(0).filter(filter)).await.unwrap();
        watchers.push(tokio::spawn(async move {
            let mut revisions = Vec::new();
            while revisions.len() < WRITERS * EACH {
                let batch = tokio::time::timeout(Duration::from_secs(20), watcher.next()).await;
                revisions.extend(batch.expect("more events come").unwrap().iter().map(|item| match item {
                    watch::Item::Event(event) => event.revision(),
                    watch::Item::Bookmark { .. } => panic!("the watcher gets no bookmarks"),
                }));
            }
            revisions
        }));
    }
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (cache, pods, barrier) = (cache.clone(), pods.clone(), barrier.clone());
            tokio::spawn(async move {
                let name = format!("p{writer}");
                let mut revisions = Vec::new();
                for round in 0..EACH {
                    // Fast stores would let one writer end before the next begins.
                    if round % 10 == 0 {
                        barrier.wait().await;
                    }
                    let change = pod("n", &name).app("a").node("x").change(&pods);
                    revisions.push(cache.commit(change).await.unwrap().revision());
                }
                revisions
            })
        })
        .collect();
    let mut by_writer = Vec::new();
    for writer in writers {
        by_writer.push(writer.await.unwrap());
    }
    let mut written: Vec<Revision> = by_writer.into_iter().flatten().collect();
    written.sort();
    for watcher in watchers {
        assert_eq!(watcher.await.unwrap(), written);
    }
}

/// A watcher that reads while many write, with a log so small that it is left behind again and again, misses
/// nothing.
async fn reliable(backing: Backing) {
    let f = Fixture::new(backing, CacheOptions { log_bytes: 20_000, ..CacheOptions::default() }).await;
    let watchers = [Filter::all(), Filter::namespace("n1"), fields("spec.nodeName=x"), labels("app=a")];
    let mut watching = Vec::new();
    for filter in watchers {
        watching.push(f.watch(after(0).filter(filter)).await);
    }
    let writer = tokio::spawn({
        let (pods, cache) = (f.pods.clone(), f.cache);
        async move {
            for round in 0..300u32 {
                let namespace = format!("n{}", round % 2);
                let name = format!("p{}", round % 7);
                let pod = pod(&namespace, &name)
                    .app(["a", "b"][round as usize % 3 / 2])
                    .node(["x", "y"][round as usize % 2]);
                cache.commit(pod.change(&pods)).await.unwrap();
            }
            cache
        }
    });
    let mut counts = Vec::new();
    for watching in &mut watching {
        let mut last = 0;
        let mut count = 0;
        loop {
            let wait = tokio::time::timeout(Duration::from_millis(500), watching.item()).await;
            let Ok(item) = wait else { break };
            let Item::Event(event) = item.unwrap() else { continue };
            assert!(event.revision().0 > last);
            last = event.revision().0;
            count += 1;
        }
        counts.push(count);
    }
    let _cache = writer.await.unwrap();
    assert_eq!(counts[..3], [300, 150, 150]);
    assert!(counts[3] >= 200, "{counts:?}");
}

/// All changes of a revision are seen together: by lists, which show the state at their revision, and by
/// watchers in one batch.
async fn atomic(backing: Backing) {
    let Fixture { stored: _stored, cache, pods } = fixture(backing).await;
    let cache = Arc::new(cache);
    let filters = [Filter::all(), Filter::namespace("n"), fields("spec.nodeName=x")];
    let mut watchers = Vec::new();
    for filter in filters {
        let mut watcher = pods.watch(after(0).filter(filter)).await.unwrap();
        watchers.push(tokio::spawn(async move {
            let (mut last, mut count) = (Revision::ZERO, 0);
            while count < 400 {
                let batch = tokio::time::timeout(Duration::from_secs(20), watcher.next()).await;
                let batch = batch.expect("more events come").unwrap();
                let revisions = batch.iter().filter_map(|item| match item {
                    watch::Item::Event(event) => Some(event.revision()),
                    watch::Item::Bookmark { .. } => None,
                });
                let revisions: Vec<Revision> = revisions.collect();
                assert!(revisions.iter().all(|revision| *revision > last), "a revision is in one batch");
                last = *revisions.last().unwrap();
                count += revisions.len();
            }
        }));
    }
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (cache, pods) = (cache.clone(), pods.clone());
            tokio::spawn(async move {
                for _ in 0..50 {
                    let change = pod("n", &format!("p{writer}")).node("x").change(&pods);
                    cache.commit(change).await.unwrap();
                }
            })
        })
        .collect();
    let query = |mode| cache::Query { mode, filter: Filter::all(), limit: None };
    let mut lists = Vec::new();
    while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
        let list = pods.list(query(Mode::Current(Freshness::Any))).await.unwrap();
        lists.push((list.revision, texts(list)));
        tokio::task::yield_now().await;
    }
    for (revision, seen) in lists {
        assert_eq!(texts(pods.list(query(Mode::Exact(revision))).await.unwrap()), seen, "at {revision}");
    }
    for watcher in watchers {
        watcher.await.unwrap();
    }
}

async fn resumable(backing: Backing) {
    let f = fixture(backing).await;
    for name in ["a", "b", "c", "d"] {
        f.put(pod("n", name)).await;
    }
    let mut first = f.watch(after(1)).await;
    assert_eq!(first.take(2).await, ["ADDED n/b@2", "ADDED n/c@3"]);
    drop(first);
    f.delete("n", "a").await;
    let mut second = f.watch(after(3)).await;
    assert_eq!(second.take(2).await, ["ADDED n/d@4", "DELETED n/a@5"]);
    assert_eq!(second.watcher.revision(), Some(Revision(5)));
}

async fn resumable_after_a_restart(backing: Backing) {
    for replay in [0, 3, 20_000] {
        let options = CacheOptions { replay, ..CacheOptions::default() };
        let f = fixture(backing).await;
        for name in ["a", "b", "c"] {
            f.put(pod("n", name).app("x")).await;
        }
        f.put(pod("n", "a").app("y")).await;
        f.delete("n", "b").await;
        let f = f.restart(options).await;
        let mut all = f.watch(after(1)).await;
        let expected = ["ADDED n/b@2", "ADDED n/c@3", "MODIFIED n/a@4", "DELETED n/b@5"];
        assert_eq!(all.take(4).await, expected);
        let mut some = f.watch(after(2).filter(labels("app=x"))).await;
        assert_eq!(some.take(3).await, ["ADDED n/c@3", "DELETED n/a@4", "DELETED n/b@5"]);
        f.put(pod("n", "c").app("x")).await;
        assert_eq!(all.take(1).await, ["MODIFIED n/c@6"]);
        assert_eq!(some.take(1).await, ["MODIFIED n/c@6"]);
    }
}

/// Changes of other types move the revision up to which a watcher is complete.
async fn bookmarkable(backing: Backing) {
    let f = fixture(backing).await;
    f.put(pod("n", "a")).await;
    let nodes = f.cache.resource("nodes").unwrap();
    for name in ["x", "y"] {
        f.commit(Change::put(&nodes, "", name, node_json(name))).await;
    }
    for filter in
        [Filter::all(), Filter::namespace("n"), Filter::namespace("other"), fields("spec.nodeName=q")]
    {
        let request = WatchOptions::new(Start::StreamingList(Freshness::MostRecent)).filter(filter);
        let mut watching = f.watch(request.with_bookmarks()).await;
        let bookmark = loop {
            if let Item::Bookmark { revision, .. } = watching.item().await.unwrap() {
                break revision;
            }
        };
        assert_eq!(bookmark, Revision(3));
        let mut resumed = f.watch(after(bookmark.0)).await;
        assert!(resumed.is_quiet().await);
    }
}

async fn bookmarks_are_periodic(backing: Backing) {
    let options = CacheOptions { bookmark_interval: Duration::from_millis(40), ..CacheOptions::default() };
    let f = Fixture::new(backing, options).await;
    f.put(pod("n", "a")).await;
    let mut without = f.watch(after(1)).await;
    let mut with = f.watch(after(0).with_bookmarks()).await;
    assert_eq!(with.take(2).await, ["ADDED n/a@1", "BOOKMARK 1 Periodic"]);
    let nodes = f.cache.resource("nodes").unwrap();
    f.commit(Change::put(&nodes, "", "x", node_json("x"))).await;
    assert_eq!(with.take(1).await, ["BOOKMARK 2 Periodic"]);
    assert!(without.is_quiet().await);
    // Under load a bookmark still comes, and never before what it covers.
    let writer = async {
        for _ in 0..100 {
            f.put(pod("n", "a")).await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let reader = async {
        let (mut last, mut bookmarks) = (2, 0);
        while last < 102 {
            match with.item().await.unwrap() {
                Item::Event(event) => {
                    assert_eq!(event.revision().0, last + 1);
                    last += 1;
                }
                Item::Bookmark { revision, .. } => {
                    assert_eq!(revision.0, last);
                    bookmarks += 1;
                }
            }
        }
        assert!(bookmarks >= 2, "{bookmarks}");
    };
    tokio::join!(writer, reader);
}

async fn filtered_by_labels(backing: Backing) {
    let f = fixture(backing).await;
    let mut watching = f.watch(after(0).filter(labels("app=web"))).await;
    f.put(pod("n", "a").app("web")).await;
    f.put(pod("n", "b").app("db")).await;
    f.put(pod("n", "b").app("web")).await;
    f.put(pod("n", "a").app("db")).await;
    f.delete("n", "a").await;
    f.put(pod("n", "b").app("web").phase("x")).await;
    f.delete("n", "b").await;
    let expected = ["ADDED n/a@1", "ADDED n/b@3", "DELETED n/a@4", "MODIFIED n/b@6", "DELETED n/b@7"];
    assert_eq!(watching.take(5).await, expected);
    assert!(watching.is_quiet().await);
}

async fn filtered_by_fields(backing: Backing) {
    let f = fixture(backing).await;
    let mut indexed = f.watch(after(0).filter(fields("spec.nodeName=x"))).await;
    let mut plain = f.watch(after(0).filter(fields("status.phase!=Running"))).await;
    f.put(pod("n", "a")).await;
    f.put(pod("n", "a").node("x")).await;
    f.put(pod("n", "a").node("x").phase("Running")).await;
    f.put(pod("n", "a").node("y").phase("Running")).await;
    assert_eq!(indexed.take(3).await, ["ADDED n/a@2", "MODIFIED n/a@3", "DELETED n/a@4"]);
    assert_eq!(plain.take(3).await, ["ADDED n/a@1", "MODIFIED n/a@2", "DELETED n/a@3"]);
    assert!(indexed.is_quiet().await && plain.is_quiet().await);
}

async fn filtered_by_namespace_and_name(backing: Backing) {
    let f = fixture(backing).await;
    let mut namespace = f.watch(after(0).filter(Filter::namespace("x"))).await;
    let mut name = f.watch(after(0).filter(Filter::namespace("x").name("a"))).await;
    let mut anywhere = f.watch(after(0).filter(fields("metadata.name=a"))).await;
    for (namespace, name) in [("x", "a"), ("x-1", "a"), ("x", "b"), ("y", "c")] {
        f.put(pod(namespace, name)).await;
    }
    f.delete("x", "a").await;
    assert_eq!(namespace.take(3).await, ["ADDED x/a@1", "ADDED x/b@3", "DELETED x/a@5"]);
    assert_eq!(name.take(2).await, ["ADDED x/a@1", "DELETED x/a@5"]);
    assert_eq!(anywhere.take(3).await, ["ADDED x/a@1", "ADDED x-1/a@2", "DELETED x/a@5"]);
    assert!(namespace.is_quiet().await && name.is_quiet().await && anywhere.is_quiet().await);
}

async fn a_deleted_event_has_the_last_state_and_the_revision_of_the_delete(backing: Backing) {
    let f = fixture(backing).await;
    let mut watching = f.watch(after(0).filter(labels("app=web"))).await;
    f.put(pod("n", "a").app("web").node("x")).await;
    f.put(pod("n", "a").app("db").node("y")).await;
    watching.take(1).await;
    let Item::Event(event) = watching.item().await.unwrap() else { panic!("a deletion is an event") };
    assert_eq!(text(&Item::Event(event.clone())), "DELETED n/a@2");
    let object: serde_json::Value = serde_json::from_slice(event.entry.bytes()).unwrap();
    assert_eq!(object["metadata"]["resourceVersion"], "2");
    assert_eq!(object["metadata"]["labels"]["app"], "web");
    assert_eq!(object["spec"]["nodeName"], "x");
}

async fn state_first(backing: Backing) {
    let f = fixture(backing).await;
    for name in ["b", "a", "c"] {
        f.put(pod("n", name).app(if name == "c" { "db" } else { "web" })).await;
    }
    for freshness in [Freshness::MostRecent, Freshness::Any, Freshness::NotOlderThan(Revision(2))] {
        let mut watching =
            f.watch(WatchOptions::new(Start::State(freshness)).filter(labels("app=web"))).await;
        assert_eq!(watching.watcher.revision(), None);
        assert_eq!(watching.take(2).await, ["ADDED n/a@2", "ADDED n/b@1"]);
        assert!(watching.is_quiet().await);
    }
    let mut watching = f.watch(WatchOptions::new(Start::State(Freshness::MostRecent))).await;
    f.put(pod("n", "a")).await;
    assert_eq!(watching.take(4).await, ["ADDED n/a@2", "ADDED n/b@1", "ADDED n/c@3", "MODIFIED n/a@4"]);
}

async fn streaming_list(backing: Backing) {
    let f = fixture(backing).await;
    for name in 0..600 {
        f.put(pod("n", &format!("p{name:03}"))).await;
    }
    let request = || WatchOptions::new(Start::StreamingList(Freshness::MostRecent));
    let mut watching = f.watch(request().with_bookmarks()).await;
    let mut without_bookmarks = f.watch(request()).await;
    f.put(pod("n", "p000")).await;
    let items = without_bookmarks.take(601).await;
    assert_eq!(items[599..], ["ADDED n/p599@600", "MODIFIED n/p000@601"]);
    let items = watching.take(602).await;
    assert_eq!(items[0], "ADDED n/p000@1");
    assert_eq!(items[599..], ["ADDED n/p599@600", "BOOKMARK 600 InitialEventsEnd", "MODIFIED n/p000@601"]);
    let early = WatchOptions::new(Start::StreamingList(Freshness::NotOlderThan(Revision(602))));
    let (watching, _) = tokio::join!(f.watch(early), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        f.put(pod("n", "p001")).await
    });
    assert_eq!(watching.watcher.revision(), None);
}

async fn a_watch_from_a_future_revision_waits_for_it(backing: Backing) {
    let f = fixture(backing).await;
    let mut future = f.watch(after(2)).await;
    let mut set = f.watch(after(2).filter(Filter::namespace("n"))).await;
    for name in ["a", "b", "c"] {
        f.put(pod("n", name)).await;
    }
    assert_eq!(future.take(1).await, ["ADDED n/c@3"]);
    assert_eq!(set.take(1).await, ["ADDED n/c@3"]);
}

async fn a_watcher_older_than_the_log_reads_the_store_s_history(backing: Backing) {
    let f = Fixture::new(backing, CacheOptions { log_bytes: 0, ..CacheOptions::default() }).await;
    let mut slow = f.watch(after(0)).await;
    let mut set = f.watch(after(0).filter(fields("spec.nodeName=x"))).await;
    for round in 0..20 {
        f.put(pod("n", "a").node(["x", "y"][round % 2])).await;
    }
    assert_eq!(f.pods.stats().log_bytes, 0);
    let all = slow.take(20).await;
    assert_eq!((&*all[0], &*all[19]), ("ADDED n/a@1", "MODIFIED n/a@20"));
    let some = set.take(20).await;
    assert_eq!(some[..3], ["ADDED n/a@1", "DELETED n/a@2", "ADDED n/a@3"]);
    f.put(pod("n", "a").node("x")).await;
    assert_eq!(slow.take(1).await, ["MODIFIED n/a@21"]);
    assert_eq!(set.take(1).await, ["ADDED n/a@21"]);
}

async fn a_watcher_older_than_history_gets_too_old(backing: Backing) {
    let f = Fixture::new(backing, CacheOptions { log_bytes: 0, ..CacheOptions::default() }).await;
    let mut slow = f.watch(after(0)).await;
    for _ in 0..9 {
        f.put(pod("n", "a")).await;
    }
    f.stored.store().compact(Revision(7)).await.unwrap();
    assert_eq!(slow.error().await.to_string(), "too old resource version: 0 (7)");
    let Err(error) = f.pods.watch(after(5)).await else { panic!("revision 5 is gone") };
    assert_eq!(error.to_string(), "too old resource version: 5 (7)");
    assert_eq!(f.watch(after(7)).await.take(2).await, ["MODIFIED n/a@8", "MODIFIED n/a@9"]);
}

/// The log in memory does not reach further back than the retention that the cache was given.
async fn a_watch_older_than_the_history_retention_gets_too_old(backing: Backing) {
    let retention = Duration::from_millis(200);
    let stored = common::Stored::with_retention(backing, retention);
    let f = Fixture::on(stored, CacheOptions { log_retention: retention, ..CacheOptions::default() }).await;
    f.put(pod("n", "a")).await;
    f.put(pod("n", "a")).await;
    assert_eq!(f.watch(after(0)).await.take(1).await, ["ADDED n/a@1"]);
    let deadline = std::time::Instant::now() + 20 * retention;
    while f.pods.watch(after(0)).await.is_ok() {
        assert!(std::time::Instant::now() < deadline, "the revision should have expired");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(matches!(f.pods.watch(after(0)).await, Err(Error::TooOld { .. })));
    assert!(f.pods.watch(after(2)).await.is_ok());
}

async fn forgotten_history_cannot_be_watched(backing: Backing) {
    let f = fixture(backing).await;
    for _ in 0..5 {
        f.put(pod("n", "a")).await;
    }
    f.cache.forget(Revision(3)).await.unwrap();
    for filter in [Filter::default(), Filter::namespace("n"), Filter::namespace("other")] {
        let Err(error) = f.pods.watch(after(2).filter(filter)).await else { panic!("revision 2 is gone") };
        assert_eq!(error.to_string(), "too old resource version: 2 (3)");
    }
    assert_eq!(f.watch(after(3)).await.take(2).await, ["MODIFIED n/a@4", "MODIFIED n/a@5"]);
}

async fn a_watcher_set_made_late_reads_older_changes_from_the_log(backing: Backing) {
    let f = fixture(backing).await;
    for round in 0..6 {
        f.put(pod(["x", "y"][round % 2], "a").node(["p", "q"][round % 2])).await;
    }
    for filter in [Filter::namespace("y"), fields("spec.nodeName=q"), Filter::namespace("y").name("a")] {
        let mut first = f.watch(after(2).filter(filter.clone())).await;
        assert_eq!(first.take(2).await, ["MODIFIED y/a@4", "MODIFIED y/a@6"]);
        let mut second = f.watch(after(5).filter(filter)).await;
        assert_eq!(second.take(1).await, ["MODIFIED y/a@6"]);
    }
}

async fn a_change_wakes_only_watchers_of_its_sets(backing: Backing) {
    let f = fixture(backing).await;
    let mut watchers = Vec::new();
    for node in 0..100 {
        let mut watching = f.watch(after(0).filter(fields(&format!("spec.nodeName=n{node}")))).await;
        assert!(watching.watcher.revision().is_some());
        watchers.push(tokio::spawn(async move {
            let items = watching.take(1).await;
            (watching, items)
        }));
    }
    let other = f.watch(after(0).filter(Filter::namespace("other"))).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    f.put(pod("n", "a").node("n42")).await;
    let (_watching, items) = watchers.swap_remove(42).await.unwrap();
    assert_eq!(items, ["ADDED n/a@1"]);
    let stats = f.pods.stats();
    assert_eq!((stats.woken, stats.watchers), (1, 101));
    drop(other);
    assert_eq!(f.pods.stats().watchers, 100);
}

/// Changes come one by one from another thread: a watcher that was woken for one is about to sleep again when
/// the next one comes.
async fn a_signal_during_a_read_is_not_lost(backing: Backing) {
    let f = fixture(backing).await;
    let rounds = if backing == Backing::Memory { 20_000 } else { 1000 };
    let everything = f.watch(after(0)).await;
    let set = f.watch(after(0).filter(Filter::namespace("n"))).await;
    let (sender, mut last) = tokio::sync::mpsc::unbounded_channel();
    let watchers = [everything, set].map(|mut watching| {
        let sender = sender.clone();
        tokio::spawn(async move {
            for round in 1..=rounds {
                assert_eq!(watching.take(1).await.len(), 1);
                if round % 4 == 0 {
                    sender.send(()).unwrap();
                }
            }
        })
    });
    for round in 1..=rounds {
        f.put(pod("n", "a")).await;
        // Every now and then all have to be asleep.
        if round % 4 == 0 {
            for _ in 0..2 {
                last.recv().await.unwrap();
            }
        }
    }
    for watcher in watchers {
        watcher.await.unwrap();
    }
}

/// Many are woken for one change while the next is applied, and take what others have written of the one
/// before: each has to be woken for the other all the same.
async fn every_watcher_gets_the_last_change_without_a_later_one(backing: Backing) {
    const WATCHERS: usize = 12;
    let f = fixture(backing).await;
    let rounds = if backing == Backing::Memory { 4000 } else { 300 };
    let (sender, mut last) = tokio::sync::mpsc::unbounded_channel();
    let mut watchers = Vec::new();
    for number in 0..WATCHERS {
        let filter = if number % 2 == 0 { Filter::all() } else { Filter::namespace("n") };
        let mut watching = f.watch(after(0).filter(filter)).await;
        let sender = sender.clone();
        watchers.push(tokio::spawn(async move {
            loop {
                match watching.watcher.next_written(FORM).await {
                    Ok(Delivery::Chunk(chunk)) => sender.send((number, chunk.last)).unwrap(),
                    Ok(Delivery::Batch(batch)) => {
                        watching.watcher.keep(FORM, &Bytes::from_static(b"events"));
                        let Some(watch::Item::Event(event)) = batch.iter().last() else { panic!("an event") };
                        sender.send((number, event.revision())).unwrap();
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }));
    }
    let mut come_to = [Revision::ZERO; WATCHERS];
    for round in 0..rounds {
        let mut newest = Revision::ZERO;
        for _ in 0..=round % 4 {
            newest = f.put(pod("n", "a")).await;
        }
        while come_to.iter().any(|revision| *revision < newest) {
            let next = tokio::time::timeout(Duration::from_secs(20), last.recv()).await;
            let (number, revision) = next.expect("all are woken").unwrap();
            come_to[number] = revision;
        }
    }
    watchers.iter().for_each(|watcher| watcher.abort());
}

/// A waker that panics.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("woken");
    }
}

async fn a_panicking_waker_does_not_stop_other_wake_ups(backing: Backing) {
    for others in [1, 10] {
        let f = fixture(backing).await;
        let mut broken = f.watch(after(0)).await;
        let mut watchers = Vec::new();
        for _ in 0..others {
            watchers.push(f.watch(after(0)).await);
        }
        let waker = Waker::from(Arc::new(Panics));
        let mut waits = Box::pin(broken.watcher.next());
        assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let waiting: Vec<_> = watchers
            .into_iter()
            .map(|mut watching| tokio::spawn(async move { watching.take(2).await }))
            .collect();
        tokio::time::sleep(Duration::from_millis(20)).await;
        for _ in 0..2 {
            f.put(pod("n", "a")).await;
        }
        for watcher in waiting {
            assert_eq!(watcher.await.unwrap(), ["ADDED n/a@1", "MODIFIED n/a@2"]);
        }
        assert_eq!(waits.await.unwrap().iter().count(), 2);
    }
}

async fn watchers_of_a_closed_cache_end(backing: Backing) {
    let f = fixture(backing).await;
    let mut watching = f.watch(after(0)).await;
    let mut set = f.watch(after(0).filter(Filter::namespace("n"))).await;
    let Fixture { cache, pods, stored } = f;
    let waiting = tokio::spawn(async move { watching.error().await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(cache);
    assert!(matches!(waiting.await.unwrap(), Error::Closed));
    assert!(matches!(set.error().await, Error::Closed));
    assert!(matches!(pods.get("n", "a", Freshness::Any).await, Err(Error::Closed)));
    drop(stored);
}

async fn watchers_of_a_removed_type_end(backing: Backing) {
    let f = fixture(backing).await;
    f.put(pod("n", "a")).await;
    let mut watching = f.watch(after(1)).await;
    let waiting = tokio::spawn(async move { watching.error().await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(f.cache.remove("pods").await.unwrap());
    assert_eq!(waiting.await.unwrap().to_string(), "the resource type pods was removed");
    assert!(!f.cache.remove("pods").await.unwrap());
    let again = f.cache.add(common::pods()).await.unwrap();
    let list = again.list(cache::Query::default()).await.unwrap();
    assert_eq!(texts(list), ["n/a@1"]);
}

async fn changes_before_the_removal_of_a_type_are_delivered(backing: Backing) {
    let f = fixture(backing).await;
    f.put(pod("n", "a")).await;
    let mut of_changes = f.watch(after(0)).await;
    let mut of_state = f.watch(WatchOptions::new(Start::State(Freshness::Any))).await;
    assert_eq!(of_changes.take(1).await, ["ADDED n/a@1"]);
    f.put(pod("n", "b")).await;
    f.delete("n", "a").await;
    assert!(f.cache.remove("pods").await.unwrap());
    assert_eq!(of_changes.take(2).await, ["ADDED n/b@2", "DELETED n/a@3"]);
    assert_eq!(of_state.take(3).await, ["ADDED n/a@1", "ADDED n/b@2", "DELETED n/a@3"]);
    for watching in [&mut of_changes, &mut of_state] {
        assert!(matches!(watching.item().await, Err(Error::Removed { .. })));
    }
}

async fn event_bytes_are_shared(backing: Backing) {
    let f = fixture(backing).await;
    let mut watchers = Vec::new();
    for _ in 0..3 {
        watchers.push(f.watch(after(0)).await);
    }
    let committed = f.commit(pod("n", "a").change(&f.pods)).await;
    f.delete("n", "a").await;
    let mut pointers = vec![[committed.entry().unwrap().bytes().as_ptr(); 1].to_vec()];
    for watching in &mut watchers {
        let mut bytes = Vec::new();
        for _ in 0..2 {
            let Item::Event(event) = watching.item().await.unwrap() else { panic!("an event") };
            bytes.push(event.entry.bytes().as_ptr());
        }
        pointers.push(bytes);
    }
    assert_eq!(pointers[0][0], pointers[1][0]);
    assert!(pointers[1..].iter().all(|pointer| *pointer == pointers[1]));
}

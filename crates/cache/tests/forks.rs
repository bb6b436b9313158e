//! Caches that begin with the state of another one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

mod common;

use cache::{Cache, CacheOptions, Change, Error, Freshness, watch::Start, watch::WatchOptions};
use common::*;
use std::sync::Arc;
use std::time::Duration;
use store::memory::{Base as _, MemoryOptions};
use store::{Revision, Store};

/// A fork of a cache, as it is now.
fn fork(cache: &Cache, at: Revision) -> Cache {
    let snapshot = Arc::new(cache.snapshot().unwrap());
    let store = Cache::store_over(&snapshot, at, MemoryOptions::default());
    Cache::over(&snapshot, store, CacheOptions::default())
}

fn pod(name: &str, node: &str) -> String {
    format!(
        r#"{{"kind":"Pod","metadata":{{"name":"{name}","namespace":"n","uid":"{name}"}},"spec":{{"nodeName":"{node}"}}}}"#
    )
}

async fn put(cache: &Cache, name: &str, node: &str) -> Revision {
    let pods = cache.resource("pods").unwrap();
    cache.commit(Change::put(&pods, "n", name, pod(name, node))).await.unwrap().revision()
}

async fn node_of(cache: &Cache, name: &str) -> Option<String> {
    let found = cache.resource("pods").unwrap().get("n", name, Freshness::MostRecent).await.unwrap();
    found.map(|entry| entry.field("spec.nodeName").unwrap().to_owned())
}

#[tokio::test]
async fn forks_and_parent_do_not_see_each_other() {
    let fixture = Fixture::new(Backing::Embedded, CacheOptions::default()).await;
    let parent = &fixture.cache;
    let at = put(parent, "a", "n1").await;
    put(parent, "b", "n1").await;
    let (one, other) = (fork(parent, Revision::ZERO), fork(parent, Revision::ZERO));
    assert_eq!((one.revision(), one.store().compacted()), (parent.revision(), parent.revision()));
    put(parent, "a", "parent").await;
    let first = put(&one, "a", "one").await;
    assert_eq!(first, Revision(at.0 + 2), "revisions go on from the fork");
    put(&one, "c", "one").await;
    let pods = one.resource("pods").unwrap();
    one.commit(Change::delete(&pods, "n", "b")).await.unwrap();
    for (cache, a, b, c) in [
        (parent, "parent", Some("n1"), None),
        (&one, "one", None, Some("one")),
        (&other, "n1", Some("n1"), None),
    ] {
        assert_eq!(node_of(cache, "a").await.as_deref(), Some(a));
        assert_eq!(node_of(cache, "b").await.as_deref(), b);
        assert_eq!(node_of(cache, "c").await.as_deref(), c);
    }
    // A fork of a fork begins with what that is.
    let third = fork(&one, Revision::ZERO);
    assert_eq!(node_of(&third, "a").await.as_deref(), Some("one"));
    assert_eq!(node_of(&third, "b").await, None);
}

#[tokio::test]
async fn watches_of_a_fork_begin_at_its_revision_and_see_it_alone() {
    let fixture = Fixture::new(Backing::Memory, CacheOptions::default()).await;
    let parent = &fixture.cache;
    let before = put(parent, "a", "n1").await;
    put(parent, "a", "n2").await;
    let child = fork(parent, Revision(100));
    assert_eq!(child.revision(), Revision(100));
    let pods = child.resource("pods").unwrap();
    let early = pods.watch(WatchOptions::new(Start::After(before))).await;
    assert!(matches!(early.err(), Some(Error::TooOld { .. })), "history begins with the fork");
    let mut watcher = pods.watch(WatchOptions::new(Start::After(child.revision()))).await.unwrap();
    put(parent, "a", "n3").await;
    put(&child, "a", "mine").await;
    let event = tokio::time::timeout(Duration::from_secs(20), watcher.next()).await.unwrap().unwrap();
    assert!(format!("{event:?}").contains("n/a@101"), "{event:?}");
    child.store().close();
    let ended = tokio::time::timeout(Duration::from_secs(20), watcher.next()).await.unwrap();
    assert!(matches!(ended, Err(Error::Closed)));
    assert!(child.is_closed() && !parent.is_closed());
}

#[tokio::test]
async fn a_snapshot_gives_what_the_store_of_its_cache_gives() {
    let fixture = Fixture::new(Backing::Embedded, CacheOptions::default()).await;
    let parent = &fixture.cache;
    for at in 0..100 {
        put(parent, &format!("p{at}"), "n1").await;
    }
    let nodes = parent.resource("nodes").unwrap();
    parent.commit(Change::put(&nodes, "", "n", r#"{"metadata":{"name":"n"}}"#)).await.unwrap();
    let snapshot = Arc::new(parent.snapshot().unwrap());
    assert_eq!((snapshot.len(), snapshot.is_empty()), (101, false));
    let child = Cache::store_over(&snapshot, Revision::ZERO, MemoryOptions::default());
    for prefix in ["", "pods/", "pods/n/", "pods/n/p5", "nodes/", "no", "x", "pods/o"] {
        let load = |store: &dyn Store| {
            let mut found = Vec::new();
            let at = store.load(prefix.as_bytes(), None, &mut |entry| {
                found.push(entry.unwrap());
                std::ops::ControlFlow::Continue(())
            });
            (found, at.unwrap())
        };
        assert_eq!(load(&*child), load(&**parent.store()), "{prefix:?}");
    }
    let key = store::Key::try_from("pods/n/p7").unwrap();
    assert_eq!(child.get(&key).unwrap(), parent.store().get(&key).unwrap());
    assert_eq!(snapshot.head(&key), child.get(&key).unwrap().map(|entry| entry.head));
    assert!(snapshot.head(&store::Key::try_from("pods/n/none").unwrap()).is_none());
    assert!(snapshot.head(&store::Key::try_from("others/n/none").unwrap()).is_none());
}

#[tokio::test]
async fn a_type_that_is_added_to_a_fork_has_what_the_fork_holds() {
    let fixture = Fixture::new(Backing::Memory, CacheOptions::default()).await;
    put(&fixture.cache, "a", "n1").await;
    let child = fork(&fixture.cache, Revision::ZERO);
    put(&child, "b", "n2").await;
    assert!(child.remove("pods").await.unwrap());
    let plain = cache::Spec::namespaced("pods").unwrap();
    assert_eq!(child.add(plain).await.unwrap().len(), 2);
    assert_eq!(child.add(cache::Spec::namespaced("others").unwrap()).await.unwrap().len(), 0);
    assert_eq!(fixture.pods.len(), 1);
}

#[tokio::test]
async fn nothing_is_left_of_a_fork_that_was_closed_and_dropped() {
    let fixture = Fixture::new(Backing::Memory, CacheOptions::default()).await;
    put(&fixture.cache, "a", "n1").await;
    let snapshot = Arc::new(fixture.cache.snapshot().unwrap());
    let store = Cache::store_over(&snapshot, Revision::ZERO, MemoryOptions::default());
    let child = Cache::over(&snapshot, store.clone(), CacheOptions::default());
    put(&child, "b", "n1").await;
    store.close();
    let left = Arc::downgrade(&store);
    drop((store, child));
    for _ in 0..1000 {
        if left.upgrade().is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(left.upgrade().is_none());
    assert_eq!(Arc::strong_count(&snapshot), 1);
}

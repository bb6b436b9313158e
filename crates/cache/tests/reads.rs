//! Gets and lists in all their modes, commits and their answers, on every store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

mod common;

use cache::{CacheOptions, Change, Committed, Error, Filter, Freshness, Invalid, Mode, Query, Spec, watch};
use common::{Backing, Fixture, Stored, fields, labels, most_recent, node_json, pod, texts};
use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};
use store::Revision;

on_every_store! {
    lists_are_ordered_by_the_whole_key, gets_are_as_fresh_as_asked, lists_select_by_labels_and_fields, an_index_narrows_a_list,
    a_limited_list_can_be_continued, a_limited_list_with_a_selector_can_be_continued, any_ignores_the_limit,
    exact_lists_show_the_past, exact_lists_reach_the_store_s_history, an_expired_list_says_so,
    a_continued_list_survives_changes, a_continue_token_in_constant_use_expires_with_its_revision,
    a_list_at_a_future_revision_times_out_as_too_large, every_type_serves_every_revision,
    a_put_is_answered_with_its_entry, a_delete_is_answered_with_the_last_state, a_conflict_carries_the_current_entry,
    invalid_names_and_json_are_refused, types_come_and_go, snapshots_expire, snapshots_are_bounded_by_bytes,
    the_largest_log_is_trimmed_first, a_restart_keeps_everything, damaged_objects_are_reported_and_the_others_served,
    a_change_is_applied_after_its_writer_was_dropped,
}

async fn fixture(backing: Backing) -> Fixture {
    Fixture::new(backing, CacheOptions { wait: Duration::from_millis(100), ..CacheOptions::default() }).await
}

async fn lists_are_ordered_by_the_whole_key(backing: Backing) {
    let f = fixture(backing).await;
    for (namespace, name) in [("x", "a"), ("x-1", "b"), ("x0", "c"), ("a", "z")] {
        f.put(pod(namespace, name)).await;
    }
    let all = texts(f.list(most_recent(), Filter::all()).await.unwrap());
    assert_eq!(all, ["a/z@4", "x-1/b@2", "x/a@1", "x0/c@3"]);
    assert_eq!(texts(f.list(most_recent(), Filter::namespace("x")).await.unwrap()), ["x/a@1"]);
}

async fn gets_are_as_fresh_as_asked(backing: Backing) {
    let f = fixture(backing).await;
    f.put(pod("n", "a")).await;
    for freshness in [Freshness::MostRecent, Freshness::Any, Freshness::NotOlderThan(Revision(1))] {
        let entry = f.pods.get("n", "a", freshness).await.unwrap().unwrap();
        assert_eq!((entry.namespace(), entry.name(), entry.mod_revision()), ("n", "a", Revision(1)));
        assert!(f.pods.get("n", "b", freshness).await.unwrap().is_none());
        assert!(f.pods.get("", "n/a", freshness).await.unwrap().is_none());
    }
    let error = f.pods.get("n", "a", Freshness::NotOlderThan(Revision(2))).await.unwrap_err();
    assert_eq!(error.to_string(), "Too large resource version: 2, current: 1");
    let writing = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        f.put(pod("n", "a")).await
    };
    let (entry, _) = tokio::join!(f.pods.get("n", "a", Freshness::NotOlderThan(Revision(2))), writing);
    assert_eq!(entry.unwrap().unwrap().mod_revision(), Revision(2));
}

async fn lists_select_by_labels_and_fields(backing: Backing) {
    let f = fixture(backing).await;
    f.put(pod("n", "a").app("web").phase("Running")).await;
    f.put(pod("n", "b").app("db").phase("Running")).await;
    f.put(pod("n", "c").phase("Failed")).await;
    for (filter, expected) in [
        (labels("app"), vec!["n/a@1", "n/b@2"]),
        (labels("app in (web,x)"), vec!["n/a@1"]),
        (labels("!app"), vec!["n/c@3"]),
        (fields("status.phase=Running"), vec!["n/a@1", "n/b@2"]),
        (fields("status.phase!=Running"), vec!["n/c@3"]),
        (fields("metadata.name=b"), vec!["n/b@2"]),
        (fields("metadata.name=b,metadata.namespace=n"), vec!["n/b@2"]),
        (fields("metadata.name=b,metadata.namespace=m"), vec![]),
        (Filter::namespace("m").fields(fields("metadata.namespace=n").fields), vec![]),
        (fields("spec.unknown=x"), vec![]),
        (labels("app=web").fields(fields("status.phase=Failed").fields), vec![]),
    ] {
        assert_eq!(texts(f.list(most_recent(), filter.clone()).await.unwrap()), expected, "{filter:?}");
    }
}

async fn an_index_narrows_a_list(backing: Backing) {
    let f = fixture(backing).await;
    for number in 0..60 {
        let name = format!("p{number:02}");
        f.put(pod(["m", "n"][number % 2], &name).node(["", "x", "y"][number % 3])).await;
    }
    f.put(pod("m", "p04").node("y")).await;
    f.delete("n", "p01").await;
    let on = |node: &str| fields(&format!("spec.nodeName={node}"));
    for (filter, expected) in [(on("x"), 18), (on("y"), 21), (on(""), 20), (on("z"), 0)] {
        assert_eq!(f.list(most_recent(), filter).await.unwrap().count(), expected);
    }
    let both = Filter { namespace: Some("m".into()), ..on("y") };
    let list = f.list(most_recent(), both).await.unwrap();
    assert!(list.size_hint().1.unwrap() <= 11, "only the part of the index is looked at");
    assert!(list.map(|entry| entry.key().to_owned()).is_sorted());
    let exact = f.list(Mode::Exact(Revision(60)), on("x")).await.unwrap();
    assert_eq!(exact.count(), 20);
}

async fn a_limited_list_can_be_continued(backing: Backing) {
    let f = fixture(backing).await;
    for name in ["a", "b", "c", "d", "e"] {
        f.put(pod("n", name)).await;
    }
    f.put(pod("m", "z")).await;
    let mut query = Query::new(Freshness::MostRecent, Filter::namespace("n")).limit(2);
    let mut seen = Vec::new();
    let mut pages = Vec::new();
    loop {
        let list = f.pods.list(query.clone()).await.unwrap();
        assert_eq!(list.revision, Revision(6));
        pages.push((list.next.clone(), list.remaining));
        let next = list.next.clone();
        seen.extend(texts(list));
        let Some(start) = next else { break };
        f.put(pod("n", "b0")).await;
        query.mode = Mode::Continue { revision: Some(Revision(6)), start };
    }
    assert_eq!(seen, ["n/a@1", "n/b@2", "n/c@3", "n/d@4", "n/e@5"]);
    assert_eq!(pages, [(Some("n/b\0".into()), Some(3)), (Some("n/d\0".into()), Some(1)), (None, None)]);
    let whole = Query::new(Freshness::MostRecent, Filter::namespace("m")).limit(1);
    let list = f.pods.list(whole).await.unwrap();
    assert_eq!((list.next.clone(), list.remaining, list.count()), (None, None, 1));
}

async fn a_limited_list_with_a_selector_can_be_continued(backing: Backing) {
    let f = fixture(backing).await;
    for number in 0..20 {
        f.put(pod("n", &format!("p{number:02}")).app(["web", "db"][number % 2])).await;
    }
    let mut query = Query::new(Freshness::MostRecent, labels("app=web")).limit(4);
    let mut sizes = Vec::new();
    loop {
        let list = f.pods.list(query.clone()).await.unwrap();
        assert_eq!(list.remaining, None);
        let next = list.next.clone();
        sizes.push(list.count());
        let Some(start) = next else { break };
        query.mode = Mode::Continue { revision: Some(Revision(20)), start };
    }
    assert_eq!(sizes, [4, 4, 2]);
}

async fn any_ignores_the_limit(backing: Backing) {
    let f = fixture(backing).await;
    for name in ["a", "b", "c"] {
        f.put(pod("n", name)).await;
    }
    let list = f.pods.list(Query::new(Freshness::Any, Filter::all()).limit(1)).await.unwrap();
    assert_eq!((list.next.clone(), list.remaining, list.count()), (None, None, 3));
    let fresh = Freshness::NotOlderThan(Revision(2));
    let list = f.pods.list(Query::new(fresh, Filter::all()).limit(1)).await.unwrap();
    assert_eq!((list.remaining, list.revision, list.count()), (Some(2), Revision(3), 1));
}

async fn history(f: &Fixture) {
    f.put(pod("n", "a").node("x")).await;
    f.put(pod("n", "b")).await;
    f.put(pod("n", "a").node("y")).await;
    f.delete("n", "b").await;
    f.put(pod("n", "c").node("x")).await;
}

async fn check_history(f: &Fixture) {
    for (revision, expected) in
        [(1, vec!["n/a@1"]), (2, vec!["n/a@1", "n/b@2"]), (3, vec!["n/a@3", "n/b@2"]), (4, vec!["n/a@3"])]
    {
        let list = f.list(Mode::Exact(Revision(revision)), Filter::all()).await.unwrap();
        assert_eq!(
            (list.revision, texts(list)),
            (Revision(revision), expected.into_iter().map(Into::into).collect())
        );
    }
    let on_x = f.list(Mode::Exact(Revision(2)), fields("spec.nodeName=x")).await.unwrap();
    assert_eq!(texts(on_x), ["n/a@1"]);
}

async fn exact_lists_show_the_past(backing: Backing) {
    let f = fixture(backing).await;
    history(&f).await;
    check_history(&f).await;
    // The present is as it was.
    assert_eq!(texts(f.list(most_recent(), Filter::all()).await.unwrap()), ["n/a@3", "n/c@5"]);
    let empty = f.list(Mode::Exact(Revision(0)), Filter::all()).await.unwrap();
    assert_eq!(empty.count(), 0);
}

async fn exact_lists_reach_the_store_s_history(backing: Backing) {
    let f = Fixture::new(backing, CacheOptions { log_bytes: 0, ..CacheOptions::default() }).await;
    history(&f).await;
    check_history(&f).await;
    let now = f.pods.get("n", "a", Freshness::Any).await.unwrap().unwrap();
    let then = f.list(Mode::Exact(Revision(4)), Filter::all()).await.unwrap().next().unwrap();
    assert!(Arc::ptr_eq(&now, &then), "what has not changed is shared");
    let f = f.restart(CacheOptions { replay: 0, ..CacheOptions::default() }).await;
    check_history(&f).await;
}

async fn an_expired_list_says_so(backing: Backing) {
    let f = Fixture::new(backing, CacheOptions { log_bytes: 0, ..CacheOptions::default() }).await;
    history(&f).await;
    f.stored.store().compact(Revision(3)).await.unwrap();
    let error = f.list(Mode::Exact(Revision(2)), Filter::all()).await.unwrap_err();
    assert!(matches!(error, Error::Expired { requested: Revision(2) }));
    assert_eq!(error.to_string(), "The resourceVersion for the provided list is too old.");
    let start = "n/a\0".to_owned();
    let gone = Mode::Continue { revision: Some(Revision(2)), start: start.clone() };
    let error = f.list(gone, Filter::all()).await.unwrap_err();
    assert!(matches!(&error, Error::ContinueExpired { start } if start == "n/a\0"));
    assert!(
        error
            .to_string()
            .starts_with("The provided continue parameter is too old to display a consistent list")
    );
    let rest = f.list(Mode::Continue { revision: None, start }, Filter::all()).await.unwrap();
    assert_eq!(texts(rest), ["n/c@5"]);
}

async fn a_continued_list_survives_changes(backing: Backing) {
    let options =
        CacheOptions { log_bytes: 0, snapshot_retention: Duration::from_secs(60), ..CacheOptions::default() };
    let f = Fixture::new(backing, options).await;
    for number in 0..100 {
        f.put(pod("n", &format!("p{number:02}"))).await;
    }
    let list = f.pods.list(Query::new(Freshness::MostRecent, Filter::all()).limit(10)).await.unwrap();
    let (revision, start) = (list.revision, list.next.clone().unwrap());
    for number in 0..100 {
        f.delete("n", &format!("p{number:02}")).await;
    }
    let again = Mode::Continue { revision: Some(revision), start };
    let rest = f.list(again.clone(), Filter::all()).await.unwrap();
    assert_eq!((rest.revision, rest.count()), (revision, 90));
    assert_eq!(list.count(), 10);
    f.stored.store().compact(Revision(200)).await.unwrap();
    assert!(matches!(f.list(again, Filter::all()).await, Err(Error::ContinueExpired { .. })));
}

/// A revision expires a retention after it stopped being the newest one. Neither using it nor an idle store
/// delays that.
async fn a_continue_token_in_constant_use_expires_with_its_revision(backing: Backing) {
    let retention = Duration::from_millis(400);
    let f = Fixture::on(Stored::with_retention(backing, retention), CacheOptions::default()).await;
    for name in ["a", "b", "c"] {
        f.put(pod("n", name)).await;
    }
    let list = f.pods.list(Query::new(Freshness::MostRecent, Filter::all()).limit(1)).await.unwrap();
    let token = Mode::Continue { revision: Some(list.revision), start: list.next.clone().unwrap() };
    tokio::time::sleep(2 * retention).await;
    assert!(f.list(token.clone(), Filter::all()).await.is_ok(), "it is still the newest revision");
    let superseded = Instant::now();
    f.put(pod("n", "d")).await;
    loop {
        let before = superseded.elapsed();
        match f.list(token.clone(), Filter::all()).await {
            Ok(rest) => assert_eq!(rest.count(), 2),
            Err(Error::ContinueExpired { start }) => {
                // The store counts in milliseconds.
                assert!(superseded.elapsed() >= retention - Duration::from_millis(2), "{before:?}");
                assert_eq!(start, "n/a\0");
                break;
            }
            Err(error) => panic!("{error}"),
        }
        assert!(before < 10 * retention, "it should have expired");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let exact = f.list(Mode::Exact(list.revision), Filter::all()).await;
    assert!(matches!(exact, Err(Error::Expired { .. })));
    assert_eq!(
        f.list(Mode::Exact(Revision(4)), Filter::all()).await.unwrap().count(),
        4,
        "the newest one stays"
    );
}

async fn a_list_at_a_future_revision_times_out_as_too_large(backing: Backing) {
    let f = fixture(backing).await;
    f.put(pod("n", "a")).await;
    let modes = [Mode::Current(Freshness::NotOlderThan(Revision(9))), Mode::Exact(Revision(9))];
    for mode in modes {
        let error = f.list(mode, Filter::all()).await.unwrap_err();
        assert_eq!(error.to_string(), "Too large resource version: 9, current: 1");
    }
}

async fn every_type_serves_every_revision(backing: Backing) {
    let f = fixture(backing).await;
    let nodes = f.cache.resource("nodes").unwrap();
    f.put(pod("n", "a")).await;
    let newest = f.commit(Change::put(&nodes, "", "x", node_json("x"))).await.revision();
    let fresh = Mode::Current(Freshness::NotOlderThan(newest));
    let list = f.list(fresh, Filter::all()).await.unwrap();
    assert_eq!((list.revision, list.count()), (newest, 1));
    assert_eq!(f.list(Mode::Exact(newest), Filter::all()).await.unwrap().count(), 1);
    assert_eq!(f.cache.revision(), f.cache.committed());
    let unschedulable = |text: &str| fields(&format!("spec.unschedulable={text}"));
    let query = |text| Query::new(Freshness::Any, unschedulable(text));
    assert_eq!(nodes.list(query("false")).await.unwrap().count(), 1);
    assert_eq!(nodes.list(query("true")).await.unwrap().count(), 0);
}

async fn a_put_is_answered_with_its_entry(backing: Backing) {
    let f = fixture(backing).await;
    f.put(pod("n", "z")).await;
    let Committed::Put(entry) = f.commit(pod("n", "a").change(&f.pods)).await else { panic!("a put puts") };
    let object: serde_json::Value = serde_json::from_slice(entry.bytes()).unwrap();
    assert_eq!(object["metadata"]["resourceVersion"], "2");
    let read = f.pods.get("n", "a", Freshness::Any).await.unwrap().unwrap();
    assert!(Arc::ptr_eq(&entry, &read), "the answer is what readers see");
    let updated = f.commit(pod("n", "a").node("x").change(&f.pods).expect_revision(Revision(2))).await;
    let updated = updated.entry().unwrap().clone();
    assert_eq!((updated.create_revision(), updated.mod_revision()), (Revision(2), Revision(3)));
    let other = Fixture::new(backing, CacheOptions { log_bytes: 0, ..CacheOptions::default() }).await;
    let writes = (0..50).map(|_| other.cache.commit(pod("n", "a").change(&other.pods)));
    let mut revisions = Vec::new();
    for write in writes {
        revisions.push(write.await.unwrap().revision().0);
    }
    assert_eq!(revisions, (1..=50).collect::<Vec<_>>());
}

async fn a_delete_is_answered_with_the_last_state(backing: Backing) {
    for log_bytes in [0, 1 << 20] {
        let f = Fixture::new(backing, CacheOptions { log_bytes, ..CacheOptions::default() }).await;
        f.put(pod("n", "a").node("x")).await;
        f.put(pod("n", "b").node("x")).await;
        let deletes = [
            Change::delete(&f.pods, "n", "a"),
            Change::delete(&f.pods, "n", "b").expect_revision(Revision(2)),
        ];
        for (change, expected) in deletes.into_iter().zip([3, 4]) {
            let Committed::Deleted { revision, last } = f.commit(change).await else {
                panic!("a delete deletes")
            };
            let last = last.unwrap();
            assert_eq!((revision, last.mod_revision()), (Revision(expected), Revision(expected)));
            let object: serde_json::Value = serde_json::from_slice(last.bytes()).unwrap();
            assert_eq!(object["metadata"]["resourceVersion"], expected.to_string());
            assert_eq!(object["spec"]["nodeName"], "x");
        }
        assert!(f.pods.is_empty());
    }
}

async fn a_conflict_carries_the_current_entry(backing: Backing) {
    let f = fixture(backing).await;
    f.put(pod("n", "a")).await;
    f.put(pod("n", "a")).await;
    let change = || pod("n", "a").change(&f.pods);
    let refused = [
        change().create_or_replace_damaged(),
        change().expect_revision(Revision(1)),
        Change::delete(&f.pods, "n", "a").expect_revision(Revision(1)),
    ];
    for change in refused {
        let Err(Error::Conflict(conflict)) = f.cache.commit(change).await else { panic!("it is refused") };
        assert_eq!(conflict.found.unwrap().mod_revision(), Revision(2));
    }
    let absent =
        [pod("n", "b").change(&f.pods).expect_revision(Revision(1)), Change::delete(&f.pods, "n", "b")];
    for change in absent {
        let Err(Error::Conflict(conflict)) = f.cache.commit(change).await else { panic!("it is refused") };
        assert!(conflict.found.is_none());
    }
    let right = change().expect_revision(Revision(2));
    assert_eq!(f.commit(right).await.revision(), Revision(3));
}

async fn invalid_names_and_json_are_refused(backing: Backing) {
    let f = fixture(backing).await;
    let reason = async |change: Change| match f.cache.commit(change).await {
        Err(Error::Invalid { reason }) => reason,
        other => panic!("{other:?}"),
    };
    for (namespace, name) in [("", "a"), ("n", ""), ("n", "a/b"), ("n/m", "a")] {
        let change = Change::put(&f.pods, namespace, name, pod(namespace, name).json());
        assert!(matches!(reason(change).await, Invalid::Name { .. }), "{namespace:?} {name:?}");
    }
    for json in ["", "{}", "[]", "{\"metadata\":{", "\u{feff}{\"metadata\":{}}"] {
        assert!(matches!(reason(Change::put(&f.pods, "n", "a", json)).await, Invalid::Json(_)), "{json:?}");
    }
    let other = Change::put(&f.pods, "n", "b", pod("n", "a").json());
    assert_eq!(reason(other).await, Invalid::Named("n/a".into()));
    let zero = Change::put(&f.pods, "n", "a\0", pod("n", "a\\u0000").json());
    assert!(matches!(reason(zero).await, Invalid::Key(_)));
}

async fn types_come_and_go(backing: Backing) {
    let f = fixture(backing).await;
    let widgets = f.cache.add(Spec::cluster("widgets.example.com").unwrap()).await.unwrap();
    let again = f.cache.add(Spec::cluster("widgets.example.com").unwrap()).await;
    assert!(matches!(again, Err(Error::Exists { .. })));
    // Types are added and removed while others are written.
    let writing = async {
        for number in 0..200 {
            f.put(pod("n", &format!("p{}", number % 5))).await;
            let name = format!("w{number}");
            f.commit(Change::put(&widgets, "", &name, node_json(&name))).await;
        }
    };
    let juggling = async {
        for _ in 0..20 {
            let gadgets = f.cache.add(Spec::cluster("gadgets").unwrap()).await.unwrap();
            f.commit(Change::put(&gadgets, "", "g", node_json("g"))).await;
            assert_eq!(gadgets.list(Query::default()).await.unwrap().count(), 1);
            f.cache.remove("gadgets").await.unwrap();
            let error = f.cache.commit(Change::delete(&gadgets, "", "g")).await.unwrap_err();
            assert!(matches!(error, Error::Removed { .. }));
        }
    };
    tokio::join!(writing, juggling);
    f.cache.remove("widgets.example.com").await.unwrap();
    assert!(f.cache.resource("widgets.example.com").is_none());
    let widgets = f.cache.add(Spec::cluster("widgets.example.com").unwrap()).await.unwrap();
    assert_eq!(widgets.list(Query::default()).await.unwrap().count(), 200);
    assert_eq!(f.cache.resources().len(), 3);
}

async fn snapshots_expire(backing: Backing) {
    let options = CacheOptions { snapshot_retention: Duration::from_millis(50), ..CacheOptions::default() };
    let f = Fixture::new(backing, options).await;
    for name in ["a", "b", "c"] {
        f.put(pod("n", name)).await;
    }
    f.pods.list(Query::new(Freshness::MostRecent, Filter::all()).limit(1)).await.unwrap();
    assert_eq!(f.pods.stats().snapshots, 1);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while f.pods.stats().snapshots > 0 {
        assert!(tokio::time::Instant::now() < deadline, "the snapshot expires");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Tokens whose states are not kept any more go on: the states are made again.
async fn snapshots_are_bounded_by_bytes(backing: Backing) {
    let budget = 64 << 10;
    let options = CacheOptions {
        log_bytes: 0,
        snapshot_bytes: budget,
        encoding_retention: Duration::from_millis(150),
        ..CacheOptions::default()
    };
    let f = Fixture::new(backing, options).await;
    let mut tokens = Vec::new();
    for round in 0..10 {
        for number in 0..100 {
            f.put(pod("n", &format!("p{number:02}")).app(&format!("round-{round}"))).await;
        }
        let list = f.pods.list(Query::new(Freshness::MostRecent, Filter::all()).limit(10)).await.unwrap();
        tokens.push(Mode::Continue { revision: Some(list.revision), start: list.next.clone().unwrap() });
    }
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while f.pods.stats().snapshots > 4 {
        assert!(tokio::time::Instant::now() < deadline, "{:?}", f.pods.stats());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(f.pods.stats().snapshots > 0, "what the budget has room for is kept");
    for (round, token) in tokens.into_iter().enumerate() {
        let rest: Vec<_> = f.list(token, Filter::all()).await.unwrap().collect();
        assert_eq!(rest.len(), 90);
        let app = format!("round-{round}");
        assert!(rest.iter().all(|entry| entry.labels().any(|label| label == ("app", app.as_str()))), "{app}");
    }
}

async fn a_restart_keeps_everything(backing: Backing) {
    let f = fixture(backing).await;
    history(&f).await;
    let before: Vec<_> =
        f.list(most_recent(), Filter::all()).await.unwrap().map(|e| e.bytes().clone()).collect();
    let f = f.restart(CacheOptions::default()).await;
    let list = f.list(most_recent(), Filter::all()).await.unwrap();
    assert_eq!(list.revision, Revision(5));
    assert_eq!(list.map(|e| e.bytes().clone()).collect::<Vec<_>>(), before);
    check_history(&f).await;
    let stats = f.pods.stats();
    assert_eq!((stats.log_changes, stats.entries), (5, 2));
    let now = f.pods.get("n", "a", Freshness::Any).await.unwrap().unwrap();
    let then = f.list(Mode::Exact(Revision(3)), Filter::all()).await.unwrap().next().unwrap();
    assert!(Arc::ptr_eq(&now, &then), "the log shares its entries with the state");
}

async fn damaged_objects_are_reported_and_the_others_served(backing: Backing) {
    let f = fixture(backing).await;
    f.put(pod("n", "a")).await;
    f.put(pod("n", "b").app("web")).await;
    let after = |revision| watch::WatchOptions::new(watch::Start::After(Revision(revision)));
    let mut all = f.watch(after(2)).await;
    let mut on_node = f.watch(after(2).filter(fields("spec.nodeName=x"))).await;
    let mut elsewhere = f.watch(after(2).filter(Filter::namespace("m"))).await;
    let key = store::Key::try_from("pods/n/b").unwrap();
    let torn = store::Change::put(key, &b"\x10\0\0\0{\"metadata\":{"[..]);
    f.stored.store().commit(torn).await.unwrap();
    let check = async |f: &Fixture| {
        let error = f.pods.get("n", "b", Freshness::MostRecent).await.unwrap_err();
        let pages = "the stored object pods/n/b (revision 3) is corrupt: ";
        assert!(matches!(&error, Error::Corrupt(_)) && error.to_string().starts_with(pages), "{error}");
        let list = f.list(most_recent(), Filter::all()).await.unwrap();
        assert_eq!(list.damaged.iter().map(|d| d.key.to_string()).collect::<Vec<_>>(), ["pods/n/b"]);
        assert_eq!(texts(list), ["n/a@1"]);
        let before = f.list(Mode::Exact(Revision(2)), Filter::all()).await.unwrap();
        assert_eq!((before.damaged.len(), before.count()), (0, 2));
        let elsewhere = f.list(most_recent(), Filter::namespace("m")).await.unwrap();
        assert!(elsewhere.damaged.is_empty());
    };
    check(&f).await;
    // The object is not deleted, and its state is not known.
    assert!(matches!(all.error().await, Error::Corrupt(_)));
    assert!(matches!(on_node.error().await, Error::Corrupt(_)));
    assert!(elsewhere.is_quiet().await);
    let f = f.restart(CacheOptions::default()).await;
    check(&f).await;
    for start in [watch::Start::State(Freshness::Any), watch::Start::StreamingList(Freshness::Any)] {
        let refused = f.pods.watch(watch::WatchOptions::new(start)).await.map(drop);
        assert!(matches!(refused, Err(Error::Damaged(damaged)) if damaged.len() == 1));
        assert!(f.pods.watch(watch::WatchOptions::new(start).filter(Filter::namespace("m"))).await.is_ok());
    }
    assert!(matches!(f.watch(after(2)).await.error().await, Error::Corrupt(_)));
    let mut watching = f.watch(after(3)).await;
    let mut on_node = f.watch(after(3).filter(fields("spec.nodeName=x"))).await;
    let mut elsewhere = f.watch(after(3).filter(Filter::namespace("m"))).await;
    let stale = pod("n", "b").change(&f.pods).expect_revision(Revision(2));
    assert!(matches!(f.cache.commit(stale).await, Err(Error::Corrupt(_))));
    let Committed::Deleted { last, .. } = f.commit(Change::delete(&f.pods, "n", "b")).await else { panic!() };
    assert!(last.is_none());
    assert!(f.pods.get("n", "b", Freshness::MostRecent).await.unwrap().is_none());
    for watching in [&mut watching, &mut on_node] {
        let error = watching.error().await;
        let said =
            "saw a DELETED event, but object data is corrupt - the stored object pods/n/b (revision 3)";
        assert!(error.to_string().starts_with(said), "{error}");
    }
    assert!(elsewhere.is_quiet().await);
    f.put(pod("n", "b")).await;
    assert_eq!(f.pods.len(), 2);
}

/// A type that has filled the logs' budget and gone quiet leaves room for the others.
async fn the_largest_log_is_trimmed_first(backing: Backing) {
    let f = Fixture::new(backing, CacheOptions { log_bytes: 200_000, ..CacheOptions::default() }).await;
    let nodes = f.cache.resource("nodes").unwrap();
    for _ in 0..600 {
        f.put(pod("n", "a")).await;
    }
    let full = f.pods.stats().log_bytes;
    assert!((100_000..=200_000).contains(&full), "{full}");
    for _ in 0..300 {
        f.commit(Change::put(&nodes, "", "x", node_json("x"))).await;
    }
    assert!(f.cache.log_bytes() <= 200_000);
    let (quiet, busy) = (f.pods.stats(), nodes.stats());
    assert!(busy.log_changes >= 200, "{busy:?}");
    assert!(quiet.log_bytes < full && quiet.log_bytes > 50_000, "{quiet:?}");
}

/// Waiting writers apply the changes of dropped ones; without waiting writers the following task applies
/// them.
async fn a_change_is_applied_after_its_writer_was_dropped(backing: Backing) {
    let f = fixture(backing).await;
    let mut names = (0..).map(|number| format!("p{number}"));
    for (expected, wait) in [(100, false), (200, true), (300, false)] {
        for name in names.by_ref().take(100) {
            let before = f.cache.committed();
            let mut commit = pin!(f.cache.commit(pod("n", &name).change(&f.pods)));
            poll_fn(|context| Poll::Ready(commit.as_mut().poll(context).is_ready())).await;
            // A writer that is dropped before the store has begun takes its change back.
            while f.cache.committed() == before {
                tokio::task::yield_now().await;
            }
            if wait {
                f.put(pod("n", &name)).await;
            }
            // Else it would be made to wait before it begins.
            tokio::task::yield_now().await;
        }
        let pages = async {
            while f.pods.len() < expected || f.cache.revision() < f.cache.committed() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), pages).await.expect("all are applied");
    }
    assert_eq!((f.pods.len(), f.cache.revision()), (300, Revision(400)));
}

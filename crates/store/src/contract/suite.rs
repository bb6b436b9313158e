//! The guarantees of [`crate::Store`], one test each.

#![allow(missing_docs, reason = "the names of tests are sentences")]

use super::*;
use crate::{BackupReport, Corrupt, Health, Kind, Limits, Previous};
use bytes::Bytes;
use std::collections::HashSet;

fn open(factory: Factory<'_>) -> (Box<dyn Harness>, Arc<dyn Store>) {
    open_with(factory, Setup::default())
}

fn open_with(factory: Factory<'_>, setup: Setup) -> (Box<dyn Harness>, Arc<dyn Store>) {
    let harness = factory(setup);
    let store = harness.store();
    (harness, store)
}

/// Many writers at once, `each` puts by each, to keys of their own under `prefix`.
async fn write_many(store: &Arc<dyn Store>, prefix: &str, writers: usize, each: usize) -> Vec<Revision> {
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let (store, prefix) = (store.clone(), prefix.to_owned());
            tokio::spawn(async move {
                let mut revisions = Vec::new();
                for turn in 0..each {
                    let value = format!("{writer}-{turn}");
                    revisions.push(put(&store, &format!("{prefix}{writer}/{}", turn % 3), &value).await);
                }
                revisions
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    all
}

fn assert_consecutive(events: &[Event], after: Revision) {
    for (event, expected) in events.iter().zip(after.0 + 1..) {
        assert_eq!(event.revision(), Revision(expected));
    }
}

pub async fn unique(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    assert_eq!(store.revision(), Revision::ZERO);
    let revisions = write_many(&store, "k/", 8, 25).await;
    let distinct: HashSet<_> = revisions.iter().copied().collect();
    assert_eq!(distinct, (1..=200).map(Revision).collect());
    assert_eq!(store.revision(), Revision(200));
    let group = ["a", "b", "c"].map(|k| Change::put(key(k), "v")).to_vec();
    let outcome = store.commit(group).await.unwrap();
    assert_eq!(outcome.iter().map(|c| c.revision.0).collect::<Vec<_>>(), [201, 202, 203]);
}

pub async fn ordered(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let mut follower = store.follow(Follow::after(Revision::ZERO)).unwrap();
    let writing = tokio::spawn({
        let store = store.clone();
        async move { write_many(&store, "k/", 8, 40).await }
    });
    let mut events = Vec::new();
    while events.len() < 320 {
        events.extend(next(&mut follower).await.unwrap().events);
    }
    writing.await.unwrap();
    assert_consecutive(&events, Revision::ZERO);
}

pub async fn atomic(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    put(&store, "b", "old").await;
    let group = vec![
        Change::put(key("a"), "new"),
        Change::put(key("b"), "new").create_only(),
        Change::put(key("c"), "new"),
    ];
    let Err(Error::Conflict(conflict)) = store.commit(group).await else { panic!("b exists") };
    assert_eq!((conflict.index, conflict.key), (1, key("b")));
    assert_eq!(load(&store, "", None).unwrap().texts(), ["b=old"]);
    assert_eq!(store.revision(), Revision(1));
}

pub async fn atomic_for_followers(factory: Factory<'_>) {
    let (_harness, store) = open_with(factory, Setup { window: Window::Tiny, ..Setup::default() });
    for round in 0..40 {
        let group = (0..100).map(|n| Change::put(key(&format!("k/{n}")), format!("{round}"))).collect();
        store.commit(group).await.unwrap();
    }
    let mut follower = store.follow(Follow::after(Revision::ZERO)).unwrap();
    let mut at = Revision::ZERO;
    while at < store.revision() {
        let batch = next(&mut follower).await.unwrap();
        assert_eq!(batch.events.len() % 100, 0, "a batch holds whole groups");
        assert_eq!(batch.revision.0 % 100, 0, "progress stops between groups");
        at = batch.revision;
    }
}

pub async fn atomic_for_loads(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let writing = tokio::spawn({
        let store = store.clone();
        async move {
            for round in 0..200 {
                let pair = ["left", "right"].map(|k| Change::put(key(k), format!("{round}")));
                store.commit(pair.to_vec()).await.unwrap();
            }
        }
    });
    while !writing.is_finished() {
        let loaded = load(&store, "", None).unwrap();
        assert_eq!(loaded.revision.0 % 2, 0, "the newest revision is the end of a group");
        if let [left, right] = loaded.entries.as_slice() {
            assert_eq!(left.value, right.value);
        }
        tokio::task::yield_now().await;
    }
    writing.await.unwrap();
}

pub async fn resumable(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let writing = tokio::spawn({
        let store = store.clone();
        async move { write_many(&store, "k/", 4, 100).await }
    });
    let mut seen = Vec::new();
    let mut from = Revision::ZERO;
    while seen.len() < 400 {
        let mut follower = store.follow(Follow::after(from)).unwrap();
        let batch = next(&mut follower).await.unwrap();
        from = batch.revision;
        seen.extend(batch.events);
    }
    writing.await.unwrap();
    assert_eq!(seen.len(), 400);
    assert_consecutive(&seen, Revision::ZERO);
}

pub async fn resumable_after_restart(factory: Factory<'_>) {
    let (mut harness, store) = open(factory);
    write_many(&store, "k/", 2, 30).await;
    delete(&store, "k/0/0").await;
    let before = events(&store, Follow::after(Revision(7)).with_previous_values(), Revision(61)).await;
    drop(store);
    if !harness.restart() {
        return;
    }
    let store = harness.store();
    let after = events(&store, Follow::after(Revision(7)).with_previous_values(), Revision(61)).await;
    assert_eq!(before, after);
    let mut follower = store.follow(Follow::after(Revision(61))).unwrap();
    let revision = put(&store, "k/new", "v").await;
    assert_eq!(revision, Revision(62));
    assert_eq!(next(&mut follower).await.unwrap().events.len(), 1);
}

pub async fn reliable(factory: Factory<'_>) {
    let (_harness, store) = open_with(factory, Setup { window: Window::Tiny, ..Setup::default() });
    let mut slow = store.follow(Follow::after(Revision::ZERO)).unwrap();
    let mut seen = next_after_put(&store, &mut slow).await;
    write_many(&store, "k/", 8, 250).await;
    let writing = tokio::spawn({
        let store = store.clone();
        async move { write_many(&store, "k/", 8, 250).await }
    });
    while seen.len() < 4001 {
        seen.extend(next(&mut slow).await.unwrap().events);
    }
    writing.await.unwrap();
    assert_eq!(seen.len(), 4001);
    assert_consecutive(&seen, Revision::ZERO);
}

async fn next_after_put(store: &Arc<dyn Store>, follower: &mut Box<dyn Follower>) -> Vec<Event> {
    put(store, "first", "v").await;
    next(follower).await.unwrap().events
}

pub async fn bookmarkable(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let mut follower = store.follow(Follow::after(Revision::ZERO).prefix("quiet/")).unwrap();
    for round in 1..=3 {
        let revision = put(&store, "busy/a", "v").await;
        let batch = next(&mut follower).await.unwrap();
        assert_eq!((batch.events.len(), batch.revision), (0, revision), "round {round}");
    }
    let mut resumed = store.follow(Follow::after(Revision(3)).prefix("quiet/")).unwrap();
    let revision = put(&store, "quiet/a", "v").await;
    for follower in [&mut follower, &mut resumed] {
        let batch = next(follower).await.unwrap();
        assert_eq!((batch.events.len(), batch.revision), (1, revision));
    }
}

pub async fn filtered(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    for name in ["pods/a/1", "pods/ab/1", "pods", "pods/a/2", "podsx/a", "node/1"] {
        put(&store, name, name).await;
    }
    let keys = |prefix| -> Vec<String> {
        load(&store, prefix, None).unwrap().entries.iter().map(|e| e.key.to_string()).collect()
    };
    assert_eq!(keys("pods/a/"), ["pods/a/1", "pods/a/2"]);
    assert_eq!(keys("pods/"), ["pods/a/1", "pods/a/2", "pods/ab/1"]);
    assert_eq!(keys("pods"), ["pods", "pods/a/1", "pods/a/2", "pods/ab/1", "podsx/a"]);
    assert_eq!(keys("").len(), 6);
    assert_eq!(keys("x"), [""; 0]);
    let followed = events(&store, Follow::after(Revision::ZERO).prefix("pods/"), store.revision()).await;
    let followed: Vec<_> = followed.iter().map(|e| e.key.to_string()).collect();
    assert_eq!(followed, ["pods/a/1", "pods/ab/1", "pods/a/2"]);
}

pub async fn create_only_refuses_an_existing_key(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let create = || Change::put(key("a"), "v").create_only();
    assert!(commit(&store, create()).await.is_ok());
    let Err(Error::Conflict(conflict)) = commit(&store, create()).await else { panic!("a exists") };
    assert_eq!(conflict.found.unwrap().head.mod_revision, Revision(1));
    delete(&store, "a").await;
    assert_eq!(commit(&store, create()).await.unwrap().create_revision, Revision(3));
    let racers = (0..16).map(|_| store.commit(vec![Change::put(key("race"), "v").create_only()]));
    let racers: Vec<_> = racers.map(tokio::spawn).collect();
    let mut winners = 0;
    for racer in racers {
        winners += u32::from(racer.await.unwrap().is_ok());
    }
    assert_eq!(winners, 1);
}

pub async fn expected_revision_is_compared(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let first = put(&store, "a", "1").await;
    let change = |value: &str, at| Change::put(key("a"), value.to_owned()).expect_revision(at);
    let second = commit(&store, change("2", first)).await.unwrap().revision;
    assert!(matches!(commit(&store, change("3", first)).await, Err(Error::Conflict(_))));
    assert!(matches!(
        commit(&store, Change::delete(key("a")).expect_revision(first)).await,
        Err(Error::Conflict(_))
    ));
    let absent = Change::put(key("nothing"), "v").expect_revision(second);
    let Err(Error::Conflict(conflict)) = commit(&store, absent).await else { panic!("nothing is there") };
    assert_eq!(conflict.found, None);
    assert!(commit(&store, Change::delete(key("a")).expect_revision(second)).await.is_ok());
    assert_eq!(load(&store, "", None).unwrap().entries, []);
}

pub async fn expected_tag_is_compared(factory: Factory<'_>) {
    let (mut harness, store) = open(factory);
    commit(&store, Change::put(key("a"), "1").tag("uid-1")).await.unwrap();
    let wrong = Change::put(key("a"), "2").tag("uid-1").expect_tag("uid-2");
    let Err(Error::Conflict(conflict)) = commit(&store, wrong).await else { panic!("the tag differs") };
    assert_eq!(conflict.found.unwrap().head.tag, "uid-1".into());
    commit(&store, Change::put(key("a"), "2").tag("uid-1").expect_tag("uid-1")).await.unwrap();
    drop(store);
    harness.restart();
    let store = harness.store();
    if store.revision() == Revision(2) {
        let both = Change::delete(key("a")).expect_tag("uid-1").expect_revision(Revision(1));
        assert!(matches!(commit(&store, both).await, Err(Error::Conflict(_))));
        let both = Change::delete(key("a")).expect_tag("uid-1").expect_revision(Revision(2));
        assert!(commit(&store, both).await.is_ok());
    }
    let absent = Change::put(key("b"), "v").expect_tag("uid-1");
    assert!(matches!(commit(&store, absent).await, Err(Error::Conflict(_))));
}

pub async fn a_delete_of_an_absent_key_is_a_conflict(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let deletes = [
        Change::delete(key("a")),
        Change::delete(key("a")).create_only(),
        Change::delete(key("a")).expect_tag(""),
        Change::delete(key("a")).expect_revision(Revision::ZERO),
    ];
    for delete in deletes {
        let Err(Error::Conflict(conflict)) = commit(&store, delete).await else { panic!("nothing is there") };
        assert_eq!(conflict.found, None);
    }
    assert_eq!(store.revision(), Revision::ZERO);
}

pub async fn a_conflict_carries_the_current_entry(factory: Factory<'_>) {
    let (_harness, store) = open_with(factory, Setup { window: Window::Tiny, ..Setup::default() });
    commit(&store, Change::put(key("a"), "current").tag("uid")).await.unwrap();
    put(&store, "b", "v").await;
    let stale = Change::put(key("a"), "new").expect_revision(Revision(9));
    let Err(Error::Conflict(conflict)) = store.commit(vec![Change::put(key("c"), "v"), stale]).await else {
        panic!("the revision differs")
    };
    assert_eq!(conflict.index, 1);
    let found = conflict.found.unwrap();
    assert_eq!((found.head.create_revision, found.head.mod_revision), (Revision(1), Revision(1)));
    assert_eq!(found.head.tag, "uid".into());
    assert_eq!(found.value.unwrap().unwrap(), "current");
}

pub async fn an_entry_remembers_its_creation(factory: Factory<'_>) {
    let (mut harness, mut store) = open(factory);
    put(&store, "a", "1").await;
    put(&store, "a", "2").await;
    delete(&store, "a").await;
    put(&store, "a", "3").await;
    put(&store, "a", "4").await;
    for _ in 0..2 {
        let entry = store.get(&key("a")).unwrap().unwrap();
        assert_eq!((entry.head.create_revision, entry.head.mod_revision), (Revision(4), Revision(5)));
        let old = load(&store, "a", Some(Revision(2))).unwrap();
        assert_eq!(old.entries[0].head.create_revision, Revision(1));
        drop(store);
        if !harness.restart() {
            return;
        }
        store = harness.store();
    }
}

pub async fn outcomes_and_events_carry_the_previous_entry(factory: Factory<'_>) {
    for window in [Window::Usual, Window::Tiny] {
        let (_harness, store) = open_with(factory, Setup { window, ..Setup::default() });
        let created = commit(&store, Change::put(key("a"), "1").tag("x").returning_value()).await.unwrap();
        assert_eq!(created.previous, None);
        put(&store, "b", "filler").await;
        let changed = commit(&store, Change::put(key("a"), "2").tag("y").returning_value()).await.unwrap();
        let previous = changed.previous.unwrap();
        assert_eq!((previous.head.mod_revision, previous.head.tag), (Revision(1), "x".into()));
        assert_eq!(previous.value.unwrap().unwrap(), "1");
        put(&store, "b", "filler").await;
        let deleted = commit(&store, Change::delete(key("a")).returning_value()).await.unwrap();
        assert_eq!(deleted.create_revision, Revision(1));
        assert_eq!(deleted.previous.unwrap().value.unwrap().unwrap(), "2");

        let follow = Follow { previous: Previous::Value, ..Follow::after(Revision::ZERO).prefix("a") };
        let told = events(&store, follow, store.revision()).await;
        let [create, change, delete] = told.as_slice() else { panic!("three events") };
        assert_eq!((create.kind, &create.previous), (Kind::Put, &None));
        let previous = change.previous.as_ref().unwrap();
        assert_eq!((previous.head.mod_revision, previous.head.tag.clone()), (Revision(1), "x".into()));
        assert_eq!(previous.value, Some(Ok(Bytes::from("1"))));
        assert_eq!(change.head.tag, "y".into());
        let previous = delete.previous.as_ref().unwrap();
        assert_eq!(delete.kind, Kind::Delete);
        assert_eq!((delete.head.create_revision, delete.head.tag.clone()), (Revision(1), "y".into()));
        assert_eq!(delete.value, Ok(Bytes::new()));
        assert_eq!((previous.head.create_revision, previous.head.mod_revision), (Revision(1), Revision(3)));
        assert_eq!(previous.value, Some(Ok(Bytes::from("2"))));
    }
}

pub async fn loads_are_exact(factory: Factory<'_>) {
    let (mut harness, mut store) = open(factory);
    store.commit(vec![Change::put(key("a"), "1"), Change::put(key("b"), "1")]).await.unwrap();
    put(&store, "a", "2").await;
    delete(&store, "b").await;
    put(&store, "b", "2").await;
    let expected = [
        (0, vec![]),
        (1, vec!["a=1"]),
        (2, vec!["a=1", "b=1"]),
        (3, vec!["a=2", "b=1"]),
        (4, vec!["a=2"]),
        (5, vec!["a=2", "b=2"]),
    ];
    for _ in 0..2 {
        for (revision, texts) in &expected {
            let loaded = load(&store, "", Some(Revision(*revision))).unwrap();
            assert_eq!(
                (loaded.revision.0, loaded.texts()),
                (*revision, texts.iter().map(|t| t.to_string()).collect())
            );
        }
        assert_eq!(load(&store, "", None).unwrap().revision, Revision(5));
        drop(store);
        if !harness.restart() {
            return;
        }
        store = harness.store();
    }
}

pub async fn loads_of_many_are_exact(factory: Factory<'_>) {
    const MANY: usize = 3000;
    let (mut harness, mut store) = open(factory);
    let name = |n: usize| format!("many/{n:05}");
    let names: Vec<usize> = (0..MANY).collect();
    for group in names.chunks(100) {
        store.commit(group.iter().map(|n| Change::put(key(&name(*n)), "1")).collect()).await.unwrap();
    }
    put(&store, "many", "x").await;
    put(&store, "many0", "x").await;
    let before = store.revision();
    for group in names.chunks(100) {
        let changes = group.iter().filter(|n| *n % 3 != 2).map(|n| match n % 3 {
            0 => Change::put(key(&name(*n)), "2"),
            _ => Change::delete(key(&name(*n))),
        });
        store.commit(changes.collect()).await.unwrap();
    }
    let old: Vec<String> = names.iter().map(|n| format!("{}=1", name(*n))).collect();
    let new = names.iter().filter(|n| *n % 3 != 1).map(|n| {
        let value = if n % 3 == 0 { 2 } else { 1 };
        format!("{}={value}", name(*n))
    });
    let new: Vec<String> = new.collect();
    for _ in 0..2 {
        assert_eq!(load(&store, "many/", Some(before)).unwrap().texts(), old);
        assert_eq!(load(&store, "many/", None).unwrap().texts(), new);
        assert_eq!(load(&store, "", None).unwrap().texts().len(), new.len() + 2);
        let mut left = 1700;
        let stop = &mut |entry: Result<Entry, Corrupt>| {
            left -= 1;
            assert_eq!(entry.unwrap().key.to_string(), new[1699 - left].split('=').next().unwrap());
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        store.load(b"many/", None, stop).unwrap();
        assert_eq!(left, 0);
        drop(store);
        if !harness.restart() {
            return;
        }
        store = harness.store();
    }
}

pub async fn loads_can_be_stopped(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    write_many(&store, "k/", 4, 3).await;
    let mut visited = 0;
    let stop_at_third = &mut |_| {
        visited += 1;
        if visited == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    store.load(b"k/", None, stop_at_third).unwrap();
    assert_eq!(visited, 3);
}

pub async fn gets_are_current(factory: Factory<'_>) {
    let (_harness, store) = open_with(factory, Setup { window: Window::Tiny, ..Setup::default() });
    assert_eq!(store.get(&key("a")).unwrap(), None);
    for round in 0..20 {
        let value = format!("{round}");
        let revision = put(&store, "a", &value).await;
        let entry = store.get(&key("a")).unwrap().unwrap();
        assert_eq!((entry.value, entry.head.mod_revision), (Bytes::from(value), revision));
    }
    delete(&store, "a").await;
    assert_eq!(store.get(&key("a")).unwrap(), None);
}

pub async fn revisions_after_the_newest_are_refused(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    put(&store, "a", "v").await;
    let future = Revision(2);
    assert!(matches!(load(&store, "", Some(future)), Err(Error::Future { requested, current })
        if requested == future && current == Revision(1)));
    assert!(matches!(store.follow(Follow::after(future)).err(), Some(Error::Future { .. })));
    assert!(matches!(store.compact(future).await, Err(Error::Future { .. })));
}

pub async fn compaction_ends_history(factory: Factory<'_>) {
    let (mut harness, mut store) = open(factory);
    for round in 0..10 {
        put(&store, "a", &format!("{round}")).await;
    }
    put(&store, "b", "v").await;
    delete(&store, "b").await;
    store.compact(Revision(11)).await.unwrap();
    store.compact(Revision(3)).await.unwrap();
    for _ in 0..2 {
        assert_eq!(store.compacted(), Revision(11));
        assert!(
            matches!(load(&store, "", Some(Revision(10))), Err(Error::Compacted { requested, compacted })
            if requested == Revision(10) && compacted == Revision(11))
        );
        assert!(matches!(store.follow(Follow::after(Revision(10))).err(), Some(Error::Compacted { .. })));
        assert_eq!(load(&store, "", Some(Revision(11))).unwrap().texts(), ["a=9", "b=v"]);
        assert_eq!(load(&store, "", None).unwrap().texts(), ["a=9"]);
        let follow = Follow::after(Revision(11)).with_previous_values();
        let told = events(&store, follow, Revision(12)).await;
        assert_eq!(told[0].previous.as_ref().unwrap().value, Some(Ok(Bytes::from("v"))));
        drop(store);
        if !harness.restart() {
            return;
        }
        store = harness.store();
    }
}

pub async fn history_expires_after_the_retention(factory: Factory<'_>) {
    let (_harness, store) =
        open_with(factory, Setup { retention: Duration::from_millis(300), ..Setup::default() });
    write_many(&store, "k/", 4, 25).await;
    assert!(load(&store, "", Some(Revision(1))).is_ok());
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while store.compacted() < Revision(100) {
        assert!(std::time::Instant::now() < deadline, "history should have expired");
        tokio::time::sleep(Duration::from_millis(50)).await;
        put(&store, "tick", "v").await;
    }
    assert!(matches!(load(&store, "", Some(Revision(99))), Err(Error::Compacted { .. })));
    assert_eq!(load(&store, "k/", None).unwrap().entries.len(), 12);
}

pub async fn a_follower_older_than_history_gets_compacted(factory: Factory<'_>) {
    let (_harness, store) = open_with(factory, Setup { window: Window::Tiny, ..Setup::default() });
    let mut follower = store.follow(Follow::after(Revision::ZERO)).unwrap();
    write_many(&store, "k/", 2, 20).await;
    store.compact(Revision(40)).await.unwrap();
    write_many(&store, "k/", 2, 20).await;
    assert!(matches!(next(&mut follower).await, Err(Error::Compacted { .. })));
}

pub async fn backups_restore(factory: Factory<'_>) {
    let (mut harness, store) = open(factory);
    write_many(&store, "k/", 4, 10).await;
    commit(&store, Change::put(key("tagged"), "v").tag("uid")).await.unwrap();
    delete(&store, "k/0/0").await;
    let writing = tokio::spawn({
        let store = store.clone();
        async move { write_many(&store, "later/", 4, 50).await }
    });
    let path = harness.scratch().join("backup");
    let report = tokio::task::spawn_blocking({
        let (store, path) = (store.clone(), path.clone());
        move || store.backup(&path).unwrap()
    });
    let BackupReport { revision, entries, corrupt, .. } = report.await.unwrap();
    writing.await.unwrap();
    let then = load(&store, "", Some(revision)).unwrap();
    assert_eq!((entries, corrupt.len()), (then.entries.len() as u64, 0));

    let restored = harness.restore(&path).unwrap();
    assert_eq!((restored.revision(), restored.compacted()), (revision, revision));
    assert_eq!(load(&restored, "", None).unwrap(), then);
    let tagged = Change::delete(key("tagged")).expect_tag("uid");
    assert_eq!(commit(&restored, tagged).await.unwrap().revision, revision.next());
    assert!(matches!(
        restored.follow(Follow::after(Revision(revision.0 - 1))).err(),
        Some(Error::Compacted { .. })
    ));
    assert_eq!(events(&restored, Follow::after(revision), revision.next()).await.len(), 1);
}

pub async fn backups_do_not_overwrite(factory: Factory<'_>) {
    let (mut harness, store) = open(factory);
    put(&store, "a", "v").await;
    let path = harness.scratch().join("backup");
    store.backup(&path).unwrap();
    assert!(matches!(store.backup(&path), Err(Error::Unusable { .. })));
    let mut bytes = std::fs::read(&path).unwrap();
    for place in [0, 9, 14, 30, bytes.len() - 20] {
        let cut = harness.scratch().join("cut");
        std::fs::write(&cut, &bytes[..place]).unwrap();
        assert!(harness.restore(&cut).is_err(), "cut at {place}");
        bytes[place] ^= 4;
        std::fs::write(&cut, &bytes).unwrap();
        assert!(harness.restore(&cut).is_err(), "changed at {place}");
        bytes[place] ^= 4;
    }
}

pub async fn oversize_is_refused(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let limits = Limits::default();
    let sized = |name: &str, size| Change::put(key(name), vec![7; size]);
    let refused = |outcome: Result<Vec<Committed>, Error>| matches!(outcome, Err(Error::TooLarge { .. }));
    assert!(refused(store.commit(vec![sized("a", limits.value + 1)]).await));
    let group = (0..limits.group / limits.value + 1).map(|n| sized(&format!("k{n}"), limits.value));
    assert!(refused(store.commit(group.collect()).await));
    let group = (0..=limits.changes).map(|n| sized(&format!("k{n}"), 1));
    assert!(refused(store.commit(group.collect()).await));
    let tag = "t".repeat(256);
    assert!(refused(store.commit(vec![sized("a", 1).tag(tag.as_str())]).await));
    assert_eq!(store.revision(), Revision::ZERO);
    store.commit(vec![sized("a", limits.value)]).await.unwrap();
    assert_eq!(store.get(&key("a")).unwrap().unwrap().value.len(), limits.value);
}

pub async fn a_group_names_a_key_once(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let twice = vec![Change::put(key("a"), "1"), Change::put(key("b"), "1"), Change::put(key("a"), "2")];
    assert!(matches!(store.commit(twice).await, Err(Error::RepeatedKey { index: 2, .. })));
    assert_eq!(store.revision(), Revision::ZERO);
}

pub async fn an_empty_group_is_nothing(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    assert_eq!(store.commit(Vec::new()).await.unwrap(), []);
    assert_eq!(store.revision(), Revision::ZERO);
}

pub async fn a_restart_keeps_everything(factory: Factory<'_>) {
    let (mut harness, mut store) = open(factory);
    for round in 0..3 {
        write_many(&store, &format!("{round}/"), 4, 20).await;
        let before = load(&store, "", None).unwrap();
        drop(store);
        if !harness.restart() {
            return;
        }
        store = harness.store();
        assert_eq!(load(&store, "", None).unwrap(), before);
        assert_eq!(store.revision(), before.revision);
        assert_eq!(put(&store, "next", "v").await, before.revision.next());
    }
}

pub async fn a_closed_store_says_so(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    put(&store, "a", "v").await;
    assert!(store.health().is_good());
    let mut follower = store.follow(Follow::after(Revision(1))).unwrap();
    store.close();
    store.close();
    assert!(matches!(next(&mut follower).await, Err(Error::Closed)));
    assert!(matches!(commit(&store, Change::put(key("a"), "v")).await, Err(Error::Closed)));
    assert!(matches!(store.get(&key("a")), Err(Error::Closed)));
    assert!(matches!(load(&store, "", None), Err(Error::Closed)));
    assert!(matches!(store.follow(Follow::after(Revision(1))).err(), Some(Error::Closed)));
    assert!(matches!(store.compact(Revision(1)).await, Err(Error::Closed)));
    assert!(matches!(store.health(), Health::Closed));
}

pub async fn changed_resolves_when_there_is_more_to_follow(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let (first, mut second) = (store.changed(Revision::ZERO), store.changed(Revision(1)));
    put(&store, "a", "v").await;
    first.await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut second).await.is_err());
    put(&store, "b", "v").await;
    second.await.unwrap();
    let never = store.changed(Revision(2));
    store.close();
    assert!(matches!(never.await, Err(Error::Closed)));
    assert!(matches!(store.changed(Revision::ZERO).await, Err(Error::Closed)));
}

pub async fn try_next_returns_changes_that_are_in_memory(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let mut follower = store.follow(Follow::after(Revision::ZERO).with_previous_values()).unwrap();
    assert!(follower.try_next().is_none());
    put(&store, "a", "v").await;
    put(&store, "a", "w").await;
    let Batch { events, revision } = follower.try_next().unwrap().unwrap();
    assert_eq!((events.len(), revision), (2, Revision(2)));
    assert_consecutive(&events, Revision::ZERO);
    assert_eq!(events[1].previous.as_ref().unwrap().value, Some(Ok(Bytes::from("v"))));
    assert!(follower.try_next().is_none());
    assert_consecutive(&next_after_put(&store, &mut follower).await, Revision(2));
    store.close();
    assert!(matches!(follower.try_next(), Some(Err(Error::Closed))));
}

pub async fn try_next_loses_nothing_that_has_to_be_read(factory: Factory<'_>) {
    let (_harness, store) = open_with(factory, Setup { window: Window::Tiny, ..Setup::default() });
    for follow in [Follow::after(Revision::ZERO), Follow::after(Revision::ZERO).with_previous_values()] {
        let mut follower = store.follow(follow).unwrap();
        let (from, mut seen) = (store.revision(), Revision::ZERO);
        write_many(&store, "k/", 2, 20).await;
        while seen < Revision(from.0 + 40) {
            let batch = match follower.try_next() {
                Some(batch) => batch.unwrap(),
                None => next(&mut follower).await.unwrap(),
            };
            assert_consecutive(&batch.events, seen);
            assert_eq!(batch.revision, Revision(seen.0 + batch.events.len() as u64));
            seen = batch.revision;
        }
        assert!(follower.try_next().is_none());
    }
}

pub async fn a_dropped_commit_still_happens(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let mut follower = store.follow(Follow::after(Revision::ZERO)).unwrap();
    drop(store.commit(vec![Change::put(key("a"), "v")]));
    assert_eq!(next(&mut follower).await.unwrap().events.len(), 1);
}

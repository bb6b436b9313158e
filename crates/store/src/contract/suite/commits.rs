//! Commits: their revisions, preconditions and outcomes.

use super::*;

pub async fn increasing(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let start = store.known_revision();
    assert!(start <= Revision(1), "nothing was ever written, but the revision is {start}");
    let revisions = write_many(&store, "k/", 8, 25).await;
    assert_eq!(revisions.len(), 200);
    assert!(revisions[0] > start);
    let newest = *revisions.last().unwrap();
    assert!(store.known_revision() >= newest && store.newest_revision().await.unwrap() >= newest);
    assert!(put(&store, "a", "v").await > newest);
}

/// The newest revision covers what was acknowledged before the question, and followers come to it.
pub async fn consistent(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let mut follower = store.follow(Follow::after(Revision::ZERO)).unwrap();
    let mut reached = Revision::ZERO;
    for round in 0..30 {
        let revision = put(&store, "a", &format!("{round}")).await;
        let newest = store.newest_revision().await.unwrap();
        assert!(newest >= revision);
        while reached < newest {
            let batch = next(&mut follower).await.unwrap();
            assert!(batch.revision > reached, "a batch makes progress");
            reached = batch.revision;
        }
    }
}

pub async fn create_only_refuses_an_existing_key(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let create = || Change::put(key("a"), "v").create_only();
    let first = store.commit(create()).await.unwrap();
    let Err(Error::Conflict(conflict)) = store.commit(create()).await else { panic!("a exists") };
    assert_eq!(conflict.found.unwrap().head.mod_revision, first.revision);
    let deleted = delete(&store, "a").await;
    let again = store.commit(create()).await.unwrap();
    assert!(again.create_revision > deleted && again.create_revision == again.revision);
    let racers = (0..16).map(|_| store.commit(Change::put(key("race"), "v").create_only()));
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
    let second = store.commit(change("2", first)).await.unwrap().revision;
    assert!(matches!(store.commit(change("3", first)).await, Err(Error::Conflict(_))));
    let stale = Change::delete(key("a")).expect_revision(first);
    assert!(matches!(store.commit(stale).await, Err(Error::Conflict(_))));
    let absent = Change::put(key("nothing"), "v").expect_revision(second);
    let Err(Error::Conflict(conflict)) = store.commit(absent).await else { panic!("nothing is there") };
    assert_eq!(conflict.found, None);
    assert!(store.commit(Change::delete(key("a")).expect_revision(second)).await.is_ok());
    assert_eq!(load(&store, "", None).unwrap().entries, []);
}

/// Of writers that read the same revision and write at once, one wins: no update is lost.
pub async fn one_of_many_conditional_writes_wins(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let mut at = put(&store, "a", "0").await;
    for round in 0..20 {
        let change = || Change::put(key("a"), format!("{round}")).expect_revision(at);
        let racers: Vec<_> = (0..8).map(|_| tokio::spawn(store.commit(change()))).collect();
        let mut winners = Vec::new();
        for racer in racers {
            winners.extend(racer.await.unwrap().ok().map(|committed| committed.revision));
        }
        assert_eq!(winners.len(), 1);
        at = winners[0];
    }
}

pub async fn a_delete_of_an_absent_key_is_a_conflict(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let deletes = [
        Change::delete(key("a")),
        Change::delete(key("a")).create_only(),
        Change::delete(key("a")).expect_revision(Revision::ZERO),
    ];
    for delete in deletes {
        let Err(Error::Conflict(conflict)) = store.commit(delete).await else { panic!("nothing is there") };
        assert_eq!((conflict.key, conflict.found), (key("a"), None));
    }
    assert_eq!(load(&store, "", None).unwrap().entries, []);
}

pub async fn a_conflict_carries_the_current_entry(factory: Factory<'_>) {
    let (_harness, store) = open_with(factory, tiny());
    let revision = put(&store, "a", "current").await;
    put(&store, "b", "v").await;
    let stale = Change::put(key("a"), "new").expect_revision(Revision(revision.0 + 1000));
    let Err(Error::Conflict(conflict)) = store.commit(stale).await else { panic!("the revision differs") };
    let found = conflict.found.unwrap();
    assert_eq!((found.head.create_revision, found.head.mod_revision), (revision, revision));
    assert_eq!((conflict.key, found.value.unwrap().unwrap()), (key("a"), Bytes::from("current")));
}

pub async fn an_entry_remembers_its_creation(factory: Factory<'_>) {
    let (mut harness, mut store) = open(factory);
    let first = put(&store, "a", "1").await;
    let second = put(&store, "a", "2").await;
    delete(&store, "a").await;
    let created = put(&store, "a", "3").await;
    let newest = put(&store, "a", "4").await;
    for _ in 0..2 {
        let entry = store.get(&key("a")).unwrap().unwrap();
        assert_eq!((entry.head.create_revision, entry.head.mod_revision), (created, newest));
        let old = load(&store, "a", Some(second)).unwrap();
        assert_eq!(old.entries[0].head.create_revision, first);
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
        let created = store.commit(Change::put(key("a"), "1").returning_value()).await.unwrap();
        assert_eq!(created.previous, None);
        put(&store, "b", "filler").await;
        let changed = store.commit(Change::put(key("a"), "2").returning_value()).await.unwrap();
        let previous = changed.previous.unwrap();
        assert_eq!(previous.head.mod_revision, created.revision);
        assert_eq!(previous.value.unwrap().unwrap(), "1");
        put(&store, "b", "filler").await;
        let deleted = store.commit(Change::delete(key("a")).returning_value()).await.unwrap();
        assert_eq!(deleted.create_revision, created.revision);
        assert_eq!(deleted.previous.unwrap().value.unwrap().unwrap(), "2");

        let follow = Follow { previous: Previous::Value, ..Follow::after(Revision::ZERO).prefix("a") };
        let followed = events(&store, follow, store.known_revision()).await;
        let [create, change, delete] = followed.as_slice() else { panic!("three events") };
        assert_eq!((create.kind, &create.previous), (ChangeKind::Put, &None));
        let previous = change.previous.as_ref().unwrap();
        assert_eq!(previous.head.mod_revision, created.revision);
        assert_eq!(previous.value, Some(Ok(Bytes::from("1"))));
        let previous = delete.previous.as_ref().unwrap();
        assert_eq!((delete.kind, delete.head.create_revision), (ChangeKind::Delete, created.revision));
        assert_eq!(delete.value, Ok(Bytes::new()));
        let heads = (previous.head.create_revision, previous.head.mod_revision);
        assert_eq!(heads, (created.revision, changed.revision));
        assert_eq!(previous.value, Some(Ok(Bytes::from("2"))));
    }
}

pub async fn oversize_is_refused(factory: Factory<'_>) {
    const LIMIT: usize = 3 * 1024 * 1024;
    let (_harness, store) = open(factory);
    let sized = |size| Change::put(key("a"), vec![7; size]);
    assert!(matches!(store.commit(sized(LIMIT + 100)).await, Err(Error::TooLarge { .. })));
    assert_eq!(store.get(&key("a")).unwrap(), None);
    store.commit(sized(LIMIT - 100)).await.unwrap();
    assert_eq!(store.get(&key("a")).unwrap().unwrap().value.len(), LIMIT - 100);
}

/// Whether a dropped commit was begun in time is left to chance; loads and followers agree on its outcome,
/// which does not change later.
pub async fn a_dropped_commit_happens_or_never_does(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let start = store.known_revision();
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for turn in 0..20 {
                    drop(store.commit(Change::put(key(&format!("dropped/{writer}-{turn}")), "v")));
                    put(&store, &format!("kept/{writer}-{turn}"), "v").await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let newest = store.newest_revision().await.unwrap();
    let mut followed: Vec<String> = events(&store, Follow::after(start), newest)
        .await
        .iter()
        .map(|event| event.key.to_string())
        .collect();
    followed.sort();
    let loaded = load(&store, "", None).unwrap();
    assert_eq!(followed, loaded.entries.iter().map(|entry| entry.key.to_string()).collect::<Vec<_>>());
    assert_eq!(loaded.entries.iter().filter(|entry| entry.key.as_bytes().starts_with(b"kept/")).count(), 160);
    put(&store, "kept/end", "v").await;
    assert_eq!(load(&store, "", None).unwrap().entries.len(), loaded.entries.len() + 1);
}

//! Followers: order, completeness, and where they start again.

use super::*;

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
    assert_events(&events, &writing.await.unwrap());
}

/// A batch holds all changes of a revision, also while many are written.
pub async fn atomic(factory: Factory<'_>) {
    let (_harness, store) = open_with(factory, tiny());
    let writing = tokio::spawn({
        let store = store.clone();
        async move { write_many(&store, "k/", 16, 30).await }
    });
    let mut follower = store.follow(Follow::after(Revision::ZERO)).unwrap();
    let (mut at, mut count) = (Revision::ZERO, 0);
    while count < 480 {
        let batch = next(&mut follower).await.unwrap();
        for event in &batch.events {
            assert!(event.revision() > at, "no revision is cut in two");
            assert!(event.revision() <= batch.revision, "a batch covers its events");
        }
        count += batch.events.len();
        at = batch.revision;
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
    assert_events(&seen, &writing.await.unwrap());
}

/// History is complete after any revision between the first and the newest, be it the revision of a change or
/// not.
pub async fn resumable_from_any_revision(factory: Factory<'_>) {
    for setup in [Setup::default(), tiny()] {
        let (_harness, store) = open_with(factory, setup);
        let revisions = write_many(&store, "k/", 4, 8).await;
        let newest = store.known_revision();
        for from in (0..=newest.0).map(Revision) {
            let after: Vec<_> = revisions.iter().copied().filter(|revision| *revision > from).collect();
            assert_events(&events(&store, Follow::after(from), newest).await, &after);
        }
    }
}

pub async fn resumable_after_restart(factory: Factory<'_>) {
    let (mut harness, store) = open(factory);
    let from = write_many(&store, "k/", 2, 30).await[7];
    let newest = delete(&store, "k/0/0").await;
    let before = events(&store, Follow::after(from).with_previous_values(), newest).await;
    drop(store);
    if !harness.restart() {
        return;
    }
    let store = harness.store();
    let after = events(&store, Follow::after(from).with_previous_values(), newest).await;
    assert_eq!(before, after);
    let mut follower = store.follow(Follow::after(newest)).unwrap();
    assert!(put(&store, "k/new", "v").await > newest);
    assert_eq!(next(&mut follower).await.unwrap().events.len(), 1);
}

pub async fn reliable(factory: Factory<'_>) {
    let (_harness, store) = open_with(factory, tiny());
    let mut slow = store.follow(Follow::after(Revision::ZERO)).unwrap();
    let mut written = vec![put(&store, "first", "v").await];
    let mut seen = next(&mut slow).await.unwrap().events;
    written.extend(write_many(&store, "k/", 8, 250).await);
    let writing = tokio::spawn({
        let store = store.clone();
        async move { write_many(&store, "k/", 8, 250).await }
    });
    while seen.len() < 4001 {
        seen.extend(next(&mut slow).await.unwrap().events);
    }
    written.extend(writing.await.unwrap());
    assert_events(&seen, &written);
}

pub async fn bookmarkable(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let mut follower = store.follow(Follow::after(Revision::ZERO).prefix("quiet/")).unwrap();
    let mut last = Revision::ZERO;
    for _ in 0..3 {
        last = put(&store, "busy/a", "v").await;
        let mut at = Revision::ZERO;
        while at < last {
            let batch = next(&mut follower).await.unwrap();
            assert_eq!(batch.events, []);
            at = batch.revision;
        }
    }
    let mut resumed = store.follow(Follow::after(last).prefix("quiet/")).unwrap();
    let revision = put(&store, "quiet/a", "v").await;
    for follower in [&mut follower, &mut resumed] {
        let batch = next(follower).await.unwrap();
        assert_eq!((batch.events.len(), batch.revision), (1, revision));
    }
}

pub async fn changed_resolves_when_there_is_more_to_follow(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let first = store.changed(Revision::ZERO);
    let revision = put(&store, "a", "v").await;
    first.await.unwrap();
    let mut second = store.changed(revision);
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut second).await.is_err());
    let revision = put(&store, "b", "v").await;
    second.await.unwrap();
    let never = store.changed(revision);
    store.close();
    assert!(matches!(never.await, Err(Error::Closed)));
    assert!(matches!(store.changed(Revision::ZERO).await, Err(Error::Closed)));
}

pub async fn try_next_returns_changes_that_are_in_memory(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let start = Follow::after(store.known_revision());
    let mut follower = store.follow(start.with_previous_values()).unwrap();
    assert!(follower.try_next().is_none());
    let revisions = [put(&store, "a", "v").await, put(&store, "a", "w").await];
    let Batch { events, revision } = follower.try_next().unwrap().unwrap();
    assert_events(&events, &revisions);
    assert_eq!(revision, revisions[1]);
    assert_eq!(events[1].previous.as_ref().unwrap().value, Some(Ok(Bytes::from("v"))));
    assert!(follower.try_next().is_none());
    let last = put(&store, "first", "v").await;
    assert_events(&next(&mut follower).await.unwrap().events, &[last]);
    store.close();
    assert!(matches!(follower.try_next(), Some(Err(Error::Closed))));
}

pub async fn try_next_loses_nothing_that_has_to_be_read(factory: Factory<'_>) {
    let (_harness, store) = open_with(factory, tiny());
    let mut written = Vec::new();
    for follow in [Follow::after(Revision::ZERO), Follow::after(Revision::ZERO).with_previous_values()] {
        let mut follower = store.follow(follow).unwrap();
        written.extend(write_many(&store, "k/", 2, 20).await);
        let mut seen = Vec::new();
        while seen.len() < written.len() {
            let batch = match follower.try_next() {
                Some(batch) => batch.unwrap(),
                None => next(&mut follower).await.unwrap(),
            };
            seen.extend(batch.events);
        }
        assert_events(&seen, &written);
        assert!(follower.try_next().is_none());
    }
}

pub async fn a_follower_older_than_history_gets_compacted(factory: Factory<'_>) {
    let (_harness, store) = open_with(factory, tiny());
    let mut follower = store.follow(Follow::after(Revision::ZERO)).unwrap();
    let newest = *write_many(&store, "k/", 2, 20).await.last().unwrap();
    store.compact(newest).await.unwrap();
    write_many(&store, "k/", 2, 20).await;
    assert!(matches!(next(&mut follower).await, Err(Error::Compacted { .. })));
}

//! Compaction, expiry, backups, restarts and the end.

use super::*;

pub async fn compaction_ends_history(factory: Factory<'_>) {
    let (mut harness, mut store) = open(factory);
    let mut revisions = Vec::new();
    for round in 0..10 {
        revisions.push(put(&store, "a", &format!("{round}")).await);
    }
    let kept = put(&store, "b", "v").await;
    let newest = delete(&store, "b").await;
    store.compact(kept).await.unwrap();
    store.compact(revisions[3]).await.unwrap();
    let gone = Revision(kept.0 - 1);
    for _ in 0..2 {
        assert_eq!(store.compacted(), kept);
        assert!(matches!(load(&store, "", Some(gone)), Err(Error::Compacted { requested, compacted })
            if requested == gone && compacted == kept));
        assert!(matches!(store.follow(Follow::after(gone)).err(), Some(Error::Compacted { .. })));
        assert_eq!(load(&store, "", Some(kept)).unwrap().texts(), ["a=9", "b=v"]);
        assert_eq!(load(&store, "", None).unwrap().texts(), ["a=9"]);
        let follow = Follow::after(kept).with_previous_values();
        let followed = events(&store, follow, newest).await;
        assert_eq!(followed[0].previous.as_ref().unwrap().value, Some(Ok(Bytes::from("v"))));
        drop(store);
        if !harness.restart() {
            return;
        }
        store = harness.store();
    }
}

/// Also without further writes: history then starts at the newest revision.
pub async fn history_expires_after_the_retention(factory: Factory<'_>) {
    let retention = Duration::from_millis(300);
    let (harness, store) = open_with(factory, Setup { retention, ..Setup::default() });
    write_many(&store, "k/", 4, 25).await;
    let superseded = std::time::Instant::now();
    let newest = put(&store, "k/last", "v").await;
    let old = Revision(newest.0 - 1);
    while load(&store, "", Some(old)).is_ok() || store.compacted() < newest {
        assert!(superseded.elapsed() < Duration::from_secs(20), "history should have expired");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // A store may count in milliseconds.
    assert!(superseded.elapsed() >= retention - Duration::from_millis(2), "{:?}", superseded.elapsed());
    assert!(matches!(load(&store, "", Some(old)), Err(Error::Compacted { .. })));
    // A store that notes its compactions in a key has newer revisions than that of the last commit, which
    // expire in turn.
    let reach = loop {
        let oldest = store.compacted();
        assert!(oldest == newest || harness.has_revisions_of_its_own());
        match load(&store, "k/", Some(oldest)) {
            Err(Error::Compacted { .. }) if harness.has_revisions_of_its_own() => {}
            loaded => break loaded.unwrap(),
        }
    };
    assert_eq!(reach.entries.len(), 13);
    assert!(store.follow(Follow::after(reach.revision)).is_ok() || harness.has_revisions_of_its_own());
}

pub async fn backups_restore(factory: Factory<'_>) {
    let (mut harness, store) = open(factory);
    write_many(&store, "k/", 4, 10).await;
    delete(&store, "k/0/0").await;
    let writing = tokio::spawn({
        let store = store.clone();
        async move { write_many(&store, "later/", 4, 50).await }
    });
    let path = harness.scratch().join("backup");
    let report = tokio::task::spawn_blocking({
        let (store, path) = (store.clone(), path.clone());
        move || backup::create(&*store, &path).unwrap()
    });
    let backup::Report { revision, entries, missing, .. } = report.await.unwrap();
    writing.await.unwrap();
    let then = load(&store, "", Some(revision)).unwrap();
    assert_eq!((entries, missing.len()), (then.entries.len() as u64, 0));

    let restored = harness.restore(&path).unwrap();
    assert_eq!((restored.known_revision(), restored.compacted()), (revision, revision));
    assert_eq!(load(&restored, "", None).unwrap(), then);
    let next = delete(&restored, "k/0/1").await;
    assert!(next > revision);
    assert!(matches!(
        restored.follow(Follow::after(Revision(revision.0 - 1))).err(),
        Some(Error::Compacted { .. })
    ));
    assert_eq!(events(&restored, Follow::after(revision), next).await.len(), 1);
}

pub async fn backups_do_not_overwrite(factory: Factory<'_>) {
    let (mut harness, store) = open(factory);
    put(&store, "a", "v").await;
    let path = harness.scratch().join("backup");
    backup::create(&*store, &path).unwrap();
    assert!(matches!(backup::create(&*store, &path), Err(Error::Unusable { .. })));
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
        assert_eq!(store.known_revision(), before.revision);
        assert!(put(&store, "next", "v").await > before.revision);
    }
}

pub async fn a_closed_store_says_so(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let revision = put(&store, "a", "v").await;
    assert!(store.health().is_good());
    let mut follower = store.follow(Follow::after(revision)).unwrap();
    store.close();
    store.close();
    assert!(matches!(next(&mut follower).await, Err(Error::Closed)));
    assert!(matches!(store.commit(Change::put(key("a"), "v")).await, Err(Error::Closed)));
    assert!(matches!(store.get(&key("a")), Err(Error::Closed)));
    assert!(matches!(load(&store, "", None), Err(Error::Closed)));
    assert!(matches!(store.follow(Follow::after(revision)).err(), Some(Error::Closed)));
    assert!(matches!(store.compact(revision).await, Err(Error::Closed)));
    assert!(matches!(store.health(), Health::Closed));
}

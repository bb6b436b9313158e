//! Loads and gets: prefixes, exactness, and what is out of reach.

use super::*;

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
    let all = Follow::after(Revision::ZERO).prefix("pods/");
    let followed = events(&store, all, store.known_revision()).await;
    let followed: Vec<_> = followed.iter().map(|e| e.key.to_string()).collect();
    assert_eq!(followed, ["pods/a/1", "pods/ab/1", "pods/a/2"]);
}

pub async fn loads_are_exact(factory: Factory<'_>) {
    let (mut harness, mut store) = open(factory);
    let revisions = [
        put(&store, "a", "1").await,
        put(&store, "b", "1").await,
        put(&store, "a", "2").await,
        delete(&store, "b").await,
        put(&store, "b", "2").await,
    ];
    let states =
        [vec![], vec!["a=1"], vec!["a=1", "b=1"], vec!["a=2", "b=1"], vec!["a=2"], vec!["a=2", "b=2"]];
    for _ in 0..2 {
        for at in 0..=revisions[4].0 {
            let changes = revisions.iter().filter(|revision| revision.0 <= at).count();
            let loaded = load(&store, "", Some(Revision(at))).unwrap();
            assert_eq!(
                (loaded.revision.0, loaded.texts()),
                (at, states[changes].iter().map(|t| t.to_string()).collect())
            );
        }
        assert!(load(&store, "", None).unwrap().revision >= revisions[4]);
        drop(store);
        if !harness.restart() {
            return;
        }
        store = harness.store();
    }
}

/// What is loaded is the outcome of the changes up to its revision, also while many are written.
pub async fn loads_during_writes_are_exact(factory: Factory<'_>) {
    let (_harness, store) = open(factory);
    let writing = tokio::spawn({
        let store = store.clone();
        async move { write_many(&store, "k/", 8, 40).await }
    });
    let mut loads = Vec::new();
    while !writing.is_finished() {
        loads.push(load(&store, "", None).unwrap());
        tokio::task::yield_now().await;
    }
    writing.await.unwrap();
    for loaded in loads {
        assert_eq!(load(&store, "", Some(loaded.revision)).unwrap(), loaded);
    }
}

pub async fn loads_of_many_are_exact(factory: Factory<'_>) {
    const MANY: usize = 3000;
    let (mut harness, mut store) = open(factory);
    let name = |n: usize| format!("many/{n:05}");
    let names: Vec<usize> = (0..MANY).collect();
    commit_all(&store, names.iter().map(|n| Change::put(key(&name(*n)), "1"))).await;
    put(&store, "many", "x").await;
    let before = put(&store, "many0", "x").await;
    let changes = names.iter().filter(|n| *n % 3 != 2).map(|n| match n % 3 {
        0 => Change::put(key(&name(*n)), "2"),
        _ => Change::delete(key(&name(*n))),
    });
    commit_all(&store, changes).await;
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
        let stop = &mut |entry: Result<Entry, Unreadable>| {
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
    let (_harness, store) = open_with(factory, tiny());
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
    let newest = store.known_revision();
    let future = newest.next();
    assert!(matches!(load(&store, "", Some(future)), Err(Error::Future { requested, current })
        if requested == future && current == newest));
    assert!(matches!(store.follow(Follow::after(future)).err(), Some(Error::Future { .. })));
    assert!(matches!(store.compact(future).await, Err(Error::Future { .. })));
}

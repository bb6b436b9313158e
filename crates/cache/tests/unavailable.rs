//! Objects that cannot be decrypted at present: they are neither shown nor replaced, their type lags alone,
//! and they are there again when their key is.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use bytes::Bytes;
use cache::watch::{Item, Start, WatchOptions};
use cache::{Cache, CacheOptions, Change, Cursor, Error, Filter, Freshness, Query, Resource, Spec, Update};
use std::collections::HashSet;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
use std::time::{Duration, Instant};
use store::{Codec, Coded, DecodeError, Key, Patience, Store, memory::Memory};

/// Values are sealed with named keys, which are known or have to be asked for.
#[derive(Default)]
struct Seals {
    known: Mutex<HashSet<String>>,
    /// Whether a question is answered with the key.
    answers: AtomicBool,
    /// How long an answer takes, in milliseconds.
    delay: AtomicUsize,
    questions: AtomicUsize,
}

fn sealed(key: &str, value: &[u8]) -> Bytes {
    [key.as_bytes(), b":", value].concat().into()
}

impl Codec for Seals {
    fn encode_value(&self, _: &Key, value: Bytes) -> Result<Bytes, String> {
        Ok(sealed("own", &value))
    }

    fn decode_value(&self, _: &Key, stored: Bytes, patience: Patience) -> Result<Bytes, DecodeError> {
        let at = stored.iter().position(|byte| *byte == b':');
        let at = at.ok_or_else(|| DecodeError::Damaged("it is not sealed".into()))?;
        let name = String::from_utf8_lossy(&stored[..at]).into_owned();
        let is_known = || name == "own" || self.known.lock().unwrap().contains(&name);
        if patience == Patience::Wait && !is_known() {
            self.questions.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(self.delay.load(Ordering::SeqCst) as u64));
            if self.answers.load(Ordering::SeqCst) {
                self.known.lock().unwrap().insert(name.clone());
            }
        }
        match is_known() {
            true => Ok(stored.slice(at + 1..)),
            false => Err(DecodeError::Unavailable(format!("the key {name} is not known"))),
        }
    }
}

struct Fixture {
    raw: Arc<Memory>,
    seals: Arc<Seals>,
    cache: Cache,
    secrets: Arc<Resource>,
    maps: Arc<Resource>,
}

fn json(name: &str, about: &str) -> String {
    format!(
        r#"{{"kind":"X","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"n"}},"data":"{about}"}}"#
    )
}

/// What another server writes, with a key that this one does not know.
fn foreign(key: &str, name: &str, about: &str) -> store::Change {
    let framed = cache::frame::of(json(name, about).as_bytes()).unwrap();
    store::Change::put(Key::try_from(format!("secrets/n/{name}")).unwrap(), sealed(key, &framed))
}

impl Fixture {
    async fn new(before: Vec<store::Change>) -> Self {
        let (raw, seals) = (Arc::new(Memory::default()), Arc::new(Seals::default()));
        for change in before {
            raw.commit(change).await.unwrap();
        }
        let store = Arc::new(Coded::new(raw.clone(), seals.clone()));
        let specs = ["secrets", "configmaps"].map(|prefix| Spec::namespaced(prefix).unwrap());
        let options = CacheOptions { wait: Duration::from_millis(500), ..CacheOptions::default() };
        let cache = Cache::open(store, specs, options).await.unwrap();
        let [secrets, maps] = ["secrets", "configmaps"].map(|prefix| cache.resource(prefix).unwrap());
        Self { raw, seals, cache, secrets, maps }
    }

    fn put(&self, name: &str) -> Change {
        Change::put(&self.secrets, "n", name, json(name, "own"))
    }

    async fn until_readable(&self, name: &str) {
        let begin = Instant::now();
        while self.secrets.get("n", name, Freshness::Any).await.is_err() {
            assert!(begin.elapsed() < Duration::from_secs(20), "{name} stays unreadable");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_cannot_be_decrypted_is_not_replaced_and_comes_back() {
    let f = Fixture::new(vec![foreign("other", "a", "secret"), foreign("own", "b", "plain")]).await;
    assert!(matches!(f.secrets.get("n", "a", Freshness::MostRecent).await, Err(Error::Unavailable(_))));
    assert!(f.secrets.get("n", "b", Freshness::MostRecent).await.unwrap().is_some());
    let list = f.secrets.list(Query::new(Freshness::MostRecent, Filter::namespace("n"))).await;
    assert!(matches!(list, Err(Error::Unavailable(_))), "{list:?}");
    let watch = f.secrets.watch(WatchOptions::new(Start::State(Freshness::MostRecent))).await;
    assert!(matches!(watch.map(drop), Err(Error::Unavailable(_))));
    assert!(f.secrets.check_available().is_err() && f.maps.check_available().is_ok());

    // It exists: a create is a conflict, with or without its state.
    let created = f.cache.commit(f.put("a").create_or_replace_damaged()).await;
    assert!(matches!(created, Err(Error::Conflict(_))), "{created:?}");

    let mut cursor = Cursor::new(f.secrets.clone());
    let mut names = Vec::new();
    cursor.advance(|update| {
        if let Update::Change { after: Some(entry), .. } = update {
            names.push(entry.name().to_owned());
        }
    });
    assert_eq!(names, ["b"]);
    let mut watcher = f.secrets.watch(WatchOptions::new(Start::After(f.cache.revision()))).await.unwrap();

    f.seals.answers.store(true, Ordering::SeqCst);
    f.until_readable("a").await;
    let found = f.secrets.get("n", "a", Freshness::MostRecent).await.unwrap().unwrap();
    assert!(std::str::from_utf8(found.bytes()).unwrap().contains("secret"));
    assert_eq!(found.mod_revision().0, 1);
    assert_eq!(f.secrets.list(Query::default()).await.unwrap().count(), 2);
    assert!(f.secrets.check_available().is_ok());

    // No change says that it is readable: an index begins anew, and a watch ends, so that its client lists.
    names.clear();
    assert!(!cursor.is_current());
    let mut resets = 0;
    cursor.advance(|update| match update {
        Update::Change { after: Some(entry), .. } => names.push(entry.name().to_owned()),
        Update::Reset => resets += 1,
        Update::Change { .. } => {}
    });
    assert_eq!((resets, names), (1, vec!["a".to_owned(), "b".to_owned()]));
    assert!(matches!(watcher.next().await, Err(Error::TooOld { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_type_that_waits_for_a_key_lags_alone() {
    let f = Fixture::new(Vec::new()).await;
    f.seals.answers.store(true, Ordering::SeqCst);
    f.seals.delay.store(400, Ordering::SeqCst);
    let mut watcher = f.secrets.watch(WatchOptions::new(Start::After(f.cache.revision()))).await.unwrap();
    f.cache.commit(f.put("before")).await.unwrap();
    let begin = Instant::now();
    f.raw.commit(foreign("other", "a", "secret")).await.unwrap();
    let map = Change::put(&f.maps, "n", "m", json("m", "map"));
    f.cache.commit(map).await.unwrap();
    f.cache.commit(f.put("after")).await.unwrap();
    assert!(begin.elapsed() < Duration::from_millis(300), "a write waited for a key");
    assert!(f.maps.get("n", "m", Freshness::MostRecent).await.unwrap().is_some());
    assert!(begin.elapsed() < Duration::from_millis(300), "a read of another type waited for a key");

    // Readers of the newest state of the type wait, and see all of it.
    assert!(f.secrets.get("n", "after", Freshness::MostRecent).await.unwrap().is_some());
    assert!(f.secrets.get("n", "a", Freshness::Any).await.unwrap().is_some());
    let mut names = Vec::new();
    while names.len() < 3 {
        for item in watcher.next().await.unwrap().iter() {
            if let Item::Event(event) = item {
                names.push(event.entry.name().to_owned());
            }
        }
    }
    assert_eq!(names, ["before", "a", "after"], "changes come in the order of revisions");
    assert_eq!(f.seals.questions.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_type_whose_key_does_not_come_goes_on_without_the_object() {
    let f = Fixture::new(Vec::new()).await;
    f.cache.commit(f.put("a")).await.unwrap();
    let mut watcher = f.secrets.watch(WatchOptions::new(Start::After(f.cache.revision()))).await.unwrap();
    f.raw.commit(foreign("other", "a", "newer")).await.unwrap();
    f.cache.commit(f.put("b")).await.unwrap();
    assert!(f.secrets.get("n", "b", Freshness::MostRecent).await.unwrap().is_some());
    assert!(matches!(f.secrets.get("n", "a", Freshness::MostRecent).await, Err(Error::Unavailable(_))));
    assert!(matches!(watcher.next().await, Err(Error::Unavailable(_))));
    // A write that knows the revision may replace or delete it: that is for those who have read it elsewhere.
    f.seals.answers.store(true, Ordering::SeqCst);
    f.until_readable("a").await;
    let found = f.secrets.get("n", "a", Freshness::MostRecent).await.unwrap().unwrap();
    assert!(std::str::from_utf8(found.bytes()).unwrap().contains("newer"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_type_that_lags_too_far_is_loaded_again() {
    let f = Fixture::new(Vec::new()).await;
    f.seals.answers.store(true, Ordering::SeqCst);
    f.seals.delay.store(1500, Ordering::SeqCst);
    let large = "x".repeat(1 << 20);
    for at in 0..40 {
        f.raw.commit(foreign("other", &format!("s{at}"), &large)).await.unwrap();
    }
    let begin = Instant::now();
    loop {
        match f.secrets.list(Query::new(Freshness::MostRecent, Filter::all())).await {
            Ok(list) => break assert_eq!(list.count(), 40),
            Err(Error::Lagging { .. }) => {
                assert!(begin.elapsed() < Duration::from_secs(20), "the type stays behind");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

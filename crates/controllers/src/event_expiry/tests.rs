use super::*;
use cache::Committed;
use cache::watch::{EventType, Item};
use store::memory::Memory;

const HOUR: Duration = Duration::from_secs(3600);

async fn open(store: Arc<Memory>) -> Arc<Cache> {
    let cache = Cache::open(store, registry::specs().unwrap(), cache::CacheOptions::default());
    Arc::new(cache.await.unwrap())
}

/// Writes an event that the server would have noted times in, so many seconds ago.
async fn write(cache: &Cache, name: &str, made: i64, managed: Option<i64>) -> Revision {
    let at = |ago: i64| Time::from_unix(Time::now().unix() - ago);
    let managed = managed.map_or(String::new(), |ago| {
        format!(r#","managedFields":[{{"manager":"m","operation":"Update","time":"{}"}}]"#, at(ago))
    });
    let json = format!(
        r#"{{"kind":"Event","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"n","creationTimestamp":"{}",
        "finalizers":["a.b/c"]{managed}}},"involvedObject":{{"namespace":"n"}}}}"#,
        at(made)
    );
    let events = cache.resource("events").unwrap();
    match cache.commit(Change::put(&events, "n", name, json)).await.unwrap() {
        Committed::Put(entry) => entry.mod_revision(),
        Committed::Deleted { .. } => panic!("{name} is gone"),
    }
}

fn names(cache: &Cache) -> String {
    let events = cache.resource("events").unwrap();
    let names = ["a", "b", "c", "d"].into_iter().filter(|name| events.lookup("n", name).unwrap().is_some());
    names.collect()
}

/// The names that are there a minute before a time, and a minute or two slices after it.
async fn around(cache: &Cache, time: Instant) -> [String; 2] {
    sleep_until(time - LONGEST).await;
    let before = names(cache);
    sleep_until(time + LONGEST * 2).await;
    [before, names(cache)]
}

#[tokio::test(start_paused = true)]
async fn events_go_an_hour_after_their_last_write_and_watchers_see_it() {
    let cache = open(Arc::default()).await;
    let _running = tokio::spawn(run(cache.clone(), HOUR));
    let begin = Instant::now();
    write(&cache, "a", 0, None).await;
    let last = write(&cache, "b", 0, None).await;
    sleep_until(begin + HOUR / 2).await;
    let rewritten = write(&cache, "b", 0, None).await;
    write(&cache, "c", 0, None).await;
    let events = cache.resource("events").unwrap();
    let mut watcher = events.watch(WatchOptions::new(Start::After(cache.revision()))).await.unwrap();
    assert_eq!(around(&cache, begin + HOUR).await, ["abc", "bc"]);
    assert_eq!(around(&cache, begin + HOUR * 3 / 2).await, ["bc", ""]);
    assert!(rewritten > last);
    let mut seen = Vec::new();
    while seen.len() < 3 {
        for item in watcher.next().await.unwrap().iter() {
            let Item::Event(event) = item else { panic!("{item:?}") };
            assert_eq!(event.kind, EventType::Deleted);
            seen.push(event.entry.name().to_owned());
        }
    }
    seen.get_mut(1..).unwrap().sort();
    assert_eq!(seen, ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn events_of_an_earlier_process_go_by_the_times_in_them() {
    let store = Arc::new(Memory::default());
    let cache = open(store.clone()).await;
    write(&cache, "a", 4000, None).await;
    write(&cache, "b", 4000, Some(1800)).await;
    // By its revision it was written after the one before.
    write(&cache, "c", 4000, None).await;
    // A time of the future is now.
    write(&cache, "d", 4000, Some(-100_000)).await;
    drop(cache);
    let cache = open(store).await;
    let begin = Instant::now();
    let _running = tokio::spawn(run(cache.clone(), HOUR));
    sleep_until(begin + LONGEST * 2).await;
    assert_eq!(names(&cache), "bcd");
    assert_eq!(around(&cache, begin + HOUR / 2).await, ["bcd", "d"]);
    assert_eq!(around(&cache, begin + HOUR).await, ["d", ""]);
}

/// As if the clock was behind when they were written, or is ahead now.
#[tokio::test(start_paused = true)]
async fn events_of_another_time_are_as_old_as_the_newest_of_them_says() {
    const YEAR: i64 = 365 * 24 * 3600;
    let store = Arc::new(Memory::default());
    let cache = open(store.clone()).await;
    write(&cache, "a", YEAR + 4000, None).await;
    write(&cache, "b", YEAR + 1800, None).await;
    write(&cache, "c", YEAR, None).await;
    drop(cache);
    let cache = open(store).await;
    let begin = Instant::now();
    let _running = tokio::spawn(run(cache.clone(), HOUR));
    sleep_until(begin + LONGEST * 2).await;
    assert_eq!(names(&cache), "bc");
    assert_eq!(around(&cache, begin + HOUR / 2).await, ["bc", "c"]);
    assert_eq!(around(&cache, begin + HOUR).await, ["c", ""]);
}

#[tokio::test(start_paused = true)]
async fn events_without_a_time_to_live_stay() {
    let cache = open(Arc::default()).await;
    write(&cache, "a", 365 * 24 * 3600, None).await;
    let running = tokio::spawn(run(cache.clone(), Duration::ZERO));
    tokio::time::sleep(HOUR * 24).await;
    assert_eq!(names(&cache), "a");
    assert!(running.is_finished(), "the loop has nothing to do");
}

#[tokio::test(start_paused = true)]
async fn thousands_of_events_take_a_few_slices() {
    let cache = open(Arc::default()).await;
    for round in 0..2_000 {
        write(&cache, &format!("e{round}"), 4000 - round, None).await;
    }
    let events = cache.resource("events").unwrap();
    write(&cache, "newest", 0, None).await;
    let mut expiry = Expiry {
        seen: cache.revision(),
        cache: cache.clone(),
        events: events.clone(),
        time_to_live: HOUR,
        length: LONGEST,
        open: None,
        slices: VecDeque::new(),
    };
    expiry.begin().await.unwrap();
    assert!((25..40).contains(&expiry.slices.len()), "{}", expiry.slices.len());
    assert!(expiry.slices.iter().is_sorted_by_key(|slice| slice.last));
    assert!(expiry.slices.iter().is_sorted_by_key(|slice| slice.expires));
    tokio::time::sleep(LONGEST).await;
    expiry.step().await.unwrap();
    // Those of 4,000 to 3,540 seconds are gone: older than an hour, or a slice younger. The clock may go on
    // while they are made.
    assert!((1_530..1_541).contains(&events.len()), "{}", events.len());
}

#[tokio::test(start_paused = true)]
async fn events_go_by_their_own_times_where_the_clock_was_moved_between_them() {
    let step = |time| {
        clock::change(clock::Change { place: Some(clock::Place::Forward(time)), rate: None }).unwrap();
    };
    let cache = open(Arc::default()).await;
    let _running = tokio::spawn(run(cache.clone(), HOUR));
    tokio::time::sleep(Duration::from_secs(1)).await;
    write(&cache, "a", 0, None).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    step(HOUR / 2);
    write(&cache, "b", 0, None).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(names(&cache), "ab");
    step(HOUR / 2 + LONGEST);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(names(&cache), "b");
    step(HOUR);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(names(&cache), "");
}

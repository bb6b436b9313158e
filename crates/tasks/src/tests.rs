use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

async fn after(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_or_ends_early_is_started_again() {
    let runs = Arc::new(AtomicU32::new(0));
    let task = spawn(Name::CacheFollow, {
        let runs = runs.clone();
        move || {
            let run = runs.fetch_add(1, Ordering::SeqCst);
            async move {
                match run {
                    0 => panic!("the first run"),
                    1 => Ended::Early,
                    _ => std::future::pending().await,
                }
            }
        }
    });
    after(2).await;
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    after(30).await;
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    assert!(!task.is_finished());
    task.end().await;
    assert_eq!(runs.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_does_not_recover_is_named_until_it_has_run_for_a_minute() {
    let healthy = Arc::new(AtomicU32::new(0));
    let task = spawn(Name::CacheFollow, {
        let healthy = healthy.clone();
        move || {
            let is_healthy = healthy.load(Ordering::SeqCst) == 1;
            async move {
                match is_healthy {
                    true => std::future::pending().await,
                    false => panic!("it is broken"),
                }
            }
        }
    });
    after(2).await;
    assert!(failing(Counts::Live).is_empty(), "two failures in a row may be bad luck");
    after(10).await;
    let named = failing(Counts::Live);
    assert_eq!(named.len(), 1);
    assert!(named[0].starts_with("cache-follow failed") && named[0].ends_with("it is broken"), "{named:?}");
    assert!(failing(Counts::Ready).is_empty());
    healthy.store(1, Ordering::SeqCst);
    after(59).await;
    assert_eq!(failing(Counts::Live).len(), 1);
    after(70).await;
    assert!(failing(Counts::Live).is_empty());
    drop(task);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_done_is_not_started_again_and_one_that_is_dropped_ends() {
    let done = spawn(Name::CacheWake, || async { Ended::Done });
    done.join().await;
    let runs = Arc::new(());
    let held = runs.clone();
    let task = spawn(Name::CacheWake, move || {
        let held = held.clone();
        async move {
            let _held = held;
            std::future::pending().await
        }
    });
    after(1).await;
    assert!(Arc::strong_count(&runs) > 1);
    drop(task);
    after(1).await;
    assert_eq!(Arc::strong_count(&runs), 1);
}

#[tokio::test(start_paused = true)]
async fn tasks_of_a_group_end_with_it_and_do_not_count_for_the_process() {
    let (group, other) = (Group::default(), Group::default());
    let held = Arc::new(());
    // What a task of the group starts belongs to the group too.
    let inner = held.clone();
    let start = async {
        spawn(Name::CacheFollow, move || {
            let inner = inner.clone();
            async move {
                let held = inner.clone();
                spawn(Name::CacheWake, move || {
                    let _held = held.clone();
                    async { panic!("it is broken") }
                })
                .detach();
                std::future::pending().await
            }
        })
        .detach();
    };
    group.within(start).await;
    assert!(Group::current().is_none());
    after(10).await;
    assert!(Arc::strong_count(&held) > 1);
    assert!(group.failing(Counts::Live)[0].starts_with("cache-wake failed"));
    assert!(failing(Counts::Live).is_empty() && other.failing(Counts::Live).is_empty());
    group.end();
    after(1).await;
    assert_eq!((Arc::strong_count(&held), group.tasks()), (1, 0));
    assert!(group.failing(Counts::Live).is_empty());
    let late = group.within(async { spawn(Name::CacheWake, std::future::pending) }).await;
    after(1).await;
    assert!(late.is_finished() && group.is_ended());
    assert_eq!(group.until_end(async { 1 }).await, None);
    assert_eq!(other.until_end(async { 1 }).await, Some(1));
}

#[test]
fn a_thread_that_panics_is_started_again() {
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let thread = thread(Name::CacheWake, move || {
        if counted.fetch_add(1, Ordering::SeqCst) == 0 {
            panic!("the first run");
        }
    });
    let thread = thread.unwrap();
    while runs.load(Ordering::SeqCst) < 2 {
        std::thread::sleep(Duration::from_millis(10));
    }
    thread.end();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[test]
fn a_thread_in_its_pause_is_ended_at_once() {
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let thread = thread(Name::CacheWake, move || {
        counted.fetch_add(1, Ordering::SeqCst);
        panic!("on purpose");
    });
    let thread = thread.unwrap();
    while runs.load(Ordering::SeqCst) < 2 {
        std::thread::sleep(Duration::from_millis(10));
    }
    thread.end();
    assert_eq!(runs.load(Ordering::SeqCst), 2, "it was in its second pause, or about to begin it");
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = Name::ALL.iter().map(|name| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Name::ALL.len());
}

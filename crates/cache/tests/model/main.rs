//! A model checker: many random concurrent histories of writers, readers, watchers that stop and resume,
//! compaction and restarts, judged against a reference that is too simple to be wrong.
//!
//! A history that fails prints its seed; `KEELSON_SEED=<seed>` runs that one alone, some hundred times,
//! because the order in which things happen is not in the seed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

mod actors;
#[path = "../common/mod.rs"]
mod common;
mod reference;

use actors::{Read, Seen, Write};
use cache::CacheOptions;
use common::{Backing, Stored, open};
use fastrand::Rng;
use reference::Reference;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use store::Revision;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_agrees_with_the_model() {
    check(Backing::Memory, 1, 1000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sparse_revisions_agree_with_the_model() {
    check(Backing::Sparse, 1, 1000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_sparse_revisions_agree_with_the_model_for_long() {
    check(Backing::Sparse, 100_000, 5000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_agrees_with_the_model() {
    check(Backing::Embedded, 1, 30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_memory_agrees_with_the_model_for_long() {
    check(Backing::Memory, 100_000, 5000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_embedded_agrees_with_the_model_for_long() {
    check(Backing::Embedded, 100_000, 250).await;
}

async fn check(backing: Backing, first: u64, histories: u64) {
    let asked = std::env::var("KEELSON_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds: Vec<u64> = match asked {
        Some(seed) => vec![seed; 300],
        None => (first..first + histories).collect(),
    };
    for seed in seeds {
        if let Err(problem) = history(backing, seed).await {
            panic!("seed {seed} on {backing:?}: {problem}; replay with KEELSON_SEED={seed}");
        }
    }
}

/// What the actors of a history did and saw.
#[derive(Default)]
struct Record {
    writes: Mutex<Vec<Write>>,
    reads: Mutex<Vec<Read>>,
    /// Each part of a watch between a start and an end.
    seen: Mutex<Vec<Arc<Mutex<Seen>>>>,
}

fn options(random: &mut Rng) -> CacheOptions {
    let pick = |random: &mut Rng, choices: &[usize]| *random.choice(choices).unwrap();
    CacheOptions {
        wait: Duration::from_millis(3000),
        log_bytes: pick(random, &[0, 3000, 1 << 20]),
        replay: pick(random, &[0, 5, 20_000]) as u64,
        snapshots: pick(random, &[1, 64]),
        log_retention: Duration::from_millis(pick(random, &[5, 300_000]) as u64),
        snapshot_retention: Duration::from_millis(pick(random, &[5, 75_000]) as u64),
        bookmark_interval: Duration::from_millis(pick(random, &[1, 60_000]) as u64),
        ..CacheOptions::default()
    }
}

async fn history(backing: Backing, seed: u64) -> Result<(), String> {
    let mut random = Rng::with_seed(seed);
    let mut stored = Stored::new(backing);
    let record = Arc::new(Record::default());
    let watchers: Vec<_> = (0..random.usize(1..6)).map(|_| actors::Plan::new(&mut random)).collect();
    let mut resume: Vec<Option<Revision>> = watchers.iter().map(|_| None).collect();
    for _ in 0..random.usize(1..4) {
        if random.bool() {
            stored.restart();
        }
        let cache = Arc::new(open(&stored, options(&mut random)).await);
        let stop = Arc::new(AtomicBool::new(false));
        let watching: Vec<_> = watchers
            .iter()
            .zip(&resume)
            .map(|(plan, from)| {
                let watch = actors::watch(cache.clone(), plan.clone(), *from, random.fork(), record.clone());
                tokio::spawn(watch.until(stop.clone()))
            })
            .collect();
        let reading: Vec<_> = (0..random.usize(0..3))
            .map(|_| tokio::spawn(actors::read(cache.clone(), random.fork(), record.clone(), stop.clone())))
            .collect();
        let writing: Vec<_> = (0..random.usize(1..4))
            .map(|_| tokio::spawn(actors::write(cache.clone(), random.fork(), record.clone())))
            .collect();
        for writer in writing {
            writer.await.map_err(|error| format!("a writer died: {error}"))?;
        }
        let reference = Reference::replay(&record.writes.lock().unwrap())?;
        caught_up(&record, &reference).await?;
        stop.store(true, Ordering::SeqCst);
        for reader in reading {
            reader.await.map_err(|error| format!("a reader died: {error}"))?;
        }
        for (watcher, resume) in watching.into_iter().zip(&mut resume) {
            *resume = watcher.await.map_err(|error| format!("a watcher died: {error}"))?;
        }
    }
    let reference = Reference::replay(&record.writes.lock().unwrap())?;
    for write in &*record.writes.lock().unwrap() {
        reference.judge_write(write)?;
    }
    for read in &*record.reads.lock().unwrap() {
        reference.judge_read(read)?;
    }
    for seen in &*record.seen.lock().unwrap() {
        reference.judge_watch(&seen.lock().unwrap())?;
    }
    Ok(())
}

/// Every watcher gets the last event that it is due, by being woken and in no other way.
async fn caught_up(record: &Record, reference: &Reference) -> Result<(), String> {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        let late =
            record.seen.lock().unwrap().iter().find_map(|seen| reference.is_late(&seen.lock().unwrap()));
        let Some(late) = late else { return Ok(()) };
        if tokio::time::Instant::now() > deadline {
            return Err(format!("a watcher did not deliver {late}"));
        }
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
}

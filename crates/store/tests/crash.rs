//! A process killed at random moments under load: what it had acknowledged is there when the store is opened
//! again.
//!
//! The child is this test binary again, run as [`child`]. Its writers each own some keys and write ever
//! larger numbers to them; it prints a line for each acknowledged commit. The parent kills it, opens the
//! store, and judges:
//!
//! 1. every acknowledged number is there, or a larger one that was attempted after it;
//! 2. nothing was written that was never attempted;
//! 3. acknowledged revisions belong to what was acknowledged with them, and revisions go on without a gap;
//! 4. a follower that resumes from the last revision seen before the kill receives every change since, once.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "test code")]

use fastrand::Rng;
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};
use store::{
    Error, Follow, Revision, Store,
    contract::{events, key, load, put},
    embedded::{Embedded, EmbeddedOptions},
};

const DIRECTORY: &str = "STORE_CRASH_DIRECTORY";
const SEED: &str = "STORE_CRASH_SEED";
const WRITERS: u64 = 8;
const KEYS: u64 = 6;
/// How much history the child keeps when it compacts, in changes.
const KEPT: u64 = 20_000;

fn open(path: &Path) -> Arc<dyn Store> {
    Arc::new(Embedded::open(path, EmbeddedOptions::default()).unwrap())
}

fn name(writer: u64, slot: u64) -> String {
    format!("w{writer}/k{slot}")
}

/// A value that contains its number and can be checked in full.
fn value(number: u64) -> String {
    let filler = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize;
    format!("{number}:{}", "x".repeat(filler))
}

fn number(bytes: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(bytes);
    let number = text.split(':').next().unwrap().parse().unwrap();
    assert_eq!(text, value(number), "a value is whole");
    number
}

/// The process that is killed: it runs only when it is given a directory, and never ends by itself.
#[test]
fn child() {
    let Ok(path) = std::env::var(DIRECTORY) else { return };
    let seed: u64 = std::env::var(SEED).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let store = open(Path::new(&path));
    say(&format!("open {}", store.known_revision()));
    runtime.block_on(async {
        let writers = (0..WRITERS).map(|writer| tokio::spawn(write(store.clone(), writer, seed)));
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
    });
}

async fn write(store: Arc<dyn Store>, writer: u64, seed: u64) {
    let mut rng = Rng::with_seed(seed ^ writer.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let mut last = 0;
    for slot in 0..KEYS {
        let entry = store.get(&key(&name(writer, slot))).unwrap();
        last = entry.map_or(0, |entry| number(&entry.value)).max(last);
    }
    loop {
        last += 1;
        let slot = rng.u64(..KEYS);
        let Revision(revision) = put(&store, &name(writer, slot), &value(last)).await;
        say(&format!("ack {writer} {slot} {last} {revision}"));
        if rng.u8(..100) == 0 && revision > KEPT {
            store.compact(Revision(revision - KEPT)).await.unwrap();
        }
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
}

/// What the parent knows for certain.
#[derive(Default)]
struct Known {
    /// The last acknowledged number of each key.
    acknowledged: BTreeMap<String, u64>,
    /// The last acknowledged number of each writer: it has attempted at most the next one.
    writers: BTreeMap<u64, u64>,
    /// Acknowledged revisions since the last look, and what they wrote.
    revisions: BTreeMap<u64, (String, u64)>,
    seen: Revision,
    resumed: u32,
    total: u64,
}

impl Known {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["ack", writer, slot, number, revision] = words.as_slice() else { return };
        let [writer, slot, number, revision] =
            [writer, slot, number, revision].map(|word| word.parse::<u64>().unwrap());
        self.acknowledged.insert(name(writer, slot), number);
        self.revisions.insert(revision, (name(writer, slot), number));
        self.writers.insert(writer, number);
        self.total += 1;
    }

    async fn judge(&mut self, store: &Arc<dyn Store>) {
        let newest = store.known_revision();
        let acknowledged = self.revisions.keys().next_back().copied().unwrap_or_default();
        assert!(newest.0 >= acknowledged, "revision {acknowledged} was acknowledged, the newest is {newest}");
        let mut found = BTreeMap::new();
        for entry in load(store, "", None).unwrap().entries {
            found.insert(entry.key.to_string(), number(&entry.value));
        }
        for (name, acknowledged) in &self.acknowledged {
            let found = found.get(name).copied().unwrap_or_default();
            assert!(found >= *acknowledged, "{name}: {acknowledged} was acknowledged, {found} is there");
        }
        for writer in 0..WRITERS {
            let numbers: Vec<u64> =
                (0..KEYS).filter_map(|slot| found.get(&name(writer, slot)).copied()).collect();
            let last = numbers.iter().copied().max().unwrap_or_default();
            let heard = self.writers.get(&writer).copied().unwrap_or_default();
            assert!(last <= heard + 1, "writer {writer} attempted {}, {last} is there", heard + 1);
            self.writers.insert(writer, last);
        }
        self.resume(store, newest).await;
        self.revisions.clear();
        self.seen = newest;
    }

    async fn resume(&mut self, store: &Arc<dyn Store>, newest: Revision) {
        match store.follow(Follow::after(self.seen)) {
            Err(Error::Compacted { compacted, .. }) => {
                assert!(self.seen < compacted && newest.0 - self.seen.0 > KEPT / 2);
                return;
            }
            Err(error) => panic!("a follower cannot resume: {error}"),
            Ok(_) => self.resumed += 1,
        }
        let delivered = events(store, Follow::after(self.seen), newest).await;
        assert_eq!(delivered.len() as u64, newest.0 - self.seen.0);
        for (event, revision) in delivered.iter().zip(self.seen.0 + 1..) {
            assert_eq!(event.revision().0, revision);
            let notified = (event.key.to_string(), number(event.value.as_ref().unwrap()));
            if let Some(acknowledged) = self.revisions.get(&revision) {
                assert_eq!(*acknowledged, notified, "revision {revision}");
            }
        }
    }
}

fn kill_after(path: &Path, seed: u64, life: Duration, known: &mut Known) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(DIRECTORY, path)
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let hearing = thread::spawn(move || {
        let mut heard = Vec::new();
        let mut line = String::new();
        while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
            if line.ends_with('\n') {
                heard.push(line.trim_end().to_owned());
            }
            line.clear();
        }
        heard
    });
    thread::sleep(life);
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(status.code().is_none(), "the child ended by itself: {status}");
    for line in hearing.join().unwrap() {
        known.hear(&line);
    }
}

async fn survive(kills: u32, seed: u64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let mut rng = Rng::with_seed(seed);
    let mut known = Known::default();
    for kill in 0..kills {
        let life = Duration::from_millis(rng.u64(5..400));
        kill_after(&path, rng.u64(..), life, &mut known);
        let store = open(&path);
        known.judge(&store).await;
        store.close();
        drop(store);
        if kill % 50 == 49 {
            println!("{} kills, {} commits, {} resumed", kill + 1, known.total, known.resumed);
        }
    }
    assert!(known.total > u64::from(kills), "{} commits were acknowledged", known.total);
    assert!(known.resumed > kills / 2, "{} of {kills} followers resumed", known.resumed);
}

#[tokio::test]
async fn ten_kills_lose_nothing_acknowledged() {
    survive(10, 1).await;
}

#[tokio::test]
async fn slow_two_hundred_kills_lose_nothing_acknowledged() {
    survive(200, 2).await;
}

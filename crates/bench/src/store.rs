//! `bench store`: the embedded store alone, with every commit synced.
//!
//! The restart is measured in a process of its own, so that its memory is its own. `RssAnon` over the bytes
//! of all values is what the store and its reader keep beyond the values themselves, once all of them are
//! held in memory.

use crate::{
    Outcome,
    process::{cpu_time, disk_usage, memory},
    report::{Row, Style},
};
use bytes::Bytes;
use fastrand::Rng;
use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use store::{
    Change, Follow, Key, Revision, Store,
    embedded::{Embedded, EmbeddedOptions},
};
use tokio::runtime::Runtime;

pub(crate) const ABOUT: &str = "the embedded store: commits, reads, history, restart, memory; then fanout (--seconds N, --entries N, --dir PATH)";

const VALUE: usize = 5000;
const RESTART: &str = "--restart";

struct StoreOptions {
    style: Style,
    seconds: u64,
    entries: u64,
    directory: Option<PathBuf>,
    restart: bool,
}

pub(crate) fn run(arguments: &[String]) -> Outcome {
    let settings = StoreOptions::parse(arguments)?;
    if settings.restart {
        return restart(&settings);
    }
    let scratch = match &settings.directory {
        Some(directory) => tempfile::tempdir_in(directory)?,
        None => tempfile::tempdir()?,
    };
    let path = scratch.path().join("data");
    measure(&settings, &path)?;
    let path = path.to_str().ok_or("the scratch folder has no name in text")?;
    again(&settings, &["store", RESTART, "--dir", path])?;
    // What readers and watchers make of it is measured in a process of its own, by its memory.
    again(&settings, &["fanout"])
}

/// Measures in a process of its own.
fn again(settings: &StoreOptions, arguments: &[&str]) -> Outcome {
    let mut child = Command::new(std::env::current_exe()?);
    child.args(arguments);
    if settings.style == Style::Json {
        child.arg("--json");
    }
    if child.status()?.success() { Ok(()) } else { Err(format!("{} failed", arguments.join(" ")).into()) }
}

fn measure(settings: &StoreOptions, path: &Path) -> Outcome {
    let runtime = Runtime::new()?;
    let store: Arc<dyn Store> = Arc::new(Embedded::open(path, EmbeddedOptions::default())?);
    let next = Arc::new(AtomicU64::new(0));
    for writers in [1, 16, 256] {
        let work = CommitWork {
            store: store.clone(),
            next: next.clone(),
            entries: settings.entries,
            until: Until::Elapsed(Duration::from_secs(settings.seconds)),
        };
        commits(&runtime, work, writers)?.print(settings.style)?;
    }
    next.store(0, Ordering::Relaxed);
    let fill = CommitWork {
        store: store.clone(),
        next,
        entries: settings.entries,
        until: Until::Entries(settings.entries),
    };
    commits(&runtime, fill, 256)?;
    gets(&store, settings.entries)?.print(settings.style)?;
    history(&runtime, &store)?.print(settings.style)?;
    let disk = disk_usage(path)? as f64;
    let raw = settings.entries as f64 * VALUE as f64;
    Row::new("disk with history")
        .figure("used", disk / 1e6, "MB")
        .figure("over live bytes", disk / raw, "x")
        .print(settings.style)?;
    store.close();
    Ok(())
}

/// What each writer does.
#[derive(Clone)]
struct CommitWork {
    store: Arc<dyn Store>,
    next: Arc<AtomicU64>,
    entries: u64,
    until: Until,
}

#[derive(Clone, Copy)]
enum Until {
    Elapsed(Duration),
    Entries(u64),
}

fn commits(
    runtime: &Runtime,
    work: CommitWork,
    writers: u64,
) -> Result<Row, Box<dyn std::error::Error + Send + Sync>> {
    let latencies = Arc::new(Mutex::new(Vec::new()));
    let (started, cpu) = (Instant::now(), cpu_time()?);
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let (work, latencies) = (work.clone(), latencies.clone());
            runtime.spawn(async move {
                let mut rng = Rng::with_seed(writer);
                let mut own = Vec::new();
                let value = value(&mut rng);
                loop {
                    let number = work.next.fetch_add(1, Ordering::Relaxed);
                    let more = match work.until {
                        Until::Elapsed(time) => started.elapsed() < time,
                        Until::Entries(entries) => number < entries,
                    };
                    if !more {
                        break;
                    }
                    let name = number % work.entries;
                    let change = Change::put(key(name), value.clone());
                    let asked = Instant::now();
                    work.store.commit(change).await?;
                    own.push(asked.elapsed());
                }
                latencies.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
                Ok::<_, store::Error>(())
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task)??;
    }
    let (elapsed, cpu) = (started.elapsed(), cpu_time()?.saturating_sub(cpu));
    let mut latencies = std::mem::take(&mut *latencies.lock().unwrap_or_else(PoisonError::into_inner));
    latencies.sort_unstable();
    let count = latencies.len().max(1);
    let at = |part: f64| latencies.get((part * (count - 1) as f64) as usize).copied().unwrap_or_default();
    Ok(Row::new(format!("commit, {writers} writers"))
        .figure("commits", count as f64 / elapsed.as_secs_f64(), "/s")
        .figure("cpu per commit", cpu.as_secs_f64() * 1e6 / count as f64, "us")
        .figure("p50", at(0.5).as_secs_f64() * 1e3, "ms")
        .figure("p99", at(0.99).as_secs_f64() * 1e3, "ms")
        .figure("max", at(1.0).as_secs_f64() * 1e3, "ms"))
}

fn gets(store: &Arc<dyn Store>, entries: u64) -> Result<Row, Box<dyn std::error::Error + Send + Sync>> {
    let mut rng = Rng::with_seed(7);
    let (started, count) = (Instant::now(), 20_000);
    for _ in 0..count {
        if store.get(&key(rng.u64(..entries)))?.is_none() {
            return Err("an entry is missing".into());
        }
    }
    let each = started.elapsed().as_secs_f64() / f64::from(count);
    Ok(Row::new("get, one thread").figure("gets", 1.0 / each, "/s").figure("each", each * 1e6, "us"))
}

fn history(
    runtime: &Runtime,
    store: &Arc<dyn Store>,
) -> Result<Row, Box<dyn std::error::Error + Send + Sync>> {
    let newest = store.known_revision();
    let from = Revision(newest.0.saturating_sub(100_000)).max(store.compacted());
    let mut follower = store.follow(Follow::after(from))?;
    let (started, cpu) = (Instant::now(), cpu_time()?);
    let mut events = 0u64;
    runtime.block_on(async {
        let mut at = from;
        while at < newest {
            let batch = follower.next().await?;
            at = batch.revision;
            events += batch.events.len() as u64;
        }
        Ok::<_, store::Error>(())
    })?;
    let cpu = cpu_time()?.saturating_sub(cpu);
    Ok(Row::new("follow from history")
        .figure("events", events as f64 / started.elapsed().as_secs_f64(), "/s")
        .figure("cpu per event", cpu.as_secs_f64() * 1e6 / events as f64, "us"))
}

/// Runs in its own process: opens the store, and loads everything while keeping it. Values are copied, as a
/// reader does that writes the revision into them.
fn restart(settings: &StoreOptions) -> Outcome {
    let path = settings.directory.as_deref().ok_or("--restart needs --dir")?;
    let (started, cpu) = (Instant::now(), cpu_time()?);
    let store = Embedded::open(path, EmbeddedOptions::default())?;
    let opened = started.elapsed();
    let after_open = memory()?;
    let mut values: Vec<Bytes> = Vec::new();
    store.load(b"", None, &mut |entry| {
        values.extend(entry.map(|entry| Bytes::copy_from_slice(&entry.value)));
        ControlFlow::Continue(())
    })?;
    let loaded = started.elapsed();
    let raw: usize = values.iter().map(Bytes::len).sum();
    let resident = memory()?;
    Row::new("restart")
        .figure("entries", values.len() as f64, "")
        .figure("open", opened.as_secs_f64() * 1e3, "ms")
        .figure("open and load", loaded.as_secs_f64() * 1e3, "ms")
        .figure("cpu", (cpu_time()? - cpu).as_secs_f64() * 1e3, "ms")
        .print(settings.style)?;
    Row::new("memory after restart")
        .figure("open", after_open as f64 / 1e6, "MB")
        .figure("with all values", resident as f64 / 1e6, "MB")
        .figure("over raw bytes", resident as f64 / raw as f64, "x")
        .print(settings.style)?;
    Ok(())
}

impl StoreOptions {
    fn parse(arguments: &[String]) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let mut settings =
            Self { style: Style::Table, seconds: 5, entries: 100_000, directory: None, restart: false };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--json" => settings.style = Style::Json,
                "--seconds" => settings.seconds = value()?.parse()?,
                "--entries" => settings.entries = value()?.parse::<u64>()?.max(1),
                "--dir" => settings.directory = Some(value()?.into()),
                RESTART => settings.restart = true,
                other => return Err(format!("there is no option {other:?}").into()),
            }
        }
        Ok(settings)
    }
}

fn key(number: u64) -> Key {
    let text = format!("pods/namespace-{:03}/web-{number:08}", number % 100);
    Key::try_from(text).unwrap_or_else(|_| unreachable!("the text is a valid key"))
}

/// Text that looks like JSON to a disk: printable, and not all the same.
fn value(rng: &mut Rng) -> Bytes {
    std::iter::repeat_with(|| rng.alphanumeric() as u8).take(VALUE).collect()
}

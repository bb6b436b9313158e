//! Changes to watchers: many of the same, a thousand of a node each, and ten thousand to whom nothing
//! happens.
//!
//! The cost of a change for its watchers is the processor time of the whole process with them, less that of
//! the same changes without any. On all threads that includes waking one of them; on one thread there is no
//! other to wake, so that what is left is the work. Beside it is the cost of waking tasks for each change in
//! the same setting.

use super::{
    Failure, NODES, Pod, Size, again, bare, change, cost, micros, millis, pods_of, put, small, write,
};
use crate::{Outcome, process, report::Row};
use cache::{
    Cache, CacheOptions, Encoding, Filter, Resource,
    watch::{Delivery, EventType, Item, Start, WatchOptions, Watcher},
};
use object::field_selector::Selector;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use store::{
    Revision,
    memory::{self, Memory},
};
use tokio::{
    runtime::{Runtime, RuntimeFlavor},
    task::JoinHandle,
};

/// The time in which watchers fall asleep before a round begins.
pub(super) const REST: Duration = Duration::from_millis(60);

/// How changes follow each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Each waits until all watchers have delivered the one before, and some time more: watchers are woken
    /// for each, and with few of them most of the cost is that of a sleeping thread.
    OneByOne,
    /// As fast as one writer can, which waits for each to be committed.
    OneWriter,
    /// A stream from many writers: no thread gets to sleep.
    ManyWriters,
}

impl Pace {
    pub(super) fn writers(self) -> u64 {
        if self == Self::ManyWriters { 64 } else { 1 }
    }

    fn name(self) -> &'static str {
        match self {
            Self::OneByOne => "one by one",
            Self::OneWriter => "one writer",
            Self::ManyWriters => "64 writers",
        }
    }
}

/// How a watcher takes its events.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Each event by itself, as the pieces of its JSON where they lie: what a watcher with selectors of its
    /// own costs before it copies them.
    Pieces,
    /// As the lines that one of all has written, where there are several: what watchers of the same cost,
    /// copy and all.
    Written,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Pieces => "",
            Self::Written => ", written",
        }
    }

    /// Takes what there is next, and counts the events in it.
    async fn next(self, watcher: &mut Watcher) -> Result<u64, cache::Error> {
        const LINES: Encoding = Encoding(2);
        match self {
            Self::Pieces => {
                let batch = watcher.next().await?;
                let lines = batch.iter().filter_map(line);
                Ok(lines.filter(|line| !std::hint::black_box(line).is_empty()).count() as u64)
            }
            Self::Written => match watcher.next_written(LINES).await? {
                Delivery::Chunk(chunk) => {
                    Ok(chunk.bytes.first_chunk().map_or(0, |count| u64::from_be_bytes(*count)))
                }
                Delivery::Batch(batch) => {
                    // The count first, so that other watchers need not search for line ends.
                    let room = batch.iter().map(room).sum::<usize>() + size_of::<u64>();
                    let mut lines = Vec::with_capacity(room);
                    lines.extend_from_slice(&[0; size_of::<u64>()]);
                    let events = batch.iter().filter_map(line);
                    let count =
                        events.map(|line| line.map(|piece| lines.extend_from_slice(piece))).count() as u64;
                    if let Some(place) = lines.first_chunk_mut() {
                        *place = count.to_be_bytes();
                    }
                    watcher.keep(LINES, &lines.into());
                    Ok(count)
                }
            },
        }
    }
}

/// The bytes of an item's line, and some more.
fn room(item: Item<'_>) -> usize {
    match item {
        Item::Event(event) => event.entry.bytes().len() + 64,
        Item::Bookmark { .. } => 0,
    }
}

/// The line of an event, in pieces.
fn line(item: Item<'_>) -> Option<[&[u8]; 3]> {
    match item {
        Item::Event(event) => {
            let head: &[u8] = match event.kind {
                EventType::Added => br#"{"type":"ADDED","object":"#,
                EventType::Modified => br#"{"type":"MODIFIED","object":"#,
                EventType::Deleted => br#"{"type":"DELETED","object":"#,
            };
            Some([head, event.entry.bytes(), b"}\n"])
        }
        Item::Bookmark { .. } => None,
    }
}

/// What is measured together.
#[derive(Clone, Copy)]
pub(super) struct FanoutWork {
    pub(super) watchers: u64,
    pub(super) pace: Pace,
    pub(super) way: Way,
}

impl FanoutWork {
    /// What its row is called.
    pub(super) fn name(&self, runtime: &Runtime) -> String {
        let Self { watchers, pace, way } = self;
        let threads = match runtime.handle().runtime_flavor() {
            RuntimeFlavor::CurrentThread => ", one thread",
            _ => "",
        };
        format!("fan-out to {watchers}, {}{}{threads}", pace.name(), way.name())
    }
}

/// Changes to many watchers of everything. Each round begins after the same rest, which threads, caches and
/// the allocator make use of.
pub(super) fn fan_out(runtime: &Runtime, work: FanoutWork) -> Result<Row, Failure> {
    let FanoutWork { watchers, pace, way } = work;
    // What few watchers cost is little beside the changes themselves: it takes many looks to see it.
    let (most, fours) = match pace {
        Pace::OneByOne => (200, 12),
        _ if watchers < 100 => (4_000, 42),
        _ => (1_000, 12),
    };
    let changes = (1_000_000 / watchers).clamp(100, most);
    // The log is small enough to drop a little in every round, so that all rounds are alike.
    let brief =
        memory::MemoryOptions { retention: Duration::from_millis(100), ..memory::MemoryOptions::default() };
    let (size, log_bytes) = if watchers < 100 { (Size::Small, 4 << 20) } else { (Size::Whole, 16 << 20) };
    let options = CacheOptions { log_bytes, ..CacheOptions::default() };
    let (cache, resource) = small(runtime, Memory::new(brief), options, 1000)?;
    let pods: Arc<[Pod]> = (0..1000).map(|number| Pod::new(number, size)).collect();
    let (mut woken, mut elapsed) = (0, Duration::ZERO);
    let Compared { alone, more, error } = compare(fours, |watching| {
        let watchers = if watching { watchers } else { 0 };
        let seen = Arc::<Seen>::default();
        let filters = (0..watchers).map(|_| Filter::all());
        let tasks = runtime.block_on(watch(&resource, cache.revision(), &seen, way, filters))?;
        let (begun, before) = (Instant::now(), resource.stats().woken);
        let work = changing(cache.clone(), pods.clone(), seen, Changes { count: changes, watchers, pace });
        let cost = cost(|| runtime.block_on(runtime.spawn(work))?)?;
        if watching {
            elapsed += begun.elapsed();
            woken += resource.stats().woken - before;
        }
        runtime.block_on(end(tasks));
        Ok(micros(cost))
    })?;
    let total = changes * watchers;
    let seen = 2 * fours as u64;
    let busy = Duration::from_secs_f64(alone / changes as f64 / 1e6);
    let bare = bare::wake_ups(runtime, Changes { count: changes, watchers, pace }, busy, fours / 2)?;
    Ok(Row::new(work.name(runtime))
        .figure("cpu per event and watcher", more / total as f64, "us")
        .figure("give or take", error / total as f64, "us")
        .figure("a bare wake-up", bare / watchers as f64, "us")
        .figure("cpu per event", (alone + more) / changes as f64, "us")
        .figure("without watchers", alone / changes as f64, "us")
        .figure("wake-ups", woken as f64 / (changes * seen) as f64, "")
        .figure("deliveries", (total * seen) as f64 / elapsed.as_secs_f64(), "/s"))
}

/// Which of four rounds are with watchers.
const ORDERS: [[bool; 4]; 6] = [
    [false, true, true, false],
    [true, false, false, true],
    [false, true, false, true],
    [true, false, true, false],
    [false, false, true, true],
    [true, true, false, false],
];

/// What a round takes without watchers, and what it takes more with them.
pub(super) struct Compared {
    alone: f64,
    pub(super) more: f64,
    /// By how much the latter may be wrong, as the four rounds differ among each other.
    error: f64,
}

/// Of four rounds, two are with watchers, each time others of them: equal rounds differ by what came before
/// them, and by what comes around every few of them. The figures are means of the middle half of what such
/// four came to.
pub(super) fn compare(
    fours: usize,
    mut round: impl FnMut(bool) -> Result<f64, Failure>,
) -> Result<Compared, Failure> {
    let (mut alone, mut more) = (Vec::new(), Vec::new());
    for order in ORDERS.iter().cycle().take(fours) {
        let (mut with, mut without) = (0.0, 0.0);
        for &watching in order {
            *if watching { &mut with } else { &mut without } += round(watching)?;
        }
        alone.push(without / 2.0);
        more.push((with - without) / 2.0);
    }
    let (alone, _) = middle(alone);
    let (more, error) = middle(more);
    Ok(Compared { alone, more, error })
}

#[derive(Clone, Copy)]
pub(super) struct Changes {
    pub(super) count: u64,
    pub(super) watchers: u64,
    pub(super) pace: Pace,
}

/// Makes changes until all watchers have seen them.
async fn changing(cache: Arc<Cache>, pods: Arc<[Pod]>, seen: Arc<Seen>, changes: Changes) -> Outcome {
    if changes.pace == Pace::OneByOne {
        let resource = pods_of(&cache)?;
        for (number, pod) in (1..=changes.count).filter_map(|number| Some((number, again(&pods, number)?))) {
            put(&cache, &resource, pod).await?;
            // Also without watchers, so that the waiting costs the same.
            tokio::time::sleep(Duration::from_millis(1)).await;
            seen.reach(number * changes.watchers).await;
        }
    } else {
        change(&cache, &pods, changes.pace.writers(), changes.count).await?;
        seen.reach(changes.count * changes.watchers).await;
    }
    Ok(())
}

/// Ends watchers, and waits until they are gone.
pub(super) async fn end(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        task.abort();
        task.await.ok();
    }
}

/// The mean of the middle half, and how far that reaches, over the root of the number of all.
fn middle(mut times: Vec<f64>) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    let quarter = times.len() / 4;
    let middle = times.get(quarter..times.len() - quarter).unwrap_or_default();
    let mean = middle.iter().sum::<f64>() / middle.len() as f64;
    let reach = middle.last().zip(middle.first()).map_or(0.0, |(last, first)| last - first);
    (mean, reach / (times.len() as f64).sqrt())
}

/// Changes of pods on a thousand nodes, each of which watches its own.
pub(super) fn by_node(runtime: &Runtime) -> Result<Row, Failure> {
    let changes = 20_000;
    let (cache, resource) = small(runtime, Memory::default(), CacheOptions::default(), NODES)?;
    let alone = cost(|| runtime.block_on(write(&cache, 1, changes, Size::Whole)))?;
    let seen = Arc::<Seen>::default();
    let filters =
        (0..NODES).map(|node| Filter::all().fields(Selector::equal("spec.nodeName", format!("node-{node}"))));
    let tasks = runtime.block_on(watch(&resource, cache.revision(), &seen, Way::Pieces, filters))?;
    let with = cost(|| {
        runtime.block_on(async {
            write(&cache, 1, changes, Size::Whole).await?;
            seen.reach(changes).await;
            Ok(())
        })
    })?;
    let woken = resource.stats().woken as f64;
    tasks.iter().for_each(JoinHandle::abort);
    Ok(Row::new("1,000 watch their node")
        .figure("wake-ups per write", woken / changes as f64, "")
        .figure("cpu per write", micros(with) / changes as f64, "us")
        .figure("without watchers", micros(alone) / changes as f64, "us"))
}

/// Ten thousand watchers to whom nothing happens, while other objects change.
pub(super) fn idle(runtime: &Runtime) -> Result<Row, Failure> {
    let watchers = 10_000;
    let (cache, resource) = small(runtime, Memory::default(), CacheOptions::default(), 1000)?;
    let seen = Arc::<Seen>::default();
    let before = process::memory()?;
    let filters = (0..watchers).map(|number| {
        Filter::namespace("quiet").fields(Selector::equal("metadata.name", format!("config-{number}")))
    });
    let tasks = runtime.block_on(watch(&resource, cache.revision(), &seen, Way::Pieces, filters))?;
    std::thread::sleep(Duration::from_millis(200));
    let each = process::memory()?.saturating_sub(before) as f64 / watchers as f64;
    let alone = cost(|| {
        std::thread::sleep(Duration::from_secs(3));
        Ok(())
    })?;
    let changes = 20_000;
    let busy = cost(|| runtime.block_on(write(&cache, 1, changes, Size::Whole)))?;
    let woken = resource.stats().woken;
    tasks.iter().for_each(JoinHandle::abort);
    Ok(Row::new("10,000 idle watchers")
        .figure("memory each", each, "B")
        .figure("cpu in 3 s", millis(alone), "ms")
        .figure("cpu per write of others", micros(busy) / changes as f64, "us")
        .figure("wake-ups", woken as f64, ""))
}

/// How many events all watchers have seen, counted in many places so that counting does not hold them up.
#[derive(Default)]
pub(super) struct Seen {
    counts: [Count; 32],
}

#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicU64);

impl Seen {
    pub(super) fn add(&self, watcher: usize, told: u64) {
        if let Some(Count(count)) = self.counts.get(watcher % self.counts.len()) {
            count.fetch_add(told, Ordering::Relaxed);
        }
    }

    pub(super) async fn reach(&self, wanted: u64) {
        while self.counts.iter().map(|Count(count)| count.load(Ordering::Relaxed)).sum::<u64>() < wanted {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn watch(
    resource: &Arc<Resource>,
    from: Revision,
    seen: &Arc<Seen>,
    way: Way,
    filters: impl Iterator<Item = Filter>,
) -> Result<Vec<JoinHandle<()>>, Failure> {
    let mut tasks = Vec::new();
    for (number, filter) in filters.enumerate() {
        let request = WatchOptions::new(Start::After(from)).filter(filter).with_bookmarks();
        let mut watcher = resource.watch(request).await?;
        let seen = seen.clone();
        tasks.push(tokio::spawn(async move {
            while let Ok(told) = way.next(&mut watcher).await {
                seen.add(number, told);
            }
        }));
    }
    tokio::time::sleep(REST).await;
    Ok(tasks)
}

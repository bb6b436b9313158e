//! `bench fanout`: the cache on top of a store: start-up, memory, lists, and changes to many watchers.
//!
//! Start-up and memory are measured in a process of their own, on the embedded store. The rest runs on the
//! store in memory, where a commit costs little, so that what is seen is the cache.

mod bare;
mod watchers;

use crate::{
    Outcome,
    process::{self, cpu_time},
    report::{Row, Style},
};
use bytes::Bytes;
use cache::{Cache, CacheOptions, Change, Encoding, Field, Filter, Freshness, Mode, Query, Resource, Spec};
use object::field_selector::Selector;
use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};
use store::{
    Revision, Store,
    embedded::{self, Embedded},
    memory::Memory,
};
use tokio::runtime::Runtime;
use watchers::{FanoutWork, Pace, Way, by_node, fan_out, idle};

pub(crate) const ABOUT: &str = "the cache: start-up, memory, lists, changes to many watchers (--entries N, --dir PATH, --row PART OF A NAME: those of the fan-out, or start, alone)";

const POD: &str = include_str!("pod.json");
const SMALL_POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-7d9f8b6c5-x7k2p","namespace":"default","uid":"0f4e1c9a-6b1d-4f0e-9a53-2f2a3b0c7d11"},"spec":{"nodeName":"node-17"}}"#;
const START: &str = "--start";
const NODES: u64 = 1000;

/// How large the pods are: an allocator rounds sizes up, some more than others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    /// The sample as it is, 5.4 kB.
    Whole,
    /// The sample without its environment variables, 5.0 kB.
    WithoutVariables,
    /// A name and a node, 0.2 kB: a change of it costs little, so that what comes on top can be seen.
    Small,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct FanoutOptions {
    style: Style,
    entries: u64,
    directory: Option<PathBuf>,
    /// Part of the names of the only rows of the fan-out and of starting to take.
    row: Option<String>,
    start: bool,
}

pub(crate) fn run(arguments: &[String]) -> Outcome {
    let settings = FanoutOptions::parse(arguments)?;
    if settings.start {
        return start(&settings);
    }
    let scratch = match &settings.directory {
        Some(directory) => tempfile::tempdir_in(directory)?,
        None => tempfile::tempdir()?,
    };
    let runtime = Runtime::new()?;
    // First, because it looks at the memory of this process.
    if settings.row.is_none() {
        idle(&runtime)?.print(settings.style)?;
    }
    let one_thread = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for watchers in [1, 100, 10_000] {
        let measure = |runtime: &Runtime, pace, way| {
            let work = FanoutWork { watchers, pace, way };
            let name = work.name(runtime);
            if settings.wants(&name) {
                fan_out(runtime, work)?.print(settings.style)?;
            }
            Ok::<_, Failure>(())
        };
        for pace in [Pace::OneByOne, Pace::OneWriter, Pace::ManyWriters] {
            measure(&runtime, pace, Way::Pieces)?;
        }
        for pace in [Pace::OneWriter, Pace::ManyWriters] {
            measure(&runtime, pace, Way::Written)?;
            measure(&one_thread, pace, Way::Written)?;
        }
    }
    drop(one_thread);
    if settings.row.is_none() {
        by_node(&runtime)?.print(settings.style)?;
        reads(&runtime, settings.style)?;
    }
    drop(runtime);
    if !settings.wants("start") {
        return Ok(());
    }
    for size in [Size::WithoutVariables, Size::Whole] {
        let path = scratch.path().join(if size == Size::Whole { "whole" } else { "smaller" });
        fill(&settings, &path, size)?;
        let mut child = Command::new(std::env::current_exe()?);
        child.args(["fanout", START, "--dir"]).arg(&path);
        if settings.style == Style::Json {
            child.arg("--json");
        }
        if !child.status()?.success() {
            return Err("the start-up failed".into());
        }
    }
    Ok(())
}

fn fill(settings: &FanoutOptions, path: &Path, size: Size) -> Outcome {
    let runtime = Runtime::new()?;
    let store: Arc<dyn Store> = Arc::new(Embedded::open(path, embedded::EmbeddedOptions::default())?);
    let (started, cpu) = (Instant::now(), cpu_time()?);
    runtime.block_on(async {
        let cache = Arc::new(Cache::open(store.clone(), [pods()?], CacheOptions::default()).await?);
        write(&cache, 256, settings.entries, size).await?;
        Ok::<_, Failure>(())
    })?;
    let (elapsed, cpu) = (started.elapsed(), cpu_time()? - cpu);
    Row::new("create, 256 writers")
        .figure("bytes", Pod::new(0, size).json.len() as f64, "")
        .figure("commits", settings.entries as f64 / elapsed.as_secs_f64(), "/s")
        .figure("cpu per commit", micros(cpu) / settings.entries as f64, "us")
        .print(settings.style)?;
    drop(runtime);
    store.close();
    Ok(())
}

/// Runs in its own process: opens the store, and the cache on it.
fn start(settings: &FanoutOptions) -> Outcome {
    let path = settings.directory.as_deref().ok_or("--start needs --dir")?;
    let runtime = Runtime::new()?;
    let begun = Instant::now();
    let store: Arc<dyn Store> = Arc::new(Embedded::open(path, embedded::EmbeddedOptions::default())?);
    let (opened, before, cpu) = (begun.elapsed(), process::memory()?, cpu_time()?);
    let load = |options: CacheOptions| {
        runtime.block_on(Cache::open(store.clone(), [pods()?], options)).map_err(Failure::from)
    };
    let begun = Instant::now();
    let cache = load(CacheOptions { replay: 0, ..CacheOptions::default() })?;
    let (loaded, cpu, after) = (begun.elapsed(), cpu_time()? - cpu, process::memory()?);
    let resource = pods_of(&cache)?;
    let list = runtime.block_on(resource.list(Query::new(Freshness::Any, Filter::all())))?;
    let (mut raw, mut count) = (0u64, 0u64);
    for entry in list {
        raw += entry.bytes().len() as u64;
        count += 1;
    }
    Row::new("start")
        .figure("entries", count as f64, "")
        .figure("store", millis(opened), "ms")
        .figure("cache", millis(loaded), "ms")
        .figure("cpu of the cache", millis(cpu), "ms")
        .print(settings.style)?;
    Row::new("memory")
        .figure("raw", raw as f64 / 1e6, "MB")
        .figure("cache over raw", after.saturating_sub(before) as f64 / raw as f64, "x")
        .figure("process over raw", after as f64 / raw as f64, "x")
        .print(settings.style)?;
    drop((cache, resource));
    let begun = Instant::now();
    let cache = load(CacheOptions::default())?;
    Row::new("start with history")
        .figure("changes", pods_of(&cache)?.stats().log_changes as f64, "")
        .figure("cache", millis(begun.elapsed()), "ms")
        .print(settings.style)?;
    Ok(())
}

fn reads(runtime: &Runtime, style: Style) -> Outcome {
    let (cache, resource) = small(runtime, Memory::default(), CacheOptions::default(), 10_000)?;
    let query = || Query::new(Freshness::Any, Filter::all());
    let all = each(runtime, 200, || resource.list(query()))?;
    Row::new("list 10,000")
        .figure("iterate", millis(all.time), "ms")
        .figure("per entry", micros(all.time) * 1e3 / 10_000.0, "ns")
        .print(style)?;
    let on_node = Filter::all().fields(Selector::equal("spec.nodeName", "node-7"));
    let some = each(runtime, 2000, || resource.list(Query::new(Freshness::Any, on_node.clone())))?;
    Row::new("list by node")
        .figure("found", some.found as f64, "")
        .figure("each", micros(some.time), "us")
        .print(style)?;
    let labels = object::label::Selector::parse("app=web,pod-template-hash!=other")?;
    let labelled = each(runtime, 50, || {
        resource.list(Query::new(Freshness::Any, Filter::all().labels(labels.clone())))
    })?;
    Row::new("list by labels")
        .figure("found", labelled.found as f64, "")
        .figure("per entry", micros(labelled.time) * 1e3 / 10_000.0, "ns")
        .print(style)?;
    let page =
        each(runtime, 2000, || resource.list(Query::new(Freshness::MostRecent, Filter::all()).limit(500)))?;
    Row::new("list 500 of them").figure("each", micros(page.time), "us").print(style)?;
    let get = Instant::now();
    for number in 0..100_000 {
        let (namespace, name) = names(number % 10_000);
        if runtime.block_on(resource.get(&namespace, &name, Freshness::MostRecent))?.is_none() {
            return Err("an entry is missing".into());
        }
    }
    Row::new("get").figure("each", micros(get.elapsed()) / 1e5, "us").print(style)?;
    let before = cache.revision();
    runtime.block_on(write(&cache, 16, 10_000, Size::Whole))?;
    let exact = |behind: u64| query().mode(Mode::Exact(Revision(before.0 + 10_000 - behind))).limit(1);
    for behind in [100, 9_000] {
        let begun = Instant::now();
        runtime.block_on(resource.list(exact(behind)))?;
        let first = begun.elapsed();
        let kept = each(runtime, 1000, || resource.list(exact(behind)))?;
        Row::new(format!("exact, {behind} changes ago"))
            .figure("first", micros(first), "us")
            .figure("again", micros(kept.time), "us")
            .print(style)?;
    }
    encode(runtime, &cache, &resource)?.print(style)?;
    Ok(())
}

fn encode(runtime: &Runtime, cache: &Cache, resource: &Resource) -> Result<Row, Failure> {
    let list: Vec<_> =
        runtime.block_on(resource.list(Query::new(Freshness::Any, Filter::all())))?.take(1000).collect();
    let make = |entry: &cache::Entry| Ok::<_, Infallible>(Bytes::copy_from_slice(entry.bytes()));
    let mut times = [Duration::ZERO; 2];
    for time in &mut times {
        let begun = Instant::now();
        for entry in &list {
            cache.encodings().get(entry, Encoding(1), make)?;
        }
        *time = begun.elapsed();
    }
    let [first, again] = times.map(|time| micros(time) * 1e3 / list.len() as f64);
    Ok(Row::new("other encoding").figure("first", first, "ns").figure("again", again, "ns"))
}

/// Puts new pods, in as many tasks as there are writers.
async fn write(cache: &Arc<Cache>, writers: u64, count: u64, size: Size) -> Result<(), Failure> {
    put_all(cache, writers, count, move |number| Some(Pod::new(number, size))).await
}

/// Puts pods again and again.
async fn change(cache: &Arc<Cache>, pods: &Arc<[Pod]>, writers: u64, count: u64) -> Result<(), Failure> {
    let pods = pods.clone();
    put_all(cache, writers, count, move |number| again(&pods, number)).await
}

/// The pod whose turn it is.
fn again(pods: &[Pod], number: u64) -> Option<Pod> {
    pods.get(number as usize % pods.len().max(1)).cloned()
}

async fn put_all(
    cache: &Arc<Cache>,
    writers: u64,
    count: u64,
    pod: impl Fn(u64) -> Option<Pod> + Clone + Send + 'static,
) -> Result<(), Failure> {
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let (cache, pod) = (cache.clone(), pod.clone());
            tokio::spawn(async move {
                let resource = pods_of(&cache)?;
                for pod in (writer..count).step_by(writers as usize).filter_map(pod) {
                    put(&cache, &resource, pod).await?;
                }
                Ok::<_, Failure>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

async fn put(cache: &Cache, resource: &Arc<Resource>, pod: Pod) -> Result<(), Failure> {
    cache.commit(Change::put(resource, &pod.namespace, &pod.name, pod.json)).await?;
    Ok(())
}

/// A cache on a store in memory, with some pods.
fn small(
    runtime: &Runtime,
    store: Memory,
    options: CacheOptions,
    entries: u64,
) -> Result<(Arc<Cache>, Arc<Resource>), Failure> {
    runtime.block_on(async {
        let cache = Arc::new(Cache::open(Arc::new(store), [pods()?], options).await?);
        write(&cache, 16, entries, Size::Whole).await?;
        let resource = pods_of(&cache)?;
        Ok((cache, resource))
    })
}

struct Each {
    time: Duration,
    found: usize,
}

/// The time of a list with all its entries, out of many.
fn each<F>(runtime: &Runtime, rounds: u32, list: impl Fn() -> F) -> Result<Each, Failure>
where
    F: Future<Output = Result<cache::List, cache::Error>>,
{
    let begun = Instant::now();
    let mut found = 0;
    for _ in 0..rounds {
        let list = runtime.block_on(list())?;
        found = list.inspect(|entry| _ = std::hint::black_box(entry.bytes().len())).count();
    }
    Ok(Each { time: begun.elapsed() / rounds, found })
}

fn cost(work: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let before = cpu_time()?;
    work()?;
    Ok(cpu_time()?.saturating_sub(before))
}

fn pods() -> Result<Spec, Failure> {
    let names = [
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
    ];
    let spec = Spec::namespaced("pods")?.field(Field::new("spec.nodeName").indexed());
    let spec = spec.field(Field::new("spec.hostNetwork").absent("false"));
    Ok(names.into_iter().fold(spec, |spec, name| spec.field(Field::new(name))))
}

fn pods_of(cache: &Cache) -> Result<Arc<Resource>, Failure> {
    cache.resource("pods").ok_or_else(|| "there are no pods".into())
}

fn names(number: u64) -> (String, String) {
    (format!("namespace-{:03}", number % 100), format!("web-{number:08}"))
}

/// A pod to be put.
#[derive(Clone)]
struct Pod {
    namespace: String,
    name: String,
    json: Bytes,
}

impl Pod {
    fn new(number: u64, size: Size) -> Self {
        let (namespace, name) = names(number);
        let uid = format!("{number:08x}-0000-4000-8000-{number:012x}");
        let sample = match size {
            Size::Small => SMALL_POD.into(),
            Size::Whole => POD.into(),
            Size::WithoutVariables => (0..8).fold(POD.to_owned(), |text, variable| {
                let variable =
                    format!(r#"{{"name":"VAR_{variable}","value":"value-of-variable-{variable}"}},"#);
                text.replacen(&variable, "", 1)
            }),
        };
        let json = sample
            .replace("web-7d9f8b6c5-x7k2p", &name)
            .replace("\"namespace\":\"default\"", &format!("\"namespace\":\"{namespace}\""))
            .replace("0f4e1c9a-6b1d-4f0e-9a53-2f2a3b0c7d11", &uid)
            .replace("\"nodeName\":\"node-17\"", &format!("\"nodeName\":\"node-{}\"", number % NODES));
        Self { namespace, name, json: json.into() }
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl FanoutOptions {
    fn wants(&self, row: &str) -> bool {
        self.row.as_ref().is_none_or(|part| row.contains(part))
    }

    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut settings =
            Self { style: Style::Table, entries: 100_000, directory: None, row: None, start: false };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--json" => settings.style = Style::Json,
                "--entries" => settings.entries = value()?.parse::<u64>()?.max(1),
                "--dir" => settings.directory = Some(value()?.into()),
                "--row" => settings.row = Some(value()?.clone()),
                START => settings.start = true,
                other => return Err(format!("there is no option {other:?}").into()),
            }
        }
        Ok(settings)
    }
}

//! `bench crds`: a server with many custom resource definitions.
//!
//! Half of the fields of each definition have names of their own, so that no two are the same and nothing is
//! measured that a server can do for equal ones alone. Objects of a definition have the fields of the sample
//! pod, so that both are equally long and deep.

pub(crate) mod definition;

use crate::{
    Outcome,
    load::{
        self,
        access::Access,
        client::{Call, Connection, Endpoint},
        measure::{Clocks, Drive, Latencies, Measured, Processes},
        plan::Plan,
        scenario::{Check, Work},
        settings::{Protocol, Server, Size, with_numbers},
        start::Started,
        target::Target,
    },
    report::{Row, Style},
};
use definition::{collection, definition, object};
use http::StatusCode;
use serde_json::Value;
use std::{
    io::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;

pub(crate) const ABOUT: &str = "a server with many custom resource definitions (--help)";

type Failure = Box<dyn std::error::Error + Send + Sync>;

const OPTIONS: &str = "\
usage: bench crds [options]

the server: --start COMMAND (keelson), as for bench load
the work:
  --definitions N            (2000)
  --bytes N                  of each (30000)
  --rules N                  validation rules of each (0)
  --operations N             gets, and creates, of either kind (10000)
the figures:
  --json                     JSON lines instead of a table
";

/// How long a definition may take to be served.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two tries of a server that does not serve it yet.
const PAUSE: Duration = Duration::from_millis(1);
/// Before a server counts as having nothing to do.
const SETTLE: Duration = Duration::from_secs(5);
/// How often objects with and without rules are created in turn.
const TURNS: usize = 3;
/// How often it is started with all definitions.
const STARTS: usize = 3;
const GROUP: &str = "bench.example.com";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

struct DefinitionsSettings {
    server: Server,
    definitions: usize,
    bytes: usize,
    rules: usize,
    operations: usize,
    style: Style,
}

impl DefinitionsSettings {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut settings = Self {
            server: Server::default(),
            definitions: 2000,
            bytes: 30_000,
            rules: 0,
            operations: 10_000,
            style: Style::Table,
        };
        let numbers = &mut [
            ("definitions", &mut settings.definitions),
            ("bytes", &mut settings.bytes),
            ("rules", &mut settings.rules),
            ("operations", &mut settings.operations),
        ];
        let (mut server, style) = with_numbers(arguments, "crds", numbers)?;
        server.start.get_or_insert_with(|| "keelson".into());
        Ok(Self { server, style, ..settings })
    }
}

pub(crate) fn run(arguments: &[String]) -> Outcome {
    if arguments.iter().any(|argument| ["help", "-h", "--help"].contains(&argument.as_str())) {
        return Ok(write!(std::io::stdout(), "{OPTIONS}")?);
    }
    let settings = DefinitionsSettings::parse(arguments)?;
    load::runtime()?.block_on(all(&settings))
}

async fn all(settings: &DefinitionsSettings) -> Outcome {
    let mut started = Started::new(&settings.server).await?;
    let size = Size { pods: settings.operations, fill: 0, connections: 16, watchers: 1, work: 1.0 };
    let plan = Plan::new("bench-crds", size)?;
    let sample: Value = serde_json::from_str(&plan.pod(0))?;
    tokio::select! {
        outcome = measure(settings, &mut started, &sample, size) => outcome,
        interrupted = load::interruption() => interrupted.and(Err("interrupted".into())),
    }
}

async fn measure(
    settings: &DefinitionsSettings,
    started: &mut Started,
    sample: &Value,
    size: Size,
) -> Outcome {
    let endpoint = Arc::new(Endpoint::new(&Access::of(&started.server)?, Protocol::Http1)?);
    let mut connection = endpoint.connect().await?;
    sleep(SETTLE).await;
    let before = memory(&started.processes())?;
    let clocks = Clocks::now(&started.processes())?;
    let (mut answered, mut served, mut bytes) = (Vec::new(), Vec::new(), 0);
    for number in 0..settings.definitions {
        let definition = definition(number, sample, settings.bytes, settings.rules);
        let asked = Instant::now();
        let made =
            connection.ask(&Call::post(DEFINITIONS.into(), definition.to_string())).await?.succeeded()?;
        answered.push(asked.elapsed());
        bytes += made.body.len();
        served.push(until_served(&mut connection, number, sample).await?);
    }
    let spent = clocks.stop(&started.processes())?;
    let [answered, served] = [answered, served].map(Latencies::new);
    let row = Row::new("define")
        .figure("definitions", settings.definitions as f64, "")
        .figure("answered p50", millis(answered.within(0.5)), "ms")
        .figure("p99", millis(answered.within(0.99)), "ms")
        .figure("then served p50", millis(served.within(0.5)), "ms")
        .figure("p99", millis(served.within(0.99)), "ms")
        .figure("max", millis(served.within(1.0)), "ms");
    with_cpu(row, &spent, settings.definitions).print(settings.style)?;
    sleep(SETTLE).await;
    let after = memory(&started.processes())?;
    let each = (after - before) / settings.definitions as f64;
    let stored = bytes as f64 / settings.definitions as f64;
    Row::new("idle")
        .figure("memory before", before / 1e6, "MB")
        .figure("with them", after / 1e6, "MB")
        .figure("each", each / 1e3, "kB")
        .figure("stored", stored / 1e3, "kB")
        .figure("beyond that", (each - stored) / 1e3, "kB")
        .print(settings.style)?;
    documents(settings, started, &mut connection, "openapi").await?;
    let one_more = definition(settings.definitions, sample, settings.bytes, 0);
    connection.ask(&Call::post(DEFINITIONS.into(), one_more.to_string())).await?.succeeded()?;
    documents(settings, started, &mut connection, "openapi after one more").await?;
    compare(settings, started, size).await?;
    if settings.rules > 0 {
        compare_rules(settings, started, size).await?;
    }
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        starts.push(started.again().await?);
    }
    let starts = Latencies::new(starts);
    sleep(SETTLE).await;
    Row::new("start")
        .figure("ready p50", millis(starts.within(0.5)), "ms")
        .figure("max", millis(starts.within(1.0)), "ms")
        .figure("memory", memory(&started.processes())? / 1e6, "MB")
        .print(settings.style)?;
    Ok(())
}

/// Creates the first object of a definition, as soon as the server lets it: how long that took.
async fn until_served(
    connection: &mut Connection,
    number: usize,
    sample: &Value,
) -> Result<Duration, Failure> {
    let call = Call::post(collection(number, "default"), object(number, sample, "first").to_string());
    let begun = Instant::now();
    loop {
        let answer = connection.ask(&call).await?;
        match answer.status {
            StatusCode::NOT_FOUND if begun.elapsed() < PATIENCE => sleep(PAUSE).await,
            _ => {
                answer.succeeded()?;
                return Ok(begun.elapsed());
            }
        }
    }
}

/// Reads the descriptions of the API, each twice: the first may have to be made.
async fn documents(
    settings: &DefinitionsSettings,
    started: &Started,
    connection: &mut Connection,
    title: &str,
) -> Outcome {
    let of_group = format!("/openapi/v3/apis/{GROUP}/v1");
    for (which, path) in [("v3 index", "/openapi/v3"), ("v3 of the group", &of_group), ("v2", "/openapi/v2")]
    {
        let mut row = Row::new(title).label("document", which);
        for (time, cpu) in [("first", "cpu"), ("again", "cpu again")] {
            let clocks = Clocks::now(&started.processes())?;
            let answer = connection.ask(&Call::get(path.to_owned())).await?.succeeded()?;
            let spent = clocks.stop(&started.processes())?;
            row = row.figure(time, millis(spent.elapsed), "ms");
            if let Some(taken) = spent.cpu {
                row = row.figure(cpu, millis(taken), "ms");
            }
            if time == "first" {
                row = row.figure("body", answer.body.len() as f64 / 1e6, "MB");
            }
        }
        row.figure("memory", memory(&started.processes())? / 1e6, "MB").print(settings.style)?;
    }
    Ok(())
}

/// Creates and gets of pods, and of custom objects like them.
async fn compare(settings: &DefinitionsSettings, started: &Started, size: Size) -> Outcome {
    let mut target = Target::connect(&started.server, None, "bench-crds", size, Protocol::Http1).await?;
    target.processes = started.processes();
    target.need_namespace().await?;
    let plan = target.plan.clone();
    let namespace = plan.namespace.clone();
    let work = |call: Box<dyn Fn(usize) -> Call + Send + Sync>, check| Work {
        operations: settings.operations,
        connections: size.connections,
        prepare: Vec::new(),
        call,
        check,
    };
    let pods = plan.clone();
    let custom = custom_objects(&plan, 0)?;
    let paths = namespace.clone();
    let creates = [
        ("create pod", work(Box::new(move |at| Call::post(pods.path("pods"), pods.pod(at))), None)),
        ("create custom", work(Box::new(move |at| Call::post(collection(0, &paths), custom(at))), None)),
    ];
    let pods = plan.clone();
    let paths = namespace.clone();
    let gets = [
        (
            "get pod",
            work(Box::new(move |at| Call::get(pods.pod_path(pods.scattered(at)))), Some(Check::Kind("Pod"))),
        ),
        (
            "get custom",
            work(
                Box::new(move |at| {
                    Call::get(format!("{}/{}", collection(0, &paths), name(plan.scattered(at))))
                }),
                Some(Check::Kind("Sample0")),
            ),
        ),
    ];
    for pair in [creates, gets] {
        let mut costs = Vec::new();
        for (name, work) in pair {
            let spent = Drive::prepare(&target.endpoint, work).await?.run(&target.processes).await?;
            let body = spent.bytes as f64 / settings.operations as f64;
            costs.extend(spent.cpu);
            let row = Row::new(name).figure("p50", millis(spent.latencies.within(0.5)), "ms");
            with_cpu(row, &spent, settings.operations).figure("body", body, "B").print(settings.style)?;
        }
        if let [pod, custom] = costs.as_slice() {
            let ratio = custom.as_secs_f64() / pod.as_secs_f64().max(f64::EPSILON);
            Row::new("custom by built in").figure("cpu", ratio, "times").print(settings.style)?;
        }
    }
    Ok(())
}

/// Creates of custom objects with and without rules, of which the last definition has none. Both are done in
/// turn, so that a machine that becomes slower meanwhile counts for both.
async fn compare_rules(settings: &DefinitionsSettings, started: &Started, size: Size) -> Outcome {
    let mut target = Target::connect(&started.server, None, "bench-rules", size, Protocol::Http1).await?;
    target.processes = started.processes();
    target.need_namespace().await?;
    let mut costs = [Duration::ZERO; 2];
    for turn in 0..TURNS {
        for (cost, number) in costs.iter_mut().zip([0, settings.definitions]) {
            let custom = custom_objects(&target.plan, number)?;
            let path = collection(number, &target.plan.namespace);
            let first = turn * settings.operations;
            let work = Work {
                operations: settings.operations,
                connections: size.connections,
                prepare: Vec::new(),
                call: Box::new(move |at| Call::post(path.clone(), custom(first + at))),
                check: None,
            };
            let spent = Drive::prepare(&target.endpoint, work).await?.run(&target.processes).await?;
            *cost += spent.cpu.unwrap_or_default();
        }
    }
    let [with, without] = costs.map(|cost| cost.as_secs_f64() * 1e6 / (TURNS * settings.operations) as f64);
    Row::new("create custom")
        .figure("rules", settings.rules as f64, "")
        .figure("cpu with rules", with, "us")
        .figure("without", without, "us")
        .figure("difference", with - without, "us")
        .print(settings.style)
        .map_err(Into::into)
}

/// Custom objects of a definition with the fields of the plan's pods.
fn custom_objects(
    plan: &Plan,
    number: usize,
) -> Result<impl Fn(usize) -> String + Send + Sync + use<>, Failure> {
    let pod: Value = serde_json::from_str(&plan.pod(0))?;
    let text = object(number, &pod, "@name@").to_string();
    Ok(move |at| text.replacen("@name@", &name(at), 1))
}

fn name(number: usize) -> String {
    format!("sample-{number:05}")
}

fn with_cpu(row: Row, spent: &Measured, operations: usize) -> Row {
    match spent.cpu {
        Some(cpu) => row.figure("cpu", cpu.as_secs_f64() * 1e6 / operations as f64, "us"),
        None => row,
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn memory(processes: &Processes) -> Result<f64, Failure> {
    Ok(processes.memory()?.unwrap_or_default() as f64)
}

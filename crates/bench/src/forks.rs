//! `bench fork`: forks of a server with many objects and definitions.
//!
//! The time of a fork is that of its request. Its control plane is put together by the first request to it,
//! which has a row of its own; so has what a fork takes in memory before and after that.

use crate::{
    Outcome,
    crds::definition::{collection, definition, object},
    load::{
        self,
        access::Access,
        client::{Call, Connection, Endpoint},
        measure::{Drive, Latencies, Measured},
        plan::Plan,
        scenario::Work,
        settings::{Protocol, Server, Size, with_numbers},
        start::Started,
        target::Target,
    },
    report::{Row, Style},
};
use serde_json::Value;
use std::{
    io::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;

pub(crate) const ABOUT: &str = "forks of a server with many objects (--help)";

type Failure = Box<dyn std::error::Error + Send + Sync>;

const OPTIONS: &str = "\
usage: bench fork [options]

the server: --start COMMAND (keelson), as for bench load
the work:
  --pods N                   (10000)
  --definitions N            (200)
  --bytes N                  of each definition (5000)
  --forks N                  at once (1000)
  --used N                   forks that get requests (20)
  --operations N             gets, and creates, in a fork and in the server (5000)
the figures:
  --json                     JSON lines instead of a table
";

const FORKS: &str = "/keelson/v1/forks";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Before a server counts as having nothing to do.
const SETTLE: Duration = Duration::from_secs(5);
/// How often gets and creates of a fork and of the server are measured in turn.
const TURNS: usize = 3;

struct ForkSettings {
    server: Server,
    pods: usize,
    definitions: usize,
    bytes: usize,
    forks: usize,
    used: usize,
    operations: usize,
    style: Style,
}

impl ForkSettings {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut settings = Self {
            server: Server::default(),
            pods: 10_000,
            definitions: 200,
            bytes: 5_000,
            forks: 1_000,
            used: 20,
            operations: 5_000,
            style: Style::Table,
        };
        let numbers = &mut [
            ("pods", &mut settings.pods),
            ("definitions", &mut settings.definitions),
            ("bytes", &mut settings.bytes),
            ("forks", &mut settings.forks),
            ("used", &mut settings.used),
            ("operations", &mut settings.operations),
        ];
        let (mut server, style) = with_numbers(arguments, "fork", numbers)?;
        server.start.get_or_insert_with(|| "keelson".into());
        Ok(Self { server, style, ..settings })
    }
}

pub(crate) fn run(arguments: &[String]) -> Outcome {
    if arguments.iter().any(|argument| ["help", "-h", "--help"].contains(&argument.as_str())) {
        return Ok(write!(std::io::stdout(), "{OPTIONS}")?);
    }
    let settings = ForkSettings::parse(arguments)?;
    load::runtime()?.block_on(async {
        let started = Started::new(&settings.server).await?;
        tokio::select! {
            outcome = measure(&settings, &started) => outcome,
            interrupted = load::interruption() => interrupted.and(Err("interrupted".into())),
        }
    })
}

async fn measure(settings: &ForkSettings, started: &Started) -> Outcome {
    let size = Size { pods: settings.pods, fill: 0, connections: 16, watchers: 1, work: 1.0 };
    let mut target = Target::connect(&started.server, None, "bench-fork", size, Protocol::Http1).await?;
    target.processes = started.processes();
    target.need_namespace().await?;
    let plan = target.plan.clone();
    let endpoint = Arc::new(Endpoint::new(&Access::of(&started.server)?, Protocol::Http1)?);
    let mut connection = endpoint.connect().await?;
    for at in 0..settings.pods {
        connection.ask(&Call::post(plan.path("pods"), plan.pod(at))).await?.succeeded()?;
    }
    let sample: Value = serde_json::from_str(&plan.pod(0))?;
    for number in 0..settings.definitions {
        let definition = definition(number, &sample, settings.bytes, 0).to_string();
        connection.ask(&Call::post(DEFINITIONS.into(), definition)).await?.succeeded()?;
    }
    if let Some(last) = settings.definitions.checked_sub(1) {
        let object = object(last, &sample, "first").to_string();
        connection.ask(&Call::post(collection(last, &plan.namespace), object)).await?.succeeded()?;
    }
    sleep(SETTLE).await;
    used(settings, started, &mut connection, &plan, &sample).await?;
    sleep(SETTLE).await;
    at_once(settings, started, &mut connection).await?;
    compare(settings, &mut connection, &target, &plan).await
}

/// Forks that get requests: how long they take, to the first answer too, and what they hold.
async fn used(
    settings: &ForkSettings,
    started: &Started,
    connection: &mut Connection,
    plan: &Plan,
    sample: &Value,
) -> Outcome {
    let before = memory(started)?;
    let (mut made, mut first, mut again, mut written) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut reset, mut after_reset) = (Vec::new(), Vec::new());
    for number in 0..settings.used {
        let name = format!("used-{number}");
        made.push(timed(connection, &Call::post(FORKS.into(), format!(r#"{{"name":"{name}"}}"#))).await?);
        let root = root(&name);
        let get = Call::get(format!("{root}{}", plan.pod_path(0)));
        first.push(timed(connection, &get).await?);
        again.push(timed(connection, &get).await?);
        reset.push(timed(connection, &Call::post(format!("{FORKS}/{name}/reset"), "")).await?);
        after_reset.push(timed(connection, &get).await?);
        let object = object(0, sample, "new").to_string();
        let create = Call::post(format!("{root}{}", collection(0, &plan.namespace)), object);
        if settings.definitions > 0 {
            written.push(timed(connection, &create).await?);
        }
    }
    sleep(SETTLE).await;
    let held = (memory(started)? - before) / settings.used.max(1) as f64;
    for (name, times) in [
        ("fork", made),
        ("first request to it", first),
        ("the next one", again),
        ("reset", reset),
        ("first request after that", after_reset),
        ("create of a custom object", written),
    ] {
        if !times.is_empty() {
            let times = Latencies::new(times);
            Row::new(name)
                .figure("p50", millis(times.within(0.5)), "ms")
                .figure("max", millis(times.within(1.0)), "ms")
                .print(settings.style)?;
        }
    }
    Row::new("a fork that got requests and writes, with its controllers")
        .figure("memory", held / 1e3, "kB")
        .print(settings.style)?;
    for number in 0..settings.used {
        connection.ask(&Call::delete(format!("{FORKS}/used-{number}"))).await?.succeeded()?;
    }
    Ok(())
}

/// Many forks that nobody has asked anything of yet.
async fn at_once(settings: &ForkSettings, started: &Started, connection: &mut Connection) -> Outcome {
    let before = memory(started)?;
    let begun = Instant::now();
    let mut times = Vec::new();
    for number in 0..settings.forks {
        let call = Call::post(FORKS.into(), format!(r#"{{"name":"many-{number}"}}"#));
        times.push(timed(connection, &call).await?);
    }
    let all = begun.elapsed();
    sleep(Duration::from_secs(1)).await;
    let held = (memory(started)? - before) / settings.forks.max(1) as f64;
    let times = Latencies::new(times);
    Row::new("forks at once")
        .figure("forks", settings.forks as f64, "")
        .figure("all", millis(all), "ms")
        .figure("p50", millis(times.within(0.5)), "ms")
        .figure("max", millis(times.within(1.0)), "ms")
        .figure("memory of each", held / 1e3, "kB")
        .print(settings.style)?;
    let begun = Instant::now();
    for number in 0..settings.forks {
        connection.ask(&Call::delete(format!("{FORKS}/many-{number}"))).await?.succeeded()?;
    }
    Row::new("drop of all").figure("all", millis(begun.elapsed()), "ms").print(settings.style)?;
    Ok(())
}

/// Gets and creates in a fork and in the server, in turn.
async fn compare(
    settings: &ForkSettings,
    connection: &mut Connection,
    target: &Target,
    plan: &Plan,
) -> Outcome {
    connection.ask(&Call::post(FORKS.into(), r#"{"name":"compared"}"#)).await?.succeeded()?;
    let root = root("compared");
    connection.ask(&Call::get(format!("{root}{}", plan.pod_path(0)))).await?.succeeded()?;
    sleep(SETTLE).await;
    let operations = settings.operations;
    let work = |call: Box<dyn Fn(usize) -> Call + Send + Sync>| Work {
        operations,
        connections: 16,
        prepare: Vec::new(),
        call,
        check: None,
    };
    for what in ["get", "create"] {
        let mut costs = [Duration::ZERO; 2];
        for turn in 0..TURNS {
            for (cost, root) in costs.iter_mut().zip(["", root.as_str()]) {
                let (root, plan, pods) = (root.to_owned(), plan.clone(), settings.pods.max(1));
                let call: Box<dyn Fn(usize) -> Call + Send + Sync> = match what {
                    "get" => Box::new(move |at| Call::get(format!("{root}{}", plan.pod_path(at % pods)))),
                    _ => Box::new(move |at| {
                        let pod = plan.pod(pods + turn * operations + at);
                        Call::post(format!("{root}{}", plan.path("pods")), pod)
                    }),
                };
                let spent: Measured =
                    Drive::prepare(&target.endpoint, work(call)).await?.run(&target.processes).await?;
                *cost += spent.cpu.unwrap_or_default();
            }
        }
        let [server, fork] = costs.map(|cost| cost.as_secs_f64() * 1e6 / (TURNS * operations) as f64);
        Row::new(format!("{what} of a pod"))
            .figure("cpu in the server", server, "us")
            .figure("in a fork", fork, "us")
            .figure("ratio", fork / server.max(f64::EPSILON), "times")
            .print(settings.style)?;
    }
    Ok(())
}

fn root(name: &str) -> String {
    format!("{FORKS}/{name}/server")
}

async fn timed(connection: &mut Connection, call: &Call) -> Result<Duration, Failure> {
    let begun = Instant::now();
    connection.ask(call).await?.succeeded()?;
    Ok(begun.elapsed())
}

fn memory(started: &Started) -> Result<f64, Failure> {
    Ok(started.processes().memory()?.unwrap_or_default() as f64)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

//! `bench soak`: minutes of mixed work, with memory and disk of the server every ten seconds.
//!
//! Well-behaved clients write, list and watch at a fixed rate; others do not read what they asked for, or
//! send bodies that are meant to cost more than they should. Beside them one client reads a pod again and
//! again: what it waits is what everybody else would. Memory and disk have to find a level.

use crate::{
    Outcome,
    load::{
        self,
        client::{Call, Endpoint},
        measure::{Latencies, Processes},
        plan::Plan,
        settings::{Protocol, Server, Size, positive},
        start::Started,
        target::Target,
    },
    process::disk_usage,
    report::{Row, Style},
};
use http_body_util::BodyExt as _;
use std::{
    io::Write as _,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{task::JoinSet, time::sleep};

pub(crate) const ABOUT: &str =
    "minutes of mixed and hostile work, with memory and disk of the server (--help)";

type Failure = Box<dyn std::error::Error + Send + Sync>;

const OPTIONS: &str = "\
usage: bench soak [options]

the server: --start COMMAND (keelson), or --server, --kubeconfig, --token, ... as for bench load; then also
  --data DIRECTORY           whose size is the server's on disk
the work:
  --minutes N                (10)
  --pods N                   (1000)
  --writes N                 a second, all writers together (300)
  --watchers N               (20)
  --stalled N                clients that do not read their lists and watches (20)
the figures:
  --json                     JSON lines instead of a table
";

/// How often figures are printed.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long a client that does not read holds on to one response.
const STALL: Duration = Duration::from_secs(90);
/// After a failure, before the next try: a server that is down is not to be asked all the time.
const PAUSE: Duration = Duration::from_millis(200);
const WRITERS: u32 = 4;
const MERGE_PATCH: &str = "application/merge-patch+json";

struct SoakSettings {
    server: Server,
    data: Option<PathBuf>,
    minutes: usize,
    size: Size,
    writes: usize,
    stalled: usize,
    style: Style,
}

impl SoakSettings {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut settings = Self {
            server: Server::default(),
            data: None,
            minutes: 10,
            size: Size { pods: 1000, fill: 0, connections: 8, watchers: 20, work: 1.0 },
            writes: 300,
            stalled: 20,
            style: Style::Table,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().cloned().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--json" => settings.style = Style::Json,
                "--data" => settings.data = Some(value()?.into()),
                "--minutes" => settings.minutes = positive(argument, &value()?)?,
                "--pods" => settings.size.pods = positive(argument, &value()?)?,
                "--writes" => settings.writes = positive(argument, &value()?)?,
                "--watchers" => settings.size.watchers = positive(argument, &value()?)?,
                "--stalled" => settings.stalled = positive(argument, &value()?)?,
                other => {
                    if !settings.server.set(other.strip_prefix("--").unwrap_or_default(), value)? {
                        return Err(format!("there is no option {other:?}; see bench soak --help").into());
                    }
                }
            }
        }
        let Server { url, kubeconfig, start, .. } = &mut settings.server;
        if url.is_none() && kubeconfig.is_none() {
            start.get_or_insert_with(|| "keelson".into());
        }
        settings.server.check("--server", "--")?;
        Ok(settings)
    }
}

pub(crate) fn run(arguments: &[String]) -> Outcome {
    if arguments.iter().any(|argument| ["help", "-h", "--help"].contains(&argument.as_str())) {
        return Ok(write!(std::io::stdout(), "{OPTIONS}")?);
    }
    let settings = SoakSettings::parse(arguments)?;
    load::runtime()?.block_on(all(settings))
}

/// What the clients have seen since the last look.
#[derive(Default)]
struct Seen {
    /// How long each read of the pod took.
    gets: Mutex<Vec<Duration>>,
    written: AtomicU64,
    listed: AtomicU64,
    events: AtomicU64,
    hostile: AtomicU64,
    /// Requests of well-behaved clients that were not answered with success, and answers above 499 to others.
    failed: AtomicU64,
    first_failure: Mutex<Option<String>>,
}

impl Seen {
    fn failed(&self, what: &str, cause: impl std::fmt::Display) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut first = self.first_failure.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| format!("{what}: {cause}"));
    }
}

/// What every client needs.
#[derive(Clone)]
struct Client {
    endpoint: Arc<Endpoint>,
    plan: Plan,
    seen: Arc<Seen>,
}

async fn all(settings: SoakSettings) -> Outcome {
    let started = match settings.server.start {
        Some(_) => Some(Started::new(&settings.server).await?),
        None => None,
    };
    let data = started.as_ref().map(Started::data).or_else(|| settings.data.clone());
    let server = started.as_ref().map_or_else(|| settings.server.clone(), |started| started.server.clone());
    let namespace = format!("bench-soak-{}", std::process::id());
    let mut target = Target::connect(&server, started, &namespace, settings.size, Protocol::Http1).await?;
    let outcome = tokio::select! {
        outcome = soak(&settings, &mut target, data) => outcome,
        interrupted = load::interruption() => interrupted.and(Err("interrupted".into())),
    };
    let left = target.clean_up().await.map_err(|cause| format!("not everything was removed: {cause}").into());
    outcome.and(left)
}

async fn soak(settings: &SoakSettings, target: &mut Target, data: Option<PathBuf>) -> Outcome {
    target.need_pods().await?;
    let seen = Arc::<Seen>::default();
    let client = Client { endpoint: target.endpoint.clone(), plan: target.plan.clone(), seen: seen.clone() };
    // They end with this value.
    let mut clients = JoinSet::new();
    let pace = Duration::from_secs(1) * WRITERS / u32::try_from(settings.writes)?;
    for _ in 0..WRITERS {
        clients.spawn(write(client.clone(), pace));
    }
    clients.spawn(list(client.clone()));
    for _ in 0..settings.size.watchers {
        clients.spawn(watch(client.clone()));
    }
    for number in 0..settings.stalled {
        clients.spawn(stall(client.clone(), number));
    }
    clients.spawn(attack(client.clone()));
    clients.spawn(read(client.clone()));

    let begun = Instant::now();
    let rounds = settings.minutes * 60 / INTERVAL.as_secs() as usize;
    let mut levels = Vec::new();
    for round in 1..=rounds {
        sleep((INTERVAL * u32::try_from(round)?).saturating_sub(begun.elapsed())).await;
        let level = Level::now(&target.processes, data.as_deref())?;
        row(&seen, &level, begun.elapsed()).print(settings.style)?;
        levels.push(level);
    }
    summary(&levels).print(settings.style)?;
    let first = seen.first_failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    match first {
        Some(first) => Err(format!("requests failed, the first: {first}").into()),
        None => Ok(()),
    }
}

/// What the server takes at one moment, in megabytes.
struct Level {
    memory: f64,
    disk: f64,
}

impl Level {
    fn now(processes: &Processes, data: Option<&std::path::Path>) -> Result<Self, Failure> {
        let disk = data.map(disk_usage).transpose()?.unwrap_or_default();
        let memory = processes.memory()?.unwrap_or_default();
        Ok(Self { memory: memory as f64 / 1e6, disk: disk as f64 / 1e6 })
    }
}

fn row(seen: &Seen, level: &Level, elapsed: Duration) -> Row {
    let gets = std::mem::take(&mut *seen.gets.lock().unwrap_or_else(PoisonError::into_inner));
    let count = gets.len() as f64;
    let gets = Latencies::new(gets);
    let milliseconds = |part| gets.within(part).as_secs_f64() * 1e3;
    let per_second = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed) as f64 / INTERVAL.as_secs_f64();
    Row::new(format!("soak {:>4} s", elapsed.as_secs()))
        .aligned(6)
        .figure("memory", level.memory, "MB")
        .figure("disk", level.disk, "MB")
        .figure("get p50", milliseconds(0.5), "ms")
        .figure("p99", milliseconds(0.99), "ms")
        .figure("max", milliseconds(1.0), "ms")
        .figure("gets", count / INTERVAL.as_secs_f64(), "/s")
        .figure("writes", per_second(&seen.written), "/s")
        .figure("lists", per_second(&seen.listed), "/s")
        .figure("events", per_second(&seen.events), "/s")
        .figure("hostile", per_second(&seen.hostile), "/s")
        .figure("failed", seen.failed.swap(0, Ordering::Relaxed) as f64, "")
}

/// The last quarter of the time beside the one before: what has a level does not grow.
fn summary(levels: &[Level]) -> Row {
    let quarter = (levels.len() / 4).max(1);
    let mean = |levels: &[Level], of: fn(&Level) -> f64| {
        levels.iter().map(of).sum::<f64>() / levels.len().max(1) as f64
    };
    let last = levels.get(levels.len().saturating_sub(quarter)..).unwrap_or_default();
    let before = levels.len().saturating_sub(2 * quarter)..levels.len().saturating_sub(quarter);
    let before = levels.get(before).unwrap_or_default();
    Row::new("soak, third quarter, last")
        .figure("memory", mean(before, |level| level.memory), "MB")
        .figure("then", mean(last, |level| level.memory), "MB")
        .figure("disk", mean(before, |level| level.disk), "MB")
        .figure("then", mean(last, |level| level.disk), "MB")
}

/// Reads a pod again and again.
async fn read(client: Client) {
    let plan = client.plan.clone();
    let call = move |number| Call::get(plan.pod_path(plan.scattered(number)));
    let done = |seen: &Seen, took| seen.gets.lock().unwrap_or_else(PoisonError::into_inner).push(took);
    repeat(client, Duration::from_millis(5), call, done).await;
}

/// Makes requests at a pace, and says of those that succeed how long they took.
async fn repeat(client: Client, pace: Duration, call: impl Fn(usize) -> Call, done: fn(&Seen, Duration)) {
    let mut connection = None;
    let begun = Instant::now();
    let mut number = 0;
    loop {
        let due = pace.saturating_mul(number.try_into().unwrap_or(u32::MAX));
        sleep(due.saturating_sub(begun.elapsed())).await;
        let open = match connection.as_mut() {
            Some(open) => open,
            None => match client.endpoint.connect().await {
                Ok(opened) => connection.insert(opened),
                Err(cause) => {
                    client.seen.failed("connecting", cause);
                    sleep(PAUSE).await;
                    continue;
                }
            },
        };
        let call = call(number);
        let asked = Instant::now();
        match open.count(&call).await {
            Ok(_) => done(&client.seen, asked.elapsed()),
            Err(cause) => {
                client.seen.failed(&format!("{} {}", call.method, call.path), cause);
                connection = None;
            }
        }
        number += 1;
    }
}

/// Changes pods and config maps.
async fn write(client: Client, pace: Duration) {
    let plan = client.plan.clone();
    let call = move |number: usize| {
        let step = plan.next_step();
        match number % 4 {
            0 => {
                let path = format!(
                    "{}/settings-{}?fieldManager=bench&force=true",
                    plan.path("configmaps"),
                    step % 100
                );
                let body = plan.config_map(step % 100, step);
                Call::patch(path, "application/apply-patch+yaml", body)
            }
            _ => {
                let body =
                    format!(r#"{{"metadata":{{"annotations":{{"bench.example.com/step":"{step}"}}}}}}"#);
                Call::patch(plan.pod_path(plan.scattered(step)), MERGE_PATCH, body)
            }
        }
    };
    let done = |seen: &Seen, _| {
        seen.written.fetch_add(1, Ordering::Relaxed);
    };
    repeat(client, pace, call, done).await;
}

/// Lists everything, the first part, and a table.
async fn list(client: Client) {
    let plan = client.plan.clone();
    let call = move |number: usize| match number % 4 {
        0 => Call::get(plan.path("pods")),
        1 => Call::get(plan.path("pods")).accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
        2 => Call::get(plan.path("pods")).accept("application/vnd.kubernetes.protobuf"),
        _ => Call::get(plan.path("pods") + "?limit=100"),
    };
    let done = |seen: &Seen, _| {
        seen.listed.fetch_add(1, Ordering::Relaxed);
    };
    repeat(client, Duration::from_millis(100), call, done).await;
}

/// Watches pods, and reads what comes.
async fn watch(client: Client) {
    loop {
        let watched = async {
            let call = Call::get(client.plan.path("pods") + "?watch=true&timeoutSeconds=60");
            let mut body = client.endpoint.connect().await?.send(&call).await?.into_body();
            while let Some(frame) = body.frame().await {
                let lines =
                    frame?.data_ref().map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
                client.seen.events.fetch_add(lines as u64, Ordering::Relaxed);
            }
            Ok::<_, Failure>(())
        };
        if let Err(cause) = watched.await {
            client.seen.failed("watch", cause);
            sleep(PAUSE).await;
        }
    }
}

/// Asks for much, and does not read it. What becomes of such a client is the server's business, and no
/// failure.
async fn stall(client: Client, number: usize) {
    let query = ["", "?watch=true&timeoutSeconds=5&resourceVersion=0", "?limit=500"][number % 3];
    loop {
        let call = Call::get(client.plan.path("pods") + query);
        if let Ok(mut connection) = client.endpoint.connect().await
            && let Ok(response) = connection.send(&call).await
        {
            sleep(STALL).await;
            drop(response);
        }
        sleep(PAUSE).await;
    }
}

/// Sends bodies that are meant to cost more than they should. A refusal is the right answer; one above 499 is
/// not.
async fn attack(client: Client) {
    let pods = client.plan.path("pods");
    let maps = client.plan.path("configmaps");
    let pod = client.plan.pod_path(0);
    let repeated =
        |text: fn(usize) -> String, count: usize| (0..count).map(text).collect::<Vec<_>>().join(",");
    let owner = |at: usize| {
        format!(r#"{{"apiVersion":"v1","kind":"P","name":"a{at}","uid":"u{at}","controller":true}}"#)
    };
    let owners =
        format!(r#"{{"metadata":{{"name":"hostile","ownerReferences":[{}]}}}}"#, repeated(owner, 1000));
    let labels = format!(
        r#"{{"metadata":{{"name":"hostile","labels":{{{}}}}}}}"#,
        repeated(|at| format!(r#""!{at}":"x""#), 50_000)
    );
    let nested = format!(
        r#"{{"metadata":{{"name":"hostile"}},"x":{}{}{}}}"#,
        "[".repeat(490),
        repeated(|_| "0".into(), 100_000),
        "]".repeat(490)
    );
    let operations =
        repeated(|at| format!(r#"{{"op":"add","path":"/metadata/annotations/a{at}","value":"v"}}"#), 5000);
    let calls = [
        Call::post(maps.clone(), owners),
        Call::post(maps.clone(), labels),
        Call::post(format!("{maps}?dryRun=All&pretty=true"), nested),
        Call::post(maps.clone(), "{".repeat(100_000)),
        Call::post(maps.clone(), vec![b' '; 4 << 20]),
        Call::patch(format!("{pod}?dryRun=All"), "application/json-patch+json", format!("[{operations}]")),
        Call::get(format!("{pods}?labelSelector={}", repeated(|at| format!("k{at}!=v"), 4000))),
        Call::get(format!("{pods}?continue=AAAA&limit=1")),
    ];
    for number in 0.. {
        let Some(call) = calls.get(number % calls.len()) else { return };
        let answered = async { client.endpoint.connect().await?.ask(call).await };
        match answered.await {
            Ok(answer) if answer.status.as_u16() >= 500 => {
                client.seen.failed(&format!("hostile {} {:.60}", call.method, call.path), answer.refusal());
            }
            // A body that is too long need not be read to its end.
            Ok(_) | Err(_) => drop(client.seen.hostile.fetch_add(1, Ordering::Relaxed)),
        }
        sleep(PAUSE).await;
    }
}

//! `bench neighbours`: what one user notices of another one's flood.
//!
//! A mouse reads a pod now and then and makes config maps, first alone and then beside an elephant: another
//! user whose clients list all pods, make config maps and begin watches as fast as they are answered. Both
//! are users whom the administrator acts as, so that any server can be asked.

use crate::{
    Outcome,
    load::{
        self,
        client::{Call, Endpoint},
        measure::Latencies,
        plan::Plan,
        settings::{Protocol, Server, Size, with_numbers},
        start::Started,
        target::Target,
    },
    report::{Row, Style},
};
use http::StatusCode;
use http_body_util::BodyExt as _;
use serde_json::json;
use std::{
    io::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{task::JoinSet, time::sleep};

pub(crate) const ABOUT: &str = "gets and creates of a user beside another one's flood (--help)";

type Failure = Box<dyn std::error::Error + Send + Sync>;

const OPTIONS: &str = "\
usage: bench neighbours [options]

the server: --start COMMAND (keelson), or --server, --kubeconfig, --token, ... as for bench load, of somebody
  who may act as other users
the work:
  --seconds N                without the flood, and with it (20)
  --pods N                   that the flood lists (10000)
  --listers N                connections that list (32)
  --writers N                connections that create (16)
  --watchers N               connections that begin watches (16)
the figures:
  --json                     JSON lines instead of a table
";

const MOUSE: &str = "mouse";
const ELEPHANT: &str = "elephant";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
/// Between two gets of the mouse, and between two creates.
const GETS: Duration = Duration::from_millis(10);
const CREATES: Duration = Duration::from_millis(50);
/// After a refusal or a failure, before the next request.
const PAUSE: Duration = Duration::from_millis(100);
/// After the flood has begun, before the mouse is looked at.
const SETTLE: Duration = Duration::from_secs(2);

struct NeighbourSettings {
    server: Server,
    seconds: usize,
    size: Size,
    listers: usize,
    writers: usize,
    style: Style,
}

impl NeighbourSettings {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut settings = Self {
            server: Server::default(),
            seconds: 20,
            size: Size { pods: 10_000, fill: 0, connections: 16, watchers: 16, work: 1.0 },
            listers: 32,
            writers: 16,
            style: Style::Table,
        };
        let numbers = &mut [
            ("seconds", &mut settings.seconds),
            ("pods", &mut settings.size.pods),
            ("listers", &mut settings.listers),
            ("writers", &mut settings.writers),
            ("watchers", &mut settings.size.watchers),
        ];
        let (server, style) = with_numbers(arguments, "neighbours", numbers)?;
        Ok(Self { server, style, ..settings })
    }
}

pub(crate) fn run(arguments: &[String]) -> Outcome {
    if arguments.iter().any(|argument| ["help", "-h", "--help"].contains(&argument.as_str())) {
        return Ok(write!(std::io::stdout(), "{OPTIONS}")?);
    }
    let settings = NeighbourSettings::parse(arguments)?;
    load::runtime()?.block_on(all(settings))
}

async fn all(settings: NeighbourSettings) -> Outcome {
    let started = match settings.server.start {
        Some(_) => Some(Started::new(&settings.server).await?),
        None => None,
    };
    let server = started.as_ref().map_or_else(|| settings.server.clone(), |started| started.server.clone());
    let namespace = format!("bench-neighbours-{}", std::process::id());
    let mut target = Target::connect(&server, started, &namespace, settings.size, Protocol::Http1).await?;
    let outcome = tokio::select! {
        outcome = neighbours(&settings, &mut target) => outcome,
        interrupted = load::interruption() => interrupted.and(Err("interrupted".into())),
    };
    let binding = Call::delete(format!("{BINDINGS}/{namespace}"));
    let left = match target.endpoint.connect().await {
        Ok(mut connection) => connection.ask(&binding).await.map(drop),
        Err(cause) => Err(cause),
    };
    let left = left.and(target.clean_up().await);
    outcome.and(left.map_err(|cause| format!("not everything was removed: {cause}").into()))
}

async fn neighbours(settings: &NeighbourSettings, target: &mut Target) -> Outcome {
    target.need_pods().await?;
    bind(target).await?;
    let user = |name| Arc::new(target.endpoint.acting_as(name));
    let look = Duration::from_secs(settings.seconds as u64);

    let alone = mouse(user(MOUSE), &target.plan, look).await?;
    alone.row("mouse, alone")?.print(settings.style)?;

    let flood = Arc::<Flood>::default();
    let elephant = user(ELEPHANT);
    let mut clients = JoinSet::new();
    for _ in 0..settings.listers {
        clients.spawn(list(elephant.clone(), target.plan.clone(), flood.clone()));
    }
    for _ in 0..settings.writers {
        clients.spawn(create(elephant.clone(), target.plan.clone(), flood.clone()));
    }
    for _ in 0..settings.size.watchers {
        clients.spawn(watch(elephant.clone(), target.plan.clone(), flood.clone()));
    }
    sleep(SETTLE).await;
    flood.counts();
    let begun = Instant::now();
    let beside = mouse(user(MOUSE), &target.plan, look).await?;
    let counts = flood.counts();
    let elapsed = begun.elapsed().as_secs_f64();
    flood.is_over.store(true, Ordering::Relaxed);
    beside.row("mouse, beside the elephant")?.print(settings.style)?;
    let mut row = Row::new("elephant");
    for (name, count) in Flood::NAMES.into_iter().zip(counts) {
        row = row.figure(name, count as f64 / elapsed, "/s");
    }
    if let Some(memory) = target.processes.memory()? {
        row = row.figure("memory", memory as f64 / 1e6, "MB");
    }
    row.print(settings.style)?;
    clients.shutdown().await;
    Ok(())
}

/// Lets both users do everything.
async fn bind(target: &Target) -> Outcome {
    let group = "rbac.authorization.k8s.io";
    let subject = |name: &str| json!({"kind": "User", "apiGroup": group, "name": name});
    let binding = json!({
        "metadata": {"name": target.plan.namespace},
        "subjects": [subject(MOUSE), subject(ELEPHANT)],
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
    });
    let mut connection = target.endpoint.connect().await?;
    connection.ask(&Call::post(BINDINGS.into(), binding.to_string())).await?.succeeded()?;
    // Until it counts.
    let get = Call::get(target.plan.pod_path(0));
    for user in [MOUSE, ELEPHANT] {
        let mut connection = Arc::new(target.endpoint.acting_as(user)).connect().await?;
        let asked = Instant::now();
        while connection.ask(&get).await?.status == StatusCode::FORBIDDEN {
            if asked.elapsed() > Duration::from_secs(10) {
                return Err(format!("the binding does not count for {user}").into());
            }
            sleep(PAUSE).await;
        }
    }
    Ok(())
}

/// What the mouse's requests took, and how many were not answered with success.
#[derive(Default)]
struct Taken {
    gets: Vec<Duration>,
    creates: Vec<Duration>,
    failed: usize,
    first_failure: Option<String>,
}

impl Taken {
    fn row(self, name: &str) -> Result<Row, Failure> {
        if let Some(first) = &self.first_failure {
            writeln!(std::io::stderr(), "{name}: {first}")?;
        }
        let (gets, creates) = (Latencies::new(self.gets), Latencies::new(self.creates));
        let milliseconds = |of: &Latencies, part| of.within(part).as_secs_f64() * 1e3;
        Ok(Row::new(name)
            .aligned(7)
            .figure("get p50", milliseconds(&gets, 0.5), "ms")
            .figure("p99", milliseconds(&gets, 0.99), "ms")
            .figure("max", milliseconds(&gets, 1.0), "ms")
            .figure("create p50", milliseconds(&creates, 0.5), "ms")
            .figure("p99", milliseconds(&creates, 0.99), "ms")
            .figure("max", milliseconds(&creates, 1.0), "ms")
            .figure("failed", self.failed as f64, ""))
    }
}

/// Reads and creates for a time.
async fn mouse(endpoint: Arc<Endpoint>, plan: &Plan, time: Duration) -> Result<Taken, Failure> {
    let gets = plan.clone();
    let gets =
        at_pace(endpoint.clone(), GETS, time, move |number| Call::get(gets.pod_path(gets.scattered(number))));
    let creates = plan.clone();
    let creates = at_pace(endpoint, CREATES, time, move |_| new_config_map(&creates));
    let (gets, creates) = tokio::try_join!(gets, creates)?;
    let first_failure = gets.1.or(creates.1);
    let planned = |pace: Duration| (time.as_secs_f64() / pace.as_secs_f64()) as usize;
    let succeeded = gets.0.len() + creates.0.len();
    let failed = (planned(GETS) + planned(CREATES)).saturating_sub(succeeded);
    Ok(Taken { gets: gets.0, creates: creates.0, failed, first_failure })
}

fn new_config_map(plan: &Plan) -> Call {
    let step = plan.next_step();
    Call::post(plan.path("configmaps"), plan.config_map(step, step))
}

/// Makes requests at a pace for a time: how long those took that succeeded, and why the first failed that
/// did not. One that is due while another is under way is made after it.
async fn at_pace(
    endpoint: Arc<Endpoint>,
    pace: Duration,
    time: Duration,
    call: impl Fn(usize) -> Call,
) -> Result<(Vec<Duration>, Option<String>), Failure> {
    let (mut taken, mut failure) = (Vec::new(), None);
    let mut connection = endpoint.connect().await?;
    let begun = Instant::now();
    let mut due = Duration::ZERO;
    let mut number = 0;
    while due < time {
        sleep(due.saturating_sub(begun.elapsed())).await;
        let asked = Instant::now();
        match connection.count(&call(number)).await {
            Ok(_) => taken.push(asked.elapsed()),
            Err(cause) => {
                failure.get_or_insert_with(|| cause.to_string());
            }
        }
        number += 1;
        due += pace;
    }
    Ok((taken, failure))
}

/// What the elephant's clients did since the last look.
#[derive(Default)]
struct Flood {
    is_over: AtomicBool,
    lists: AtomicU64,
    creates: AtomicU64,
    watches: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    first_failure: Mutex<Option<String>>,
}

impl Flood {
    const NAMES: [&'static str; 5] = ["lists", "creates", "watches", "refused", "failed"];

    fn counts(&self) -> [u64; 5] {
        [&self.lists, &self.creates, &self.watches, &self.refused, &self.failed]
            .map(|count| count.swap(0, Ordering::Relaxed))
    }

    /// Notes how a request ended; `false` after a failure, when a new connection is needed.
    async fn note(&self, count: &AtomicU64, answered: Result<StatusCode, Failure>) -> bool {
        let failure = match answered {
            Ok(status) if status.is_success() => {
                count.fetch_add(1, Ordering::Relaxed);
                return true;
            }
            Ok(StatusCode::TOO_MANY_REQUESTS) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                sleep(PAUSE).await;
                return true;
            }
            Ok(status) => status.to_string(),
            Err(cause) => cause.to_string(),
        };
        if !self.is_over.load(Ordering::Relaxed) {
            self.failed.fetch_add(1, Ordering::Relaxed);
            let mut first = self.first_failure.lock().unwrap_or_else(PoisonError::into_inner);
            if first.is_none() {
                writeln!(std::io::stderr(), "the elephant: {failure}").ok();
                *first = Some(failure);
            }
            drop(first);
        }
        sleep(PAUSE).await;
        false
    }
}

/// Sends one request, and takes all of its response.
async fn answered(endpoint: &Arc<Endpoint>, call: &Call) -> Result<StatusCode, Failure> {
    let (head, mut body) = endpoint.connect().await?.send(call).await?.into_parts();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    Ok(head.status)
}

async fn list(endpoint: Arc<Endpoint>, plan: Plan, flood: Arc<Flood>) {
    let call = Call::get(plan.path("pods"));
    loop {
        flood.note(&flood.lists, answered(&endpoint, &call).await).await;
    }
}

async fn create(endpoint: Arc<Endpoint>, plan: Plan, flood: Arc<Flood>) {
    loop {
        let Ok(mut connection) = endpoint.connect().await else {
            sleep(PAUSE).await;
            continue;
        };
        loop {
            let answer = connection.ask(&new_config_map(&plan)).await.map(|answer| answer.status);
            if !flood.note(&flood.creates, answer).await {
                break;
            }
        }
    }
}

/// Begins watches that bring all pods, and ends each a second later.
async fn watch(endpoint: Arc<Endpoint>, plan: Plan, flood: Arc<Flood>) {
    let call = Call::get(plan.path("pods") + "?watch=true&timeoutSeconds=1");
    loop {
        flood.note(&flood.watches, answered(&endpoint, &call).await).await;
    }
}

//! `bench cluster`: nodes that exist on paper, and pods that are assigned to them and run there.
//!
//! The times are those of a user: from the first request until the last pod runs, or the last deployment is
//! ready, as another connection sees it.

use crate::{
    Outcome,
    load::{
        self,
        access::Access,
        client::{Call, Connection, Endpoint},
        measure::{Clocks, Processes},
        settings::{Protocol, Server, with_numbers},
        start::Started,
    },
    report::{Row, Style},
};
use http::StatusCode;
use std::{
    io::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{task::JoinSet, time::sleep};

pub(crate) const ABOUT: &str = "nodes on paper with pods that run there (--help)";

type Failure = Box<dyn std::error::Error + Send + Sync>;

const OPTIONS: &str = "\
usage: bench cluster [options]

the server: --start COMMAND (keelson); --fake-nodes is added to it
the work:
  --deployments N            of one pod each, on three nodes (600)
  --nodes N                  (5000)
  --pods N                   on them (100000)
  --churn N                  pods made and deleted each second, for ten seconds (1000)
  --idle-nodes N             while nothing happens for twenty seconds (10000)
  --connections N            (16)
the figures:
  --json                     JSON lines instead of a table
";

/// How long any of it may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long deployments may take: without their controller they never become ready.
const DEPLOYMENT_PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);
const CHURN: Duration = Duration::from_secs(10);
const SETTLE: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(20);
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

struct ClusterSettings {
    server: Server,
    deployments: usize,
    nodes: usize,
    pods: usize,
    churn: usize,
    idle_nodes: usize,
    connections: usize,
    style: Style,
}

impl ClusterSettings {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut settings = Self {
            server: Server::default(),
            deployments: 600,
            nodes: 5_000,
            pods: 100_000,
            churn: 1_000,
            idle_nodes: 10_000,
            connections: 16,
            style: Style::Table,
        };
        let numbers = &mut [
            ("deployments", &mut settings.deployments),
            ("nodes", &mut settings.nodes),
            ("pods", &mut settings.pods),
            ("churn", &mut settings.churn),
            ("idle-nodes", &mut settings.idle_nodes),
            ("connections", &mut settings.connections),
        ];
        let (mut server, style) = with_numbers(arguments, "cluster", numbers)?;
        server.start.get_or_insert_with(|| "keelson".into());
        Ok(Self { server, style, ..settings })
    }

    /// Starts the server with nodes; how long it took from there until the last node was ready.
    async fn start(&self, nodes: usize) -> Result<Running, Failure> {
        let start = self.server.start.as_deref().unwrap_or_default();
        let server = Server { start: Some(format!("{start} --fake-nodes={nodes}")), ..self.server.clone() };
        let started = Started::new(&server).await?;
        let begun = Instant::now();
        let endpoint = Arc::new(Endpoint::new(&Access::of(&started.server)?, Protocol::Http1)?);
        let mut watcher = endpoint.connect().await?;
        let last = Call::get(format!("/api/v1/nodes/node-{}", nodes - 1));
        until("ready nodes", PATIENCE, async || {
            let node = watcher.ask(&last).await?;
            Ok(node.status == StatusCode::OK && is_true(&node.json()?, "Ready"))
        })
        .await?;
        let account = Call::get("/api/v1/namespaces/default/serviceaccounts/default".into());
        until("the account of pods", PATIENCE, async || {
            Ok(watcher.ask(&account).await?.status == StatusCode::OK)
        })
        .await?;
        Ok(Running { started, endpoint, watcher, ready: begun.elapsed() })
    }
}

struct Running {
    started: Started,
    endpoint: Arc<Endpoint>,
    watcher: Connection,
    ready: Duration,
}

pub(crate) fn run(arguments: &[String]) -> Outcome {
    if arguments.iter().any(|argument| ["help", "-h", "--help"].contains(&argument.as_str())) {
        return Ok(write!(std::io::stdout(), "{OPTIONS}")?);
    }
    let settings = ClusterSettings::parse(arguments)?;
    load::runtime()?.block_on(async {
        tokio::select! {
            outcome = all(&settings) => outcome,
            interrupted = load::interruption() => interrupted.and(Err("interrupted".into())),
        }
    })
}

async fn all(settings: &ClusterSettings) -> Outcome {
    deployments(settings).await?;
    let mut running = settings.start(settings.nodes).await?;
    Row::new("nodes")
        .figure("nodes", settings.nodes as f64, "")
        .figure("ready", running.ready.as_secs_f64(), "s")
        .figure("memory", memory(&running.started.processes())? / 1e6, "MB")
        .print(settings.style)?;
    pods(settings, &mut running).await?;
    churn(settings, &mut running).await?;
    drop(running);
    idle(settings).await
}

async fn deployments(settings: &ClusterSettings) -> Outcome {
    let mut running = settings.start(3).await?;
    let begun = Instant::now();
    let bodies = (0..settings.deployments).map(|number| Call::post(DEPLOYMENTS.into(), deployment(number)));
    send(&running.endpoint, settings.connections, bodies.collect()).await?;
    let made = begun.elapsed();
    let row = Row::new("deployments").figure("deployments", settings.deployments as f64, "").figure(
        "made",
        made.as_secs_f64(),
        "s",
    );
    let list = Call::get(DEPLOYMENTS.into());
    let watcher = &mut running.watcher;
    let ready = until("ready deployments", DEPLOYMENT_PATIENCE, async || {
        let list = watcher.ask(&list).await?.succeeded()?.json()?;
        let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(items.len() == settings.deployments
            && items.iter().all(|item| item["status"]["readyReplicas"] == 1))
    })
    .await;
    match ready {
        Ok(()) => row.figure("ready", begun.elapsed().as_secs_f64(), "s").print(settings.style)?,
        Err(error) => row.label("ready", error.to_string()).print(settings.style)?,
    }
    Ok(())
}

async fn pods(settings: &ClusterSettings, running: &mut Running) -> Outcome {
    let clocks = Clocks::now(&running.started.processes())?;
    let begun = Instant::now();
    let calls = (0..settings.pods).map(|number| Call::post(PODS.into(), pod(&format!("pod-{number}"))));
    send(&running.endpoint, settings.connections, calls.collect()).await?;
    let made = begun.elapsed();
    all_run(&mut running.watcher).await?;
    let ready = begun.elapsed();
    let spent = clocks.stop(&running.started.processes())?;
    let row = Row::new("pods")
        .figure("pods", settings.pods as f64, "")
        .figure("made", made.as_secs_f64(), "s")
        .figure("all run", ready.as_secs_f64(), "s")
        .figure("memory", memory(&running.started.processes())? / 1e6, "MB");
    let row = match spent.cpu {
        Some(cpu) => row.figure("cpu each", cpu.as_secs_f64() * 1e6 / settings.pods as f64, "us"),
        None => row,
    };
    Ok(row.print(settings.style)?)
}

/// Makes and deletes pods, as many each second.
async fn churn(settings: &ClusterSettings, running: &mut Running) -> Outcome {
    let clocks = Clocks::now(&running.started.processes())?;
    let begun = Instant::now();
    let seconds = CHURN.as_secs() as usize;
    let mut late = Duration::ZERO;
    for second in 0..seconds {
        let made = (0..settings.churn)
            .map(|number| Call::post(PODS.into(), pod(&format!("churn-{second}-{number}"))));
        let deleted = (0..settings.churn)
            .filter(|_| second > 0)
            .map(|number| Call::delete(format!("{PODS}/churn-{}-{number}", second - 1)));
        send(&running.endpoint, settings.connections, made.chain(deleted).collect()).await?;
        let due = Duration::from_secs(second as u64 + 1);
        late = late.max(begun.elapsed().saturating_sub(due));
        sleep(due.saturating_sub(begun.elapsed())).await;
    }
    all_run(&mut running.watcher).await?;
    let spent = clocks.stop(&running.started.processes())?;
    let row = Row::new("churn")
        .figure("pods a second", settings.churn as f64, "")
        .figure("behind by at most", late.as_secs_f64(), "s")
        .figure("then all ran after", begun.elapsed().saturating_sub(CHURN).as_secs_f64(), "s");
    let row = match spent.cpu {
        Some(cpu) => row.figure("cpu", cpu.as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0, "%"),
        None => row,
    };
    Ok(row.print(settings.style)?)
}

async fn idle(settings: &ClusterSettings) -> Outcome {
    let running = settings.start(settings.idle_nodes).await?;
    sleep(SETTLE).await;
    let clocks = Clocks::now(&running.started.processes())?;
    sleep(IDLE).await;
    let spent = clocks.stop(&running.started.processes())?;
    let cpu = spent.cpu.unwrap_or_default();
    Row::new("idle")
        .figure("nodes", settings.idle_nodes as f64, "")
        .figure("cpu", cpu.as_secs_f64() / IDLE.as_secs_f64() * 100.0, "%")
        .figure("memory", memory(&running.started.processes())? / 1e6, "MB")
        .print(settings.style)?;
    Ok(())
}

/// Waits until no pod is in another phase than that of a pod that runs.
async fn all_run(watcher: &mut Connection) -> Result<(), Failure> {
    let others = Call::get("/api/v1/pods?fieldSelector=status.phase%21%3DRunning&limit=1".into());
    until("running pods", PATIENCE, async || {
        let list = watcher.ask(&others).await?.succeeded()?.json()?;
        Ok(list["items"].as_array().is_some_and(Vec::is_empty))
    })
    .await
}

/// Sends requests over several connections; an answer that is no success ends the run.
async fn send(endpoint: &Arc<Endpoint>, connections: usize, calls: Vec<Call>) -> Result<(), Failure> {
    let calls = Arc::new(calls);
    let mut running: JoinSet<Result<(), Failure>> = JoinSet::new();
    for first in 0..connections.max(1) {
        let (calls, mut connection) = (calls.clone(), endpoint.connect().await?);
        running.spawn(async move {
            for call in calls.iter().skip(first).step_by(connections.max(1)) {
                connection.ask(call).await?.succeeded()?;
            }
            Ok(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(())
}

async fn until(
    what: &str,
    patience: Duration,
    mut holds: impl AsyncFnMut() -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let begun = Instant::now();
    while !holds().await? {
        if begun.elapsed() > patience {
            return Err(format!("there are no {what} within {} s", patience.as_secs()).into());
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

fn is_true(object: &serde_json::Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|known| known["type"] == condition && known["status"] == "True")
}

fn pod(name: &str) -> String {
    format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}"}},"spec":{}}}"#, spec())
}

fn deployment(number: usize) -> String {
    let labels = format!(r#"{{"app":"bench-{number}"}}"#);
    format!(
        r#"{{"kind":"Deployment","apiVersion":"apps/v1","metadata":{{"name":"bench-{number}"}},"spec":{{"replicas":1,
        "selector":{{"matchLabels":{labels}}},"template":{{"metadata":{{"labels":{labels}}},"spec":{}}}}}}}"#,
        spec()
    )
}

fn spec() -> &'static str {
    r#"{"containers":[{"name":"main","image":"nginx","resources":{"requests":{"cpu":"100m","memory":"64Mi"}}}]}"#
}

fn memory(processes: &Processes) -> Result<f64, Failure> {
    Ok(processes.memory()?.unwrap_or_default() as f64)
}

//! `bench load`: any server of this API under fixed work, and optionally another under the same.
//!
//! The scenarios are the rows of [`scenario::ALL`]; `docs/bench.md` says how to take figures with them. Each
//! is run on one server and then on the other, so that what else the machine does hits both alike. A scenario
//! that a server does not answer rightly has no figures: its row says why.

pub(crate) mod access;
pub(crate) mod client;
mod figures;
pub(crate) mod measure;
pub(crate) mod plan;
mod protobuf;
pub(crate) mod scenario;
pub(crate) mod settings;
pub(crate) mod start;
pub(crate) mod target;
mod user;
mod watch;

use crate::{
    Outcome,
    report::{Row, Style},
};
use figures::Figure;
use measure::Clocks;
use scenario::{Run, Scenario};
use settings::{LoadOptions, Server, Storage};
use start::Started;
use std::{fs::File, io::Write as _, time::Duration};
use target::Target;
use testkit::Etcd;
use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{SignalKind, signal},
};

pub(crate) const ABOUT: &str = "a server of this API under load, also beside another (--help)";

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Between two scenarios, so that what one leaves to be done is not the other's.
const PAUSE: Duration = Duration::from_millis(500);
/// Before a server counts as having nothing to do.
const SETTLE: Duration = Duration::from_secs(2);
/// For how long a server that has nothing to do is looked at.
const LOOK: Duration = Duration::from_secs(3);
/// How often a server is started.
const STARTS: usize = 5;

/// The servers by their role.
const ROLES: [&str; 2] = ["server", "against"];

/// Where rows go.
struct Output {
    style: Style,
    file: Option<File>,
}

pub(crate) fn run(arguments: &[String]) -> Outcome {
    if arguments.iter().any(|argument| ["help", "-h", "--help"].contains(&argument.as_str())) {
        return help();
    }
    let settings = LoadOptions::parse(arguments)?;
    runtime()?.block_on(all(&settings))
}

/// Half of the machine is for this, the other half for the server. A single thread has no other to wake.
pub(crate) fn runtime() -> std::io::Result<Runtime> {
    let threads = std::thread::available_parallelism()?.get() / 2;
    let mut builder = match threads {
        0 | 1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(threads.max(1)).enable_all().build()
}

fn help() -> Outcome {
    let mut out = std::io::stdout().lock();
    writeln!(out, "usage: bench load --server URL [options]\n\n{}scenarios:", settings::OPTIONS)?;
    for Scenario { name, about, .. } in scenario::ALL {
        writeln!(out, "  {name:<26} {about}")?;
    }
    Ok(())
}

/// Runs everything, and removes what it made even if it was interrupted.
async fn all(settings: &LoadOptions) -> Outcome {
    let file = settings.json_file.as_ref().map(File::create).transpose()?;
    let mut output = Output { style: settings.style, file };
    // It is there until everything is removed.
    let etcd = match settings.storage {
        Storage::Own => None,
        Storage::Etcd => Some(Etcd::start("etcd", 1, &["--quota-backend-bytes=8589934592"])?),
    };
    let mut targets = Vec::new();
    let outcome = tokio::select! {
        outcome = measure(settings, etcd.as_ref(), &mut targets, &mut output) => outcome,
        interrupted = interruption() => interrupted.and(Err("interrupted".into())),
    };
    let left = tokio::select! {
        left = clean_up(&mut targets) => left,
        interrupted = interruption() => interrupted.and(Err("not everything was removed".into())),
    };
    match (outcome, left) {
        (Err(cause), Err(left)) => Err(format!("{cause}; {left}").into()),
        (outcome, left) => outcome.and(left),
    }
}

async fn clean_up(targets: &mut [Target]) -> Outcome {
    let mut left = Vec::new();
    for (target, role) in targets.iter_mut().zip(ROLES) {
        progress("removing what was made", role);
        if let Err(cause) = target.clean_up().await {
            let namespace = &target.plan.namespace;
            left.push(format!("{role}: the namespace {namespace} could not be removed: {cause}"));
        }
    }
    if left.is_empty() { Ok(()) } else { Err(left.join("; ").into()) }
}

/// Waits until somebody wants this to end.
pub(crate) async fn interruption() -> Outcome {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed?,
        _ = terminate.recv() => {}
    }
    Ok(())
}

async fn measure(
    settings: &LoadOptions,
    etcd: Option<&Etcd>,
    targets: &mut Vec<Target>,
    output: &mut Output,
) -> Outcome {
    let on_etcd = etcd.and_then(|etcd| Some((etcd.endpoints().pop()?, etcd.pids())));
    let given = [&settings.server].into_iter().chain(&settings.against);
    let servers: Vec<Server> =
        given.map(|server| Server { etcd: on_etcd.clone(), ..server.clone() }).collect();
    let seconds = clock::system().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let process = std::process::id();
    let mut started = Vec::new();
    let mut measured = Vec::new();
    let wanted = settings.scenarios.iter().find(|scenario| matches!(scenario.run, Run::Start));
    for (server, role) in servers.iter().zip(ROLES) {
        let (running, figures) = start(server, role, wanted.map_or(1, |_| STARTS)).await?;
        started.push(running);
        measured.extend(figures.map(|figures| (role, Ok(figures))));
    }
    if let Some(scenario) = wanted {
        output.rows(scenario, &measured)?;
    }
    for (number, (server, started)) in servers.into_iter().zip(started).enumerate() {
        // Even if both are the same server, which shows how far figures differ by chance.
        let namespace = format!("bench-load-{process}-{seconds}-{number}");
        let server = started.as_ref().map_or_else(|| server.clone(), |started| started.server.clone());
        let target = Target::connect(&server, started, &namespace, settings.size, settings.protocol).await?;
        targets.push(target);
    }
    let (mut made, mut failed) = (0, 0);
    for scenario in settings.scenarios.iter().filter(|scenario| !matches!(scenario.run, Run::Start)) {
        let mut measured = Vec::new();
        for (target, role) in targets.iter_mut().zip(ROLES) {
            progress(scenario.name, role);
            let figures = of_scenario(scenario, target).await;
            made += 1;
            failed += usize::from(figures.is_err());
            measured.push((role, figures));
            tokio::time::sleep(PAUSE).await;
        }
        output.rows(scenario, &measured)?;
    }
    if failed > 0 {
        return Err(format!("{failed} of {made} measurements failed").into());
    }
    Ok(())
}

/// Starts a server if that is asked for; the last one of several goes on.
async fn start(
    server: &Server,
    role: &str,
    times: usize,
) -> Result<(Option<Started>, Option<Vec<Figure>>), Failure> {
    if server.start.is_none() {
        return Ok((None, None));
    }
    let (mut ready, mut cpu, mut running) = (Vec::new(), Vec::new(), None);
    for _ in 0..times {
        progress("start", role);
        drop(running.take());
        let started = Started::new(server).await.map_err(|cause| format!("{role}: {cause}"))?;
        ready.push(started.ready);
        cpu.push(started.cpu);
        running = Some(started);
    }
    Ok((running, Some(figures::starts(&ready, &cpu))))
}

async fn of_scenario(scenario: &Scenario, target: &mut Target) -> Result<Vec<Figure>, Failure> {
    match scenario.run {
        Run::Start => Ok(Vec::new()),
        Run::Idle => at_rest(target).await,
        Run::Loaded => {
            target.need_pods().await?;
            at_rest(target).await
        }
        Run::Load => {
            let measured = target.load().await?;
            Ok(figures::requests(&measured, target.processes.memory()?))
        }
        Run::Unload => {
            let measured = target.unload().await?;
            Ok(figures::requests(&measured, target.processes.memory()?))
        }
        Run::Requests(work) => {
            target.need_pods().await?;
            let measured = target.drive(work(&target.plan)).await?;
            Ok(figures::requests(&measured, target.processes.memory()?))
        }
        Run::User => {
            target.need_pods().await?;
            let compared = user::compare(target).await?;
            Ok(figures::compared(&compared, target.processes.memory()?))
        }
        Run::Watch => {
            target.need_pods().await?;
            let watched = watch::watch(target).await?;
            Ok(figures::watched(&watched, target.processes.memory()?))
        }
    }
}

async fn at_rest(target: &Target) -> Result<Vec<Figure>, Failure> {
    tokio::time::sleep(SETTLE).await;
    let clocks = Clocks::now(&target.processes)?;
    tokio::time::sleep(LOOK).await;
    let taken = clocks.stop(&target.processes)?;
    let figures = taken.cpu.zip(target.processes.memory()?);
    let (cpu, memory) = figures.ok_or("the processes of the server are not known: give --pids")?;
    Ok(figures::at_rest(cpu, memory))
}

impl Output {
    fn rows(&mut self, scenario: &Scenario, measured: &[(&str, Result<Vec<Figure>, Failure>)]) -> Outcome {
        for (role, figures) in measured {
            match figures {
                Ok(figures) => self.row(&figures::row(scenario.name, role, figures))?,
                Err(cause) => {
                    let row = Row::new(scenario.name).label("server", *role);
                    self.row(&row.label("error", format!("FAILED: {cause}")))?;
                }
            }
        }
        if let [(_, Ok(server)), (_, Ok(against))] = measured {
            self.row(&figures::ratio(scenario.name, server, against))?;
        }
        Ok(())
    }

    fn row(&mut self, row: &Row) -> Outcome {
        row.print(self.style)?;
        if let Some(file) = &mut self.file {
            row.write(Style::Json, file)?;
        }
        Ok(())
    }
}

fn progress(what: &str, role: &str) {
    // Nobody may be there to read it.
    writeln!(std::io::stderr(), "bench load: {what}, {role}").ok();
}

//! Makes requests on some connections at once, and says what they took: of the server's CPU, and of
//! everybody's time.

use super::{
    client::{Connection, Endpoint},
    scenario::Work,
};
use crate::process::{cpu_time, cpu_time_of, family, memory_of};
use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// After so many refused requests no more are made: there is no figure any more, only their reason.
const PATIENCE: usize = 16;

/// The processes of a server, and those of a store that it shares with others.
#[derive(Clone, Debug)]
pub(crate) struct Processes {
    server: Members,
    store: Vec<u32>,
}

/// The processes of a server.
#[derive(Clone, Debug)]
pub(crate) enum Members {
    /// These; without any, what they take is not known.
    Given(Vec<u32>),
    /// One that was started here, with the children that it has at the time. One that ends takes its CPU time
    /// along.
    Family(u32),
}

/// What some requests took, none of which failed.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub(crate) operations: usize,
    pub(crate) elapsed: Duration,
    /// Of the server.
    pub(crate) cpu: Option<Duration>,
    /// Of the store, if it has processes of its own.
    pub(crate) store: Option<Duration>,
    /// Of this process.
    pub(crate) client: Duration,
    pub(crate) latencies: Latencies,
    /// Of the bodies of the responses.
    pub(crate) bytes: u64,
}

impl Measured {
    /// Adds what other requests took.
    pub(crate) fn add(&mut self, other: Self) {
        let is_first = self.operations == 0;
        self.operations += other.operations;
        self.elapsed += other.elapsed;
        let sum = |own: Option<Duration>, other: Option<Duration>| match is_first {
            true => other,
            false => own.zip(other).map(|(one, two)| one + two),
        };
        self.cpu = sum(self.cpu, other.cpu);
        self.store = sum(self.store, other.store);
        self.client += other.client;
        let all = std::mem::take(&mut self.latencies).0;
        self.latencies = Latencies::new(all.into_iter().chain(other.latencies.0).collect());
        self.bytes += other.bytes;
    }
}

/// How long each request took, in order of time.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<Duration>);

/// The clocks at one moment.
pub(crate) struct Clocks {
    begun: Instant,
    cpu: Option<Duration>,
    store: Option<Duration>,
    client: Duration,
}

/// What is common to all connections.
struct Shared {
    work: Work,
    next: AtomicUsize,
    failures: Mutex<Failures>,
}

#[derive(Default)]
struct Failures {
    count: usize,
    first: Option<String>,
}

/// What one connection did.
#[derive(Default)]
struct ConnectionWork {
    latencies: Vec<Duration>,
    bytes: u64,
}

impl Processes {
    pub(crate) fn new(server: Members, store: &[u32]) -> Self {
        Self { server, store: store.to_vec() }
    }

    /// The CPU time of the server so far: see [`Members::cpu`].
    pub(crate) fn cpu(&self) -> io::Result<Option<Duration>> {
        self.server.cpu()
    }

    /// The memory of the server.
    pub(crate) fn memory(&self) -> io::Result<Option<u64>> {
        self.server.memory()
    }

    fn store_cpu(&self) -> io::Result<Option<Duration>> {
        Members::Given(self.store.clone()).cpu()
    }
}

impl Members {
    /// The CPU time of all so far, without that of children that are not among them.
    pub(crate) fn cpu(&self) -> io::Result<Option<Duration>> {
        self.total(cpu_time_of)
    }

    /// The memory of all.
    pub(crate) fn memory(&self) -> io::Result<Option<u64>> {
        self.total(memory_of)
    }

    fn total<T: std::iter::Sum>(&self, of: fn(u32) -> io::Result<T>) -> io::Result<Option<T>> {
        match self {
            Self::Given(pids) if pids.is_empty() => Ok(None),
            Self::Given(pids) => pids.iter().map(|pid| of(*pid)).sum::<io::Result<T>>().map(Some),
            Self::Family(parent) => {
                let (first, rest) = (of(*parent)?, family(*parent)?);
                // One that has ended since is a child no more.
                let rest = rest.into_iter().filter(|pid| pid != parent).filter_map(|pid| of(pid).ok());
                Ok(Some(std::iter::once(first).chain(rest).sum()))
            }
        }
    }
}

impl Clocks {
    pub(crate) fn now(processes: &Processes) -> io::Result<Self> {
        Ok(Self {
            cpu: processes.cpu()?,
            store: processes.store_cpu()?,
            client: cpu_time()?,
            begun: Instant::now(),
        })
    }

    /// What has passed since then.
    pub(crate) fn stop(&self, processes: &Processes) -> io::Result<Measured> {
        let elapsed = self.begun.elapsed();
        let passed = |before: Option<Duration>, after: Option<Duration>| {
            before.zip(after).map(|(before, after)| after.saturating_sub(before))
        };
        let cpu = passed(self.cpu, processes.cpu()?);
        let store = passed(self.store, processes.store_cpu()?);
        let client = cpu_time()?.saturating_sub(self.client);
        Ok(Measured { elapsed, cpu, store, client, ..Measured::default() })
    }
}

impl Latencies {
    pub(crate) fn new(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        Self(all)
    }

    /// The time within which this part of all requests was answered: the smallest for which that is true.
    pub(crate) fn within(&self, part: f64) -> Duration {
        let rank = (part * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.clamp(1, self.0.len().max(1)) - 1).copied().unwrap_or_default()
    }
}

/// Work that can begin at once: the connections are open, and the answer was checked.
pub(crate) struct Drive {
    connections: Vec<Connection>,
    shared: Arc<Shared>,
}

impl Drive {
    /// Does everything that is not to be measured.
    pub(crate) async fn prepare(endpoint: &Arc<Endpoint>, work: Work) -> Result<Self, Failure> {
        let mut connections = Vec::new();
        for _ in 0..work.connections.min(work.operations).max(1) {
            connections.push(endpoint.connect().await?);
        }
        if let Some(connection) = connections.first_mut() {
            for call in &work.prepare {
                connection.count(call).await.map_err(|cause| format!("preparing: {cause}"))?;
            }
            if let Some(check) = work.check {
                let call = (work.call)(work.operations);
                let answer = connection.ask(&call).await?.succeeded();
                let checked = answer.and_then(|answer| Ok(check.check(&answer.body)?));
                checked.map_err(|cause| format!("{} {}: {cause}", call.method, call.path))?;
            }
        }
        let shared = Arc::new(Shared { work, next: AtomicUsize::new(0), failures: Mutex::default() });
        Ok(Self { connections, shared })
    }

    /// How many requests there will be.
    pub(crate) fn operations(&self) -> usize {
        self.shared.work.operations
    }

    /// Makes the requests. One that fails makes a failure of all.
    pub(crate) async fn run(self, processes: &Processes) -> Result<Measured, Failure> {
        let operations = self.operations();
        let shared = self.shared;
        let clocks = Clocks::now(processes)?;
        let mut tasks = JoinSet::new();
        for connection in self.connections {
            tasks.spawn(requests(connection, shared.clone()));
        }
        let (mut latencies, mut bytes) = (Vec::with_capacity(operations), 0);
        while let Some(part) = tasks.join_next().await {
            let part = part?;
            latencies.extend(part.latencies);
            bytes += part.bytes;
        }
        let measured = clocks.stop(processes)?;
        let failures = std::mem::take(&mut *shared.failures.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(first) = failures.first {
            let made = failures.count + latencies.len();
            return Err(format!("{} of {made} requests failed, the first: {first}", failures.count).into());
        }
        Ok(Measured { operations, latencies: Latencies::new(latencies), bytes, ..measured })
    }
}

async fn requests(mut connection: Connection, shared: Arc<Shared>) -> ConnectionWork {
    let mut part = ConnectionWork::default();
    loop {
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        if number >= shared.work.operations {
            return part;
        }
        let call = (shared.work.call)(number);
        let asked = Instant::now();
        match connection.count(&call).await {
            Ok(bytes) => {
                part.latencies.push(asked.elapsed());
                part.bytes += bytes;
            }
            Err(cause) => {
                let mut failures = shared.failures.lock().unwrap_or_else(PoisonError::into_inner);
                failures.count += 1;
                failures.first.get_or_insert_with(|| format!("{} {}: {cause}", call.method, call.path));
                if failures.count >= PATIENCE {
                    return part;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(millis: impl IntoIterator<Item = u64>) -> Latencies {
        Latencies::new(millis.into_iter().map(Duration::from_millis).collect())
    }

    fn within(latencies: &Latencies, part: f64) -> u128 {
        latencies.within(part).as_millis()
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let hundred = latencies((1..=100).rev());
        let parts = [0.0, 0.5, 0.9, 0.99, 1.0];
        assert_eq!(parts.map(|part| within(&hundred, part)), [1, 50, 90, 99, 100]);
    }

    #[test]
    fn percentiles_of_few_are_the_next_larger_one() {
        let three = latencies([30, 10, 20]);
        assert_eq!([0.5, 0.9, 0.99, 1.0].map(|part| within(&three, part)), [20, 30, 30, 30]);
        let one = latencies([7]);
        assert_eq!([0.0, 0.5, 1.0].map(|part| within(&one, part)), [7, 7, 7]);
        assert_eq!(within(&latencies([]), 0.5), 0);
    }

    #[test]
    fn a_server_without_processes_has_no_figures_and_one_that_is_gone_is_an_error() {
        assert_eq!(Members::Given(vec![]).cpu().unwrap(), None);
        assert_eq!(Members::Given(vec![]).memory().unwrap(), None);
        assert!(Members::Given(vec![std::process::id(), u32::MAX]).cpu().is_err());
    }

    #[test]
    fn a_started_server_is_measured_with_its_children_and_without_those_that_ended() {
        let mut child = std::process::Command::new("sleep").arg("20").spawn().unwrap();
        let own = Members::Given(vec![std::process::id()]).memory().unwrap().unwrap();
        let with_child = Members::Family(std::process::id()).memory().unwrap().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(with_child > own);
        assert!(Members::Family(std::process::id()).cpu().unwrap().is_some());
        assert!(Members::Family(u32::MAX).cpu().is_err());
    }

    #[test]
    fn the_processes_of_a_server_are_added_up() {
        let own = std::process::id();
        let once = Members::Given(vec![own]).memory().unwrap().unwrap();
        let twice = Members::Given(vec![own, own]).memory().unwrap().unwrap();
        assert!(twice > once + once / 2, "{once} and {twice}");
    }
}

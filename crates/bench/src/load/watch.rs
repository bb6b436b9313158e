//! Changes of pods to many watchers.
//!
//! The same changes are made twice: without watchers, and with many. The difference is what the watchers
//! cost.

use super::{
    client::{Call, Endpoint},
    measure::{Clocks, Drive, Measured},
    scenario,
    target::Target,
};
use http_body_util::BodyExt as _;
use serde_json::Value;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The longest that nothing may happen.
const PATIENCE: Duration = Duration::from_secs(30);
/// What an event begins with that is none.
const ERROR: &[u8] = br#"{"type":"ERROR""#;
/// How much of an event is kept, to find its type.
const HEAD: usize = 300;

/// What the changes took.
pub(crate) struct Watched {
    pub(crate) watchers: usize,
    /// The changes without watchers.
    pub(crate) alone: Measured,
    /// The same with watchers, until all have seen all; the latencies are those of the changes.
    pub(crate) with: Measured,
}

/// What one watcher has seen.
#[derive(Default)]
struct Seen {
    events: AtomicU64,
    bytes: AtomicU64,
}

/// The watchers. They end with this value.
struct Watchers {
    seen: Vec<Arc<Seen>>,
    tasks: JoinSet<Failure>,
}

/// Makes the changes and watches them.
pub(crate) async fn watch(target: &Target) -> Result<Watched, Failure> {
    let alone = target.drive(scenario::changes(&target.plan)).await?;
    // The additional request that is checked would be an additional event for the watchers.
    let drive = Drive::prepare(&target.endpoint, scenario::changes(&target.plan)).await?;
    let changes = drive.operations() as u64;
    let mut watchers = Watchers::new(target).await?;
    let clocks = Clocks::now(&target.processes)?;
    let driven = drive.run(&target.processes).await?;
    watchers.see(changes).await?;
    let taken = clocks.stop(&target.processes)?;
    let bytes = watchers.seen.iter().map(|seen| seen.bytes.load(Ordering::Relaxed)).sum();
    let with = Measured { operations: driven.operations, latencies: driven.latencies, bytes, ..taken };
    Ok(Watched { watchers: watchers.seen.len(), alone, with })
}

impl Watched {
    /// The server's CPU time of one event for one watcher; none if it is within the measuring error.
    pub(crate) fn cpu_of_one(&self) -> Option<Duration> {
        let difference = self.with.cpu?.checked_sub(self.alone.cpu?).filter(|time| !time.is_zero())?;
        Some(difference.div_f64((self.with.operations * self.watchers).max(1) as f64))
    }
}

impl Watchers {
    /// Opens the watches, each on a connection of its own, from the newest revision on.
    async fn new(target: &Target) -> Result<Self, Failure> {
        let pods = target.plan.path("pods");
        let list = target.endpoint.connect().await?.ask(&Call::get(format!("{pods}?limit=1"))).await?;
        let list = list.succeeded()?.json()?;
        let revision = list.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        let revision = revision.ok_or("the list has no resourceVersion")?;
        let call = Call::get(format!("{pods}?watch=true&resourceVersion={revision}"));
        let mut watchers = Self { seen: Vec::new(), tasks: JoinSet::new() };
        for _ in 0..target.plan.size.watchers {
            let seen = Arc::<Seen>::default();
            watchers.seen.push(seen.clone());
            let watch = open(&target.endpoint, &call).await?;
            watchers.tasks.spawn(async move {
                match follow(watch, &seen).await {
                    Ok(()) => "a watch ended before its time".into(),
                    Err(cause) => cause,
                }
            });
        }
        Ok(watchers)
    }

    /// Waits until each has seen as many events.
    async fn see(&mut self, wanted: u64) -> Result<(), Failure> {
        let (mut total, mut moved) = (0, Instant::now());
        loop {
            let counts = || self.seen.iter().map(|seen| seen.events.load(Ordering::Relaxed));
            if counts().all(|seen| seen == wanted) {
                return Ok(());
            }
            if let Some(most) = counts().max().filter(|most| *most > wanted) {
                return Err(format!("a watcher saw {most} events of {wanted} changes").into());
            }
            if let Some(ended) = self.tasks.try_join_next() {
                return Err(ended?);
            }
            let now = counts().sum();
            if now != total {
                (total, moved) = (now, Instant::now());
            } else if moved.elapsed() > PATIENCE {
                let least = counts().min().unwrap_or_default();
                return Err(format!("a watcher saw only {least} events of {wanted} changes").into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn open(endpoint: &Arc<Endpoint>, call: &Call) -> Result<Watch, Failure> {
    let mut connection = endpoint.connect().await?;
    let response = connection.send(call).await?;
    if response.status().is_success() {
        return Ok(Watch { body: response.into_body(), _connection: connection });
    }
    Err(format!("a watch was refused: {}", response.status()).into())
}

/// An open watch.
struct Watch {
    body: hyper::body::Incoming,
    _connection: super::client::Connection,
}

async fn follow(mut watch: Watch, seen: &Seen) -> Result<(), Failure> {
    let mut events = Events::default();
    while let Some(frame) = watch.body.frame().await {
        let frame = frame.map_err(|cause| format!("a watch broke off: {cause}"))?;
        if let Some(data) = frame.data_ref() {
            let complete = events.take(data)?;
            seen.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
            seen.events.fetch_add(complete, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Counts events in pieces of a stream, one a line, without parsing them.
#[derive(Default)]
struct Events {
    /// How the line that is not complete begins.
    head: Vec<u8>,
}

impl Events {
    /// How many events a piece completes; one that says what went wrong is an error.
    fn take(&mut self, mut piece: &[u8]) -> Result<u64, Failure> {
        let mut complete = 0;
        loop {
            let end = memchr::memchr(b'\n', piece);
            let (line, rest) = piece.split_at(end.unwrap_or(piece.len()));
            let space = HEAD.saturating_sub(self.head.len());
            self.head.extend_from_slice(line.get(..space).unwrap_or(line));
            if end.is_none() {
                return Ok(complete);
            }
            if self.head.starts_with(ERROR) {
                return Err(format!("a watch failed: {}", String::from_utf8_lossy(&self.head)).into());
            }
            complete += 1;
            self.head.clear();
            piece = rest.get(1..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"MODIFIED\",\"object\":{}}\n";

    #[test]
    fn events_are_counted_however_they_are_cut() {
        for size in 1..=STREAM.len() {
            let mut events = Events::default();
            let count: u64 = STREAM.chunks(size).map(|piece| events.take(piece).unwrap()).sum();
            assert_eq!(count, 2, "pieces of {size}");
        }
    }

    #[test]
    fn an_event_that_is_not_complete_does_not_count() {
        let mut events = Events::default();
        assert_eq!(events.take(&STREAM[..40]).unwrap(), 1);
    }

    #[test]
    fn an_error_is_no_event() {
        let stream = [STREAM, b"{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n"].concat();
        for size in 1..=stream.len() {
            let mut events = Events::default();
            let outcome: Result<Vec<u64>, _> = stream.chunks(size).map(|piece| events.take(piece)).collect();
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains(r#""code":410"#), "pieces of {size}: {error}");
        }
    }

    #[test]
    fn the_cost_of_an_event_is_what_watchers_add() {
        let measured =
            |cpu| Measured { operations: 100, cpu: Some(Duration::from_millis(cpu)), ..Measured::default() };
        let watched = Watched { watchers: 10, alone: measured(500), with: measured(1500) };
        assert_eq!(watched.cpu_of_one(), Some(Duration::from_millis(1)));
        let watched = Watched { watchers: 10, alone: measured(500), with: measured(490) };
        assert_eq!(watched.cpu_of_one(), None);
    }
}

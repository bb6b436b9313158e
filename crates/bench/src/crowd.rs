//! `bench crowd`: thousands of watches while objects are written, and how late their events come.
//!
//! Config maps lie in some namespaces. Most watches are each of one of these namespaces, the others are of
//! all namespaces with a selector that picks one object. Each write puts the time into an object, and who
//! gets the event compares.

use crate::{
    Outcome,
    load::{
        self,
        access::Access,
        client::{Call, Connection, Endpoint},
        measure::{Clocks, Latencies, Members, Processes},
        settings::{Protocol, Server, with_numbers},
        start::Started,
        target::remove_namespace,
    },
    report::{Row, Style},
};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};
use std::{
    io::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{task::JoinSet, time::sleep};

pub(crate) const ABOUT: &str = "thousands of watches under writes: memory of each, delay of events (--help)";

type Failure = Box<dyn std::error::Error + Send + Sync>;

const OPTIONS: &str = "\
usage: bench crowd [options]

the server: --start COMMAND (keelson), or --server, --kubeconfig, --token, ... as for bench load
the work:
  --watchers N               watches of one namespace each (10000)
  --selectors N              watches of all namespaces with a selector that picks one object (2000)
  --namespaces N             (100)
  --writes N                 a second (500)
  --seconds N                (20)
  --streams N                watches on one connection (100)
the figures:
  --json                     JSON lines instead of a table
";

const WRITERS: usize = 8;
const MERGE_PATCH: &str = "application/merge-patch+json";
/// After the watches are open, before memory is looked at.
const SETTLE: Duration = Duration::from_secs(2);
/// How long the last events may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Before the time of a write in its event.
const SENT: &[u8] = br#""sent":""#;

#[derive(Clone, Debug)]
struct CrowdSettings {
    server: Server,
    watchers: usize,
    selectors: usize,
    namespaces: usize,
    writes: usize,
    seconds: usize,
    streams: usize,
    style: Style,
}

impl CrowdSettings {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut settings = Self {
            server: Server::default(),
            watchers: 10_000,
            selectors: 2000,
            namespaces: 100,
            writes: 500,
            seconds: 20,
            streams: 100,
            style: Style::Table,
        };
        let numbers = &mut [
            ("watchers", &mut settings.watchers),
            ("selectors", &mut settings.selectors),
            ("namespaces", &mut settings.namespaces),
            ("writes", &mut settings.writes),
            ("seconds", &mut settings.seconds),
            ("streams", &mut settings.streams),
        ];
        let (server, style) = with_numbers(arguments, "crowd", numbers)?;
        Ok(Self { server, style, ..settings })
    }

    /// How many objects there are: one for each selector, and at least one in each namespace.
    fn objects(&self) -> usize {
        self.selectors.max(self.namespaces)
    }

    fn writes(&self) -> usize {
        self.writes * self.seconds
    }

    /// How many writes are of a namespace.
    fn writes_of(&self, namespace: usize) -> usize {
        (0..self.writes()).filter(|write| self.written(*write) % self.namespaces == namespace).count()
    }

    /// The object of a write.
    fn written(&self, write: usize) -> usize {
        write % self.objects()
    }

    /// How many events there are in all.
    fn events(&self) -> u64 {
        let watchers = |namespace: usize| (namespace..self.watchers).step_by(self.namespaces).count();
        let of_namespaces: usize =
            (0..self.namespaces).map(|namespace| self.writes_of(namespace) * watchers(namespace)).sum();
        let selected = (0..self.writes()).filter(|write| self.written(*write) < self.selectors).count();
        (of_namespaces + selected) as u64
    }
}

pub(crate) fn run(arguments: &[String]) -> Outcome {
    if arguments.iter().any(|argument| ["help", "-h", "--help"].contains(&argument.as_str())) {
        return Ok(write!(std::io::stdout(), "{OPTIONS}")?);
    }
    let settings = CrowdSettings::parse(arguments)?;
    load::runtime()?.block_on(all(settings))
}

async fn all(settings: CrowdSettings) -> Outcome {
    let started = match settings.server.start {
        Some(_) => Some(Started::new(&settings.server).await?),
        None => None,
    };
    let server = started.as_ref().map_or_else(|| settings.server.clone(), |started| started.server.clone());
    let processes = match &started {
        Some(started) => started.processes(),
        None => Processes::new(Members::Given(server.pids.clone()), &[]),
    };
    let endpoint = Arc::new(Endpoint::new(&Access::of(&server)?, Protocol::Http2)?);
    let crowd = Crowd { prefix: format!("bench-crowd-{}", std::process::id()), settings, endpoint };
    let outcome = tokio::select! {
        outcome = crowd.run(&processes) => outcome,
        interrupted = load::interruption() => interrupted.and(Err("interrupted".into())),
    };
    outcome.and(crowd.clean_up().await)
}

/// A run on a server.
#[derive(Clone)]
struct Crowd {
    settings: CrowdSettings,
    endpoint: Arc<Endpoint>,
    prefix: String,
}

/// What the watches have seen.
struct Seen {
    since: Instant,
    events: AtomicU64,
    delays: Mutex<Vec<Duration>>,
}

impl Crowd {
    async fn run(&self, processes: &Processes) -> Outcome {
        self.prepare().await?;
        sleep(SETTLE).await;
        let before = processes.memory()?;
        let seen = Arc::new(Seen {
            since: Instant::now(),
            events: AtomicU64::new(0),
            delays: Mutex::new(Vec::with_capacity(usize::try_from(self.settings.events())?)),
        });
        // They end with this value.
        let mut watches = self.open(&seen).await?;
        sleep(SETTLE).await;
        let with = processes.memory()?;
        let clocks = Clocks::now(processes)?;
        self.write(&seen).await?;
        let wanted = self.settings.events();
        let written = Instant::now();
        while seen.events.load(Ordering::Relaxed) < wanted {
            if let Some(ended) = watches.try_join_next() {
                return Err(ended?);
            }
            if written.elapsed() > PATIENCE {
                let came = seen.events.load(Ordering::Relaxed);
                return Err(format!("{came} of {wanted} events came").into());
            }
            sleep(Duration::from_millis(5)).await;
        }
        let taken = clocks.stop(processes)?;
        let delays = std::mem::take(&mut *seen.delays.lock().unwrap_or_else(PoisonError::into_inner));
        let count = self.settings.watchers + self.settings.selectors;
        let delays = Latencies::new(delays);
        let milliseconds = |part| delays.within(part).as_secs_f64() * 1e3;
        let mut row = Row::new("crowd").figure("watches", count as f64, "");
        if let (Some(before), Some(with)) = (before, with) {
            let of_one = with.saturating_sub(before) as f64 / count as f64;
            row = row.figure("memory of one", of_one / 1e3, "kB");
        }
        if let Some(cpu) = taken.cpu {
            row = row.figure("cpu", cpu.as_secs_f64() / taken.elapsed.as_secs_f64() * 100.0, "%").figure(
                "cpu of an event",
                cpu.as_secs_f64() * 1e6 / wanted.max(1) as f64,
                "us",
            );
        }
        row.figure("events", wanted as f64 / taken.elapsed.as_secs_f64(), "/s")
            .figure("delay p50", milliseconds(0.5), "ms")
            .figure("p99", milliseconds(0.99), "ms")
            .figure("max", milliseconds(1.0), "ms")
            .print(self.settings.style)?;
        Ok(())
    }

    fn namespace(&self, number: usize) -> String {
        format!("{}-{number}", self.prefix)
    }

    fn path(&self, object: usize) -> String {
        let namespace = self.namespace(object % self.settings.namespaces);
        format!("/api/v1/namespaces/{namespace}/configmaps")
    }

    /// Makes the namespaces and the objects.
    async fn prepare(&self) -> Outcome {
        let mut connection = self.endpoint.connect().await?;
        for number in 0..self.settings.namespaces {
            let namespace = json!({"metadata": {"name": self.namespace(number)}}).to_string();
            connection.ask(&Call::post("/api/v1/namespaces".into(), namespace)).await?.succeeded()?;
        }
        for number in 0..self.settings.objects() {
            let metadata = json!({"name": name(number), "labels": {"number": number.to_string()}});
            let object =
                json!({"metadata": metadata, "data": {"text": "some words ".repeat(50)}}).to_string();
            connection.ask(&Call::post(self.path(number), object)).await?.succeeded()?;
        }
        Ok(())
    }

    /// Opens the watches, from the newest revision on.
    async fn open(&self, seen: &Arc<Seen>) -> Result<JoinSet<Failure>, Failure> {
        let list = Call::get("/api/v1/configmaps?limit=1".into());
        let mut connection = self.endpoint.connect().await?;
        let list = connection.ask(&list).await?.succeeded()?.json()?;
        let revision = list.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        let revision = revision.ok_or("the list has no resourceVersion")?;
        let query = format!("watch=true&resourceVersion={revision}");
        let of_namespaces = (0..self.settings.watchers).map(|watcher| self.path(watcher) + "?" + &query);
        let selected = (0..self.settings.selectors)
            .map(|number| format!("/api/v1/configmaps?{query}&labelSelector=number%3D{number}"));
        let mut tasks = JoinSet::new();
        for (number, path) in of_namespaces.chain(selected).enumerate() {
            if number % self.settings.streams == 0 {
                connection = self.endpoint.connect().await?;
            }
            let mut stream = connection.another().ok_or("the connection has one stream")?;
            let response = stream.send(&Call::get(path)).await?;
            if !response.status().is_success() {
                return Err(format!("a watch was refused: {}", response.status()).into());
            }
            let seen = seen.clone();
            tasks.spawn(async move {
                let body = response.into_body();
                match follow(body, &seen, stream).await {
                    Ok(()) => "a watch ended before its time".into(),
                    Err(cause) => cause,
                }
            });
        }
        Ok(tasks)
    }

    /// Writes at the pace that was asked for.
    async fn write(&self, seen: &Arc<Seen>) -> Outcome {
        let mut writers = JoinSet::new();
        let begun = Instant::now();
        for first in 0..WRITERS {
            let (crowd, seen) = (self.clone(), seen.clone());
            let mut connection = self.endpoint.connect().await?;
            writers.spawn(async move {
                for write in (first..crowd.settings.writes()).step_by(WRITERS) {
                    let due = Duration::from_secs_f64(write as f64 / crowd.settings.writes as f64);
                    sleep(due.saturating_sub(begun.elapsed())).await;
                    let object = crowd.settings.written(write);
                    let sent = seen.since.elapsed().as_micros();
                    let body = format!(r#"{{"data":{{"sent":"{sent}"}}}}"#);
                    let path = format!("{}/{}", crowd.path(object), name(object));
                    connection.count(&Call::patch(path, MERGE_PATCH, body)).await?;
                }
                Ok::<_, Failure>(())
            });
        }
        while let Some(written) = writers.join_next().await {
            written??;
        }
        Ok(())
    }

    async fn clean_up(&self) -> Outcome {
        if self.settings.server.start.is_some() {
            return Ok(());
        }
        let mut connection = self.endpoint.connect().await?;
        for number in 0..self.settings.namespaces {
            load::target::remove(&mut connection, &self.path(number)).await?;
            remove_namespace(&mut connection, &format!("/api/v1/namespaces/{}", self.namespace(number)))
                .await?;
        }
        Ok(())
    }
}

fn name(object: usize) -> String {
    format!("settings-{object}")
}

async fn follow(mut body: Incoming, seen: &Seen, _stream: Connection) -> Result<(), Failure> {
    let mut line = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|cause| format!("a watch broke off: {cause}"))?;
        let Some(mut piece) = frame.data_ref().map(|data| &data[..]) else { continue };
        while let Some(end) = memchr::memchr(b'\n', piece) {
            let (head, rest) = piece.split_at(end);
            line.extend_from_slice(head);
            let now = seen.since.elapsed();
            let sent = sent(&line)
                .ok_or_else(|| format!("an event without its time: {}", String::from_utf8_lossy(&line)))?;
            let mut delays = seen.delays.lock().unwrap_or_else(PoisonError::into_inner);
            delays.push(now.saturating_sub(sent));
            drop(delays);
            seen.events.fetch_add(1, Ordering::Relaxed);
            line.clear();
            piece = rest.get(1..).unwrap_or_default();
        }
        line.extend_from_slice(piece);
    }
    Ok(())
}

/// The time of the write that an event is of.
fn sent(event: &[u8]) -> Option<Duration> {
    let at = memchr::memmem::find(event, SENT)? + SENT.len();
    let rest = event.get(at..)?;
    let number = rest.get(..memchr::memchr(b'"', rest)?)?;
    std::str::from_utf8(number).ok()?.parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(words: &[&str]) -> CrowdSettings {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        CrowdSettings::parse(&words).unwrap()
    }

    #[test]
    fn events_are_those_of_namespaces_and_of_selectors() {
        let settings = settings(&[
            "--watchers",
            "7",
            "--selectors",
            "3",
            "--namespaces",
            "2",
            "--writes",
            "5",
            "--seconds",
            "2",
        ]);
        assert_eq!(settings.objects(), 3);
        // Objects 0, 1, 2, 0, 1, 2, 0, 1, 2, 0: seven writes of namespace 0 with four watches, three of the
        // other one with three; each write is picked by one selector.
        assert_eq!(settings.events(), 7 * 4 + 3 * 3 + 10);
    }

    #[test]
    fn the_time_of_a_write_is_found_in_its_event() {
        let event = br#"{"type":"MODIFIED","object":{"data":{"sent":"1234","text":"some words"}}}"#;
        assert_eq!(sent(event), Some(Duration::from_micros(1234)));
        assert_eq!(sent(br#"{"type":"BOOKMARK"}"#), None);
        assert_eq!(sent(br#"{"data":{"sent":"x"}}"#), None);
    }
}

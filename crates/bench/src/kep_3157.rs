//! `bench kep-3157`: many clients list everything at once, in all formats, half of them slow to read.
//!
//! The load of KEP-3157, from which watch lists came: lists of hundreds of megabytes that many clients ask
//! for together, after a restart or a network failure. Beside them one client reads one object after the
//! other. Every answer is checked as a whole: its status, the number of its objects, and its end.

use crate::{
    Outcome,
    load::{
        self,
        access::Access,
        client::{Call, Endpoint},
        measure::{Latencies, Processes},
        settings::{Protocol, Server, positive},
        start::Started,
    },
    report::{Row, Style},
};
use http::StatusCode;
use http_body_util::BodyExt as _;
use memchr::memmem::Finder;
use std::{
    io::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tokio::{task::JoinSet, time::sleep};

pub(crate) const ABOUT: &str = "many clients list everything at once, below a ceiling of memory (--help)";

type Failure = Box<dyn std::error::Error + Send + Sync>;

const OPTIONS: &str = "\
usage: bench kep-3157 [options]

the server: --start COMMAND (keelson --memory-limit=1000000000 --request-timeout=10m)
the work:
  --objects N                config maps (20000)
  --bytes N                  of each (20000)
  --clients N                that list all of them at once (32)
  --slow N                   megabytes a second that each of every second client reads (8)
the figures:
  --json                     JSON lines instead of a table
";

const START: &str = "keelson --memory-limit=1000000000 --request-timeout=10m";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// What the names of the objects begin with, and nothing else.
const NAME: &str = "kep-3157-";
/// The formats, and how often the name of each object is in each.
const FORMATS: [(&str, &str, usize); 4] = [
    ("json", "application/json", 1),
    ("protobuf", "application/vnd.kubernetes.protobuf", 1),
    ("table", "application/json;as=Table;v=v1;g=meta.k8s.io", 2),
    ("yaml", "application/yaml", 1),
];
/// The connections that create the objects.
const WRITERS: usize = 8;
/// How often memory is looked at, and how often it is printed.
const LOOK: Duration = Duration::from_millis(100);
const PRINT: Duration = Duration::from_secs(5);
/// What was left over by the writes has this long to go.
const SETTLE: Duration = Duration::from_secs(10);
/// The longest that memory is waited for after the burst.
const RETURN: Duration = Duration::from_secs(180);
/// Before a refused client comes again.
const RETRY: Duration = Duration::from_secs(5);
/// Between two reads of the client beside them.
const PACE: Duration = Duration::from_millis(5);

struct Settings {
    server: Server,
    objects: usize,
    bytes: usize,
    clients: usize,
    slow: usize,
    style: Style,
}

impl Settings {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut settings = Self {
            server: Server::default(),
            objects: 20_000,
            bytes: 20_000,
            clients: 32,
            slow: 8,
            style: Style::Table,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().cloned().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--json" => settings.style = Style::Json,
                "--objects" => settings.objects = positive(argument, &value()?)?,
                "--bytes" => settings.bytes = positive(argument, &value()?)?,
                "--clients" => settings.clients = positive(argument, &value()?)?,
                "--slow" => settings.slow = positive(argument, &value()?)?,
                "--start" => settings.server.start = Some(value()?),
                other => {
                    return Err(format!("there is no option {other:?}; see bench kep-3157 --help").into());
                }
            }
        }
        settings.server.start.get_or_insert_with(|| START.into());
        Ok(settings)
    }
}

pub(crate) fn run(arguments: &[String]) -> Outcome {
    if arguments.iter().any(|argument| ["help", "-h", "--help"].contains(&argument.as_str())) {
        return Ok(write!(std::io::stdout(), "{OPTIONS}")?);
    }
    let settings = Settings::parse(arguments)?;
    load::runtime()?.block_on(async {
        tokio::select! {
            outcome = measure(&settings) => outcome,
            interrupted = load::interruption() => interrupted.and(Err("interrupted".into())),
        }
    })
}

async fn measure(settings: &Settings) -> Outcome {
    let started = Started::new(&settings.server).await?;
    let endpoint = Arc::new(Endpoint::new(&Access::of(&started.server)?, Protocol::Http1)?);
    let processes = started.processes();
    let begun = Instant::now();
    fill(&endpoint, settings).await?;
    let filled = begun.elapsed();
    sleep(SETTLE).await;
    let before = megabytes(&processes)?;
    Row::new("kep-3157 before")
        .figure("memory", before, "MB")
        .figure("objects", settings.objects as f64, "")
        .figure("created in", filled.as_secs_f64(), "s")
        .print(settings.style)?;

    let seen = Arc::<Seen>::default();
    let mut clients = JoinSet::new();
    for number in 0..settings.clients {
        let (endpoint, seen) = (endpoint.clone(), seen.clone());
        // Half of each format.
        let rate = (number / FORMATS.len() % 2 == 1).then_some(settings.slow * 1_000_000);
        let objects = settings.objects;
        clients.spawn(async move {
            let outcome = list(&endpoint, &seen, FORMATS[number % FORMATS.len()], objects, rate).await;
            if let Err(cause) = outcome {
                seen.broken.fetch_add(1, Ordering::Relaxed);
                seen.first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(cause.to_string());
            }
        });
    }
    let beside = beside(endpoint.clone(), seen.clone(), settings.objects)?;
    let (begun, mut most, mut printed) = (Instant::now(), 0f64, 0u32);
    while !clients.is_empty() {
        while clients.try_join_next().is_some() {}
        let memory = megabytes(&processes)?;
        most = most.max(memory);
        if begun.elapsed() >= PRINT * printed {
            printed += 1;
            level("burst", begun.elapsed(), memory, &seen).print(settings.style)?;
        }
        sleep(LOOK).await;
    }
    let took = begun.elapsed();
    seen.is_over.store(true, Ordering::Release);
    beside.join().map_err(|_| "the client beside them panicked")?;
    let ended = Instant::now();
    let after = loop {
        let memory = megabytes(&processes)?;
        if memory <= before * 1.25 || ended.elapsed() > RETURN {
            break memory;
        }
        if begun.elapsed() >= PRINT * printed {
            printed += 1;
            level("after", begun.elapsed(), memory, &seen).print(settings.style)?;
        }
        sleep(LOOK).await;
    };
    summary(&seen, [before, most, after], took, ended.elapsed()).print(settings.style)?;
    match seen.first.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(first) => Err(format!("answers were broken, the first: {first}").into()),
        None => Ok(()),
    }
}

/// What the clients have seen.
#[derive(Default)]
struct Seen {
    gets: Mutex<Vec<Duration>>,
    whole: AtomicUsize,
    refused: AtomicUsize,
    broken: AtomicUsize,
    megabytes: AtomicUsize,
    first: Mutex<Option<String>>,
    /// The lists have ended.
    is_over: AtomicBool,
}

fn level(name: &str, elapsed: Duration, memory: f64, seen: &Seen) -> Row {
    Row::new(format!("kep-3157 {name} {:>4} s", elapsed.as_secs()))
        .aligned(6)
        .figure("memory", memory, "MB")
        .figure("sent", seen.megabytes.load(Ordering::Relaxed) as f64, "MB")
        .figure("whole", seen.whole.load(Ordering::Relaxed) as f64, "")
        .figure("refused", seen.refused.load(Ordering::Relaxed) as f64, "")
}

fn summary(seen: &Seen, [before, most, after]: [f64; 3], took: Duration, returned: Duration) -> Row {
    let gets = std::mem::take(&mut *seen.gets.lock().unwrap_or_else(PoisonError::into_inner));
    let count = gets.len() as f64;
    let gets = Latencies::new(gets);
    let milliseconds = |part| gets.within(part).as_secs_f64() * 1e3;
    let number = |counter: &AtomicUsize| counter.load(Ordering::Relaxed) as f64;
    Row::new("kep-3157")
        .figure("before", before, "MB")
        .figure("most", most, "MB")
        .figure("after", after, "MB")
        .figure("burst", took.as_secs_f64(), "s")
        .figure("back after", returned.as_secs_f64(), "s")
        .figure("whole", number(&seen.whole), "")
        .figure("refused", number(&seen.refused), "")
        .figure("broken", number(&seen.broken), "")
        .figure("gets", count, "")
        .figure("get p50", milliseconds(0.5), "ms")
        .figure("p99", milliseconds(0.99), "ms")
        .figure("max", milliseconds(1.0), "ms")
}

fn megabytes(processes: &Processes) -> Result<f64, Failure> {
    Ok(processes.memory()?.unwrap_or_default() as f64 / 1e6)
}

fn name(at: usize) -> String {
    format!("{NAME}{at:06}")
}

/// Creates the objects.
async fn fill(endpoint: &Arc<Endpoint>, settings: &Settings) -> Outcome {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let endpoint = endpoint.clone();
        let (objects, bytes) = (settings.objects, settings.bytes);
        writers.spawn(async move {
            let mut connection = endpoint.connect().await?;
            for at in (writer..objects).step_by(WRITERS) {
                let text: String = std::iter::repeat_with(fastrand::alphanumeric).take(bytes).collect();
                let map = format!(r#"{{"metadata":{{"name":"{}"}},"data":{{"text":"{text}"}}}}"#, name(at));
                connection.ask(&Call::post(MAPS.into(), map)).await?.succeeded()?;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(outcome) = writers.join_next().await {
        outcome??;
    }
    Ok(())
}

/// Lists everything once, at most so many bytes a second. A client that is refused comes again.
async fn list(
    endpoint: &Arc<Endpoint>,
    seen: &Seen,
    (format, accept, names): (&str, &'static str, usize),
    objects: usize,
    rate: Option<usize>,
) -> Outcome {
    let call = Call::get(MAPS.into()).accept(accept);
    let mut connection = endpoint.connect().await?;
    let mut body = loop {
        let response = connection.send(&call).await?;
        match response.status() {
            StatusCode::OK => break response.into_body(),
            StatusCode::TOO_MANY_REQUESTS => {
                seen.refused.fetch_add(1, Ordering::Relaxed);
                response.into_body().collect().await?;
                sleep(RETRY).await;
            }
            status => return Err(format!("{format}: {status}").into()),
        }
    };
    let finder = Finder::new(NAME);
    let (begun, mut bytes, mut counted, mut found) = (Instant::now(), 0usize, 0usize, 0);
    let mut tail: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|cause| format!("{format} broke off after {bytes} bytes: {cause}"))?;
        let Some(data) = frame.data_ref() else { continue };
        bytes += data.len();
        tail.extend_from_slice(data);
        found += finder.find_iter(&tail).count();
        // A name may go on in the next piece; one that was counted may not be counted again.
        let kept = tail.len().min(NAME.len() - 1);
        tail.drain(..tail.len() - kept);
        seen.megabytes.fetch_add(bytes / 1_000_000 - counted, Ordering::Relaxed);
        counted = bytes / 1_000_000;
        if let Some(rate) = rate {
            let due = Duration::from_secs_f64(bytes as f64 / rate as f64);
            sleep(due.saturating_sub(begun.elapsed())).await;
        }
    }
    let wanted = objects * names;
    if found != wanted {
        return Err(format!("{format}: {found} names instead of {wanted} in {bytes} bytes").into());
    }
    if format == "json" && !tail.trim_ascii_end().ends_with(b"]}") {
        return Err(format!("{format}: {bytes} bytes without an end").into());
    }
    seen.whole.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// The client beside the lists, on a thread of its own: what it waits for is the server.
fn beside(endpoint: Arc<Endpoint>, seen: Arc<Seen>, objects: usize) -> Result<JoinHandle<()>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(std::thread::spawn(move || {
        if let Err(cause) = runtime.block_on(read(&endpoint, &seen, objects)) {
            seen.broken.fetch_add(1, Ordering::Relaxed);
            let mut first = seen.first.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(format!("a get: {cause}"));
        }
    }))
}

/// Reads one object after the other until the lists have ended, and notes how long each took.
async fn read(endpoint: &Arc<Endpoint>, seen: &Seen, objects: usize) -> Outcome {
    let mut connection = endpoint.connect().await?;
    while !seen.is_over.load(Ordering::Acquire) {
        let call = Call::get(format!("{MAPS}/{}", name(fastrand::usize(..objects))));
        let asked = Instant::now();
        connection.count(&call).await?;
        seen.gets.lock().unwrap_or_else(PoisonError::into_inner).push(asked.elapsed());
        sleep(PACE).await;
    }
    Ok(())
}

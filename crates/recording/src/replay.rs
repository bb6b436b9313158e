//! `keelson replay`: the requests of a recording, sent to another server, and its answers beside the recorded
//! ones.
//!
//! Requests are sent one after another, in the order in which they were answered. A read whose answer is not
//! as recorded is repeated for a while: what it waits for may be the work of a controller. Watches go on
//! beside the requests; their events are compared in order. Bookmarks and documents about the API are not
//! compared.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use comparison::normal::{Variables, normal, normal_text};
use comparison::{Difference, differences};
use http::header::{HeaderName, HeaderValue};
use http::{Method, Request};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use outbound::{KubeconfigError, Upstream};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::arguments::{Arguments, asks_for_help};
use crate::body;
use crate::file::{self, Answered, Body, Line, Sent};
use crate::report::Report;
use crate::translate::Translation;

/// The text of `keelson replay --help`.
pub const HELP: &str = "\
keelson replay FILE --kubeconfig FILE [--wait DURATION]

Sends the requests of a recording to the server of a kubeconfig, and compares its answers with the recorded ones. What differs
from run to run (times, uids, revisions, generated names) is no difference. The command fails if something else
differs than the words of a message.

  --kubeconfig FILE   the server, and the user for it
  --wait DURATION     how long a read is repeated, and an event awaited, that is not as recorded (5s)
";

/// The longest answer that is read.
const LONGEST: usize = 64 << 20;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two attempts of a read.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a request waits for events that were recorded long before it.
const SHORT_WAIT: Duration = Duration::from_millis(200);
/// Paths whose answers differ between two servers: their status is compared.
const OF_THE_SERVER: &[&str] =
    &["/openapi", "/metrics", "/version", "/debug", "/logs", "/healthz", "/livez", "/readyz"];

/// Why a recording is not replayed.
#[expect(missing_docs, reason = "the message of a variant says what it is")]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}; see keelson replay --help")]
    Usage(String),
    #[error(transparent)]
    File(#[from] file::Error),
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error("the command cannot run: {0}")]
    System(#[from] io::Error),
    #[error("{line}: {why}")]
    Request { line: String, why: String },
}

/// What came of a replay.
#[derive(Debug)]
pub struct Outcome {
    /// For standard output.
    pub text: String,
    /// Whether nothing differs but in words.
    pub is_same: bool,
}

/// Runs the command, with the arguments after its name.
pub fn run(arguments: &[String]) -> Result<Outcome, Error> {
    if asks_for_help(arguments) {
        return Ok(Outcome { text: HELP.to_owned(), is_same: true });
    }
    let (path, kubeconfig, wait) = parse(arguments).map_err(Error::Usage)?;
    let lines = file::read(&path)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let report = runtime.block_on(async {
        let upstream = outbound::Kubeconfig::read(&kubeconfig)?.upstream()?;
        Replay::new(upstream, wait).run(lines).await
    });
    runtime.shutdown_background();
    let report = report?;
    Ok(Outcome { is_same: report.is_same(), text: report.into_text() })
}

fn parse(arguments: &[String]) -> Result<(PathBuf, PathBuf, Duration), String> {
    let arguments = Arguments::read(arguments, &["kubeconfig", "wait"])?;
    let file = arguments.file.clone().ok_or("a recording is needed")?;
    let wait = object::duration::not_negative(arguments.value("wait").unwrap_or("5s"));
    let wait = wait.map_err(|why| format!("--wait: {why}"))?;
    Ok((file.into(), arguments.needed("kubeconfig")?.into(), wait))
}

struct Replay {
    upstream: Upstream,
    wait: Duration,
    translation: Translation,
    watches: BTreeMap<u64, Watch>,
    report: Report,
}

/// A watch of the recording, and that of the new server.
struct Watch {
    line: String,
    /// Recorded events that are not compared yet, each with the number of exchanges before it.
    wanted: VecDeque<(Value, usize)>,
    compared: usize,
    got: Arc<Got>,
    reader: tokio::task::JoinHandle<()>,
    /// Whether an event was awaited in vain: the ones behind it will not come either.
    gave_up: bool,
}

/// The events of a new watch.
#[derive(Default)]
struct Got {
    events: Mutex<VecDeque<Value>>,
    came: Notify,
}

impl Replay {
    fn new(upstream: Upstream, wait: Duration) -> Self {
        Self {
            upstream,
            wait,
            translation: Translation::default(),
            watches: BTreeMap::new(),
            report: Report::default(),
        }
    }

    async fn run(mut self, lines: Vec<Line>) -> Result<Report, Error> {
        let mut exchanges = 0;
        for line in lines {
            match line {
                Line::Start { .. } => {}
                Line::Exchange { request, answer } => {
                    // What the client knew from events before this request has to be known here, too.
                    self.catch_up(exchanges).await;
                    exchanges += 1;
                    self.exchange(&request, &answer).await?;
                }
                Line::Watch { watch, request, answer } => {
                    self.catch_up(exchanges).await;
                    self.watch(watch, &request, &answer).await?;
                }
                Line::Event { watch, event } => {
                    if let Some(watch) = self.watches.get_mut(&watch)
                        && !is_bookmark(&event)
                    {
                        watch.wanted.push_back((event, exchanges));
                    }
                }
                Line::End { watch } => {
                    // Its last events may belong to requests whose answers came later.
                    if let Some(watch) = self.watches.get_mut(&watch)
                        && watch.wanted.is_empty()
                    {
                        watch.reader.abort();
                    }
                }
            }
        }
        let watches: Vec<u64> = self.watches.keys().copied().collect();
        for watch in watches {
            self.compare_events(watch, usize::MAX, self.wait).await;
        }
        Ok(self.report)
    }

    /// Compares the events that were recorded before all but the newest of `exchanges`.
    async fn catch_up(&mut self, exchanges: usize) {
        let watches: Vec<u64> = self.watches.keys().copied().collect();
        for watch in watches {
            self.compare_events(watch, exchanges.saturating_sub(1), SHORT_WAIT).await;
        }
    }

    /// Compares the events of a watch that were recorded before `limit` exchanges. Those that have not come
    /// in time stay, unless they are the last ones.
    async fn compare_events(&mut self, number: u64, limit: usize, wait: Duration) {
        let is_last = limit == usize::MAX;
        let Some(watch) = self.watches.get_mut(&number) else { return };
        while let Some((wanted, before)) = watch.wanted.front() {
            if *before >= limit && !is_last {
                return;
            }
            let wait = if watch.gave_up { Duration::ZERO } else { wait };
            let got = watch.got.next(wait).await;
            if got.is_none() && !is_last {
                return;
            }
            watch.gave_up |= got.is_none();
            let line = format!("{}: event {}", watch.line, watch.compared);
            watch.compared += 1;
            let got = got.unwrap_or(Value::Null);
            self.translation.learn(wanted, &got);
            let none = Variables::none();
            let wanted = normal(&self.translation.value(wanted), &none);
            self.report.event(&line, &differences(&wanted, &normal(&got, &none)));
            watch.wanted.pop_front();
        }
        if is_last {
            watch.reader.abort();
        }
    }

    async fn exchange(&mut self, request: &Sent, answer: &Answered) -> Result<(), Error> {
        if answer.status == 101 || matches!(request.body, Body::Omitted(_)) {
            self.report.left_out += 1;
            return Ok(());
        }
        let line = format!("{} {}", request.method, request.path);
        let begin = Instant::now();
        loop {
            let got = self.send(request, &line).await?;
            let got = whole(got).await.map_err(|why| Error::Request { line: line.clone(), why })?;
            if let (Body::Json(recorded), Body::Json(now)) = (&answer.body, &got.body) {
                self.translation.learn(recorded, now);
            }
            let found = self.compare(request, answer, &got);
            let may_change = request.method == "GET" && begin.elapsed() < self.wait;
            if found.is_empty() || !may_change {
                self.report.request(&line, &found);
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn watch(&mut self, number: u64, request: &Sent, answer: &Answered) -> Result<(), Error> {
        let line = format!("{} {}", request.method, request.path);
        let response = self.send(request, &line).await?;
        if response.status() != http::StatusCode::OK {
            let got = whole(response).await.map_err(|why| Error::Request { line: line.clone(), why })?;
            let found = self.compare(request, answer, &got);
            self.report.request(&line, &found);
            return Ok(());
        }
        self.report.request(&line, &[]);
        let got = Arc::<Got>::default();
        let reader = tasks::once(read_events(response.into_body(), Arc::clone(&got)));
        let watch = Watch { line, wanted: VecDeque::new(), compared: 0, got, reader, gave_up: false };
        self.watches.insert(number, watch);
        Ok(())
    }

    /// Sends a recorded request, with what the new server has chosen in it.
    async fn send(&mut self, request: &Sent, line: &str) -> Result<http::Response<Incoming>, Error> {
        let failed = |why: String| Error::Request { line: line.to_owned(), why };
        let body = match &request.body {
            Body::Json(value) => {
                self.translation.note_sent(value);
                self.translation.value(value).to_string()
            }
            Body::Text(text) => text.clone(),
            Body::None | Body::Omitted(_) => String::new(),
        };
        let method =
            Method::from_bytes(request.method.as_bytes()).map_err(|error| failed(error.to_string()))?;
        let path = self.translation.path(&request.path);
        let mut built = Request::builder().method(method).uri(&path);
        for (name, value) in &request.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| failed(error.to_string()))?;
            let is_group = name.as_str() == "impersonate-group";
            let values: Vec<&str> = if is_group { value.split(',').collect() } else { vec![value] };
            for value in values {
                let value =
                    if name == http::header::CONTENT_TYPE { body::replayed_type(value) } else { value };
                let value = HeaderValue::from_str(value).map_err(|error| failed(error.to_string()))?;
                built = built.header(&name, value);
            }
        }
        let whole = Full::new(Bytes::from(body)).map_err(|never| match never {});
        let request = built.body(UnsyncBoxBody::new(whole)).map_err(|error| failed(error.to_string()))?;
        let sent = tokio::time::timeout(PATIENCE, self.upstream.send(request)).await;
        let sent = sent.map_err(|_| failed("there is no answer in time".to_owned()))?;
        sent.map_err(|error| failed(error.to_string()))
    }

    fn compare(&self, request: &Sent, wanted: &Answered, got: &Answered) -> Vec<Difference> {
        let path = request.path.split('?').next().unwrap_or_default();
        let is_of_the_server = OF_THE_SERVER
            .iter()
            .any(|own| path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
        if is_of_the_server || matches!(wanted.body, Body::Omitted(_)) {
            return differences(&json!({"status": wanted.status}), &json!({"status": got.status}));
        }
        let wanted = shown(wanted, |value| self.translation.value(value));
        differences(&wanted, &shown(got, Value::clone))
    }
}

/// An answer without what differs from run to run.
fn shown(answer: &Answered, translate: impl Fn(&Value) -> Value) -> Value {
    let none = Variables::none();
    let mut shown = json!({"status": answer.status, "headers": answer.headers});
    match &answer.body {
        Body::Json(value) => shown["body"] = normal(&translate(value), &none),
        Body::Text(text) => {
            let text = translate(&Value::from(text.as_str()));
            shown["body"] = normal_text(text.as_str().unwrap_or_default(), &none).into();
        }
        Body::None => {}
        Body::Omitted(count) => shown["body"] = format!("{count} bytes").into(),
    }
    shown
}

/// A whole answer, as a recorded one.
async fn whole(response: http::Response<Incoming>) -> Result<Answered, String> {
    let (parts, body) = response.into_parts();
    let read = tokio::time::timeout(PATIENCE, Limited::new(body, LONGEST).collect()).await;
    let read = read.map_err(|_| "the answer does not end in time".to_owned())?;
    let bytes = read.map_err(|error| error.to_string())?.to_bytes();
    let headers = crate::proxy::answer_headers(&parts.headers);
    let content_type = headers.get("content-type").map(String::as_str).unwrap_or_default();
    let body = body::read(&bytes, content_type);
    Ok(Answered { status: parts.status.as_u16(), headers, body })
}

/// Reads the events of a watch until it ends.
async fn read_events(mut body: Incoming, got: Arc<Got>) {
    let mut rest = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        rest.extend_from_slice(frame.data_ref().map(Bytes::as_ref).unwrap_or_default());
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let after = rest.split_off(end + 1);
            let line = std::mem::replace(&mut rest, after);
            if let Ok(event) = serde_json::from_slice::<Value>(&line)
                && !is_bookmark(&event)
            {
                got.events.lock().unwrap_or_else(PoisonError::into_inner).push_back(event);
                got.came.notify_one();
            }
        }
    }
}

impl Got {
    /// The next event, if it comes in time.
    async fn next(&self, wait: Duration) -> Option<Value> {
        let take = || self.events.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let wait_for_one = async {
            loop {
                let came = self.came.notified();
                if let Some(event) = take() {
                    return event;
                }
                came.await;
            }
        };
        match take() {
            Some(event) => Some(event),
            None => tokio::time::timeout(wait, wait_for_one).await.ok(),
        }
    }
}

/// Whether an event only says how far the stream is: when it comes is a matter of time.
fn is_bookmark(event: &Value) -> bool {
    event.get("type").and_then(Value::as_str) == Some("BOOKMARK")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_checked() {
        let parse =
            |line: &str| super::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(
            parse("f --kubeconfig=k --wait=1m").unwrap(),
            ("f".into(), "k".into(), Duration::from_secs(60))
        );
        for (line, says) in [
            ("", "a recording is needed"),
            ("f", "--kubeconfig is needed"),
            ("f --kubeconfig=k --wait=x", "--wait: "),
        ] {
            let why = parse(line).unwrap_err();
            assert!(why.contains(says), "{line}: {why}");
        }
        assert!(run(&["-h".to_owned()]).unwrap().text.starts_with("keelson replay"));
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_awaited_for_as_long_as_it_is_worth_it() {
        let got = Arc::<Got>::default();
        assert_eq!(got.next(SHORT_WAIT).await, None);
        let later = Arc::clone(&got);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            later.events.lock().unwrap().push_back(json!(1));
            later.came.notify_one();
        });
        assert_eq!(got.next(Duration::from_secs(5)).await, Some(json!(1)));
    }
}

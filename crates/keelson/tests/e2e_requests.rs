//! A minute of requests from a seeded generator, most of them invalid: the server answers each in time, with
//! a 500 only where the reference has one too, and works afterwards as before.
//!
//! A failure names the seed of the request: `KEELSON_TEST_SEED` sends that one alone. The requests are the
//! same each time; `KEELSON_TEST_START`, a number, gives others, and `KEELSON_TEST_SECONDS` changes how long
//! the test takes.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod requests;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use requests::{Generated, Shared};
use serde_json::Value;
use testkit::Server;
use testkit::http::{Connection, Error, Target};

const CONNECTIONS: u64 = 6;
/// An answer that takes longer counts as none.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a stream is read.
const LISTEN: Duration = Duration::from_millis(200);
/// The memory limit of the server afterwards: a few hundred small objects and the buffers of its connections.
const MEMORY: u64 = 256 << 20;
/// From this size on, a server may stop reading a body that it refuses.
const LARGE: usize = 1 << 20;

/// The test stops after this many faults.
const MOST_FAULTS: usize = 20;

/// Parts of the messages of the 500s that the reference has for such requests.
const KNOWN: &[&str] = &[
    // Impersonation headers without a user.
    "without impersonating a user",
    // The options of a deletion that cannot be decoded.
    "get version/kind; json parse error",
    "into Go struct field DeleteOptions",
    "into Go struct field Preconditions",
    "is registered for version",
    "provided data does not appear to be a protobuf message",
    "yaml: ",
    "proto: ",
    "unexpected EOF",
    "exceeded max depth",
    // Directives of a strategic merge patch, and objects to apply, that are not of the right type.
    "unknown patch type",
    "does not contain declared merge key",
    "failed to create typed patch object",
    // Versions that are no numbers, in a get, a watch, or an object.
    "resourceVersion: Invalid value",
    "resourceVersion should not be set on objects to be created",
    "invalid resource name",
    // A path that ends with the prefix of watches.
    "failed to create RequestInfo: unable to determine kind and namespace from url",
    // Names that are steps in a path.
    "invalid key: ",
    // A service whose name is no label cannot own its address.
    "failed to allocate a serviceIP",
];

/// The number of responses by status and message of a 500.
type Answers = BTreeMap<(u16, String), u64>;

/// One connection, reopened when needed, and the responses over it.
struct Worker<'a> {
    target: &'a Target,
    shared: &'a Shared<'a>,
    connection: Option<Connection>,
    answers: Answers,
}

impl Worker<'_> {
    /// Sends the request of a seed. The error says what is wrong with the answer.
    fn ask(&mut self, seed: u64) -> Result<(), String> {
        self.judge(seed, requests::request(seed, self.shared))
    }

    fn judge(&mut self, seed: u64, mut request: Generated) -> Result<(), String> {
        let outcome = match self.exchange(&request, Reuse::Allowed) {
            Err(Error::Closed | Error::Connection { .. }) => self.exchange(&request, Reuse::Refused),
            other => other,
        };
        let fault = match outcome {
            // The reason is in the body, which a HEAD does not show.
            Ok((500, _)) if request.method == "HEAD" => {
                request.bytes.splice(..4, *b"GET");
                return self.judge(seed, Generated { method: "GET".into(), ..request });
            }
            Ok((500, body)) => {
                let status: Value = serde_json::from_slice(&body).unwrap_or_default();
                let said = String::from_utf8_lossy(&body).into_owned();
                let message = one_line(status["message"].as_str().unwrap_or(&said));
                let known = KNOWN.iter().any(|known| message.contains(known));
                *self.answers.entry((500, message.clone())).or_default() += 1;
                (!known).then(|| format!("it was answered with a 500: {message}"))
            }
            Ok((status, _)) => {
                *self.answers.entry((status, String::new())).or_default() += 1;
                None
            }
            Err(Error::Closed | Error::Connection { .. }) if request.bytes.len() > LARGE => {
                *self.answers.entry((0, "a large body was not read".into())).or_default() += 1;
                None
            }
            Err(error) => Some(error.to_string()),
        };
        fault.map_or(Ok(()), |fault| {
            let sent = String::from_utf8_lossy(&request.bytes[..request.bytes.len().min(3000)]).into_owned();
            Err(format!("KEELSON_TEST_SEED={seed}: {fault}\n{}", sent.replace(self.shared.token, "TOKEN")))
        })
    }

    fn exchange(&mut self, request: &Generated, reuse: Reuse) -> Result<(u16, Vec<u8>), Error> {
        let kept = self.connection.take().filter(|_| reuse == Reuse::Allowed);
        let mut connection = kept.map_or_else(|| self.target.connect(PATIENCE), Ok)?;
        connection.allow(PATIENCE);
        // A server may answer and close before it has read a body that it refuses.
        let sent = connection.send(&request.bytes);
        let mut head = match (connection.head(&request.method), sent) {
            (Ok(head), _) => head,
            (Err(_), Err(error)) | (Err(error), Ok(())) => return Err(error),
        };
        if request.may_stream {
            connection.allow(LISTEN);
        }
        let body = match connection.body(&mut head) {
            Err(Error::Timeout) if request.may_stream && head.status == 200 => return Ok((200, Vec::new())),
            other => other?,
        };
        if head.reusable() {
            self.connection = Some(connection);
        }
        Ok((head.status, body))
    }
}

/// A message without the line breaks that YAML puts into it.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reuse {
    Allowed,
    Refused,
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

/// A kubectl workflow that must work before and after.
fn works(target: &Target, token: &str, line: &str, body: &str) -> u16 {
    let method = line.split(' ').next().unwrap();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        target.authority(),
        body.len()
    );
    let mut connection = target.connect(PATIENCE).unwrap();
    connection.send(request.as_bytes()).unwrap();
    let mut head = connection.head(method).unwrap();
    connection.body(&mut head).unwrap();
    head.status
}

#[test]
fn slow_random_requests_do_not_break_the_server() {
    let binary = testkit::server_binary(env!("CARGO_BIN_EXE_keelson"));
    let server = Server::start(
        &binary,
        &["--storage=memory", "--service-cluster-ip-range=10.0.0.0/16", "--controllers=-*"],
    )
    .unwrap();
    let (target, token) = (server.target().unwrap(), server.token());
    let namespace = testkit::unique("requests");
    let object = |kind: &str, name: &str| {
        serde_json::json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}).to_string()
    };
    assert_eq!(works(&target, token, "POST /api/v1/namespaces", &object("Namespace", &namespace)), 201);
    let accounts = format!("POST /api/v1/namespaces/{namespace}/serviceaccounts");
    assert_eq!(works(&target, token, &accounts, &object("ServiceAccount", "default")), 201);

    let shared = Shared { authority: target.authority(), token, namespace: &namespace };
    let worker = || Worker { target: &target, shared: &shared, connection: None, answers: Answers::new() };
    if let Some(seed) = variable("KEELSON_TEST_SEED") {
        let mut worker = worker();
        worker.ask(seed).unwrap();
        println!("{:?}", worker.answers);
        return;
    }
    let start = variable("KEELSON_TEST_START").unwrap_or_default().wrapping_mul(CONNECTIONS);
    let end = Instant::now() + Duration::from_secs(variable("KEELSON_TEST_SECONDS").unwrap_or(60));
    let (answers, faults) = (Mutex::new(Answers::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for number in 0..CONNECTIONS {
            let (worker, answers, faults) = (&worker, &answers, &faults);
            scope.spawn(move || {
                let mut worker = worker();
                let mut seeds = fastrand::Rng::with_seed(start.wrapping_add(number));
                while Instant::now() < end && faults.lock().unwrap().len() < MOST_FAULTS {
                    if let Err(fault) = worker.ask(seeds.u64(..)) {
                        faults.lock().unwrap().push(fault);
                    }
                }
                let mut answers = answers.lock().unwrap();
                for (answer, count) in worker.answers {
                    *answers.entry(answer).or_default() += count;
                }
            });
        }
    });
    let (answers, faults) = (answers.into_inner().unwrap(), faults.into_inner().unwrap());
    println!("{} requests", answers.values().sum::<u64>());
    for ((status, message), count) in &answers {
        println!("{count:7} {status} {message}");
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n\n"));

    assert_eq!(works(&target, token, "GET /readyz", ""), 200);
    let created = works(
        &target,
        token,
        &format!("POST /api/v1/namespaces/{namespace}/configmaps"),
        &object("ConfigMap", "still-alive"),
    );
    assert_eq!(created, 201);
    for (status, share) in [(200, 50), (201, 300), (404, 50), (422, 150)] {
        let count: u64 =
            answers.iter().filter(|((answer, _), _)| *answer == status).map(|(_, count)| count).sum();
        let all: u64 = answers.values().sum();
        assert!(
            count > all / share,
            "the requests do not get far: {count} of {all} were answered with {status}"
        );
    }
    if let Some(process) = server.process() {
        let memory = process.resident_memory().unwrap();
        println!("{} MB resident", memory >> 20);
        assert!(memory < MEMORY, "the server holds {} MB", memory >> 20);
    }
}

//! A server, and callers that send exactly what a test gives them.

mod answers;
mod damage;
mod definitions;
mod directory;
mod disk;
mod forms;
mod growth;
mod kubelets;
mod memory;
mod peers;
mod protocol;
mod unsent;
mod work;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::http::{Connection, Target};
use testkit::{Folder, Process, Server, TOKEN};

/// The longest that an exchange of a well-behaved client may take beside a hostile one.
const PATIENCE: Duration = Duration::from_secs(30);

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

fn start(flags: &[&str]) -> Server {
    Server::start(&binary(), flags).unwrap()
}

/// An answer that was read as a whole.
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// From the first byte of the request to the last of the answer.
    took: Duration,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The beginning of the body, for the message of an assertion.
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body[..self.body.len().min(2000)]).into_owned()
    }

    /// The value of a metric without labels, in an answer of `/metrics`.
    fn metric(&self, name: &str) -> f64 {
        let text = String::from_utf8_lossy(&self.body);
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{name} in {}", self.text())).parse().unwrap()
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The administrator, over HTTP/1.1, on a connection that is opened again when the server has closed it.
struct Caller {
    target: Target,
    connection: Option<Connection>,
}

impl Caller {
    fn new(server: &Server) -> Self {
        Self { target: server.target().unwrap(), connection: None }
    }

    /// One exchange with a JSON body, which is left out if it is empty.
    fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> Answer {
        self.ask_as(method, path, "application/json", "application/json", body)
    }

    fn ask_as(&mut self, method: &str, path: &str, accept: &str, content: &str, body: &[u8]) -> Answer {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nAccept: {accept}\r\n",
            self.target.authority()
        );
        if !body.is_empty() || matches!(method, "POST" | "PUT" | "PATCH") {
            request += &format!("Content-Type: {content}\r\nContent-Length: {}\r\n", body.len());
        }
        let mut request = (request + "\r\n").into_bytes();
        request.extend(body);
        let begin = Instant::now();
        let kept = self.connection.take();
        let mut connection = kept.unwrap_or_else(|| self.target.connect(PATIENCE).unwrap());
        connection.allow(PATIENCE);
        connection.send(&request).unwrap();
        let mut head = connection.head(method).unwrap();
        let body = connection.body(&mut head).unwrap();
        let took = begin.elapsed();
        if head.reusable() {
            self.connection = Some(connection);
        }
        Answer { status: head.status, headers: head.headers, body, took }
    }

    /// Asks for something small, as everybody else does while a test goes on. Gives the time it took.
    fn still_served(&mut self) -> Duration {
        let answer = self.ask("GET", "/api/v1/namespaces/default", b"");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.took
    }
}

/// A server with a data directory that the test looks into. No controller writes there.
struct OnDirectory {
    process: Process,
    caller: Caller,
}

impl OnDirectory {
    fn start(binary: &Path, folder: &Folder, data: &Path, flags: &[&str]) -> Result<Self, testkit::Error> {
        let tokens = folder.path().join("tokens.csv");
        std::fs::write(&tokens, format!("{TOKEN},admin,admin-uid,\"system:masters\"\n")).unwrap();
        let tokens = format!("--token-auth-file={}", tokens.display());
        let flags: Vec<&str> = flags.iter().copied().chain([tokens.as_str(), "--controllers=-*"]).collect();
        let process = Process::start(binary, data, &flags)?;
        let target = Target::new(process.url(), &data.join("pki/ca.crt")).unwrap();
        Ok(Self { process, caller: Caller { target, connection: None } })
    }
}

/// The processor time that a server has used so far, in user and system mode.
fn cpu_time(server: &Server) -> Duration {
    let id = server.process().unwrap().id();
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = [11, 12].into_iter().map(|at: usize| fields[at].parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

fn resident(server: &Server) -> u64 {
    server.process().unwrap().resident_memory().unwrap()
}

/// The bytes on disk below a directory.
fn on_disk(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => on_disk(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// A way of writing: the method, and the type of the body.
#[derive(Clone, Copy)]
struct Write {
    method: &'static str,
    content: &'static str,
}

const CREATE: Write = Write { method: "POST", content: "application/json" };
const UPDATE: Write = Write { method: "PUT", content: "application/json" };
const MERGE_PATCH: Write = Write { method: "PATCH", content: "application/merge-patch+json" };
const STRATEGIC_PATCH: Write = Write { method: "PATCH", content: "application/strategic-merge-patch+json" };
const JSON_PATCH: Write = Write { method: "PATCH", content: "application/json-patch+json" };
const APPLY: Write = Write { method: "PATCH", content: "application/apply-patch+yaml" };

impl Caller {
    fn write(&mut self, write: Write, path: &str, body: &[u8]) -> Answer {
        self.ask_as(write.method, path, "application/json", write.content, body)
    }
}

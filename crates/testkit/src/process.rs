//! The server as a child process.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::etcd::free_ports;

/// The longest that a server may take to be ready, or to end; far more than it should.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a server did not do what a test wanted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system did not let it.
    #[error("{what}: {cause}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        cause: std::io::Error,
    },
    /// It did not say that it is ready.
    #[error("the server did not become ready; it wrote:\n{output}")]
    NotReady {
        /// What it wrote to standard output and standard error.
        output: String,
    },
    /// A variable that names a part of the server to use is not set.
    #[error("KEELSON_TEST_SERVER is set, so {name} has to be set too")]
    Variable {
        /// The one that is missing.
        name: &'static str,
    },
    /// A client did not end as it should have.
    #[error("`{line}` ended with {:?}\n{}{}", .said.code, .said.out, .said.err)]
    Client {
        /// What was run.
        line: String,
        /// What came of it.
        said: crate::Said,
    },
    /// It did not end.
    #[error("the server did not end within {} s", PATIENCE.as_secs())]
    DidNotEnd,
}

/// A folder in the system's place for temporary things, removed when this is dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A new, empty folder.
    pub fn new() -> Result<Self, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("keelson-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&path).map_err(|cause| Error::System { what: "making a folder", cause })?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running server.
#[derive(Debug)]
pub struct Process {
    child: Child,
    url: String,
    kubeconfig: PathBuf,
    ready_after: Duration,
    log: ServerLog,
}

/// How a server ended.
#[derive(Debug)]
pub struct Exit {
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to standard error.
    pub log: String,
    /// How long it took from the signal on.
    pub after: Duration,
}

impl Process {
    /// Starts `binary` on a free port with its things in `folder`, and waits until it says that it is ready.
    pub fn start(binary: &Path, folder: &Path, flags: &[&str]) -> Result<Self, Error> {
        let begin = Instant::now();
        let (mut child, mut log) = spawn(binary, folder, 0, flags)?;
        match announcement(&mut child) {
            Some(Announcement { url, kubeconfig }) => {
                Ok(Self { child, url, kubeconfig, ready_after: begin.elapsed(), log })
            }
            None => {
                let _ = child.kill();
                let _ = child.wait();
                Err(Error::NotReady { output: log.whole() })
            }
        }
    }

    /// Starts `binary` with its things in `folder`, and waits until it accepts connections, ready or not.
    pub fn start_unready(binary: &Path, folder: &Path, flags: &[&str]) -> Result<Self, Error> {
        let begin = Instant::now();
        let port = free_ports(1)?.first().copied().unwrap_or_default();
        let (mut child, mut log) = spawn(binary, folder, port, flags)?;
        // Nobody reads what it announces.
        drop(child.stdout.take());
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        while begin.elapsed() < PATIENCE {
            if TcpStream::connect(address).is_ok() {
                let (url, kubeconfig) = (format!("https://{address}"), folder.join("kubeconfig"));
                let ready_after = begin.elapsed();
                return Ok(Self { child, url, kubeconfig, ready_after, log });
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        let _ = child.wait();
        Err(Error::NotReady { output: log.whole() })
    }

    /// Where it serves.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// How long it took from the start of the process to its word that it is ready.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory in bytes.
    pub fn resident_memory(&self) -> Result<u64, Error> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()))
            .map_err(|cause| Error::System { what: "reading the status of the server", cause })?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Ok(kilobytes.unwrap_or_default() * 1024)
    }

    /// What it wrote to standard error so far.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Result<(), Error> {
        let id = i32::try_from(self.id()).unwrap_or(i32::MAX);
        kill(Pid::from_raw(id), signal)
            .map_err(|cause| Error::System { what: "sending a signal", cause: cause.into() })
    }

    /// Waits for the end, which something else must bring about.
    pub fn wait(mut self) -> Result<Exit, Error> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            let status = self.child.try_wait().map_err(|cause| Error::System { what: "waiting", cause })?;
            if let Some(status) = status {
                let after = begin.elapsed();
                return Ok(Exit { code: status.code(), log: self.log.whole(), after });
            }
            thread::sleep(Duration::from_millis(2));
        }
        Err(Error::DidNotEnd)
    }

    /// Asks it to stop as an operator would, and waits for the end.
    pub fn terminate(self) -> Result<Exit, Error> {
        self.signal(Signal::SIGTERM)?;
        self.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process, and the thread that reads its log.
fn spawn(binary: &Path, folder: &Path, port: u16, flags: &[&str]) -> Result<(Child, ServerLog), Error> {
    let mut child = Command::new(binary)
        .arg(format!("--secure-port={port}"))
        .arg("--data-dir")
        .arg(folder)
        .args(flags)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|cause| Error::System { what: "starting the server", cause })?;
    let stderr = child.stderr.take();
    Ok((child, ServerLog::read(stderr)))
}

struct Announcement {
    url: String,
    kubeconfig: PathBuf,
}

/// What the server says on standard output once it is ready.
fn announcement(child: &mut Child) -> Option<Announcement> {
    let stdout = child.stdout.take()?;
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    let deadline = Instant::now() + PATIENCE;
    let mut url = None;
    loop {
        let line = receive.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()?;
        if let Some((_, rest)) = line.split_once(" is ready on ") {
            url = rest.split_whitespace().next().map(str::to_owned);
        }
        if let Some(path) = line.strip_prefix("kubeconfig: ") {
            return Some(Announcement { url: url?, kubeconfig: path.trim().into() });
        }
    }
}

/// What a server writes to standard error, read by a thread.
#[derive(Debug)]
struct ServerLog {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<thread::JoinHandle<()>>,
}

impl ServerLog {
    fn read(stream: Option<impl std::io::Read + Send + 'static>) -> Self {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let read = bytes.clone();
        let reader = thread::spawn(move || {
            let Some(mut stream) = stream else { return };
            let mut piece = [0; 8192];
            while let Ok(count @ 1..) = stream.read(&mut piece) {
                read.lock().unwrap_or_else(PoisonError::into_inner).extend(piece.iter().take(count));
            }
        });
        Self { bytes, reader: Some(reader) }
    }

    /// What was read so far.
    fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Everything, of a process that has ended.
    fn whole(&mut self) -> String {
        let _ = self.reader.take().map(thread::JoinHandle::join);
        self.text()
    }
}

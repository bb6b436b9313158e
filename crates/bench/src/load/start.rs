//! Starts a server as a child process, and takes the time until it is ready.

use super::{
    access::Access,
    client::{Call, Connection, Endpoint},
    measure::{Members, Processes},
    settings::{KEELSON, Protocol, Server},
};
use http::StatusCode;
use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use std::{
    fs::File,
    net::TcpListener,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};
use tempfile::TempDir;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The longest that a server may take to be ready.
const PATIENCE: Duration = Duration::from_secs(120);
/// The longest that it may take to end before it is made to.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Between two looks whether it is ready, at least; and for one that takes long, this part of the time it has
/// had.
const PAUSE: Duration = Duration::from_millis(1);
const PART: u32 = 100;

/// A server that runs as long as this value lives, in a folder that goes away with it.
pub(crate) struct Started {
    /// The options of the server, with its port and folder in their places.
    pub(crate) server: Server,
    /// From the start of the process until `/readyz` said so.
    pub(crate) ready: Duration,
    /// CPU time of its processes until then.
    pub(crate) cpu: Duration,
    child: Child,
    folder: TempDir,
}

impl Started {
    /// Starts it and waits until it is ready.
    pub(crate) async fn new(server: &Server) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        // Free now; another process is not likely to take it before the server does.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut server = server.clone();
        let keelson = server.is_keelson().then(beside).transpose()?;
        if let Some(keelson) = &keelson {
            let given = server.start.as_deref().and_then(|line| line.trim().strip_prefix(KEELSON));
            let (program, given) = (keelson.display(), given.unwrap_or_default());
            let etcd = match server.etcd {
                Some(_) => " --etcd-servers={etcd} --etcd-prefix=/bench-{port}",
                None => "",
            };
            server.start = Some(format!("{program} --secure-port={{port}} --data-dir={{dir}}{etcd}{given}"));
            if server.kubeconfig.is_none() && server.token.is_none() {
                server.kubeconfig = Some("{dir}/kubeconfig".into());
            }
        }
        let server = server.placed(port, &folder.path().join("data").display().to_string());
        std::fs::create_dir(folder.path().join("data"))?;
        let begun = Instant::now();
        let child = spawn(&server, folder.path())?;
        let mut started = Self { server, ready: Duration::ZERO, cpu: Duration::ZERO, child, folder };
        started.wait().await?;
        started.ready = begun.elapsed();
        started.cpu = started.processes().cpu()?.unwrap_or_default();
        if let (Some(keelson), None) = (keelson, &started.server.user_kubeconfig) {
            started.server.user_kubeconfig = Some(started.user_kubeconfig(&keelson)?);
        }
        Ok(started)
    }

    /// Ends it, starts it again with what it has stored, and waits until it is ready: how long that took.
    pub(crate) async fn again(&mut self) -> Result<Duration, Failure> {
        self.end();
        let begun = Instant::now();
        self.child = spawn(&self.server, self.folder.path())?;
        self.wait().await?;
        Ok(begun.elapsed())
    }

    /// The process and its children.
    pub(crate) fn processes(&self) -> Processes {
        let store = self.server.etcd.as_ref().map_or(&[][..], |(_, pids)| pids);
        Processes::new(Members::Family(self.child.id()), store)
    }

    /// Where its data is.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Makes the kubeconfig of a user who has no permissions.
    fn user_kubeconfig(&self, keelson: &Path) -> Result<String, Failure> {
        let path = self.folder.path().join("user.kubeconfig");
        let made = Command::new(keelson)
            .args(["kubeconfig", "--user=bench", "--group=bench"])
            .arg(format!("--data-dir={}", self.data().display()))
            .arg(format!("--output={}", path.display()))
            .output()?;
        match made.status.success() {
            true => Ok(path.display().to_string()),
            false => Err(String::from_utf8_lossy(&made.stderr).into()),
        }
    }

    async fn wait(&mut self) -> Result<(), Failure> {
        let access = Access { url: self.server.url.clone().unwrap_or_default(), ..Access::default() };
        let mut endpoint = Arc::new(Endpoint::new(&access, Protocol::Http1)?);
        let begun = Instant::now();
        let mut connection = None;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the server ended ({status}); it wrote:\n{}", self.output()).into());
            }
            match ready(&endpoint, &mut connection).await {
                Ok(StatusCode::OK) => return Ok(()),
                // Not for anonymous requests. The credentials may be in a file that the server writes.
                Ok(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                    if let Ok(access) = Access::of(&self.server) {
                        endpoint = Arc::new(Endpoint::new(&access, Protocol::Http1)?);
                        connection = None;
                    }
                }
                _ => {}
            }
            if begun.elapsed() > PATIENCE {
                let patience = PATIENCE.as_secs();
                return Err(format!("not ready after {patience} s; it wrote:\n{}", self.output()).into());
            }
            tokio::time::sleep(PAUSE.max(begun.elapsed() / PART)).await;
        }
    }

    /// The last lines of what it wrote.
    fn output(&self) -> String {
        let text = std::fs::read(self.folder.path().join("output")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

/// The process of a server whose options have their values.
fn spawn(server: &Server, folder: &Path) -> Result<Child, Failure> {
    let command = server.start.clone().unwrap_or_default();
    let mut words = command.split_whitespace();
    let program = words.next().ok_or("there is no command to start")?;
    let output = File::create(folder.join("output"))?;
    let child = Command::new(program)
        .args(words)
        // A Ctrl-C is for this program, which still has to remove things from the server.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn();
    Ok(child.map_err(|cause| format!("{program} cannot be started: {cause}"))?)
}

impl Drop for Started {
    fn drop(&mut self) {
        self.end();
    }
}

impl Started {
    /// Asks it to end, and makes it.
    fn end(&mut self) {
        let Ok(pid) = i32::try_from(self.child.id()) else { return };
        kill(Pid::from_raw(pid), Signal::SIGTERM).ok();
        let asked = Instant::now();
        while asked.elapsed() < LAST_WORDS {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        killpg(Pid::from_raw(pid), Signal::SIGKILL).ok();
        self.child.wait().ok();
    }
}

/// Asks once, on the connection that there is, so that asking costs the server little.
async fn ready(endpoint: &Arc<Endpoint>, connection: &mut Option<Connection>) -> Result<StatusCode, Failure> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(endpoint.connect().await?),
    };
    Ok(connection.ask(&Call::get("/readyz".into())).await?.status)
}

/// The path of the server that was built with this program.
fn beside() -> Result<PathBuf, Failure> {
    let path = std::env::current_exe()?.with_file_name(KEELSON);
    if path.is_file() {
        return Ok(path);
    }
    Err(format!("{} is missing: cargo build --profile dist -p keelson", path.display()).into())
}

//! The program as a child process.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use kube::Client;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::cluster::Cluster;
use crate::{Clock, Error, Faults, Fork};

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a server is started.
#[derive(Debug, Clone, Default)]
pub struct Builder {
    binary: Option<PathBuf>,
    flags: Vec<String>,
    variables: Vec<(OsString, OsString)>,
}

impl Builder {
    /// Starts this program, in place of the one that `KEELSON_BIN` names or that is in the `PATH`.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// Adds a flag: `--controllers=*`. Flags that are given win over those of this crate.
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Sets a variable of the environment of the server.
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Lets tests inject faults and move the clock.
    pub fn with_faults(self) -> Self {
        self.flag("--enable-fault-injection")
    }

    /// Starts the server, and waits until it is ready.
    pub async fn start(self) -> Result<Server, Error> {
        let program = self.binary.or_else(from_environment).or_else(from_path).ok_or(Error::NoProgram)?;
        let folder = tempfile::Builder::new().prefix("keelson-test-").tempdir()?;
        let data = folder.path().join("data");
        let log = folder.path().join("log");
        let mut command = Command::new(&program);
        command.arg("--secure-port=0").arg("--storage=memory").arg("--data-dir").arg(&data);
        command.args(&self.flags).envs(self.variables).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&log)?);
        let failed = |cause| Error::Start { program: program.display().to_string(), cause };
        let mut child = command.spawn().map_err(failed)?;
        let not_ready = || Error::NotReady { log: std::fs::read_to_string(&log).unwrap_or_default() };
        let mut lines = BufReader::new(child.stdout.take().ok_or_else(not_ready)?).lines();
        let url = tokio::time::timeout(PATIENCE, announced(&mut lines)).await.ok().flatten();
        let url = url.ok_or_else(not_ready)?;
        // What else it says is read too, so that it never waits.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let token = std::fs::read_to_string(data.join("pki/admin.token"))?.trim().to_owned();
        let ca = data.join("pki/ca.crt");
        let cluster = Cluster::new(&url, &token, &ca, folder.path().join("kubeconfig")).await?;
        Ok(Server { cluster, token, ca, log, child, folder })
    }
}

fn from_environment() -> Option<PathBuf> {
    std::env::var_os("KEELSON_BIN").filter(|path| !path.is_empty()).map(PathBuf::from)
}

fn from_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("keelson")).find(|path| path.is_file())
}

/// The address that the server announces when it is ready.
async fn announced(lines: &mut Lines<BufReader<ChildStdout>>) -> Option<String> {
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some((_, rest)) = line.split_once(" is ready on ") {
            return rest.split_whitespace().next().map(str::to_owned);
        }
    }
    None
}

/// A running server. It and its folder go when this is dropped.
pub struct Server {
    pub(crate) cluster: Cluster,
    pub(crate) token: String,
    pub(crate) ca: PathBuf,
    log: PathBuf,
    child: Child,
    pub(crate) folder: TempDir,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("url", &self.url()).finish_non_exhaustive()
    }
}

impl Server {
    /// How a server is started: with objects in memory.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts a server as it comes.
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// A client for its administrator.
    pub fn client(&self) -> Client {
        self.cluster.client.clone()
    }

    /// Where it serves.
    pub fn url(&self) -> &str {
        &self.cluster.url
    }

    /// A kubeconfig for its administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.cluster.kubeconfig
    }

    /// The administrator's token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// What it has written to standard error so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// A cluster with the objects that the server has now.
    pub async fn fork(&self) -> Result<Fork, Error> {
        Fork::make(self, None).await
    }

    /// The same, with a name.
    pub async fn fork_named(&self, name: &str) -> Result<Fork, Error> {
        Fork::make(self, Some(name)).await
    }

    /// Faults on demand; only with [`Builder::with_faults`].
    pub fn faults(&self) -> Faults<'_> {
        Faults::of(&self.cluster)
    }

    /// The clock of the server; it moves only with [`Builder::with_faults`].
    pub fn clock(&self) -> Clock<'_> {
        Clock::of(&self.cluster)
    }

    /// Ends the process without a warning, as a crash does, and waits for its end. Its objects are gone, but
    /// for those of a server with `--storage=embedded`.
    pub async fn kill(mut self) -> Result<(), Error> {
        self.child.kill().await.map_err(Error::File)
    }
}

//! The server that a test talks to: one of its own, or one that is there already.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::http::{self, Target};
use crate::{Error, Exit, Folder, Process, Signal};

/// The token that [`Server::start`] makes valid, for a user `admin` of the group `system:masters`. Recorded
/// exchanges have it in their headers.
pub const TOKEN: &str = "admintoken";

/// The flag that names the file with tokens.
const TOKEN_FILE: &str = "--token-auth-file=";

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, and what a client needs to be its administrator.
///
/// For work on the tests themselves, three variables name a server to use in place of a new one:
/// `KEELSON_TEST_SERVER` (`https://host:port`), `KEELSON_TEST_TOKEN` (an administrator's token),
/// `KEELSON_TEST_CA` (the file with the authority of its certificate). The same tests can so be run against
/// another implementation of the API, to see whether they ask for the right thing.
#[derive(Debug)]
pub struct Server {
    url: String,
    token: String,
    ca: PathBuf,
    kubeconfig: PathBuf,
    process: Option<Process>,
    folder: Folder,
}

impl Server {
    /// A server that runs already, with an administrator's token.
    pub fn running(url: &str, token: &str, ca: &Path) -> Result<Self, Error> {
        let folder = Folder::new()?;
        let kubeconfig = write_kubeconfig(folder.path(), url, token, ca)?;
        let (url, token, ca) = (url.to_owned(), token.to_owned(), ca.to_owned());
        Ok(Self { url, token, ca, kubeconfig, process: None, folder })
    }

    /// Starts `binary` with `flags` and a token file, unless the environment names a server.
    pub fn start(binary: &Path, flags: &[&str]) -> Result<Self, Error> {
        if let Ok(url) = std::env::var("KEELSON_TEST_SERVER") {
            let variable = |name: &'static str| std::env::var(name).map_err(|_| Error::Variable { name });
            let token = variable("KEELSON_TEST_TOKEN")?;
            let ca = PathBuf::from(variable("KEELSON_TEST_CA")?);
            return Self::running(&url, &token, &ca);
        }
        Self::at(Folder::new()?, binary, flags)
    }

    /// Kills the process without a warning, and starts it again with its data and with these flags.
    pub fn crash(self, binary: &Path, flags: &[&str]) -> Result<Self, Error> {
        Self::at(self.kill()?, binary, flags)
    }

    /// Kills the process without a warning. Its data stays, in `data` of the folder.
    pub fn kill(mut self) -> Result<Folder, Error> {
        if let Some(process) = self.process.take() {
            process.signal(Signal::SIGKILL)?;
            process.wait()?;
        }
        Ok(self.folder)
    }

    /// Starts a process with its things in a folder; its data directory is `data` there. The tokens of a
    /// `--token-auth-file` among the flags are valid beside the administrator's.
    pub fn at(folder: Folder, binary: &Path, flags: &[&str]) -> Result<Self, Error> {
        Self::started(folder, flags, |data, flags| Process::start(binary, data, flags))
    }

    /// The same, without waiting until it is ready.
    pub fn at_unready(folder: Folder, binary: &Path, flags: &[&str]) -> Result<Self, Error> {
        Self::started(folder, flags, |data, flags| Process::start_unready(binary, data, flags))
    }

    fn started(
        folder: Folder,
        flags: &[&str],
        start: impl FnOnce(&Path, &[&str]) -> Result<Process, Error>,
    ) -> Result<Self, Error> {
        let (own, mut flags): (Vec<&str>, Vec<&str>) =
            flags.iter().partition(|flag| flag.starts_with(TOKEN_FILE));
        let mut rows = format!("{TOKEN},admin,admin-uid,\"system:masters\"\n");
        for flag in own {
            rows.push_str(&read(flag.trim_start_matches(TOKEN_FILE).as_ref())?);
        }
        let tokens = folder.path().join("tokens.csv");
        write(&tokens, &rows)?;
        let data = folder.path().join("data");
        let token_file = format!("{TOKEN_FILE}{}", tokens.display());
        flags.push(&token_file);
        let process = start(&data, &flags)?;
        let (url, ca) = (process.url().to_owned(), data.join("pki/ca.crt"));
        let kubeconfig = write_kubeconfig(folder.path(), &url, TOKEN, &ca)?;
        Ok(Self { url, token: TOKEN.to_owned(), ca, kubeconfig, process: Some(process), folder })
    }

    /// Where it serves.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The administrator's token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The file with the authority of its certificate.
    pub fn ca(&self) -> &Path {
        &self.ca
    }

    /// A kubeconfig with that token.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A folder of the test's own, removed with the server.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process, when it is the test's own.
    pub fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    /// How many lines with this text the server has logged so far.
    pub fn logged(&self, text: &str) -> usize {
        self.process().map_or(0, |process| process.log().lines().filter(|line| line.contains(text)).count())
    }

    /// Stops the process, when it is the test's own.
    pub fn terminate(mut self) -> Result<Option<Exit>, Error> {
        self.process.take().map(Process::terminate).transpose()
    }

    /// Stops the process, when it is the test's own. Its data stays, in `data` of the folder.
    pub fn stop(mut self) -> Result<Folder, Error> {
        self.process.take().map(Process::terminate).transpose()?;
        Ok(self.folder)
    }

    /// Sends a request as its administrator, on a connection of its own: the status and the body of the
    /// answer.
    pub fn text(&self, method: &str, path: &str, body: &str) -> Result<(u16, String), http::Error> {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        self.send(method, path, kind, body)
    }

    /// Applies an object as its administrator: the status and the JSON of the answer.
    pub fn apply(&self, path: &str, object: &Value) -> Result<(u16, Value), http::Error> {
        let (status, answer) =
            self.send("PATCH", path, "application/apply-patch+yaml", &object.to_string())?;
        Ok((status, serde_json::from_str(&answer).unwrap_or_default()))
    }

    fn send(&self, method: &str, path: &str, kind: &str, body: &str) -> Result<(u16, String), http::Error> {
        let target = self.target()?;
        let mut connection = target.connect(PATIENCE)?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            target.authority(),
            self.token,
            body.len()
        );
        connection.send(request.as_bytes())?;
        let mut head = connection.head(method)?;
        let answer = connection.body(&mut head)?;
        Ok((head.status, String::from_utf8_lossy(&answer).into_owned()))
    }

    /// The same with JSON; a body of `null` is none.
    pub fn call(&self, method: &str, path: &str, body: &Value) -> Result<(u16, Value), http::Error> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, answer) = self.text(method, path, &body)?;
        Ok((status, serde_json::from_str(&answer).unwrap_or_default()))
    }

    /// It as the target of the exact HTTP client.
    pub fn target(&self) -> Result<Target, http::Error> {
        Target::new(&self.url, &self.ca)
    }
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path)
        .map_err(|cause| Error::System { what: "reading the tokens of a test", cause })
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|cause| Error::System { what: "writing a file for the server", cause })
}

fn write_kubeconfig(folder: &Path, url: &str, token: &str, ca: &Path) -> Result<PathBuf, Error> {
    let path = folder.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
         clusters:\n- name: test\n  cluster:\n    server: {url}\n    certificate-authority: {}\n\
         users:\n- name: test\n  user:\n    token: {token}\n\
         contexts:\n- name: test\n  context:\n    cluster: test\n    user: test\n",
        ca.display()
    );
    write(&path, &text)?;
    Ok(path)
}

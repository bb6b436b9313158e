//! Command line clients, run against a server as its administrator.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::pty::{OpenptyResult, Winsize, openpty};

use crate::{Error, Server};

/// A program with the server's kubeconfig, and a home of its own in the server's folder.
#[derive(Debug, Clone)]
pub struct Cli {
    program: PathBuf,
    home: PathBuf,
    kubeconfig: PathBuf,
    before: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
}

/// How a program ended, and what it wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// To standard output.
    pub out: String,
    /// To standard error.
    pub err: String,
}

impl Cli {
    /// `program` as the administrator of `server`.
    pub fn new(program: PathBuf, server: &Server) -> Self {
        let (home, kubeconfig) = (server.folder().to_owned(), server.kubeconfig().to_owned());
        Self { program, home, kubeconfig, before: Vec::new(), variables: Vec::new() }
    }

    /// The same with arguments that come first, as `--namespace x`.
    pub fn with(&self, arguments: &[&str]) -> Self {
        let mut cli = self.clone();
        cli.before.extend(arguments.iter().map(OsString::from));
        cli
    }

    /// The same with an environment variable.
    pub fn with_variable(&self, name: &str, value: impl Into<OsString>) -> Self {
        let mut cli = self.clone();
        cli.variables.push((name.into(), value.into()));
        cli
    }

    /// The command, for what the other functions do not offer.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", &self.home)
            .env("TMPDIR", &self.home)
            .current_dir(&self.home);
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        command.args(&self.before).args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub fn run(&self, arguments: &[&str]) -> Result<Said, Error> {
        let output = self
            .command(arguments)
            .output()
            .map_err(|cause| Error::System { what: "running a client", cause })?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) })
    }

    /// Runs it, and returns what it wrote to standard output; anything but success is an error.
    pub fn ok(&self, arguments: &[&str]) -> Result<String, Error> {
        let said = self.run(arguments)?;
        match said.code {
            Some(0) => Ok(said.out),
            _ => Err(self.unexpected(arguments, said)),
        }
    }

    /// Runs it, and returns what it wrote to standard error; success is an error.
    pub fn fails(&self, arguments: &[&str]) -> Result<String, Error> {
        let said = self.run(arguments)?;
        match said.code {
            Some(code) if code != 0 => Ok(said.err),
            _ => Err(self.unexpected(arguments, said)),
        }
    }

    /// Starts it, to read its output line by line while it runs.
    pub fn stream(&self, arguments: &[&str]) -> Result<Stream, Error> {
        let child = self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.map_err(|cause| Error::System { what: "running a client", cause })?;
        let (send, lines) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    let _ = send.send(line);
                }
            });
        }
        Ok(Stream { child, lines })
    }

    /// Starts it at a terminal of some size.
    pub fn at_terminal(&self, arguments: &[&str], rows: u16, columns: u16) -> Result<Terminal, Error> {
        let system = |cause| Error::System { what: "running a client at a terminal", cause };
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let OpenptyResult { master, slave } =
            openpty(Some(&size), None).map_err(|error| system(error.into()))?;
        let (master, slave) = (File::from(master), File::from(slave));
        let child = self
            .command(arguments)
            .stdin(slave.try_clone().map_err(system)?)
            .stdout(slave.try_clone().map_err(system)?)
            .stderr(slave)
            .spawn()
            .map_err(system)?;
        let (send, pieces) = mpsc::channel();
        let mut reading = master.try_clone().map_err(system)?;
        thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok(read @ 1..) = reading.read(&mut buffer) {
                let text = String::from_utf8_lossy(buffer.get(..read).unwrap_or_default()).into_owned();
                if send.send(text).is_err() {
                    break;
                }
            }
        });
        Ok(Terminal { child, keyboard: master, pieces, seen: String::new() })
    }

    fn unexpected(&self, arguments: &[&str], said: Said) -> Error {
        let name = Path::new(&self.program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        Error::Client { line: format!("{name} {}", arguments.join(" ")), said }
    }
}

/// A client that runs at a terminal, ended when this is dropped.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keyboard: File,
    pieces: mpsc::Receiver<String>,
    seen: String,
}

impl Terminal {
    /// Types something.
    pub fn type_in(&mut self, text: &str) -> Result<(), Error> {
        let typed = self.keyboard.write_all(text.as_bytes());
        typed.map_err(|cause| Error::System { what: "typing at a terminal", cause })
    }

    /// Whether a text appears, with everything that has appeared so far.
    pub fn shows(&mut self, text: &str, patience: Duration) -> Result<(), String> {
        while !self.seen.contains(text) {
            match self.pieces.recv_timeout(patience) {
                Ok(piece) => self.seen.push_str(&piece),
                Err(_) => return Err(self.seen.clone()),
            }
        }
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that runs and writes lines, ended when this is dropped.
#[derive(Debug)]
pub struct Stream {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Stream {
    /// The next line; none when the client has ended, or says nothing for so long.
    pub fn line(&self, patience: Duration) -> Option<String> {
        self.lines.recv_timeout(patience).ok()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

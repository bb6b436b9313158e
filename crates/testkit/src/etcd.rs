//! etcd as child processes: one member, or a cluster of some.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Error, Folder};

/// The longest that a cluster may take to be ready; far more than it should.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster of etcd on the loopback address, with its data in a folder. The processes and the folder go away
/// when this is dropped.
#[derive(Debug)]
pub struct Etcd {
    members: Vec<Member>,
    binary: PathBuf,
    flags: Vec<String>,
    folder: Folder,
}

#[derive(Debug)]
struct Member {
    client: u16,
    peer: u16,
    child: Option<Child>,
}

impl Etcd {
    /// Starts `members` processes of a tool, `etcd` or `etcd-3.4`, with these flags, and waits until they
    /// work.
    pub fn start(tool: &str, members: usize, flags: &[&str]) -> Result<Self, Error> {
        let binary =
            crate::tool(tool).map_err(|error| system("finding etcd", std::io::Error::other(error)))?;
        let ports = free_ports(2 * members)?;
        let members = ports.chunks_exact(2).filter_map(|pair| match pair {
            [client, peer] => Some(Member { client: *client, peer: *peer, child: None }),
            _ => None,
        });
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut etcd = Self { members: members.collect(), binary, flags, folder: Folder::new()? };
        for index in 0..etcd.members.len() {
            etcd.launch(index)?;
        }
        etcd.wait_until_ready()?;
        Ok(etcd)
    }

    /// Where the members serve.
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| format!("http://127.0.0.1:{}", member.client)).collect()
    }

    /// The processes that run.
    pub fn pids(&self) -> Vec<u32> {
        self.members.iter().filter_map(|member| Some(member.child.as_ref()?.id())).collect()
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Starts a member that was killed, with the data that it has.
    pub fn launch(&mut self, index: usize) -> Result<(), Error> {
        let peers: Vec<String> = self
            .members
            .iter()
            .enumerate()
            .map(|(at, one)| format!("m{at}=http://127.0.0.1:{}", one.peer))
            .collect();
        let data = self.data(index);
        let Some(member) = self.members.get_mut(index) else { return Ok(()) };
        let (client, peer) =
            (format!("http://127.0.0.1:{}", member.client), format!("http://127.0.0.1:{}", member.peer));
        let child = Command::new(&self.binary)
            .arg(format!("--name=m{index}"))
            .arg(format!("--data-dir={}", data.display()))
            .args([format!("--listen-client-urls={client}"), format!("--advertise-client-urls={client}")])
            .args([format!("--listen-peer-urls={peer}"), format!("--initial-advertise-peer-urls={peer}")])
            .arg(format!("--initial-cluster={}", peers.join(",")))
            .args(["--logger=zap", "--log-level=error"])
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|cause| system("starting etcd", cause))?;
        member.child = Some(child);
        Ok(())
    }

    /// Kills a member without a warning.
    pub fn kill(&mut self, index: usize) -> Result<(), Error> {
        if let Some(mut child) = self.members.get_mut(index).and_then(|member| member.child.take()) {
            child
                .kill()
                .and_then(|()| child.wait().map(drop))
                .map_err(|cause| system("killing etcd", cause))?;
        }
        Ok(())
    }

    /// Kills a member and removes its data: started again, it is what a restore of an old state makes of it.
    pub fn wipe(&mut self, index: usize) -> Result<(), Error> {
        self.kill(index)?;
        std::fs::remove_dir_all(self.data(index)).map_err(|cause| system("removing the data of etcd", cause))
    }

    /// Kills a member and keeps a copy of its data, for [`Etcd::restore`]. The member has to be launched
    /// again.
    pub fn save(&mut self, index: usize) -> Result<(), Error> {
        self.kill(index)?;
        copy(&self.data(index), &self.saved(index)).map_err(|cause| system("saving the data of etcd", cause))
    }

    /// Kills a member and puts back the data of its last [`Etcd::save`]. The member has to be launched again.
    pub fn restore(&mut self, index: usize) -> Result<(), Error> {
        self.wipe(index)?;
        copy(&self.saved(index), &self.data(index))
            .map_err(|cause| system("restoring the data of etcd", cause))
    }

    fn data(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("m{index}"))
    }

    fn saved(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("saved-m{index}"))
    }

    /// Sends a signal to a member that runs.
    pub fn signal(&self, index: usize, signal: Signal) -> Result<(), Error> {
        let Some(child) = self.members.get(index).and_then(|member| member.child.as_ref()) else {
            return Ok(());
        };
        let id = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
        kill(id, signal).map_err(|cause| system("sending a signal", cause.into()))
    }

    /// The index of the member that leads.
    pub fn leader(&self) -> Option<usize> {
        (0..self.members.len()).find(|index| {
            let status = self.ask(*index, "POST", "/v3/maintenance/status", "{}").unwrap_or_default();
            let id = field(&status, "member_id");
            id.is_some() && id == field(&status, "leader")
        })
    }

    /// Makes a request of etcd's JSON interface to a member, such as `/v3/maintenance/alarm`, and returns the
    /// body of the answer.
    pub fn ask(&self, index: usize, method: &str, path: &str, body: &str) -> Result<String, Error> {
        let port = self.members.get(index).map_or(0, |member| member.client);
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let talk = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(request.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned())
        };
        talk().map_err(|cause| system("asking etcd", cause))
    }

    /// The value of a key, as the first member has it.
    pub fn value(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let question = format!(r#"{{"key":"{}"}}"#, STANDARD.encode(key));
        let answer = self.ask(0, "POST", "/v3/kv/range", &question)?;
        let value = answer.split_once("\"value\":\"").and_then(|(_, rest)| rest.split_once('"'));
        Ok(value.and_then(|(text, _)| STANDARD.decode(text).ok()))
    }

    /// Sets the value of a key, through the first member.
    pub fn put(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        let (key, value) = (STANDARD.encode(key), STANDARD.encode(value));
        self.ask(0, "POST", "/v3/kv/put", &format!(r#"{{"key":"{key}","value":"{value}"}}"#)).map(drop)
    }

    /// Waits until every member that runs can read and write.
    pub fn wait_until_ready(&self) -> Result<(), Error> {
        let begin = Instant::now();
        let is_ready = |(index, member): (usize, &Member)| {
            let health = member.child.as_ref().map(|_| self.ask(index, "GET", "/health", ""));
            health.is_none_or(|health| health.is_ok_and(|health| health.contains("\"true\"")))
        };
        while !self.members.iter().enumerate().all(is_ready) {
            if begin.elapsed() > PATIENCE {
                return Err(Error::NotReady { output: "etcd is not healthy".into() });
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in &mut self.members {
            if let Some(mut child) = member.child.take() {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

/// Copies a folder with everything in it.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    // etcd wants its folder for itself.
    std::fs::set_permissions(to, std::fs::metadata(from)?.permissions())?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &target)?,
            false => std::fs::copy(entry.path(), target).map(drop)?,
        }
    }
    Ok(())
}

/// The text of a field of JSON, which etcd writes as a string.
fn field<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let rest = json.split_once(&format!("\"{name}\":\""))?.1;
    rest.split('"').next()
}

/// Ports that nothing listens on at the moment.
pub(crate) fn free_ports(count: usize) -> Result<Vec<u16>, Error> {
    let bound: std::io::Result<Vec<TcpListener>> =
        (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect();
    let bound = bound.map_err(|cause| system("finding free ports", cause))?;
    let ports: std::io::Result<Vec<u16>> = bound.iter().map(|one| Ok(one.local_addr()?.port())).collect();
    ports.map_err(|cause| system("finding free ports", cause))
}

fn system(what: &'static str, cause: std::io::Error) -> Error {
    Error::System { what, cause }
}

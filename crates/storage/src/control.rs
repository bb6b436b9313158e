//! The control socket of a data directory: what a command asks of the server that uses it.
//!
//! It is the file `control` in the data directory, for its owner alone. A request is one line. `backup` is
//! answered by a backup of the store, with values as they lie there (encrypted ones stay so). All other
//! requests are for somebody else, who says so with [`Further`]: they are answered by a line that is [`OK`]
//! or an error, and what follows.

use std::fs::{self, File, Permissions};
use std::io::{self, BufRead as _, BufReader, BufWriter, ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use store::{Store, backup};
use tokio::net::UnixListener;

use crate::DataDir;

/// The request for a backup.
const BACKUP: &str = "backup\n";
/// The first line of the answer to a request that was carried out, but for a backup.
pub const OK: &[u8] = b"ok\n";
/// What the first line of any other answer starts with.
const ERROR: &str = "error: ";
/// The longest request.
const REQUEST: u64 = 64 << 10;
/// How long the other side may leave a byte waiting.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest path that the system takes for a socket, and a little less.
const LONGEST_PATH: usize = 100;

/// Answers requests that are not about the store.
pub trait Answer: Send + Sync {
    /// Writes the answer to a request, [`OK`] first, or says what is wrong with it; `None` if the request is
    /// not known. Blocking.
    fn answer(&self, request: &str, to: &mut dyn io::Write) -> Option<Result<(), String>>;
}

/// Who answers requests that are not about the store, once there is somebody. Clones share it.
#[derive(Clone, Default)]
pub struct Further(Arc<OnceLock<Arc<dyn Answer>>>);

impl Further {
    /// From now on this answers.
    pub fn set(&self, answer: Arc<dyn Answer>) {
        // It is set once.
        let _ = self.0.set(answer);
    }
}

/// The socket of a server.
pub struct Control(UnixListener);

impl Control {
    /// Opens the socket of a data directory whose store this process has locked. Needs the runtime.
    pub fn listen(data_dir: &DataDir) -> io::Result<Self> {
        let path = data_dir.control();
        remove(data_dir);
        let listener = Address::of(&path)?.with(|path| UnixListener::bind(path))?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(Self(listener))
    }

    /// Answers requests, one at a time.
    pub async fn run(&self, store: &Arc<dyn Store>, further: &Further) {
        loop {
            let answered = match self.0.accept().await {
                Ok((connection, _)) => {
                    let (store, further) = (store.clone(), further.clone());
                    let answer = move || answer(connection.into_std()?, &*store, &further);
                    tokio::task::spawn_blocking(answer)
                        .await
                        .unwrap_or_else(|died| Err(io::Error::other(died)))
                }
                Err(error) => Err(error),
            };
            if let Err(error) = answered {
                log::warn!(error:%; "a request at the control socket could not be answered");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Removes the socket of a data directory whose store this process has locked; one that is in the way shows
/// when it is opened.
pub fn remove(data_dir: &DataDir) {
    fs::remove_file(data_dir.control()).ok();
}

fn answer(connection: UnixStream, store: &dyn Store, further: &Further) -> io::Result<()> {
    connection.set_nonblocking(false)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let mut request = String::new();
    BufReader::new((&connection).take(REQUEST)).read_line(&mut request)?;
    if request != BACKUP {
        let mut to = BufWriter::with_capacity(1 << 18, &connection);
        let known = further.0.get().and_then(|further| further.answer(request.trim_end(), &mut to));
        match known {
            Some(Ok(())) => {}
            Some(Err(why)) => writeln!(to, "{ERROR}{}", why.replace('\n', " "))?,
            None => {
                writeln!(to, "{ERROR}the server does not know this request")?;
                let request = request.get(..64).unwrap_or(&request);
                log::warn!(request; "an unknown request at the control socket");
            }
        }
        return to.flush();
    }
    let mut connection = BufWriter::with_capacity(1 << 18, connection);
    let report = backup::write(store, &mut connection).map_err(io::Error::other)?;
    log::info!(
        objects = report.entries, bytes = report.bytes, revision = report.revision.0, damaged = report.missing.len();
        "a backup was taken"
    );
    Ok(())
}

/// Asks the server that uses a data directory for a backup; `None` if there is no such server. Reads from
/// what is returned time out.
pub fn request_backup(data_dir: &DataDir) -> io::Result<Option<UnixStream>> {
    connect(data_dir, BACKUP)
}

/// Asks the server that uses a data directory something, in one line; `None` if there is no such server. What
/// is returned is what follows the first line of the answer; an answer that is an error is one.
pub fn request(data_dir: &DataDir, line: &str) -> io::Result<Option<BufReader<UnixStream>>> {
    let Some(connection) = connect(data_dir, &format!("{line}\n"))? else { return Ok(None) };
    let mut answer = BufReader::new(connection);
    let mut first = String::new();
    answer.read_line(&mut first)?;
    match first.strip_prefix(ERROR) {
        _ if first.as_bytes() == OK => Ok(Some(answer)),
        Some(why) => Err(io::Error::other(why.trim_end().to_owned())),
        None => Err(io::Error::new(ErrorKind::UnexpectedEof, "the server did not answer")),
    }
}

fn connect(data_dir: &DataDir, request: &str) -> io::Result<Option<UnixStream>> {
    let connected =
        Address::of(&data_dir.control()).and_then(|address| address.with(|path| UnixStream::connect(path)));
    let mut connection = match connected {
        Ok(connection) => connection,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.write_all(request.as_bytes())?;
    Ok(Some(connection))
}

/// How the system can be told the path of a socket: a long one by way of the open directory that it is in.
enum Address {
    Short(PathBuf),
    Within { directory: File, name: PathBuf },
}

impl Address {
    fn of(path: &Path) -> io::Result<Self> {
        match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) if path.as_os_str().len() > LONGEST_PATH => {
                Ok(Self::Within { directory: File::open(parent)?, name: name.into() })
            }
            _ => Ok(Self::Short(path.into())),
        }
    }

    fn with<T>(&self, open: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        match self {
            Self::Short(path) => open(path),
            Self::Within { directory, name } => {
                open(&Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name))
            }
        }
    }
}

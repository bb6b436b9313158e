//! What the server asks the etcd of its flags: whether that is a [`shim`](crate::shim), and which folder it
//! offers.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aws_lc_rs::digest;

/// The path that a shim answers, and no etcd.
pub(crate) const PATH: &str = "/keelson/v1/storage";
/// The first line of the answer.
const TITLE: &str = "keelson storage 1";
/// How long the answer may take. A process that was just started may be busy.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most bytes of an answer.
const LONGEST: u64 = 64 << 10;

/// A folder in which a server keeps everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageFolder {
    /// The folder.
    pub path: PathBuf,
    /// Whether writes wait for the disk.
    pub is_synced: bool,
}

impl StorageFolder {
    /// The folder within this one for the servers with a key prefix: servers with different prefixes see
    /// nothing of each other, as in one etcd.
    pub fn of_prefix(&self, prefix: &str) -> PathBuf {
        let mut name = String::new();
        for byte in prefix.trim_matches('/').bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
                other => name.push_str(&format!("%{other:02x}")),
            }
        }
        // The name of a folder has at most 255 bytes, and at least one.
        if name.is_empty() || name.len() > 200 {
            let hash = digest::digest(&digest::SHA256, prefix.as_bytes());
            name = hash.as_ref().iter().fold(String::from("%"), |name, byte| format!("{name}{byte:02x}"));
        }
        self.path.join(name)
    }

    /// The answer that names the folder.
    pub(crate) fn to_text(&self) -> String {
        let sync = if self.is_synced { "always" } else { "never" };
        format!("{TITLE}\nsync {sync}\nfolder {}\n", self.path.display())
    }

    fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(TITLE)?.strip_prefix("\nsync ")?;
        let (sync, rest) = rest.split_once('\n')?;
        let is_synced = match sync {
            "always" => true,
            "never" => false,
            _ => return None,
        };
        let path = PathBuf::from(rest.strip_prefix("folder ")?.strip_suffix('\n')?);
        path.is_absolute().then_some(Self { path, is_synced })
    }
}

/// Asks the etcd at `server`, a URL, for a folder. `None` if it has none: it is a real one, does not answer,
/// or can be asked over TLS only. Blocking.
pub fn probe(server: &str) -> Option<StorageFolder> {
    let authority = server.strip_prefix("http://")?.trim_end_matches('/');
    if authority.is_empty()
        || authority.contains(['/', '?', '#', '@'])
        || authority.contains(char::is_whitespace)
    {
        return None;
    }
    let answer = ask(authority).ok()?;
    let text = String::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let is_found = head.starts_with("HTTP/1.1 200 ") || head.starts_with("HTTP/1.0 200 ");
    if !is_found { None } else { StorageFolder::parse(body) }
}

fn ask(authority: &str) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + PATIENCE;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in authority.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left(deadline)?) {
            Ok(connection) => return exchange(connection, authority, deadline),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn exchange(mut connection: TcpStream, authority: &str, deadline: Instant) -> io::Result<Vec<u8>> {
    connection.set_write_timeout(Some(left(deadline)?))?;
    let request = format!("GET {PATH} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        connection.set_read_timeout(Some(left(deadline)?))?;
        let count = connection.read(&mut piece)?;
        answer.extend(piece.iter().take(count));
        if count == 0 || answer.len() as u64 > LONGEST {
            return Ok(answer);
        }
    }
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The folder that a shim offers in its data directory.
pub(crate) fn in_data_dir(data_dir: &Path, is_synced: bool) -> StorageFolder {
    StorageFolder { path: data_dir.join("keelson"), is_synced }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    fn folder() -> StorageFolder {
        StorageFolder { path: "/tmp/a b".into(), is_synced: false }
    }

    /// The URL of a server that answers one request with these bytes.
    fn answering(bytes: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let _ = connection.read(&mut request).unwrap();
            connection.write_all(bytes).unwrap();
        });
        url
    }

    #[test]
    fn answer_is_understood_by_the_side_that_asks() {
        for folder in [folder(), StorageFolder { is_synced: true, ..folder() }] {
            assert_eq!(StorageFolder::parse(&folder.to_text()), Some(folder));
        }
        let good = folder().to_text();
        for bad in [
            "",
            "keelson storage 2\n",
            &good.replace("never", "maybe"),
            &good.replace("/tmp", "tmp"),
            good.trim_end(),
        ] {
            assert_eq!(StorageFolder::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn anything_but_a_shim_is_an_etcd() {
        let good =
            b"HTTP/1.1 200 OK\r\ncontent-length: 42\r\n\r\nkeelson storage 1\nsync never\nfolder /tmp/a b\n";
        assert_eq!(probe(&answering(good)), Some(folder()));
        assert_eq!(probe(&format!("{}/", answering(good))), Some(folder()));
        for other in [
            &b"HTTP/1.1 404 Not Found\r\n\r\nkeelson storage 1\nsync never\nfolder /tmp/a b\n"[..],
            b"HTTP/1.1 200 OK\r\n\r\n{\"health\":\"true\"}",
            b"HTTP/1.1 200 OK\r\n\r\n\xff\xfe",
            b"",
        ] {
            assert_eq!(probe(&answering(other)), None);
        }
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for url in [
            format!("http://{closed}").as_str(),
            "https://127.0.0.1:1",
            "unix:///x",
            "http://",
            "127.0.0.1:1",
            "http://a b",
        ] {
            assert_eq!(probe(url), None, "{url}");
        }
    }

    #[test]
    fn prefixes_have_folders_of_their_own() {
        let of = |prefix: &str| folder().of_prefix(prefix).file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(of("/registry"), "registry");
        assert_eq!(of("registry/"), "registry");
        assert_eq!(of("/a/b"), "a%2fb");
        assert_eq!(of(".."), "%2e%2e");
        assert_eq!(of("").len(), 65);
        let (long, other) = ("x".repeat(5000), "y".repeat(5000));
        assert_eq!(of(&long).len(), 65);
        assert_ne!(of(&long), of(&other));
    }
}

//! An HTTP/1.1 client that sends exactly the bytes it is given, over TLS.
//!
//! Tests of a server's edges need requests that no well-behaved client library would build: odd methods,
//! unescaped paths, a body where none belongs. So a request is bytes here, and only the answer is understood:
//! its head, and a body with a length, in chunks, or up to the end of the connection. Every wait has an end;
//! every length has a bound.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// The longest head or line of an answer.
const LONGEST_LINE: usize = 64 << 20;
/// The longest body that is read as a whole.
const LONGEST_BODY: usize = 512 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not one of the form `https://host:port`.
    #[error("{0} is not of the form https://host:port")]
    Address(String),
    /// The certificates to trust cannot be used.
    #[error("the certificates in {path} cannot be used: {why}")]
    Certificates {
        /// Their file.
        path: String,
        /// What is wrong with them.
        why: String,
    },
    /// TLS was refused.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The connection failed.
    #[error("{what}: {cause}")]
    Connection {
        /// What was under way.
        what: &'static str,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The server closed the connection before anything of the answer came.
    #[error("the server closed the connection without an answer")]
    Closed,
    /// The time was up.
    #[error("no answer in time")]
    Timeout,
    /// The answer is not HTTP/1.1.
    #[error("the answer is not HTTP/1.1: {0}")]
    Malformed(String),
}

/// A server, and the authority of its certificate.
#[derive(Debug, Clone)]
pub struct Target {
    authority: String,
    name: ServerName<'static>,
    roots: RootCertStore,
    tls: Arc<ClientConfig>,
}

impl Target {
    /// The server at `url` with a certificate from one of the authorities in the file `ca`.
    pub fn new(url: &str, ca: &Path) -> Result<Self, Error> {
        let bad = || Error::Address(url.to_owned());
        let authority = url.strip_prefix("https://").ok_or_else(bad)?.trim_end_matches('/');
        let (host, port) = authority.rsplit_once(':').ok_or_else(bad)?;
        port.parse::<u16>().map_err(|_| bad())?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(|_| bad())?;
        let unusable =
            |why: &dyn ToString| Error::Certificates { path: ca.display().to_string(), why: why.to_string() };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(ca).map_err(|error| unusable(&error))? {
            let certificate = certificate.map_err(|error| unusable(&error))?;
            roots.add(certificate).map_err(|error| unusable(&error))?;
        }
        if roots.is_empty() {
            return Err(unusable(&"there is none"));
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        Ok(Self { authority: authority.to_owned(), name, roots, tls: Arc::new(tls) })
    }

    /// The same server, for a client that shows a certificate; it and its key are in PEM.
    pub fn identified(&self, certificate: &str, key: &str) -> Result<Self, Error> {
        let unusable = |why: &dyn ToString| Error::Certificates {
            path: "the client's certificate".to_owned(),
            why: why.to_string(),
        };
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| unusable(&error))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| unusable(&error))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(self.roots.clone())
            .with_client_auth_cert(chain, key)?;
        Ok(Self { tls: Arc::new(tls), ..self.clone() })
    }

    /// `host:port`, as in a `Host` header.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The same server, for connections that speak HTTP/2: their bytes are left to the caller.
    pub fn http2(&self) -> Self {
        let mut tls = ClientConfig::clone(&self.tls);
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Self { tls: Arc::new(tls), ..self.clone() }
    }

    /// A new connection; opening it, and every exchange on it until [`Connection::allow`] says otherwise, may
    /// take `patience`.
    pub fn connect(&self, patience: Duration) -> Result<Connection, Error> {
        let connection = |what| move |cause| Error::Connection { what, cause };
        let socket = TcpStream::connect(&self.authority).map_err(connection("connecting"))?;
        socket.set_nodelay(true).map_err(connection("connecting"))?;
        let session = ClientConnection::new(self.tls.clone(), self.name.clone())?;
        let stream = StreamOwned::new(session, socket);
        let mut connection =
            Connection { stream, unread: Vec::new(), position: 0, deadline: Instant::now() + patience };
        connection.limit()?;
        Ok(connection)
    }
}

/// One connection, for one exchange after another.
#[derive(Debug)]
pub struct Connection {
    stream: StreamOwned<ClientConnection, TcpStream>,
    unread: Vec<u8>,
    position: usize,
    deadline: Instant,
}

/// The head of an answer; its body follows through [`Connection::chunk`], [`Connection::line`] or
/// [`Connection::body`].
#[derive(Debug)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// The headers in order, with their names in lower case.
    pub headers: Vec<(String, String)>,
    framing: Framing,
    /// Whether the connection takes another request once the body has been read.
    reusable: bool,
}

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// This much is left.
    Length(usize),
    /// This much of the current chunk is left.
    Chunked(usize),
    /// The connection ends.
    Close,
}

impl Head {
    /// The values of a header, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether the connection can be used again: the server did not say otherwise, and the body has been
    /// read.
    pub fn reusable(&self) -> bool {
        self.reusable && self.framing == Framing::Length(0)
    }
}

impl Connection {
    /// From now on, everything together may take `patience`.
    pub fn allow(&mut self, patience: Duration) {
        self.deadline = Instant::now() + patience;
    }

    /// Sends the bytes of a request, head and body.
    pub fn send(&mut self, request: &[u8]) -> Result<(), Error> {
        self.limit()?;
        let sent = self.stream.write_all(request).and_then(|()| self.stream.flush());
        sent.map_err(|cause| io_error("sending", cause))
    }

    /// Some bytes as they come; none at the end of the connection.
    pub fn receive(&mut self) -> Result<Option<Vec<u8>>, Error> {
        self.some(usize::MAX)
    }

    /// Reads the head of the answer to a request with `method`, past interim answers.
    pub fn head(&mut self, method: &str) -> Result<Head, Error> {
        loop {
            let head = self.any_head(method)?;
            if !(100..200).contains(&head.status) || head.status == 101 {
                return Ok(head);
            }
        }
    }

    /// The next piece of the body; none at its end.
    pub fn chunk(&mut self, head: &mut Head) -> Result<Option<Vec<u8>>, Error> {
        match head.framing {
            Framing::Length(0) => Ok(None),
            Framing::Length(left) => {
                let piece = self.some(left)?.ok_or_else(|| malformed("it ends within its body"))?;
                head.framing = Framing::Length(left - piece.len());
                Ok(Some(piece))
            }
            Framing::Close => self.some(usize::MAX),
            Framing::Chunked(0) => {
                let line = self.text_line()?.ok_or_else(|| malformed("it ends before a chunk"))?;
                let size = line.split(';').next().unwrap_or_default().trim();
                let size = usize::from_str_radix(size, 16).map_err(|_| malformed(&line))?;
                if size == 0 {
                    while self.text_line()?.is_some_and(|trailer| !trailer.is_empty()) {}
                    head.framing = Framing::Length(0);
                    return Ok(None);
                }
                head.framing = Framing::Chunked(size);
                self.chunk(head)
            }
            Framing::Chunked(left) => {
                let piece = self.some(left)?.ok_or_else(|| malformed("it ends within a chunk"))?;
                head.framing = Framing::Chunked(left - piece.len());
                if piece.len() == left && self.text_line()?.is_none_or(|rest| !rest.is_empty()) {
                    return Err(malformed("a chunk is longer than it says"));
                }
                Ok(Some(piece))
            }
        }
    }

    /// The whole rest of the body.
    pub fn body(&mut self, head: &mut Head) -> Result<Vec<u8>, Error> {
        let mut body = Vec::new();
        while let Some(piece) = self.chunk(head)? {
            body.extend(piece);
            if body.len() > LONGEST_BODY {
                return Err(malformed("the body is too long"));
            }
        }
        Ok(body)
    }

    /// The next line of the body, with what has been read of it so far in `rest`; none at the end of the
    /// body.
    pub fn line(&mut self, head: &mut Head, rest: &mut Vec<u8>) -> Result<Option<Vec<u8>>, Error> {
        loop {
            if let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
                let after = rest.split_off(end + 1);
                return Ok(Some(std::mem::replace(rest, after)));
            }
            match self.chunk(head)? {
                Some(piece) if rest.len() < LONGEST_LINE => rest.extend(piece),
                Some(_) => return Err(malformed("a line is too long")),
                None if rest.is_empty() => return Ok(None),
                None => return Ok(Some(std::mem::take(rest))),
            }
        }
    }

    fn any_head(&mut self, method: &str) -> Result<Head, Error> {
        let first = self.text_line()?.ok_or(Error::Closed)?;
        let mut words = first.splitn(3, ' ');
        let version = words.next().unwrap_or_default();
        let status = words.next().and_then(|code| code.parse().ok());
        let (true, Some(status)) = (version.starts_with("HTTP/1."), status) else {
            return Err(malformed(&first));
        };
        let mut headers = Vec::new();
        loop {
            let line = self.text_line()?.ok_or_else(|| malformed("it ends within its head"))?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| malformed(&line))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let closes =
            |(name, value): &(String, String)| name == "connection" && value.eq_ignore_ascii_case("close");
        let reusable = !version.ends_with('0') && !headers.iter().any(closes);
        let mut head = Head { status, headers, framing: Framing::Close, reusable };
        let length = head.header("content-length").map(str::parse::<usize>);
        head.framing = match length {
            _ if method == "HEAD" || matches!(status, 100..200 | 204 | 304) => Framing::Length(0),
            _ if head.all("transfer-encoding").any(|value| value.eq_ignore_ascii_case("chunked")) => {
                Framing::Chunked(0)
            }
            Some(Ok(length)) => Framing::Length(length),
            Some(Err(_)) => return Err(malformed("its length is no number")),
            None => {
                head.reusable = false;
                Framing::Close
            }
        };
        Ok(head)
    }

    /// A line of the head, without its end; none at the end of the connection.
    fn text_line(&mut self) -> Result<Option<String>, Error> {
        let mut searched = self.position;
        loop {
            let fresh = self.unread.get(searched..).unwrap_or_default();
            if let Some(at) = fresh.iter().position(|&byte| byte == b'\n') {
                let end = searched + at;
                let line = self.unread.get(self.position..end).unwrap_or_default();
                let line = String::from_utf8_lossy(line).trim_end_matches('\r').to_owned();
                self.position = end + 1;
                return Ok(Some(line));
            }
            searched = self.unread.len();
            if searched - self.position > LONGEST_LINE {
                return Err(malformed("a line is too long"));
            }
            if !self.fill()? {
                return if searched == self.position { Ok(None) } else { Err(Error::Closed) };
            }
            searched -= self.compact();
        }
    }

    /// At least one byte and at most `most`; none at the end of the connection.
    fn some(&mut self, most: usize) -> Result<Option<Vec<u8>>, Error> {
        if self.position == self.unread.len() && !self.fill()? {
            return Ok(None);
        }
        self.compact();
        let count = self.unread.len().min(most);
        let rest = self.unread.split_off(count);
        let piece = std::mem::replace(&mut self.unread, rest);
        Ok(Some(piece))
    }

    /// Forgets what has been consumed; says how much that was.
    fn compact(&mut self) -> usize {
        let consumed = std::mem::take(&mut self.position);
        self.unread.drain(..consumed);
        consumed
    }

    /// Reads more; false at the end of the connection.
    fn fill(&mut self) -> Result<bool, Error> {
        self.limit()?;
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.unread.extend(buffer.get(..count).unwrap_or_default());
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(io_error("reading", error)),
        }
    }

    /// Hands what is left of the time to the socket.
    fn limit(&mut self) -> Result<(), Error> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::Timeout);
        }
        let socket = &self.stream.sock;
        let set = socket.set_read_timeout(Some(left)).and_then(|()| socket.set_write_timeout(Some(left)));
        set.map_err(|cause| Error::Connection { what: "setting a time limit", cause })
    }
}

fn io_error(what: &'static str, cause: std::io::Error) -> Error {
    match cause.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout,
        _ => Error::Connection { what, cause },
    }
}

fn malformed(what: &str) -> Error {
    Error::Malformed(what.chars().take(200).collect())
}

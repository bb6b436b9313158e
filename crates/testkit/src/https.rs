//! A small HTTPS server for tests of what the server asks of others: webhooks, identity providers.
//!
//! It answers HTTP/1.1 requests as a closure says, also in ways that no well-behaved server would: late,
//! never, without an end, or by closing the connection.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// The longest request.
const LONGEST: usize = 16 << 20;

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate in PEM.
    pub certificate: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl Authority {
    /// A new authority.
    pub fn new() -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "a test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// A certificate for names or addresses; the first is its subject too.
    pub fn issue(&self, names: &[&str]) -> Result<Pair, rcgen::Error> {
        let mut params =
            CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        params.distinguished_name.push(DnType::CommonName, names.first().copied().unwrap_or_default());
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Pair { certificate, key: key.serialize_pem() })
    }
}

/// A request for a certificate, and its key, both in PEM.
#[derive(Clone, Debug)]
pub struct SigningRequest {
    /// The request.
    pub pem: String,
    /// The key.
    pub key: String,
}

impl SigningRequest {
    /// A new key, for a user of a group.
    pub fn new(user: &str, group: &str) -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.distinguished_name.push(DnType::CommonName, user);
        let key = KeyPair::generate()?;
        Ok(Self { pem: params.serialize_request(&key)?.pem()?, key: key.serialize_pem() })
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The path and query.
    pub path: String,
    /// The headers, with their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
    /// The certificate of the client, in DER.
    pub certificate: Option<Vec<u8>>,
    /// Counts the connections of the server.
    pub connection: usize,
}

impl Request {
    /// The value of a header; empty without one.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A status code and JSON.
    Json(u16, String),
    /// These bytes, and the end of the connection.
    Raw(Vec<u8>),
    /// The same bytes again and again, after a head without a length.
    Endless,
    /// Nothing for a time, then the end of the connection.
    Silence(Duration),
    /// An answer after a time.
    After(Duration, Box<Reply>),
    /// The end of the connection.
    Close,
}

impl Reply {
    /// 200 with JSON.
    pub fn ok(body: impl Into<String>) -> Self {
        Self::Json(200, body.into())
    }
}

type Answers = dyn Fn(&Request) -> Reply + Send + Sync;

/// A running server. It ends with the process.
#[derive(Clone)]
pub struct HttpsServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl std::fmt::Debug for HttpsServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpsServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl HttpsServer {
    /// Serves on a free port with a certificate. Certificates of clients are asked for, and have to be of
    /// `clients` if there are some.
    pub fn start(
        serving: &Pair,
        clients: Option<&Authority>,
        answers: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let other = std::io::Error::other::<String>;
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| other(error.to_string()))?;
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(
                    CertificateDer::pem_slice_iter(authority.certificate.as_bytes()).flatten(),
                );
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                    .allow_unauthenticated()
                    .build()
                    .map_err(|error| other(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let chain = CertificateDer::pem_slice_iter(serving.certificate.as_bytes()).flatten().collect();
        let key = PrivateKeyDer::from_pem_slice(serving.key.as_bytes())
            .map_err(|error| other(error.to_string()))?;
        let tls = Arc::new(builder.with_single_cert(chain, key).map_err(|error| other(error.to_string()))?);
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let requests = Arc::new(Mutex::new(Vec::new()));
        let server = Self { address, requests };
        let (answers, connections): (Arc<Answers>, _) = (Arc::new(answers), AtomicUsize::new(0));
        std::thread::spawn({
            let server = server.clone();
            move || {
                for socket in listener.incoming().flatten() {
                    let (server, answers, tls) = (server.clone(), answers.clone(), tls.clone());
                    let connection = connections.fetch_add(1, Ordering::SeqCst);
                    std::thread::spawn(move || server.serve(socket, tls, connection, &*answers));
                }
            }
        });
        Ok(server)
    }

    /// `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes a kubeconfig for this server.
    pub fn kubeconfig(
        &self,
        path: &Path,
        url_path: &str,
        authority: &Authority,
        user: &str,
    ) -> std::io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let file = format!("{name}.ca.crt");
        std::fs::write(folder.join(&file), &authority.certificate)?;
        let url = self.url();
        std::fs::write(
            path,
            format!(
                "apiVersion: v1\nkind: Config\nclusters:\n- name: other\n  cluster:\n    server: {url}{url_path}\n    \
                 certificate-authority: {file}\nusers:\n- name: me\n  user: {user}\ncontexts:\n- name: only\n  context:\n    \
                 cluster: other\n    user: me\ncurrent-context: only\n"
            ),
        )
    }

    fn serve(&self, socket: TcpStream, tls: Arc<ServerConfig>, connection: usize, answers: &Answers) {
        let Ok(session) = ServerConnection::new(tls) else { return };
        let mut stream = StreamOwned::new(session, socket);
        let mut unread = Vec::new();
        while let Some(request) = read(&mut stream, &mut unread, connection) {
            let reply = answers(&request);
            self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            if !send(&mut stream, reply) {
                break;
            }
        }
        stream.conn.send_close_notify();
        let _ = stream.flush();
    }
}

type Stream = StreamOwned<ServerConnection, TcpStream>;

/// Sends an answer; returns whether the connection takes another request.
fn send(stream: &mut Stream, reply: Reply) -> bool {
    match reply {
        Reply::Json(code, body) => {
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {code} Answer\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).is_ok()
                && stream.flush().is_ok()
        }
        Reply::Raw(bytes) => {
            let _ = stream.write_all(&bytes);
            let _ = stream.flush();
            false
        }
        Reply::Endless => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n");
            while stream.write_all(&[b' '; 16 << 10]).is_ok() {}
            false
        }
        Reply::Silence(time) => {
            std::thread::sleep(time);
            false
        }
        Reply::After(time, reply) => {
            std::thread::sleep(time);
            send(stream, *reply)
        }
        Reply::Close => false,
    }
}

/// Reads a request; `None` at the end of the connection.
fn read(stream: &mut Stream, unread: &mut Vec<u8>, connection: usize) -> Option<Request> {
    let head_end = loop {
        if let Some(at) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        more(stream, unread)?;
    };
    let head: Vec<u8> = unread.drain(..head_end + 4).collect();
    let head = String::from_utf8(head).ok()?;
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(Some(0), |(_, value)| value.parse().ok())?;
    while unread.len() < length {
        more(stream, unread)?;
    }
    let body = String::from_utf8(unread.drain(..length).collect()).ok()?;
    let certificate = stream.conn.peer_certificates().and_then(|chain| chain.first()).map(|der| der.to_vec());
    Some(Request { method, path, headers, body, certificate, connection })
}

fn more(stream: &mut Stream, unread: &mut Vec<u8>) -> Option<()> {
    let mut part = [0; 16 << 10];
    loop {
        match stream.read(&mut part) {
            Ok(0) => return None,
            Ok(count) if unread.len() + count <= LONGEST => {
                unread.extend_from_slice(part.get(..count)?);
                return Some(());
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => return None,
        }
    }
}

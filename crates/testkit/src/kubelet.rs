//! A small kubelet: it serves logs, commands, main processes and ports of containers over the real protocols,
//! HTTP, SPDY/3.1 and WebSocket (`v4.channel.k8s.io`).
//!
//! A command is run on this host, in the folder that the kubelet was started with; one with a terminal is
//! told the size of that first. The main process of every container greets, and answers each line of its
//! input in capitals. Ports are those of this host. Commands in a container `silent` are never answered.

mod remote;
mod spdy;
mod stream;
mod websocket;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::https::{Authority, Pair};

type Connection = TlsStream<TcpStream>;

/// A running kubelet. It ends with the process.
#[derive(Clone, Debug)]
pub struct Kubelet {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<KubeletRequest>>>,
}

/// A request that a kubelet got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletRequest {
    /// The method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The query.
    pub query: String,
    /// The headers, with their names in lower case.
    pub headers: Vec<(String, String)>,
    /// Whether the client showed a certificate.
    pub has_certificate: bool,
}

impl KubeletRequest {
    /// The first value of a header; empty without one.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    /// The values of a parameter.
    fn parameters(&self, name: &str) -> Vec<String> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(own, _)| *own == name).map(|(_, value)| decoded(value)).collect()
    }

    fn has(&self, name: &str) -> bool {
        self.parameters(name).iter().any(|value| value == "1" || value == "true")
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit =
                    || rest.next().and_then(|byte| char::from(byte).to_digit(16)).unwrap_or_default();
                u8::try_from(digit() << 4 | digit()).unwrap_or_default()
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Kubelet {
    /// Serves on a free port with a certificate. Clients need a certificate of `clients`, if that is given.
    pub fn start(serving: &Pair, clients: Option<&Authority>, folder: &Path) -> std::io::Result<Self> {
        Self::start_at(Ipv4Addr::LOCALHOST.into(), serving, clients, folder)
    }

    /// The same, on another address of this host.
    pub fn start_at(
        address: IpAddr,
        serving: &Pair,
        clients: Option<&Authority>,
        folder: &Path,
    ) -> std::io::Result<Self> {
        let tls = TlsAcceptor::from(Arc::new(config(serving, clients)?));
        let listener = std::net::TcpListener::bind((address, 0))?;
        listener.set_nonblocking(true)?;
        let kubelet = Self { address: listener.local_addr()?, requests: Arc::default() };
        let folder = folder.to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::spawn({
            let kubelet = kubelet.clone();
            move || runtime.block_on(kubelet.serve(listener, tls, folder))
        });
        Ok(kubelet)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<KubeletRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn serve(self, listener: std::net::TcpListener, tls: TlsAcceptor, folder: PathBuf) {
        let Ok(listener) = TcpListener::from_std(listener) else { return };
        while let Ok((socket, _)) = listener.accept().await {
            let (kubelet, tls, folder) = (self.clone(), tls.clone(), folder.clone());
            tokio::spawn(async move {
                if let Ok(mut connection) = tls.accept(socket).await {
                    while let Some(request) = read(&mut connection).await {
                        kubelet.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
                        match answer(connection, &request, &folder).await {
                            Some(still_open) => connection = still_open,
                            None => break,
                        }
                    }
                }
            });
        }
    }
}

fn config(serving: &Pair, clients: Option<&Authority>) -> std::io::Result<ServerConfig> {
    let other = |error: &dyn std::fmt::Display| std::io::Error::other(error.to_string());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| other(&error))?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(
                CertificateDer::pem_slice_iter(authority.certificate.as_bytes()).flatten(),
            );
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(|error| other(&error))?)
        }
    };
    let chain = CertificateDer::pem_slice_iter(serving.certificate.as_bytes()).flatten().collect();
    let key = PrivateKeyDer::from_pem_slice(serving.key.as_bytes()).map_err(|error| other(&error))?;
    builder.with_single_cert(chain, key).map_err(|error| other(&error))
}

/// Reads the head of a request; none of them has a body.
async fn read(connection: &mut Connection) -> Option<KubeletRequest> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(connection.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    let has_certificate = connection.get_ref().1.peer_certificates().is_some();
    Some(KubeletRequest { method, path: path.to_owned(), query: query.to_owned(), headers, has_certificate })
}

/// Answers a request; returns the connection if it can be used again.
async fn answer(mut connection: Connection, request: &KubeletRequest, folder: &Path) -> Option<Connection> {
    match request.path.split('/').nth(1) {
        Some("containerLogs") => logs(connection, request).await,
        Some("exec") if request.path.ends_with("/silent") => {
            // Until the client closes the connection.
            while connection.read_u8().await.is_ok() {}
            None
        }
        Some(what @ ("exec" | "attach" | "portForward")) => {
            if request.header("upgrade").eq_ignore_ascii_case("websocket") {
                return channels(connection, request, what, folder).await;
            }
            if !request.header("upgrade").eq_ignore_ascii_case("SPDY/3.1") {
                let refusal = "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\nnot here\n";
                connection.write_all(refusal.as_bytes()).await.ok()?;
                return None;
            }
            let protocol = match what {
                "portForward" => "portforward.k8s.io",
                _ => "v4.channel.k8s.io",
            };
            let offered = |(name, value): &(String, String)| {
                name == "x-stream-protocol-version" && value.split(',').any(|one| one.trim() == protocol)
            };
            if !request.headers.iter().any(offered) {
                let refusal = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
                connection.write_all(refusal.as_bytes()).await.ok()?;
                return None;
            }
            let switch = format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
                 X-Stream-Protocol-Version: {protocol}\r\n\r\n"
            );
            connection.write_all(switch.as_bytes()).await.ok()?;
            connection.flush().await.ok()?;
            remote::serve_spdy(spdy::Connection::new(connection), request, what, folder).await;
            None
        }
        _ => {
            let text = format!("{} {}\n", request.method, request.path);
            let length = text.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{text}"
            );
            connection.write_all(answer.as_bytes()).await.ok()?;
            connection.flush().await.ok()?;
            Some(connection)
        }
    }
}

/// Serves an upgrade to a WebSocket.
async fn channels(
    mut connection: Connection,
    request: &KubeletRequest,
    what: &str,
    folder: &Path,
) -> Option<Connection> {
    let mut offered = request.header("sec-websocket-protocol").split(',').map(str::trim);
    if !offered.any(|protocol| protocol == websocket::PROTOCOL) {
        let refusal = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
        connection.write_all(refusal.as_bytes()).await.ok()?;
        return None;
    }
    let switch = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {}\r\nSec-WebSocket-Protocol: {}\r\n\r\n",
        websocket::accept(request.header("sec-websocket-key")),
        websocket::PROTOCOL,
    );
    connection.write_all(switch.as_bytes()).await.ok()?;
    connection.flush().await.ok()?;
    remote::serve_websocket(websocket::Connection::new(connection), request, what, folder).await;
    None
}

/// Three lines; when they are followed, another one each 50 ms for as long as the client reads, up to a
/// hundred.
async fn logs(mut connection: Connection, request: &KubeletRequest) -> Option<Connection> {
    if request.path.ends_with("/moved") {
        let answer =
            "HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1/elsewhere\r\nContent-Length: 0\r\n\r\n";
        connection.write_all(answer.as_bytes()).await.ok()?;
        return Some(connection);
    }
    let tail = request.parameters("tailLines").first().and_then(|lines| lines.parse().ok()).unwrap_or(3);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
    connection.write_all(head.as_bytes()).await.ok()?;
    let lines = (1..=3).skip(3_usize.saturating_sub(tail));
    let followed = (4..=100).take_while(|_| request.has("follow"));
    for line in lines.chain(followed) {
        if line > 3 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let text = format!("line {line}\n");
        connection.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await.ok()?;
        connection.flush().await.ok()?;
    }
    connection.write_all(b"0\r\n\r\n").await.ok()?;
    connection.flush().await.ok()?;
    Some(connection)
}

/// Headers of a stream.
type Headers = BTreeMap<String, String>;

//! `keelson etcd`: answers as a healthy etcd, and names a folder of its data directory for the server.
//!
//! It has no state of its own, and ends at once when it is asked to: a server that uses the folder goes on.

use std::convert::Infallible;
use std::fs::DirBuilder;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::etcd_flags::{self, ShimOptions, Show};
use crate::probe::{self, StorageFolder};

/// How long a client may take to send the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// The pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why there is no shim.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The arguments cannot be used.
    #[error("{0}; see keelson etcd --help")]
    Usage(String),
    /// The data directory cannot be used.
    #[error("the data directory {} cannot be used: {cause}", .path.display())]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: String,
        /// What the system said.
        cause: io::Error,
    },
    /// The system lacks something else.
    #[error("the process cannot run: {0}")]
    System(#[from] io::Error),
}

/// Runs until a signal ends it, or returns a text for standard output. `arguments` are those of etcd.
pub fn run(arguments: &[String]) -> Result<String, Error> {
    let options = etcd_flags::parse(arguments).map_err(Error::Usage)?;
    match options.show {
        Show::Help => return Ok(etcd_flags::HELP.to_owned()),
        Show::Version => return Ok(format!("Keelson {} in place of etcd\n", env!("CARGO_PKG_VERSION"))),
        Show::Nothing => {}
    }
    let folder = Arc::new(prepare(&options)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(serve(&options, folder));
    runtime.shutdown_background();
    ended.map(|()| String::new())
}

/// Makes the data directory.
fn prepare(options: &ShimOptions) -> Result<StorageFolder, Error> {
    let unusable = |cause| Error::DataDir { path: options.data_dir.clone(), cause };
    let data_dir = std::path::absolute(&options.data_dir).map_err(unusable)?;
    if data_dir.to_str().is_none_or(|path| path.contains('\n')) {
        return Err(unusable(io::Error::new(
            io::ErrorKind::InvalidInput,
            "its path is not one line of text",
        )));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(&data_dir).map_err(unusable)?;
    Ok(probe::in_data_dir(&data_dir, options.is_synced))
}

async fn serve(options: &ShimOptions, folder: Arc<StorageFolder>) -> Result<(), Error> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut accepting = JoinSet::new();
    for address in &options.listen {
        let listen = |cause| Error::Listen { address: address.clone(), cause };
        let listener = TcpListener::bind(address.as_str()).await.map_err(listen)?;
        accepting.spawn(accept(listener, Arc::clone(&folder)));
    }
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        // They do not end by themselves.
        Some(Err(died)) = accepting.join_next() => return Err(io::Error::other(died).into()),
    }
    Ok(())
}

async fn accept(listener: TcpListener, folder: Arc<StorageFolder>) {
    loop {
        match listener.accept().await {
            Ok((connection, address)) => {
                tasks::once(answer_all(connection, address, Arc::clone(&folder)));
            }
            Err(error) => {
                log::warn!(error:%; "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn answer_all(connection: TcpStream, address: SocketAddr, folder: Arc<StorageFolder>) {
    let service = hyper::service::service_fn(move |request| {
        let response = answer(&request, &folder);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD);
    if let Err(error) = server.serve_connection(TokioIo::new(connection), service).await {
        log::debug!(error:%, address:%; "a connection ended with an error");
    }
}

fn answer<B>(request: &Request<B>, folder: &StorageFolder) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/health") => {
            (StatusCode::OK, "application/json", r#"{"health":"true","reason":""}"#.to_owned())
        }
        (&Method::GET, probe::PATH) => (StatusCode::OK, "text/plain; charset=utf-8", folder.to_text()),
        (_, "/health" | probe::PATH) => {
            (StatusCode::METHOD_NOT_ALLOWED, "text/plain; charset=utf-8", "Method Not Allowed\n".to_owned())
        }
        _ => (StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(method: Method, path: &str) -> u16 {
        let request = Request::builder().method(method).uri(path).body(()).unwrap();
        answer(&request, &StorageFolder { path: "/d".into(), is_synced: true }).status().as_u16()
    }

    #[test]
    fn only_health_and_the_folder_are_answered() {
        assert_eq!(status(Method::GET, "/health"), 200);
        assert_eq!(status(Method::GET, "/health?serializable=true"), 200);
        assert_eq!(status(Method::GET, probe::PATH), 200);
        assert_eq!(status(Method::POST, "/health"), 405);
        assert_eq!(status(Method::GET, "/"), 404);
        assert_eq!(status(Method::POST, "/v3/kv/range"), 404);
    }

    #[test]
    fn folder_is_private_and_in_the_data_directory() {
        use std::os::unix::fs::PermissionsExt as _;
        let outer = tempfile::tempdir().unwrap();
        let data_dir = outer.path().join("a/b");
        let options = etcd_flags::parse(&[format!("--data-dir={}", data_dir.display())]).unwrap();
        assert_eq!(prepare(&options).unwrap().path, data_dir.join("keelson"));
        assert_eq!(std::fs::metadata(&data_dir).unwrap().permissions().mode() & 0o777, 0o700);
        let line_break = etcd_flags::parse(&[format!("--data-dir={}\nx", data_dir.display())]).unwrap();
        assert!(prepare(&line_break).unwrap_err().to_string().contains("one line of text"));
    }

    #[tokio::test]
    async fn server_finds_the_folder_at_the_shim() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let folder = StorageFolder { path: "/d".into(), is_synced: false };
        tokio::spawn(accept(listener, Arc::new(folder.clone())));
        let found = tokio::task::spawn_blocking(move || crate::probe(&url)).await.unwrap();
        assert_eq!(found, Some(folder));
    }
}

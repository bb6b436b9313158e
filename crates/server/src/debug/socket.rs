//! The Unix socket of `--debug-socket-path`: profiles and the verbosity of the log, for whoever may open it.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::{DebugEndpoints, Endpoint, not_found, profile};
use crate::negotiate::ErrorFormat;
use crate::request::Peer;
use crate::{Request, Response};

/// The most connections at a time.
const MOST_CONNECTIONS: usize = 16;
/// The time for the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves at a socket. A file that is in its place is removed, as in the reference.
pub async fn serve(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
        match listener.accept().await {
            Ok((stream, _)) => {
                tasks::once(async move {
                    connection(stream).await;
                    drop(place);
                });
            }
            Err(error) => {
                log::warn!(error:%; "a connection to the debug socket was not accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn connection(stream: UnixStream) {
    let peer = Arc::new(Peer::plain(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)));
    let service = service_fn(move |request| {
        let request = Request::new(request, Arc::clone(&peer));
        async move { Ok::<_, Infallible>(answer(request).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        log::debug!(error:%; "a connection to the debug socket has failed");
    }
}

async fn answer(mut request: Request) -> Response {
    let endpoints = DebugEndpoints { profiling: true, ..DebugEndpoints::default() };
    let uri = request.uri().clone();
    match endpoints.find(uri.path()) {
        None => not_found(),
        Some(Endpoint::Profile("cmdline")) => profile::command_line(),
        Some(endpoint) => endpoints
            .answer(endpoint, &mut request)
            .await
            .unwrap_or_else(|error| error.into_response(ErrorFormat::JSON)),
    }
}

//! Serves one connection: TLS handshake, HTTP, and timeouts.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::{CONNECTION, DATE};
use hyper::body::Incoming;
use hyper::server::conn::{http1 as hyper1, http2 as hyper2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::at_end::Ending;
use crate::body::{self, AFTER_TOO_LARGE, StreamError};
use crate::connections::{Connections, Link};
use crate::families::TLS_ERRORS;
use crate::handler::Handler;
use crate::inject::Cut;
use crate::metered::Metered;
use crate::poll_when_woken::PollWhenWoken;
use crate::request::RequestContext;
use crate::sending::{StreamExecutor, Tracked};
use crate::takeover::{Takeover, TakeoverSlot};
use crate::tls::Acceptor;
use crate::unsent::Unsent;
use crate::{Error, Lifecycle, Limits, Peer, Phase, Request, RequestBody, date, http1};

/// How long a graceful shutdown of an idle connection may take.
const IDLE_SHUTDOWN: Duration = Duration::from_secs(5);

/// The state that all connections of a server share.
pub(crate) struct Shared<H> {
    pub(crate) handler: H,
    pub(crate) tls: Arc<Acceptor>,
    pub(crate) limits: Limits,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) unsent: Arc<Unsent>,
    pub(crate) connections: Arc<Connections>,
}

/// Serves a connection until it ends.
pub(crate) async fn serve<H: Handler>(
    shared: Arc<Shared<H>>,
    socket: TcpStream,
    address: SocketAddr,
    link: Arc<Link>,
) {
    if let Err(error) = prepare(&socket, &shared.limits) {
        log::debug!(peer:% = address, error:% = error; "a connection could not be set up");
        return;
    }
    let tls = shared.tls.config(socket.local_addr().ok().map(|local| local.ip()));
    let socket = Metered::new(socket, Arc::clone(&link));
    let handshake = timeout(shared.limits.handshake, TlsAcceptor::from(tls).accept(socket));
    let stream = tokio::select! {
        () = shared.lifecycle.reached(Phase::Draining) => return,
        outcome = handshake => match outcome {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                TLS_ERRORS.with([]).inc();
                log::debug!(peer:% = address, error:% = error; "a TLS handshake failed");
                return;
            }
            Err(_) => {
                TLS_ERRORS.with([]).inc();
                log::debug!(peer:% = address; "a TLS handshake took too long");
                return;
            }
        },
    };
    serve_http(&shared, stream, address, &link).await;
}

fn prepare(socket: &TcpStream, limits: &Limits) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = SockRef::from(socket);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(limits.keep_alive_probe))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(limits.unacknowledged))?;
    Ok(())
}

async fn serve_http<H: Handler>(
    shared: &Arc<Shared<H>>,
    stream: TlsStream<Metered>,
    address: SocketAddr,
    link: &Arc<Link>,
) {
    let (_, session) = stream.get_ref();
    let http2 = session.alpn_protocol() == Some(b"h2");
    let peer = Arc::new(Peer {
        certificates: session.peer_certificates().unwrap_or_default().to_vec(),
        tls: session.protocol_version(),
        unsent: Arc::clone(&shared.unsent),
        connections: Some(Arc::clone(&shared.connections)),
        ..Peer::plain(address)
    });
    link.connected(&peer);
    let slot = Arc::new(TakeoverSlot::default());
    let service = service_fn({
        let shared = Arc::clone(shared);
        let link = Arc::clone(link);
        let slot = Arc::clone(&slot);
        move |mut request: http::Request<Incoming>| {
            let upgrade = hyper::upgrade::on(&mut request);
            let slot = Arc::clone(&slot);
            let in_flight = link.begin();
            let request = Request::new(request, Arc::clone(&peer));
            let shared = Arc::clone(&shared);
            let link = Arc::clone(&link);
            async move {
                let RequestContext { received, error_format, .. } = &request.context;
                let (received, error_format) = (*received, *error_format);
                let outcome = match http1::check(&request.head) {
                    Err(error) => {
                        if let RequestBody::Incoming(body) = request.body {
                            body::discard_unwanted(body).await;
                        }
                        Err(Error::from(error))
                    }
                    Ok(()) => shared.handler.handle(request).await,
                };
                let mut response = outcome.unwrap_or_else(|error| error.into_response(error_format));
                if let Some(what) = response.extensions().get::<Cut>() {
                    if *what == Cut::Connection {
                        // Ends the task of the connection.
                        link.close();
                    }
                    return Err(CutShort);
                }
                response.headers_mut().entry(DATE).or_insert_with(date::now);
                if http2 && takes_leave(response.headers_mut()) {
                    link.retire();
                }
                if let Some(takeover) = response.extensions_mut().remove::<Takeover>() {
                    slot.put(upgrade, takeover, Ending::of(&mut response));
                }
                Ok(Tracked::new(response, in_flight, received, &shared.limits))
            }
        }
    });
    let io = TokioIo::new(stream);
    let limits = &shared.limits;
    let lifecycle = &shared.lifecycle;
    if http2 {
        drive(
            Box::new(http2_builder(limits).serve_connection(io, service)),
            link,
            limits,
            lifecycle,
            address,
        )
        .await;
    } else {
        drive(
            Box::new(http1_builder(limits).serve_connection(io, service).with_upgrades()),
            link,
            limits,
            lifecycle,
            address,
        )
        .await;
        if let Some(taken_over) = slot.run() {
            let _in_flight = link.begin_takeover();
            tokio::select! {
                () = lifecycle.reached(Phase::Draining) => {}
                () = taken_over => {}
            }
        }
    }
}

/// A request is left without an answer, because a fault asks for it: HTTP/2 resets its stream, HTTP/1.1 ends
/// its connection.
#[derive(Debug, thiserror::Error)]
#[error("the answer was lost on demand")]
struct CutShort;

/// Whether an HTTP/2 response asks for the end of its connection. HTTP/2 has no header for it.
fn takes_leave(headers: &mut HeaderMap) -> bool {
    let is_last = headers.get(CONNECTION).is_some_and(|value| value == "close");
    if is_last {
        headers.remove(CONNECTION);
    }
    is_last
}

fn http1_builder(limits: &Limits) -> hyper1::Builder {
    let mut builder = hyper1::Builder::new();
    builder
        // `timed_out` bounds the wait for a request; hyper's timer does not distinguish the first request
        // from a later one.
        .header_read_timeout(None)
        .auto_date_header(false)
        .max_headers(limits.header_lines)
        .max_header_size(limits.header_bytes as usize)
        .max_buf_size(limits.header_bytes as usize);
    builder
}

fn http2_builder(limits: &Limits) -> hyper2::Builder<StreamExecutor> {
    let mut builder = hyper2::Builder::new(StreamExecutor);
    builder
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(limits.header_bytes)
        .initial_stream_window_size(limits.stream_window)
        .initial_connection_window_size(limits.connection_window())
        .max_frame_size(limits.stream_window)
        .max_pending_accept_reset_streams(limits.pending_resets)
        .max_local_error_reset_streams(limits.fault_resets);
    builder
}

/// A connection of either version of HTTP.
trait HttpConnection: Future<Output = hyper::Result<()>> {
    /// Accepts no further requests, finishes those in flight, then ends.
    fn finish(self: Pin<&mut Self>);

    /// The TLS stream of an HTTP/1.1 connection that has ended.
    fn into_stream(self) -> Option<TlsStream<Metered>>;
}

impl<S> HttpConnection for hyper1::UpgradeableConnection<TokioIo<TlsStream<Metered>>, S>
where
    S: hyper::service::HttpService<Incoming, ResBody = Tracked>,
    S::Error: Into<StreamError>,
{
    fn finish(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }

    fn into_stream(self) -> Option<TlsStream<Metered>> {
        self.into_parts().map(|parts| parts.io.into_inner())
    }
}

impl<S> HttpConnection for hyper2::Connection<TokioIo<TlsStream<Metered>>, S, StreamExecutor>
where
    S: hyper::service::HttpService<Incoming, ResBody = Tracked>,
    S::Error: Into<StreamError>,
    StreamExecutor: hyper::rt::bounds::Http2ServerConnExec<S::Future, Tracked>,
{
    fn finish(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }

    fn into_stream(self) -> Option<TlsStream<Metered>> {
        None
    }
}

async fn drive<C: HttpConnection + Unpin>(
    mut connection: Box<C>,
    link: &Link,
    limits: &Limits,
    lifecycle: &Lifecycle,
    address: SocketAddr,
) {
    enum Event {
        Ended(hyper::Result<()>),
        Draining,
        Retired,
        Timeout(Timeout),
    }
    let event = {
        let mut rare = PollWhenWoken::new(async {
            tokio::select! {
                () = lifecycle.reached(Phase::Draining) => Event::Draining,
                () = link.retired() => Event::Retired,
                what = timed_out(link, limits) => Event::Timeout(what),
            }
        });
        tokio::select! {
            outcome = &mut connection => Event::Ended(outcome),
            event = &mut rare => event,
        }
    };
    let outcome = match event {
        Event::Ended(outcome) => outcome,
        // `Server::run` bounds this wait for all connections together.
        Event::Draining => {
            Pin::new(&mut *connection).finish();
            (&mut connection).await
        }
        // HTTP/2 sends GOAWAY: the peer opens another connection for its next requests.
        Event::Retired => {
            Pin::new(&mut *connection).finish();
            tokio::select! {
                outcome = &mut connection => outcome,
                _ = timed_out(link, limits) => return,
            }
        }
        Event::Timeout(Timeout::FirstRequest) => {
            log::debug!(peer:% = address; "a connection was closed: no request came in time");
            return;
        }
        Event::Timeout(Timeout::Idle) => {
            Pin::new(&mut *connection).finish();
            timeout(IDLE_SHUTDOWN, &mut connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = outcome {
        log::debug!(peer:% = address, error:% = error; "a connection ended in the middle");
        if error.is_parse()
            && let Some(stream) = connection.into_stream()
        {
            linger(stream).await;
        }
    }
}

/// Closes a stream whose peer may still be sending. If it were closed at once, the peer would lose the
/// response.
async fn linger(mut stream: TlsStream<Metered>) {
    let close = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(AFTER_TOO_LARGE.bytes as u64), &mut tokio::io::sink()).await
    };
    // The stream is closed in any case.
    let _ = timeout(AFTER_TOO_LARGE.time, close).await;
}

/// The timeout that a connection has exceeded.
enum Timeout {
    FirstRequest,
    Idle,
}

/// Returns when the connection exceeds a timeout. It checks the clock at intervals instead of being woken for
/// every request: a timeout may be late by the shorter of the limits, never early.
async fn timed_out(link: &Link, limits: &Limits) -> Timeout {
    let interval = limits.first_request.min(limits.idle);
    loop {
        let first = !link.any_request();
        let allowed = if first { limits.first_request } else { limits.idle };
        let deadline = link.idle_since().map(|since| since + allowed);
        let now = Instant::now();
        if deadline.is_some_and(|deadline| deadline <= now) {
            return if first { Timeout::FirstRequest } else { Timeout::Idle };
        }
        sleep_until(deadline.unwrap_or(now + interval).min(now + interval)).await;
    }
}

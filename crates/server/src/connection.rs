//! Serves one connection: TLS handshake, HTTP, and timeouts.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::body::{DISCARDED, StreamError};
use crate::handler::Handler;
use crate::poll_when_woken::PollWhenWoken;
use crate::{Body, Error, Lifecycle, Limits, Peer, Phase, Request};

/// How long a graceful shutdown of an idle connection may take.
const IDLE_SHUTDOWN: Duration = Duration::from_secs(5);

/// The state that all connections of a server share.
pub(crate) struct Shared<H> {
    pub(crate) handler: H,
    pub(crate) tls: Arc<ServerConfig>,
    pub(crate) limits: Limits,
    pub(crate) lifecycle: Lifecycle,
}

/// Serves a connection until it ends.
pub(crate) async fn serve<H: Handler>(shared: Arc<Shared<H>>, socket: TcpStream, address: SocketAddr) {
    if let Err(error) = prepare(&socket, &shared.limits) {
        log::debug!(peer:% = address, error:% = error; "a connection could not be set up");
        return;
    }
    let handshake =
        timeout(shared.limits.handshake, TlsAcceptor::from(Arc::clone(&shared.tls)).accept(socket));
    let stream = tokio::select! {
        () = shared.lifecycle.reached(Phase::Draining) => return,
        outcome = handshake => match outcome {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                log::debug!(peer:% = address, error:% = error; "a TLS handshake failed");
                return;
            }
            Err(_) => {
                log::debug!(peer:% = address; "a TLS handshake took too long");
                return;
            }
        },
    };
    serve_http(&shared, stream, address).await;
}

fn prepare(socket: &TcpStream, limits: &Limits) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = SockRef::from(socket);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(limits.keep_alive_probe))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(limits.unacknowledged))?;
    Ok(())
}

async fn serve_http<H: Handler>(shared: &Arc<Shared<H>>, stream: TlsStream<TcpStream>, address: SocketAddr) {
    let (_, session) = stream.get_ref();
    let http2 = session.alpn_protocol() == Some(b"h2");
    let peer = Arc::new(Peer {
        address,
        certificates: session.peer_certificates().unwrap_or_default().to_vec(),
        tls: session.protocol_version(),
        certified: std::sync::OnceLock::new(),
    });
    let activity = Arc::new(Activity::new());
    let service = service_fn({
        let shared = Arc::clone(shared);
        let activity = Arc::clone(&activity);
        move |request: http::Request<Incoming>| {
            let in_flight = Activity::begin(&activity);
            let request = Request::new(request, Arc::clone(&peer));
            let shared = Arc::clone(&shared);
            async move {
                let response = shared.handler.handle(request).await.unwrap_or_else(Error::into_response);
                Ok::<_, Infallible>(response.map(|body| Tracked { body, _in_flight: in_flight }))
            }
        }
    });
    let io = TokioIo::new(stream);
    let limits = &shared.limits;
    let lifecycle = &shared.lifecycle;
    if http2 {
        drive(
            Box::new(http2_builder(limits).serve_connection(io, service)),
            &activity,
            limits,
            lifecycle,
            address,
        )
        .await;
    } else {
        drive(
            Box::new(http1_builder(limits).serve_connection(io, service)),
            &activity,
            limits,
            lifecycle,
            address,
        )
        .await;
    }
}

fn http1_builder(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // `Activity` bounds the wait for a request; hyper's timer does not distinguish the first request from a later one.
        .header_read_timeout(None)
        .max_headers(limits.header_lines)
        .max_header_size(limits.header_bytes as usize)
        .max_buf_size(limits.header_bytes as usize);
    builder
}

fn http2_builder(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
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
    fn into_stream(self) -> Option<TlsStream<TcpStream>>;
}

impl<S> HttpConnection for http1::Connection<TokioIo<TlsStream<TcpStream>>, S>
where
    S: hyper::service::HttpService<Incoming, ResBody = Tracked>,
    S::Error: Into<StreamError>,
{
    fn finish(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }

    fn into_stream(self) -> Option<TlsStream<TcpStream>> {
        Some(self.into_parts().io.into_inner())
    }
}

impl<S> HttpConnection for http2::Connection<TokioIo<TlsStream<TcpStream>>, S, TokioExecutor>
where
    S: hyper::service::HttpService<Incoming, ResBody = Tracked>,
    S::Error: Into<StreamError>,
    TokioExecutor: hyper::rt::bounds::Http2ServerConnExec<S::Future, Tracked>,
{
    fn finish(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }

    fn into_stream(self) -> Option<TlsStream<TcpStream>> {
        None
    }
}

async fn drive<C: HttpConnection + Unpin>(
    mut connection: Box<C>,
    activity: &Activity,
    limits: &Limits,
    lifecycle: &Lifecycle,
    address: SocketAddr,
) {
    enum Event {
        Ended(hyper::Result<()>),
        Draining,
        Timeout(Timeout),
    }
    let event = {
        let mut rare = PollWhenWoken::new(async {
            tokio::select! {
                () = lifecycle.reached(Phase::Draining) => Event::Draining,
                what = activity.timed_out(limits) => Event::Timeout(what),
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

/// Closes a stream whose peer may still be sending. If it were closed at once, the peer would lose the response.
async fn linger(mut stream: TlsStream<TcpStream>) {
    let close = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(DISCARDED.bytes as u64), &mut tokio::io::sink()).await
    };
    // The stream is closed in any case.
    let _ = timeout(DISCARDED.time, close).await;
}

/// The timeout that a connection has exceeded.
enum Timeout {
    FirstRequest,
    Idle,
}

/// The number of requests in flight on a connection, and since when there are none.
struct Activity {
    start: Instant,
    in_flight: AtomicUsize,
    any_request: AtomicBool,
    /// Milliseconds after `start`.
    idle_since: AtomicU64,
}

impl Activity {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            in_flight: AtomicUsize::new(0),
            any_request: AtomicBool::new(false),
            idle_since: AtomicU64::new(0),
        }
    }

    fn begin(this: &Arc<Self>) -> InFlight {
        this.in_flight.fetch_add(1, Ordering::AcqRel);
        this.any_request.store(true, Ordering::Release);
        InFlight(Arc::clone(this))
    }

    /// Returns when the connection exceeds a timeout. It checks the clock at intervals instead of being woken for every request:
    /// a timeout may be late by the shorter of the limits, never early.
    async fn timed_out(&self, limits: &Limits) -> Timeout {
        let interval = limits.first_request.min(limits.idle);
        loop {
            let first = !self.any_request.load(Ordering::Acquire);
            let allowed = if first { limits.first_request } else { limits.idle };
            let idle = self.in_flight.load(Ordering::Acquire) == 0;
            let since = Duration::from_millis(self.idle_since.load(Ordering::Acquire));
            let deadline = self.start + since + allowed;
            let now = Instant::now();
            if idle && deadline <= now {
                return if first { Timeout::FirstRequest } else { Timeout::Idle };
            }
            sleep_until(if idle { deadline.min(now + interval) } else { now + interval }).await;
        }
    }
}

/// Counts a request as in flight until it is dropped.
struct InFlight(Arc<Activity>);

impl Drop for InFlight {
    fn drop(&mut self) {
        let now = self.0.start.elapsed().as_millis();
        self.0.idle_since.store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::Release);
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The body of a response. Its request is in flight until the body is sent or dropped.
pub(crate) struct Tracked {
    body: Body,
    _in_flight: InFlight,
}

impl http_body::Body for Tracked {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

//! One connection, from its first byte to its last: handshake, HTTP, and the times after which it has to go.

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
use crate::rare::Rare;
use crate::{Body, Error, Lifecycle, Limits, Peer, Phase, Request};

/// How long an idle connection that is told to end may take for it.
const FAREWELL: Duration = Duration::from_secs(5);

/// What all connections of a server have in common.
pub(crate) struct Shared<H> {
    pub(crate) handler: H,
    pub(crate) tls: Arc<ServerConfig>,
    pub(crate) limits: Limits,
    pub(crate) lifecycle: Lifecycle,
}

/// Serves a connection until it ends, for whatever reason.
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
    converse(&shared, stream, address).await;
}

fn prepare(socket: &TcpStream, limits: &Limits) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = SockRef::from(socket);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(limits.keep_alive_probe))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(limits.unacknowledged))?;
    Ok(())
}

async fn converse<H: Handler>(shared: &Arc<Shared<H>>, stream: TlsStream<TcpStream>, address: SocketAddr) {
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
            let under_way = Activity::begin(&activity);
            let request = Request::new(request, Arc::clone(&peer));
            let shared = Arc::clone(&shared);
            async move {
                let response = shared.handler.handle(request).await.unwrap_or_else(Error::into_response);
                Ok::<_, Infallible>(response.map(|body| Tracked { body, _under_way: under_way }))
            }
        }
    });
    let io = TokioIo::new(stream);
    let limits = &shared.limits;
    let lifecycle = &shared.lifecycle;
    if http2 {
        drive(
            Box::new(http2_settings(limits).serve_connection(io, service)),
            &activity,
            limits,
            lifecycle,
            address,
        )
        .await;
    } else {
        drive(
            Box::new(http1_settings(limits).serve_connection(io, service)),
            &activity,
            limits,
            lifecycle,
            address,
        )
        .await;
    }
}

fn http1_settings(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // `Activity` bounds the wait for a request; hyper's own timer cannot tell a first request from an idle time.
        .header_read_timeout(None)
        .max_headers(limits.header_lines)
        .max_header_size(limits.header_bytes as usize)
        .max_buf_size(limits.header_bytes as usize);
    builder
}

fn http2_settings(limits: &Limits) -> http2::Builder<TokioExecutor> {
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
trait Conversation: Future<Output = hyper::Result<()>> {
    /// Takes no further requests, finishes those under way, then ends.
    fn finish(self: Pin<&mut Self>);

    /// The stream under one that has ended, if there may be more to read from it.
    fn into_stream(self) -> Option<TlsStream<TcpStream>>;
}

impl<S> Conversation for http1::Connection<TokioIo<TlsStream<TcpStream>>, S>
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

impl<S> Conversation for http2::Connection<TokioIo<TlsStream<TcpStream>>, S, TokioExecutor>
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

async fn drive<C: Conversation + Unpin>(
    mut conversation: Box<C>,
    activity: &Activity,
    limits: &Limits,
    lifecycle: &Lifecycle,
    address: SocketAddr,
) {
    enum Event {
        Ended(hyper::Result<()>),
        Draining,
        Overdue(Overdue),
    }
    let event = {
        let mut rare = Rare::new(async {
            tokio::select! {
                () = lifecycle.reached(Phase::Draining) => Event::Draining,
                what = activity.overdue(limits) => Event::Overdue(what),
            }
        });
        tokio::select! {
            outcome = &mut conversation => Event::Ended(outcome),
            event = &mut rare => event,
        }
    };
    let outcome = match event {
        Event::Ended(outcome) => outcome,
        // The server bounds this wait for all connections together.
        Event::Draining => {
            Pin::new(&mut *conversation).finish();
            (&mut conversation).await
        }
        Event::Overdue(Overdue::FirstRequest) => {
            log::debug!(peer:% = address; "a connection was closed: no request came in time");
            return;
        }
        Event::Overdue(Overdue::Idle) => {
            Pin::new(&mut *conversation).finish();
            timeout(FAREWELL, &mut conversation).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = outcome {
        log::debug!(peer:% = address, error:% = error; "a connection ended in the middle");
        if error.is_parse()
            && let Some(stream) = conversation.into_stream()
        {
            linger(stream).await;
        }
    }
}

/// Ends a stream whose peer may still be sending: closed at once, the peer would lose the answer that it has been sent.
async fn linger(mut stream: TlsStream<TcpStream>) {
    let last_words = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(DISCARDED.bytes as u64), &mut tokio::io::sink()).await
    };
    // Whatever comes of it, the stream is closed.
    let _ = timeout(DISCARDED.time, last_words).await;
}

/// What a connection has waited too long for.
enum Overdue {
    FirstRequest,
    Idle,
}

/// Whether requests are under way on a connection, and since when not.
struct Activity {
    start: Instant,
    under_way: AtomicUsize,
    any_request: AtomicBool,
    /// Milliseconds after `start`.
    idle_since: AtomicU64,
}

impl Activity {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            under_way: AtomicUsize::new(0),
            any_request: AtomicBool::new(false),
            idle_since: AtomicU64::new(0),
        }
    }

    fn begin(this: &Arc<Self>) -> UnderWay {
        this.under_way.fetch_add(1, Ordering::AcqRel);
        this.any_request.store(true, Ordering::Release);
        UnderWay(Arc::clone(this))
    }

    /// Returns when the connection has waited too long. Looks at the clock now and then instead of being told of every
    /// request: a time-out may come late by the shortest of the limits, never early.
    async fn overdue(&self, limits: &Limits) -> Overdue {
        let glance = limits.first_request.min(limits.idle);
        loop {
            let first = !self.any_request.load(Ordering::Acquire);
            let allowed = if first { limits.first_request } else { limits.idle };
            let idle = self.under_way.load(Ordering::Acquire) == 0;
            let since = Duration::from_millis(self.idle_since.load(Ordering::Acquire));
            let deadline = self.start + since + allowed;
            let now = Instant::now();
            if idle && deadline <= now {
                return if first { Overdue::FirstRequest } else { Overdue::Idle };
            }
            sleep_until(if idle { deadline.min(now + glance) } else { now + glance }).await;
        }
    }
}

/// One request under way, until this is dropped.
struct UnderWay(Arc<Activity>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let now = self.0.start.elapsed().as_millis();
        self.0.idle_since.store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::Release);
        self.0.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A response's body that counts as under way until it has been sent, or given up.
pub(crate) struct Tracked {
    body: Body,
    _under_way: UnderWay,
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

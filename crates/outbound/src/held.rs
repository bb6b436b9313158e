//! Connections that hold something for as long as they are open, such as a place among all connections of the
//! process.

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::io::{Error, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// What a connection holds. It is dropped when the connection is closed.
pub type Guard = Box<dyn Any + Send + Sync>;

/// How long a connection may take to say its end to a server that reads nothing.
const CLOSING: Duration = Duration::from_secs(5);

tokio::task_local! {
    /// For the connection that the current request opens, if it does not use an open one.
    static GUARD: Cell<Option<Guard>>;
}

/// Runs a request whose connection holds something. If it uses an open connection, the guard is dropped at
/// its end.
pub(crate) async fn with_guard<F: Future>(guard: Option<Guard>, request: F) -> F::Output {
    GUARD.scope(Cell::new(guard), request).await
}

/// What the connection that is now opened holds.
pub(crate) fn take_guard() -> Option<Guard> {
    GUARD.try_with(Cell::take).ok().flatten()
}

type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// An open connection.
pub(crate) struct Held {
    stream: Stream,
    _guard: Option<Guard>,
    closing: Option<Pin<Box<Sleep>>>,
}

impl Held {
    pub(crate) fn new(stream: Stream, guard: Option<Guard>) -> Self {
        Self { stream, _guard: guard, closing: None }
    }
}

impl Connection for Held {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

impl Read for Held {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl Write for Held {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, Error>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<Result<usize, Error>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Ends in time, so that a server that reads nothing does not hold the connection.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if let Poll::Ready(outcome) = Pin::new(&mut self.stream).poll_shutdown(cx) {
            return Poll::Ready(outcome);
        }
        let closing = self.closing.get_or_insert_with(|| Box::pin(sleep(CLOSING)));
        closing.as_mut().poll(cx).map(Ok)
    }
}

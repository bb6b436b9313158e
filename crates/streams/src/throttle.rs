//! A connection with a limit of bytes per second, of its own for each direction.

use std::io;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// At most this part of the bytes of a second is passed on at once.
const PARTS: u64 = 10;

/// A connection whose two directions pass on at most so many bytes per second; without a limit, as many as
/// there are.
#[derive(Debug)]
pub struct Throttled<T> {
    inner: T,
    reading: Option<Pace>,
    writing: Option<Pace>,
}

impl<T> Throttled<T> {
    /// Limits `inner` to so many bytes per second in each direction.
    pub fn new(inner: T, bytes_per_second: Option<NonZeroU64>) -> Self {
        let pace = || bytes_per_second.map(Pace::new);
        Self { inner, reading: pace(), writing: pace() }
    }
}

/// The pace of one direction.
#[derive(Debug)]
struct Pace {
    rate: NonZeroU64,
    /// When the bytes so far would have passed at the exact rate.
    paid: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl Pace {
    fn new(rate: NonZeroU64) -> Self {
        let paid = Instant::now();
        Self { rate, paid, sleep: Box::pin(sleep_until(paid)) }
    }

    /// How many bytes may pass, as soon as some may.
    fn poll_allowed(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        if self.paid > Instant::now() {
            ready!(self.sleep.as_mut().poll(cx));
        }
        Poll::Ready(usize::try_from((self.rate.get() / PARTS).max(1)).unwrap_or(usize::MAX))
    }

    fn passed(&mut self, bytes: usize) {
        let cost = Duration::from_secs_f64(bytes as f64 / self.rate.get() as f64);
        self.paid = self.paid.max(Instant::now()) + cost;
        self.sleep.as_mut().reset(self.paid);
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Throttled<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { inner, reading, .. } = self.get_mut();
        let Some(pace) = reading else { return Pin::new(inner).poll_read(cx, buffer) };
        let allowed = ready!(pace.poll_allowed(cx)).min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(allowed));
        ready!(Pin::new(inner).poll_read(cx, &mut part))?;
        let read = part.filled().len();
        buffer.advance(read);
        pace.passed(read);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Throttled<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let Self { inner, writing, .. } = self.get_mut();
        let Some(pace) = writing else { return Pin::new(inner).poll_write(cx, data) };
        let allowed = ready!(pace.poll_allowed(cx));
        let part = data.get(..allowed).unwrap_or(data);
        let written = ready!(Pin::new(inner).poll_write(cx, part))?;
        pace.passed(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    async fn time_of(bytes_per_second: Option<NonZeroU64>) -> [Duration; 2] {
        let (mut peer, inner) = duplex(1 << 20);
        let mut throttled = Throttled::new(inner, bytes_per_second);
        let begin = Instant::now();
        throttled.write_all(&[1; 5000]).await.unwrap();
        let written = begin.elapsed();
        peer.write_all(&[2; 5000]).await.unwrap();
        let begin = Instant::now();
        throttled.read_exact(&mut [0; 5000]).await.unwrap();
        [written, begin.elapsed()]
    }

    #[tokio::test(start_paused = true)]
    async fn each_direction_has_its_bytes_per_second() {
        for time in time_of(NonZeroU64::new(1000)).await {
            assert!((4800..5200).contains(&time.as_millis()), "{time:?}");
        }
        assert_eq!(time_of(None).await, [Duration::ZERO; 2]);
    }
}

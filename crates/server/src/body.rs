//! The bodies of responses, and reading the bodies of requests within bounds.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame, SizeHint};

use crate::RequestBody;

/// The body of a response.
#[derive(Default)]
pub enum Body {
    /// No body.
    #[default]
    Empty,
    /// In memory, for this response alone.
    Whole(Bytes),
    /// In memory that is shared with the cache or with other responses. Small parts may be the body's own.
    Shared(Box<[Bytes; 2]>),
    /// Encoded while it is sent. An error ends the response in the middle, so that the client notices that it
    /// is incomplete.
    Stream(Pin<Box<dyn http_body::Body<Data = Bytes, Error = StreamError> + Send>>),
}

/// Why a streamed body could not be finished.
pub type StreamError = Box<dyn std::error::Error + Send + Sync>;

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::Whole(bytes) => write!(f, "Whole({} bytes)", bytes.len()),
            Self::Shared(parts) => write!(f, "Shared({} bytes)", parts.iter().map(Bytes::len).sum::<usize>()),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl Body {
    /// A body of shared bytes.
    pub(crate) fn shared(bytes: Bytes) -> Self {
        Self::Shared(Box::new([bytes, Bytes::new()]))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::Whole(text.into())
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Self::Whole(Bytes::from_static(text.as_bytes()))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        let this = self.get_mut();
        match this {
            Self::Empty => Poll::Ready(None),
            Self::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *this = Self::Empty;
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Self::Shared(parts) => {
                let next = parts.iter_mut().find(|part| !part.is_empty()).map(std::mem::take);
                Poll::Ready(next.map(|part| Ok(Frame::data(part))))
            }
            Self::Stream(stream) => stream.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Shared(parts) => parts.iter().all(Bytes::is_empty),
            Self::Stream(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Shared(parts) => SizeHint::with_exact(parts.iter().map(|part| part.len() as u64).sum()),
            Self::Stream(stream) => stream.size_hint(),
        }
    }
}

/// The bounds on reading a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The largest size in bytes.
    pub bytes: usize,
    /// The longest time from the start of reading to the last byte.
    pub time: Duration,
}

impl Limit {
    /// For an object of the API: 3 MiB, as the reference has it, within a minute.
    pub const OBJECT: Self = Self { bytes: 3 << 20, time: Duration::from_secs(60) };
}

/// Why a request's body could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The body is longer than the limit.
    #[error("limit is {limit}")]
    TooLarge {
        /// The largest size in bytes.
        limit: usize,
    },
    /// The body did not arrive in time.
    #[error("the request body did not arrive within {} s", .limit.as_secs_f32())]
    TooSlow {
        /// The longest time.
        limit: Duration,
    },
    /// The connection broke, or its data was not HTTP.
    #[error("the request body could not be read: {0}")]
    Broken(#[from] hyper::Error),
}

/// The bounds on reading the rest of a refused body, which is discarded: otherwise a client that is still
/// sending would not receive the response.
pub(crate) const AFTER_TOO_LARGE: Limit = Limit { bytes: 8 << 20, time: Duration::from_secs(2) };

/// Reads a request's body to its end, holding no more than `limit` allows at any time.
pub async fn read(body: &mut RequestBody, limit: Limit) -> Result<Bytes, Error> {
    let outcome = if body.size_hint().lower() > limit.bytes as u64 {
        Err(Error::TooLarge { limit: limit.bytes })
    } else {
        tokio::time::timeout(limit.time, collect(body, limit.bytes))
            .await
            .unwrap_or(Err(Error::TooSlow { limit: limit.time }))
    };
    if let Err(Error::TooLarge { .. }) = outcome {
        // The response is the same if this fails.
        let _ = tokio::time::timeout(AFTER_TOO_LARGE.time, discard(body, AFTER_TOO_LARGE.bytes)).await;
    }
    outcome
}

/// The bounds on reading a body that no handler has read, before the response, as in the reference: otherwise
/// a client that is still sending would not receive the response, and the connection could not be reused.
const UNREAD: Limit = Limit { bytes: 256 << 10, time: Duration::from_secs(1) };

/// Reads a body that no handler has read, within bounds.
pub(crate) async fn discard_unwanted(body: hyper::body::Incoming) {
    let mut body = RequestBody::Incoming(body);
    if !body.is_end_stream() {
        // The response is the same if this fails.
        let _ = tokio::time::timeout(UNREAD.time, discard(&mut body, UNREAD.bytes)).await;
    }
}

/// Reads up to `most` bytes, and keeps none of them.
async fn discard(body: &mut RequestBody, most: usize) -> Result<(), hyper::Error> {
    let mut read = 0;
    while read < most
        && let Some(data) = next_data(body).await?
    {
        read += data.len();
    }
    Ok(())
}

async fn collect(body: &mut RequestBody, limit: usize) -> Result<Bytes, Error> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(data) = next_data(body).await? {
        if first.len() + rest.len() + data.len() > limit {
            return Err(Error::TooLarge { limit });
        }
        if first.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&data);
        }
    }
    if rest.is_empty() {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(first.len() + rest.len());
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&rest);
    Ok(whole.freeze())
}

/// The next piece of data, past trailers.
async fn next_data(body: &mut RequestBody) -> Result<Option<Bytes>, hyper::Error> {
    loop {
        match std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await.transpose()? {
            None => return Ok(None),
            Some(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &'static str) -> RequestBody {
        RequestBody::Whole(Some(Bytes::from_static(text.as_bytes())))
    }

    fn limit(bytes: usize) -> Limit {
        Limit { bytes, ..Limit::OBJECT }
    }

    #[tokio::test]
    async fn body_of_exactly_the_limit_is_read() {
        assert_eq!(read(&mut whole("abc"), limit(3)).await.unwrap(), "abc");
    }

    #[tokio::test]
    async fn body_above_the_limit_is_refused() {
        let error = read(&mut whole("abcd"), limit(3)).await.unwrap_err();
        assert_eq!(error.to_string(), "limit is 3");
    }

    #[tokio::test]
    async fn absent_body_is_empty() {
        assert_eq!(read(&mut RequestBody::Whole(None), limit(0)).await.unwrap(), "");
    }
}

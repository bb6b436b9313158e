//! The protocols of streaming connections, without the API: what is sent over a connection after an HTTP
//! upgrade.
//!
//! 1. **Back-pressure.** Data is read from one side only when the other side has taken what came before; what
//!    is held of a connection is a few pieces of [`PIECE`] bytes for each direction, whatever the sizes of
//!    frames.
//! 2. **Bounds.** A peer that breaks a protocol, or sends a control frame that is too long, ends its
//!    connection.
//! 3. **Control frames do not wait for data.** A ping is answered as soon as the frame that is being written
//!    is written; if the peer reads nothing, its pings are not kept.
//!
//! [`websocket`] and [`spdy`] have the frames. [`copy::both`] connects two byte streams, [`tunnel`] a
//! WebSocket and a byte stream, [`remote_command`] the channels of a WebSocket and the streams of a SPDY
//! connection. [`paper`] plays commands for containers that do not exist.

#![deny(clippy::indexing_slicing)]

pub mod copy;
mod outbox;
pub mod paper;
pub mod remote_command;
pub mod spdy;
mod throttle;
pub mod tunnel;
pub mod websocket;

pub use throttle::Throttled;

/// The most bytes of data that are read, and handed on, at once.
pub const PIECE: usize = 32 << 10;

/// How long closing a connection may take: a peer that does not read would delay it without end.
const CLOSING: std::time::Duration = std::time::Duration::from_secs(10);

/// Why a stream ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A connection broke.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A peer broke the protocol.
    #[error("{0}")]
    Protocol(&'static str),
}

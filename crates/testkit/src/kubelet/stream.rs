//! A stream of a connection, in either protocol: what the client sends on it, and a part that sends.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWriteExt as _, WriteHalf};
use tokio::sync::{Mutex, mpsc};

use super::{Headers, spdy, websocket};

/// The part of a connection that writes, which its streams share.
pub(super) type Writer = Arc<Mutex<WriteHalf<super::Connection>>>;

/// The most bytes of a frame.
const PART: usize = 16 << 10;

/// A stream.
pub(super) struct Stream {
    /// Its headers.
    pub(super) headers: Headers,
    /// What the client sends, until it ends it.
    pub(super) data: mpsc::UnboundedReceiver<Vec<u8>>,
    pub(super) to: Sender,
}

impl Stream {
    /// A part that sends on the stream.
    pub(super) fn sender(&self) -> Sender {
        self.to.clone()
    }
}

/// Sends on a stream.
#[derive(Clone)]
pub(super) struct Sender {
    pub(super) writer: Writer,
    pub(super) name: Name,
}

/// How frames name a stream.
#[derive(Clone, Copy)]
pub(super) enum Name {
    /// By its number in SPDY.
    Spdy(u32),
    /// By its channel in a WebSocket.
    Channel(u8),
}

impl Sender {
    /// Sends data.
    pub(super) async fn send(&self, data: &[u8]) -> io::Result<()> {
        for part in data.chunks(PART) {
            let frame = match self.name {
                Name::Spdy(number) => spdy::data_frame(number, 0, part),
                Name::Channel(channel) => websocket::message(channel, part),
            };
            write(&self.writer, &frame).await?;
        }
        Ok(())
    }

    /// Ends the stream. A channel ends with its connection.
    pub(super) async fn end(&self) -> io::Result<()> {
        match self.name {
            Name::Spdy(number) => write(&self.writer, &spdy::data_frame(number, 1, &[])).await,
            Name::Channel(_) => Ok(()),
        }
    }
}

/// Writes a frame.
pub(super) async fn write(writer: &Writer, bytes: &[u8]) -> io::Result<()> {
    let mut writer = writer.lock().await;
    writer.write_all(bytes).await?;
    writer.flush().await
}

/// Ends a connection.
pub(super) struct Closer {
    pub(super) writer: Writer,
    /// The frame that says so.
    pub(super) farewell: Vec<u8>,
}

impl Closer {
    pub(super) async fn close(&self) {
        let _ = write(&self.writer, &self.farewell).await;
        let _ = self.writer.lock().await.shutdown().await;
    }
}

//! A WebSocket whose messages start with the number of a channel (`v4.channel.k8s.io`), the side of the
//! server.

use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, ReadHalf, split};
use tokio::sync::{Mutex, mpsc};

use super::Headers;
use super::stream::{Closer, Name, Sender, Stream, Writer, write};
use crate::websocket::{BINARY, CLOSE, PING, PONG, frame};

/// The protocol.
pub(super) const PROTOCOL: &str = "v4.channel.k8s.io";

/// The value of `Sec-WebSocket-Accept` for a key.
pub(super) fn accept(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
}

/// The frame of a message on a channel.
pub(super) fn message(channel: u8, data: &[u8]) -> Vec<u8> {
    let mut payload = vec![channel];
    payload.extend_from_slice(data);
    frame(BINARY, &payload, None)
}

/// A connection with channels.
pub(super) struct Connection {
    reader: ReadHalf<super::Connection>,
    writer: Writer,
    channels: HashMap<u8, mpsc::UnboundedSender<Vec<u8>>>,
}

impl Connection {
    pub(super) fn new(connection: super::Connection) -> Self {
        let (reader, writer) = split(connection);
        Self { reader, writer: Arc::new(Mutex::new(writer)), channels: HashMap::new() }
    }

    /// The part that ends the connection.
    pub(super) fn closer(&self) -> Closer {
        Closer { writer: self.writer.clone(), farewell: frame(CLOSE, &1000_u16.to_be_bytes(), None) }
    }

    /// A channel.
    pub(super) fn open(&mut self, channel: u8, headers: Headers) -> Stream {
        let (sender, data) = mpsc::unbounded_channel();
        self.channels.insert(channel, sender);
        let to = Sender { writer: self.writer.clone(), name: Name::Channel(channel) };
        Stream { headers, data, to }
    }

    /// Sends an empty message, by which a client knows that the connection is there.
    pub(super) async fn greet(&self, channel: u8) {
        let _ = write(&self.writer, &message(channel, &[])).await;
    }

    /// Reads to the end of the connection; what the client sends goes to the channels.
    pub(super) async fn run(mut self) -> Option<()> {
        loop {
            let first = self.reader.read_u8().await.ok()?;
            let second = self.reader.read_u8().await.ok()?;
            let length = match second & 0x7f {
                126 => u64::from(self.reader.read_u16().await.ok()?),
                127 => self.reader.read_u64().await.ok()?,
                short => u64::from(short),
            };
            // Frames of a client are masked.
            let mut mask = [0; 4];
            if second & 0x80 == 0 {
                return None;
            }
            self.reader.read_exact(&mut mask).await.ok()?;
            let mut payload = vec![0; usize::try_from(length).ok()?];
            self.reader.read_exact(&mut payload).await.ok()?;
            payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
            match first & 0x0f {
                CLOSE => return Some(()),
                PING => write(&self.writer, &frame(PONG, &payload, None)).await.ok()?,
                BINARY => {
                    let (channel, data) = payload.split_first()?;
                    if let Some(channel) = self.channels.get(channel).filter(|_| !data.is_empty()) {
                        // The command may have ended.
                        let _ = channel.send(data.to_vec());
                    }
                }
                _ => {}
            }
        }
    }
}

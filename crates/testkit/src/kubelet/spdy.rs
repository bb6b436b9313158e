//! SPDY/3.1, the side of the server.

use std::collections::HashMap;
use std::sync::Arc;

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};
use tokio::io::{AsyncReadExt as _, ReadHalf, split};
use tokio::sync::{Mutex, mpsc};

use super::Headers;
use super::stream::{Closer, Name, Sender, Stream, Writer, write};

/// The words that headers are compressed with, one after another, as SPDY/3 has them.
const DICTIONARY: &[u8] = include_bytes!("spdy.dictionary");

const WINDOW: usize = 32 << 10;

/// The frame of data on a stream.
pub(super) fn data_frame(number: u32, flags: u8, data: &[u8]) -> Vec<u8> {
    let mut frame = number.to_be_bytes().to_vec();
    let length = u32::try_from(data.len()).unwrap_or_default();
    frame.extend((u32::from(flags) << 24 | length).to_be_bytes());
    frame.extend_from_slice(data);
    frame
}

/// A connection with streams.
pub(super) struct Connection {
    reader: ReadHalf<super::Connection>,
    writer: Writer,
    streams: HashMap<u32, mpsc::UnboundedSender<Vec<u8>>>,
    headers: Inflate,
    replies: u32,
}

impl Connection {
    pub(super) fn new(connection: super::Connection) -> Self {
        let (reader, writer) = split(connection);
        let writer = Arc::new(Mutex::new(writer));
        Self { reader, writer, streams: HashMap::new(), headers: Inflate::new(), replies: 0 }
    }

    /// The part that ends the connection.
    pub(super) fn closer(&self) -> Closer {
        Closer { writer: self.writer.clone(), farewell: Vec::new() }
    }

    /// Reads until a stream is opened; none at the end of the connection.
    pub(super) async fn next(&mut self) -> Option<Stream> {
        loop {
            let mut head = [0; 8];
            self.reader.read_exact(&mut head).await.ok()?;
            let [a, b, c, d, flags, l1, l2, l3] = head;
            let length = u32::from_be_bytes([0, l1, l2, l3]);
            let mut payload = vec![0; usize::try_from(length).ok()?];
            self.reader.read_exact(&mut payload).await.ok()?;
            if a & 0x80 == 0 {
                let number = u32::from_be_bytes([a, b, c, d]);
                if let Some(stream) = self.streams.get(&number).filter(|_| !payload.is_empty()) {
                    // The command may have ended.
                    let _ = stream.send(payload);
                }
                if flags & 1 != 0 {
                    self.streams.remove(&number);
                }
                continue;
            }
            match u16::from_be_bytes([c, d]) {
                1 => return self.opened(&payload).await,
                6 => {
                    let mut pong = head.to_vec();
                    pong.extend(payload);
                    write(&self.writer, &pong).await.ok()?;
                }
                _ => {}
            }
        }
    }

    async fn opened(&mut self, payload: &[u8]) -> Option<Stream> {
        let number = u32::from_be_bytes(*payload.first_chunk()?);
        let headers = parse(&self.headers.push(payload.get(10..)?)?)?;
        let (sender, data) = mpsc::unbounded_channel();
        self.streams.insert(number, sender);
        // No headers: a compressed stream of the number zero, stored as it is.
        let mut reply = number.to_be_bytes().to_vec();
        if self.replies == 0 {
            reply.extend([0x78, 0x01]);
        }
        reply.extend([0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
        self.replies += 1;
        let mut frame = vec![0x80, 3, 0, 2];
        frame.extend(u32::try_from(reply.len()).ok()?.to_be_bytes());
        frame.extend(reply);
        write(&self.writer, &frame).await.ok()?;
        let to = Sender { writer: self.writer.clone(), name: Name::Spdy(number) };
        Some(Stream { headers, data, to })
    }
}

fn parse(block: &[u8]) -> Option<Headers> {
    let mut rest = block;
    let count = word(&mut rest)?;
    (0..count).map(|_| Some((text(&mut rest)?, text(&mut rest)?))).collect()
}

fn word(rest: &mut &[u8]) -> Option<usize> {
    let (number, after) = rest.split_first_chunk()?;
    *rest = after;
    usize::try_from(u32::from_be_bytes(*number)).ok()
}

fn text(rest: &mut &[u8]) -> Option<String> {
    let length = word(rest)?;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// Inflates the headers of a connection, which are one compressed stream.
struct Inflate {
    state: Box<DecompressorOxide>,
    window: Vec<u8>,
    at: usize,
    /// Whether the header of the compressed stream was read.
    begun: bool,
}

impl Inflate {
    fn new() -> Self {
        Self { state: Box::default(), window: vec![0; WINDOW], at: 0, begun: false }
    }

    fn push(&mut self, mut input: &[u8]) -> Option<Vec<u8>> {
        if !std::mem::replace(&mut self.begun, true) {
            let (header, rest) = input.split_at_checked(2)?;
            input = rest;
            if header.get(1)? & 0x20 != 0 {
                // The checksum of the dictionary.
                input = input.get(4..)?;
                self.window.get_mut(..DICTIONARY.len())?.copy_from_slice(DICTIONARY);
                self.at = DICTIONARY.len();
            }
        }
        let mut out = Vec::new();
        loop {
            let (status, read, written) =
                decompress(&mut self.state, input, &mut self.window, self.at, TINFL_FLAG_HAS_MORE_INPUT);
            input = input.get(read..)?;
            out.extend_from_slice(self.window.get(self.at..self.at + written)?);
            self.at = (self.at + written) % WINDOW;
            match status {
                TINFLStatus::HasMoreOutput => {}
                TINFLStatus::NeedsMoreInput if input.is_empty() => return Some(out),
                _ => return None,
            }
        }
    }
}

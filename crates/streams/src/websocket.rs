//! WebSocket (RFC 6455), the side of the server: the handshake, and frames.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderMap, HeaderValue};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::{Error, PIECE};

const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Whether a request asks for an upgrade of its connection.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.any(|value| value.to_ascii_lowercase().contains("upgrade"))
}

/// Whether a request asks for a WebSocket.
pub fn is_request(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    upgrade.eq_ignore_ascii_case("websocket") && is_upgrade(headers)
}

/// The protocols that a client offers, in its order.
pub fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|protocol| !protocol.is_empty())
}

/// The value of `Sec-WebSocket-Accept` in the answer to a request; `None` if it is not a proper one.
pub fn accept(headers: &HeaderMap) -> Option<HeaderValue> {
    if headers.get(SEC_WEBSOCKET_VERSION)?.as_bytes() != b"13" {
        return None;
    }
    let key = headers.get(SEC_WEBSOCKET_KEY)?.to_str().ok()?;
    if STANDARD.decode(key).ok()?.len() != 16 {
        return None;
    }
    answer_to(key)
}

/// The value of `Sec-WebSocket-Accept` for a key.
pub fn answer_to(key: &str) -> Option<HeaderValue> {
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes());
    HeaderValue::try_from(STANDARD.encode(hash)).ok()
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// A message of text.
    Text = 1,
    /// A message of bytes.
    Binary = 2,
    /// The end of the connection.
    Close = 8,
    /// A ping.
    Ping = 9,
    /// The answer to a ping.
    Pong = 10,
}

/// The frame of a server with a whole message, whose payload is in parts.
pub fn frame(opcode: Opcode, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut frame = Vec::with_capacity(length + 10);
    frame.push(0x80 | opcode as u8);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ ..=125), _) => frame.push(short),
        (_, Ok(length)) => {
            frame.push(126);
            frame.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    frame
}

/// The frame that ends a connection as it should end.
pub fn normal_close() -> Vec<u8> {
    frame(Opcode::Close, &[&1000_u16.to_be_bytes()])
}

/// A part of what a client sends.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// A part of a message.
    Data {
        /// Whether the message is bytes, not text.
        is_binary: bool,
        /// Whether it is the beginning of the message.
        starts: bool,
        /// At most [`PIECE`] bytes, which may be none.
        data: Vec<u8>,
    },
    /// A ping, to be answered with the same bytes.
    Ping(Vec<u8>),
    /// The answer to a ping.
    Pong,
    /// The end of the connection.
    Close,
}

/// Reads the frames of a client.
#[derive(Debug)]
pub struct Reader<R> {
    io: R,
    /// The rest of the data frame that is being read.
    rest: u64,
    mask: [u8; 4],
    /// The index in the mask for the next byte.
    at: usize,
    is_binary: bool,
    /// Whether no part of the message was handed on.
    starts: bool,
    /// Whether the message has further frames.
    continues: bool,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// A reader at the beginning of a connection.
    pub fn new(io: R) -> Self {
        Self { io, rest: 0, mask: [0; 4], at: 0, is_binary: true, starts: true, continues: false }
    }

    /// The next part; `None` at the end of the connection.
    pub async fn next(&mut self) -> Result<Option<Piece>, Error> {
        if self.rest > 0 {
            return self.data().await.map(Some);
        }
        let Some((first, second)) = self.head().await? else { return Ok(None) };
        if first & 0x70 != 0 {
            return Err(Error::Protocol("a frame has reserved bits"));
        }
        if second & 0x80 == 0 {
            return Err(Error::Protocol("a frame of a client is not masked"));
        }
        let (is_last, opcode) = (first & 0x80 != 0, first & 0x0f);
        let length = match second & 0x7f {
            126 => u64::from(self.io.read_u16().await?),
            127 => self.io.read_u64().await?,
            short => u64::from(short),
        };
        if opcode >= 8 {
            return self.control(opcode, is_last, length).await.map(Some);
        }
        match (opcode, self.continues) {
            (0, true) => {}
            (1 | 2, false) => {
                self.is_binary = opcode == 2;
                self.starts = true;
            }
            _ => return Err(Error::Protocol("a frame is not of the message before, nor of a new one")),
        }
        self.continues = !is_last;
        self.io.read_exact(&mut self.mask).await?;
        self.at = 0;
        self.rest = length;
        self.data().await.map(Some)
    }

    /// The first two bytes of a frame; `None` if the connection ends before them.
    async fn head(&mut self) -> Result<Option<(u8, u8)>, Error> {
        let mut first = [0];
        if self.io.read(&mut first).await? == 0 {
            return Ok(None);
        }
        let [first] = first;
        Ok(Some((first, self.io.read_u8().await?)))
    }

    async fn data(&mut self) -> Result<Piece, Error> {
        let most = usize::try_from(self.rest).map_or(PIECE, |rest| rest.min(PIECE));
        let mut data = vec![0; most];
        let read = if most == 0 { 0 } else { self.io.read(&mut data).await? };
        if read == 0 && most > 0 {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        data.truncate(read);
        self.at = unmask(&mut data, self.mask, self.at);
        self.rest -= read as u64;
        let starts = std::mem::replace(&mut self.starts, false);
        Ok(Piece::Data { is_binary: self.is_binary, starts, data })
    }

    async fn control(&mut self, opcode: u8, is_last: bool, length: u64) -> Result<Piece, Error> {
        let length = usize::try_from(length).ok().filter(|length| *length <= 125 && is_last);
        let length = length.ok_or(Error::Protocol("a control frame is too long"))?;
        let mut mask = [0; 4];
        self.io.read_exact(&mut mask).await?;
        let mut data = vec![0; length];
        self.io.read_exact(&mut data).await?;
        unmask(&mut data, mask, 0);
        match opcode {
            8 => Ok(Piece::Close),
            9 => Ok(Piece::Ping(data)),
            10 => Ok(Piece::Pong),
            _ => Err(Error::Protocol("a frame is of an unknown sort")),
        }
    }
}

/// Removes the mask from data that begins at a place of it; returns the place after it.
fn unmask(data: &mut [u8], mask: [u8; 4], at: usize) -> usize {
    data.iter_mut().zip(mask.iter().cycle().skip(at)).for_each(|(byte, mask)| *byte ^= mask);
    (at + data.len()) % 4
}

#[cfg(test)]
mod tests;

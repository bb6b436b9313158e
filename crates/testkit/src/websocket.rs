//! A WebSocket client: for the channels of remote commands and forwarded ports, whose messages start with the
//! number of their channel, and for watches.

use std::time::Duration;

use crate::http::{Connection, Error, Target};

const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

/// The mask of this client: any will do.
const MASK: [u8; 4] = [0x5a, 0x13, 0xc7, 0x88];

/// A frame with a whole message. Clients mask theirs.
pub(crate) fn frame(opcode: u8, payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
    let masked = if mask.is_some() { 0x80 } else { 0 };
    let mut frame = vec![0x80 | opcode];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(short @ ..=125), _) => frame.push(masked | short),
        (_, Ok(length)) => {
            frame.push(masked | 126);
            frame.extend(length.to_be_bytes());
        }
        _ => {
            frame.push(masked | 127);
            frame.extend((payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend(mask.into_iter().flatten());
    let mask = mask.unwrap_or_default();
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its channel.
    pub channel: u8,
    /// What follows.
    pub data: Vec<u8>,
}

/// What a server sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message of text.
    Text(String),
    /// A message of bytes.
    Binary(Vec<u8>),
    /// The answer to a ping.
    Pong(Vec<u8>),
    /// The server closes the WebSocket, with this code.
    Close(u16),
}

/// An open WebSocket.
#[derive(Debug)]
pub struct WebSocket {
    connection: Connection,
    unread: Vec<u8>,
    /// The protocol that the server chose.
    pub protocol: String,
}

impl WebSocket {
    /// Opens one at a path of a server, with a token and a protocol. Everything on it may take `patience`.
    pub fn open(
        target: &Target,
        path: &str,
        token: &str,
        protocol: &str,
        patience: Duration,
    ) -> Result<Self, Error> {
        let headers = format!("Authorization: Bearer {token}\r\nSec-WebSocket-Protocol: {protocol}\r\n");
        Self::open_with(target, path, &headers, patience)
    }

    /// Opens one with further headers, each of which ends its line.
    pub fn open_with(target: &Target, path: &str, headers: &str, patience: Duration) -> Result<Self, Error> {
        let mut connection = target.connect(patience)?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n",
            target.authority()
        );
        connection.send(request.as_bytes())?;
        let mut head = connection.head("GET")?;
        // The example of RFC 6455.
        let accepted = head.header("sec-websocket-accept") == Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        if head.status != 101 || !accepted {
            let status = head.status;
            let body = connection.body(&mut head)?;
            let why = format!("no WebSocket, but {status}: {}", String::from_utf8_lossy(&body));
            return Err(Error::Malformed(why));
        }
        let protocol = head.header("sec-websocket-protocol").unwrap_or_default().to_owned();
        Ok(Self { connection, unread: Vec::new(), protocol })
    }

    /// Sends a message.
    pub fn send(&mut self, channel: u8, data: &[u8]) -> Result<(), Error> {
        let mut payload = vec![channel];
        payload.extend_from_slice(data);
        self.connection.send(&frame(BINARY, &payload, Some(MASK)))
    }

    /// The next message; none at the end of the connection.
    pub fn message(&mut self) -> Result<Option<Message>, Error> {
        loop {
            let Some((opcode, payload)) = self.frame()? else { return Ok(None) };
            match (opcode, payload.split_first()) {
                (PING, _) => self.connection.send(&frame(PONG, &payload, Some(MASK)))?,
                (CLOSE, _) => return Ok(None),
                (BINARY, Some((&channel, data))) => {
                    return Ok(Some(Message { channel, data: data.to_vec() }));
                }
                _ => {}
            }
        }
    }

    /// Sends a ping.
    pub fn ping(&mut self, data: &[u8]) -> Result<(), Error> {
        self.connection.send(&frame(PING, data, Some(MASK)))
    }

    /// Closes it.
    pub fn close(&mut self) -> Result<(), Error> {
        self.connection.send(&frame(CLOSE, &1000u16.to_be_bytes(), Some(MASK)))
    }

    /// Whatever comes next; none at the end of the connection.
    pub fn receive(&mut self) -> Result<Option<Received>, Error> {
        loop {
            let Some((opcode, payload)) = self.frame()? else { return Ok(None) };
            let received = match opcode {
                TEXT => Received::Text(String::from_utf8_lossy(&payload).into_owned()),
                BINARY => Received::Binary(payload),
                PONG => Received::Pong(payload),
                CLOSE => {
                    let code = payload.first_chunk().copied().map_or(0, u16::from_be_bytes);
                    Received::Close(code)
                }
                _ => continue,
            };
            return Ok(Some(received));
        }
    }

    /// Everything up to the end of the connection, by channel: the first five.
    pub fn rest(&mut self) -> Result<[Vec<u8>; 5], Error> {
        let mut rest: [Vec<u8>; 5] = Default::default();
        while let Some(Message { channel, data }) = self.message()? {
            if let Some(of) = rest.get_mut(usize::from(channel)) {
                of.extend(data);
            }
        }
        Ok(rest)
    }

    fn frame(&mut self) -> Result<Option<(u8, Vec<u8>)>, Error> {
        loop {
            if let Some((opcode, start, end)) = measure(&self.unread)
                && self.unread.len() >= end
            {
                let after = self.unread.split_off(end);
                let frame = std::mem::replace(&mut self.unread, after);
                return Ok(Some((opcode, frame.get(start..).unwrap_or_default().to_vec())));
            }
            match self.connection.receive()? {
                Some(bytes) => self.unread.extend(bytes),
                None => return Ok(None),
            }
        }
    }
}

/// The opcode of the first frame, and where its payload starts and ends; frames of servers are not masked.
fn measure(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let (first, second) = (*bytes.first()?, *bytes.get(1)?);
    let rest = bytes.get(2..)?;
    let (length, start) = match second & 0x7f {
        126 => (u64::from(u16::from_be_bytes(*rest.first_chunk()?)), 4),
        127 => (u64::from_be_bytes(*rest.first_chunk()?), 10),
        short => (u64::from(short), 2),
    };
    Some((first & 0x0f, start, start + usize::try_from(length).ok()?))
}

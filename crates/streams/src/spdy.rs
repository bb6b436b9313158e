//! SPDY/3.1, the side of the client, as far as remote commands need it: streams with data in both directions,
//! pings.
//!
//! Blocks of headers are compressed, with one state for all of a direction. Those that are sent are written
//! as blocks of stored bytes, which every reader of the format takes; those that are received are answers
//! without headers, and are skipped. There is no flow control: the servers of this protocol do without, so
//! what holds a sender back is its connection.

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::{Error, PIECE};

/// The name of the protocol in `Upgrade`.
pub const PROTOCOL: &str = "SPDY/3.1";

const VERSION: u16 = 3;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;

/// Set in the flags of a frame that is the last one of its sender on its stream.
const FIN: u8 = 1;

/// The most bytes of a control frame.
const MOST_CONTROL: u32 = 64 << 10;

/// The frames that open streams. A stream is known by an odd number.
#[derive(Debug, Default)]
pub struct Opener {
    opened: u32,
}

impl Opener {
    /// Opens a stream with headers; returns its number and the frame to send.
    pub fn open(&mut self, headers: &[(&str, &str)]) -> (u32, Vec<u8>) {
        let stream = self.opened * 2 + 1;
        let mut payload = Vec::new();
        payload.extend_from_slice(&stream.to_be_bytes());
        // No associated stream, the highest priority, no slot.
        payload.extend_from_slice(&[0; 6]);
        if self.opened == 0 {
            payload.extend_from_slice(&ZLIB_HEADER);
        }
        stored(&mut payload, &header_block(headers));
        self.opened += 1;
        (stream, control(SYN_STREAM, 0, &payload))
    }
}

/// A window of 32 KiB, no dictionary, the fastest compression.
const ZLIB_HEADER: [u8; 2] = [0x78, 0x01];

fn header_block(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    let number = |block: &mut Vec<u8>, number: usize| {
        block.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes());
    };
    number(&mut block, headers.len());
    for (name, value) in headers {
        for text in [name, value] {
            number(&mut block, text.len());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// Adds bytes to a compressed stream as they are, and flushes it: a reader can read all of them before more
/// comes.
fn stored(out: &mut Vec<u8>, bytes: &[u8]) {
    let blocks = bytes.chunks(usize::from(u16::MAX)).chain([&[][..]]);
    for block in blocks {
        let length = u16::try_from(block.len()).unwrap_or_default();
        out.push(0);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
}

fn control(kind: u16, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or_default() & 0x00ff_ffff;
    let mut frame = Vec::with_capacity(payload.len() + 8);
    frame.extend_from_slice(&(0x8000 | VERSION).to_be_bytes());
    frame.extend_from_slice(&kind.to_be_bytes());
    frame.extend_from_slice(&(u32::from(flags) << 24 | length).to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A frame with data for a stream: at most [`PIECE`] bytes.
pub fn data(stream: u32, bytes: &[u8]) -> Vec<u8> {
    data_frame(stream, 0, bytes)
}

/// The frame that ends a stream.
pub fn end(stream: u32) -> Vec<u8> {
    data_frame(stream, FIN, &[])
}

fn data_frame(stream: u32, flags: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or_default() & 0x00ff_ffff;
    let mut frame = Vec::with_capacity(bytes.len() + 8);
    frame.extend_from_slice(&(stream & 0x7fff_ffff).to_be_bytes());
    frame.extend_from_slice(&(u32::from(flags) << 24 | length).to_be_bytes());
    frame.extend_from_slice(bytes);
    frame
}

/// A ping, or the answer to one.
pub fn ping(number: u32) -> Vec<u8> {
    control(PING, 0, &number.to_be_bytes())
}

/// A part of what the server sends.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// Data of a stream.
    Data {
        /// The stream.
        stream: u32,
        /// At most [`PIECE`] bytes.
        data: Vec<u8>,
    },
    /// The end of what the server sends on a stream.
    End {
        /// The stream.
        stream: u32,
    },
    /// A ping, or the answer to one: those of a client have odd numbers.
    Ping(u32),
    /// A frame that remote commands do not use.
    Other,
}

/// Reads the frames of a server.
#[derive(Debug)]
pub struct Reader<R> {
    io: R,
    stream: u32,
    /// The rest of the data frame that is being read.
    rest: u32,
    /// Whether it is the last one of its stream.
    is_last: bool,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// A reader at the beginning of a connection.
    pub fn new(io: R) -> Self {
        Self { io, stream: 0, rest: 0, is_last: false }
    }

    /// The next part; `None` at the end of the connection.
    pub async fn next(&mut self) -> Result<Option<Piece>, Error> {
        loop {
            if self.rest > 0 {
                return self.data().await.map(Some);
            }
            if std::mem::replace(&mut self.is_last, false) {
                return Ok(Some(Piece::End { stream: self.stream }));
            }
            let Some(first) = self.first().await? else { return Ok(None) };
            let second = self.io.read_u32().await?;
            let (is_last, length) = (second >> 24 & u32::from(FIN) != 0, second & 0x00ff_ffff);
            if first & 0x8000_0000 != 0 {
                return self.control(first, is_last, length).await.map(Some);
            }
            (self.stream, self.rest, self.is_last) = (first, length, is_last);
        }
    }

    /// The first word of a frame; `None` if the connection ends before it.
    async fn first(&mut self) -> Result<Option<u32>, Error> {
        let mut first = [0; 1];
        if self.io.read(&mut first).await? == 0 {
            return Ok(None);
        }
        let mut rest = [0; 3];
        self.io.read_exact(&mut rest).await?;
        let ([a], [b, c, d]) = (first, rest);
        Ok(Some(u32::from_be_bytes([a, b, c, d])))
    }

    async fn data(&mut self) -> Result<Piece, Error> {
        let most = usize::try_from(self.rest).map_or(PIECE, |rest| rest.min(PIECE));
        let mut data = vec![0; most];
        let read = self.io.read(&mut data).await?;
        if read == 0 {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        data.truncate(read);
        self.rest -= u32::try_from(read).unwrap_or(self.rest);
        Ok(Piece::Data { stream: self.stream, data })
    }

    async fn control(&mut self, first: u32, is_last: bool, length: u32) -> Result<Piece, Error> {
        let (version, kind) = (first >> 16 & 0x7fff, first & 0xffff);
        if version != u32::from(VERSION) {
            return Err(Error::Protocol("a frame is of another version of SPDY"));
        }
        if length > MOST_CONTROL {
            return Err(Error::Protocol("a control frame is too long"));
        }
        let mut payload = vec![0; usize::try_from(length).unwrap_or_default()];
        self.io.read_exact(&mut payload).await?;
        let word = || match payload.first_chunk() {
            Some(word) => Ok(u32::from_be_bytes(*word)),
            None => Err(Error::Protocol("a control frame is too short")),
        };
        match u16::try_from(kind).unwrap_or_default() {
            SYN_REPLY if is_last => Ok(Piece::End { stream: word()? & 0x7fff_ffff }),
            RST_STREAM => Ok(Piece::End { stream: word()? & 0x7fff_ffff }),
            PING => Ok(Piece::Ping(word()?)),
            SYN_REPLY | GO_AWAY => Ok(Piece::Other),
            SYN_STREAM => Err(Error::Protocol("a server opened a stream")),
            _ => Ok(Piece::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8]) -> Result<Vec<Piece>, Error> {
        let mut reader = Reader::new(bytes);
        let mut pieces = Vec::new();
        while let Some(piece) = reader.next().await? {
            pieces.push(piece);
        }
        Ok(pieces)
    }

    #[test]
    fn streams_have_odd_numbers_and_one_compressed_stream_of_headers() {
        let mut opener = Opener::default();
        let (number, first) = opener.open(&[("streamtype", "error")]);
        let block = b"\0\0\0\x01\0\0\0\x0astreamtype\0\0\0\x05error";
        let mut wanted = b"\x80\x03\0\x01\0\0\0\x33\0\0\0\x01\0\0\0\0\0\0\x78\x01\0\x1b\0\xe4\xff".to_vec();
        wanted.extend_from_slice(block);
        wanted.extend_from_slice(b"\0\0\0\xff\xff");
        wanted[7] = (wanted.len() - 8) as u8;
        assert_eq!((number, first), (1, wanted));
        let (number, second) = opener.open(&[]);
        let wanted = b"\x80\x03\0\x01\0\0\0\x18\0\0\0\x03\0\0\0\0\0\0\0\x04\0\xfb\xff\0\0\0\0\0\0\0\xff\xff";
        assert_eq!((number, second), (3, wanted.to_vec()));
    }

    #[tokio::test]
    async fn data_comes_in_pieces_and_ends() {
        let mut sent = data(5, b"out");
        sent.extend(data_frame(7, FIN, &[1; PIECE + 1]));
        sent.extend(end(5));
        sent.extend(ping(2));
        sent.extend(control(SYN_REPLY, 0, &[0, 0, 0, 1, 9, 9]));
        sent.extend(control(SYN_REPLY, FIN, &[0, 0, 0, 1]));
        sent.extend(control(RST_STREAM, 0, &[0, 0, 0, 9, 0, 0, 0, 1]));
        sent.extend(control(4, 0, &[0; 4]));
        let wanted = [
            Piece::Data { stream: 5, data: b"out".to_vec() },
            Piece::Data { stream: 7, data: vec![1; PIECE] },
            Piece::Data { stream: 7, data: vec![1] },
            Piece::End { stream: 7 },
            Piece::End { stream: 5 },
            Piece::Ping(2),
            Piece::Other,
            Piece::End { stream: 1 },
            Piece::End { stream: 9 },
            Piece::Other,
        ];
        assert_eq!(read(&sent).await.unwrap(), wanted);
    }

    #[tokio::test]
    async fn frames_that_break_the_protocol_end_the_connection() {
        let other_version = b"\x80\x02\0\x06\0\0\0\x04\0\0\0\x01";
        let too_long = b"\x80\x03\0\x06\0\x02\0\0";
        for (sent, why) in [
            (other_version.to_vec(), "version"),
            (too_long.to_vec(), "too long"),
            (control(PING, 0, &[0]), "too short"),
            (control(SYN_STREAM, 0, &[0; 10]), "opened a stream"),
            (data(1, b"abc")[..10].to_vec(), "end of file"),
            (vec![0x80], "eof"),
        ] {
            let error = read(&sent).await.unwrap_err().to_string();
            assert!(error.contains(why), "{error}: {why}");
        }
    }
}

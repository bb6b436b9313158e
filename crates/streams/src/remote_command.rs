//! The channels of a WebSocket (`v5.channel.k8s.io`), translated to the streams of a SPDY connection to the
//! server that runs the command.
//!
//! A message of the client begins with the number of its channel; a message of two bytes, 255 and a number,
//! ends a channel. The session ends when the output has ended and the server has said on the error stream how
//! the command ended, or when the client is gone.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::outbox::{self, Outbox};
use crate::websocket::{self, Opcode, frame};
use crate::{CLOSING, Error, PIECE, spdy};

/// The protocol of the WebSocket.
pub const PROTOCOL: &str = "v5.channel.k8s.io";

/// The protocols of the SPDY connection, the best first.
pub const BACKEND_PROTOCOLS: [&str; 5] =
    [PROTOCOL, "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];

pub(crate) const STDIN: u8 = 0;
pub(crate) const STDOUT: u8 = 1;
pub(crate) const STDERR: u8 = 2;
pub(crate) const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// The first byte of a message that closes the channel in its second byte.
pub(crate) const CLOSE: u8 = 255;

/// The most bytes of the error stream of a server.
const MOST_ERROR: usize = 1 << 20;

/// How often the server is pinged.
const PING_EVERY: Duration = Duration::from_secs(5);

/// Which streams a command has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// Input.
    pub stdin: bool,
    /// Output.
    pub stdout: bool,
    /// Output of errors; none if there is a terminal.
    pub stderr: bool,
    /// A terminal, whose size can change.
    pub tty: bool,
}

impl Streams {
    /// The message that says to the client that the connection is there: an empty one of the first channel
    /// with output.
    pub(crate) fn greeting(self) -> Vec<u8> {
        let channel = match self {
            Self { stdout: true, .. } => STDOUT,
            Self { stderr: true, .. } => STDERR,
            _ => ERROR,
        };
        frame(Opcode::Binary, &[&[channel]])
    }
}

/// The numbers of the SPDY streams.
#[derive(Debug, Default)]
struct Opened {
    error: Option<u32>,
    stdin: Option<u32>,
    stdout: Option<u32>,
    stderr: Option<u32>,
    resize: Option<u32>,
}

impl Opened {
    /// Opens the streams; returns the frames to send.
    fn open(streams: Streams, has_resize: bool) -> (Self, Vec<u8>) {
        let mut opener = spdy::Opener::default();
        let mut frames = Vec::new();
        let mut open = |wanted: bool, kind: &str| {
            wanted.then(|| {
                let (number, frame) = opener.open(&[("streamtype", kind)]);
                frames.extend(frame);
                number
            })
        };
        let opened = Self {
            error: open(true, "error"),
            stdin: open(streams.stdin, "stdin"),
            stdout: open(streams.stdout, "stdout"),
            stderr: open(streams.stderr && !streams.tty, "stderr"),
            resize: open(streams.tty && has_resize, "resize"),
        };
        (opened, frames)
    }

    fn has_ended(&self) -> bool {
        self.error.is_none() && self.stdout.is_none() && self.stderr.is_none()
    }
}

/// A client that was accepted, and whose command has not begun.
pub struct Session<C> {
    client: C,
    streams: Streams,
    /// The data that the client sent before the command began.
    early: Vec<u8>,
}

impl<C: AsyncRead + AsyncWrite + Unpin> Session<C> {
    /// A session with a client that was just accepted.
    pub fn new(client: C, streams: Streams) -> Self {
        Self { client, streams, early: Vec::new() }
    }

    /// Waits for the connection to the server while the client is connected; `None` if the client has left.
    /// Data that the client sends meanwhile is kept, up to a piece; past that the client is not read.
    pub async fn while_opening<T>(&mut self, opening: impl Future<Output = T>) -> Option<T> {
        let mut opening = pin!(opening);
        let mut read = [0; 1 << 10];
        loop {
            tokio::select! {
                biased;
                opened = &mut opening => return Some(opened),
                outcome = self.client.read(&mut read), if self.early.len() < PIECE => match outcome {
                    Ok(count @ 1..) => self.early.extend_from_slice(read.get(..count).unwrap_or_default()),
                    Ok(0) | Err(_) => return None,
                },
            }
        }
    }

    /// Ends the session before it began, with a status for the client.
    pub async fn refuse(self, status: &[u8]) -> Result<(), Error> {
        let (_, mut to_client) = split(self.client);
        let frames =
            [self.streams.greeting(), frame(Opcode::Binary, &[&[ERROR], status]), websocket::normal_close()];
        let close = async {
            to_client.write_all(&frames.concat()).await?;
            to_client.shutdown().await
        };
        match timeout(CLOSING, close).await {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Ok(()),
        }
    }

    /// Carries the session to its end. `protocol` is the one that the server chose, empty if it did not;
    /// `status` makes the final status for the client from the error stream of the server.
    pub async fn run<B: AsyncRead + AsyncWrite>(
        self,
        backend: B,
        protocol: &str,
        status: impl FnOnce(&[u8]) -> Vec<u8>,
    ) -> Result<(), Error> {
        let (from_client, mut to_client) = split(self.client);
        let from_client = self.early.as_slice().chain(from_client);
        let (from_backend, mut to_backend) = split(backend);
        let (opened, frames) = Opened::open(self.streams, protocol != "v2.channel.k8s.io");
        let (stdin, resize) = (opened.stdin, opened.resize);
        to_client.write_all(&self.streams.greeting()).await?;
        to_client.flush().await?;
        // Before any data of the client, which needs an open stream.
        to_backend.write_all(&frames).await?;
        to_backend.flush().await?;
        let outcome = {
            let (client, client_writer) = outbox::channel();
            let (server, server_writer) = outbox::channel();
            let outcome = async {
                let said = from_server(from_backend, &client, &server, opened).await?;
                client.written().await?;
                let last = async {
                    client.send(frame(Opcode::Binary, &[&[ERROR], &status(&said)])).await?;
                    client.written().await
                };
                timeout(CLOSING, last).await.unwrap_or(Ok(()))
            };
            tokio::select! {
                outcome = outcome => outcome,
                outcome = from_caller(from_client, &client, &server, stdin, resize) => outcome,
                outcome = client_writer.write_to(&mut to_client) => outcome,
                never = server_writer.write_until_broken(&mut to_backend) => match never {},
                () = pings(&server) => Ok(()),
            }
        };
        let close = async {
            to_client.write_all(&websocket::normal_close()).await?;
            to_client.shutdown().await
        };
        let close = async { tokio::join!(close, to_backend.shutdown()) };
        // Both are closed in any case.
        let _ = timeout(CLOSING, close).await;
        outcome
    }
}

/// Copies the output until it ends; returns the content of the error stream.
async fn from_server(
    from: impl AsyncRead + Unpin,
    client: &Outbox,
    server: &Outbox,
    mut opened: Opened,
) -> Result<Vec<u8>, Error> {
    let mut reader = spdy::Reader::new(from);
    let mut said = Vec::new();
    while !opened.has_ended() {
        let piece = match reader.next().await {
            Ok(Some(piece)) => piece,
            Ok(None) | Err(Error::Io(_)) => break,
            Err(error) => return Err(error),
        };
        match piece {
            spdy::Piece::Data { stream, data } if opened.stdout == Some(stream) => {
                client.send(frame(Opcode::Binary, &[&[STDOUT], &data])).await?;
            }
            spdy::Piece::Data { stream, data } if opened.stderr == Some(stream) => {
                client.send(frame(Opcode::Binary, &[&[STDERR], &data])).await?;
            }
            spdy::Piece::Data { stream, data } if opened.error == Some(stream) => {
                if said.len() + data.len() > MOST_ERROR {
                    return Err(Error::Protocol("the error stream is too long"));
                }
                said.extend(data);
            }
            spdy::Piece::Data { .. } => {}
            spdy::Piece::End { stream } => {
                if opened.stdin == Some(stream) {
                    server.send_control(&spdy::end(stream));
                }
                let Opened { error, stdin, stdout, stderr, resize } = &mut opened;
                for own in [error, stdin, stdout, stderr, resize] {
                    own.take_if(|own| *own == stream);
                }
            }
            spdy::Piece::Ping(number) if number % 2 == 0 => server.send_control(&spdy::ping(number)),
            spdy::Piece::Ping(_) | spdy::Piece::Other => {}
        }
    }
    Ok(said)
}

/// Copies the input until the client leaves.
async fn from_caller(
    from: impl AsyncRead + Unpin,
    client: &Outbox,
    server: &Outbox,
    mut stdin: Option<u32>,
    resize: Option<u32>,
) -> Result<(), Error> {
    let mut reader = websocket::Reader::new(from);
    let mut channel = None;
    while let Some(piece) = reader.next().await? {
        let (starts, data) = match piece {
            websocket::Piece::Data { starts, data, .. } => (starts, data),
            websocket::Piece::Ping(data) => {
                client.send_control(&frame(Opcode::Pong, &[&data]));
                continue;
            }
            websocket::Piece::Pong => continue,
            websocket::Piece::Close => break,
        };
        if starts {
            channel = None;
        }
        let data = match (channel, data.split_first()) {
            (None, Some((number, rest))) => {
                channel = Some(*number);
                rest
            }
            _ => data.as_slice(),
        };
        let stream = match channel {
            None => None,
            Some(CLOSE) => {
                match data {
                    [] => {}
                    [STDIN] => {
                        if let Some(stream) = stdin.take() {
                            server.offer(spdy::end(stream)).await;
                        }
                    }
                    [..=RESIZE] => {}
                    _ => return Err(Error::Protocol("the end of a channel that does not exist")),
                }
                continue;
            }
            Some(STDIN) => stdin,
            Some(RESIZE) => resize,
            Some(_) => None,
        };
        if let Some(stream) = stream.filter(|_| !data.is_empty()) {
            server.offer(spdy::data(stream, data)).await;
        }
    }
    Ok(())
}

async fn pings(server: &Outbox) {
    let mut ticks = interval(PING_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut number = 1_u32;
    loop {
        ticks.tick().await;
        server.send_control(&spdy::ping(number));
        number = number.wrapping_add(2);
    }
}

#[cfg(test)]
mod tests;

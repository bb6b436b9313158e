//! A command in a container that exists on paper: nothing runs, so the session says what was asked for, gives
//! the input back as output, and ends with success.
//!
//! The client speaks the channels of a WebSocket (`v5.channel.k8s.io`, `v4.channel.k8s.io`), as with
//! [`remote_command`](crate::remote_command). The input ends with the channel (only `v5` can say so), with
//! Ctrl-C or Ctrl-D on a terminal, or with the client.

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, split};
use tokio::time::timeout;

use crate::remote_command::{CLOSE, ERROR, STDERR, STDIN, STDOUT, Streams};
use crate::websocket::{self, Opcode, Piece, frame};
use crate::{CLOSING, Error};

/// The protocols, the best first.
pub const PROTOCOLS: [&str; 2] = [crate::remote_command::PROTOCOL, "v4.channel.k8s.io"];

/// What a terminal sends for Ctrl-C and Ctrl-D.
const ENDS_OF_INPUT: [u8; 2] = [3, 4];

/// Plays the command for a client that was just accepted. `said` is the first line of its output, `status`
/// what it ends with.
pub async fn run<C>(client: C, streams: Streams, said: &str, status: &[u8]) -> Result<(), Error>
where
    C: AsyncRead + AsyncWrite,
{
    let (from, mut to) = split(client);
    to.write_all(&streams.greeting()).await?;
    let output = match streams {
        Streams { stdout: true, .. } => Some(STDOUT),
        Streams { stderr: true, tty: false, .. } => Some(STDERR),
        _ => None,
    };
    if let Some(channel) = output {
        // A terminal has to be told to go back to the start of the line.
        let end: &[u8] = if streams.tty { b"\r\n" } else { b"\n" };
        to.write_all(&frame(Opcode::Binary, &[&[channel], said.as_bytes(), end])).await?;
    }
    to.flush().await?;
    if streams.stdin && !give_back(from, &mut to, streams).await? {
        return Ok(());
    }
    let close = async {
        let last = [frame(Opcode::Binary, &[&[ERROR], status]), websocket::normal_close()];
        to.write_all(&last.concat()).await?;
        to.shutdown().await
    };
    match timeout(CLOSING, close).await {
        Ok(outcome) => Ok(outcome?),
        Err(_) => Ok(()),
    }
}

/// Gives the input back until it ends; false if the client has left. One piece is written before the next is
/// read.
async fn give_back(
    from: impl AsyncRead + Unpin,
    to: &mut (impl AsyncWrite + Unpin),
    streams: Streams,
) -> Result<bool, Error> {
    let mut reader = websocket::Reader::new(from);
    let mut channel = None;
    loop {
        let (starts, data) = match reader.next().await? {
            Some(Piece::Data { starts, data, .. }) => (starts, data),
            Some(Piece::Ping(data)) => {
                to.write_all(&frame(Opcode::Pong, &[&data])).await?;
                to.flush().await?;
                continue;
            }
            Some(Piece::Pong) => continue,
            Some(Piece::Close) | None => return Ok(false),
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
        match channel {
            Some(CLOSE) if data == [STDIN] => return Ok(true),
            Some(STDIN) => {
                let end = data.iter().position(|byte| streams.tty && ENDS_OF_INPUT.contains(byte));
                let text = data.get(..end.unwrap_or(data.len())).unwrap_or_default();
                if streams.stdout && !text.is_empty() {
                    to.write_all(&frame(Opcode::Binary, &[&[STDOUT], text])).await?;
                    to.flush().await?;
                }
                if end.is_some() {
                    return Ok(true);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, duplex};

    /// A message of a client, not really masked.
    fn message(payload: &[u8]) -> Vec<u8> {
        let mut message = vec![0x82, 0x80 | payload.len() as u8, 0, 0, 0, 0];
        message.extend_from_slice(payload);
        message
    }

    /// All messages for a client that sends these; the last one is the close.
    async fn heard(streams: Streams, messages: &[&[u8]]) -> Vec<Vec<u8>> {
        let (mut client, inner) = duplex(1 << 16);
        let running = tokio::spawn(run(inner, streams, "said", b"done"));
        for payload in messages {
            client.write_all(&message(payload)).await.unwrap();
        }
        let mut heard = Vec::new();
        while let Ok(first) = client.read_u8().await {
            let length = client.read_u8().await.unwrap();
            let mut payload = vec![0; length.into()];
            client.read_exact(&mut payload).await.unwrap();
            heard.push(if first == 0x82 { payload } else { vec![first] });
        }
        running.await.unwrap().unwrap();
        heard
    }

    const OUTPUT: Streams = Streams { stdin: false, stdout: true, stderr: true, tty: false };

    #[tokio::test]
    async fn a_command_says_what_was_asked_and_succeeds() {
        let expected: [&[u8]; 4] = [&[1], b"\x01said\n", b"\x03done", &[0x88]];
        assert_eq!(heard(OUTPUT, &[]).await, expected);
        let errors = Streams { stdout: false, ..OUTPUT };
        let expected: [&[u8]; 4] = [&[2], b"\x02said\n", b"\x03done", &[0x88]];
        assert_eq!(heard(errors, &[]).await, expected);
    }

    #[tokio::test]
    async fn input_comes_back_until_it_ends() {
        let streams = Streams { stdin: true, ..OUTPUT };
        let sent: [&[u8]; 3] = [b"\x00one\n", b"\x00two\x04", b"\xff\x00"];
        let expected: [&[u8]; 6] = [&[1], b"\x01said\n", b"\x01one\n", b"\x01two\x04", b"\x03done", &[0x88]];
        assert_eq!(heard(streams, &sent).await, expected);
        let terminal = Streams { tty: true, ..streams };
        let sent: [&[u8]; 2] = [b"\x04{\"Width\":80}", b"\x00two\x04three"];
        let expected: [&[u8]; 5] = [&[1], b"\x01said\r\n", b"\x01two", b"\x03done", &[0x88]];
        assert_eq!(heard(terminal, &sent).await, expected);
    }
}

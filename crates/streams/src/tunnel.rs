//! A byte stream inside of a WebSocket: its data is the payload of binary messages; the boundaries of
//! messages have no meaning.

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::time::timeout;

use crate::outbox::{self, Outbox};
use crate::websocket::{self, Opcode, Piece, Reader};
use crate::{CLOSING, Error, PIECE};

/// Connects a WebSocket and a byte stream until either of them ends.
pub async fn run<C, B>(client: C, backend: B) -> Result<(), Error>
where
    C: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let (from_client, mut to_client) = split(client);
    let (from_backend, mut to_backend) = split(backend);
    let outcome = {
        let (outbox, writer) = outbox::channel();
        let pongs = outbox.clone();
        tokio::select! {
            outcome = client_to_backend(from_client, &mut to_backend, &pongs) => outcome,
            outcome = backend_to_client(from_backend, &outbox) => outcome,
            outcome = writer.write_to(&mut to_client) => outcome,
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

async fn client_to_backend(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    pongs: &Outbox,
) -> Result<(), Error> {
    let mut reader = Reader::new(from);
    while let Some(piece) = reader.next().await? {
        match piece {
            Piece::Data { is_binary: true, data, .. } => {
                let written = async {
                    to.write_all(&data).await?;
                    to.flush().await
                };
                if written.await.is_err() {
                    // The session ends when the backend has sent everything.
                    std::future::pending::<()>().await;
                }
            }
            Piece::Data { .. } => return Err(Error::Protocol("a message is text, not bytes")),
            Piece::Ping(data) => pongs.send_control(&websocket::frame(Opcode::Pong, &[&data])),
            Piece::Pong => {}
            Piece::Close => break,
        }
    }
    Ok(())
}

async fn backend_to_client(mut from: impl AsyncRead + Unpin, to: &Outbox) -> Result<(), Error> {
    let mut buffer = vec![0; PIECE];
    loop {
        let read = from.read(&mut buffer).await?;
        let Some(data) = buffer.get(..read).filter(|data| !data.is_empty()) else { break };
        to.send(websocket::frame(Opcode::Binary, &[data])).await?;
    }
    to.written().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    #[tokio::test]
    async fn messages_carry_the_bytes_of_the_backend() {
        let (mut client, inner) = duplex(1 << 10);
        let (mut backend, inner_backend) = duplex(1 << 10);
        let running = tokio::spawn(run(inner, inner_backend));
        // Masked with zeros; the second is a ping.
        client.write_all(b"\x82\x83\0\0\0\0abc\x89\x81\0\0\0\0p").await.unwrap();
        let mut read = [0; 3];
        backend.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"abc");
        let mut pong = [0; 3];
        client.read_exact(&mut pong).await.unwrap();
        assert_eq!(&pong, b"\x8a\x01p");
        backend.write_all(b"xyz").await.unwrap();
        drop(backend);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"\x82\x03xyz\x88\x02\x03\xe8");
        running.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn text_ends_the_tunnel() {
        let (mut client, inner) = duplex(1 << 10);
        let (_backend, inner_backend) = duplex(1 << 10);
        client.write_all(b"\x81\x81\0\0\0\0a").await.unwrap();
        let error = run(inner, inner_backend).await.unwrap_err();
        assert_eq!(error.to_string(), "a message is text, not bytes");
    }
}

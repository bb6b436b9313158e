//! Connects two byte streams.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::time::timeout;

use crate::{CLOSING, PIECE};

/// Copies bytes between two connections, in both directions, until either of them ends; then both are closed.
/// What was read before the end is written.
pub async fn both<A, B>(client: A, backend: B) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let (mut from_client, mut to_client) = split(client);
    let (mut from_backend, mut to_backend) = split(backend);
    let outcome = tokio::select! {
        () = client_to_backend(&mut from_client, &mut to_backend) => Ok(()),
        outcome = backend_to_client(&mut from_backend, &mut to_client) => outcome,
    };
    let close = async { tokio::join!(to_client.shutdown(), to_backend.shutdown()) };
    // Both are closed in any case.
    let _ = timeout(CLOSING, close).await;
    outcome
}

/// Copies until the client ends. If the backend no longer reads, this waits: the session then ends when the
/// backend has sent everything.
async fn client_to_backend(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) {
    let mut buffer = vec![0; PIECE];
    while let Ok(read) = from.read(&mut buffer).await
        && let Some(data) = buffer.get(..read).filter(|data| !data.is_empty())
    {
        if write(to, data).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn backend_to_client(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    loop {
        let read = from.read(&mut buffer).await?;
        let Some(data) = buffer.get(..read).filter(|data| !data.is_empty()) else { return Ok(()) };
        write(to, data).await?;
    }
}

async fn write(to: &mut (impl AsyncWrite + Unpin), data: &[u8]) -> io::Result<()> {
    to.write_all(data).await?;
    to.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    #[tokio::test]
    async fn bytes_go_both_ways_until_one_side_ends() {
        let (mut client, inner_client) = duplex(16);
        let (mut backend, inner_backend) = duplex(16);
        let copying = tokio::spawn(both(inner_client, inner_backend));
        client.write_all(b"question").await.unwrap();
        let mut read = [0; 8];
        backend.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"question");
        backend.write_all(b"the answer, longer than the buffer").await.unwrap();
        drop(backend);
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "the answer, longer than the buffer");
        copying.await.unwrap().unwrap();
    }
}

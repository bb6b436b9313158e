use super::*;
use tokio::io::{DuplexStream, duplex};
use tokio::task::JoinHandle;

/// A session between a client and a server that the test plays.
struct Played {
    client: DuplexStream,
    server: spdy::Reader<tokio::io::ReadHalf<DuplexStream>>,
    to_server: tokio::io::WriteHalf<DuplexStream>,
    running: JoinHandle<Result<(), Error>>,
}

const ALL: Streams = Streams { stdin: true, stdout: true, stderr: true, tty: false };

async fn play(streams: Streams) -> Played {
    let (client, inner) = duplex(1 << 20);
    let (server, inner_server) = duplex(1 << 20);
    let session = Session::new(inner, streams);
    let running =
        tokio::spawn(session.run(inner_server, "v4.channel.k8s.io", |said| [b"status of ", said].concat()));
    let (from, to_server) = split(server);
    Played { client, server: spdy::Reader::new(from), to_server, running }
}

impl Played {
    /// Sends a message of the client, not really masked.
    async fn say(&mut self, payload: &[u8]) {
        let mut message = vec![0x82, 0x80 | payload.len() as u8, 0, 0, 0, 0];
        message.extend_from_slice(payload);
        self.client.write_all(&message).await.unwrap();
    }

    /// The payload of the next message for the client; `None` for the end.
    async fn hear(&mut self) -> Option<Vec<u8>> {
        let first = self.client.read_u8().await.unwrap();
        let length = match self.client.read_u8().await.unwrap() {
            126 => self.client.read_u16().await.unwrap().into(),
            short => u64::from(short),
        };
        let mut payload = vec![0; length as usize];
        self.client.read_exact(&mut payload).await.unwrap();
        (first == 0x82).then_some(payload)
    }

    /// The next data or end that reaches the server. The frames that open streams are an error of a reader
    /// for clients.
    async fn reaches_server(&mut self) -> spdy::Piece {
        loop {
            match self.server.next().await {
                Ok(Some(spdy::Piece::Ping(_))) | Err(Error::Protocol("a server opened a stream")) => {}
                other => return other.unwrap().unwrap(),
            }
        }
    }
}

fn data(stream: u32, data: &[u8]) -> spdy::Piece {
    spdy::Piece::Data { stream, data: data.to_vec() }
}

#[tokio::test]
async fn channels_are_streams_and_the_status_is_last() {
    let mut played = play(ALL).await;
    assert_eq!(played.hear().await.unwrap(), [STDOUT]);
    played.say(b"\0input").await;
    assert_eq!(played.reaches_server().await, data(3, b"input"));
    played.say(&[CLOSE, STDIN]).await;
    assert_eq!(played.reaches_server().await, spdy::Piece::End { stream: 3 });
    // Nothing is sent after its end, to channels that do not exist, or to those of the server.
    for ignored in [&b"\0more"[..], b"\x01out", b"\x09nothing", b"", &[CLOSE, STDOUT]] {
        played.say(ignored).await;
    }
    let frames = [
        spdy::data(5, b"out"),
        spdy::data(7, b"err"),
        spdy::data(1, b"the "),
        spdy::data(1, b"end"),
        spdy::end(1),
        spdy::data(5, b"put"),
        spdy::end(7),
        spdy::end(5),
    ];
    played.to_server.write_all(&frames.concat()).await.unwrap();
    for wanted in [&b"\x01out"[..], b"\x02err", b"\x01put", b"\x03status of the end"] {
        assert_eq!(played.hear().await.unwrap(), wanted);
    }
    assert_eq!(played.hear().await, None);
    played.running.await.unwrap().unwrap();
}

#[tokio::test]
async fn terminal_has_a_size_and_no_stream_of_errors() {
    let mut played = play(Streams { tty: true, ..ALL }).await;
    assert_eq!(played.hear().await.unwrap(), [STDOUT]);
    played.say(b"\x04{\"Width\":1}").await;
    assert_eq!(played.reaches_server().await, data(7, b"{\"Width\":1}"));
    // The server ends the input: the client's part of it ends too.
    played.to_server.write_all(&spdy::end(3)).await.unwrap();
    assert_eq!(played.reaches_server().await, spdy::Piece::End { stream: 3 });
}

#[tokio::test]
async fn session_ends_with_its_client_and_with_its_server() {
    let mut played = play(ALL).await;
    assert!(played.hear().await.is_some());
    drop(played.client);
    played.running.await.unwrap().unwrap();
    let mut played = play(Streams { stderr: true, ..Streams::default() }).await;
    assert_eq!(played.hear().await.unwrap(), [STDERR]);
    drop((played.server, played.to_server));
    let mut all = Vec::new();
    played.client.read_to_end(&mut all).await.unwrap();
    assert!(all.ends_with(b"\x88\x02\x03\xe8"), "{all:?}");
}

#[tokio::test]
async fn pings_of_both_sides_are_answered() {
    let mut played = play(ALL).await;
    assert!(played.hear().await.is_some());
    played.client.write_all(b"\x89\x82\0\0\0\0hi").await.unwrap();
    let mut pong = [0; 4];
    played.client.read_exact(&mut pong).await.unwrap();
    assert_eq!(&pong, b"\x8a\x02hi");
    played.to_server.write_all(&spdy::ping(2)).await.unwrap();
    loop {
        match played.server.next().await {
            Ok(Some(spdy::Piece::Ping(2))) => break,
            Ok(Some(spdy::Piece::Ping(1))) | Err(Error::Protocol(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn end_of_a_channel_that_does_not_exist_ends_the_session() {
    for wrong in [&[CLOSE, 5][..], &[CLOSE, 0, 0]] {
        let mut played = play(ALL).await;
        played.say(wrong).await;
        assert!(played.running.await.unwrap().is_err(), "{wrong:?}");
    }
}

#[tokio::test]
async fn refused_session_tells_why() {
    let (mut client, inner) = duplex(1 << 10);
    Session::new(inner, ALL).refuse(b"why").await.unwrap();
    let mut all = Vec::new();
    client.read_to_end(&mut all).await.unwrap();
    assert_eq!(all, b"\x82\x01\x01\x82\x04\x03why\x88\x02\x03\xe8");
}

#[tokio::test]
async fn input_that_comes_early_waits_for_its_stream() {
    for _ in 0..20 {
        let (mut client, inner) = duplex(1 << 10);
        let (mut server, inner_server) = duplex(1 << 10);
        client.write_all(b"\x82\x82\0\0\0\0\0a").await.unwrap();
        let running = tokio::spawn(Session::new(inner, ALL).run(inner_server, "", |_| Vec::new()));
        let mut first = [0; 4];
        server.read_exact(&mut first).await.unwrap();
        assert_eq!(first, [0x80, 3, 0, 1]);
        running.abort();
    }
}

#[tokio::test]
async fn client_that_leaves_ends_the_wait_for_the_server() {
    let (mut client, inner) = duplex(1 << 10);
    let mut session = Session::new(inner, ALL);
    client.write_all(b"\x82\x82\0\0\0\0\0a").await.unwrap();
    let waiting = tokio::spawn(async move { session.while_opening(std::future::pending::<()>()).await });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    drop(client);
    assert_eq!(waiting.await.unwrap(), None);
}

#[tokio::test]
async fn input_during_the_wait_for_the_server_is_kept_up_to_a_piece() {
    let (mut client, inner) = duplex(4 * PIECE);
    let (server, inner_server) = duplex(4 * PIECE);
    let mut session = Session::new(inner, ALL);
    let (opened, opening) = tokio::sync::oneshot::channel();
    // A masked message of the greatest length that two bytes can say.
    let message = [&b"\x82\xfe\xff\xff\0\0\0\0\0"[..], &vec![b'x'; 65_534]].concat();
    client.write_all(&message).await.unwrap();
    let waiting = tokio::spawn(async move {
        session.while_opening(opening).await.unwrap().unwrap();
        session
    });
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    opened.send(()).unwrap();
    let session = waiting.await.unwrap();
    assert!((PIECE..PIECE + 1024).contains(&session.early.len()), "{}", session.early.len());
    let running = tokio::spawn(session.run(inner_server, "", |_| Vec::new()));
    let (from, to_server) = split(server);
    let mut played = Played { client, server: spdy::Reader::new(from), to_server, running };
    let mut received = 0;
    while received < 65_534 {
        match played.reaches_server().await {
            spdy::Piece::Data { data, .. } => received += data.len(),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(received, 65_534);
    drop(played.to_server);
}

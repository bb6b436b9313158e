//! Hostile or broken clients: the server continues, and does not wait for them for ever.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod common;

use std::time::{Duration, Instant};

use common::{PATIENCE, Running, start};
use http::Method;
use server::{Body, Error, Handler, Limits, Request, Response, Unserved};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Everything the peer sends until it closes the connection, or resets it.
async fn read_to_close(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut all)).await.expect("the server closes the connection");
    all
}

async fn still_serves(server: &Running) {
    assert_eq!(server.http1().await.ask(Method::GET, "/livez").await.body, "ok");
    assert_eq!(server.http2().await.ask(Method::GET, "/livez").await.body, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_without_tls_is_closed() {
    let server = start(Unserved, Limits::default(), Duration::ZERO);
    for garbage in
        [b"GET / HTTP/1.1\r\n\r\n".as_slice(), &[0; 4096], &[0x16, 3, 1, 0xff, 0xff, 1], &[0xff; 65_536]]
    {
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        let _ = socket.write_all(garbage).await;
        let _ = socket.shutdown().await;
        read_to_close(&mut socket).await;
    }
    still_serves(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_handshake_is_closed() {
    let limits = Limits { handshake: Duration::from_millis(200), ..Limits::default() };
    let server = start(Unserved, limits, Duration::ZERO);
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut half = TcpStream::connect(server.address).await.unwrap();
    half.write_all(&[0x16, 3, 1, 2, 0, 1]).await.unwrap();
    read_to_close(&mut silent).await;
    read_to_close(&mut half).await;
    still_serves(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_headers_time_out() {
    let limits = Limits { first_request: Duration::from_millis(400), ..Limits::default() };
    let server = start(Unserved, limits, Duration::ZERO);
    for alpn in [b"http/1.1".as_slice(), b"h2"] {
        let begin = Instant::now();
        let (mut read, mut write) = tokio::io::split(server.tls(server.client_config(alpn)).await);
        let trickle = tokio::spawn(async move {
            if alpn == b"h2" {
                write.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
                write.flush().await.unwrap();
            } else {
                write.write_all(b"GET /livez HTTP/1.1\r\n").await.unwrap();
                while write.write_all(b"x-a: b\r\n").await.is_ok() && write.flush().await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            write
        });
        read_to_close(&mut read).await;
        assert!(begin.elapsed() >= Duration::from_millis(400));
        drop(trickle.await);
    }
    still_serves(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_above_their_limit_are_431() {
    let server = start(Unserved, Limits::default(), Duration::ZERO);
    let long = "a".repeat(300 << 10);

    let mut stream = server.tls(server.client_config(b"http/1.1")).await;
    let head = format!("GET /livez HTTP/1.1\r\nhost: x\r\nx-long: {long}\r\n\r\n");
    let _ = stream.write_all(head.as_bytes()).await;
    let answer = read_to_close(&mut stream).await;
    assert!(answer.starts_with(b"HTTP/1.1 431 "), "{}", String::from_utf8_lossy(&answer));

    let mut stream = server.tls(server.client_config(b"http/1.1")).await;
    let many: String = (0..400).map(|i| format!("x-{i}: y\r\n")).collect();
    let _ = stream.write_all(format!("GET /livez HTTP/1.1\r\nhost: x\r\n{many}\r\n").as_bytes()).await;
    let answer = read_to_close(&mut stream).await;
    assert!(answer.starts_with(b"HTTP/1.1 431 "), "{}", String::from_utf8_lossy(&answer));

    let mut client = server.http2().await;
    let mut request = common::request2(Method::GET, "/livez");
    request.headers_mut().insert("x-long", long.parse().unwrap());
    // Refused by the client itself, which heeds the announced limit, or by the server.
    if let Ok(response) = client.sender.send_request(request).await {
        assert_eq!(response.status(), 431);
    }
    still_serves(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_not_http_are_400() {
    let server = start(Unserved, Limits::default(), Duration::ZERO);
    for bad in [
        "\0\0\0\0\r\n\r\n",
        "GET\r\n\r\n",
        "GET /livez HTTP/9.9\r\n\r\n",
        "GET /\u{1} HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET / HTTP/1.1\r\nhost : x\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n\r\n",
    ] {
        let mut stream = server.tls(server.client_config(b"http/1.1")).await;
        stream.write_all(bad.as_bytes()).await.unwrap();
        let answer = read_to_close(&mut stream).await;
        assert!(answer.starts_with(b"HTTP/1.1 400 "), "{bad:?}: {}", String::from_utf8_lossy(&answer));
    }
    still_serves(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_still_sending_after_a_bad_request_line_receives_the_response() {
    let server = start(Unserved, Limits::default(), Duration::ZERO);
    let mut stream = server.tls(server.client_config(b"http/1.1")).await;
    stream.write_all(b"PUT /?a>1 HTTP/1.1\r\nhost: x\r\ncontent-length: 4194304\r\n\r\n").await.unwrap();
    for _ in 0..64 {
        stream.write_all(&[b'x'; 64 << 10]).await.unwrap();
    }
    let answer = read_to_close(&mut stream).await;
    assert!(answer.starts_with(b"HTTP/1.1 400 "), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_paths_and_queries_are_answered() {
    let server = start(Unserved, Limits::default(), Duration::ZERO);
    let mut client = server.http1().await;
    for (path, status) in [
        ("/livez?verbose&exclude=%zz&exclude=%ff&;;;&=&&&exclude", 200),
        ("/livez/%70ing", 404),
        ("/livez/../livez", 404),
        ("//livez", 404),
        ("/version?pretty=%", 200),
        ("/%00%ff", 404),
    ] {
        assert_eq!(client.ask(Method::GET, path).await.status, status, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flood_of_resets_closes_only_its_connection() {
    let server = start(Unserved, Limits::default(), Duration::ZERO);
    let mut stream = server.tls(server.client_config(b"h2")).await;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    // HEADERS with `:method GET`, `:scheme https`, `:path /` from the static table, and at once RST_STREAM.
    let mut flood = Vec::new();
    for stream_id in (1u32..20_001).step_by(2) {
        let id = stream_id.to_be_bytes();
        flood.extend_from_slice(&[0, 0, 3, 1, 5]);
        flood.extend_from_slice(&id);
        flood.extend_from_slice(&[0x82, 0x87, 0x84]);
        flood.extend_from_slice(&[0, 0, 4, 3, 0]);
        flood.extend_from_slice(&id);
        flood.extend_from_slice(&[0, 0, 0, 8]);
    }
    let _ = stream.write_all(&flood).await;
    let _ = stream.flush().await;
    let answer = read_to_close(&mut stream).await;
    let goaway = answer.windows(9).any(|frame| matches!(frame, [_, _, _, 7, 0, 0, 0, 0, 0]));
    assert!(goaway || answer.is_empty(), "the server says goodbye before it closes");
    still_serves(&server).await;
}

/// Whether a GET is answered: not if the connection is closed.
async fn is_served(client: &mut common::Http1) -> bool {
    client.try_ask(Method::GET, "/livez").await.is_ok_and(|answer| answer.status == 200)
}

#[tokio::test(flavor = "multi_thread")]
async fn new_connection_takes_the_place_of_the_oldest_without_credentials() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let server = start(Unserved, limits, Duration::ZERO);
    let mut first = server.http1().await;
    let mut second = server.http1().await;
    assert!(is_served(&mut first).await && is_served(&mut second).await);
    let mut third = server.http1().await;
    assert!(is_served(&mut third).await && is_served(&mut second).await);
    assert!(!is_served(&mut first).await, "the oldest is closed");
}

/// Sends bodies of a size.
struct Sends(usize);

impl Handler for Sends {
    async fn handle(&self, _request: Request) -> Result<Response, Error> {
        Ok(Response::new(Body::from(bytes::Bytes::from(vec![b'x'; self.0]))))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_whose_response_is_not_read_is_closed() {
    let limits = Limits { stalled: Duration::from_millis(300), ..Limits::default() };
    let server = start(Sends(64 << 20), limits, Duration::ZERO);
    let mut stuck = server.tls(server.client_config(b"http/1.1")).await;
    stuck.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    stuck.flush().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let received = read_to_close(&mut stuck).await;
    assert!(received.len() < 64 << 20, "{} bytes", received.len());
}

/// The start of an HTTP/2 connection whose streams have windows of `window` bytes, and a GET for each of
/// `streams`.
fn http2_requests(window: u16, streams: &[u8]) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0]);
    bytes.extend(window.to_be_bytes());
    for id in streams {
        bytes.extend([0, 0, 3, 1, 5, 0, 0, 0, *id, 0x82, 0x87, 0x84]);
    }
    bytes
}

/// The next frame: its type, stream and payload.
async fn frame(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> (u8, u8, Vec<u8>) {
    let mut head = [0; 9];
    timeout(PATIENCE, stream.read_exact(&mut head)).await.expect("a frame in time").unwrap();
    let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
    timeout(PATIENCE, stream.read_exact(&mut payload)).await.expect("a payload in time").unwrap();
    (head[3], head[8], payload)
}

const RST_STREAM: u8 = 3;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

#[tokio::test(flavor = "multi_thread")]
async fn stream_whose_window_is_shut_is_reset() {
    let limits = Limits { stalled: Duration::from_millis(300), ..Limits::default() };
    // Held by hyper, held in part by the codec, and larger than the pieces that hyper is given.
    for (window, size) in [(0, 5), (1, 100_000), (100, 1 << 20)] {
        let server = start(Sends(size), limits.clone(), Duration::ZERO);
        let mut stream = server.tls(server.client_config(b"h2")).await;
        stream.write_all(&http2_requests(window, &[1, 3])).await.unwrap();
        let mut reset = Vec::new();
        while reset.len() < 2 {
            let (kind, id, _) = frame(&mut stream).await;
            if kind == RST_STREAM {
                reset.push(id);
            }
        }
        reset.sort_unstable();
        assert_eq!(reset, [1, 3], "window {window}, size {size}");
        // The connection goes on.
        stream.write_all(&[0, 0, 8, PING, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]).await.unwrap();
        while frame(&mut stream).await.0 != PING {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_that_is_read_slowly_is_not_stalled() {
    let limits = Limits { stalled: Duration::from_millis(600), ..Limits::default() };
    let server = start(Sends(12), limits, Duration::ZERO);
    let mut stream = server.tls(server.client_config(b"h2")).await;
    stream.write_all(&http2_requests(0, &[1])).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    stream.write_all(&[0, 0, 4, WINDOW_UPDATE, 0, 0, 0, 0, 1, 0, 0, 0, 12]).await.unwrap();
    loop {
        match frame(&mut stream).await {
            (0, 1, payload) => return assert_eq!(payload, b"xxxxxxxxxxxx"),
            (kind, _, _) => assert_ne!(kind, RST_STREAM),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn body_that_waits_for_events_is_not_stalled() {
    struct Silent;
    impl http_body::Body for Silent {
        type Data = bytes::Bytes;
        type Error = server::body::StreamError;
        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
            std::task::Poll::Pending
        }
    }
    struct Watches;
    impl Handler for Watches {
        async fn handle(&self, _request: Request) -> Result<Response, Error> {
            Ok(Response::new(Body::Stream(Box::pin(Silent))))
        }
    }
    let limits = Limits { stalled: Duration::from_millis(100), ..Limits::default() };
    let server = start(Watches, limits, Duration::ZERO);
    let mut stream = server.tls(server.client_config(b"h2")).await;
    stream.write_all(&http2_requests(0, &[1])).await.unwrap();
    let reset = async { while frame(&mut stream).await.0 != RST_STREAM {} };
    assert!(timeout(Duration::from_millis(700), reset).await.is_err());
}

/// A client without a framer reads one event of a watch at once.
#[tokio::test(flavor = "multi_thread")]
async fn small_piece_of_a_stream_is_one_frame() {
    /// Sends its data, and then nothing more.
    struct Event(Option<bytes::Bytes>);
    impl http_body::Body for Event {
        type Data = bytes::Bytes;
        type Error = server::body::StreamError;
        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
            match self.0.take() {
                Some(data) => std::task::Poll::Ready(Some(Ok(http_body::Frame::data(data)))),
                None => std::task::Poll::Pending,
            }
        }
    }
    struct Watches(usize);
    impl Handler for Watches {
        async fn handle(&self, _request: Request) -> Result<Response, Error> {
            Ok(Response::new(Body::Stream(Box::pin(Event(Some(vec![b'x'; self.0].into()))))))
        }
    }
    for size in [2, 1000, 16 << 10] {
        let server = start(Watches(size), Limits::default(), Duration::ZERO);
        let mut stream = server.tls(server.client_config(b"h2")).await;
        stream.write_all(&http2_requests(65_535, &[1])).await.unwrap();
        let first = loop {
            if let (0, 1, payload) = frame(&mut stream).await {
                break payload;
            }
        };
        assert_eq!(first.len(), size);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn time_of_a_request_covers_its_response() {
    let limits = Limits { request: Duration::from_millis(100), ..Limits::default() };
    let server = start(Sends(64 << 20), limits, Duration::ZERO);
    let mut slow = server.tls(server.client_config(b"http/1.1")).await;
    slow.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let begin = Instant::now();
    let mut received = 0;
    let mut buffer = vec![0; 64 << 10];
    // Reads a little all the time.
    while let Ok(Ok(read @ 1..)) = timeout(PATIENCE, slow.read(&mut buffer)).await {
        received += read;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(begin.elapsed() < PATIENCE);
    }
    assert!(received < 64 << 20, "{received} bytes");
}

//! HTTP/1.1 and HTTP/2 over real TLS.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{closed, start, start_with};
use http::Method;
use rustls::ProtocolVersion;
use server::tls::{Oldest, Protocols, TlsConfig};
use server::{Body, Error, Handler, Limits, Request, Response, Unserved, body};

/// Echoes the body, describes the peer, or panics, by the path.
struct Echo;

impl Handler for Echo {
    async fn handle(&self, mut request: Request) -> Result<Response, Error> {
        match request.raw_path() {
            "/echo" => {
                let limit = body::Limit { bytes: 10_000, time: Duration::from_millis(300) };
                Ok(Response::new(body::read(&mut request.body, limit).await?.into()))
            }
            "/peer" => Ok(Response::new(Body::from(format!(
                "{} {:?}",
                request.peer.certificates.len(),
                request.peer.tls
            )))),
            "/panic" => panic!("as asked"),
            "/panic-later" => {
                tokio::task::yield_now().await;
                panic!("as asked")
            }
            _ => Err(Error::UnknownPath),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_timeout_is_refused_unless_the_request_is_long_running() {
    let server = start(Unserved, Limits::default(), Duration::ZERO);
    let mut client = server.http1().await;
    let paths = [
        "/version",
        "/healthz",
        "/livez",
        "/readyz/ping",
        "/api",
        "/openapi/v2",
        "/metrics",
        "/x",
        "/api/v1/pods",
    ];
    for path in paths {
        let answer = client.ask(Method::GET, &format!("{path}?timeout=5")).await;
        assert_eq!(answer.status, 400, "{path}");
        assert!(
            answer.body.contains(
                r#""message":"invalid timeout specified in the request URL - time: missing unit in duration \"5\"""#
            ),
            "{path}: {}",
            answer.body
        );
    }
    for query in ["timeout=", "timeout=5s", "timeout=-1s", "timeout=0"] {
        assert_eq!(client.ask(Method::GET, &format!("/livez?{query}")).await.status, 200, "{query}");
    }
    for path in [
        "/api/v1/pods?watch=1&timeout=x",
        "/api/v1/namespaces/a/pods/b/log?timeout=x",
        "/debug/pprof/profile?timeout=x",
    ] {
        assert_eq!(client.ask(Method::GET, path).await.status, 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_versions_of_http_get_the_same_responses() {
    let server = start(Unserved, Limits::default(), Duration::ZERO);
    let mut http1 = server.http1().await;
    let mut http2 = server.http2().await;
    for (method, path, status, content_type, body) in [
        (Method::GET, "/livez", 200, "text/plain; charset=utf-8", "ok"),
        (Method::POST, "/readyz", 200, "text/plain; charset=utf-8", "ok"),
        (Method::GET, "/livez/ping", 200, "text/plain; charset=utf-8", "ok"),
        (Method::HEAD, "/healthz", 200, "text/plain; charset=utf-8", ""),
        (Method::GET, "/healthz/", 404, "text/plain; charset=utf-8", "404 page not found\n"),
        (Method::DELETE, "/nothing-here", 404, "text/plain; charset=utf-8", "404 page not found\n"),
        (Method::HEAD, "/version", 405, "application/json", ""),
    ] {
        for answer in [http1.ask(method.clone(), path).await, http2.ask(method.clone(), path).await] {
            assert_eq!((answer.status, answer.body.as_str()), (status, body), "{method} {path}");
            assert_eq!(answer.headers["content-type"], content_type, "{method} {path}");
            assert_eq!(answer.headers["cache-control"], "no-cache, private", "{method} {path}");
        }
    }
    let version = http1.ask(Method::GET, "/version").await;
    assert_eq!(version.headers["content-type"], "application/json");
    assert!(version.body.contains("\"gitVersion\": \"v1.33.7\""), "{}", version.body);
    assert_eq!(http2.ask(Method::GET, "/version/").await.body, version.body);
    drop((http1, http2));
    assert_eq!(server.stop().await.cut_off, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn client_without_alpn_gets_http_1() {
    let server = start(Unserved, Limits::default(), Duration::ZERO);
    let mut client = server.http1_with(server.client_config(b"")).await;
    assert_eq!(client.ask(Method::GET, "/livez").await.body, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn http_2_can_be_turned_off() {
    let tls = TlsConfig { protocols: Protocols::Http1, ..TlsConfig::default() };
    let server = start_with(Unserved, Limits::default(), Duration::ZERO, tls);
    let mut config = server.client_config(b"h2");
    config.alpn_protocols.push(b"http/1.1".to_vec());
    let stream = server.tls(config).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"http/1.1".as_slice()));
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_1_2_is_enabled_unless_turned_off() {
    let only_12 =
        |server: &common::Running| server.client_config_for(b"http/1.1", &[&rustls::version::TLS12]);
    let server = start(Echo, Limits::default(), Duration::ZERO);
    let stream = server.tls(only_12(&server)).await;
    assert_eq!(stream.get_ref().1.protocol_version(), Some(ProtocolVersion::TLSv1_2));

    let tls = TlsConfig { oldest: Oldest::Tls13, ..TlsConfig::default() };
    let strict = start_with(Echo, Limits::default(), Duration::ZERO, tls);
    assert!(strict.try_tls(only_12(&strict)).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn handler_gets_the_client_certificates() {
    let server = start(Echo, Limits::default(), Duration::ZERO);
    let mut nobody = server.http1().await;
    assert_eq!(nobody.ask(Method::GET, "/peer").await.body, "0 Some(TLSv1_3)");
    let mut admin = server.http1_with(server.admin_config(b"http/1.1")).await;
    assert_eq!(admin.ask(Method::GET, "/peer").await.body, "1 Some(TLSv1_3)");
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_fails_only_its_request() {
    let server = start(Echo, Limits::default(), Duration::ZERO);
    let mut http1 = server.http1().await;
    let mut http2 = server.http2().await;
    for path in ["/panic", "/panic-later"] {
        for answer in [http1.ask(Method::GET, path).await, http2.ask(Method::GET, path).await] {
            assert_eq!(answer.status, 500);
            assert_eq!(
                answer.body,
                "This request caused apiserver to panic. Look in the logs for details.\n"
            );
        }
    }
    assert_eq!(http1.ask(Method::GET, "/livez").await.status, 200);
    assert_eq!(http2.ask(Method::GET, "/livez").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn body_above_its_limit_is_413() {
    let server = start(Echo, Limits::default(), Duration::ZERO);
    for (size, status) in [(0, 200), (10_000, 200), (10_001, 413), (1_000_000, 413)] {
        let text = "x".repeat(size);
        let mut client = server.http2().await;
        let mut request = common::request2(Method::POST, "/echo");
        *request.body_mut() = http_body_util::Full::new(text.clone().into());
        let answer = common::whole(client.sender.send_request(request).await.unwrap()).await;
        assert_eq!(answer.status, status, "{size}");
        if status == 200 {
            assert!(answer.body == text);
        } else {
            assert!(answer.body.contains("Request entity too large: limit is 10000"), "{}", answer.body);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_body_is_504() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let server = start(Echo, Limits::default(), Duration::ZERO);
    let mut stream = server.tls(server.client_config(b"http/1.1")).await;
    stream
        .write_all(b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nonly this")
        .await
        .unwrap();
    let mut answer = vec![0; 4096];
    let length = tokio::time::timeout(common::PATIENCE, stream.read(&mut answer)).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&answer[..length]).into_owned();
    assert!(text.starts_with("HTTP/1.1 504"), "{text}");
    assert!(text.contains("Timeout: the request body did not arrive within 0.3 s"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connection_is_closed_gracefully() {
    let limits = Limits { idle: Duration::from_millis(200), ..Limits::default() };
    let server = start(Unserved, limits, Duration::ZERO);
    let mut http1 = server.http1().await;
    let mut http2 = server.http2().await;
    assert_eq!(http1.ask(Method::GET, "/livez").await.status, 200);
    assert_eq!(http2.ask(Method::GET, "/livez").await.status, 200);
    closed(http1.ended).await.unwrap();
    closed(http2.ended).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn next_connection_gets_the_replaced_certificate() {
    let server = start(Unserved, Limits::default(), Duration::ZERO);
    let shown = async || {
        let stream = server.tls(server.client_config(b"")).await;
        stream.get_ref().1.peer_certificates().unwrap()[0].clone()
    };
    let before = shown().await;
    assert!(
        !server.identity.replace(server.material.serving.clone()).unwrap(),
        "the same one again is no change"
    );

    let broken = pki::Pair { key: server.material.admin.key.clone(), ..server.material.serving.clone() };
    assert!(server.identity.replace(broken).is_err());
    assert_eq!(shown().await, before, "what cannot be used leaves the old one in place");

    let next = server.material.admin.clone();
    assert!(server.identity.replace(next).unwrap());
    let error = server.try_tls(server.client_config(b"")).await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "a client certificate does not pass for a server's: {error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_certificate_files_are_reloaded() {
    use server::tls::Files;
    let server = start(Unserved, Limits::default(), Duration::ZERO);
    let folder = testkit::Folder::new().unwrap();
    let files = Files { certificate: folder.path().join("tls.crt"), key: folder.path().join("tls.key") };
    let write = |pair: &pki::Pair| {
        std::fs::write(&files.certificate, &pair.certificate).unwrap();
        std::fs::write(&files.key, &pair.key).unwrap();
    };
    write(&server.material.serving);
    let source = files.clone();
    let hour = Duration::from_secs(3600);
    let identity = std::sync::Arc::clone(&server.identity);
    let fresh = tokio::spawn(identity.keep_fresh(hour, files.paths().to_vec(), move || source.read()));

    let names = pki::Names::of_this_host("10.0.0.1".parse().unwrap());
    let other = pki::Pki::new(folder.path().join("other")).ensure(&names, clock::now()).unwrap();
    std::fs::write(&files.certificate, "garbage").unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(server.try_tls(server.client_config(b"")).await.is_ok(), "garbage leaves the old one in place");

    let shown = async |is_first: bool| {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(4);
        while server.try_tls(server.client_config(b"")).await.is_ok() != is_first {
            assert!(tokio::time::Instant::now() < deadline, "the certificate in the files is shown");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // Of another authority.
    write(&other.serving);
    shown(false).await;
    std::fs::remove_file(&files.certificate).unwrap();
    std::fs::remove_file(&files.key).unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    shown(false).await;
    write(&server.material.serving);
    shown(true).await;
    fresh.abort();
}

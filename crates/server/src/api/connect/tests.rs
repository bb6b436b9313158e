use super::upgrade::ending;
use super::*;
use crate::api::testing::{Fixture, body};
use crate::api::{Api, ApiConfig};
use crate::{Lifecycle, Peer};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

async fn api() -> Api {
    let config = ApiConfig {
        request_timeout: Duration::from_secs(10),
        shortest_watch: Duration::from_secs(1),
        cbor: false,
        compression: false,
        stream_bytes_per_second: None,
        external_address: None,
        further_paths: Vec::new(),
    };
    let backends = Backends::new(KubeletClient::default()).unwrap();
    Api::new(Arc::new(Fixture::new().await.registry), Lifecycle::new(), config, backends)
}

/// A server that answers one request as it is told; with the request that it got.
async fn target(answer: &str) -> (Location, oneshot::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, got) = oneshot::channel();
    let answer = answer.to_owned();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") && !request.ends_with(b"the body") {
            request.push(socket.read_u8().await.unwrap());
        }
        sender.send(String::from_utf8(request).unwrap()).unwrap();
        socket.write_all(answer.as_bytes()).await.unwrap();
    });
    (location(port), got)
}

fn location(port: u16) -> Location {
    Location {
        backend: Backend::Pod,
        tls: false,
        host: "127.0.0.1".into(),
        port: Some(port),
        path: "/a b/".into(),
        query: String::new(),
        command: None,
    }
}

const PATH: &str = "/api/v1/namespaces/n/pods/p/proxy/a b/";

fn request(method: &str, headers: &[(&str, &str)], body: &'static str) -> Request {
    let uri = "/api/v1/namespaces/n/pods/p/proxy/a%20b/?x=1&y=%20";
    let mut request = http::Request::builder().method(method).uri(uri).header("host", "server:6443");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let peer = Arc::new(Peer::plain(([192, 0, 2, 7], 1).into()));
    Request::in_process(request.body(Bytes::from_static(body.as_bytes())).unwrap(), peer)
}

fn message(error: Error) -> String {
    match error {
        Error::Status(status) => format!("{} {}", status.code, status.message),
        other => other.to_string(),
    }
}

#[tokio::test]
async fn requests_are_handed_on_without_what_is_about_one_connection() {
    let (location, got) = target("HTTP/1.1 201 Made\r\nX-Own: yes\r\nKeep-Alive: 5\r\nConnection: x-hop\r\nX-Hop: 1\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 4\r\n\r\ndone").await;
    let headers = [
        ("connection", "keep-alive, x-mine"),
        ("x-mine", "1"),
        ("proxy-authorization", "secret"),
        ("x-forwarded-for", "198.51.100.1"),
        ("x-kept", "yes"),
        ("content-length", "8"),
    ];
    let mut request = request("POST", &headers, "the body");
    let response = api().await.proxy(&mut request, &location, PATH, Place::default()).await.unwrap();
    let sent = got.await.unwrap();
    assert!(sent.starts_with("POST /a%20b/?x=1&y=%20 HTTP/1.1\r\n"), "{sent}");
    for line in [
        "host: server:6443",
        "x-kept: yes",
        "x-forwarded-for: 198.51.100.1, 192.0.2.7",
        "x-forwarded-uri: /api/v1/namespaces/n/pods/p/proxy/a%20b/",
        "content-length: 8",
    ] {
        assert!(sent.contains(&format!("\r\n{line}\r\n")), "{line}: {sent}");
    }
    for absent in ["x-mine", "secret", "keep-alive"] {
        assert!(!sent.contains(absent), "{absent}: {sent}");
    }
    assert_eq!(response.status(), 201);
    let names: Vec<&str> = response.headers().keys().map(http::HeaderName::as_str).collect();
    assert_eq!(names, ["x-own", "content-length"]);
    assert_eq!(body(response).await, "done");
}

#[tokio::test]
async fn links_of_a_page_and_of_a_redirect_lead_through_the_proxy() {
    let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 20\r\n\r\n<a href=\"/x\">yes</a>";
    let (location, _got) = target(page).await;
    let response =
        api().await.proxy(&mut request("GET", &[], ""), &location, PATH, Place::default()).await.unwrap();
    assert_eq!(response.headers().get("content-length"), None);
    assert_eq!(body(response).await, r#"<a href="/api/v1/namespaces/n/pods/p/proxy/x">yes</a>"#);
    let (location, _got) =
        target("HTTP/1.1 302 Found\r\nLocation: /login?a=b\r\nContent-Length: 0\r\n\r\n").await;
    let response =
        api().await.proxy(&mut request("GET", &[], ""), &location, PATH, Place::default()).await.unwrap();
    assert_eq!(response.status(), 302);
    assert_eq!(response.headers()["location"], "/api/v1/namespaces/n/pods/p/proxy/login?a=b");
}

#[tokio::test]
async fn root_without_a_slash_is_asked_for_again() {
    let location = Location { path: String::new(), ..location(1) };
    let path = "/api/v1/namespaces/n/pods/p/proxy";
    let response =
        api().await.proxy(&mut request("GET", &[], ""), &location, path, Place::default()).await.unwrap();
    assert_eq!(response.status(), 301);
    assert_eq!(response.headers()["location"], format!("{path}/?x=1&y=%20"));
}

#[tokio::test]
async fn target_that_cannot_be_reached_is_503() {
    let error = api()
        .await
        .proxy(&mut request("GET", &[], ""), &location(1), PATH, Place::default())
        .await
        .unwrap_err();
    let refused = "dial tcp 127.0.0.1:1: connect: connection refused";
    assert_eq!(message(error), format!("503 error trying to reach service: {refused}"));
    let mut upgrade = request("GET", &[("connection", "Upgrade"), ("upgrade", "x")], "");
    let error = api().await.proxy(&mut upgrade, &location(1), PATH, Place::default()).await.unwrap_err();
    assert_eq!(message(error), format!("500 error dialing backend: {refused}"));
}

#[tokio::test]
async fn refused_upgrade_is_the_answer_and_ends_the_connection() {
    let headers = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
    let (location, got) = target("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").await;
    let response = api()
        .await
        .proxy(&mut request("POST", &headers, ""), &location, PATH, Place::default())
        .await
        .unwrap();
    let sent = got.await.unwrap();
    assert!(
        sent.starts_with("POST /a%20b/ HTTP/1.1\r\n") && sent.contains("\r\nupgrade: SPDY/3.1\r\n"),
        "{sent}"
    );
    assert_eq!(response.status(), 403);
    assert_eq!(response.headers()["connection"], "close");
    assert_eq!(body(response).await, "no");
    let (location, _got) = target("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let error = api()
        .await
        .proxy(&mut request("POST", &headers, ""), &location, PATH, Place::default())
        .await
        .unwrap_err();
    assert_eq!(message(error), "500 invalid upgrade response: status code 200");
}

#[tokio::test]
async fn backend_that_switches_to_a_protocol_unasked_is_502() {
    let unasked = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";
    let wanted = r#"502 backend tried to switch protocol "x" when "" was requested"#;
    let (location, _got) = target(unasked).await;
    let error = api().await.proxy(&mut request("GET", &[], ""), &location, PATH, Place::default()).await;
    assert_eq!(message(error.unwrap_err()), wanted);
    let (location, _got) = target(unasked).await;
    let error = api().await.log(&request("GET", &[], ""), &location, "p", Place::default()).await;
    assert_eq!(message(error.unwrap_err()), wanted);
    let headers = [("connection", "Upgrade"), ("upgrade", "websocket")];
    for (answered, shown) in [("Connection: Upgrade\r\nUpgrade: x", "x"), ("X-Nothing: 1", "")] {
        let (location, _got) =
            target(&format!("HTTP/1.1 101 Switching Protocols\r\n{answered}\r\n\r\n")).await;
        let mut request = request("GET", &headers, "");
        let error = api().await.proxy(&mut request, &location, PATH, Place::default()).await;
        let wanted =
            format!(r#"502 backend tried to switch protocol "{shown}" when "websocket" was requested"#);
        assert_eq!(message(error.unwrap_err()), wanted);
    }
    let (location, _got) =
        target("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n\r\n").await;
    let mut request = request("GET", &headers, "");
    let response = api().await.proxy(&mut request, &location, PATH, Place::default()).await.unwrap();
    assert_eq!(response.status(), 101);
}

#[tokio::test]
async fn backend_that_does_not_agree_to_an_upgrade_in_time_is_504() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let location = location(listener.local_addr().unwrap().port());
    let held = tokio::spawn(async move { listener.accept().await.unwrap() });
    let api = api().await;
    let mut request = request("GET", &[("connection", "Upgrade"), ("upgrade", "x")], "");
    let answer =
        tokio::spawn(async move { api.proxy(&mut request, &location, PATH, Place::default()).await });
    let (_socket, _) = held.await.unwrap();
    tokio::time::pause();
    let error = answer.await.unwrap().unwrap_err();
    assert_eq!(message(error), "504 error dialing backend: no answer within 30 s");
}

#[tokio::test]
async fn errors_of_a_kubelet_become_statuses() {
    for (answer, wanted) in [
        ("404 Not Found", "404 the server could not find the requested resource ( pods/log p)"),
        ("400 Bad Request", "400 text"),
        ("500 Internal Server Error", "500 Internal error occurred: text"),
        (
            "502 Bad Gateway",
            "502 an error on the server (\"text\") has prevented the request from succeeding ( pods/log p)",
        ),
        ("403 Forbidden", "403 text ( pods/log p)"),
        ("302 Found\r\nLocation: http://elsewhere/", "500 Get \"http://elsewhere/\": redirects forbidden"),
    ] {
        let (location, _got) = target(&format!("HTTP/1.1 {answer}\r\nContent-Length: 4\r\n\r\ntext")).await;
        let error =
            api().await.log(&request("GET", &[], ""), &location, "p", Place::default()).await.unwrap_err();
        assert_eq!(message(error), wanted);
    }
    let error =
        api().await.log(&request("GET", &[], ""), &location(1), "p", Place::default()).await.unwrap_err();
    let refused = "dial tcp 127.0.0.1:1: connect: connection refused";
    assert_eq!(message(error), format!("500 Get \"http://127.0.0.1:1/a%20b/\": {refused}"));
}

#[test]
fn end_of_a_command_is_told_with_its_exit_code() {
    let exit = br#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
    let text = |protocol, said: &[u8]| String::from_utf8(ending(protocol, said)).unwrap();
    let v4 = |said: &[u8]| text("v4.channel.k8s.io", said);
    for success in [&b""[..], br#"{"metadata":{},"status":"Success"}"#] {
        assert_eq!(v4(success), r#"{"metadata":{},"status":"Success"}"#);
    }
    let told = v4(exit);
    let wanted = concat!(
        r#"{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: command terminated "#,
        r#"with exit code 3","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#
    );
    assert_eq!(told, wanted);
    for (said, why) in [
        (&br#"{"status":"Failure","message":"broken"}"#[..], "Internal error occurred: broken"),
        (b"not a status", "error stream protocol error: invalid status in \\\"not a status\\\""),
        (br#"{"status":"Failure","reason":"NonZeroExitCode"}"#, "details must be set"),
        (br#"{"status":"?"}"#, "unknown error"),
    ] {
        let told = v4(said);
        assert!(told.contains(why), "{told}");
    }
    let told = text("v2.channel.k8s.io", b"broken");
    assert!(told.contains("error executing remote command: broken"), "{told}");
}

#[test]
fn path_of_a_proxy_keeps_its_slash() {
    for (path, wanted) in [
        ("/api/v1/nodes/a/proxy", ""),
        ("/api/v1/nodes/a/proxy/", "/"),
        ("/api/v1/nodes/a/proxy/b", "/b"),
        ("/api/v1/nodes/a/proxy/b/", "/b/"),
        ("/api/v1/nodes/a/proxy//b", "/b"),
    ] {
        let info = RequestInfo::parse(&http::Method::GET, path, crate::Query::new("")).unwrap();
        assert_eq!(proxied_path(&info), wanted, "{path}");
    }
    assert_eq!(escaped("/a b/é?#%'(~$"), "/a%20b/%C3%A9%3F%23%25%27%28~$");
}

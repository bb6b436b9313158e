//! Watches over WebSocket, as browsers open them.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use testkit::{Received, Server, WebSocket};

const PATIENCE: Duration = Duration::from_secs(30);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ORIGIN: &str = "Origin: https://headlamp.example.com\r\n";
const BEARER: &str = "base64url.bearer.authorization.k8s.io";

fn start() -> Server {
    let binary =
        std::env::var_os("KEELSON_BIN").map_or_else(|| env!("CARGO_BIN_EXE_keelson").into(), PathBuf::from);
    Server::start(&binary, &["--controllers=-*"]).unwrap()
}

fn create(server: &Server, name: &str, value: &str) -> String {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"key": value}});
    let (status, made) = server.call("POST", CONFIG_MAPS, &object).unwrap();
    assert_eq!(status, 201, "{made}");
    made["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

fn authorization(server: &Server) -> String {
    format!("Authorization: Bearer {}\r\n", server.token())
}

fn watch(server: &Server, query: &str, headers: &str) -> WebSocket {
    let path = format!("{CONFIG_MAPS}?watch=true&{query}");
    WebSocket::open_with(&server.target().unwrap(), &path, headers, PATIENCE).unwrap()
}

/// The event of a message of text.
fn event(socket: &mut WebSocket) -> Value {
    match socket.receive().unwrap() {
        Some(Received::Text(text)) => {
            assert!(text.ends_with("}\n"), "{text}");
            serde_json::from_str(&text).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_event_is_a_message() {
    let server = start();
    create(&server, "first", "a");
    // The token is one of the protocols, as browsers cannot set headers.
    let token = URL_SAFE_NO_PAD.encode(server.token());
    let headers = format!("{ORIGIN}Sec-WebSocket-Protocol: {BEARER}.{token}, base64.binary.k8s.io\r\n");
    let mut socket = watch(&server, "resourceVersion=0", &headers);
    assert_eq!(socket.protocol, "base64.binary.k8s.io");
    create(&server, "second", &"large ".repeat(150_000));
    create(&server, "third", "c");
    let (status, _) = server.call("DELETE", &format!("{CONFIG_MAPS}/first"), &Value::Null).unwrap();
    assert_eq!(status, 200);
    for (kind, name) in [("ADDED", "first"), ("ADDED", "second"), ("ADDED", "third"), ("DELETED", "first")] {
        let event = event(&mut socket);
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!(kind), &json!(name)));
        assert_eq!(event["object"]["kind"], "ConfigMap");
    }
    // The client's words are ignored, its pings answered, and its end is answered with the server's.
    socket.send(0, b"ignored").unwrap();
    socket.ping(b"are you there").unwrap();
    assert_eq!(socket.receive().unwrap(), Some(Received::Pong(b"are you there".to_vec())));
    socket.close().unwrap();
    assert_eq!(socket.receive().unwrap(), Some(Received::Close(1000)));
    assert_eq!(socket.receive().unwrap(), None);
}

#[test]
fn other_formats_end_and_errors() {
    let server = start();
    let from = create(&server, "first", "a");
    let accept = |media_type: &str| format!("{}{ORIGIN}Accept: {media_type}\r\n", authorization(&server));

    // Bytes, without the length that comes before each event of other watches.
    let protobuf = accept("application/vnd.kubernetes.protobuf;stream=watch");
    let mut socket = watch(&server, "resourceVersion=0&timeoutSeconds=1", &protobuf);
    let Some(Received::Binary(message)) = socket.receive().unwrap() else { panic!("no message") };
    assert_eq!(message.get(..7), Some(&b"\x0a\x05ADDED"[..]));
    // The watch ends at its time.
    assert_eq!(socket.receive().unwrap(), Some(Received::Close(1000)));

    let table = accept("application/json;as=Table;v=v1;g=meta.k8s.io");
    let mut socket = watch(&server, "resourceVersion=0", &table);
    assert_eq!(event(&mut socket)["object"]["rows"][0]["cells"][0], "first");

    let json = format!("{}{ORIGIN}", authorization(&server));
    let mut socket =
        watch(&server, &format!("resourceVersion={from}&allowWatchBookmarks=true&timeoutSeconds=3"), &json);
    create(&server, "second", "b");
    assert_eq!(event(&mut socket)["object"]["metadata"]["name"], "second");
    create(&server, "third", "c");
    assert_eq!(event(&mut socket)["object"]["metadata"]["name"], "third");

    // Without an origin, with two protocols, without permission.
    let refused = |headers: &str| {
        let path = format!("{CONFIG_MAPS}?watch=true");
        let opened = WebSocket::open_with(&server.target().unwrap(), &path, headers, PATIENCE);
        opened.unwrap_err().to_string()
    };
    assert!(refused(&authorization(&server)).contains("but 403"), "an origin is needed");
    let two = format!("{json}Sec-WebSocket-Protocol: a, b\r\n");
    assert!(refused(&two).contains("but 400"), "one protocol at most");
    assert!(refused(ORIGIN).contains("forbidden"), "strangers have no watches");
}

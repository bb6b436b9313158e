//! A browser as a client: headless Chromium watches over a WebSocket, with the token among the protocols, and
//! tells the page's server what it gets.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use testkit::{Folder, Server, tool};

const PATIENCE: Duration = Duration::from_secs(120);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

/// A page that opens a WebSocket and tells of everything that happens to it. The server asks for client
/// certificates: Chromium opens a WebSocket only if an ordinary request has settled before that there is
/// none.
fn page(server: &Server) -> String {
    let address = server.url().trim_start_matches("https://");
    let token = URL_SAFE_NO_PAD.encode(server.token());
    format!(
        r#"<!doctype html><script>
        const tell = what => fetch("/told", {{method: "POST", body: JSON.stringify(what)}});
        const watch = () => {{
            const socket = new WebSocket("wss://{address}{CONFIG_MAPS}?watch=true&resourceVersion=0",
                ["base64url.bearer.authorization.k8s.io.{token}", "base64.binary.k8s.io"]);
            socket.onopen = () => tell({{opened: socket.protocol}});
            socket.onmessage = event => tell({{message: JSON.parse(event.data)}});
            socket.onclose = event => tell({{closed: event.code}});
        }};
        fetch("https://{address}/version", {{mode: "no-cors"}}).then(watch);
        </script>"#
    )
}

/// Serves the page, and what it tells; ends with the process.
fn serve(listener: TcpListener, page: String, told: Sender<Value>) {
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (page, told) = (page.clone(), told.clone());
            std::thread::spawn(move || answer(stream, &page, &told));
        }
    });
}

fn answer(mut stream: TcpStream, page: &str, told: &Sender<Value>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok()?
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    if first.starts_with("POST") {
        told.send(serde_json::from_slice(&body).ok()?).ok()?;
    }
    let text = if first.starts_with("GET / ") { page } else { "" };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(text.as_bytes())).ok()
}

/// A browser, which ends with this value.
struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn next(told: &Receiver<Value>) -> Value {
    told.recv_timeout(PATIENCE).expect("the page tells something")
}

#[test]
fn browser_watches_over_a_websocket() {
    let chromium = tool("chromium").unwrap();
    let server = Server::start(&binary(), &["--controllers=-*"]).unwrap();
    let make = |name: &str| {
        let object = json!({"metadata": {"name": name}, "data": {"key": "ä"}});
        assert_eq!(server.call("POST", CONFIG_MAPS, &object).unwrap().0, 201);
    };
    make("first");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (sender, told) = channel();
    serve(listener, page(&server), sender);
    let profile = Folder::new().unwrap();
    let child = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        // The page is not asked whether it trusts the authority of the test.
        .args(["--ignore-certificate-errors", "--no-proxy-server"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(["--remote-debugging-port=0", &url])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _browser = Browser(child);
    assert_eq!(next(&told), json!({"opened": "base64.binary.k8s.io"}));
    let message = next(&told);
    let event = &message["message"];
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("first")));
    assert_eq!(event["object"]["data"]["key"], "ä");
    make("second");
    assert_eq!(next(&told)["message"]["object"]["metadata"]["name"], "second");
    let (code, _) = server.call("DELETE", &format!("{CONFIG_MAPS}/first"), &Value::Null).unwrap();
    assert_eq!(code, 200);
    assert_eq!(next(&told)["message"]["type"], "DELETED");
    server.terminate().unwrap();
    assert!(next(&told)["closed"].is_number());
}

//! What is done over an upgraded connection: commands, main processes, ports.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::stream::{Sender, Stream};
use super::{KubeletRequest, spdy, websocket};

/// Serves a SPDY connection to its end.
pub(super) async fn serve_spdy(
    mut connection: spdy::Connection,
    request: &KubeletRequest,
    what: &str,
    folder: &Path,
) {
    if what == "portForward" {
        return forward(connection).await;
    }
    let closer = connection.closer();
    let wanted = names(request).len();
    let mut streams = BTreeMap::new();
    while streams.len() < wanted {
        let Some(stream) = connection.next().await else { return };
        let Some(name) = stream.headers.get("streamtype").cloned() else { return };
        streams.insert(name, stream);
    }
    // Data goes on to the streams, and pings are answered.
    tokio::spawn(async move { while connection.next().await.is_some() {} });
    // The end of the connection is the same in both cases.
    let _ = command(streams, request, what, folder).await;
    closer.close().await;
}

/// Serves a WebSocket to its end.
pub(super) async fn serve_websocket(
    mut connection: websocket::Connection,
    request: &KubeletRequest,
    what: &str,
    folder: &Path,
) {
    let closer = connection.closer();
    if what == "portForward" {
        let mut forwarded = Vec::new();
        let ports = request.parameters("port").join(",");
        for (at, port) in (0..).zip(ports.split(',').filter(|port| !port.is_empty())) {
            let headers = BTreeMap::from([("port".to_owned(), port.to_owned())]);
            let data = connection.open(2 * at, headers);
            let error = connection.open(2 * at + 1, BTreeMap::new());
            let number = port.parse::<u16>().unwrap_or_default().to_le_bytes();
            for stream in [&data, &error] {
                let _ = stream.sender().send(&number).await;
            }
            forwarded.push(tokio::spawn(forward_one(error, data)));
        }
        tokio::spawn(connection.run());
        for one in forwarded {
            let _ = one.await;
        }
    } else {
        let numbered = ["stdin", "stdout", "stderr", "error", "resize"];
        let named = names(request);
        let numbered = (0..).zip(numbered).filter(|(_, name)| named.contains(name));
        let streams: BTreeMap<String, Stream> =
            numbered.map(|(at, name)| (name.to_owned(), connection.open(at, BTreeMap::new()))).collect();
        connection.greet(1).await;
        tokio::spawn(connection.run());
        let _ = command(streams, request, what, folder).await;
    }
    closer.close().await;
}

/// The streams that a request asks for.
fn names(request: &KubeletRequest) -> Vec<&'static str> {
    let has_terminal = request.has("tty");
    let all = [
        ("stdin", request.has("input")),
        ("stdout", request.has("output")),
        ("stderr", request.has("error") && !has_terminal),
        ("error", true),
        ("resize", has_terminal),
    ];
    all.into_iter().filter(|(_, is_asked_for)| *is_asked_for).map(|(name, _)| name).collect()
}

async fn command(
    mut streams: BTreeMap<String, Stream>,
    request: &KubeletRequest,
    what: &str,
    folder: &Path,
) -> Option<()> {
    let error = streams.remove("error")?;
    if let (Some(mut sizes), Some(stdout)) = (streams.remove("resize"), streams.get("stdout")) {
        let size = sizes.data.recv().await?;
        stdout.sender().send(&size).await.ok()?;
    }
    let [stdin, stdout, stderr] = ["stdin", "stdout", "stderr"].map(|name| streams.remove(name));
    let status = match what {
        "exec" => run(&request.parameters("command"), folder, stdin, &stdout, &stderr).await,
        _ => greet(stdin, &stdout).await,
    };
    error.sender().send(status.as_bytes()).await.ok()?;
    for stream in [&Some(error), &stdout, &stderr].into_iter().flatten() {
        stream.sender().end().await.ok()?;
    }
    Some(())
}

const SUCCESS: &str = r#"{"metadata":{},"status":"Success"}"#;

async fn run(
    words: &[String],
    folder: &Path,
    stdin: Option<Stream>,
    stdout: &Option<Stream>,
    stderr: &Option<Stream>,
) -> String {
    let failure =
        |why: String| format!(r#"{{"metadata":{{}},"status":"Failure","message":{why:?},"code":500}}"#);
    let Some((program, arguments)) = words.split_first() else { return failure("no command".into()) };
    let child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return failure(error.to_string()),
    };
    if let (Some(mut stream), Some(mut input)) = (stdin, child.stdin.take()) {
        tokio::spawn(async move {
            while let Some(data) = stream.data.recv().await {
                if input.write_all(&data).await.is_err() {
                    break;
                }
            }
        });
    }
    let sender = |stream: &Option<Stream>| stream.as_ref().map(Stream::sender);
    tokio::join!(copy(child.stdout.take(), sender(stdout)), copy(child.stderr.take(), sender(stderr)),);
    match child.wait().await.ok().and_then(|status| status.code()) {
        Some(0) => SUCCESS.to_owned(),
        Some(code) => format!(
            r#"{{"metadata":{{}},"status":"Failure","message":"command terminated with non-zero exit code","reason":"NonZeroExitCode","details":{{"causes":[{{"reason":"ExitCode","message":"{code}"}}]}}}}"#
        ),
        None => failure("ended by a signal".into()),
    }
}

async fn copy(from: Option<impl AsyncRead + Unpin>, to: Option<Sender>) {
    let (Some(mut from), Some(to)) = (from, to) else { return };
    let mut buffer = vec![0; 16 << 10];
    while let Ok(read) = from.read(&mut buffer).await
        && let Some(data) = buffer.get(..read).filter(|data| !data.is_empty())
        && to.send(data).await.is_ok()
    {}
}

async fn greet(stdin: Option<Stream>, stdout: &Option<Stream>) -> String {
    let Some(to) = stdout.as_ref().map(Stream::sender) else { return SUCCESS.to_owned() };
    let mut is_open = to.send(b"hello\n").await.is_ok();
    if let Some(mut stdin) = stdin {
        while let Some(data) = stdin.data.recv().await.filter(|_| is_open) {
            is_open = to.send(&data.to_ascii_uppercase()).await.is_ok();
        }
    }
    SUCCESS.to_owned()
}

/// A connection has a stream for its errors and one for its data, which name the port and each other.
async fn forward(mut connection: spdy::Connection) {
    let mut waiting: BTreeMap<String, Stream> = BTreeMap::new();
    while let Some(stream) = connection.next().await {
        let id = stream.headers.get("requestid").cloned().unwrap_or_default();
        match waiting.remove(&id) {
            None => drop(waiting.insert(id, stream)),
            Some(first) => {
                let is_error = first.headers.get("streamtype").is_some_and(|kind| kind == "error");
                let (error, data) = if is_error { (first, stream) } else { (stream, first) };
                tokio::spawn(forward_one(error, data));
            }
        }
    }
}

async fn forward_one(error: Stream, mut data: Stream) -> std::io::Result<()> {
    let port = data.headers.get("port").and_then(|port| port.parse::<u16>().ok()).unwrap_or_default();
    let to = data.sender();
    match TcpStream::connect(("127.0.0.1", port)).await {
        Ok(socket) => {
            let (from, mut socket) = socket.into_split();
            tokio::join!(copy(Some(from), Some(to.clone())), async {
                while let Some(data) = data.data.recv().await {
                    if socket.write_all(&data).await.is_err() {
                        break;
                    }
                }
                drop(socket);
            });
        }
        Err(why) => error.sender().send(format!("no connection to port {port}: {why}").as_bytes()).await?,
    }
    to.end().await?;
    error.sender().end().await
}

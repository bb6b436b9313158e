//! Peers that do not read, and peers that take all connections.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use testkit::http::{Connection, Error, Target};
use testkit::{Folder, Server, TOKEN};

use super::{Caller, PATIENCE, binary, megabytes, resident, start};

const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;

/// An HTTP/2 connection that gives no more room for responses than it says at its start.
pub(super) struct Reluctant {
    connection: Connection,
    unread: Vec<u8>,
    next_stream: u8,
    /// The content of the last frame.
    content: Vec<u8>,
}

impl Reluctant {
    /// Opens a connection whose streams have windows of `window` bytes.
    pub(super) fn open(target: &Target, window: u8) -> Result<Self, Error> {
        let mut connection = target.http2().connect(PATIENCE)?;
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, window]);
        connection.send(&bytes)?;
        Ok(Self { connection, unread: Vec::new(), next_stream: 1, content: Vec::new() })
    }

    /// Asks for a path, without a body. Gives the stream.
    fn get(&mut self, path: &str, token: Option<&str>) -> Result<u8, Error> {
        self.get_as(path, "*/*", token)
    }

    /// The same, in a form.
    pub(super) fn get_as(&mut self, path: &str, accept: &str, token: Option<&str>) -> Result<u8, Error> {
        let mut block = vec![0x82, 0x87, 0x04, u8::try_from(path.len()).unwrap()];
        block.extend(path.as_bytes());
        block.extend([0x0f, 0x04, u8::try_from(accept.len()).unwrap()]);
        block.extend(accept.as_bytes());
        if let Some(token) = token {
            let value = format!("Bearer {token}");
            block.extend([0x0f, 0x08, u8::try_from(value.len()).unwrap()]);
            block.extend(value.as_bytes());
        }
        let stream = self.next_stream;
        self.next_stream += 2;
        let [high, low] = u16::try_from(block.len()).unwrap().to_be_bytes();
        let mut frame = vec![0, high, low, HEADERS, 5, 0, 0, 0, stream];
        frame.extend(block);
        self.connection.send(&frame)?;
        Ok(stream)
    }

    /// How many of the next `count` responses are 200. No other status is one byte.
    pub(super) fn accepted(&mut self, count: usize) -> usize {
        self.connection.allow(PATIENCE);
        let (mut responses, mut accepted) = (0, 0);
        while responses < count {
            let (kind, _) = self.frame().expect("a frame in time").expect("an open connection");
            if kind == HEADERS {
                responses += 1;
                accepted += usize::from(self.content.first() == Some(&0x88));
            }
        }
        accepted
    }

    /// The next frame: its type and stream; none when the connection was closed.
    fn frame(&mut self) -> Result<Option<(u8, u8)>, Error> {
        loop {
            if let Some((head, rest)) = self.unread.split_first_chunk::<9>() {
                let length = usize::from(head[1]) << 8 | usize::from(head[2]);
                let frame = (head[3], head[8]);
                if rest.len() >= length {
                    self.content = rest[..length].to_vec();
                    self.unread.drain(..9 + length);
                    return Ok(Some(frame));
                }
            }
            match self.connection.receive() {
                Ok(Some(bytes)) => self.unread.extend(bytes),
                Ok(None) | Err(Error::Connection { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for a frame on a stream. False if the connection was closed instead.
    fn waits_for(&mut self, kind: u8, stream: u8, patience: Duration) -> bool {
        self.connection.allow(patience);
        loop {
            match self.frame().expect("a frame in time") {
                Some(frame) if frame == (kind, stream) => return true,
                Some(_) => {}
                None => return false,
            }
        }
    }
}

/// A server that may have so many file descriptors.
pub(super) fn start_with_descriptors(count: u32, flags: &[&str]) -> (Server, Folder) {
    let folder = Folder::new().unwrap();
    let script = folder.path().join("limited");
    let text = format!("#!/bin/sh\nulimit -n {count}\nexec '{}' \"$@\"\n", binary().display());
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    (Server::start(&script, flags).unwrap(), folder)
}

/// Makes config maps with so many bytes each.
pub(super) fn fill(caller: &mut Caller, count: usize, bytes: usize) {
    for at in 0..count {
        put(caller, at, bytes, 'a');
    }
}

fn put(caller: &mut Caller, at: usize, bytes: usize, letter: char) {
    let value = letter.to_string().repeat(bytes);
    let body = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"large-{at}"}},"data":{{"a":"{value}"}}}}"#
    );
    let (collection, path) = (
        "/api/v1/namespaces/default/configmaps",
        format!("/api/v1/namespaces/default/configmaps/large-{at}"),
    );
    let answer = match letter {
        'a' => caller.ask("POST", collection, body.as_bytes()),
        _ => caller.ask("PUT", &path, body.as_bytes()),
    };
    assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
}

pub(super) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn strangers_with_shut_windows_do_not_lock_others_out() {
    for (descriptors, strangers) in [(512, 280), (1024, 800)] {
        let (server, _folder) = start_with_descriptors(descriptors, &[]);
        let target = server.target().unwrap();
        let begin = Instant::now();
        let mut held = Vec::new();
        for _ in 0..strangers {
            let mut stranger = Reluctant::open(&target, 0).expect("a stranger gets in");
            stranger.get("/version", None).expect("a stranger asks");
            held.push(stranger);
        }
        println!("{strangers} strangers, {descriptors} descriptors: there after {:?}", begin.elapsed());
        let slowest = (0..10).map(|_| Caller::new(&server).still_served()).max();
        println!("{strangers} strangers, {descriptors} descriptors: slowest get {slowest:?}");
        // Writes go on too: the store has its descriptors.
        fill(&mut Caller::new(&server), 3, 100_000);
        drop(held);
    }
}

#[test]
fn watch_ends_at_its_time_though_nobody_reads_it() {
    let server = start(&[]);
    Caller::new(&server).still_served();
    let target = server.target().unwrap();
    let mut peer = Reluctant::open(&target, 0).unwrap();
    let begin = Instant::now();
    let stream = peer.get("/api/v1/namespaces?watch=1&timeoutSeconds=2", Some(TOKEN)).unwrap();
    assert!(peer.waits_for(RST_STREAM, stream, PATIENCE), "the stream alone is ended");
    let took = begin.elapsed();
    println!("a watch of 2 s that nobody reads ended after {took:?}");
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(15), "{took:?}");
}

#[test]
fn stalled_stream_ends_beside_one_that_is_read() {
    let server = start(&["--response-stall-timeout=2s"]);
    let mut caller = Caller::new(&server);
    fill(&mut caller, 3, 100_000);
    let target = server.target().unwrap();
    // A window with room for the first bytes of each response, and for the whole of short ones.
    let mut peer = Reluctant::open(&target, 200).unwrap();
    let begin = Instant::now();
    let list = peer.get(CONFIG_MAPS, Some(TOKEN)).unwrap();
    let watch = peer.get("/api/v1/namespaces?watch=1", Some(TOKEN)).unwrap();
    // The first events of the watch are one small piece, which passes for sent until the next event.
    assert!(peer.waits_for(DATA, watch, PATIENCE), "the first bytes of the watch");
    let namespace = br#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"another"}}"#;
    assert_eq!(caller.ask("POST", "/api/v1/namespaces", namespace).status, 201);
    let mut ended = Vec::new();
    while ended.len() < 2 {
        // Short responses on the same connection, read as they come.
        let live = peer.get("/livez", None).unwrap();
        assert!(peer.next_stream < 250, "the stalled streams are still there after {:?}", begin.elapsed());
        loop {
            match peer.frame().unwrap().expect("the connection stays open") {
                (DATA, stream) if stream == live => break,
                (RST_STREAM, stream) => ended.push(stream),
                _ => {}
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    ended.sort_unstable();
    println!("a stalled list and a stalled watch ended after {:?}", begin.elapsed());
    assert_eq!(ended, [list, watch]);
}

#[test]
fn connection_that_is_not_read_is_closed_over_http1() {
    let server = start(&["--response-stall-timeout=1s", "-v=2"]);
    let mut caller = Caller::new(&server);
    fill(&mut caller, 24, 1_000_000);
    let mut stalled = server.target().unwrap().connect(PATIENCE).unwrap();
    let request = format!("GET {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    stalled.send(request.as_bytes()).unwrap();
    let begin = Instant::now();
    testkit::eventually("the connection is closed", PATIENCE, || server.logged("its peer does not") > 0);
    let mut received = 0;
    while let Ok(Some(bytes)) = stalled.receive() {
        received += bytes.len();
    }
    println!(
        "of a list of 24 MB that was not read for {:?}, {} came",
        begin.elapsed(),
        megabytes(received as u64)
    );
    assert!(received < 24_000_000, "{received} bytes");
    caller.still_served();
}

#[test]
fn list_that_is_read_slowly_ends_with_the_time_of_its_request() {
    let server = start(&["--request-timeout=2s"]);
    let mut caller = Caller::new(&server);
    fill(&mut caller, 24, 1_000_000);
    let mut slow = server.target().unwrap().connect(PATIENCE).unwrap();
    let request = format!("GET {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    slow.send(request.as_bytes()).unwrap();
    let begin = Instant::now();
    let mut received = 0;
    while begin.elapsed() < Duration::from_secs(8)
        && let Ok(Some(bytes)) = slow.receive()
    {
        received += bytes.len();
        std::thread::sleep(Duration::from_millis(20));
    }
    while let Ok(Some(bytes)) = slow.receive() {
        received += bytes.len();
    }
    println!("of a list of 24 MB that was read slowly for 8 s, {} came", megabytes(received as u64));
    assert!(received < 24_000_000, "{received} bytes");
}

#[test]
fn states_that_stalled_lists_hold_are_bounded() {
    const OBJECTS: usize = 20;
    let server = start(&["--storage=memory", "--history-retention=1s"]);
    let mut caller = Caller::new(&server);
    fill(&mut caller, OBJECTS, 1_000_000);
    let before = resident(&server);
    let target = server.target().unwrap();
    let mut first = Reluctant::open(&target, 0).unwrap();
    let begin = Instant::now();
    let stream = first.get(CONFIG_MAPS, Some(TOKEN)).unwrap();
    let mut stalled = Vec::new();
    // 500 MB of superseded objects, of which each stalled list would hold 20 MB.
    for letter in ('b'..='z').cycle().take(25) {
        for at in 0..OBJECTS {
            put(&mut caller, at, 1_000_000, letter);
        }
        let mut peer = Reluctant::open(&target, 0).unwrap();
        peer.get(CONFIG_MAPS, Some(TOKEN)).unwrap();
        stalled.push(peer);
    }
    let took = begin.elapsed();
    let grown = resident(&server).saturating_sub(before);
    println!("25 stalled lists of 20 MB each, different states: {} more after {took:?}", megabytes(grown));
    assert!(first.waits_for(RST_STREAM, stream, PATIENCE), "the oldest list is ended");
    println!("the oldest of them ended after at most {:?}", begin.elapsed());
    // The lists are looked at each second, and so is the history.
    let settled = || resident(&server).saturating_sub(before);
    while settled() >= 450_000_000 && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("{} more after {:?}", megabytes(settled()), begin.elapsed());
    assert!(settled() < 450_000_000, "{}", megabytes(settled()));
    caller.still_served();
}

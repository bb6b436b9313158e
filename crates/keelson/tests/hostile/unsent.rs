//! Answers that nobody reads: what they take, and whether others are answered meanwhile.

use std::time::{Duration, Instant};

use testkit::{Server, TOKEN};

use super::peers::{CONFIG_MAPS, Reluctant, fill};
use super::{Answer, Caller, PATIENCE, megabytes, resident, start};

/// Connections with as many streams as one may have.
const CONNECTIONS: usize = 5;
const STREAMS: usize = 100;
const ALL: usize = CONNECTIONS * STREAMS;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The most that 500 streams may take when they share what they are sent: about 0.1 MB for each.
const MOST_SHARED: u64 = 60_000_000;

/// The most that 500 streams may take when they do not: the budget of a caller, and what the allocator keeps.
const MOST: u64 = 200_000_000;

/// What was seen of requests whose answers nobody reads.
struct Unread {
    accepted: usize,
    grown: u64,
    /// Until they are dropped, they are unread.
    peers: Vec<Reluctant>,
}

/// Asks for a path 500 times, with windows that are shut.
fn unread(server: &Server, path: &str, accept: &str) -> Unread {
    let before = resident(server);
    let target = server.target().unwrap();
    let mut peers: Vec<_> = (0..CONNECTIONS).map(|_| Reluctant::open(&target, 0).unwrap()).collect();
    for peer in &mut peers {
        for _ in 0..STREAMS {
            peer.get_as(path, accept, Some(TOKEN)).unwrap();
        }
    }
    let accepted = peers.iter_mut().map(|peer| peer.accepted(STREAMS)).sum();
    let grown = resident(server).saturating_sub(before);
    println!("{ALL} times {path} as {accept}: {accepted} accepted, {} more memory", megabytes(grown));
    Unread { accepted, grown, peers }
}

impl Caller {
    /// Asks as somebody else.
    fn other(&self, path: &str) -> Answer {
        let begin = Instant::now();
        let mut connection = self.target.connect(PATIENCE).unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nImpersonate-User: other\r\n\
             Impersonate-Group: system:masters\r\n\r\n"
        );
        connection.send(request.as_bytes()).unwrap();
        let mut head = connection.head("GET").unwrap();
        let body = connection.body(&mut head).unwrap();
        Answer { status: head.status, headers: head.headers, body, took: begin.elapsed() }
    }
}

#[test]
fn documents_that_nobody_reads_are_in_memory_once() {
    let server = start(&[]);
    let mut caller = Caller::new(&server);
    for (path, accept) in [
        ("/openapi/v2", "application/json"),
        ("/openapi/v3/api/v1", "application/json"),
        ("/openapi/v3/apis/apps/v1", "application/json"),
        ("/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
    ] {
        // Made once, so that only what is unread is measured.
        assert_eq!(caller.ask_as("GET", path, accept, "", b"").status, 200);
        let unread = unread(&server, path, accept);
        assert_eq!(unread.accepted, ALL, "{path}");
        assert!(unread.grown < MOST_SHARED, "{path}: {}", megabytes(unread.grown));
        println!("beside them a get took {:?}", caller.still_served());
    }
}

#[test]
fn objects_that_nobody_reads_are_in_memory_once() {
    let server = start(&[]);
    let mut caller = Caller::new(&server);
    fill(&mut caller, 1, 1_000_000);
    let (object, watch) =
        (format!("{CONFIG_MAPS}/large-0"), format!("{CONFIG_MAPS}?watch=1&resourceVersion=0"));
    for path in [object, watch] {
        let unread = unread(&server, &path, "application/json");
        assert_eq!(unread.accepted, ALL, "{path}");
        assert!(unread.grown < MOST_SHARED, "{path}: {}", megabytes(unread.grown));
        println!("beside them a get took {:?}", caller.still_served());
    }
}

#[test]
fn caller_that_does_not_read_is_refused_and_others_are_not() {
    let server = start(&[]);
    let mut caller = Caller::new(&server);
    fill(&mut caller, 20, 1_000_000);
    let object = format!("{CONFIG_MAPS}/large-0");
    for (path, accept) in [
        (object.as_str(), PROTOBUF),
        (object.as_str(), "application/yaml"),
        (CONFIG_MAPS, PROTOBUF),
        (CONFIG_MAPS, "application/json"),
    ] {
        assert_eq!(caller.ask_as("GET", path, accept, "", b"").status, 200);
        let unread = unread(&server, path, accept);
        assert!(unread.accepted >= 20, "{path} as {accept}");
        assert!(unread.grown < MOST, "{path} as {accept}: {}", megabytes(unread.grown));
        if unread.accepted < ALL {
            let refused = caller.ask("GET", "/api/v1/namespaces/default", b"");
            assert_eq!(refused.status, 429, "{}", refused.text());
            assert_eq!(refused.all("retry-after").collect::<Vec<_>>(), ["1"]);
            let text = refused.text();
            assert!(text.starts_with("Too many requests, please try again later.\nResponses to"), "{text}");
            let metrics = caller.other("/metrics");
            assert!(metrics.metric("keelson_unsent_bytes") >= 60e6);
            assert!(metrics.metric("keelson_unsent_refused_requests_total") >= 1.0);
        }
        let slowest = (0..20).map(|_| caller.other("/api/v1/namespaces/default")).max_by_key(|it| it.took);
        let slowest = slowest.unwrap();
        println!("the slowest get of another caller took {:?}", slowest.took);
        assert_eq!(slowest.status, 200, "{}", slowest.text());
        assert_eq!(caller.other("/livez").status, 200);
        assert!(caller.other(CONFIG_MAPS).body.len() > 20_000_000, "a list of another caller is whole");
        drop(unread.peers);
        let begin = Instant::now();
        while caller.ask("GET", "/api/v1/namespaces/default", b"").status != 200 {
            assert!(begin.elapsed() < PATIENCE, "what was held is given back");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

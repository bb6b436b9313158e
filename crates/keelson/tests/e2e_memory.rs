//! The ceiling of the server's memory: many lists at once in all formats, half of them read slowly, with a
//! client beside them that asks for little.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use memchr::memmem;
use testkit::http::{Connection, Target};
use testkit::{Server, TOKEN};

const PATIENCE: Duration = Duration::from_secs(60);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// The formats, and how often the name of each object is in each.
const FORMATS: [(&str, usize); 4] = [
    ("application/json", 1),
    ("application/vnd.kubernetes.protobuf", 1),
    (TABLE, 2),
    ("application/yaml", 1),
];

fn start(limit: &str) -> Server {
    let binary = testkit::server_binary(env!("CARGO_BIN_EXE_keelson"));
    Server::start(&binary, &[&format!("--memory-limit={limit}")]).unwrap()
}

fn resident(server: &Server) -> u64 {
    server.process().unwrap().resident_memory().unwrap()
}

struct Answer {
    status: u16,
    retry_after: Option<String>,
    body: Vec<u8>,
}

impl Answer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body[..self.body.len().min(1000)]).into_owned()
    }
}

/// One exchange; `pause` is made after each piece of the answer.
fn ask_on(
    connection: &mut Connection,
    target: &Target,
    [method, path, accept]: [&str; 3],
    body: &[u8],
    pause: Duration,
) -> Answer {
    let mut request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nAccept: {accept}\r\n",
        target.authority()
    );
    if !body.is_empty() {
        request += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    }
    connection.allow(PATIENCE);
    connection.send(&[request.as_bytes(), b"\r\n", body].concat()).unwrap();
    let mut head = connection.head(method).unwrap();
    let mut whole = Vec::new();
    while let Some(piece) = connection.chunk(&mut head).unwrap() {
        whole.extend(piece);
        std::thread::sleep(pause);
    }
    let retry_after = head.header("retry-after").map(str::to_owned);
    Answer { status: head.status, retry_after, body: whole }
}

fn ask(target: &Target, request: [&str; 3], body: &[u8]) -> Answer {
    ask_on(&mut target.connect(PATIENCE).unwrap(), target, request, body, Duration::ZERO)
}

/// Makes config maps of 20 kB.
fn fill(target: &Target, count: usize) {
    let value = "x".repeat(20_000);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let value = &value;
            scope.spawn(move || {
                let mut connection = target.connect(PATIENCE).unwrap();
                for at in (thread..count).step_by(4) {
                    let map =
                        format!(r#"{{"metadata":{{"name":"map-{at:05}"}},"data":{{"value":"{value}"}}}}"#);
                    let request = ["POST", MAPS, "application/json"];
                    let answer = ask_on(&mut connection, target, request, map.as_bytes(), Duration::ZERO);
                    assert_eq!(answer.status, 201, "{}", answer.text());
                }
            });
        }
    });
}

fn metric(target: &Target, name: &str) -> f64 {
    let answer = ask(target, ["GET", "/metrics", "text/plain"], b"");
    let text = String::from_utf8(answer.body).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name}")).trim().parse().unwrap()
}

/// What is asked for all the time beside a burst, and how often it was answered.
fn mouse(target: &Target, is_over: &AtomicBool) -> usize {
    let mut connection = target.connect(PATIENCE).unwrap();
    let mut count = 0;
    while !is_over.load(Ordering::Acquire) {
        let get = ["GET", "/api/v1/namespaces/default", "application/json"];
        let answer = ask_on(&mut connection, target, get, b"", Duration::from_millis(2));
        assert_eq!(answer.status, 200, "{}", answer.text());
        count += 1;
    }
    count
}

#[test]
fn lists_in_all_formats_keep_the_server_below_its_ceiling() {
    const COUNT: usize = 750;
    const LIMIT: u64 = 160 << 20;
    let server = start(&LIMIT.to_string());
    let target = server.target().unwrap();
    fill(&target, COUNT);
    // What the writes have left behind goes back first.
    std::thread::sleep(Duration::from_secs(3));
    let before = resident(&server);
    let (is_over, most) = (AtomicBool::new(false), AtomicU64::new(0));
    let (whole, refused) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                most.fetch_max(resident(&server), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let mouse = scope.spawn(|| mouse(&target, &is_over));
        let clients: Vec<_> = (0..16)
            .map(|number| {
                let target = &target;
                scope.spawn(move || {
                    let (accept, names) = FORMATS[number % 4];
                    let pause = Duration::from_millis(if number < 8 { 2 } else { 0 });
                    let mut connection = target.connect(PATIENCE).unwrap();
                    let answer = ask_on(&mut connection, target, ["GET", MAPS, accept], b"", pause);
                    if answer.status == 429 {
                        assert!(answer.text().contains("memory limit"), "{}", answer.text());
                        return false;
                    }
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    let found = memmem::find_iter(&answer.body, "map-").count();
                    assert_eq!(found, COUNT * names, "{accept}: {} bytes", answer.body.len());
                    true
                })
            })
            .collect();
        let outcomes: Vec<bool> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        is_over.store(true, Ordering::Release);
        let asked = mouse.join().unwrap();
        println!("the client beside them was answered {asked} times");
        assert!(asked > 0);
        let whole = outcomes.iter().filter(|whole| **whole).count();
        (whole, outcomes.len() - whole)
    });
    let most = most.load(Ordering::Relaxed);
    println!("{whole} whole, {refused} refused; {} MB before, {} MB at most", before >> 20, most >> 20);
    assert!(whole > 0);
    assert!(most <= LIMIT + LIMIT / 10, "{most} bytes");
    let begin = Instant::now();
    loop {
        let now = resident(&server);
        if now <= before + before / 4 {
            println!("{} MB {} ms later", now >> 20, begin.elapsed().as_millis());
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(150), "{now} bytes, {before} before");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(metric(&target, "keelson_memory_limit_bytes"), LIMIT as f64);
    assert!(metric(&target, r#"keelson_memory_bytes{part="entries"}"#) > 20_000.0 * COUNT as f64);
    assert!(metric(&target, "keelson_memory_releases_total") > 0.0);
}

#[test]
fn past_the_limit_by_its_objects_alone_the_server_refuses_expensive_requests_only() {
    const COUNT: usize = 4000;
    let server = start("64Mi");
    let target = server.target().unwrap();
    fill(&target, COUNT);
    assert!(metric(&target, r#"keelson_memory_bytes{part="entries"}"#) > (64 << 20) as f64);
    for (accept, _) in FORMATS {
        let answer = ask(&target, ["GET", &format!("{MAPS}?timeout=4s"), accept], b"");
        assert_eq!(answer.status, 429, "{}", answer.text());
        assert_eq!(answer.retry_after.as_deref(), Some("5"));
        assert!(answer.text().contains("the server is near its memory limit"), "{}", answer.text());
    }
    let small = br#"{"metadata":{"name":"small"}}"#;
    for (request, body, status) in [
        (["GET", "/api/v1/namespaces/default/configmaps/map-00001", "application/json"], &b""[..], 200),
        (["GET", "/api/v1/namespaces/default/configmaps?limit=20", "application/json"], b"", 200),
        (["GET", "/api/v1/namespaces/kube-system/configmaps", "application/json"], b"", 200),
        (["GET", "/api/v1/namespaces", "application/json"], b"", 200),
        (["POST", MAPS, "application/json"], small, 201),
        (["DELETE", "/api/v1/namespaces/default/configmaps/small", "application/json"], b"", 200),
        (["GET", "/livez", "*/*"], b"", 200),
    ] {
        let begin = Instant::now();
        let answer = ask(&target, request, body);
        assert_eq!(answer.status, status, "{request:?}: {}", answer.text());
        println!("{request:?} took {} ms", begin.elapsed().as_millis());
    }
    assert!(metric(&target, "keelson_memory_refusals_total") >= 4.0);
    assert!(metric(&target, "keelson_memory_waits_total") >= 4.0);
    assert_eq!(metric(&target, "keelson_memory_cache_share"), 0.0);
}

//! Kubelets that accept connections and never answer, and clients that leave.

use std::time::{Duration, Instant};

use testkit::http::Target;
use testkit::https::Authority;
use testkit::{Folder, Kubelet, Server, TOKEN, WebSocket};

use super::peers::start_with_descriptors;
use super::{Caller, PATIENCE};

const DESCRIPTORS: u32 = 1024;
const EXECS: usize = 600;
const PODS: &str = "/api/v1/namespaces/default/pods";
const SILENT: &str = "/api/v1/namespaces/default/pods/pod/exec?command=true&stdout=1&container=silent";

/// A server with a pod, whose kubelet never answers.
struct Cluster {
    server: Server,
    _folders: [Folder; 2],
}

impl Cluster {
    fn start() -> Self {
        let folder = Folder::new().unwrap();
        let serving = Authority::new().unwrap().issue(&["127.0.0.1"]).unwrap();
        let kubelet = Kubelet::start(&serving, None, folder.path()).unwrap();
        let flags = ["--kubelet-preferred-address-types=InternalIP", "--storage=memory"];
        let (server, script) = start_with_descriptors(DESCRIPTORS, &flags);
        let mut caller = Caller::new(&server);
        let begin = Instant::now();
        while caller.ask("GET", "/api/v1/namespaces/default/serviceaccounts/default", b"").status != 200 {
            assert!(begin.elapsed() < PATIENCE, "the namespace has no service account");
            std::thread::sleep(Duration::from_millis(50));
        }
        let node = format!(
            r#"{{"metadata":{{"name":"node"}},"status":{{"addresses":[{{"type":"InternalIP","address":"127.0.0.1"}}],
            "daemonEndpoints":{{"kubeletEndpoint":{{"Port":{}}}}}}}}}"#,
            kubelet.port()
        );
        let pod = r#"{"metadata":{"name":"pod"},"spec":{"nodeName":"node","containers":[{"name":"silent","image":"x"}]}}"#;
        for (method, path, body) in [
            ("POST", "/api/v1/nodes", node.as_str()),
            ("PUT", "/api/v1/nodes/node/status", node.as_str()),
            ("POST", PODS, pod),
        ] {
            let answer = caller.ask(method, path, body.as_bytes());
            assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
        }
        Self { server, _folders: [folder, script] }
    }

    fn descriptors(&self) -> usize {
        let id = self.server.process().unwrap().id();
        std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().count()
    }

    /// Waits until the server has no more descriptors than before, but for a few.
    fn waits_for(&self, before: usize) {
        let begin = Instant::now();
        while self.descriptors() > before + 16 {
            assert!(begin.elapsed() < PATIENCE, "{} descriptors, {before} before", self.descriptors());
            std::thread::sleep(Duration::from_millis(50));
        }
        println!("{} descriptors {:?} later", self.descriptors(), begin.elapsed());
    }
}

#[test]
fn commands_whose_kubelet_never_answers_end_with_their_clients() {
    let cluster = Cluster::start();
    let target = cluster.server.target().unwrap();
    let before = cluster.descriptors();
    let (mut held, mut refused) = (Vec::new(), 0);
    for _ in 0..EXECS {
        match WebSocket::open(&target, SILENT, TOKEN, "v5.channel.k8s.io", PATIENCE) {
            Ok(socket) => held.push(socket),
            Err(error) => {
                assert!(error.to_string().contains("503"), "{error}");
                refused += 1;
            }
        }
    }
    // Backends are connected to after the response.
    std::thread::sleep(Duration::from_secs(1));
    let used = cluster.descriptors();
    println!("{} commands, {refused} refused: {used} descriptors, {before} before", held.len());
    assert!(held.len() > 100, "{} commands", held.len());
    assert!(used < DESCRIPTORS as usize - 100, "{used} descriptors");
    let slowest = (0..10).map(|_| Caller::new(&cluster.server).still_served()).max();
    println!("beside them, over new connections: slowest get {slowest:?}");
    assert_eq!(Caller::new(&cluster.server).ask("GET", "/livez", b"").status, 200);
    drop(held);
    cluster.waits_for(before);
    assert_eq!(Caller::new(&cluster.server).ask("GET", "/livez", b"").status, 200);
}

/// Sends a request for a command in a protocol that the kubelet has to agree to, and reads nothing.
fn ask(target: &Target) -> testkit::http::Connection {
    let mut connection = target.connect(PATIENCE).unwrap();
    let request = format!(
        "GET {SILENT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n"
    );
    connection.send(request.as_bytes()).unwrap();
    connection
}

#[test]
fn upgrades_that_a_kubelet_does_not_answer_end_with_their_clients_or_at_their_time() {
    let cluster = Cluster::start();
    let target = cluster.server.target().unwrap();
    let before = cluster.descriptors();
    let begin = Instant::now();
    let mut patient = ask(&target);
    let held: Vec<_> = (0..100).map(|_| ask(&target)).collect();
    std::thread::sleep(Duration::from_secs(1));
    let used = cluster.descriptors();
    println!("101 upgrades: {used} descriptors, {before} before");
    assert!(used >= before + 200, "{used} descriptors, {before} before");
    drop(held);
    cluster.waits_for(before);
    patient.allow(Duration::from_secs(60));
    let mut head = patient.head("GET").unwrap();
    let body = String::from_utf8(patient.body(&mut head).unwrap()).unwrap();
    println!("a client that waits got {} after {:?}", head.status, begin.elapsed());
    assert_eq!(head.status, 504, "{body}");
    assert!(body.contains("error dialing backend: no answer within 30 s"), "{body}");
}

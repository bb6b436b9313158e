//! Logs, commands, attached processes, copied files and forwarded ports: the real kubectl, and a small kubelet that speaks the real
//! protocols, over WebSockets and over SPDY.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use testkit::https::Authority;
use testkit::{Cli, Folder, Kubelet, Server};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server with a node, whose kubelet runs commands in a folder, and a pod on it.
struct Cluster {
    kubelet: Kubelet,
    folder: Folder,
    cli: Cli,
    namespace: String,
    server: Server,
}

impl Cluster {
    fn start() -> Self {
        let folder = Folder::new().unwrap();
        let (authority, clients) = (Authority::new().unwrap(), Authority::new().unwrap());
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let client = clients.issue(&["kube-apiserver"]).unwrap();
        let flags = [
            format!("--kubelet-certificate-authority={}", file("ca.crt", &authority.certificate)),
            format!("--kubelet-client-certificate={}", file("client.crt", &client.certificate)),
            format!("--kubelet-client-key={}", file("client.key", &client.key)),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            "--storage=memory".to_owned(),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let serving = authority.issue(&["127.0.0.1"]).unwrap();
        let kubelet = Kubelet::start(&serving, Some(&clients), folder.path()).unwrap();
        let server = Server::start(&testkit::server_binary(env!("CARGO_BIN_EXE_keelson")), &flags).unwrap();
        let cli = Cli::new(testkit::tool("kubectl").unwrap(), &server);
        let namespace = testkit::unique("streams");
        cli.ok(&["create", "namespace", &namespace]).unwrap();
        let cli = cli.with(&["--namespace", &namespace]);
        let cluster = Self { kubelet, folder, cli, namespace, server };
        cluster.populate();
        cluster
    }

    fn populate(&self) {
        let deadline = Instant::now() + PATIENCE;
        while self.cli.run(&["get", "serviceaccount", "default"]).unwrap().code != Some(0) {
            assert!(Instant::now() < deadline, "the namespace has no service account");
            std::thread::sleep(Duration::from_millis(50));
        }
        let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"node"}}"#;
        let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod"},"spec":{"nodeName":"node",
            "containers":[{"name":"main","image":"x","stdin":true}]}}"#;
        let two = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"two"},"spec":{"nodeName":"node",
            "containers":[{"name":"main","image":"x"},{"name":"moved","image":"x"}]}}"#;
        for (name, text) in [("node.json", node), ("pod.json", pod), ("two.json", two)] {
            let path = self.folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            self.cli.ok(&["create", "--filename", path.to_str().unwrap()]).unwrap();
        }
        let node = format!(
            r#"{{"status":{{"addresses":[{{"type":"InternalIP","address":"127.0.0.1"}}],
            "daemonEndpoints":{{"kubeletEndpoint":{{"Port":{}}}}}}}}}"#,
            self.kubelet.port()
        );
        let running = r#"{"status":{"phase":"Running"}}"#;
        for (what, patch) in [("node/node", node.as_str()), ("pod/pod", running), ("pod/two", running)] {
            self.cli.ok(&["patch", what, "--subresource=status", "--type=merge", "--patch", patch]).unwrap();
        }
    }

    /// kubectl over WebSockets, and kubectl over SPDY.
    fn both(&self) -> [Cli; 2] {
        ["true", "false"].map(|websockets| {
            self.cli
                .with_variable("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets)
                .with_variable("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets)
        })
    }

    /// Runs kubectl with input; returns what it wrote to standard output.
    fn with_input(&self, cli: &Cli, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let mut child = cli.command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writing = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().unwrap();
        writing.join().unwrap().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        output.stdout
    }
}

#[test]
fn logs_are_read_and_followed() {
    let cluster = Cluster::start();
    let cli = &cluster.cli;
    assert_eq!(cli.ok(&["logs", "pod"]).unwrap(), "line 1\nline 2\nline 3\n");
    assert_eq!(cli.ok(&["logs", "pod", "--tail=1", "--container=main"]).unwrap(), "line 3\n");
    let followed = cli.stream(&["logs", "--follow", "pod"]).unwrap();
    for line in 1..=10 {
        assert_eq!(followed.line(PATIENCE), Some(format!("line {line}")));
    }
    drop(followed);
    let path = format!("/api/v1/namespaces/{}/pods", cluster.namespace);
    let refused = cli.fails(&["get", "--raw", &format!("{path}/two/log")]).unwrap();
    assert!(refused.contains("choose one of: [main moved]"), "{refused}");
    let refused = cli.fails(&["get", "--raw", &format!("{path}/two/log?container=moved")]).unwrap();
    assert!(refused.contains("redirects forbidden"), "{refused}");
    let requests = cluster.kubelet.requests();
    let first = requests.first().unwrap();
    assert_eq!(first.path, format!("/containerLogs/{}/pod/main", cluster.namespace));
    assert!(requests.iter().all(|request| request.has_certificate));
    assert!(requests.iter().all(|request| request.header("authorization").is_empty()));
}

#[test]
fn commands_have_output_input_and_exit_codes() {
    let cluster = Cluster::start();
    for cli in cluster.both() {
        let said = cli.run(&["exec", "pod", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]).unwrap();
        assert_eq!((said.code, said.out.as_str()), (Some(7), "out\n"));
        assert!(said.err.starts_with("err\n"), "{said:?}");
        assert!(said.err.contains("command terminated with exit code 7"), "{said:?}");
        assert_eq!(cli.ok(&["exec", "pod", "--", "printf", "%s|", "a b", "c&d=+%"]).unwrap(), "a b|c&d=+%|");
        // More than any buffer on the way.
        let input: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
        assert_eq!(cluster.with_input(&cli, &["exec", "--stdin", "pod", "--", "cat"], &input), input);
        let absent = cli.run(&["exec", "pod", "--", "/no/such/program"]).unwrap();
        assert_eq!(absent.code, Some(1), "{absent:?}");
        assert!(absent.err.contains("No such file"), "{absent:?}");
    }
    let protocols: Vec<String> =
        cluster.kubelet.requests().iter().map(|request| request.header("upgrade").to_owned()).collect();
    assert!(protocols.iter().all(|protocol| protocol == "SPDY/3.1"), "{protocols:?}");
}

#[test]
fn commands_have_a_terminal_with_a_size() {
    let cluster = Cluster::start();
    for cli in cluster.both() {
        let mut terminal =
            cli.at_terminal(&["exec", "--stdin", "--tty", "pod", "--", "cat"], 33, 77).unwrap();
        terminal.shows(r#"{"Width":77,"Height":33}"#, PATIENCE).unwrap();
        terminal.type_in("typed\n").unwrap();
        terminal.shows("typed", PATIENCE).unwrap();
    }
}

#[test]
fn main_process_is_attached_to() {
    let cluster = Cluster::start();
    for cli in cluster.both() {
        let said = cluster.with_input(&cli, &["attach", "--stdin", "--quiet", "pod"], b"some words\n");
        assert_eq!(String::from_utf8(said).unwrap(), "hello\nSOME WORDS\n");
    }
}

#[test]
fn files_are_copied_in_and_out() {
    let cluster = Cluster::start();
    for (at, cli) in cluster.both().iter().enumerate() {
        let source = cluster.folder.path().join(format!("source-{at}"));
        let inside = cluster.folder.path().join(format!("inside-{at}"));
        let back = cluster.folder.path().join(format!("back-{at}"));
        let content: Vec<u8> = (0..500_000_u32).map(|at| (at % 253) as u8).collect();
        std::fs::write(&source, &content).unwrap();
        let in_pod = format!("pod:{}", inside.display());
        cli.ok(&["cp", source.to_str().unwrap(), &in_pod]).unwrap();
        assert_eq!(std::fs::read(&inside).unwrap(), content);
        cli.ok(&["cp", &in_pod, back.to_str().unwrap()]).unwrap();
        assert_eq!(std::fs::read(&back).unwrap(), content);
    }
}

#[test]
fn ports_are_forwarded() {
    let cluster = Cluster::start();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    // Says everything again when it has heard all of it.
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(read @ 1..) = socket.read(&mut buffer) {
                    if socket.write_all(&buffer[..read]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    for cli in cluster.both() {
        let forwarding =
            cli.stream(&["port-forward", "--address=127.0.0.1", "pod", &format!(":{port}")]).unwrap();
        let line = forwarding.line(PATIENCE).expect("the port is forwarded");
        let local = line.split_once("127.0.0.1:").and_then(|(_, rest)| rest.split_once(' ')).unwrap().0;
        let local: u16 = local.parse().unwrap();
        for round in 0..3_u8 {
            let mut socket = TcpStream::connect(("127.0.0.1", local)).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let sent = vec![round; 200_000];
            let mut reading = socket.try_clone().unwrap();
            let heard = std::thread::spawn(move || {
                let mut heard = vec![0; 200_000];
                reading.read_exact(&mut heard).map(|()| heard)
            });
            socket.write_all(&sent).unwrap();
            assert_eq!(heard.join().unwrap().unwrap(), sent);
        }
    }
}

#[test]
fn refused_connections_say_why() {
    let cluster = Cluster::start();
    let cli = &cluster.cli;
    let path = format!("/api/v1/namespaces/{}", cluster.namespace);
    for (path, why) in [
        (format!("{path}/pods/pod/exec?command=ls&stdout=1"), "Upgrade request required"),
        (format!("{path}/pods/pod/exec?container=other"), "container other is not valid for pod pod"),
        (format!("{path}/pods/pod/attach?dryRun=All"), "dryRun is not supported"),
        (format!("{path}/pods/pod/proxy/"), "address not allowed"),
        (format!("{path}/services/absent/proxy/"), "services \"absent\" not found"),
        ("/api/v1/nodes/node/proxy/pods".to_owned(), "address not allowed"),
        ("/api/v1/nodes/http:node:80/proxy/".to_owned(), "address not allowed"),
    ] {
        let said = cli.fails(&["get", "--raw", &path]).unwrap();
        assert!(said.contains(why), "{path}: {said}");
    }
}

#[test]
fn streams_do_not_hold_up_the_end_of_the_server() {
    let cluster = Cluster::start();
    let running = cluster.both().map(|cli| {
        let running = cli.stream(&["exec", "pod", "--", "sh", "-c", "echo started; exec sleep 30"]).unwrap();
        assert_eq!(running.line(PATIENCE).as_deref(), Some("started"));
        running
    });
    let followed = cluster.cli.stream(&["logs", "--follow", "pod"]).unwrap();
    assert_eq!(followed.line(PATIENCE).as_deref(), Some("line 1"));
    let start = Instant::now();
    cluster.server.terminate().unwrap();
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    drop((running, followed));
}

//! Logs, commands, attached processes, copied files, forwarded ports and proxies: the real kubectl, and a
//! small kubelet that speaks the real protocols, over WebSockets and over SPDY.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::{Duration, Instant};

use testkit::https::Authority;
use testkit::{Cli, Folder, Kubelet, Message, Server, WebSocket};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server with a node, whose kubelet runs commands in a folder, and a pod on it.
struct Cluster {
    /// That of the certificates of kubelets.
    authority: Authority,
    /// That of the server's certificate for kubelets.
    clients: Authority,
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
        let cluster = Self { authority, clients, kubelet, folder, cli, namespace, server };
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
            self.create(name, text);
        }
        let node = format!(
            r#"{{"status":{{"addresses":[{{"type":"InternalIP","address":"127.0.0.1"}}],
            "daemonEndpoints":{{"kubeletEndpoint":{{"Port":{}}}}}}}}}"#,
            self.kubelet.port()
        );
        let running = r#"{"status":{"phase":"Running"}}"#;
        for (what, patch) in [("node/node", node.as_str()), ("pod/pod", running), ("pod/two", running)] {
            self.set_status(what, patch);
        }
    }

    fn create(&self, file: &str, text: &str) {
        let path = self.folder.path().join(file);
        std::fs::write(&path, text).unwrap();
        self.cli.ok(&["create", "--filename", path.to_str().unwrap()]).unwrap();
    }

    fn set_status(&self, what: &str, patch: &str) {
        self.cli.ok(&["patch", what, "--subresource=status", "--type=merge", "--patch", patch]).unwrap();
    }

    /// A WebSocket to a subresource of the pod, in a protocol that the kubelet speaks too.
    fn channels(&self, subresource: &str) -> WebSocket {
        let path = format!("/api/v1/namespaces/{}/pods/pod/{subresource}", self.namespace);
        let (target, token) = (self.server.target().unwrap(), self.server.token());
        let socket = WebSocket::open(&target, &path, token, "v4.channel.k8s.io", PATIENCE).unwrap();
        assert_eq!(socket.protocol, "v4.channel.k8s.io");
        socket
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

/// A port of this host that says everything again.
fn echo() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            std::thread::spawn(move || repeat(socket));
        }
    });
    port
}

fn repeat(mut socket: TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = socket.read(&mut buffer) {
        if socket.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
}

/// A word of a command in a query.
fn word(text: &str) -> String {
    let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("command={encoded}&")
}

#[test]
fn commands_over_websockets_of_version_4_are_handed_on() {
    let cluster = Cluster::start();
    let shell = ["sh", "-c", "echo out; echo err >&2; exit 7"].map(word).concat();
    let [_, out, err, status, _] =
        cluster.channels(&format!("exec?{shell}stdout=true&stderr=true")).rest().unwrap();
    assert_eq!((out.as_slice(), err.as_slice()), (b"out\n".as_slice(), b"err\n".as_slice()));
    let status = String::from_utf8(status).unwrap();
    assert!(status.contains(r#""reason":"ExitCode","message":"7""#), "{status}");

    let input: Vec<u8> = (0..400_000_u32).map(|at| (at % 251) as u8).collect();
    let head = ["head", "-c", "400000"].map(word).concat();
    let mut socket = cluster.channels(&format!("exec?{head}stdin=true&stdout=true"));
    for part in input.chunks(70_000) {
        socket.send(0, part).unwrap();
    }
    let [_, out, _, status, _] = socket.rest().unwrap();
    assert!(out == input, "{} bytes came back", out.len());
    assert!(String::from_utf8(status).unwrap().contains("Success"));

    let mut socket = cluster.channels(&format!("exec?{}stdout=true&tty=true", word("true")));
    let size = br#"{"Width":77,"Height":33}"#;
    socket.send(4, size).unwrap();
    let [_, out, ..] = socket.rest().unwrap();
    assert_eq!(out, size);

    let mut socket = cluster.channels("attach?stdin=true&stdout=true");
    socket.send(0, b"some words\n").unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"WORDS\n") {
        let Message { channel, data } = socket.message().unwrap().expect("the process is attached to");
        assert_eq!(channel, 1);
        said.extend(data);
    }
    assert_eq!(said, b"hello\nSOME WORDS\n");

    let requests = cluster.kubelet.requests();
    assert!(requests.iter().all(|request| request.header("upgrade") == "websocket"), "{requests:?}");
    assert!(requests.iter().all(|request| request.header("authorization").is_empty()));
    assert!(requests.iter().all(|request| request.has_certificate));
}

#[test]
fn ports_over_websockets_of_version_4_are_handed_on() {
    let cluster = Cluster::start();
    let ports = [echo(), echo()];
    let query = ports.map(|port| format!("ports={port}")).join("&");
    let mut socket = cluster.channels(&format!("portforward?{query}"));
    // Each port has a channel for data and one for errors. Both begin with its number.
    let [first, second] = ports.map(|port| port.to_le_bytes().to_vec());
    for (channel, data) in (0..).zip([first.clone(), first, second.clone(), second]) {
        assert_eq!(socket.message().unwrap(), Some(Message { channel, data }));
    }
    for channel in [2, 0] {
        let sent = vec![b'0' + channel; 100_000];
        socket.send(channel, &sent).unwrap();
        let mut heard = Vec::new();
        while heard.len() < sent.len() {
            let message = socket.message().unwrap().expect("the port is forwarded");
            assert_eq!(message.channel, channel);
            heard.extend(message.data);
        }
        assert!(heard == sent);
    }
}

/// An address of this host that others can reach too, by which it would reach them. Nothing is sent.
fn outside() -> Option<IpAddr> {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).ok()?;
    socket.connect(("198.51.100.1", 9)).ok()?;
    let IpAddr::V4(address) = socket.local_addr().ok()?.ip() else { return None };
    let is_proxyable = !address.is_loopback() && !address.is_link_local() && !address.is_unspecified();
    is_proxyable.then_some(address.into())
}

/// A server that answers with the first line of a request, and says everything again after an upgrade.
fn page(address: IpAddr) -> u16 {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && socket.read(&mut byte).is_ok_and(|read| read > 0) {
                    head.extend(byte);
                }
                let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
                if head.contains("\r\nupgrade: echo\r\n") {
                    let switch =
                        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
                    socket.write_all(switch.as_bytes()).unwrap();
                    return repeat(socket);
                }
                let line = head.lines().next().unwrap_or_default();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{line}",
                    line.len()
                );
                let _ = socket.write_all(answer.as_bytes());
            });
        }
    });
    port
}

#[test]
#[allow(clippy::print_stdout, reason = "it says why it does nothing")]
fn proxies_lead_to_pods_services_and_nodes() {
    // Nothing is proxied to loopback addresses; what is done with a location is tested in the crate `server`
    // too.
    let Some(address) = outside() else {
        println!("this host has no address that others can reach: proxies are not tested end to end");
        return;
    };
    let cluster = Cluster::start();
    let port = page(address);
    let serving = cluster.authority.issue(&[&address.to_string()]).unwrap();
    let kubelet =
        Kubelet::start_at(address, &serving, Some(&cluster.clients), cluster.folder.path()).unwrap();
    cluster.set_status(
        "pod/pod",
        &format!(r#"{{"status":{{"podIP":"{address}","podIPs":[{{"ip":"{address}"}}]}}}}"#),
    );
    cluster.set_status(
        "node/node",
        &format!(
            r#"{{"status":{{"addresses":[{{"type":"InternalIP","address":"{address}"}}],
            "daemonEndpoints":{{"kubeletEndpoint":{{"Port":{}}}}}}}}}"#,
            kubelet.port()
        ),
    );
    cluster.create(
        "service.json",
        r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{"ports":[{"name":"http","port":80}]}}"#,
    );
    cluster.create(
        "endpoints.json",
        &format!(
            r#"{{"apiVersion":"v1","kind":"Endpoints","metadata":{{"name":"web"}},"subsets":[{{"ports":[{{"name":"http","port":{port}}}],
            "addresses":[{{"ip":"{address}","targetRef":{{"kind":"Pod","namespace":"{}","name":"pod"}}}}]}}]}}"#,
            cluster.namespace
        ),
    );
    let path = format!("/api/v1/namespaces/{}", cluster.namespace);
    for (path, line) in [
        (format!("{path}/pods/pod:{port}/proxy/a/b?x=1"), "get /a/b?x=1 http/1.1"),
        (format!("{path}/services/web:http/proxy/c"), "get /c http/1.1"),
        (format!("{path}/services/web:80/proxy/"), "get / http/1.1"),
        (format!("/api/v1/nodes/http:node:{port}/proxy/d"), "get /d http/1.1"),
        ("/api/v1/nodes/node/proxy/healthz".to_owned(), "GET /healthz\n"),
        (format!("/api/v1/nodes/node:{}/proxy/e", kubelet.port()), "GET /e\n"),
    ] {
        assert_eq!(cluster.cli.ok(&["get", "--raw", &path]).unwrap(), line, "{path}");
    }
    assert!(kubelet.requests().iter().all(|request| request.has_certificate));

    let target = cluster.server.target().unwrap();
    let mut connection = target.connect(PATIENCE).unwrap();
    let request = format!(
        "GET {path}/pods/pod:{port}/proxy/ HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n",
        target.authority(),
        cluster.server.token()
    );
    connection.send(request.as_bytes()).unwrap();
    assert_eq!(connection.head("GET").unwrap().status, 101);
    connection.send(b"once more").unwrap();
    let mut heard = Vec::new();
    while heard.len() < 9 {
        heard.extend(connection.receive().unwrap().expect("the connection is open"));
    }
    assert_eq!(heard, b"once more");
}

#[test]
fn ports_are_forwarded() {
    let cluster = Cluster::start();
    let port = echo();
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

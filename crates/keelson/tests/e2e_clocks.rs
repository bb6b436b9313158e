//! Servers whose clock is wrong, or is set while they run: a year ahead, an hour and a year behind.
//!
//! A library between the server and the system shows another time (`libfaketime`). The monotonic clock stays
//! as it is, as it does when somebody sets the clock of a machine. The tests themselves, and so their
//! clients, have the right time.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::http::Target;
use testkit::{Etcd, Folder, Server};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const ACCOUNT_TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/default/token";
const PATIENCE: Duration = Duration::from_secs(60);

const RIGHT: &str = "+0";
const YEAR_AHEAD: &str = "+1y";
const HOUR_BEHIND: &str = "-1h";
const YEAR_BEHIND: &str = "-1y";

/// The clock of servers.
struct Clock {
    folder: Folder,
    /// Starts the server with this clock.
    server: PathBuf,
}

impl Clock {
    fn new() -> Self {
        let folder = Folder::new().unwrap();
        let server = folder.path().join("server");
        let clock = Self { folder, server };
        clock.show(RIGHT);
        let script = format!(
            "#!/bin/sh\nexport LD_PRELOAD='{}' FAKETIME_TIMESTAMP_FILE='{}' FAKETIME_CACHE_DURATION=1 \
             FAKETIME_DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1\nexec '{}' \"$@\"\n",
            testkit::tool("libfaketime").unwrap().display(),
            clock.offset().display(),
            testkit::server_binary(env!("CARGO_BIN_EXE_keelson")).display(),
        );
        fs::write(&clock.server, script).unwrap();
        fs::set_permissions(&clock.server, Permissions::from_mode(0o755)).unwrap();
        clock
    }

    fn offset(&self) -> PathBuf {
        self.folder.path().join("offset")
    }

    /// Shows another time to servers that start from now on.
    fn show(&self, offset: &str) {
        let new = self.folder.path().join("new-offset");
        fs::write(&new, offset).unwrap();
        fs::rename(&new, self.offset()).unwrap();
    }

    /// The same to a running server, and waits until the server sees that time.
    fn set(&self, server: &Server, offset: &str) {
        let dry = format!("{CONFIG_MAPS}?dryRun=All");
        let time = || {
            let (status, made) = server.call("POST", &dry, &json!({"metadata": {"name": "time"}})).unwrap();
            assert_eq!(status, 201, "{made}");
            minutes(made["metadata"]["creationTimestamp"].as_str().unwrap())
        };
        let before = time();
        self.show(offset);
        eventually("the clock is set", || time().abs_diff(before) > 30);
    }

    fn start(&self, flags: &[&str]) -> Server {
        Server::start(&self.server, flags).unwrap()
    }

    fn start_again(&self, folder: Folder, flags: &[&str]) -> Server {
        Server::at(folder, &self.server, flags).unwrap()
    }

    /// The text of a start that is refused.
    fn refusal(&self, data: &Path) -> String {
        match testkit::Process::start(&self.server, data, &[]) {
            Err(testkit::Error::NotReady { output }) => output,
            other => panic!("{other:?}"),
        }
    }
}

/// The minutes of a time, with months of 31 days.
fn minutes(time: &str) -> u64 {
    let part = |from: usize, to: usize| time.get(from..to).unwrap().parse::<u64>().unwrap();
    let days = (part(0, 4) * 12 + part(5, 7)) * 31 + part(8, 10);
    (days * 24 + part(11, 13)) * 60 + part(14, 16)
}

fn eventually(what: &str, holds: impl FnMut() -> bool) {
    testkit::eventually(what, PATIENCE, holds);
}

fn create(server: &Server, path: &str, body: &Value) -> Value {
    let (status, answer) = server.call("POST", path, body).unwrap();
    assert_eq!(status, 201, "{path} {answer}");
    answer
}

fn file(data: &Path, name: &str) -> Vec<u8> {
    fs::read(data.join("pki").join(name)).unwrap()
}

fn authority(data: &Path) -> [Vec<u8>; 3] {
    ["ca.crt", "ca.key", "sa.key"].map(|name| file(data, name))
}

fn kubectl(kubeconfig: &Path, url: &str) -> String {
    let output = Command::new(testkit::tool("kubectl").unwrap())
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["--server", url, "auth", "whoami", "--output=jsonpath={.status.userInfo.username}"])
        .output()
        .unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A copy of the administrator's kubeconfig with the client certificate alone, as somebody may have been
/// handed it.
fn handed_out(data: &Path, to: &Path) -> PathBuf {
    let text = fs::read_to_string(data.join("kubeconfig")).unwrap();
    let without_token: Vec<&str> = text.lines().filter(|line| !line.trim().starts_with("token:")).collect();
    let path = to.join("handed-out");
    fs::write(&path, without_token.join("\n")).unwrap();
    path
}

#[test]
fn starts_under_wrong_clocks_keep_the_authority() {
    let clock = Clock::new();
    let people = Folder::new().unwrap();
    let server = clock.start(&[]);
    let kubeconfig = handed_out(&server.folder().join("data"), people.path());
    assert_eq!(kubectl(&kubeconfig, server.url()), "keelson-admin");
    let mut folder = server.stop().unwrap();
    let data = folder.path().join("data");
    let before = authority(&data);
    let leaf = file(&data, "server.crt");

    for (offset, says) in [(YEAR_BEHIND, "ca.crt is not valid yet: "), ("+11y", "ca.crt has expired: ")] {
        clock.show(offset);
        let refused = clock.refusal(&data);
        for part in
            [says, "it is valid from 20", " to 20", "the clock of this machine says 20", "set it right"]
        {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        assert!(refused.contains("keelson renew-authority"), "{refused}");
        assert_eq!((authority(&data), file(&data, "server.crt")), (before.clone(), leaf.clone()));
    }
    for (offset, renews) in [(HOUR_BEHIND, false), (YEAR_AHEAD, true), (RIGHT, true)] {
        clock.show(offset);
        let earlier = file(&data, "server.crt");
        let server = clock.start_again(folder, &[]);
        assert_eq!(authority(&data), before, "{offset}");
        assert_eq!(file(&data, "server.crt") != earlier, renews, "{offset}");
        // Clients with the right time trust the server throughout.
        create(&server, CONFIG_MAPS, &json!({"metadata": {"name": testkit::unique("c")}}));
        if offset != YEAR_AHEAD {
            assert_eq!(kubectl(&kubeconfig, server.url()), "keelson-admin", "{offset}");
        }
        folder = server.stop().unwrap();
    }
}

/// The status of a request with a token.
fn status_of(server: &Server, token: &str) -> u16 {
    let target: Target = server.target().unwrap();
    let mut connection = target.connect(PATIENCE).unwrap();
    let request =
        format!("GET /api HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n", target.authority());
    connection.send(request.as_bytes()).unwrap();
    connection.head("GET").unwrap().status
}

#[test]
fn clock_that_is_set_while_a_server_runs_ends_no_key_and_no_kubeconfig() {
    let clock = Clock::new();
    let people = Folder::new().unwrap();
    let server = clock.start(&[]);
    let data = server.folder().join("data");
    let kubeconfig = handed_out(&data, people.path());
    let before = authority(&data);
    let token = |server: &Server| {
        let (status, answer) = server.call("POST", ACCOUNT_TOKEN, &json!({"spec": {}})).unwrap();
        (status == 201).then(|| answer["status"]["token"].as_str().unwrap().to_owned())
    };
    let mut issued = None;
    eventually("the account is there", || {
        issued = token(&server);
        issued.is_some()
    });
    let issued = issued.unwrap();
    assert_eq!(status_of(&server, &issued), 200);

    let leaf = file(&data, "server.crt");
    clock.set(&server, HOUR_BEHIND);
    assert_eq!(status_of(&server, &issued), 401, "it is issued in the future");
    assert_eq!(kubectl(&kubeconfig, server.url()), "keelson-admin");
    clock.set(&server, RIGHT);
    assert_eq!(status_of(&server, &issued), 200);
    assert_eq!(file(&data, "server.crt"), leaf);
    clock.set(&server, YEAR_AHEAD);
    assert_eq!(status_of(&server, &issued), 401, "it has expired");
    let of_the_future = token(&server).unwrap();
    assert_eq!(status_of(&server, &of_the_future), 200);
    eventually("the leaf is replaced before it runs out", || file(&data, "server.crt") != leaf);
    create(&server, CONFIG_MAPS, &json!({"metadata": {"name": "ahead"}}));

    // By this clock the authority is not valid: everything stays as it is.
    let ahead = file(&data, "server.crt");
    clock.set(&server, YEAR_BEHIND);
    assert_eq!(status_of(&server, &of_the_future), 401, "it is not valid yet");
    eventually("the leaf is not replaced", || {
        server.logged("the serving certificate was not replaced; the old one stays") > 0
    });
    assert_eq!(file(&data, "server.crt"), ahead);
    create(&server, CONFIG_MAPS, &json!({"metadata": {"name": "behind"}}));

    clock.set(&server, RIGHT);
    eventually("a leaf of the right length is made", || file(&data, "server.crt") != ahead);
    assert_eq!(kubectl(&kubeconfig, server.url()), "keelson-admin");
    assert_eq!((status_of(&server, &issued), status_of(&server, &of_the_future)), (200, 401));
    create(&server, CONFIG_MAPS, &json!({"metadata": {"name": "right"}}));
    assert_eq!(authority(&data), before);
    let log = server.terminate().unwrap().unwrap().log;
    assert!(log.contains("the serving certificate was not replaced; the old one stays"), "{log}");
    assert!(log.contains("ca.crt is not valid yet"), "{log}");
}

fn event(name: &str) -> Value {
    json!({"metadata": {"name": name}, "involvedObject": {"namespace": "default"}, "reason": "r"})
}

fn is_there(server: &Server, name: &str) -> bool {
    server.call("GET", &format!("{EVENTS}/{name}"), &Value::Null).unwrap().0 == 200
}

#[test]
fn events_outlast_wrong_clocks_and_still_expire() {
    // What seems to be expired goes after a twentieth of the time to live.
    const LONG: [&str; 1] = ["--event-ttl=60s"];
    const SLICE: Duration = Duration::from_secs(4);
    let clock = Clock::new();
    let server = clock.start(&LONG);
    create(&server, EVENTS, &event("first"));
    for offset in [YEAR_BEHIND, YEAR_AHEAD] {
        clock.set(&server, offset);
    }
    sleep(SLICE);
    assert!(is_there(&server, "first"), "it is as old as before");
    let mut folder = server.stop().unwrap();
    for offset in [HOUR_BEHIND, YEAR_AHEAD, RIGHT] {
        clock.show(offset);
        let server = clock.start_again(folder, &LONG);
        sleep(SLICE);
        assert!(is_there(&server, "first"), "{offset}");
        if offset == HOUR_BEHIND {
            create(&server, EVENTS, &event("second"));
        }
        folder = server.stop().unwrap();
    }
    let server = clock.start_again(folder, &["--event-ttl=2s"]);
    eventually("events of earlier clocks expire", || {
        !is_there(&server, "first") && !is_there(&server, "second")
    });
    for offset in [YEAR_BEHIND, YEAR_AHEAD, RIGHT] {
        clock.set(&server, offset);
        create(&server, EVENTS, &event("later"));
        eventually("events expire after the clock was set", || !is_there(&server, "later"));
    }
}

fn newest(server: &Server) -> String {
    let made = create(server, CONFIG_MAPS, &json!({"metadata": {"name": testkit::unique("c")}}));
    made["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

/// Whether the state of a revision can be had.
fn has_history(server: &Server, revision: &str) -> bool {
    let path = format!("{CONFIG_MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact&limit=1");
    match server.call("GET", &path, &Value::Null).unwrap().0 {
        200 => true,
        410 => false,
        other => panic!("{other}"),
    }
}

#[test]
fn history_is_kept_for_its_time_whatever_the_clock_says() {
    let clock = Clock::new();
    let flags = ["--history-retention=2s"];
    let mut server = clock.start(&flags);
    let end = |server: &Server, when: &str| {
        let revision = newest(server);
        newest(server);
        eventually(when, || {
            newest(server);
            !has_history(server, &revision)
        });
    };
    for offset in [YEAR_AHEAD, RIGHT, YEAR_BEHIND, RIGHT] {
        clock.set(&server, offset);
        end(&server, &format!("history ends at {offset}"));
    }
    // Started while the clock is ahead, and again when it is right: what is stored is of the future.
    clock.show(YEAR_AHEAD);
    server = clock.start_again(server.stop().unwrap(), &flags);
    end(&server, "history ends after a start ahead");
    clock.show(RIGHT);
    server = clock.start_again(server.stop().unwrap(), &flags);
    end(&server, "history ends after a start with ticks of the future");
    drop(server);

    let server = clock.start(&[]);
    let revision = newest(&server);
    for offset in [YEAR_AHEAD, YEAR_BEHIND] {
        clock.set(&server, offset);
        newest(&server);
        sleep(Duration::from_secs(2));
        assert!(has_history(&server, &revision), "{offset}");
    }
}

/// Neither the leader nor the other server takes a clock that is set for the end of a lease.
#[test]
fn clocks_that_are_set_make_no_second_leader() {
    const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/keelson-controllers";
    let etcd = Etcd::start("etcd", 1, &["--unsafe-no-fsync"]).unwrap();
    let servers = format!("--etcd-servers={}", etcd.endpoints().join(","));
    let (clock, other_clock) = (Clock::new(), Clock::new());
    let leader = clock.start(&[&servers]);
    let spec = |server: &Server| server.call("GET", LEASE, &Value::Null).unwrap().1["spec"].clone();
    eventually("there is a leader", || spec(&leader)["holderIdentity"].is_string());
    let other = other_clock.start(&[&servers]);
    let holder = spec(&leader)["holderIdentity"].clone();
    let set = Instant::now();
    clock.set(&leader, YEAR_AHEAD);
    other_clock.set(&other, YEAR_BEHIND);
    let mut renewed = 0;
    let mut last = spec(&other)["renewTime"].clone();
    // Longer than a lease lasts without a renewal.
    while set.elapsed() < Duration::from_secs(18) {
        let spec = spec(&other);
        assert_eq!((&spec["holderIdentity"], &spec["leaseTransitions"]), (&holder, &json!(0)));
        renewed += u32::from(spec["renewTime"] != last);
        last = spec["renewTime"].clone();
        sleep(Duration::from_millis(200));
    }
    assert!(renewed > 2, "it goes on renewing");
    // A leader that stops is followed at once, also by a server with another clock.
    drop(leader.terminate().unwrap());
    eventually("the other one leads", || {
        let now = spec(&other);
        now["holderIdentity"].as_str().is_some_and(|now| !now.is_empty() && json!(now) != holder)
    });
}

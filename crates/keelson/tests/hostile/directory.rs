//! The data directory: what is missing from it, who may read it, and what happens when it goes away.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use testkit::Folder;

use super::{OnDirectory, binary};

const NAMESPACE: &str = "/api/v1/namespaces/default";

impl OnDirectory {
    fn create(&mut self, name: &str) {
        let body = serde_json::json!({"metadata": {"name": name}, "data": {"key": name.repeat(100)}});
        let answer = self.caller.ask("POST", &format!("{NAMESPACE}/configmaps"), body.to_string().as_bytes());
        assert_eq!(answer.status, 201, "{}", answer.text());
    }

    fn names(&mut self) -> Vec<String> {
        let answer = self.caller.ask("GET", &format!("{NAMESPACE}/configmaps"), b"");
        assert_eq!(answer.status, 200, "{}", answer.text());
        let list = answer.json();
        let names = list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].to_string());
        // Controllers make others.
        names.filter(|name| name.starts_with("\"config-")).collect()
    }
}

fn copy(from: &Path, to: &Path, without: &[&str]) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        let name = name.to_str().unwrap();
        if without.contains(&name) {
            continue;
        }
        let below: Vec<&str> =
            without.iter().filter_map(|path| path.strip_prefix(name)?.strip_prefix('/')).collect();
        let (from, to) = (from.join(name), to.join(name));
        if from.is_dir() {
            copy(&from, &to, &below);
        } else if from.is_file() {
            fs::copy(from, to).unwrap();
        }
    }
}

/// Each part of the directory, and every pair of them: the server starts with all objects, or it does not.
#[test]
fn data_directory_with_missing_parts_starts_whole_or_not_at_all() {
    let folder = Folder::new().unwrap();
    let data = folder.path().join("data");
    let mut server = OnDirectory::start(&binary(), &folder, &data, &[]).unwrap();
    (0..20).for_each(|n| server.create(&format!("config-{n:02}")));
    let names = server.names();
    assert_eq!(server.process.terminate().unwrap().code, Some(0));
    let parts = [
        "kubeconfig",
        "pki",
        "pki/ca.crt",
        "pki/ca.key",
        "pki/sa.key",
        "pki/admin.token",
        "store",
        "store/lock",
        "store/format",
        "store/watermark",
        "store/reserve",
        "store/db",
        "store/db/lock",
        "store/db/version",
        "store/db/0.jnl",
        "store/db/keyspaces",
        "store/db/keyspaces/0",
        "store/db/keyspaces/1",
    ];
    let parts: Vec<&str> = parts.into_iter().filter(|part| data.join(part).exists()).collect();
    assert!(parts.len() >= 16, "{parts:?}");
    let (mut whole, mut refused) = (0, 0);
    let begin = Instant::now();
    for (n, one) in parts.iter().enumerate() {
        for other in parts.iter().skip(n) {
            let spoiled = folder.path().join("spoiled");
            copy(&data, &spoiled, &[one, other]);
            match OnDirectory::start(&binary(), &folder, &spoiled, &[]) {
                Ok(mut server) => {
                    assert_eq!(server.names(), names, "without {one} and {other}");
                    whole += 1;
                }
                Err(testkit::Error::NotReady { output }) => {
                    assert!(output.contains("error: "), "without {one} and {other}: {output}");
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
            fs::remove_dir_all(&spoiled).unwrap();
        }
    }
    println!("{whole} starts with all objects, {refused} refusals in {:?}", begin.elapsed());
    assert!(refused > whole, "most parts are needed");
}

#[test]
fn refusal_says_what_is_missing_and_what_to_do() {
    let folder = Folder::new().unwrap();
    let data = folder.path().join("data");
    let server = OnDirectory::start(&binary(), &folder, &data, &[]).unwrap();
    assert_eq!(server.process.terminate().unwrap().code, Some(0));
    for part in ["store/format", "store"] {
        let spoiled = folder.path().join(part.replace('/', "-"));
        copy(&data, &spoiled, &[part]);
        let started = OnDirectory::start(&binary(), &folder, &spoiled, &[]).map(|_| "it started");
        let Err(testkit::Error::NotReady { output: text }) = started else { panic!("{started:?}") };
        let name = part.rsplit('/').next().unwrap();
        assert!(text.contains(&format!("\"{name}\"")) && text.contains("is missing"), "{text}");
        assert!(text.contains("restore a backup") && text.contains("away to start without its"), "{text}");
    }
}

#[test]
fn missing_keys_are_refused_and_not_made_anew() {
    for storage in ["--storage=embedded", "--storage=memory"] {
        let folder = Folder::new().unwrap();
        let data = folder.path().join("data");
        let server = OnDirectory::start(&binary(), &folder, &data, &[storage]).unwrap();
        assert_eq!(server.process.terminate().unwrap().code, Some(0));
        for (part, command) in [
            ("pki/sa.key", "keelson renew-service-account-key"),
            ("pki/ca.key", "keelson renew-authority --new-key"),
            ("pki/ca.crt", "keelson renew-authority --new-key"),
        ] {
            let spoiled = folder.path().join(part.replace('/', "-"));
            copy(&data, &spoiled, &[part]);
            for is_empty in [false, true] {
                if is_empty {
                    fs::write(spoiled.join(part), "").unwrap();
                }
                let started =
                    OnDirectory::start(&binary(), &folder, &spoiled, &[storage]).map(|_| "it started");
                let Err(testkit::Error::NotReady { output: text }) = started else {
                    panic!("{part}: {started:?}")
                };
                assert!(
                    text.contains(&format!(
                        "{} is missing or empty: put it back",
                        spoiled.join(part).display()
                    )),
                    "{text}"
                );
                assert!(text.contains(command), "{text}");
                assert_eq!(fs::read(spoiled.join(part)).ok().filter(|content| !content.is_empty()), None);
            }
            fs::remove_dir_all(&spoiled).unwrap();
        }
        // What can be made of the keys is made.
        for part in ["pki/admin.token", "pki/server.key", "pki/admin.crt", "kubeconfig"] {
            fs::remove_file(data.join(part)).unwrap();
        }
        OnDirectory::start(&binary(), &folder, &data, &[storage]).unwrap();
    }
}

/// A directory that was only used with objects in memory has no store to miss.
#[test]
fn directory_of_a_server_in_memory_can_get_a_store() {
    let folder = Folder::new().unwrap();
    let data = folder.path().join("data");
    let server = OnDirectory::start(&binary(), &folder, &data, &["--storage=memory"]).unwrap();
    assert_eq!(server.process.terminate().unwrap().code, Some(0));
    let mut server = OnDirectory::start(&binary(), &folder, &data, &[]).unwrap();
    server.create("first");
    assert_eq!(server.process.terminate().unwrap().code, Some(0));
    fs::remove_dir_all(data.join("store")).unwrap();
    assert!(OnDirectory::start(&binary(), &folder, &data, &[]).is_err(), "its store is missed now");
}

/// Everything in a directory that others may use, with its mode.
fn open_to_others(path: &Path) -> Vec<(PathBuf, u32)> {
    let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let expected = if path.is_dir() { 0o700 } else { 0o600 };
    let mut found = Vec::new();
    if mode != expected {
        found.push((path.to_owned(), mode));
    }
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            found.extend(open_to_others(&entry.unwrap().path()));
        }
    }
    found
}

fn open_up(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| open_up(&entry.unwrap().path()));
    }
}

#[test]
fn files_are_closed_to_others_whatever_the_umask() {
    let folder = Folder::new().unwrap();
    let lax = folder.path().join("lax");
    fs::write(&lax, format!("#!/bin/sh\numask 0\nexec {} \"$@\"\n", binary().display())).unwrap();
    fs::set_permissions(&lax, Permissions::from_mode(0o755)).unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o777)).unwrap();
    let mut server = OnDirectory::start(&lax, &folder, &data, &["--history-retention=1s"]).unwrap();
    let secret =
        serde_json::json!({"metadata": {"name": "s"}, "stringData": {"password": "hunter2".repeat(99_000)}});
    for _ in 0..10 {
        let made = server.caller.ask("POST", &format!("{NAMESPACE}/secrets"), secret.to_string().as_bytes());
        assert_eq!(made.status, 201, "{}", made.text());
        assert_eq!(server.caller.ask("DELETE", &format!("{NAMESPACE}/secrets/s"), b"").status, 200);
    }
    // Long enough for what is dead to be merged away, into files that are new.
    let tables = data.join("store/db/keyspaces/1/tables");
    let deadline = Instant::now() + Duration::from_secs(20);
    while fs::read_dir(&tables).unwrap().count() == 0 {
        assert!(Instant::now() < deadline, "nothing was written to tables");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(open_to_others(&data), [], "after writes");
    let log = server.process.terminate().unwrap().log;
    assert!(log.contains("were open to others; they are not any more"), "{log}");
    assert_eq!(open_to_others(&data), [], "after the end");

    open_up(&data);
    let server = OnDirectory::start(&binary(), &folder, &data, &[]).unwrap();
    assert_eq!(open_to_others(&data), [], "after another start");
    let log = server.process.terminate().unwrap().log;
    assert!(log.contains("were open to others; they are not any more"), "{log}");
}

/// A directory with files of others, such as somebody's home, is not for the server to close.
#[test]
fn directory_with_files_of_others_stays_open_around_the_servers_own() {
    let folder = Folder::new().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("thesis.txt"), "years of work").unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(data.join("thesis.txt"), Permissions::from_mode(0o644)).unwrap();
    let server = OnDirectory::start(&binary(), &folder, &data, &[]).unwrap();
    let open = open_to_others(&data);
    assert_eq!(open, [(data.clone(), 0o755), (data.join("thesis.txt"), 0o644)]);
    let log = server.process.terminate().unwrap().log;
    assert!(log.contains("holds files of others"), "{log}");
}

#[test]
fn nothing_is_acknowledged_after_the_data_directory_was_removed() {
    for part in ["", "store", "store/db"] {
        let folder = Folder::new().unwrap();
        let data = folder.path().join("data");
        let mut server = OnDirectory::start(&binary(), &folder, &data, &[]).unwrap();
        server.create("before");
        fs::remove_dir_all(data.join(part)).unwrap();
        let begin = Instant::now();
        let body = br#"{"metadata":{"name":"after"}}"#;
        let refused = server.caller.ask("POST", &format!("{NAMESPACE}/configmaps"), body);
        assert!(refused.status >= 500, "{part:?}: {}", refused.text());
        while server.caller.ask("GET", "/readyz", b"").status == 200 {
            assert!(begin.elapsed() < Duration::from_secs(20), "{part:?}: it is still ready");
            std::thread::sleep(Duration::from_millis(20));
        }
        println!("{part:?}: {} at once, not ready after {:?}", refused.status, begin.elapsed());
        let read = server.caller.ask("GET", &format!("{NAMESPACE}/configmaps/before"), b"");
        assert_eq!(read.status, 200, "reads go on");
        let again = server.caller.ask("POST", &format!("{NAMESPACE}/configmaps"), body);
        assert!(again.status >= 500, "{}", again.text());
        let log = server.process.terminate().unwrap().log;
        assert!(log.contains("removed or replaced"), "{log}");
    }
}

/// Without a write: the server is not ready any more within a few seconds.
#[test]
fn removed_data_directory_is_noticed_without_a_write() {
    let folder = Folder::new().unwrap();
    let data = folder.path().join("data");
    let mut server = OnDirectory::start(&binary(), &folder, &data, &[]).unwrap();
    fs::remove_dir_all(&data).unwrap();
    let begin = Instant::now();
    while server.caller.ask("GET", "/readyz", b"").status == 200 {
        assert!(begin.elapsed() < Duration::from_secs(20), "it is still ready");
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("not ready after {:?}", begin.elapsed());
}

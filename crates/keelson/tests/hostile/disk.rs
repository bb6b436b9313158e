//! Disks that fill, disks that do not answer, and space that is given back.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::{Server, TOKEN};

use super::{Caller, PATIENCE, binary, megabytes, on_disk, resident, start};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: usize = 4;

fn body(name: &str, size: usize, round: usize) -> Vec<u8> {
    let filler = format!("{round:08}").repeat(size / 8);
    format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"key":"{filler}"}}}}"#).into_bytes()
}

/// Makes `objects` config maps of `size` bytes.
fn create(caller: &mut Caller, objects: usize, size: usize) {
    for n in 0..objects {
        let made = caller.ask("POST", CONFIG_MAPS, &body(&format!("config-{n}"), size, 0));
        assert_eq!(made.status, 201, "{}", made.text());
    }
}

/// Updates them round and round from several connections, until there were `updates` or one failed. Gives how
/// many worked, and the first answer that did not.
fn update(server: &Server, objects: usize, size: usize, updates: usize) -> (usize, Option<String>) {
    let write = |writer: usize| {
        let mut caller = Caller::new(server);
        let mut done = 0;
        for round in (writer..updates).step_by(WRITERS) {
            let name = format!("config-{}", round % objects);
            let answer = caller.ask("PUT", &format!("{CONFIG_MAPS}/{name}"), &body(&name, size, round));
            if answer.status != 200 {
                return (done, Some(format!("{} {}", answer.status, answer.text())));
            }
            done += 1;
        }
        (done, None)
    };
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
        let outcomes = writers.into_iter().map(|writer| writer.join().unwrap());
        outcomes.fold((0, None), |(all, failed), (done, failure)| (all + done, failed.or(failure)))
    })
}

/// 4 MB of objects, 100 MB of updates, and then nothing.
#[test]
fn expired_history_is_given_back_when_nothing_is_written_any_more() {
    let server = start(&["--history-retention=3s"]);
    let store = server.folder().join("data/store");
    create(&mut Caller::new(&server), 200, 20_000);
    let before = on_disk(&store);
    let begin = Instant::now();
    let (done, failed) = update(&server, 200, 20_000, 5000);
    assert_eq!((done, failed), (5000, None));
    let (updating, after) = (begin.elapsed(), on_disk(&store));
    let begin = Instant::now();
    let mut least = after;
    while least > 20 << 20 && begin.elapsed() < Duration::from_secs(30) {
        thread::sleep(Duration::from_millis(100));
        least = least.min(on_disk(&store));
    }
    println!(
        "{} at first, {} after {done} updates in {updating:?}, {} after {:?} without any",
        megabytes(before),
        megabytes(after),
        megabytes(least),
        begin.elapsed()
    );
    assert!(least <= 40 << 20, "4 MB of objects take {}", megabytes(least));
    let mut caller = Caller::new(&server);
    let listed = caller.ask("GET", &format!("{CONFIG_MAPS}?limit=1"), b"");
    assert_eq!(listed.status, 200);
    assert_eq!(caller.ask("GET", &format!("{CONFIG_MAPS}/config-199"), b"").status, 200);
}

/// A script that runs the server with a file system of `size` for its store, in a mount namespace of its own;
/// none where the system does not allow that.
fn on_small_disk(folder: &Path, size: &str) -> Option<PathBuf> {
    let works = |arguments: &[&str]| {
        Command::new("unshare").args(arguments).arg("true").status().is_ok_and(|status| status.success())
    };
    let unshare = ["-rm", "-m"].into_iter().find(|option| works(&[option]))?;
    let script = folder.join("on-small-disk");
    // The third argument is the data directory.
    let mount = format!("mkdir -p \"$3/store\" && mount -t tmpfs -o size={size} tmpfs \"$3/store\"");
    let run = format!("exec {} \"$@\"", binary().display());
    let text = format!("#!/bin/sh\nexec unshare {unshare} sh -c '{mount} && {run}' sh \"$@\"\n");
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    Some(script)
}

/// 200 MB of disk, 2 MB of objects, history of 10 s, and a client that goes on whatever it is answered: it is
/// not without a write for long, deletes work meanwhile, and when it pauses for as long as history is kept,
/// everything works.
#[test]
fn full_disk_takes_deletes_and_soon_all_writes_again() {
    let scripts = testkit::Folder::new().unwrap();
    let Some(script) = on_small_disk(scripts.path(), "200m") else {
        println!(
            "LEFT OUT: this needs a mount namespace, by `unshare -rm` or as root; the store's own tests have the case"
        );
        return;
    };
    let server = Server::start(&script, &["--history-retention=10s"]).unwrap();
    let mut caller = Caller::new(&server);
    create(&mut caller, 100, 20_000);
    let begin = Instant::now();
    let (done, failed) = update(&server, 99, 20_000, 40_000);
    let failed = failed.expect("200 MB should not be enough for ten seconds of this");
    println!("{done} updates in {:?}, then {failed}", begin.elapsed());

    let begin = Instant::now();
    let (mut deleted_after, mut outage, mut last) = (None, Duration::ZERO, begin);
    let (mut written, mut refused) = (0, 0);
    while begin.elapsed() < Duration::from_secs(22) {
        if deleted_after.is_none()
            && caller.ask("DELETE", &format!("{CONFIG_MAPS}/config-99"), b"").status == 200
        {
            deleted_after = Some(begin.elapsed());
        }
        assert_eq!(caller.ask("GET", &format!("{CONFIG_MAPS}/config-1"), b"").status, 200, "reads go on");
        let (works, failed) = update(&server, 99, 20_000, 100);
        written += works;
        refused += usize::from(failed.is_some());
        if works > 0 {
            outage = outage.max(last.elapsed());
            last = Instant::now();
        } else {
            thread::sleep(Duration::from_millis(50));
        }
    }
    outage = outage.max(last.elapsed());
    println!(
        "a delete after {deleted_after:?}; {written} more writes, {refused} times refused, for {outage:?} at most"
    );
    assert!(deleted_after.is_some_and(|after| after < Duration::from_secs(5)), "{deleted_after:?}");
    assert!(written > 0 && outage < Duration::from_secs(20), "{outage:?}");

    // The pause: what was history before is expired after it.
    let newest = caller.ask("GET", &format!("{CONFIG_MAPS}?limit=1"), b"").json();
    let newest = newest["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let past = format!("{CONFIG_MAPS}?limit=1&resourceVersion={newest}&resourceVersionMatch=Exact");
    testkit::eventually("history expires", PATIENCE, || caller.ask("GET", &past, b"").status == 410);
    let begin = Instant::now();
    while caller.ask("GET", "/readyz", b"").status != 200 {
        assert!(begin.elapsed() < Duration::from_secs(20), "it is still not ready");
        thread::sleep(Duration::from_millis(50));
    }
    let (works, failed) = update(&server, 99, 20_000, 300);
    println!("ready after {:?}, then {works} writes", begin.elapsed());
    assert_eq!((works, failed), (300, None));
    let listed = caller.ask("GET", CONFIG_MAPS, b"").json();
    let names = listed["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str());
    assert_eq!(names.filter(|name| name.unwrap().starts_with("config-")).count(), 99);
}

/// A script that runs the server with a file system of its own for its store, which is frozen for as long as
/// there is the file `freeze`, a minute at most; `frozen` is there meanwhile. None where the system does not
/// allow that.
fn on_disk_that_freezes(folder: &Path) -> Option<PathBuf> {
    let image = folder.join("image").display().to_string();
    let freeze = folder.join("freeze").display().to_string();
    let make = format!("truncate -s 256M {image} && mkfs.ext4 -q -F {image}");
    let probe = folder.join("probe").display().to_string();
    let works = format!(
        "{make} && mkdir {probe} && mount -o loop {image} {probe} && fsfreeze -f {probe} && fsfreeze -u {probe}"
    );
    let probed = Command::new("unshare").args(["-m", "sh", "-c", &works]).output();
    if !probed.is_ok_and(|probed| probed.status.success()) {
        return None;
    }
    // The third argument is the data directory. The server takes the place of this shell.
    let text = format!(
        r#"#!/bin/sh
exec unshare -m sh -c '
{make} && mkdir -p "$3/store" && mount -o loop {image} "$3/store" || exit 1
(
    while kill -0 $$; do
        if [ -e {freeze} ] && fsfreeze -f "$3/store"; then
            touch {folder}/frozen
            tenths=0
            while [ -e {freeze} ] && [ $tenths -lt 600 ]; do
                sleep 0.1
                tenths=$((tenths + 1))
            done
            fsfreeze -u "$3/store"
            rm -f {freeze} {folder}/frozen
        fi
        sleep 0.1
    done
) >/dev/null 2>&1 &
exec {binary} "$@"' sh "$@"
"#,
        folder = folder.display(),
        binary = binary().display(),
    );
    let script = folder.join("on-disk-that-freezes");
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    Some(script)
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(40), "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Clients that give up and try again, for 15 s on a disk that does not answer: memory is bounded, health
/// says so, reads go on, and what was given up is not written when the disk answers again.
#[test]
fn writes_that_were_given_up_on_a_frozen_disk_are_not_made_later() {
    const CLIENTS: usize = 16;
    let scripts = testkit::Folder::new().unwrap();
    let Some(script) = on_disk_that_freezes(scripts.path()) else {
        println!("LEFT OUT: this needs root, loop devices and fsfreeze; the store's own tests have the case");
        return;
    };
    let server = Server::start(&script, &[]).unwrap();
    let mut caller = Caller::new(&server);
    create(&mut caller, 1, 1000);
    until("it is not ready", || caller.ask("GET", "/readyz", b"").status == 200);
    let before = resident(&server);
    fs::write(scripts.path().join("freeze"), "").unwrap();
    until("the disk is not frozen", || scripts.path().join("frozen").exists());

    let begin = Instant::now();
    let target = server.target().unwrap();
    let refused = AtomicUsize::new(0);
    let give_up = |client: usize| {
        let mut attempts = 0;
        while begin.elapsed() < Duration::from_secs(15) {
            let body = body(&format!("given-up-{client}-{attempts}"), 900_000, 0);
            let head = format!(
                "POST {CONFIG_MAPS} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n",
                target.authority(),
                body.len()
            );
            let mut connection = target.connect(Duration::from_millis(500)).unwrap();
            connection.allow(Duration::from_millis(500));
            if connection.send(&[head.as_bytes(), &body].concat()).is_ok() {
                match connection.head("POST") {
                    Ok(answered) => {
                        assert_eq!(answered.status, 503, "only the bound is answered at once");
                        assert_eq!(answered.all("retry-after").collect::<Vec<_>>(), ["1"]);
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(_) => attempts += 1,
                }
            }
        }
        attempts
    };
    let attempts = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(move || give_up(client))).collect();
        until("nobody has noticed", || caller.ask("GET", "/readyz", b"").status == 500);
        let noticed = begin.elapsed();
        let said = caller.ask("GET", "/livez?verbose", b"");
        assert_eq!(said.status, 500);
        assert!(said.text().contains("[-]etcd failed"), "{}", said.text());
        assert_eq!(caller.ask("GET", &format!("{CONFIG_MAPS}/config-0"), b"").status, 200, "reads go on");
        println!("noticed after {noticed:?}");
        clients.into_iter().map(|client| client.join().unwrap()).sum::<usize>()
    });
    let during = resident(&server);
    fs::remove_file(scripts.path().join("freeze")).unwrap();
    until("it is not ready again", || caller.ask("GET", "/readyz", b"").status == 200);
    assert_eq!(caller.ask("POST", CONFIG_MAPS, &body("after", 1000, 0)).status, 201);
    let listed = caller.ask("GET", CONFIG_MAPS, b"").json();
    let names =
        listed["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap());
    let made = names.filter(|name| name.starts_with("given-up-")).count();
    println!(
        "{attempts} attempts given up, {made} of them made; {} before, {} during",
        megabytes(before),
        megabytes(during)
    );
    assert!(attempts > 50, "{attempts}");
    let metrics = caller.ask("GET", "/metrics", b"");
    // Some clients were gone before they heard of it.
    assert!(metrics.metric("keelson_store_refused_changes_total") >= refused.into_inner() as f64);
    assert!(metrics.metric("keelson_store_waiting_changes") <= 1.0);
    // What the committer had begun, in a batch of 4 MiB.
    assert!(made <= 2 * CLIENTS, "{made} of {attempts}");
    assert!(during < before + (400 << 20), "{} became {}", megabytes(before), megabytes(during));
}

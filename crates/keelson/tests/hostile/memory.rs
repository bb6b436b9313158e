//! Memory and disk after a time of writes, and while past states are held.

use std::time::{Duration, Instant};

use serde_json::json;
use testkit::Server;

use super::{Caller, megabytes, on_disk, resident, start};

const THREADS: usize = 8;

/// Sends the requests `0..count` on some connections at once.
fn at_once(server: &Server, count: usize, send: impl Fn(&mut Caller, usize) -> u16 + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let send = &send;
            scope.spawn(move || {
                let mut caller = Caller::new(server);
                for number in (thread..count).step_by(THREADS) {
                    let status = send(&mut caller, number);
                    assert!((200..300).contains(&status), "request {number}: {status}");
                }
            });
        }
    });
}

fn patch(caller: &mut Caller, path: &str, body: &str) -> u16 {
    let form = "application/json";
    caller.ask_as("PATCH", path, form, "application/merge-patch+json", body.as_bytes()).status
}

#[test]
fn memory_and_disk_of_expired_history_are_given_back() {
    let server = start(&["--history-retention=5s"]);
    let data = server.folder().join("data");
    let pods = "/api/v1/namespaces/default/pods";
    at_once(&server, 1000, |caller, number| {
        let pod = json!({
            "metadata": {"name": format!("p{number}"), "annotations": {"fill": "x".repeat(3000)}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        caller.ask("POST", pods, pod.to_string().as_bytes()).status
    });
    println!("1,000 pods: {} of memory, {} on disk", megabytes(resident(&server)), megabytes(on_disk(&data)));
    at_once(&server, 15_000, |caller, number| {
        let body = format!(r#"{{"metadata":{{"annotations":{{"step":"{number}"}}}}}}"#);
        patch(caller, &format!("{pods}/p{}", number % 1000), &body)
    });
    println!("15,000 updates later: {}, {}", megabytes(resident(&server)), megabytes(on_disk(&data)));
    let begin = Instant::now();
    loop {
        let (memory, disk) = (resident(&server), on_disk(&data));
        if memory < 110_000_000 && disk < 60_000_000 {
            println!(
                "{:.0} s later: {}, {}",
                begin.elapsed().as_secs_f64(),
                megabytes(memory),
                megabytes(disk)
            );
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{}, {}", megabytes(memory), megabytes(disk));
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn states_that_continue_tokens_name_are_bounded_by_bytes() {
    const OBJECTS: usize = 100;
    const ROUNDS: usize = 24;
    let server = start(&[]);
    let maps = "/api/v1/namespaces/default/configmaps";
    at_once(&server, OBJECTS, |caller, number| {
        let name = format!("m{number:03}");
        let map = json!({"metadata": {"name": name, "labels": {"round": "none"}}, "data": {"k": "x".repeat(200_000)}});
        caller.ask("POST", maps, map.to_string().as_bytes()).status
    });
    let mut caller = Caller::new(&server);
    let mut tokens = Vec::new();
    let mut most = 0;
    for round in 0..ROUNDS {
        at_once(&server, OBJECTS, |caller, number| {
            let body = format!(r#"{{"metadata":{{"labels":{{"round":"{round}"}}}}}}"#);
            patch(caller, &format!("{maps}/m{number:03}"), &body)
        });
        let list = caller.ask("GET", &format!("{maps}?limit=1"), b"");
        assert_eq!(list.status, 200, "{}", list.text());
        tokens.push(list.json()["metadata"]["continue"].as_str().unwrap().to_owned());
        most = most.max(resident(&server));
    }
    println!("{ROUNDS} tokens of states with 20 MB each: {}", megabytes(most));
    assert!(most < 450_000_000, "{}", megabytes(most));
    for (round, token) in tokens.iter().enumerate() {
        let rest = caller.ask("GET", &format!("{maps}?limit=1&continue={token}"), b"");
        assert_eq!(rest.status, 200, "{}", rest.text());
        assert_eq!(rest.json()["items"][0]["metadata"]["labels"]["round"], round.to_string());
        most = most.max(resident(&server));
    }
    println!("all of them used: {}", megabytes(most));
    assert!(most < 450_000_000, "{}", megabytes(most));
}

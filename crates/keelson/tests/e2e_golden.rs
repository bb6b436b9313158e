//! Recorded exchanges of the reference, replayed against this server.
//!
//! A file `golden/*.json` holds exchanges, the list `golden/*.tsv` beside it the steps that wait for a later
//! piece of work. A step that holds has to leave the list, so that it can only get shorter. `cargo xtask
//! golden --waiting LIST FILE` prints the list as it is now.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use golden::{Scenario, Severity, Summary, Waiting};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn start(storage: &[&str]) -> testkit::Server {
    golden::start_server(&testkit::server_binary(env!("CARGO_BIN_EXE_keelson")), storage).unwrap()
}

#[test]
fn reads_equal_those_of_the_reference() {
    replay("reads");
}

#[test]
fn patches_and_applies_equal_those_of_the_reference() {
    replay("patch");
}

#[test]
fn kinds_equal_those_of_the_reference() {
    replay("kinds");
}

#[test]
fn validation_equals_that_of_the_reference() {
    replay("validation");
}

#[test]
fn access_equals_that_of_the_reference() {
    // Its scenarios give rights to the same users.
    replay_at_once("access", NonZeroUsize::MIN);
}

#[test]
fn admission_equals_that_of_the_reference() {
    // Its scenarios make default classes, which count for all namespaces.
    replay_at_once("admission", NonZeroUsize::MIN);
}

#[test]
fn custom_resources_equal_those_of_the_reference() {
    // Its scenarios wait for conditions of definitions.
    replay_at_once("crd", NonZeroUsize::new(64).unwrap());
}

/// What is in etcd went through its encodings: answers are the same.
#[test]
fn answers_from_etcd_equal_those_of_the_reference() {
    replay_on_etcd(&[("patch", golden::AT_ONCE), ("kinds", golden::AT_ONCE)]);
}

#[test]
fn custom_resources_from_etcd_equal_those_of_the_reference() {
    replay_on_etcd(&[("crd", NonZeroUsize::new(64).unwrap())]);
}

fn replay_on_etcd(areas: &[(&str, NonZeroUsize)]) {
    let etcd = testkit::Etcd::start("etcd", 1, &["--unsafe-no-fsync"]).unwrap();
    for (area, at_once) in areas {
        let prefix = format!("--etcd-prefix=/{area}");
        let servers = format!("--etcd-servers={}", etcd.endpoints().join(","));
        replay_on(area, *at_once, &[&servers, &prefix]);
    }
}

fn replay(area: &str) {
    replay_at_once(area, golden::AT_ONCE);
}

fn replay_at_once(area: &str, at_once: NonZeroUsize) {
    replay_on(area, at_once, golden::IN_MEMORY);
}

fn replay_on(area: &str, at_once: NonZeroUsize, storage: &[&str]) {
    let list = format!("{area}.tsv");
    let scenarios = golden::load(&file(&format!("{area}.json"))).unwrap();
    let waiting = Waiting::load(&file(&list), &scenarios).unwrap();
    let _webhook = golden::Webhook::for_file(&file(&format!("{area}.json"))).unwrap();
    let server = start(storage);
    let begin = Instant::now();
    let all: Vec<&Scenario> = scenarios.iter().collect();
    let outcomes = golden::replay(&server.target().unwrap(), server.token(), &all, at_once, &|_| {});
    let took = begin.elapsed();

    println!("{}; {} steps wait; {:.1} s", Summary::of(&outcomes), waiting.len(), took.as_secs_f64());
    let (mut broken, mut holding) = (String::new(), String::new());
    for mut outcome in outcomes {
        let verdict = waiting.judge(&outcome);
        if !verdict.holding.is_empty() {
            holding.push_str(&format!("{}\t{}\n", outcome.scenario, golden::ranges(&verdict.holding)));
        }
        if !verdict.broken.is_empty() {
            outcome.differing.retain(|step| verdict.broken.contains(&step.step));
            broken.push_str(&format!("{outcome:#}\n"));
        }
    }
    assert!(broken.is_empty(), "answers that are not those of the reference:\n{broken}");
    assert!(holding.is_empty(), "these hold now; take them out of {list}:\n{holding}");
    assert!(took < Duration::from_secs(240), "the replay took {took:?}");
}

#[test]
fn wrong_answer_is_shown_with_step_and_path() {
    let scenarios: Vec<Scenario> = serde_json::from_str(
        r#"[{"name": "wrong", "steps": [
            {"do": "GET /livez", "want": {"status": 200, "headers": {"content-type": "text/plain; charset=utf-8"}, "body": "ok"}},
            {"do": "GET /livez", "want": {"status": 418, "headers": {"content-type": "text/html"}, "body": "ok"}}
        ]}]"#,
    )
    .unwrap();
    let server = start(golden::IN_MEMORY);
    let all: Vec<&Scenario> = scenarios.iter().collect();
    let outcomes = golden::replay(&server.target().unwrap(), server.token(), &all, golden::AT_ONCE, &|_| {});
    assert_eq!(outcomes[0].severity(), Some(Severity::Substance));
    assert_eq!(
        format!("{:#}", outcomes[0]),
        "FAIL wrong: 1/2 steps\n     step 1 GET /livez\n       headers.content-type\n         wanted \"text/html\"\n         \
         got    \"text/plain; charset=utf-8\"\n       status\n         wanted 418\n         got    200"
    );
}

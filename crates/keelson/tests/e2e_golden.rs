//! Recorded exchanges: what the reference answered, asked of this server.
//!
//! A file `golden/*.json` holds exchanges, the list `golden/*.tsv` beside it the scenarios that wait for a later piece of work.
//! One of those that holds has to leave the list, so that it can only get shorter.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use golden::{Scenario, Severity, Summary, Verdict, Waiting};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn start() -> testkit::Server {
    golden::start_server(&testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))).unwrap()
}

#[test]
fn reads_are_those_of_the_reference() {
    replay("reads");
}

#[test]
fn patches_and_applies_are_those_of_the_reference() {
    replay("patch");
}

fn replay(area: &str) {
    let list = format!("{area}.tsv");
    let scenarios = golden::load(&file(&format!("{area}.json"))).unwrap();
    let waiting = Waiting::load(&file(&list), &scenarios).unwrap();
    let server = start();
    let begin = Instant::now();
    let all: Vec<&Scenario> = scenarios.iter().collect();
    let outcomes = golden::replay(&server.target().unwrap(), server.token(), &all, golden::AT_ONCE, &|_| {});
    let took = begin.elapsed();

    println!("{}; {} scenarios wait; {:.1} s", Summary::of(&outcomes), waiting.len(), took.as_secs_f64());
    let (mut broken, mut holding) = (String::new(), String::new());
    for outcome in &outcomes {
        match waiting.judge(outcome) {
            Verdict::Broken => broken.push_str(&format!("{outcome:#}\n")),
            Verdict::HoldsAlready(reason) => holding.push_str(&format!("{} ({reason})\n", outcome.scenario)),
            Verdict::Holds | Verdict::Waits(_) => {}
        }
    }
    assert!(broken.is_empty(), "answers that are not those of the reference:\n{broken}");
    assert!(holding.is_empty(), "these hold now; take them out of {list}:\n{holding}");
    assert!(took < Duration::from_secs(60), "the replay took {took:?}");
}

#[test]
fn a_wrong_answer_is_told_with_its_step_and_path() {
    let scenarios: Vec<Scenario> = serde_json::from_str(
        r#"[{"name": "wrong", "steps": [
            {"do": "GET /livez", "want": {"status": 200, "headers": {"content-type": "text/plain; charset=utf-8"}, "body": "ok"}},
            {"do": "GET /livez", "want": {"status": 418, "headers": {"content-type": "text/html"}, "body": "ok"}}
        ]}]"#,
    )
    .unwrap();
    let server = start();
    let all: Vec<&Scenario> = scenarios.iter().collect();
    let outcomes = golden::replay(&server.target().unwrap(), server.token(), &all, golden::AT_ONCE, &|_| {});
    assert_eq!(outcomes[0].severity(), Some(Severity::Substance));
    assert_eq!(
        format!("{:#}", outcomes[0]),
        "FAIL wrong: 1/2 steps\n     step 1 GET /livez\n       headers.content-type\n         wanted \"text/html\"\n         \
         got    \"text/plain; charset=utf-8\"\n       status\n         wanted 418\n         got    200"
    );
}

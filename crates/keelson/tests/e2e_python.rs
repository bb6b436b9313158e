//! The Python client: `python_client.py` and `python_operator.py` with the real library.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::path::Path;

use testkit::{Cli, Server};

/// Runs a script on a new server: what it wrote.
fn run_script(name: &str, options: &[&str], arguments: &[&str]) -> String {
    let binary = testkit::server_binary(env!("CARGO_BIN_EXE_keelson"));
    let server = Server::start(&binary, options).unwrap();
    let python = Cli::new(testkit::tool("python-client").unwrap(), &server);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    let (script, ca) = (script.display().to_string(), server.ca().display().to_string());
    let namespace = testkit::unique("python");
    python.with(&[&script, server.url(), server.token(), &ca, &namespace]).ok(arguments).unwrap()
}

/// Runs parts of the script on a new server.
fn run(parts: &[&str]) {
    let wanted: String = parts.iter().map(|part| format!("{part} passed\n")).collect();
    assert_eq!(run_script("python_client.py", &["--storage=memory", "--controllers=-*"], parts), wanted);
}

#[test]
fn operator_keeps_up_with_a_minute_of_churn() {
    assert_eq!(run_script("python_operator.py", &["--storage=memory"], &["60"]), "passed\n");
}

#[test]
fn python_client_reads_writes_and_watches() {
    run(&["objects", "patches", "lists", "watches", "any-kind"]);
}

#[test]
fn python_client_applies() {
    run(&["apply"]);
}

//! The Python client: `python_client.py` with the real library.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::path::Path;

use testkit::{Cli, Server};

/// Runs parts of the script on a new server.
fn run(parts: &[&str]) {
    let binary = testkit::server_binary(env!("CARGO_BIN_EXE_keelson"));
    let server = Server::start(&binary, &["--storage=memory", "--controllers=-*"]).unwrap();
    let python = Cli::new(testkit::tool("python-client").unwrap(), &server);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python_client.py");
    let (script, ca) = (script.display().to_string(), server.ca().display().to_string());
    let namespace = testkit::unique("python");
    let python = python.with(&[&script, server.url(), server.token(), &ca, &namespace]);
    let wanted: String = parts.iter().map(|part| format!("{part} passed\n")).collect();
    assert_eq!(python.ok(parts).unwrap(), wanted);
}

#[test]
fn python_client_reads_writes_and_watches() {
    run(&["objects", "patches", "lists", "watches", "any-kind"]);
}

#[test]
fn python_client_applies() {
    run(&["apply"]);
}

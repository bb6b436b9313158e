//! The packages for tests in other languages, by the tests that they come with.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::Folder;

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

fn package(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packages").join(name)
}

/// Runs a command, and shows what it wrote if it fails.
fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}\n{}{}", text(&output.stdout), text(&output.stderr));
}

/// Runs a file of the tests of the Python package.
fn pytest(file: &str) {
    let mut command = Command::new(testkit::tool("pytest").unwrap());
    command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "keelson_test.plugin", file]);
    command.env("KEELSON_BIN", binary()).env("PYTHONDONTWRITEBYTECODE", "1");
    run(command.current_dir(package("python")));
}

#[test]
fn python_starts_a_server_by_itself() {
    pytest("tests/test_server.py");
}

/// Runs where a Go toolchain is, with the modules of the example in its cache.
#[test]
fn go_suite_runs_unchanged() {
    let go = testkit::tool("go").unwrap_or_else(|_| "go".into());
    let folder = package("go");
    let here = Folder::new().unwrap();
    // Without the network, and without a file `go.sum`, which `go` would write into the example.
    let copy = here.path().join("example");
    std::fs::create_dir(&copy).unwrap();
    for name in ["go.mod", "envtest_test.go"] {
        std::fs::copy(folder.join(name), copy.join(name)).unwrap();
    }
    let offline = [("GOFLAGS", "-mod=mod"), ("GOPROXY", "off"), ("GONOSUMDB", "*"), ("GOTOOLCHAIN", "local")];
    let vetted = Command::new(&go).args(["vet", "./..."]).current_dir(&copy).envs(offline).output();
    match vetted {
        Ok(vetted) if vetted.status.success() => {}
        Ok(vetted) => {
            let why = String::from_utf8_lossy(&vetted.stderr).lines().next().unwrap_or_default().to_owned();
            eprintln!("not run: the modules of the example are not at hand ({why})");
            return;
        }
        Err(error) => {
            eprintln!("not run: there is no Go toolchain ({error})");
            return;
        }
    }
    let assets = here.path().join("assets");
    run(Command::new(binary()).arg("envtest").arg(&assets));
    for controllers in ["", "namespace-controller"] {
        run(Command::new(&go)
            .args(["test", "-count=1", "./..."])
            .current_dir(&copy)
            .envs(offline)
            .env("KUBEBUILDER_ASSETS", &assets)
            .env("KEELSON_CONTROLLERS", controllers));
    }
}

#[test]
fn python_gives_each_test_a_cluster_of_its_own() {
    pytest("tests/test_fixtures.py");
}

//! Sets the build information of the binary: commit, date of the commit, compiler. Without a repository or
//! without git the commit is empty.

use std::path::Path;
use std::process::Command;

fn main() {
    let commit = read("git", &["rev-parse", "HEAD"]).unwrap_or_default();
    let date = read("git", &["log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ"])
        .unwrap_or_else(|| "1970-01-01T00:00:00Z".into());
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let compiler = read(&rustc, &["--version"]).unwrap_or_else(|| "rustc".into());
    for (name, value) in [("COMMIT", commit), ("DATE", date), ("COMPILER", compiler)] {
        emit(&format!("cargo::rustc-env=KEELSON_BUILD_{name}={value}"));
    }
    emit("cargo::rerun-if-changed=build.rs");
    if let Some(log) = read("git", &["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        emit(&format!("cargo::rerun-if-changed={log}"));
    }
}

#[allow(clippy::print_stdout, reason = "this is how a build script speaks to cargo")]
fn emit(line: &str) {
    println!("{line}");
}

fn read(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).env("TZ", "UTC").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

//! `cargo xtask test`: the steps, their order, and what they cost.
//!
//! The name of a test says when it runs. Tests in files named `tests/e2e_*.rs` start the real server and talk
//! to it with real clients, or real etcd; tests whose own name begins with `slow_` take long on purpose:
//! fuzzing, crashes, churn. Both run here, and not with `--fast` nor with a bare `cargo nextest run`. All
//! other tests always run.
//!
//! All tests are built with one profile and one set of features, so that every dependency is compiled once
//! for them; the end-to-end tests run the release build, which is what users run. An optimised profile for
//! the slow tests would mean compiling everything a third time, and would lose the overflow and debug
//! assertions that a fuzz test is for.
//!
//! The release build is begun first and goes on beside the steps that do not need it: its end is the work of
//! one processor.

use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::command::{self, Background, cargo};
use crate::{licenses, texts, tools};

/// How much is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Everything,
    /// What needs no real clients and takes little time.
    Fast,
}

struct Step {
    name: &'static str,
    extent: Extent,
    work: Work,
}

enum Work {
    Run(fn() -> Result<(), String>),
    /// It was begun before all steps: waits for its end.
    ReleaseBuild,
}

const STEPS: &[Step] = &[
    Step { name: "format", extent: Extent::Fast, work: Work::Run(format) },
    Step { name: "texts", extent: Extent::Fast, work: Work::Run(check_texts) },
    Step { name: "clippy", extent: Extent::Fast, work: Work::Run(clippy) },
    Step { name: "licences", extent: Extent::Fast, work: Work::Run(check_licenses) },
    Step { name: "documentation", extent: Extent::Fast, work: Work::Run(documentation) },
    Step {
        name: "unit and contract tests",
        extent: Extent::Fast,
        work: Work::Run(|| tests(TestGroup::Fast)),
    },
    Step { name: "examples in the documentation", extent: Extent::Fast, work: Work::Run(doc_tests) },
    Step { name: "release build", extent: Extent::Everything, work: Work::ReleaseBuild },
    Step { name: "real clients", extent: Extent::Everything, work: Work::Run(fetch_tools) },
    Step {
        name: "end-to-end and slow tests",
        extent: Extent::Everything,
        work: Work::Run(|| tests(TestGroup::Long)),
    },
];

/// Runs the steps of `extent` in order, up to the first that fails. A step names all tests that fail.
pub fn run(extent: Extent) -> Result<(), String> {
    let begin = Instant::now();
    let mut done = Vec::new();
    let mut release = match extent {
        Extent::Everything => Some(release_build()?),
        Extent::Fast => None,
    };
    for step in STEPS.iter().filter(|step| extent == Extent::Everything || step.extent == Extent::Fast) {
        say(&format!("\n=== {} ===", step.name));
        let start = Instant::now();
        let outcome = match step.work {
            Work::Run(run) => run(),
            Work::ReleaseBuild => {
                release.take().map_or(Ok(()), |build| build.wait().map_err(|error| error.to_string()))
            }
        };
        if let Err(message) = outcome {
            return Err(format!(
                "{} failed after {}: {message}\n{}",
                step.name,
                seconds(start.elapsed()),
                summary(&done, begin.elapsed())
            ));
        }
        done.push((step.name, start.elapsed()));
        say(&format!("--- {}: passed in {}", step.name, seconds(start.elapsed())));
    }
    say(&format!("\n{}everything passed", summary(&done, begin.elapsed())));
    Ok(())
}

fn summary(done: &[(&str, Duration)], total: Duration) -> String {
    let lines = done.iter().map(|(name, took)| format!("  {:>8}  {name}\n", seconds(*took)));
    let lines: String = lines.collect();
    format!("passed:\n{lines}  {:>8}  in all\n", seconds(total))
}

fn format() -> Result<(), String> {
    show(cargo(crate::workspace()).args(["fmt", "--all", "--check"]))
}

fn clippy() -> Result<(), String> {
    show(cargo(crate::workspace()).args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--quiet",
        "--",
        "--deny=warnings",
    ]))
}

fn check_licenses() -> Result<(), String> {
    say(&licenses::check().map_err(|error| error.to_string())?);
    Ok(())
}

fn check_texts() -> Result<(), String> {
    say(&texts::check().map_err(|error| error.to_string())?);
    Ok(())
}

fn documentation() -> Result<(), String> {
    show(
        cargo(crate::workspace())
            .args(["doc", "--workspace", "--no-deps", "--quiet"])
            .env("RUSTDOCFLAGS", "--deny=warnings"),
    )
}

fn doc_tests() -> Result<(), String> {
    show(cargo(crate::workspace()).args(["test", "--workspace", "--doc", "--quiet"]))
}

fn release_build() -> Result<Background, String> {
    let mut build = cargo(crate::workspace());
    build.args(["build", "--package=keelson", "--release", "--quiet"]);
    Background::start(&mut build).map_err(|error| error.to_string())
}

/// What end-to-end tests use: every tool that is not for a special occasion.
fn fetch_tools() -> Result<(), String> {
    tools::install_named(&[]).map_err(|error| error.to_string())
}

/// A part of the tests, selected by names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TestGroup {
    Fast,
    /// End-to-end and slow tests together: the former wait much of their time, for processes and for
    /// time-outs.
    Long,
}

impl TestGroup {
    /// The part in nextest's words.
    fn filter(self) -> &'static str {
        match self {
            Self::Fast => "not (binary(/^e2e_/) | test(/(^|::)slow_/))",
            Self::Long => "binary(/^e2e_/) | test(/(^|::)slow_/)",
        }
    }

    /// The part in the words of `cargo test`, which knows substrings only: the arguments of each call. A test
    /// with `slow_` inside its name counts as slow, so that none is left out.
    fn arguments(self, files: &[String]) -> Vec<Vec<String>> {
        let (end_to_end, others): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.starts_with("e2e_"));
        let named = |files: Vec<&String>| files.into_iter().map(|file| format!("--test={file}")).collect();
        let call = |targets: Vec<String>, names: &[&str]| -> Vec<String> {
            let names = ["--"].iter().chain(names).map(|name| (*name).to_owned());
            targets.into_iter().chain(names).collect()
        };
        let units =
            |files: Vec<String>| ["--lib", "--bins"].map(String::from).into_iter().chain(files).collect();
        match self {
            Self::Fast => vec![call(units(named(others)), &["--skip", "slow_"])],
            Self::Long => {
                vec![call(named(end_to_end), &["--skip", "slow_"]), call(vec!["--tests".into()], &["slow_"])]
            }
        }
    }
}

/// Runs a part of the tests. Long ones wait much of their time: there is one more of them than there are
/// processors.
fn tests(part: TestGroup) -> Result<(), String> {
    let mut calls = Vec::new();
    if command::works(cargo(crate::workspace()).args(["nextest", "--version"])) {
        let mut call = cargo(crate::workspace());
        call.args(["nextest", "run", "--workspace", "--cargo-quiet", "--no-fail-fast", "--no-tests=pass"]);
        call.args(["--status-level=slow", "--final-status-level=fail", "--ignore-default-filter"]);
        call.args(["-E", part.filter()]);
        if part == TestGroup::Long {
            let threads = std::thread::available_parallelism().map_or(2, usize::from) + 1;
            call.arg(format!("--test-threads={threads}"));
        }
        calls.push(call);
    } else {
        for arguments in part.arguments(&test_files()?) {
            let mut call = cargo(crate::workspace());
            call.args(["test", "--workspace", "--quiet", "--no-fail-fast"]).args(arguments);
            calls.push(call);
        }
    }
    for mut call in calls {
        if part == TestGroup::Long {
            call.env("KEELSON_BIN", crate::target().join("release/keelson"));
        }
        show(&mut call)?;
    }
    Ok(())
}

/// The names of all integration test files of the workspace.
fn test_files() -> Result<Vec<String>, String> {
    let metadata =
        command::read(cargo(crate::workspace()).args(["metadata", "--format-version=1", "--no-deps"]))
            .map_err(|error| error.to_string())?;
    let metadata: Value = serde_json::from_slice(&metadata).map_err(|error| error.to_string())?;
    let targets = metadata["packages"].as_array().into_iter().flatten();
    let targets = targets.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let mut names: Vec<String> = targets
        .filter(|target| {
            target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "test"))
        })
        .filter_map(|target| target["name"].as_str().map(str::to_owned))
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}

fn show(command: &mut Command) -> Result<(), String> {
    command::show(command).map_err(|error| error.to_string())
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// Headlines go where the output of the tools goes, so that they stay in order.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_nextest_every_test_is_in_one_part() {
        let files = ["contract", "e2e_first_start", "http"].map(String::from);
        assert_eq!(
            TestGroup::Fast.arguments(&files),
            [vec!["--lib", "--bins", "--test=contract", "--test=http", "--", "--skip", "slow_"]]
        );
        assert_eq!(
            TestGroup::Long.arguments(&files),
            [vec!["--test=e2e_first_start", "--", "--skip", "slow_"], vec!["--tests", "--", "slow_"]]
        );
    }

    #[test]
    fn the_test_files_of_this_workspace_are_found() {
        let files = test_files().unwrap();
        assert!(files.iter().any(|file| file == "shutdown"), "{files:?}");
    }
}

//! `cargo xtask COMMAND`: see [`HELP`].

use std::io::Write as _;
use std::process::ExitCode;

use xtask::{command, licenses, test, texts, tools};

const HELP: &str = "\
cargo xtask COMMAND

  test [--fast]     everything that checks the project, in order; stops at the first failure.
                    --fast leaves out what needs real clients (files tests/e2e_*.rs) and what takes long (tests named slow_*)
  tools [NAME...]   fetches real clients and servers for tests and comparisons into target/tools; without names, all but
                    those that want to be asked for. What is there already is left alone
  tools --list      the names
  golden FILE...    replays recorded exchanges against a server; see cargo xtask golden --help
  texts             looks for what documents name, and for comments that are too wide
  licenses          holds the licence of every dependency to the allow-list
  help              this text
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["test"] => test::run(test::Extent::Everything),
        ["test", "--fast"] => test::run(test::Extent::Fast),
        ["tools", "--list"] => say(&tools::list()),
        ["tools", names @ ..] => tools::install_named(names).map_err(|error| error.to_string()),
        ["golden", arguments @ ..] => golden(arguments),
        ["licenses"] => licenses::check().map_err(|error| error.to_string()).and_then(|line| say(&line)),
        ["texts"] => texts::check().map_err(|error| error.to_string()).and_then(|line| say(&line)),
        ["help" | "--help" | "-h"] | [] => say(HELP),
        other => Err(format!("`{}` is not a command\n\n{HELP}", other.join(" "))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "error: {}", message.trim_end());
            ExitCode::FAILURE
        }
    }
}

/// The replayer is a program of its own: it brings TLS with it, which the other commands do without.
fn golden(arguments: &[&str]) -> Result<(), String> {
    let mut cargo = command::cargo(&std::env::current_dir().map_err(|error| error.to_string())?);
    cargo.args(["run", "--quiet", "--package=golden", "--"]).args(arguments);
    command::show(&mut cargo).map_err(|error| error.to_string())
}

fn say(text: &str) -> Result<(), String> {
    writeln!(std::io::stdout(), "{}", text.trim_end()).map_err(|error| error.to_string())
}

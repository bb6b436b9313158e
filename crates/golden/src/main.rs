//! `cargo xtask golden FILE`: see [`HELP`].

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use golden::{Outcome, Scenario, Summary, Waiting};
use testkit::http::Target;

const HELP: &str = "\
cargo xtask golden FILE... [--server URL --token TOKEN --ca FILE] [--only TEXT] [--at-once N] [-v]

Replays recorded exchanges against a server: one line a scenario, then a summary. It fails if an answer differs otherwise
than in wording. Without --server it starts the server that target/release has, or the one that KEELSON_BIN names, with its
controllers off.

  --server URL    https://host:port of a running server
  --token TOKEN   of an administrator there
  --ca FILE       the authority of its certificate
  --only TEXT     only scenarios whose name contains it
  --at-once N     how many scenarios run beside each other (default 8); 1 for files whose scenarios meet
  -v              shows the differences
  --waiting LIST  instead of anything else, prints the list of steps that differ, with the reasons that LIST has for them; for
                  one FILE
";

fn main() -> ExitCode {
    let outcome = ReplayOptions::read(std::env::args().skip(1)).and_then(|options| match options {
        Some(options) => options.run(),
        None => say(HELP).map(|()| ExitCode::SUCCESS),
    });
    outcome.unwrap_or_else(|message| {
        let _ = writeln!(std::io::stderr(), "error: {message}");
        ExitCode::FAILURE
    })
}

struct ReplayOptions {
    files: Vec<PathBuf>,
    server: Option<String>,
    token: Option<String>,
    ca: Option<PathBuf>,
    only: String,
    at_once: NonZeroUsize,
    verbose: bool,
    waiting: Option<PathBuf>,
}

impl ReplayOptions {
    /// None when help was asked for.
    fn read(mut words: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = Self {
            files: Vec::new(),
            server: None,
            token: None,
            ca: None,
            only: String::new(),
            at_once: golden::AT_ONCE,
            verbose: false,
            waiting: None,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "-h" | "--help" => return Ok(None),
                "-v" => options.verbose = true,
                "--server" => options.server = Some(value()?),
                "--token" => options.token = Some(value()?),
                "--ca" => options.ca = Some(value()?.into()),
                "--waiting" => options.waiting = Some(value()?.into()),
                "--only" => options.only = value()?,
                "--at-once" => {
                    options.at_once = value()?.parse().map_err(|_| "--at-once needs a number from 1 on")?;
                }
                other if other.starts_with('-') => {
                    return Err(format!("there is no option {other}\n\n{HELP}"));
                }
                _ => options.files.push(word.into()),
            }
        }
        if options.files.is_empty() {
            return Err(format!("a file is needed\n\n{HELP}"));
        }
        if options.waiting.is_some() && options.files.len() > 1 {
            return Err("--waiting is for one file".into());
        }
        Ok(Some(options))
    }

    fn run(&self) -> Result<ExitCode, String> {
        let files = self.files.iter().map(|file| golden::load(file)).collect::<Result<Vec<_>, _>>();
        let files = files.map_err(|error| error.to_string())?;
        let webhooks = self.files.iter().map(|file| golden::Webhook::for_file(file));
        let _webhooks = webhooks.collect::<Result<Vec<_>, _>>()?;
        let mut outcomes = Vec::new();
        match (&self.server, &self.token, &self.ca) {
            (Some(url), Some(token), Some(ca)) => {
                let target = Target::new(url, ca).map_err(|error| error.to_string())?;
                for scenarios in &files {
                    outcomes.extend(self.replay(&target, token, scenarios));
                }
            }
            (None, None, None) => {
                for scenarios in &files {
                    let server = golden::start_server(&binary()?, golden::IN_MEMORY)
                        .map_err(|error| error.to_string())?;
                    let target = server.target().map_err(|error| error.to_string())?;
                    outcomes.extend(self.replay(&target, server.token(), scenarios));
                }
            }
            _ => return Err("--server, --token and --ca go together".into()),
        }
        if let (Some(list), [scenarios]) = (&self.waiting, files.as_slice()) {
            let waiting = Waiting::load(list, scenarios).map_err(|error| error.to_string())?;
            say(&waiting.list(&outcomes))?;
            return Ok(ExitCode::SUCCESS);
        }
        let summary = Summary::of(&outcomes);
        say(&summary.to_string())?;
        Ok(if summary.differ == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn replay(&self, target: &Target, token: &str, scenarios: &[Scenario]) -> Vec<Outcome> {
        let chosen: Vec<&Scenario> =
            scenarios.iter().filter(|scenario| scenario.name.contains(&self.only)).collect();
        golden::replay(target, token, &chosen, self.at_once, &|outcome| {
            if self.waiting.is_some() {
                return;
            }
            let text = if self.verbose { format!("{outcome:#}") } else { outcome.to_string() };
            let _ = say(&text);
        })
    }
}

fn binary() -> Result<PathBuf, String> {
    let built = testkit::release_binary();
    if Path::new(&built).is_file() {
        Ok(built)
    } else {
        Err(format!("{} is not there; build it with `cargo build --release`", built.display()))
    }
}

fn say(text: &str) -> Result<(), String> {
    writeln!(std::io::stdout(), "{}", text.trim_end()).map_err(|error| error.to_string())
}

//! Running other programs.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// Why a program did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be started.
    #[error("`{line}` could not be started: {cause}")]
    Start {
        /// The command line.
        line: Line,
        /// What the system said.
        cause: io::Error,
    },
    /// It ended with a failure.
    #[error("`{line}` failed ({status}){}", said(.output))]
    Failed {
        /// The command line.
        line: Line,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it wrote, where that was not shown already.
        output: String,
    },
}

/// A command line, for the reader of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line(String);

impl Line {
    fn of(command: &Command) -> Self {
        let program = Path::new(command.get_program());
        let words = std::iter::once(program.file_name().unwrap_or_default()).chain(command.get_args());
        let words: Vec<String> = words.map(|word| quoted(&word.to_string_lossy())).collect();
        Self(words.join(" "))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Runs a command whose output is for the user's eyes.
pub fn show(command: &mut Command) -> Result<(), Error> {
    let line = Line::of(command);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::Failed { line, status, output: String::new() }),
        Err(cause) => Err(Error::Start { line, cause }),
    }
}

/// A command that runs beside others; its output is for the user's eyes. It is ended when this is dropped.
pub struct Background {
    line: Line,
    child: Child,
}

impl Background {
    /// Starts a command.
    pub fn start(command: &mut Command) -> Result<Self, Error> {
        let line = Line::of(command);
        match command.stdin(Stdio::null()).spawn() {
            Ok(child) => Ok(Self { line, child }),
            Err(cause) => Err(Error::Start { line, cause }),
        }
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Result<(), Error> {
        let line = self.line.clone();
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Error::Failed { line, status, output: String::new() }),
            Err(cause) => Err(Error::Start { line, cause }),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Runs a command and returns what it wrote to its standard output; what it says besides appears if it fails.
pub fn read(command: &mut Command) -> Result<Vec<u8>, Error> {
    let line = Line::of(command);
    match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => Err(Error::Failed {
            line,
            status: output.status,
            output: end_of(&String::from_utf8_lossy(&[output.stdout, output.stderr].concat())),
        }),
        Err(cause) => Err(Error::Start { line, cause }),
    }
}

/// Whether a command can be run and succeeds.
pub fn works(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// Cargo, in `folder`.
pub fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    command
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{word}'") }
}

/// The last lines of a program's output.
fn end_of(output: &str) -> String {
    const LINES: usize = 12;
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join("\n")
}

fn said(output: &str) -> String {
    if output.is_empty() { String::new() } else { format!(":\n{output}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_command_error_shows_command_and_last_output() {
        let error = read(Command::new("sh").args(["-c", "echo one; echo two >&2; exit 3"])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`sh -c 'echo one; echo two >&2; exit 3'` failed (exit status: 3):\none\ntwo"
        );
    }

    #[test]
    fn a_command_beside_others_is_waited_for_or_ended() {
        let sleep = |seconds: &str| Background::start(Command::new("sleep").arg(seconds)).unwrap();
        sleep("0").wait().unwrap();
        let begin = std::time::Instant::now();
        drop(sleep("60"));
        assert!(begin.elapsed().as_secs() < 30);
        let failed =
            Background::start(Command::new("sh").args(["-c", "exit 3"])).unwrap().wait().unwrap_err();
        assert_eq!(failed.to_string(), "`sh -c 'exit 3'` failed (exit status: 3)");
    }

    #[test]
    fn missing_program_is_named_in_the_error() {
        let error = read(&mut Command::new("no-such-program")).unwrap_err();
        assert!(error.to_string().starts_with("`no-such-program` could not be started: "), "{error}");
    }
}

//! What is written to a recording, from all connections.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::file::{Answered, Line, Sent};
use crate::mask::Masks;

/// An open recording.
#[derive(Debug)]
pub(crate) struct Recorder(Mutex<Open>);

#[derive(Debug)]
struct Open {
    file: File,
    masks: Masks,
    watches: u64,
    /// Whether a line could not be written: it is said once.
    has_failed: bool,
}

impl Recorder {
    /// Makes a file, for its owner alone, in place of one that is there.
    pub(crate) fn create(path: &Path, server: &str) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        writeln!(file, "{}", Line::Start { server: server.to_owned() }.to_value())?;
        Ok(Self(Mutex::new(Open { file, masks: Masks::default(), watches: 0, has_failed: false })))
    }

    /// Writes a request with its answer.
    pub(crate) fn exchange(&self, mut request: Sent, mut answer: Answered) {
        let mut open = self.lock();
        open.hide(&mut request, &mut answer);
        open.write(&Line::Exchange { request, answer });
    }

    /// Writes a watch that has begun: its number.
    pub(crate) fn watch(&self, mut request: Sent, mut answer: Answered) -> u64 {
        let mut open = self.lock();
        open.hide(&mut request, &mut answer);
        open.watches += 1;
        let watch = open.watches;
        open.write(&Line::Watch { watch, request, answer });
        watch
    }

    /// Writes an event of a watch on `path`.
    pub(crate) fn event(&self, watch: u64, path: &str, mut event: Value) {
        let mut open = self.lock();
        open.masks.hide_in_event(path, &mut event);
        open.write(&Line::Event { watch, event });
    }

    /// Writes the end of a watch.
    pub(crate) fn end(&self, watch: u64) {
        self.lock().write(&Line::End { watch });
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn hide(&mut self, request: &mut Sent, answer: &mut Answered) {
        // The request comes first: its secrets may be in a message of the answer.
        self.masks.hide(&request.path, &mut request.body);
        self.masks.hide(&request.path, &mut answer.body);
    }

    fn write(&mut self, line: &Line) {
        let text = format!("{}\n", line.to_value());
        if let Err(error) = self.file.write_all(text.as_bytes())
            && !self.has_failed
        {
            self.has_failed = true;
            log::error!(error:%; "the recording is not complete: a line could not be written");
        }
    }
}

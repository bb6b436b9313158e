//! How far a command is, on standard error.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Tells how many objects a command has been through.
pub(super) struct Progress {
    doing: &'static str,
    what: &'static str,
    begin: Instant,
    told: Instant,
    pause: Duration,
    objects: u64,
    bytes: u64,
    of: Option<u64>,
}

impl Progress {
    /// Begins to tell of work, such as `writing`, on this many objects if that is known.
    pub(super) fn new(doing: &'static str, of: Option<u64>) -> Self {
        Self::of(doing, "objects", of)
    }

    /// The same for other things than objects.
    pub(super) fn counting(doing: &'static str, what: &'static str, of: u64) -> Self {
        Self::of(doing, what, Some(of))
    }

    fn of(doing: &'static str, what: &'static str, of: Option<u64>) -> Self {
        let pause = if is_terminal() { Duration::from_millis(200) } else { Duration::from_secs(5) };
        let now = Instant::now();
        Self { doing, what, begin: now, told: now, pause, objects: 0, bytes: 0, of }
    }

    /// One object more.
    pub(super) fn step(&mut self, bytes: usize) {
        self.objects += 1;
        self.bytes += bytes as u64;
        // The clock is not asked for each object.
        if self.objects.is_multiple_of(64) && self.told.elapsed() >= self.pause {
            self.told = Instant::now();
            self.tell();
        }
    }

    /// What was done, for the end of a command.
    pub(super) fn summary(self) -> String {
        if is_terminal() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        format!(
            "{} objects, {:.1} MB, in {:.1} s",
            self.objects,
            self.bytes as f64 / 1e6,
            self.begin.elapsed().as_secs_f64()
        )
    }

    /// Ends without a word.
    pub(super) fn end(self) {
        drop(self.summary());
    }

    fn tell(&self) {
        let (before, after) = if is_terminal() { ("\r", "\x1b[K") } else { ("", "\n") };
        let of = self.of.map(|of| format!(" of {of}")).unwrap_or_default();
        let Self { doing, what, objects, .. } = self;
        let size = match self.bytes {
            0 => String::new(),
            bytes => format!(", {:.1} MB", bytes as f64 / 1e6),
        };
        let _ = write!(std::io::stderr(), "{before}{doing}: {objects}{of} {what}{size}{after}");
    }
}

fn is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

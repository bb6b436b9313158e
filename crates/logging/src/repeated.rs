//! Lines that repeat: each call site may log [`BURST`] lines at once and [`PER_SECOND`] in a second; the
//! number of lines that were left out is said with the next one, or by a line of its own.
//!
//! Only lines that are logged without raised verbosity are limited: whoever raises it wants all lines.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use log::{Level, Record};

/// The lines that a call site may log at once.
const BURST: f64 = 200.0;
/// The lines that it may log in a second after that.
const PER_SECOND: f64 = 10.0;
/// How long lines that were left out may be unsaid while other lines are logged.
const UNSAID: Duration = Duration::from_secs(10);

/// A place in the source from which lines are logged. There are as many as the program has.
type CallSite = (&'static str, u32);

/// The call sites that have logged.
#[derive(Debug, Default)]
pub(crate) struct CallSites(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    sites: HashMap<CallSite, Recent>,
    looked: Option<Instant>,
}

#[derive(Debug)]
struct Recent {
    /// The lines that it may log now.
    left: f64,
    changed: Instant,
    left_out: u64,
    module: &'static str,
}

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is written. The call site has left out that many lines before.
    Written(u64),
    LeftOut,
}

/// Lines of a call site that were left out and that no line has said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) module: &'static str,
    pub(crate) line: u32,
    pub(crate) lines: u64,
}

impl CallSites {
    /// Decides about a line.
    pub(crate) fn admit(&self, record: &Record<'_>, now: Instant) -> Verdict {
        let (Some(file), Some(line)) = (record.file_static(), record.line()) else {
            return Verdict::Written(0);
        };
        if record.level() > Level::Info {
            return Verdict::Written(0);
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let site = known.sites.entry((file, line)).or_insert_with(|| Recent {
            left: BURST,
            changed: now,
            left_out: 0,
            module: record.module_path_static().unwrap_or(file),
        });
        let since = now.saturating_duration_since(site.changed).as_secs_f64();
        site.left = (site.left + since * PER_SECOND).min(BURST);
        site.changed = now;
        if site.left < 1.0 {
            site.left_out += 1;
            return Verdict::LeftOut;
        }
        site.left -= 1.0;
        Verdict::Written(std::mem::take(&mut site.left_out))
    }

    /// The lines that were left out at call sites which have logged nothing since.
    pub(crate) fn unsaid(&self, now: Instant) -> Vec<LeftOut> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.looked.is_some_and(|looked| now.saturating_duration_since(looked) < UNSAID) {
            return Vec::new();
        }
        known.looked = Some(now);
        let due =
            |site: &&mut Recent| site.left_out > 0 && now.saturating_duration_since(site.changed) >= UNSAID;
        let sites = known.sites.iter_mut().map(|((_, line), site)| (*line, site));
        sites
            .filter(|(_, site)| due(site))
            .map(|(line, site)| LeftOut {
                module: site.module,
                line,
                lines: std::mem::take(&mut site.left_out),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(line: u32, level: Level) -> Record<'static> {
        Record::builder()
            .level(level)
            .file_static(Some("a.rs"))
            .line(Some(line))
            .module_path_static(Some("a"))
            .build()
    }

    #[test]
    fn a_call_site_that_repeats_itself_is_cut_short_and_says_how_much() {
        let sites = CallSites::default();
        let begin = Instant::now();
        let written =
            (0..1000).filter(|_| sites.admit(&record(1, Level::Warn), begin) == Verdict::Written(0));
        assert_eq!(written.count(), BURST as usize);
        assert_eq!(sites.admit(&record(2, Level::Warn), begin), Verdict::Written(0));
        let later = begin + Duration::from_secs(1);
        assert_eq!(sites.admit(&record(1, Level::Warn), later), Verdict::Written(800));
        assert_eq!(sites.admit(&record(1, Level::Warn), later), Verdict::Written(0));
    }

    #[test]
    fn lines_of_raised_verbosity_are_not_limited() {
        let sites = CallSites::default();
        let now = Instant::now();
        assert!((0..1000).all(|_| sites.admit(&record(1, Level::Debug), now) == Verdict::Written(0)));
    }

    #[test]
    fn what_no_line_of_the_call_site_says_is_said_by_itself() {
        let sites = CallSites::default();
        let begin = Instant::now();
        for _ in 0..=BURST as usize {
            sites.admit(&record(7, Level::Info), begin);
        }
        assert!(sites.unsaid(begin).is_empty());
        let later = begin + UNSAID;
        assert_eq!(sites.unsaid(later), [LeftOut { module: "a", line: 7, lines: 1 }]);
        assert!(sites.unsaid(later + UNSAID).is_empty());
    }
}

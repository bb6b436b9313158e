//! When revisions were committed, so that history can be kept for a time.
//!
//! 1. While a store is open its clock goes on evenly from the time that the system had when it was opened:
//!    setting the clock of the system neither ends history nor keeps it for longer.
//! 2. A stored tick that is later than the time of the open was written while the clock was ahead, and counts
//!    as a tick of the time of the open. So history is kept for at most the retention time after an open,
//!    whatever the clock said before.

use super::{engine::View, layout};
use crate::Revision;
use std::{
    collections::VecDeque,
    time::{Duration, Instant, UNIX_EPOCH},
};

/// The time, and ticks: at most one for each interval, each with the first revision committed at its time or
/// after.
#[derive(Debug)]
pub(super) struct Clock {
    ticks: VecDeque<Tick>,
    /// When the store was opened: milliseconds since 1970, by the clock of the system.
    opened: u64,
    since: Instant,
}

/// For how long history is kept, and how far ticks are apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) retention: Duration,
    pub(super) interval: Duration,
}

/// A revision and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tick {
    pub(super) first: Revision,
    pub(super) millis: u64,
}

impl Clock {
    /// Reads the ticks. Damaged ones are left out: history is then kept for longer.
    pub(super) fn read(view: &View) -> Self {
        let rows = view.scan_prefix(&[layout::TICK]).map_while(Result::ok);
        let ticks = rows.filter_map(|row| {
            let first = layout::parse_numbered(&row.key)?;
            let millis = u64::from_le_bytes(row.row.as_ref().try_into().ok()?);
            Some(Tick { first, millis })
        });
        Self::new(ticks, system_time())
    }

    fn new(ticks: impl Iterator<Item = Tick>, opened: u64) -> Self {
        let ticks = ticks.map(|tick| Tick { millis: tick.millis.min(opened), ..tick });
        Self { ticks: ticks.collect(), opened, since: Instant::now() }
    }

    /// Milliseconds since 1970.
    pub(super) fn now(&self) -> u64 {
        self.opened.saturating_add(u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// The tick that a batch starting with revision `first` should store, if an interval has passed since the
    /// last tick.
    pub(super) fn due(&self, first: Revision, now: u64, interval: Duration) -> Option<Tick> {
        let interval = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        match self.ticks.back() {
            Some(last) if now < last.millis.saturating_add(interval) => None,
            _ => Some(Tick { first, millis: now }),
        }
    }

    pub(super) fn push(&mut self, tick: Tick) {
        self.ticks.push_back(tick);
    }

    /// The revision that was the newest one `retention` ago, or one shortly before it: revisions before that
    /// can go.
    ///
    /// `newest` is the newest revision now. It was committed within an interval after the last tick.
    pub(super) fn expired(&self, now: u64, newest: Revision, times: Times) -> Revision {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (retention, interval) = (millis(times.retention), millis(times.interval));
        if let Some(last) = self.ticks.back()
            && last.millis.saturating_add(interval).saturating_add(retention) <= now
        {
            return newest;
        }
        let old = self.ticks.iter().rfind(|tick| tick.millis.saturating_add(retention) <= now);
        old.map_or(Revision::ZERO, |tick| tick.first)
    }

    /// Takes out the ticks that are not needed once history starts at `compacted`: all but the last of those
    /// before it.
    pub(super) fn take_before(&mut self, compacted: Revision) -> Vec<Tick> {
        let keep = self.ticks.iter().rposition(|tick| tick.first <= compacted).unwrap_or(0);
        self.ticks.drain(..keep).collect()
    }
}

/// Milliseconds since 1970, by the clock of the system.
fn system_time() -> u64 {
    let since = clock::system().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Clock {
        let ticks = [(1, 1_000), (10, 2_000), (25, 3_000)];
        Clock::new(ticks.map(|(r, millis)| Tick { first: Revision(r), millis }).into_iter(), 3_000)
    }

    fn empty() -> Clock {
        Clock::new([].into_iter(), 0)
    }

    #[test]
    fn ticks_are_an_interval_apart() {
        let second = Duration::from_secs(1);
        assert_eq!(clock().due(Revision(30), 3_999, second), None);
        let due = clock().due(Revision(30), 4_000, second);
        assert_eq!(due, Some(Tick { first: Revision(30), millis: 4_000 }));
        assert!(empty().due(Revision(1), 0, second).is_some());
    }

    #[test]
    fn history_starts_at_the_revision_that_was_the_newest_a_retention_ago() {
        let times = Times { retention: Duration::from_secs(60), interval: Duration::from_secs(1) };
        let expired = |now| clock().expired(now, Revision(30), times);
        assert_eq!(expired(60_999), Revision(0));
        assert_eq!(expired(62_000), Revision(10));
        assert_eq!(expired(63_999), Revision(25));
        assert_eq!(expired(64_000), Revision(30), "everything was committed by 4,000");
        assert_eq!(empty().expired(64_000, Revision(30), times), Revision(0));
    }

    #[test]
    fn ticks_of_a_clock_that_was_ahead_count_from_the_open_on() {
        let times = Times { retention: Duration::from_secs(60), interval: Duration::from_secs(1) };
        let year = 365 * 24 * 3_600_000;
        let ticks = [(1, 1_000), (10, year), (25, year + 1_000)];
        let ticks = ticks.map(|(r, millis)| Tick { first: Revision(r), millis });
        let clock = Clock::new(ticks.into_iter(), 5_000);
        assert_eq!(clock.due(Revision(30), 5_500, times.interval), None);
        assert!(clock.due(Revision(30), 6_000, times.interval).is_some(), "ticks go on");
        assert_eq!(clock.expired(64_999, Revision(30), times), Revision(1), "nothing goes early");
        assert_eq!(clock.expired(65_000, Revision(30), times), Revision(25), "and all of it goes");
        assert_eq!(clock.expired(66_000, Revision(30), times), Revision(30));
    }

    #[test]
    fn time_of_an_open_store_goes_on_from_its_open() {
        let clock = Clock::new([].into_iter(), 7_000);
        std::thread::sleep(Duration::from_millis(5));
        assert!((7_005..8_007_000).contains(&clock.now()), "{}", clock.now());
    }

    #[test]
    fn ticks_before_the_start_of_history_go() {
        let mut clock = clock();
        assert_eq!(clock.take_before(Revision(9)), []);
        assert_eq!(clock.take_before(Revision(24)).len(), 1);
        assert_eq!(clock.take_before(Revision(99)).len(), 1);
    }
}

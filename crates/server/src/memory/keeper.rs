//! The loop that keeps the process below its ceiling: it reads the resident memory, shrinks the cache, and
//! gives free memory back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tasks::off_worker;
use tokio::time::Instant;

use super::{Ceiling, RELEASES, RESTORE_BELOW, SHRINK_FROM, WHOLE};

/// How often the memory is looked at near the limit.
const NEAR: Duration = Duration::from_millis(100);
/// How often it is looked at otherwise.
const FAR: Duration = Duration::from_secs(1);
/// From this part of the limit on, it is near.
const NEAR_FROM: f64 = 0.5;
/// How much of its budgets the cache gives up in a step, and gets back in another.
const STEP_DOWN: f64 = 0.25;
const STEP_UP: f64 = 0.0625;
/// The least time between two releases while there is something to give back.
const BETWEEN: Duration = Duration::from_secs(2);
/// The same, after a release that gave back next to nothing.
const BETWEEN_IDLE: Duration = Duration::from_secs(8);
/// For how long after expensive requests releases go on: threads that did their work keep free memory until
/// they end, which is after ten seconds.
const AFTERWARDS: Duration = Duration::from_secs(20);
/// How many bytes the cache has to have given up for a release.
const WORTH: u64 = 4 << 20;
/// The least time between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

impl Ceiling {
    /// Keeps the process below the ceiling. Does not end.
    pub async fn run(self: Arc<Self>) {
        let mut keeper = Keeper::default();
        loop {
            let pause = keeper.look(&self);
            tokio::time::sleep(pause).await;
        }
    }
}

/// What the loop knows from its last rounds.
#[derive(Debug, Default)]
struct Keeper {
    /// Ended reservations, at the last look.
    ended: u64,
    /// The most that the server could give up since the last release.
    transient: u64,
    /// Until when releases go on.
    active_until: Option<Instant>,
    released: Option<Instant>,
    /// What the last release gave back.
    gained: u64,
    warned: Option<Instant>,
    /// When the budgets were last raised.
    raised: Option<Instant>,
}

impl Keeper {
    /// One round; the result is the pause after it.
    fn look(&mut self, ceiling: &Ceiling) -> Duration {
        let now = Instant::now();
        if let Some(resident) = resident() {
            ceiling.room.set_resident(resident);
        }
        let pressure = ceiling.room.pressure();
        let shrunk = self.adjust(ceiling, pressure, now);
        self.note_activity(ceiling, now);
        let since = self.released.map(|at| now.saturating_duration_since(at));
        let is_active = self.active_until.is_some_and(|until| now < until) || pressure >= SHRINK_FROM;
        let between = if self.gained < WORTH { BETWEEN_IDLE } else { BETWEEN };
        if shrunk || (is_active && since.is_none_or(|since| since >= between)) {
            let before = ceiling.room.resident();
            off_worker(sampling::release::everywhere);
            RELEASES.with([]).inc();
            self.released = Some(Instant::now());
            self.transient = ceiling.accounts().transient();
            if let Some(resident) = resident() {
                self.gained = before.saturating_sub(resident);
                ceiling.room.set_resident(resident);
            }
        }
        self.warn(ceiling, now);
        if ceiling.room.limit() > 0 && pressure >= NEAR_FROM { NEAR } else { FAR }
    }

    /// Changes the budgets of the cache by the pressure. Whether they are less now.
    fn adjust(&mut self, ceiling: &Ceiling, pressure: f64, now: Instant) -> bool {
        let Some(cache) = ceiling.cache.get() else { return false };
        let share = ceiling.share();
        let mut next = next_share(share, pressure);
        if next > share {
            // Down at every look, up once in a second.
            let waited = self.raised.map(|at| now.saturating_duration_since(at));
            if waited.is_some_and(|waited| waited < FAR) {
                next = share;
            } else {
                self.raised = Some(now);
            }
        }
        if (next - share).abs() < f64::EPSILON {
            return false;
        }
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "between 0 and a thousand"
        )]
        ceiling.share.store((next * WHOLE as f64).round() as usize, Ordering::Relaxed);
        off_worker(|| cache.set_share(next));
        next < share
    }

    /// Notes whether much was freed since the last look.
    fn note_activity(&mut self, ceiling: &Ceiling, now: Instant) {
        let ended = ceiling.room.ended();
        let transient = ceiling.accounts().transient();
        if std::mem::replace(&mut self.ended, ended) != ended || transient + WORTH < self.transient {
            self.active_until = Some(now + AFTERWARDS);
        }
        self.transient = self.transient.max(transient);
    }

    /// Says that the limit is exceeded, once in a while.
    fn warn(&mut self, ceiling: &Ceiling, now: Instant) {
        let limit = ceiling.room.limit();
        let resident = ceiling.room.resident();
        let is_due = self.warned.is_none_or(|at| now.saturating_duration_since(at) >= WARNING_INTERVAL);
        if limit > 0 && resident > limit && is_due {
            self.warned = Some(now);
            let entries = ceiling.accounts().cache.entries;
            log::warn!(
                limit, resident, objects = entries;
                "the process takes more memory than --memory-limit: expensive requests are refused"
            );
        }
    }
}

/// The share of its budgets that the cache has after a look at this pressure.
pub(super) fn next_share(share: f64, pressure: f64) -> f64 {
    if pressure >= SHRINK_FROM {
        (share - STEP_DOWN).max(0.0)
    } else if pressure < RESTORE_BELOW {
        (share + STEP_UP).min(1.0)
    } else {
        share
    }
}

/// The resident memory of the process; `None` if the system does not say it.
pub(super) fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

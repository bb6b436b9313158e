//! What the clock shows, and how it is moved.

use crate::system;
use crate::wait::CHANGED;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// The fastest rate: a day in a second.
pub const FASTEST: f64 = 86_400.0;
/// The last second of the year 9999, in seconds since 1970.
const LAST: u64 = 253_402_300_799;
/// For how long after a step what follows the clock may still have to act on it, in real time.
const SETTLING: Duration = Duration::from_secs(1);

/// Whether the clock was ever moved.
pub(crate) static MOVED: AtomicBool = AtomicBool::new(false);
static STATE: RwLock<Option<State>> = RwLock::new(None);

/// How the clock was moved. Both times grow with the rate from `since` on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    since: Instant,
    /// What the time of day was ahead of the system, in nanoseconds.
    offset: i128,
    /// What waits were ahead of real time.
    waits: Duration,
    /// Real seconds take this long; at least 1.
    rate: f64,
    /// When the clock was last stepped forward.
    stepped: Option<Instant>,
}

/// A change of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Change {
    /// Where the clock is put.
    pub place: Option<Place>,
    /// How fast the clock goes from now on.
    pub rate: Option<f64>,
}

/// A place of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// So much later than now.
    Forward(Duration),
    /// So much earlier than now.
    Back(Duration),
    /// A time of day.
    At(SystemTime),
    /// The time of day of the system.
    System,
}

/// What the clock shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The time of day.
    pub now: SystemTime,
    /// How fast the clock goes.
    pub rate: f64,
    /// How far the time of day is ahead of the system, in nanoseconds; negative if it is behind.
    pub offset: i128,
}

/// Why the clock is not moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The rate is too small, too great, or no number.
    #[error("must be from 1 to 86400")]
    Rate,
    /// The clock would leave the years 1970 to 9999.
    #[error("the clock would leave the years 1970 to 9999")]
    Range,
}

impl State {
    fn unmoved() -> Self {
        Self { since: Instant::now(), offset: 0, waits: Duration::ZERO, rate: 1.0, stepped: None }
    }

    /// What the rate has added until `real`.
    fn gained(&self, real: Instant) -> Duration {
        if self.rate <= 1.0 {
            return Duration::ZERO;
        }
        let elapsed = real.saturating_duration_since(self.since);
        Duration::try_from_secs_f64(elapsed.as_secs_f64() * (self.rate - 1.0)).unwrap_or_default()
    }

    /// The point of waits at a real one.
    pub(crate) fn ahead(&self, real: Instant) -> Instant {
        real.checked_add(self.waits.saturating_add(self.gained(real))).unwrap_or(real)
    }

    /// How long it takes in real time until waits are at a point; `None` if they are past it.
    pub(crate) fn left(&self, until: Instant, real: Instant) -> Option<Duration> {
        let left = until.saturating_duration_since(self.ahead(real));
        (!left.is_zero()).then(|| left.div_f64(self.rate))
    }

    fn offset(&self, real: Instant) -> i128 {
        self.offset.saturating_add(nanos(self.gained(real)))
    }

    /// The state from `real` on, which shows the same.
    fn rebased(&self, real: Instant) -> Self {
        let waits = self.waits.saturating_add(self.gained(real));
        Self { since: real, offset: self.offset(real), waits, ..*self }
    }
}

pub(crate) fn read_state() -> State {
    guard().unwrap_or_else(State::unmoved)
}

fn guard() -> RwLockReadGuard<'static, Option<State>> {
    STATE.read().unwrap_or_else(PoisonError::into_inner)
}

fn nanos(time: Duration) -> i128 {
    i128::try_from(time.as_nanos()).unwrap_or(i128::MAX)
}

/// A time of some nanoseconds; zero if they are negative.
fn time(nanos: i128) -> Duration {
    let nanos = nanos.max(0);
    let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    Duration::new(u64::try_from(seconds).unwrap_or(u64::MAX), u32::try_from(rest).unwrap_or_default())
}

/// Nanoseconds since 1970, negative before.
fn since_1970(time: SystemTime) -> i128 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => nanos(since),
        Err(error) => -nanos(error.duration()),
    }
}

/// A time of day that is some nanoseconds away from another, within the years of the clock.
fn shifted(day: SystemTime, offset: i128) -> SystemTime {
    let last = nanos(Duration::from_secs(LAST));
    let at = since_1970(day).saturating_add(offset).clamp(0, last);
    SystemTime::UNIX_EPOCH + time(at)
}

/// The time of day.
pub fn now() -> SystemTime {
    match MOVED.load(Ordering::Acquire) {
        false => system(),
        true => shifted(system(), read_state().offset(Instant::now())),
    }
}

/// What the clock shows.
pub fn read() -> Reading {
    match MOVED.load(Ordering::Acquire) {
        false => Reading { now: system(), rate: 1.0, offset: 0 },
        true => read_state().reading(Instant::now()),
    }
}

impl State {
    fn reading(&self, real: Instant) -> Reading {
        let offset = self.offset(real);
        Reading { now: shifted(system(), offset), rate: self.rate, offset }
    }
}

/// Moves the clock, and wakes what waits for it.
pub fn change(change: Change) -> Result<Reading, Refused> {
    if change.rate.is_some_and(|rate| !(1.0..=FASTEST).contains(&rate)) {
        return Err(Refused::Rate);
    }
    let reading = {
        let mut state = STATE.write().unwrap_or_else(PoisonError::into_inner);
        let (real, day) = (Instant::now(), system());
        let mut new = state.unwrap_or_else(State::unmoved).rebased(real);
        if let Some(place) = change.place {
            let offset = match place {
                Place::Forward(time) => new.offset.saturating_add(nanos(time)),
                Place::Back(time) => new.offset.saturating_sub(nanos(time)),
                Place::At(time) => since_1970(time).saturating_sub(since_1970(day)),
                Place::System => 0,
            };
            let at = since_1970(day).saturating_add(offset);
            if !(0..=nanos(Duration::from_secs(LAST))).contains(&at) {
                return Err(Refused::Range);
            }
            // A clock that is set back does not take away from what waits have waited.
            new.waits = new.waits.saturating_add(time(offset.saturating_sub(new.offset)));
            if offset > new.offset {
                new.stepped = Some(real);
            }
            new.offset = offset;
        }
        new.rate = change.rate.unwrap_or(new.rate);
        *state = Some(new);
        MOVED.store(true, Ordering::Release);
        new.reading(real)
    };
    CHANGED.notify_waiters();
    Ok(reading)
}

/// How long, by this clock, what follows it may still have to act on its last step: the rest of a real
/// second.
/// For what would mistake another that has not acted yet for one that is gone.
pub fn is_settling() -> Option<Duration> {
    if !MOVED.load(Ordering::Acquire) {
        return None;
    }
    let state = read_state();
    let left = SETTLING.saturating_sub(Instant::now().saturating_duration_since(state.stepped?));
    (!left.is_zero()).then(|| left.mul_f64(state.rate))
}

//! Points in the time that passes.

use crate::state::{self, MOVED};
use std::ops::{Add, AddAssign, Sub};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A point in the time that passes by this clock: that of `tokio`, and what the clock was moved ahead by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub(crate) tokio::time::Instant);

impl Instant {
    /// The present.
    pub fn now() -> Self {
        let real = tokio::time::Instant::now();
        match MOVED.load(Ordering::Acquire) {
            false => Self(real),
            true => Self(state::read_state().ahead(real)),
        }
    }

    /// A later point, if there is one.
    pub fn checked_add(self, time: Duration) -> Option<Self> {
        self.0.checked_add(time).map(Self)
    }

    /// An earlier point, if there is one.
    pub fn checked_sub(self, time: Duration) -> Option<Self> {
        self.0.checked_sub(time).map(Self)
    }

    /// The time from another point to this one; zero if that is later.
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// The time from another point to this one; zero if that is later.
    pub fn duration_since(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }

    /// The time that has passed since this point.
    pub fn elapsed(self) -> Duration {
        Self::now().saturating_duration_since(self)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0 + time)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, time: Duration) {
        *self = *self + time;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        Self(self.0 - time)
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

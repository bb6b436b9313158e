//! Work, in seat-seconds: how many seats a request takes, and for how long.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// Work in seat-seconds, as a number of fixed point: exact sums, however long the server runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeatSeconds(i128);

/// The units of one seat-second.
const SCALE: f64 = 1e8;

impl SeatSeconds {
    /// No work.
    pub const ZERO: Self = Self(0);
    /// More than any work.
    pub(crate) const MAX: Self = Self(i128::MAX);

    /// The work of some seats for some time.
    #[allow(clippy::cast_possible_truncation, reason = "the product is rounded to units")]
    pub fn of(seats: f64, time: Duration) -> Self {
        Self((seats * time.as_secs_f64() * SCALE).round() as i128)
    }

    /// The work of some seats for a time that may be negative, in seconds.
    #[allow(clippy::cast_possible_truncation, reason = "the product is rounded to units")]
    pub(crate) fn signed(seats: f64, seconds: f64) -> Self {
        Self((seats * seconds * SCALE).round() as i128)
    }

    /// The time that some seats take for the work.
    pub fn duration_for(self, seats: f64) -> Duration {
        if seats <= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(self.as_f64() / seats).unwrap_or_default()
    }

    /// As a number of seat-seconds.
    #[allow(clippy::cast_precision_loss, reason = "for display and metrics")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / SCALE
    }
}

impl Add for SeatSeconds {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for SeatSeconds {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for SeatSeconds {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for SeatSeconds {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl fmt::Display for SeatSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = 100_000_000;
        let sign = if self.0 < 0 { "-" } else { "" };
        let all = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:08}ss", all / units, all % units)
    }
}

/// How much work a request is expected to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkEstimate {
    /// The seats that it takes while it is handled.
    pub initial_seats: u32,
    /// The seats that what follows from it takes, such as the events to watchers.
    pub final_seats: u32,
    /// For how long the final seats are taken. The client does not wait for that.
    pub additional_latency: Duration,
}

impl WorkEstimate {
    /// One seat, while it is handled.
    pub const LEAST: Self = Self::seats(1);

    /// Some seats, while it is handled.
    pub const fn seats(seats: u32) -> Self {
        Self { initial_seats: seats, final_seats: 0, additional_latency: Duration::ZERO }
    }

    /// The most seats that it takes at any time. They are set aside from its start to its end.
    pub fn most_seats(&self) -> u32 {
        self.initial_seats.max(self.final_seats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_written_with_eight_digits() {
        assert_eq!(SeatSeconds::of(1.5, Duration::from_millis(3)).to_string(), "0.00450000ss");
        assert_eq!(SeatSeconds::signed(2.0, -1.25).to_string(), "-2.50000000ss");
    }

    #[test]
    fn the_time_for_work_is_shared_by_seats() {
        let work = SeatSeconds::of(10.0, Duration::from_millis(5));
        assert_eq!(work.duration_for(2.0), Duration::from_millis(25));
        assert_eq!(work.duration_for(0.0), Duration::ZERO);
    }
}

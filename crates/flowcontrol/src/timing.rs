//! A ratio over time, as a histogram: for how long it was in each of some ranges.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A number and what it is compared with, over time. Each nanosecond counts as one observation of their
/// ratio.
#[derive(Debug)]
pub(crate) struct Timing {
    bounds: &'static [f64],
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    last: Instant,
    number: f64,
    whole: f64,
    nanos: Box<[u64]>,
    sum: f64,
}

impl Timing {
    /// Begins at zero.
    pub(crate) fn new(bounds: &'static [f64], now: Instant) -> Self {
        let nanos = vec![0; bounds.len() + 1].into_boxed_slice();
        let state = State { last: now, number: 0.0, whole: 1.0, nanos, sum: 0.0 };
        Self { bounds, state: Mutex::new(state) }
    }

    /// The number is this from now on.
    pub(crate) fn set(&self, number: f64, now: Instant) {
        self.change(now, |state| state.number = number);
    }

    /// The number is larger by this from now on.
    pub(crate) fn add(&self, more: f64, now: Instant) {
        self.change(now, |state| state.number += more);
    }

    /// What the number is compared with is this from now on.
    pub(crate) fn set_whole(&self, whole: f64, now: Instant) {
        self.change(now, |state| state.whole = whole.max(1.0));
    }

    /// For how many nanoseconds the ratio was in each range, and the sum of its observations.
    pub(crate) fn observed(&self, now: Instant) -> (Vec<u64>, f64) {
        self.change(now, |state| (state.nanos.to_vec(), state.sum))
    }

    /// The upper bounds of the ranges but the last.
    pub(crate) fn bounds(&self) -> &'static [f64] {
        self.bounds
    }

    fn change<R>(&self, now: Instant, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_duration_since(state.last);
        if passed > Duration::ZERO {
            let ratio = state.number / state.whole;
            let range = self.bounds.partition_point(|bound| *bound < ratio);
            let nanos = u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX);
            if let Some(total) = state.nanos.get_mut(range) {
                *total = total.saturating_add(nanos);
            }
            #[allow(clippy::cast_precision_loss, reason = "a sum for display")]
            let observed = nanos as f64;
            state.sum += ratio * observed;
            state.last = now;
        }
        change(&mut state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_counts_for_as_long_as_it_lasts() {
        let begin = Instant::now();
        let at = |nanos| begin + Duration::from_nanos(nanos);
        let timing = Timing::new(&[0.0, 0.5, 1.0], begin);
        timing.set_whole(10.0, at(5));
        timing.set(10.0, at(20));
        timing.set(5.0, at(23));
        let (nanos, sum) = timing.observed(at(30));
        assert_eq!(nanos, [20, 7, 3, 0]);
        assert!((sum - 6.5).abs() < 1e-9);
    }
}

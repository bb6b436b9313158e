//! When a refused client should come again: later, the more requests were refused lately.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The longest time, in seconds.
const LONGEST: u64 = 32;

/// The refused requests of a level.
#[derive(Debug)]
pub(crate) struct Refused(Mutex<Seconds>);

#[derive(Debug)]
struct Seconds {
    /// How many requests were refused in seconds before the current one.
    history: VecDeque<(u64, u64)>,
    current: u64,
    count: u64,
    retry_after: u64,
    raised: u64,
}

impl Default for Refused {
    fn default() -> Self {
        Self(Mutex::new(Seconds {
            history: VecDeque::new(),
            current: 0,
            count: 0,
            retry_after: 1,
            raised: 0,
        }))
    }
}

impl Refused {
    /// Notes a refused request in this second, and says after how many seconds its client should come again.
    pub(crate) fn note(&self, second: u64) -> u64 {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.current == second {
            all.count += 1;
        } else {
            all.next(second);
        }
        all.retry_after
    }
}

impl Seconds {
    /// Another second begins, with a refused request.
    fn next(&mut self, second: u64) {
        self.history.push_back((self.current, self.count));
        let kept = (2 * self.retry_after).min(LONGEST);
        while self.history.front().is_some_and(|(at, _)| second.saturating_sub(*at) > kept) {
            self.history.pop_front();
        }
        (self.current, self.count) = (second, 1);
        let lately = |at: u64| at < second && second - at <= self.retry_after;
        let refused: u64 = self.history.iter().filter(|(at, _)| lately(*at)).map(|(_, count)| count).sum();
        if second.saturating_sub(self.raised) >= self.retry_after && refused >= 3 * self.retry_after {
            // Up fast and down slowly, as TCP does with its windows.
            self.retry_after = (2 * self.retry_after).min(LONGEST);
            self.raised = second;
        } else if refused < self.retry_after && self.retry_after > 1 {
            self.retry_after -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_doubles_under_load_and_falls_by_seconds_after_it() {
        let refused = Refused::default();
        let mut longest = 0;
        for second in 1_000..1_200 {
            for _ in 0..200 {
                longest = refused.note(second);
            }
        }
        assert_eq!(longest, LONGEST);
        let times: Vec<u64> = (0..20).map(|step| refused.note(2_000 + 100 * step)).collect();
        assert_eq!(times[0], 31);
        assert!(times.windows(2).all(|pair| pair[0] == pair[1] + 1), "{times:?}");
    }

    #[test]
    fn a_few_refusals_change_nothing() {
        let refused = Refused::default();
        assert!((1..100).all(|second| refused.note(second) == 1));
    }
}

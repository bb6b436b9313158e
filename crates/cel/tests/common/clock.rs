//! A clock for measurements on a machine that has other work too.

use std::time::{Duration, Instant};

/// The time that this thread had a processor; where the system does not tell, the time that went by.
#[derive(Clone, Copy)]
pub struct Clock {
    start: Instant,
    busy: Option<u64>,
}

impl Clock {
    /// Starts to count.
    pub fn start() -> Self {
        Self { start: Instant::now(), busy: Self::busy() }
    }

    /// The time since then.
    pub fn elapsed(&self) -> Duration {
        match (self.busy, Self::busy()) {
            (Some(then), Some(now)) => Duration::from_nanos(now - then),
            _ => self.start.elapsed(),
        }
    }

    fn busy() -> Option<u64> {
        std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
    }
}

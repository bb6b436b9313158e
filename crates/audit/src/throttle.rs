//! A bound on how often something happens, with some at once after a pause.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// A bucket that fills at a rate, up to a burst.
#[derive(Debug)]
pub(crate) struct Throttle {
    rate: f64,
    burst: f64,
    left: f64,
    filled: Instant,
}

impl Throttle {
    pub(crate) fn new(rate: f64, burst: f64) -> Self {
        Self { rate, burst, left: burst, filled: Instant::now() }
    }

    /// Waits for a turn.
    pub(crate) async fn turn(&mut self) {
        let now = Instant::now();
        self.left = (self.left + (now - self.filled).as_secs_f64() * self.rate).min(self.burst) - 1.0;
        self.filled = now;
        if self.left < 0.0 {
            let wait = Duration::try_from_secs_f64(-self.left / self.rate).unwrap_or(Duration::MAX);
            sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_past_the_burst_waits() {
        tokio::time::pause();
        let mut throttle = Throttle::new(10.0, 3.0);
        let begin = Instant::now();
        for _ in 0..5 {
            throttle.turn().await;
        }
        let took = begin.elapsed();
        assert!((0.19..0.25).contains(&took.as_secs_f64()), "{took:?}");
    }
}

//! Repeated attempts with growing pauses between them.

use crate::Error;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// How often a request is made again after a transient error, and with which pauses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The pause after the first attempt.
    pub initial: Duration,
    /// How much longer each pause is than the one before.
    pub factor: f64,
    /// The share of a pause that is added to it at random at most.
    pub jitter: f64,
    /// How many attempts there are.
    pub attempts: u32,
}

impl Default for Backoff {
    /// The pauses of the reference's webhooks for authentication and authorization.
    fn default() -> Self {
        Self { initial: Duration::from_millis(500), factor: 1.5, jitter: 0.2, attempts: 5 }
    }
}

impl Backoff {
    /// Makes attempts until one succeeds, fails for good, is the last, or the next could not start before the
    /// deadline.
    pub(crate) async fn retry<T, F: Future<Output = Result<T, Error>>>(
        &self,
        deadline: Instant,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, Error> {
        let mut pause = self.initial;
        for _ in 1..self.attempts {
            let error = match attempt().await {
                Err(error) if error.is_transient() => error,
                outcome => return outcome,
            };
            let jittered = pause.mul_f64(1.0 + self.jitter * fastrand::f64());
            let wait = jittered.max(error.retry_after().unwrap_or_default());
            // `Retry-After` may name a time past the deadline.
            let Some(next) = Instant::now().checked_add(wait).filter(|next| *next < deadline) else {
                return Err(error);
            };
            tokio::time::sleep_until(next).await;
            pause = pause.mul_f64(self.factor);
        }
        attempt().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn status(code: u16, retry_after: Option<Duration>) -> Error {
        Error::Status { code, message: String::new(), retry_after }
    }

    async fn attempts(error: Error, timeout: Duration) -> (u32, Duration) {
        let made = Cell::new(0);
        let begin = Instant::now();
        let outcome: Result<(), Error> = Backoff::default()
            .retry(begin + timeout, || {
                made.set(made.get() + 1);
                let error = error.clone();
                async move { Err(error) }
            })
            .await;
        assert_eq!(outcome, Err(error));
        (made.get(), begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn transient_errors_are_retried_with_growing_pauses() {
        let long = Duration::from_secs(60);
        for code in [500, 504, 429] {
            let (made, took) = attempts(status(code, None), long).await;
            assert_eq!(made, 5, "{code}");
            let least = Duration::from_millis(500 + 750 + 1125 + 1687);
            assert!(took >= least && took <= least.mul_f64(1.21), "{took:?}");
        }
        for code in [400, 401, 403, 404, 503] {
            assert_eq!(attempts(status(code, None), long).await.0, 1, "{code}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn server_that_says_when_to_come_back_is_asked_again_then() {
        let (made, took) = attempts(status(503, Some(Duration::from_secs(2))), Duration::from_secs(60)).await;
        assert_eq!(made, 5);
        assert!(took >= Duration::from_secs(8) && took < Duration::from_secs(9), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_attempt_starts_after_the_deadline() {
        let (made, took) = attempts(status(500, None), Duration::from_secs(1)).await;
        assert_eq!(made, 2);
        assert!(took < Duration::from_secs(1), "{took:?}");
        for retry_after in [3600, u64::MAX] {
            let error = status(503, Some(Duration::from_secs(retry_after)));
            assert_eq!(attempts(error, Duration::from_secs(9)).await.0, 1);
        }
    }
}

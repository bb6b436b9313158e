//! Circuit breakers: a webhook that failed often in a row is left alone for a while, so that requests do not
//! wait for it.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long a breaker stays open. One request may try after that; the others go on as if it was open until
/// that one has succeeded.
const OPEN: Duration = Duration::from_secs(10);
/// How long failures count of a webhook that nothing asks any more.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// The breakers of all webhooks. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Breakers(Arc<Mutex<BTreeMap<String, Breaker>>>);

#[derive(Debug)]
struct Breaker {
    /// Failures in a row.
    failures: u32,
    /// The last of them.
    error: String,
    last: Instant,
    open_until: Option<Instant>,
}

impl Breakers {
    /// A line for each breaker that is open. Strangers may read it, so that it does not repeat errors.
    pub fn open(&self) -> Vec<String> {
        let now = Instant::now();
        let breakers = self.lock();
        let open = breakers.iter().filter(|(_, breaker)| breaker.open_until.is_some_and(|until| until > now));
        open.map(|(webhook, breaker)| {
            let failures = breaker.failures;
            format!("circuit breaker of webhook {webhook} is open after {failures} failures in a row")
        })
        .collect()
    }

    /// Whether a webhook may be asked, or what is wrong with it.
    pub(crate) fn check(&self, webhook: &str) -> Result<(), String> {
        let now = Instant::now();
        let mut breakers = self.lock();
        let Some(breaker) = breakers.get_mut(webhook) else { return Ok(()) };
        match breaker.open_until {
            Some(until) if until > now => {
                let Breaker { failures, error, .. } = breaker;
                Err(format!(
                    "the circuit breaker is open after {failures} failures in a row, the last: {error}"
                ))
            }
            Some(_) => {
                // This request tries.
                breaker.open_until = Some(now + OPEN);
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(crate) fn succeeded(&self, webhook: &str) {
        if self.lock().remove(webhook).is_some_and(|breaker| breaker.open_until.is_some()) {
            log::info!(webhook; "a webhook answers again; its circuit breaker is closed");
        }
    }

    /// Counts a failure, which opens the breaker if it is one of `most` in a row.
    pub(crate) fn failed(&self, webhook: &str, most: NonZeroU32, error: &str) {
        let now = Instant::now();
        let mut breakers = self.lock();
        breakers.retain(|_, breaker| now.duration_since(breaker.last) < FORGOTTEN);
        let breaker = breakers.entry(webhook.to_owned()).or_insert_with(|| Breaker {
            failures: 0,
            error: String::new(),
            last: now,
            open_until: None,
        });
        breaker.failures = breaker.failures.saturating_add(1);
        breaker.last = now;
        error.clone_into(&mut breaker.error);
        if breaker.failures >= most.get() {
            if breaker.open_until.is_none() {
                log::warn!(webhook, failures = breaker.failures, error; "a webhook failed too often in a row; its circuit breaker is open");
            }
            breaker.open_until = Some(now + OPEN);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Breaker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn breaker_opens_after_failures_in_a_row_and_one_request_tries_later() {
        let breakers = Breakers::default();
        let three = NonZeroU32::new(3).unwrap();
        for _ in 0..2 {
            breakers.failed("w", three, "down");
        }
        breakers.succeeded("w");
        for _ in 0..2 {
            breakers.failed("w", three, "down");
        }
        assert_eq!(breakers.check("w"), Ok(()));
        assert!(breakers.open().is_empty());
        breakers.failed("w", three, "gone");
        let why = breakers.check("w").unwrap_err();
        assert_eq!(why, "the circuit breaker is open after 3 failures in a row, the last: gone");
        assert_eq!(breakers.check("other"), Ok(()));
        assert_eq!(breakers.open(), ["circuit breaker of webhook w is open after 3 failures in a row"]);
        tokio::time::advance(OPEN).await;
        // The first tries, the others wait for it.
        assert_eq!(breakers.check("w"), Ok(()));
        assert!(breakers.check("w").is_err());
        breakers.failed("w", three, "still");
        assert!(breakers.check("w").unwrap_err().contains("after 4 failures in a row, the last: still"));
        tokio::time::advance(OPEN).await;
        assert_eq!(breakers.check("w"), Ok(()));
        breakers.succeeded("w");
        assert_eq!((breakers.check("w"), breakers.check("w")), (Ok(()), Ok(())));
        assert!(breakers.open().is_empty());
    }
}

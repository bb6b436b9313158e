//! Steps that are likely to fail all alike, such as creates in a namespace without quota: the first ones show
//! whether they do.

use schema::Status;
use tokio::task::JoinSet;

/// The number of steps of the first batch.
pub(crate) const FIRST_BATCH: usize = 1;

/// The most steps of a batch.
const LARGEST_BATCH: usize = 500;

/// The outcome of [`slow_start`].
#[derive(Debug)]
pub(crate) struct SlowStart {
    /// How many steps succeeded.
    pub(crate) successes: usize,
    /// The first error.
    pub(crate) error: Option<Status>,
}

/// Takes `count` steps in batches: the first has `first` steps, each further one twice as many as the one
/// before. The steps of a batch run at the same time. After a batch with a failure no other begins. A step
/// gets its number, from 0 on.
pub(crate) async fn slow_start<F>(count: usize, first: usize, step: impl Fn(usize) -> F) -> SlowStart
where
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let mut outcome = SlowStart { successes: 0, error: None };
    let (mut begun, mut batch) = (0, first.min(count));
    while batch > 0 && outcome.error.is_none() {
        let mut steps: JoinSet<_> = (begun..begun + batch).map(&step).collect();
        begun += batch;
        while let Some(ended) = steps.join_next().await {
            match ended.unwrap_or_else(|error| Err(Status::internal_error(&error.to_string()))) {
                Ok(()) => outcome.successes += 1,
                Err(error) => outcome.error = outcome.error.or(Some(error)),
            }
        }
        batch = (2 * batch).min(LARGEST_BATCH).min(count - begun);
    }
    outcome
}

/// Takes steps, at most `most` of them at the same time. Gives the first error, after all have ended.
pub(crate) async fn at_once<F>(most: usize, steps: impl IntoIterator<Item = F>) -> Result<(), Status>
where
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let mut steps = steps.into_iter();
    let mut running: JoinSet<_> = steps.by_ref().take(most).collect();
    let mut outcome = Ok(());
    while let Some(ended) = running.join_next().await {
        let ended = ended.unwrap_or_else(|error| Err(Status::internal_error(&error.to_string())));
        outcome = outcome.and(ended);
        if let Some(step) = steps.next() {
            running.spawn(step);
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    async fn run(count: usize, limit: usize) -> (usize, usize, bool) {
        let calls = Arc::new(AtomicUsize::new(0));
        let outcome = slow_start(count, 1, |_| {
            let calls = calls.clone();
            async move {
                match calls.fetch_add(1, Ordering::SeqCst) < limit {
                    true => Ok(()),
                    false => Err(Status::internal_error("the limit is reached")),
                }
            }
        });
        let outcome = outcome.await;
        (outcome.successes, calls.load(Ordering::SeqCst), outcome.error.is_some())
    }

    #[tokio::test]
    async fn batches_double_until_one_has_a_failure() {
        // Batches of 1, 2, 4 and so on.
        assert_eq!(run(0, 0).await, (0, 0, false));
        assert_eq!(run(1, 0).await, (0, 1, true));
        assert_eq!(run(10, 1).await, (1, 3, true));
        assert_eq!(run(10, 5).await, (5, 7, true));
        assert_eq!(run(10, 9).await, (9, 10, true));
        assert_eq!(run(10, 10).await, (10, 10, false));
        assert_eq!(run(1000, 1000).await, (1000, 1000, false));
    }
}

//! One run of a task for everything that waits for its result.

use std::future::Future;
use tokio::sync::watch;

/// The result of a task, for any number of waiters. The task runs to its end, also when none waits any more.
#[derive(Clone, Debug)]
pub struct Shared<T>(watch::Receiver<Option<T>>);

impl<T: Clone + Send + Sync + 'static> Shared<T> {
    /// Starts a task.
    pub fn spawn(task: impl Future<Output = T> + Send + 'static) -> Self {
        let (done, result) = watch::channel(None);
        tasks::once(async move {
            let outcome = task.await;
            done.send_replace(Some(outcome));
        });
        Self(result)
    }

    /// Waits for the result; `None` if the task panicked.
    pub async fn wait(mut self) -> Option<T> {
        self.0.wait_for(Option::is_some).await.ok()?.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn all_waiters_get_the_result_of_one_run_also_after_it_ended() {
        let runs = Arc::new(AtomicUsize::new(0));
        let shared = Shared::spawn({
            let runs = runs.clone();
            async move { runs.fetch_add(1, Ordering::SeqCst) + 7 }
        });
        assert_eq!(tokio::join!(shared.clone().wait(), shared.clone().wait()), (Some(7), Some(7)));
        assert_eq!(shared.wait().await, Some(7));
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn panic_of_the_task_ends_the_wait() {
        let shared = Shared::<u8>::spawn(async { panic!("as tested") });
        assert_eq!(shared.wait().await, None);
    }
}

//! Waiting for futures of a runtime in functions that are not async.

use std::future::Future;
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::Handle;

/// Runs a future on the runtime and waits for its answer. `None` if it takes longer than the limit, or if the
/// runtime ends.
///
/// The caller may be a worker of a runtime with several threads, or any other thread. On the only thread of
/// the same runtime the future cannot run, and the answer is `None` after the limit.
pub(crate) fn wait<T: Send + 'static>(
    handle: &Handle,
    limit: Duration,
    future: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let task = tasks::once_on(handle, async move {
        // Sending fails if the caller no longer waits.
        let _ = sender.send(future.await);
    });
    let answer = tasks::off_worker(|| receiver.recv_timeout(limit)).ok();
    task.abort();
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::runtime::Builder;

    async fn answer() -> u8 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        7
    }

    #[test]
    fn waiting_works_on_workers_on_blocking_threads_and_on_plain_threads() {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        let limit = Duration::from_secs(10);
        assert_eq!(wait(&handle, limit, answer()), Some(7));
        let here = handle.clone();
        let on_worker = runtime.block_on(async move {
            let on_blocking = here.clone();
            let blocking = here.spawn_blocking(move || wait(&on_blocking, limit, answer()));
            let worker = here.clone();
            let worker = here.spawn(async move { wait(&worker, limit, answer()) });
            (blocking.await.unwrap(), worker.await.unwrap(), wait(&here, limit, answer()))
        });
        assert_eq!(on_worker, (Some(7), Some(7), Some(7)));
    }

    #[test]
    fn waiting_on_another_runtime_works_and_on_the_same_single_thread_ends() {
        let other = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let single = Builder::new_current_thread().enable_all().build().unwrap();
        let elsewhere = other.handle().clone();
        let answers = single.block_on(async {
            let here = Handle::current();
            (
                wait(&elsewhere, Duration::from_secs(10), answer()),
                wait(&here, Duration::from_millis(50), answer()),
            )
        });
        assert_eq!(answers, (Some(7), None));
    }

    #[test]
    fn waiting_ends_with_the_limit_and_with_the_runtime() {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        assert_eq!(wait(&handle, Duration::from_millis(20), std::future::pending::<u8>()), None);
        runtime.shutdown_background();
        assert_eq!(wait(&handle, Duration::from_secs(10), answer()), None);
    }
}

//! Waiting for something rare beside something frequent.
//!
//! A task that is woken for one of its futures polls all of them. Where one of them is a time-out or the end of the
//! process, and another has news thousands of times a second, that is a lock and a timer for each piece of news, shared
//! with all other tasks that do the same.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A future that is polled when it was woken itself, and not when the task that it belongs to was woken for another.
pub(crate) struct Rare<F> {
    future: Pin<Box<F>>,
    /// Whom it wakes.
    task: Option<Waker>,
    bell: Arc<Bell>,
}

struct Bell {
    rung: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl<F: Future> Rare<F> {
    pub(crate) fn new(future: F) -> Self {
        let bell = Arc::new(Bell { rung: AtomicBool::new(true), task: Mutex::new(None) });
        Self { future: Box::pin(future), task: None, bell }
    }
}

impl<F: Future> Future for Rare<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        if this.task.as_ref().is_none_or(|task| !task.will_wake(cx.waker())) {
            // From now on a ring wakes this task; one before is seen below.
            this.task = Some(cx.waker().clone());
            *this.bell.task.lock().unwrap_or_else(PoisonError::into_inner) = this.task.clone();
        }
        if !this.bell.rung.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        // A ring from here on is one for the next poll.
        this.bell.rung.store(false, Ordering::Release);
        this.future.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&this.bell))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn it_is_polled_when_it_was_woken_and_not_with_others() {
        let polls = Arc::new(AtomicUsize::new(0));
        let (send, mut receive) = oneshot::channel::<u8>();
        let counted = Arc::clone(&polls);
        let mut rare = Rare::new(std::future::poll_fn(move |cx| {
            counted.fetch_add(1, Ordering::SeqCst);
            Pin::new(&mut receive).poll(cx)
        }));
        for _ in 0..100 {
            tokio::select! {
                biased;
                _ = &mut rare => panic!("nothing was sent"),
                () = tokio::task::yield_now() => {}
            }
        }
        assert_eq!(polls.load(Ordering::SeqCst), 1);
        send.send(7).unwrap();
        assert_eq!(rare.await, Ok(7));
        assert_eq!(polls.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn it_wakes_the_task_that_polled_it_last() {
        let (send, receive) = oneshot::channel::<u8>();
        let mut rare = Rare::new(receive);
        let first = futures_poll(&mut rare);
        assert!(first.is_pending());
        let waiting = tokio::spawn(rare);
        tokio::time::sleep(Duration::from_millis(5)).await;
        send.send(7).unwrap();
        assert_eq!(tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap(), Ok(7));
    }

    fn futures_poll<F: Future>(rare: &mut Rare<F>) -> Poll<F::Output> {
        Pin::new(rare).poll(&mut Context::from_waker(Waker::noop()))
    }
}

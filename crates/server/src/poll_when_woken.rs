//! A future for rare events, in a `select!` with a future for frequent ones.
//!
//! A task that is woken for one of its futures polls all of them. If one of them is a timeout or the
//! shutdown, and another has events thousands of times a second, each event costs a lock and a timer that all
//! such tasks share.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A future that is polled only after its own waker was called, not when its task was woken for another
/// future.
pub(crate) struct PollWhenWoken<F> {
    future: Pin<Box<F>>,
    /// The waker of the task that polled it last.
    task: Option<Waker>,
    flag: Arc<WakeFlag>,
}

struct WakeFlag {
    woken: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl<F: Future> PollWhenWoken<F> {
    pub(crate) fn new(future: F) -> Self {
        let flag = Arc::new(WakeFlag { woken: AtomicBool::new(true), task: Mutex::new(None) });
        Self { future: Box::pin(future), task: None, flag }
    }
}

impl<F: Future> Future for PollWhenWoken<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        if this.task.as_ref().is_none_or(|task| !task.will_wake(cx.waker())) {
            // From now on a wake reaches this task; an earlier one is seen below.
            this.task = Some(cx.waker().clone());
            *this.flag.task.lock().unwrap_or_else(PoisonError::into_inner) = this.task.clone();
        }
        if !this.flag.woken.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        // A wake from here on is for the next poll.
        this.flag.woken.store(false, Ordering::Release);
        this.future.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&this.flag))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn polled_only_after_its_own_wake() {
        let polls = Arc::new(AtomicUsize::new(0));
        let (send, mut receive) = oneshot::channel::<u8>();
        let counted = Arc::clone(&polls);
        let mut rare = PollWhenWoken::new(std::future::poll_fn(move |cx| {
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
    async fn wakes_the_task_that_polled_it_last() {
        let (send, receive) = oneshot::channel::<u8>();
        let mut rare = PollWhenWoken::new(receive);
        let first = futures_poll(&mut rare);
        assert!(first.is_pending());
        let waiting = tokio::spawn(rare);
        tokio::time::sleep(Duration::from_millis(5)).await;
        send.send(7).unwrap();
        assert_eq!(tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap(), Ok(7));
    }

    fn futures_poll<F: Future>(rare: &mut PollWhenWoken<F>) -> Poll<F::Output> {
        Pin::new(rare).poll(&mut Context::from_waker(Waker::noop()))
    }
}

//! Work on large objects, which takes more than a few milliseconds of CPU time, runs in a section that may
//! block ([`off_worker`]), so that other requests do not wait for it. Work on small objects runs at once.
//!
//! Objects that are encoded one after another count together: up to [`LARGE`] bytes of a list, or of a batch
//! of a watch, are encoded on the event loop, the others beside it. Objects whose encoding is in the cache do
//! not count.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread::available_parallelism;

use tasks::off_worker;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A body or an object of more bytes is large.
pub(crate) const LARGE: usize = 64 << 10;

/// About how many bytes of objects are encoded with one [`Permit`].
const BATCH: usize = 1 << 20;

/// The writes of large objects, and the batches of large lists and watches, that run at the same time: as
/// many as there are processors.
#[derive(Clone)]
pub(crate) struct LargeWork {
    permits: Arc<Semaphore>,
}

impl Default for LargeWork {
    fn default() -> Self {
        let permits = available_parallelism().map_or(1, usize::from);
        Self { permits: Arc::new(Semaphore::new(permits)) }
    }
}

impl LargeWork {
    /// Runs a request with [`off_worker`]. While the request waits, for example for an admission webhook,
    /// another request uses its permit.
    pub(super) async fn run<T>(&self, request: impl Future<Output = T>) -> T {
        let mut request = pin!(request);
        loop {
            let permit = self.permits.acquire().await;
            let polled = poll_fn(|context| Poll::Ready(off_worker(|| request.as_mut().poll(context)))).await;
            drop(permit);
            match polled {
                Poll::Ready(outcome) => return outcome,
                Poll::Pending => woken().await,
            }
        }
    }

    /// Waits for a permit to encode objects beside the event loop. `first` is the size of the first object.
    pub(crate) async fn permit(&self, first: usize) -> Permit {
        Permit { _held: self.permits.clone().acquire_owned().await.ok(), allowance: first.max(BATCH) }
    }
}

/// Waits until the task is woken.
async fn woken() {
    let mut is_first = true;
    poll_fn(|_| if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }).await;
}

/// The permission to encode a batch of objects beside the event loop.
pub(crate) struct Permit {
    _held: Option<OwnedSemaphorePermit>,
    allowance: usize,
}

impl Permit {
    /// Encodes objects, of at most as many bytes as the argument of `work` says.
    pub(crate) fn run<T>(self, work: impl FnOnce(usize) -> T) -> T {
        off_worker(|| work(self.allowance))
    }
}

/// Runs work on this many bytes: with [`off_worker`] if they are large.
pub(super) fn beside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes > LARGE { off_worker(work) } else { work() }
}

#[cfg(test)]
impl LargeWork {
    /// All permits: until they are dropped, nothing runs beside the event loop.
    pub(crate) async fn all_permits(&self) -> Vec<Permit> {
        let mut permits = vec![self.permit(0).await];
        while self.permits.available_permits() > 0 {
            permits.push(self.permit(0).await);
        }
        permits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn requests_that_wait_make_room_for_others() {
        let work = LargeWork { permits: Arc::new(Semaphore::new(1)) };
        let (sender, receiver) = tokio::sync::oneshot::channel::<u8>();
        let waiting = tokio::spawn({
            let work = work.clone();
            async move { work.run(receiver).await }
        });
        let other = tokio::time::timeout(Duration::from_secs(20), work.run(async { 7 }));
        assert_eq!(other.await, Ok(7));
        sender.send(8).unwrap();
        assert_eq!(waiting.await.unwrap(), Ok(8));
    }
}

//! Work on large objects, which takes more than a few milliseconds of CPU time: it runs beside the event loop, so that other
//! requests do not wait for it. Small objects never come here.
//!
//! Objects that are encoded one after another count together: up to [`LARGE`] bytes of a list, or of a batch of a watch, are
//! encoded on the event loop, the others beside it. Objects whose encoding is in the cache do not count.

use std::future::Future;
use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::{Error, Status};

/// A body or an object of more bytes is large.
pub(crate) const LARGE: usize = 64 << 10;

/// About how many bytes of objects are encoded with one [`Permit`].
const BATCH: usize = 1 << 20;

/// The writes of large objects, and the batches of large lists and watches, that run at the same time: as many as there are
/// processors.
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
    /// Runs a request on a thread that the event loop does without meanwhile. The caller's own time-out cannot interrupt it, so it
    /// ends at `until` by itself.
    pub(super) async fn run<T>(
        &self,
        until: Option<Instant>,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let _permit = self.permits.acquire().await;
        let handle = Handle::current();
        let request = async {
            match until {
                Some(until) => timeout_at(until, request).await.unwrap_or_else(|_| Err(timed_out().into())),
                None => request.await,
            }
        };
        match handle.runtime_flavor() {
            RuntimeFlavor::CurrentThread => request.await,
            _ => tokio::task::block_in_place(|| handle.block_on(request)),
        }
    }

    /// Waits until objects can be encoded beside the event loop. The first of them has so many bytes.
    pub(crate) async fn permit(&self, first: usize) -> Permit {
        Permit { _held: self.permits.clone().acquire_owned().await.ok(), allowance: first.max(BATCH) }
    }
}

/// The permission to encode a batch of objects beside the event loop.
pub(crate) struct Permit {
    _held: Option<OwnedSemaphorePermit>,
    allowance: usize,
}

impl Permit {
    /// Encodes objects, of at most as many bytes as the argument of `work` says.
    pub(crate) fn run<T>(self, work: impl FnOnce(usize) -> T) -> T {
        in_place(|| work(self.allowance))
    }
}

/// Does something with so many bytes.
pub(super) fn beside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes > LARGE { in_place(work) } else { work() }
}

/// Runs something on this thread, which the event loop does without meanwhile.
fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => work(),
        _ => tokio::task::block_in_place(work),
    }
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

/// 504 for a request that took too long.
pub(super) fn timed_out() -> Status {
    Status::timeout("request did not complete within the allotted timeout")
}

//! Work on large objects, which takes more than a few milliseconds of CPU time: it runs beside the event loop, so that other
//! requests do not wait for it. Small objects never come here.

use std::future::Future;
use std::thread::available_parallelism;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::{Error, Status};

/// A body or an object of more bytes is large.
pub(super) const LARGE: usize = 64 << 10;

/// The writes of large objects that run at the same time: as many as there are processors.
pub(super) struct LargeWrites {
    permits: Semaphore,
}

impl Default for LargeWrites {
    fn default() -> Self {
        Self { permits: Semaphore::new(available_parallelism().map_or(1, usize::from)) }
    }
}

impl LargeWrites {
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
}

/// Does something with so many bytes.
pub(super) fn beside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes > LARGE && Handle::current().runtime_flavor() != RuntimeFlavor::CurrentThread {
        return tokio::task::block_in_place(work);
    }
    work()
}

/// 504 for a request that took too long.
pub(super) fn timed_out() -> Status {
    Status::timeout("request did not complete within the allotted timeout")
}

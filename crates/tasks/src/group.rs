//! Tasks that end together: those of a control plane beside that of the process.
//!
//! What is started [within](Group::within) a group belongs to it, and so does what such a task starts. A
//! failing task of a group counts for the group, and not for the health of the process.

use crate::{Counts, failing_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

tokio::task_local! {
    /// The group that the running task belongs to.
    static GROUP: Group;
}

/// Tasks that end together. Clones are the same group.
#[derive(Clone, Debug)]
pub struct Group(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    number: u64,
    ended: watch::Sender<bool>,
}

impl Default for Group {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(Arc::new(Inner {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            ended: watch::Sender::new(false),
        }))
    }
}

impl Group {
    /// The group of the running task; `None` for those of the process.
    #[must_use]
    pub fn current() -> Option<Self> {
        GROUP.try_with(Clone::clone).ok()
    }

    /// Runs work whose tasks belong to the group.
    pub async fn within<T>(&self, work: impl Future<Output = T>) -> T {
        GROUP.scope(self.clone(), work).await
    }

    /// Runs work until it is done, or the group has ended: then the work is dropped, and there is no result.
    pub async fn until_end<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.ended() => None,
            done = work => Some(done),
        }
    }

    /// Ends all tasks of the group, those too that will be started.
    pub fn end(&self) {
        self.0.ended.send_replace(true);
    }

    /// Whether the group has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        *self.0.ended.borrow()
    }

    /// Waits until the group has ended.
    pub async fn ended(&self) {
        // The sender is not dropped before this group.
        let _ = self.0.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// How many tasks wait for the end of the group.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.0.ended.receiver_count()
    }

    /// The tasks of the group that do not recover, as [`crate::failing`].
    #[must_use]
    pub fn failing(&self, counts: Counts) -> Vec<String> {
        failing_of(self.number(), counts)
    }

    pub(crate) fn number(&self) -> u64 {
        self.0.number
    }
}

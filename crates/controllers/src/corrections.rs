//! Corrections of objects that another writer changes back.
//!
//! A stock controller manager has most controllers of this crate, and may want another content of the same
//! object: a kubeconfig without an authority makes it publish another one in `kube-root-ca.crt`. Each of the
//! two would undo the writes of the other for ever. A controller of this crate gives way: an object that
//! needed the same correction again [`MOST`] times within [`WINDOW`] is left as it is, until the controller
//! wants another content, or until the object is deleted. That is logged once.
//!
//! Only writes that another controller can undo pass through here. A controller that only creates or removes
//! objects, or adds what the other one adds as well (default accounts, the protection of volumes and claims,
//! the controllers of tokens, jobs and signing requests), has none.

use cache::Entry;
use object::Text;
use schema::Status;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How often the same correction of an object is written within [`WINDOW`].
const MOST: u32 = 3;
const WINDOW: Duration = Duration::from_secs(60);
/// The most objects that are remembered. Past that all are forgotten, at the price of [`MOST`] writes each.
const CAPACITY: usize = 4096;

/// The corrections of one controller, by the uid of the object.
pub(crate) struct Corrections {
    controller: &'static str,
    objects: Mutex<HashMap<Text, Corrected>>,
}

/// An object that was corrected.
struct Corrected {
    /// A hash of the content that the controller wants.
    desired: u64,
    /// How often it was written since `since`.
    count: u32,
    since: Instant,
    /// Whether the object is left to another writer.
    is_left: bool,
}

impl Corrections {
    /// None so far.
    pub(crate) fn new(controller: &'static str) -> Self {
        Self { controller, objects: Mutex::default() }
    }

    /// Writes the content that the controller wants into an object that lacks it, unless the object is left
    /// to another writer: then the outcome is `None`.
    pub(crate) async fn write<T>(
        &self,
        object: &Entry,
        desired: impl Hash,
        write: impl Future<Output = Result<T, Status>>,
    ) -> Result<Option<T>, Status> {
        let mut hasher = DefaultHasher::new();
        desired.hash(&mut hasher);
        let desired = hasher.finish();
        if self.gives_way(object, desired) {
            return Ok(None);
        }
        let written = write.await?;
        self.note(object, desired);
        Ok(Some(written))
    }

    /// Whether the object is left to another writer.
    fn gives_way(&self, object: &Entry, desired: u64) -> bool {
        let mut objects = self.lock();
        let Some(known) = objects.get_mut(object.uid()).filter(|known| known.desired == desired) else {
            return false;
        };
        if !known.is_left && known.count >= MOST && known.since.elapsed() < WINDOW {
            known.is_left = true;
            let controller = self.controller;
            log::warn!(controller, object:% = format_args!("{object:?}"); "another client changes an object back again and again; the object is left to that client");
        }
        known.is_left
    }

    /// The object was written.
    fn note(&self, object: &Entry, desired: u64) {
        let mut objects = self.lock();
        objects.retain(|_, known| known.is_left || known.since.elapsed() < WINDOW);
        if objects.len() >= CAPACITY {
            objects.clear();
        }
        let new = || Corrected { desired, count: 0, since: Instant::now(), is_left: false };
        let known = objects.entry(object.uid().into()).or_insert_with(new);
        if known.desired != desired {
            *known = new();
        }
        known.count += 1;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Text, Corrected>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    #[tokio::test(start_paused = true)]
    async fn only_the_same_correction_again_and_again_is_given_up() {
        let fixture = Fixture::new().await;
        fixture.namespace("a").await;
        let entry = fixture.lookup("namespaces", "", "a").unwrap();
        let corrections = Corrections::new("test");
        let write = async |desired: &str| {
            corrections.write(&entry, desired, async { Ok(()) }).await.unwrap().is_some()
        };
        // Now and then.
        for _ in 0..10 {
            assert!(write("a").await);
            tokio::time::advance(WINDOW / 2).await;
        }
        tokio::time::advance(WINDOW).await;
        // Different ones.
        for desired in ["a", "b", "c", "d", "a", "b"] {
            assert!(write(desired).await);
        }
        // Those that failed.
        let fail = async || Err::<(), _>(Status::internal_error("it failed"));
        for _ in 0..10 {
            assert!(corrections.write(&entry, "e", fail()).await.is_err());
        }
        let written = [write("f").await, write("f").await, write("f").await, write("f").await];
        assert_eq!(written, [true, true, true, false]);
        tokio::time::advance(WINDOW * 10).await;
        assert!(!write("f").await && write("g").await);
    }
}

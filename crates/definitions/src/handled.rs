//! Lets the writer of a definition wait until the kind is served as it says, and its status says so: a create
//! of an object can follow at once, and after a delete of the definition it is refused at once.

use crate::{GROUP, RESOURCE};
use cache::{Cache, Resource};
use object::Text;
use registry::WriteHook;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::Revision;
use tasks::BoxFuture;
use tokio::sync::Notify;
use tokio::time::timeout;

/// The longest wait. A definition that takes longer is served later.
const LONGEST: Duration = Duration::from_secs(5);

/// Up to which revision each definition was handled. Clones share it.
#[derive(Clone)]
pub struct Handled(Arc<Inner>);

struct Inner {
    definitions: Arc<Resource>,
    revisions: Mutex<HashMap<Text, Revision>>,
    progress: Notify,
}

impl Handled {
    /// For the definitions in a cache; `None` if the cache does not have their type.
    pub fn new(cache: &Cache) -> Option<Self> {
        let definitions = cache.resource(&format!("{RESOURCE}.{GROUP}"))?;
        let (revisions, progress) = (Mutex::default(), Notify::new());
        Some(Self(Arc::new(Inner { definitions, revisions, progress })))
    }

    /// The definitions.
    pub(crate) fn definitions(&self) -> &Arc<Resource> {
        &self.0.definitions
    }

    /// Notes that a definition was handled as of a revision, whatever the outcome.
    pub(crate) fn note(&self, name: &Text, revision: Revision) {
        self.revisions().insert(name.clone(), revision);
        self.0.progress.notify_waiters();
    }

    /// A definition is gone.
    pub(crate) fn forget(&self, name: &str) {
        self.revisions().remove(name);
        self.0.progress.notify_waiters();
    }

    /// Waits until a definition is handled as it is now.
    async fn wait(&self, name: &str) {
        let Some(entry) = self.0.definitions.lookup("", name).ok().flatten() else { return };
        loop {
            let mut progress = pin!(self.0.progress.notified());
            progress.as_mut().enable();
            if self.revisions().get(name).is_some_and(|revision| *revision >= entry.mod_revision()) {
                return;
            }
            progress.await;
        }
    }

    fn revisions(&self) -> MutexGuard<'_, HashMap<Text, Revision>> {
        self.0.revisions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WriteHook for Handled {
    fn after_commit(&self, name: &str, subresource: &str) -> Option<BoxFuture<'static, ()>> {
        // The status is what the loop writes itself.
        if !subresource.is_empty() {
            return None;
        }
        let (handled, name) = (self.clone(), name.to_owned());
        Some(Box::pin(async move {
            if timeout(LONGEST, handled.wait(&name)).await.is_err() {
                log::warn!(definition = name.as_str(); "a definition is not served yet");
            }
        }))
    }
}

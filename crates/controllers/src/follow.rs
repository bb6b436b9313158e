//! The changes of a resource type, as they happen.

use crate::task::Task;
use cache::watch::{Request, Start};
use cache::{Cache, Cursor, Error, Resource, Update};
use std::sync::Arc;
use std::time::Duration;

/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// Where a follower starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// With a reset and all objects.
    State,
    /// With the next change; a reset comes when changes were lost.
    Now,
}

/// Reports the changes of a type until it is gone, the cache is closed, or the task is dropped. Where it starts is settled before this
/// returns.
pub(crate) fn follow(
    cache: &Arc<Cache>,
    resource: Arc<Resource>,
    from: From,
    mut report: impl FnMut(Update<'_>) + Send + 'static,
) -> Task {
    let mut cursor = Cursor::new(resource.clone());
    if from == From::Now {
        cursor.advance(|_| {});
    }
    on_change(cache, resource, move || cursor.advance(&mut report))
}

/// Calls a function now and whenever a type has changed, until it is gone, the cache is closed, or the task is dropped.
pub(crate) fn on_change(
    cache: &Arc<Cache>,
    resource: Arc<Resource>,
    mut act: impl FnMut() + Send + 'static,
) -> Task {
    let cache = cache.clone();
    Task::spawn(async move {
        loop {
            match watch(&cache, &resource, &mut act).await {
                Ok(()) | Err(Error::TooOld { .. }) => {}
                Err(Error::Closed | Error::Removed { .. }) => return,
                Err(error) => {
                    let resource = resource.spec().prefix();
                    log::error!(resource, error:%; "the objects of a type cannot be followed");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    })
}

async fn watch(
    cache: &Cache,
    resource: &Arc<Resource>,
    act: &mut (impl FnMut() + Send),
) -> Result<(), Error> {
    let mut watcher = resource.watch(Request::new(Start::After(cache.revision()))).await?;
    loop {
        act();
        watcher.next().await?;
    }
}

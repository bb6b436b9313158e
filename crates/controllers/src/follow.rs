//! The changes of a resource type, as they happen.

use crate::task::Task;
use cache::watch::{Request, Start, goes_on};
use cache::{Cache, Cursor, Error, Resource, Update};
use std::sync::Arc;

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
        let what = resource.spec().prefix();
        while goes_on(what, watch(&cache, &resource, &mut act).await).await {}
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

//! The changes of a resource type, as they happen.

use cache::watch::{Start, WatchOptions, resubscribe_after};
use cache::{Cursor, Error, Resource, Update};
use std::sync::{Arc, Mutex, PoisonError};
use tasks::{Ended, Name, Task};

/// Where a follower starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartFrom {
    /// With a reset and all objects.
    State,
    /// With the next change; a reset comes when changes were lost.
    Now,
}

/// Reports the changes of a type until it is gone, the cache is closed, or the task is dropped. Where it
/// starts is settled before this returns. After a report that panicked, a reset and all objects are reported.
pub fn follow(
    resource: Arc<Resource>,
    from: StartFrom,
    mut report: impl FnMut(Update<'_>) + Send + 'static,
) -> Task {
    let mut cursor = Cursor::new(resource.clone());
    if from == StartFrom::Now {
        cursor.advance(|_| {});
    }
    on_change(resource, move || cursor.advance(&mut report))
}

/// Calls a function now and whenever a type has changed, until it is gone, the cache is closed, or the task
/// is dropped. A function that panicked is called again after a pause.
pub(crate) fn on_change(resource: Arc<Resource>, act: impl FnMut() + Send + 'static) -> Task {
    let act = Arc::new(Mutex::new(act));
    tasks::spawn(Name::ControllerFollow, move || {
        let (resource, act) = (resource.clone(), act.clone());
        async move {
            let what = resource.spec().prefix();
            while resubscribe_after(what, watch(&resource, &act).await).await {}
            Ended::Done
        }
    })
}

async fn watch(resource: &Arc<Resource>, act: &Mutex<impl FnMut() + Send>) -> Result<(), Error> {
    let mut watcher = resource.watch(WatchOptions::new(Start::After(resource.revision()))).await?;
    loop {
        act.lock().unwrap_or_else(PoisonError::into_inner)();
        watcher.next().await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    #[tokio::test(start_paused = true)]
    async fn a_change_whose_report_panicked_is_reported_again() {
        let fixture = Fixture::new().await;
        let namespaces = fixture.cache.resource("namespaces").unwrap();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut is_well = false;
        let task = follow(namespaces, StartFrom::Now, {
            let seen = seen.clone();
            move |update| match update {
                Update::Reset => seen.lock().unwrap().clear(),
                Update::Change { after: Some(entry), .. } => {
                    if entry.name() == "b" && !std::mem::replace(&mut is_well, true) {
                        panic!("the first report of b");
                    }
                    seen.lock().unwrap().push(entry.name().to_owned());
                }
                Update::Change { .. } => {}
            }
        });
        for name in ["a", "b", "c"] {
            fixture.namespace(name).await;
        }
        let has = async |names: &[&str]| {
            fixture.until("the changes", async || *seen.lock().unwrap() == *names).await;
        };
        has(&["a", "b", "c"]).await;
        fixture.namespace("d").await;
        has(&["a", "b", "c", "d"]).await;
        assert!(!task.is_finished());
    }
}

//! Loops that follow the changes of a type for as long as the process runs.

use crate::Error;
use std::time::Duration;

/// How long to wait before changes are followed from a later revision: a loop that does not wait would keep
/// the task that applies changes from running.
const BRIEF: Duration = Duration::from_millis(10);
/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// Waits a while after changes could not be followed any further; false if they cannot be followed anew
/// either, because the cache is closed or the type is gone. `what` is followed, for the log.
///
/// ```ignore
/// while watch::resubscribe_after("services", repair.follow(&cache).await).await {}
/// ```
pub async fn resubscribe_after(what: &str, ended: Result<(), Error>) -> bool {
    match ended {
        Ok(()) | Err(Error::TooOld { .. }) => tokio::time::sleep(BRIEF).await,
        Err(Error::Closed | Error::Removed { .. }) => return false,
        Err(error) => {
            ::log::error!(what, error:%; "changes cannot be followed");
            tokio::time::sleep(PAUSE).await;
        }
    }
    true
}

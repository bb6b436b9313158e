//! Loops of the server that follow changes.

use std::time::Duration;

/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// Whether changes can be followed anew after that ended: not if the cache is closed or a type is gone. `what` is followed, for the log.
///
/// ```ignore
/// while following::goes_on("services", repair.follow(&cache).await).await {}
/// ```
pub(crate) async fn goes_on(what: &'static str, ended: Result<(), cache::Error>) -> bool {
    match ended {
        Ok(()) | Err(cache::Error::TooOld { .. }) => {}
        Err(cache::Error::Closed | cache::Error::Removed { .. }) => return false,
        Err(error) => {
            log::error!(what, error:%; "changes cannot be followed");
            tokio::time::sleep(PAUSE).await;
        }
    }
    true
}

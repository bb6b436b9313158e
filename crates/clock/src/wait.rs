//! Waiting for a point in the time of this clock.

use crate::{Instant, state};
use std::pin::pin;
use std::time::Duration;
use tokio::sync::Notify;

/// Notified when the clock was moved.
pub(crate) static CHANGED: Notify = Notify::const_new();

/// Waits until a point.
pub async fn sleep_until(until: Instant) {
    loop {
        let mut changed = pin!(CHANGED.notified());
        // From here on no change is missed.
        changed.as_mut().enable();
        let real = tokio::time::Instant::now();
        let Some(left) = state::read_state().left(until.0, real) else { return };
        let Some(end) = real.checked_add(left) else {
            changed.await;
            continue;
        };
        tokio::select! {
            () = tokio::time::sleep_until(end) => {}
            () = changed => {}
        }
    }
}

/// Waits for a time.
pub async fn sleep(time: Duration) {
    match Instant::now().checked_add(time) {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// The output of a future, unless a point comes first.
pub async fn timeout_at<F: Future>(until: Instant, future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = sleep_until(until) => None,
    }
}

/// Waits until the clock is moved.
pub async fn moved() {
    CHANGED.notified().await;
}

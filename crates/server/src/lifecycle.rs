//! The phases of a serving process, which only move forward.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// A phase of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Everything is served.
    Serving,
    /// A stop was requested. Everything is still served, but `/readyz` fails, so that load balancers choose
    /// other servers.
    ShuttingDown,
    /// No new connections; requests in flight finish, watches end.
    Draining,
    /// The process ends without waiting for connections.
    Stopping,
}

/// A shared handle on the phase.
#[derive(Debug, Clone)]
pub struct Lifecycle {
    phase: Arc<watch::Sender<Phase>>,
    forced: Arc<AtomicBool>,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self { phase: Arc::new(watch::Sender::new(Phase::Serving)), forced: Arc::default() }
    }
}

impl Lifecycle {
    /// Starts with `Serving`.
    pub fn new() -> Self {
        Self::default()
    }

    /// The phase now.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Requests a stop, as a signal does: the first request stops in order, a further one at once.
    pub fn request_stop(&self) {
        match self.phase() {
            Phase::Serving => self.advance(Phase::ShuttingDown),
            Phase::ShuttingDown | Phase::Draining => {
                self.forced.store(true, Ordering::Release);
                self.advance(Phase::Stopping);
            }
            Phase::Stopping => {}
        }
    }

    /// Whether a second request to stop cut the first one short.
    pub fn forced(&self) -> bool {
        self.forced.load(Ordering::Acquire)
    }

    /// Waits until `phase` has been reached.
    pub async fn reached(&self, phase: Phase) {
        // `self` holds the sender, so the wait cannot fail.
        let _ = self.phase.subscribe().wait_for(|now| *now >= phase).await;
    }

    /// Moves on to `phase`, never back.
    pub(crate) fn advance(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let forward = phase > *now;
            if forward {
                *now = phase;
            }
            forward
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_stop_request_does_not_wait() {
        let lifecycle = Lifecycle::new();
        lifecycle.request_stop();
        assert_eq!((lifecycle.phase(), lifecycle.forced()), (Phase::ShuttingDown, false));
        lifecycle.request_stop();
        assert_eq!((lifecycle.phase(), lifecycle.forced()), (Phase::Stopping, true));
    }

    #[test]
    fn phases_never_go_back() {
        let lifecycle = Lifecycle::new();
        lifecycle.advance(Phase::Stopping);
        lifecycle.advance(Phase::Draining);
        assert_eq!(lifecycle.phase(), Phase::Stopping);
    }

    #[tokio::test]
    async fn skipped_phase_counts_as_reached() {
        let lifecycle = Lifecycle::new();
        lifecycle.advance(Phase::Stopping);
        lifecycle.reached(Phase::ShuttingDown).await;
    }
}

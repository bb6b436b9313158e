//! The phases of a serving process, which only move forward.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::sleep;

/// A phase of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Everything is served.
    Serving,
    /// A stop was requested. Everything is still served, but `/readyz` fails, so that load balancers choose
    /// other servers.
    ShuttingDown,
    /// New requests are answered with 429, on new connections too, until those in flight are answered. Only
    /// with `--shutdown-send-retry-after`.
    Refusing,
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
    /// The requests whose handlers have not answered; counted with `--shutdown-send-retry-after` only.
    pub(crate) requests: Arc<Count>,
    /// The running watches.
    pub(crate) watches: Arc<Count>,
    /// The end of watches that are not all ended at once.
    pacing: Option<Arc<Pacing>>,
}

/// The most time between the ends of two watches.
const LONGEST_STEP: Duration = Duration::from_millis(5);

/// The end of watches over a time: one after another, at least 200 in a second.
#[derive(Debug)]
struct Pacing {
    grace: Duration,
    /// The time between two ends, once the first watch is told.
    step: OnceLock<Duration>,
    told: AtomicUsize,
}

/// A number of things that run, and its return to zero.
#[derive(Debug, Default)]
pub(crate) struct Count {
    running: AtomicUsize,
    none: Notify,
}

/// One of the things that run, until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted(Arc<Count>);

impl Count {
    pub(crate) fn begin(self: &Arc<Self>) -> Counted {
        self.running.fetch_add(1, Ordering::AcqRel);
        Counted(Arc::clone(self))
    }

    /// Waits until none runs.
    pub(crate) async fn ended(&self) {
        loop {
            let none = self.none.notified();
            if self.running.load(Ordering::Acquire) == 0 {
                return;
            }
            none.await;
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.none.notify_waiters();
        }
    }
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            phase: Arc::new(watch::Sender::new(Phase::Serving)),
            forced: Arc::default(),
            requests: Arc::default(),
            watches: Arc::default(),
            pacing: None,
        }
    }
}

impl Lifecycle {
    /// Starts with `Serving`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends watches one after another, within `grace`. With zero, all end at once.
    pub fn with_watch_grace(mut self, grace: Duration) -> Self {
        let pacing = Pacing { grace, step: OnceLock::new(), told: AtomicUsize::new(0) };
        self.pacing = (!grace.is_zero()).then(|| Arc::new(pacing));
        self
    }

    /// How long watches take to end.
    pub(crate) fn watch_grace(&self) -> Duration {
        self.pacing.as_ref().map_or(Duration::ZERO, |pacing| pacing.grace)
    }

    /// Waits until a watch has to end because the server stops.
    pub(crate) async fn watch_end(&self) {
        let Some(pacing) = &self.pacing else { return self.reached(Phase::Draining).await };
        self.reached(Phase::Refusing).await;
        let running = u32::try_from(self.watches.running.load(Ordering::Acquire)).unwrap_or(u32::MAX);
        let step = *pacing.step.get_or_init(|| (pacing.grace / running.max(1)).min(LONGEST_STEP));
        let before = u32::try_from(pacing.told.fetch_add(1, Ordering::AcqRel)).unwrap_or(u32::MAX);
        sleep(step.saturating_mul(before).min(pacing.grace)).await;
    }

    /// The phase now.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Requests a stop, as a signal does: the first request stops in order, a further one at once.
    pub fn request_stop(&self) {
        match self.phase() {
            Phase::Serving => self.advance(Phase::ShuttingDown),
            Phase::ShuttingDown | Phase::Refusing | Phase::Draining => {
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

    #[tokio::test(start_paused = true)]
    async fn watches_end_one_after_another_within_the_grace_period() {
        for (grace, expected) in [(Duration::from_secs(10), 45), (Duration::from_millis(20), 18)] {
            let lifecycle = Lifecycle::new().with_watch_grace(grace);
            let running: Vec<_> = (0..10).map(|_| lifecycle.watches.begin()).collect();
            let begin = tokio::time::Instant::now();
            lifecycle.advance(Phase::Draining);
            let mut ends = tokio::task::JoinSet::new();
            for watch in running {
                let lifecycle = lifecycle.clone();
                ends.spawn(async move {
                    lifecycle.watch_end().await;
                    drop(watch);
                });
            }
            lifecycle.watches.ended().await;
            let last = begin.elapsed().as_millis();
            assert!((expected..expected + 3).contains(&last), "{last} ms of {grace:?}");
        }
        let lifecycle = Lifecycle::new();
        lifecycle.advance(Phase::Draining);
        lifecycle.watch_end().await;
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

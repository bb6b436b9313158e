//! One queue of a level.

use super::EXPECTED;
use super::fifo::Fifo;
use crate::work::SeatSeconds;

/// A queue.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Its number among all queues that the level ever had.
    pub(crate) id: u64,
    pub(crate) waiting: Fifo,
    /// The progress at which its next request begins.
    pub(crate) next_progress: SeatSeconds,
    /// Requests under way; those that linger are not.
    pub(crate) executing: usize,
    /// The seats of its requests under way, and of those that linger.
    pub(crate) seats_in_use: u32,
}

impl Queue {
    pub(crate) fn new(id: u64) -> Self {
        Self { id, waiting: Fifo::default(), next_progress: SeatSeconds::ZERO, executing: 0, seats_in_use: 0 }
    }

    /// The progress at which its next request begins, less the work that is under way as it is expected.
    pub(crate) fn discounted(&self) -> SeatSeconds {
        self.next_progress - SeatSeconds::of(f64::from(self.seats_in_use), EXPECTED)
    }

    /// Whether something waits or is under way.
    pub(crate) fn is_active(&self) -> bool {
        self.waiting.len() > 0 || self.executing > 0
    }
}

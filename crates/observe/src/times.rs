//! The time that parts of a request took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A part of the work for a request whose time is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Part {
    /// Authentication.
    Authentication,
    /// Authorization.
    Authorization,
    /// Waiting for a turn, in flow control.
    Queue,
    /// Mutating webhooks, one after another.
    MutatingWebhooks,
    /// Validating webhooks, which are asked at the same time: the longest counts.
    ValidatingWebhooks,
    /// Reading the body and decoding it.
    Decode,
    /// The store.
    Store,
    /// Conversions and other changes of what the store gave.
    Transform,
    /// Encoding the response.
    Encode,
    /// Sending the response.
    Send,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 10] = [
        Self::Authentication,
        Self::Authorization,
        Self::Queue,
        Self::MutatingWebhooks,
        Self::ValidatingWebhooks,
        Self::Decode,
        Self::Store,
        Self::Transform,
        Self::Encode,
        Self::Send,
    ];
}

/// The time that each part took.
#[derive(Debug, Default)]
pub struct Times([AtomicU64; Part::ALL.len()]);

impl Times {
    /// Adds the time of a part.
    pub fn add(&self, part: Part, took: Duration) {
        if let Some(total) = self.0.get(part as usize) {
            total.fetch_add(nanos(took), Ordering::Relaxed);
        }
    }

    /// Sets the time of a part to the longest that is known.
    pub fn longest(&self, part: Part, took: Duration) {
        if let Some(longest) = self.0.get(part as usize) {
            longest.fetch_max(nanos(took), Ordering::Relaxed);
        }
    }

    /// The time of a part; zero if it was not needed.
    pub fn of(&self, part: Part) -> Duration {
        self.0
            .get(part as usize)
            .map(|total| Duration::from_nanos(total.load(Ordering::Relaxed)))
            .unwrap_or_default()
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

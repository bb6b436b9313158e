//! Which revision was the newest one some time ago, as far as requests came by.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use store::Revision;
use tokio::time::Instant;

/// How far notes are apart.
const INTERVAL: Duration = Duration::from_millis(50);

/// Revisions with the times at which they were the newest, in their order.
#[derive(Debug, Default)]
pub(super) struct History(Mutex<VecDeque<(Instant, Revision)>>);

impl History {
    /// Notes the newest revision of now. What is not needed for states of `longest` ago is forgotten.
    pub(super) fn note(&self, newest: Revision, longest: Duration) {
        let now = Instant::now();
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.back().is_some_and(|(at, _)| now.saturating_duration_since(*at) < INTERVAL) {
            return;
        }
        notes.push_back((now, newest));
        // The last one of those that are old enough is needed.
        while notes.get(1).is_some_and(|(at, _)| now.saturating_duration_since(*at) >= longest) {
            notes.pop_front();
        }
    }

    /// The revision that was the newest one some time ago, or the first that was noted; none without a note.
    pub(super) fn revision(&self, ago: Duration) -> Option<Revision> {
        let now = Instant::now();
        let notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let old = notes.iter().rfind(|(at, _)| now.saturating_duration_since(*at) >= ago);
        old.or(notes.front()).map(|(_, revision)| *revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn revision_of_some_time_ago_is_the_newest_that_was_noted_before() {
        let history = History::default();
        let second = Duration::from_secs(1);
        assert_eq!(history.revision(second), None);
        for revision in 1..=20 {
            history.note(Revision(revision), 5 * second);
            history.note(Revision(99), 5 * second);
            tokio::time::sleep(second).await;
        }
        assert_eq!(history.revision(second), Some(Revision(20)));
        assert_eq!(history.revision(3 * second), Some(Revision(18)));
        assert_eq!(history.revision(5 * second), Some(Revision(16)));
        assert_eq!(history.revision(100 * second), Some(Revision(15)), "older ones were forgotten");
        assert!(history.0.lock().unwrap().len() <= 7);
    }
}

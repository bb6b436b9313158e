//! What has to be looked at, and when: a set of keys by the time when they are due.

use clock::Instant;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::time::Duration;

/// The pause after a failure.
const RETRY: Duration = Duration::from_millis(200);

/// Keys by due time. A key that is added while it is being worked on is due once more afterwards.
#[derive(Debug)]
pub(crate) struct Schedule<K> {
    due: HashMap<K, Instant>,
    order: BTreeSet<(Instant, K)>,
    running: HashSet<K>,
    /// Keys that were added while they were being worked on.
    again: HashSet<K>,
}

impl<K> Default for Schedule<K> {
    fn default() -> Self {
        Self { due: HashMap::new(), order: BTreeSet::new(), running: HashSet::new(), again: HashSet::new() }
    }
}

impl<K: Clone + Hash + Ord> Schedule<K> {
    /// Adds a key that is due now.
    pub(crate) fn add(&mut self, key: K) {
        if self.running.contains(&key) {
            self.again.insert(key);
        } else {
            self.add_at(key, Instant::now());
        }
    }

    /// Adds a key that is due at a time; the earliest counts.
    fn add_at(&mut self, key: K, at: Instant) {
        match self.due.get(&key) {
            Some(known) if *known <= at => return,
            Some(known) => drop(self.order.remove(&(*known, key.clone()))),
            None => {}
        }
        self.due.insert(key.clone(), at);
        self.order.insert((at, key));
    }

    /// Takes a key that is due.
    pub(crate) fn take(&mut self, now: Instant) -> Option<K> {
        self.order.first().filter(|(at, _)| *at <= now)?;
        let (_, key) = self.order.pop_first()?;
        self.due.remove(&key);
        self.running.insert(key.clone());
        Some(key)
    }

    /// When the first key is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// The work on a key has ended; it is due again after a time, or never by itself. An error is a failure.
    pub(crate) fn finish<E>(&mut self, key: K, outcome: Result<Option<Duration>, E>) {
        self.running.remove(&key);
        if self.again.remove(&key) {
            return self.add(key);
        }
        match outcome {
            Ok(Some(after)) => self.add_at(key, Instant::now() + after),
            Ok(None) => {}
            Err(_) => self.add_at(key, Instant::now() + RETRY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn keys_are_due_once_in_their_order_and_again_if_added_meanwhile() {
        let mut schedule = Schedule::default();
        let now = Instant::now();
        schedule.add(1);
        schedule.add(1);
        assert_eq!((schedule.take(now), schedule.take(now)), (Some(1), None));
        schedule.add(1);
        assert_eq!(schedule.take(now), None, "it is being worked on");
        schedule.finish(1, Ok::<_, ()>(None));
        assert_eq!(schedule.take(now), Some(1));
        schedule.finish(1, Ok::<_, ()>(Some(Duration::from_secs(3))));
        assert_eq!(schedule.next_due(), Some(now + Duration::from_secs(3)));
        schedule.add(1);
        assert_eq!(schedule.take(now), Some(1), "a change comes before a delay");
        schedule.finish(1, Err(()));
        assert_eq!(schedule.next_due(), Some(now + RETRY));
    }
}

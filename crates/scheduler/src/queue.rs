//! The pods that wait for a node: those that are due, those that pause after a failure, and those that wait
//! for a change that may help.

use crate::filter::Filters;
use clock::Instant;
use object::Text;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// The pause after the first failure; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A pod that waits for a change is tried again after this time anyway.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// The waiting pods, by key.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pods: HashMap<Text, Waiting>,
    /// Due: the highest priority first, then the one that was added first.
    active: BTreeSet<(Reverse<i64>, u64, Text)>,
    /// Pods that pause, by the end of the pause.
    pausing: BTreeSet<(Instant, Text)>,
    /// Pods that wait for a change, by when they are tried anyway.
    stuck: BTreeSet<(Instant, Text)>,
    added: u64,
    /// How many changes there were, and the number of the last one that concerned each filter: a change
    /// while a pod was being scheduled may help it.
    changes: u64,
    last_changes: Vec<(Filters, u64)>,
}

#[derive(Debug)]
struct Waiting {
    priority: i64,
    attempts: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Active {
        place: u64,
    },
    /// The pause ends early if nothing else is due, unless the failure was an error.
    Pausing {
        until: Instant,
        is_error: bool,
    },
    Stuck {
        /// The filters that have rejected the pod; none if there is no node.
        filters: Filters,
        pause: Instant,
        until: Instant,
    },
    /// The pod is being scheduled or bound, or others are being removed for it, since a number of changes.
    Taken {
        since: u64,
    },
}

impl Queue {
    /// Adds a pod that is due, unless it is known.
    pub(crate) fn add(&mut self, key: &Text, priority: i64) {
        if !self.pods.contains_key(key) {
            self.pods
                .insert(key.clone(), Waiting { priority, attempts: 0, state: State::Taken { since: 0 } });
            self.activate(key);
        }
    }

    /// Whether a pod waits here.
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.pods.contains_key(key)
    }

    /// Removes a pod.
    pub(crate) fn remove(&mut self, key: &str) {
        self.unlink(key);
        self.pods.remove(key);
    }

    /// Removes all pods.
    pub(crate) fn clear(&mut self) {
        let last_changes = std::mem::take(&mut self.last_changes);
        *self = Self { added: self.added, changes: self.changes, last_changes, ..Self::default() };
    }

    /// Takes the pod that is to be scheduled now: one that is due, otherwise one that pauses.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Text> {
        let key = match self.active.first() {
            Some((_, _, key)) => key.clone(),
            None => {
                let is_ready = |key: &Text| match self.pods.get(key).map(|pod| pod.state) {
                    Some(State::Pausing { until, is_error }) => !is_error || until <= now,
                    _ => false,
                };
                self.pausing.iter().map(|(_, key)| key).find(|key| is_ready(key))?.clone()
            }
        };
        self.unlink(&key);
        let pod = self.pods.get_mut(&key)?;
        pod.state = State::Taken { since: self.changes };
        pod.attempts = pod.attempts.saturating_add(1);
        Some(key)
    }

    /// When something is due by itself.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let pausing = self.pausing.first().map(|(at, _)| *at);
        pausing.into_iter().chain(self.stuck.first().map(|(at, _)| *at)).min()
    }

    /// Makes pods due whose pause or wait is over.
    pub(crate) fn advance(&mut self, now: Instant) {
        while let Some((_, key)) = self.pausing.first().filter(|(at, _)| *at <= now).cloned() {
            self.activate(&key);
        }
        while let Some((_, key)) = self.stuck.first().filter(|(at, _)| *at <= now).cloned() {
            self.activate(&key);
        }
    }

    /// A pod that was rejected waits for a change, which may have been since it was taken.
    pub(crate) fn wait(&mut self, key: &Text, filters: Filters, now: Instant) {
        self.unlink(key);
        let concerns = |known: Filters| filters.is_empty() || known.meets(filters);
        let last = self.last_changes.iter().filter(|(known, _)| concerns(*known)).map(|(_, at)| *at).max();
        let Some(pod) = self.pods.get_mut(key) else { return };
        let is_late = matches!(pod.state, State::Taken { since } if last.is_some_and(|last| last > since));
        let (pause, until) = (now + pause(pod.attempts), now + LONGEST_WAIT);
        pod.state = State::Stuck { filters, pause, until };
        self.stuck.insert((until, key.clone()));
        if is_late {
            self.resume(key, now);
        }
    }

    /// A pod whose scheduling failed by an error is tried again after a pause.
    pub(crate) fn retry(&mut self, key: &Text, now: Instant) {
        self.unlink(key);
        let Some(pod) = self.pods.get_mut(key) else { return };
        let until = now + pause(pod.attempts);
        pod.state = State::Pausing { until, is_error: true };
        self.pausing.insert((until, key.clone()));
    }

    /// A change may help pods that one of these filters has rejected, and that `may_help` says yes to.
    pub(crate) fn change(&mut self, filters: Filters, now: Instant, may_help: impl Fn(&str) -> bool) {
        self.changes += 1;
        match self.last_changes.iter_mut().find(|(known, _)| *known == filters) {
            Some((_, last)) => *last = self.changes,
            None => self.last_changes.push((filters, self.changes)),
        }
        if self.stuck.is_empty() {
            return;
        }
        let helped = |key: &&Text| match self.pods.get(*key).map(|pod| pod.state) {
            Some(State::Stuck { filters: known, .. }) => {
                (known.is_empty() || known.meets(filters)) && may_help(key)
            }
            _ => false,
        };
        let keys: Vec<Text> = self.stuck.iter().map(|(_, key)| key).filter(helped).cloned().collect();
        keys.iter().for_each(|key| self.resume(key, now));
    }

    /// Ends the wait of one pod.
    pub(crate) fn resume(&mut self, key: &Text, now: Instant) {
        let Some(State::Stuck { pause, .. }) = self.pods.get(key).map(|pod| pod.state) else { return };
        self.unlink(key);
        if pause <= now {
            return self.activate(key);
        }
        if let Some(pod) = self.pods.get_mut(key) {
            pod.state = State::Pausing { until: pause, is_error: false };
            self.pausing.insert((pause, key.clone()));
        }
    }

    fn activate(&mut self, key: &Text) {
        self.unlink(key);
        let Some(pod) = self.pods.get_mut(key) else { return };
        self.added += 1;
        pod.state = State::Active { place: self.added };
        self.active.insert((Reverse(pod.priority), self.added, key.clone()));
    }

    fn unlink(&mut self, key: &str) {
        let Some((key, pod)) = self.pods.get_key_value(key) else { return };
        match pod.state {
            State::Active { place } => drop(self.active.remove(&(Reverse(pod.priority), place, key.clone()))),
            State::Pausing { until, .. } => drop(self.pausing.remove(&(until, key.clone()))),
            State::Stuck { until, .. } => drop(self.stuck.remove(&(until, key.clone()))),
            State::Taken { .. } => {}
        }
    }
}

fn pause(attempts: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << attempts.saturating_sub(1).min(8)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;

    const FIT: Filters = Filters::of(&[Filter::NodeResourcesFit]);
    const AFFINITY: Filters = Filters::of(&[Filter::NodeAffinity]);

    fn key(text: &str) -> Text {
        text.into()
    }

    #[tokio::test(start_paused = true)]
    async fn pods_come_by_priority_and_then_by_age() {
        let mut queue = Queue::default();
        queue.add(&key("n/a"), 0);
        queue.add(&key("n/b"), 10);
        queue.add(&key("n/c"), 0);
        queue.add(&key("n/a"), 0);
        let now = Instant::now();
        let order: Vec<Text> = std::iter::from_fn(|| queue.pop(now)).collect();
        assert_eq!(order, ["n/b", "n/a", "n/c"]);
        assert!(queue.contains("n/a"), "a pod that was taken is known");
    }

    #[tokio::test(start_paused = true)]
    async fn rejected_pods_wait_for_a_change_that_concerns_them() {
        let mut queue = Queue::default();
        let now = Instant::now();
        for name in ["n/a", "n/b", "n/c"] {
            queue.add(&key(name), 0);
            queue.pop(now);
        }
        queue.wait(&key("n/a"), FIT, now);
        queue.wait(&key("n/b"), AFFINITY, now);
        queue.wait(&key("n/c"), Filters::default(), now);
        assert_eq!(queue.pop(now), None);
        queue.change(FIT, now, |key| key != "n/c");
        assert_eq!(queue.pop(now), Some(key("n/a")), "a pause ends when nothing else is due");
        assert_eq!(queue.pop(now), None);
        queue.change(FIT, now, |_| true);
        assert_eq!(queue.pop(now), Some(key("n/c")));
        assert_eq!(queue.next_due(), Some(now + LONGEST_WAIT));
        queue.advance(now + LONGEST_WAIT);
        assert_eq!(queue.pop(now), Some(key("n/b")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_while_a_pod_was_taken_is_not_missed() {
        let mut queue = Queue::default();
        let now = Instant::now();
        queue.add(&key("n/a"), 0);
        queue.pop(now);
        queue.change(AFFINITY, now, |_| true);
        queue.wait(&key("n/a"), FIT, now);
        assert_eq!(queue.pop(now), None, "a change that concerns other filters");
        queue.change(FIT, now, |_| true);
        queue.pop(now);
        queue.change(FIT, now, |_| true);
        queue.wait(&key("n/a"), FIT, now);
        assert_eq!(queue.pop(now), Some(key("n/a")));
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_after_errors_grow_up_to_ten_seconds() {
        let mut queue = Queue::default();
        let mut now = Instant::now();
        queue.add(&key("n/a"), 0);
        for seconds in [1, 2, 4, 8, 10, 10] {
            assert_eq!(queue.pop(now), Some(key("n/a")));
            queue.retry(&key("n/a"), now);
            assert_eq!(queue.pop(now), None);
            assert_eq!(queue.next_due(), Some(now + Duration::from_secs(seconds)));
            now += Duration::from_secs(seconds);
            queue.advance(now);
        }
    }

    #[test]
    fn removed_pods_are_gone_from_every_list() {
        let mut queue = Queue::default();
        let now = Instant::now();
        queue.add(&key("n/a"), 0);
        queue.add(&key("n/b"), 0);
        queue.add(&key("n/c"), 0);
        queue.remove("n/a");
        queue.pop(now);
        queue.wait(&key("n/b"), FIT, now);
        queue.remove("n/b");
        queue.pop(now);
        queue.retry(&key("n/c"), now);
        queue.remove("n/c");
        assert_eq!((queue.next_due(), queue.pop(now)), (None, None));
    }
}

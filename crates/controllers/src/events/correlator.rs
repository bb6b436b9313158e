//! Which events are written: each once, with a count; similar ones together; and not too many about one
//! object.
//!
//! 1. More than [`SIMILAR`] events of one object and reason whose messages differ, each within [`INTERVAL`]
//!    of the one before, become one event with the newest message.
//! 2. An event that was written before is counted at its first one.
//! 3. An object has [`BURST`] events of a type, and one more each [`REFILL`]. What is beyond that is counted,
//!    and not written.
//!
//! What is remembered is bounded by [`REMEMBERED`] for each of these; what was not used for the longest time
//! goes first.

use super::{Said, Subject, event_name};
use clock::Instant;
use object::time::Time;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::time::Duration;

/// The most entries of each table.
const REMEMBERED: usize = 4096;
/// The number of different messages from which on events of one object and reason are combined.
const SIMILAR: usize = 10;
/// Events with a longer time between them are not combined.
const INTERVAL: Duration = Duration::from_secs(600);
/// The most events about an object that are written without a pause.
const BURST: f64 = 25.0;
/// The time after which one more event about an object may be written.
const REFILL: Duration = Duration::from_secs(300);

/// An event that is to be written.
#[derive(Debug, PartialEq)]
pub(super) struct Observed {
    /// The name of the event.
    pub(super) name: String,
    /// How often the event was recorded.
    pub(super) count: i64,
    /// When the event was recorded first.
    pub(super) first: Time,
    pub(super) message: String,
    /// Whether the event stands for events with different messages.
    pub(super) is_combined: bool,
}

/// Counts, combines and limits events.
#[derive(Default)]
pub(super) struct Correlator {
    hasher: RandomState,
    similar: Recent<Similar>,
    seen: Recent<Seen>,
    budgets: Recent<Budget>,
}

/// Events of one object and reason.
#[derive(Default)]
struct Similar {
    /// The messages, as hashes.
    messages: BTreeSet<u64>,
    last: Option<Instant>,
}

/// An event that was written.
#[derive(Default)]
struct Seen {
    name: String,
    count: i64,
    first: Option<Time>,
}

/// How many events may be written.
#[derive(Default)]
struct Budget {
    /// The number of events that were written, less those that the time since has made up for.
    used: f64,
    last: Option<Instant>,
}

impl Correlator {
    /// Notes an event. `None` if it is not to be written.
    pub(super) fn observe(&mut self, said: &Said<'_>, now: Instant) -> Option<Observed> {
        let Said { subject, event_type, reason, message } = *said;
        let object = identity(subject);
        let group = self.hash((object, event_type, reason));
        let message_hash = self.hash(message);
        let is_combined = self.similar.entry(group).add(message_hash, now);
        let event = if is_combined { self.hash(group) } else { self.hash((group, message_hash)) };
        let seen = self.seen.entry(event);
        if seen.count == 0 {
            *seen = Seen { name: event_name(&subject.name), count: 0, first: Some(Time::now()) };
        }
        seen.count += 1;
        let observed = Observed {
            name: seen.name.clone(),
            count: seen.count,
            first: seen.first.unwrap_or_else(Time::now),
            message: match is_combined {
                true => format!("(combined from similar events): {message}"),
                false => message.to_owned(),
            },
            is_combined,
        };
        let source = self.hash((object, event_type));
        self.budgets.entry(source).take(now).then_some(observed)
    }

    fn hash(&self, value: impl Hash) -> u64 {
        self.hasher.hash_one(value)
    }
}

/// The identity of an object: all of a subject but the resource version.
fn identity(subject: &Subject) -> [&str; 5] {
    [&subject.api_version, &subject.kind, &subject.namespace, &subject.name, &subject.uid]
}

impl Similar {
    /// Adds a message; true if there are so many different messages that they are combined.
    fn add(&mut self, message: u64, now: Instant) -> bool {
        if self.last.is_some_and(|last| now.duration_since(last) > INTERVAL) {
            self.messages.clear();
        }
        self.last = Some(now);
        self.messages.insert(message);
        let is_combined = self.messages.len() >= SIMILAR;
        if is_combined {
            self.messages.pop_first();
        }
        is_combined
    }
}

impl Budget {
    /// Takes one event from it, if there is one.
    fn take(&mut self, now: Instant) -> bool {
        let elapsed = self.last.map_or(Duration::ZERO, |last| now.duration_since(last));
        self.last = Some(now);
        self.used = (self.used - elapsed.as_secs_f64() / REFILL.as_secs_f64()).max(0.0);
        let is_left = self.used + 1.0 <= BURST;
        if is_left {
            self.used += 1.0;
        }
        is_left
    }
}

/// The values of keys that were used lately. Of those there are at least half of [`REMEMBERED`].
struct Recent<V> {
    young: HashMap<u64, V>,
    old: HashMap<u64, V>,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<V: Default> Recent<V> {
    fn entry(&mut self, key: u64) -> &mut V {
        if !self.young.contains_key(&key) {
            let value = self.old.remove(&key).unwrap_or_default();
            if self.young.len() >= REMEMBERED / 2 {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert(key, value);
        }
        self.young.entry(key).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::EventType;
    use super::*;

    fn subject(name: &str) -> Subject {
        Subject {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: "n".into(),
            name: name.into(),
            uid: "1".into(),
            resource_version: "1".into(),
        }
    }

    fn said<'a>(subject: &'a Subject, reason: &'a str, message: &'a str) -> Said<'a> {
        Said { subject, event_type: EventType::Normal, reason, message }
    }

    #[test]
    fn equal_events_are_counted() {
        let (mut correlator, now) = (Correlator::default(), Instant::now());
        let (pod, later) = (subject("a"), Subject { resource_version: "2".into(), ..subject("a") });
        let first = correlator.observe(&said(&pod, "R", "m"), now).unwrap();
        let second = correlator.observe(&said(&later, "R", "m"), now).unwrap();
        assert_eq!((first.count, second.count), (1, 2));
        assert_eq!(first.name, second.name);
        let others = [said(&pod, "R", "other"), said(&pod, "S", "m")];
        assert!(others.iter().all(|other| correlator.observe(other, now).unwrap().count == 1));
        assert_eq!(correlator.observe(&said(&subject("b"), "R", "m"), now).unwrap().count, 1);
        assert!(first.name.starts_with("a.") && first.name.len() > 10, "{}", first.name);
    }

    #[test]
    fn tenth_similar_event_is_combined_with_those_after_it() {
        let (mut correlator, mut now) = (Correlator::default(), Instant::now());
        let pod = subject("a");
        let mut observe = |number: usize, now| {
            let observed = correlator.observe(&said(&pod, "R", &format!("m{number}")), now).unwrap();
            (observed.message, observed.count, observed.is_combined)
        };
        for number in 1..10 {
            assert_eq!(observe(number, now), (format!("m{number}"), 1, false));
        }
        for number in 10..13 {
            now += Duration::from_secs(599);
            let message = format!("(combined from similar events): m{number}");
            assert_eq!(observe(number, now), (message, i64::try_from(number).unwrap() - 9, true));
        }
        now += Duration::from_secs(601);
        assert_eq!(observe(13, now), ("m13".into(), 1, false));
    }

    #[test]
    fn objects_have_a_budget() {
        let (mut correlator, now) = (Correlator::default(), Instant::now());
        let pod = subject("a");
        let mut is_written = |at| correlator.observe(&said(&pod, "R", "m"), at).is_some();
        assert!((0..25).all(|_| is_written(now)));
        assert!(!is_written(now));
        assert!(!is_written(now + REFILL / 2));
        assert!(is_written(now + REFILL));
        assert!(!is_written(now + REFILL));
        // What was not written is counted.
        let later = correlator.observe(&said(&pod, "R", "m"), now + 3 * REFILL).unwrap();
        assert_eq!(later.count, 30);
        let warning = Said { event_type: EventType::Warning, ..said(&pod, "R", "m") };
        assert!(correlator.observe(&warning, now + REFILL).is_some());
    }

    #[test]
    fn memory_is_bounded() {
        let (mut correlator, now) = (Correlator::default(), Instant::now());
        let first = subject("first");
        for number in 0..3 * REMEMBERED {
            correlator.observe(&said(&subject(&number.to_string()), "R", "m"), now);
            correlator.observe(&said(&first, "R", "m"), now);
        }
        assert!(correlator.seen.young.len() + correlator.seen.old.len() <= REMEMBERED);
        assert!(correlator.budgets.young.len() + correlator.budgets.old.len() <= REMEMBERED);
        // What is used all the time stays.
        let count = correlator.observe(&said(&first, "R", "m"), now + REFILL).unwrap().count;
        assert_eq!(count, 3 * REMEMBERED as i64 + 1);
    }
}

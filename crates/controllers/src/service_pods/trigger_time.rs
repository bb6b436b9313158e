//! The time of the change that a write of endpoints answers: an annotation from which others measure how long
//! such changes take.

use super::{Key, Member};
use object::Text;
use object::time::Time;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The trigger times that were seen at the last look at each service.
#[derive(Default)]
pub(crate) struct TriggerTimes(Mutex<HashMap<Key, Seen>>);

#[derive(Default)]
struct Seen {
    service: Option<Time>,
    pods: HashMap<Text, Time>,
}

impl TriggerTimes {
    /// The earliest time that is new since the last look at a service; at the first look, the creation of the
    /// service.
    pub(crate) fn compute(&self, key: &Key, created: Option<Time>, pods: &[Member]) -> Option<Time> {
        let pods = pods.iter().filter_map(|pod| Some((Text::from(pod.name()), pod.trigger_time()?)));
        self.note(key, created, pods.collect())
    }

    fn note(&self, key: &Key, created: Option<Time>, pods: HashMap<Text, Time>) -> Option<Time> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(seen) = all.get_mut(key) else {
            all.insert(key.clone(), Seen { service: created, pods });
            return created;
        };
        let newer = pods.iter().filter(|(name, time)| seen.pods.get(*name).is_none_or(|old| *time > old));
        let earliest = newer.map(|(_, time)| *time).chain(created.filter(|_| created > seen.service)).min();
        *seen = Seen { service: created, pods };
        earliest
    }

    /// Forgets a service that is gone.
    pub(crate) fn forget(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_new_time_counts() {
        let times = TriggerTimes::default();
        let key = || (Text::from("n"), Text::from("s"));
        let note = |created: i64, pods: &[(&str, i64)]| {
            let pods = pods.iter().map(|(name, at)| (Text::from(*name), Time::from_unix(*at))).collect();
            times.note(&key(), Some(Time::from_unix(created)), pods).map(Time::unix)
        };
        assert_eq!(note(10, &[("a", 20)]), Some(10), "a new service triggers by its creation");
        assert_eq!(note(10, &[("a", 20)]), None, "nothing is new");
        assert_eq!(note(10, &[("a", 40), ("b", 30)]), Some(30));
        assert_eq!(note(10, &[("b", 30)]), None, "a pod that is gone has no time");
        assert_eq!(note(50, &[("b", 60)]), Some(50), "a service that was created anew");
        times.forget(&key());
        assert_eq!(note(50, &[("b", 60)]), Some(50));
    }
}

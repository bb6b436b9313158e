//! How long a job waits after failures before it makes the next pod.

use super::pod::JobPod;
use crate::workloads::owner::ObjectKey;
use object::time::Time;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// The pauses after failures: the first, doubled with each failure in a row up to the longest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    pub(super) first: Duration,
    pub(super) longest: Duration,
}

impl Pauses {
    /// What is left of the pause after some failures in a row.
    pub(super) fn left(self, failures: i64, last: Option<Time>, now: SystemTime) -> Duration {
        let (Ok(failures @ 1..), Some(last)) = (u32::try_from(failures), last) else { return Duration::ZERO };
        let doubled = 1u32.checked_shl(failures - 1).unwrap_or(u32::MAX);
        let pause = self.first.saturating_mul(doubled).min(self.longest);
        let since =
            SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(last.unix()).unwrap_or_default());
        pause.saturating_sub(now.duration_since(since).unwrap_or_default())
    }
}

/// The failures of a job since its last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) failures: i64,
    pub(super) last: Option<Time>,
}

impl Record {
    /// The record after more pods have ended.
    #[must_use]
    pub(super) fn after(self, succeeded: &[&JobPod], failed: &[&JobPod]) -> Self {
        let last_success = succeeded.iter().map(|pod| pod.finished_at()).max();
        let times = failed.iter().map(|pod| pod.finished_at());
        let counted: Vec<Time> =
            times.filter(|at| last_success.is_none_or(|success| *at > success)).collect();
        let before = if last_success.is_some() { Self::default() } else { self };
        Self {
            failures: before.failures + i64::try_from(counted.len()).unwrap_or(i64::MAX),
            last: counted.into_iter().max().or(before.last),
        }
    }
}

/// The records of all jobs.
#[derive(Default)]
pub(super) struct Records(Mutex<HashMap<ObjectKey, Record>>);

impl Records {
    pub(super) fn get(&self, key: &ObjectKey) -> Record {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied().unwrap_or_default()
    }

    pub(super) fn set(&self, key: &ObjectKey, record: Record) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), record);
    }

    pub(super) fn remove(&self, key: &ObjectKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses = Pauses { first: Duration::from_secs(10), longest: Duration::from_secs(600) };
        let left = |failures: i64, ago: u64| {
            let last = Time::from_unix(1_000_000);
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + ago);
            pauses.left(failures, Some(last), now).as_secs()
        };
        assert_eq!((left(0, 0), left(1, 0), left(2, 0), left(3, 5)), (0, 10, 20, 35));
        assert_eq!((left(7, 0), left(60, 0), left(1, 11)), (600, 600, 0));
        assert_eq!(pauses.left(3, None, clock::now()), Duration::ZERO);
    }
}

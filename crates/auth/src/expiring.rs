//! A cache of answers of other servers, with a limit of entries and a lifetime for each.

use clock::Instant;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The digest of the request that an answer belongs to.
pub type Digest = [u8; 32];

/// Answers by digest. When there are too many, the answers that were not used recently are dropped.
pub struct Expiring<T> {
    generations: Mutex<Generations<T>>,
    /// The most entries of a generation.
    most: usize,
}

/// The entries that were added or used recently, and older ones.
struct Generations<T> {
    young: HashMap<Digest, ExpiringValue<T>>,
    old: HashMap<Digest, ExpiringValue<T>>,
}

struct ExpiringValue<T> {
    value: T,
    expires_at: Instant,
}

impl<T: Clone> Expiring<T> {
    /// A cache of at most `most` entries.
    pub fn new(most: usize) -> Self {
        let generations = Generations { young: HashMap::new(), old: HashMap::new() };
        Self { generations: Mutex::new(generations), most: (most / 2).max(1) }
    }

    /// The answer, if it is kept and has not expired.
    pub fn get(&self, digest: &Digest) -> Option<T> {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Entry::Occupied(held) = generations.young.entry(*digest) {
            if held.get().expires_at <= now {
                held.remove();
                return None;
            }
            return Some(held.get().value.clone());
        }
        let held = generations.old.remove(digest).filter(|held| held.expires_at > now)?;
        let value = held.value.clone();
        self.add(&mut generations, *digest, held);
        Some(value)
    }

    /// Keeps an answer for a time.
    pub fn insert(&self, digest: Digest, value: T, time: Duration) {
        let Some(expires_at) = Instant::now().checked_add(time).filter(|_| !time.is_zero()) else { return };
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        generations.old.remove(&digest);
        self.add(&mut generations, digest, ExpiringValue { value, expires_at });
    }

    fn add(&self, generations: &mut Generations<T>, digest: Digest, held: ExpiringValue<T>) {
        if generations.young.len() >= self.most && !generations.young.contains_key(&digest) {
            generations.old = mem::take(&mut generations.young);
        }
        generations.young.insert(digest, held);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let generations = self.generations.lock().unwrap();
        generations.young.len() + generations.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: u32) -> Digest {
        let mut digest = [0; 32];
        digest[..4].copy_from_slice(&number.to_le_bytes());
        digest
    }

    #[test]
    fn entries_are_bounded_and_those_in_use_stay() {
        let cache = Expiring::new(100);
        let hour = Duration::from_secs(3600);
        for number in 0..10_000 {
            cache.insert(digest(number), number, hour);
            assert_eq!(cache.get(&digest(0)), Some(0));
            assert!(cache.len() <= 100);
        }
        assert_eq!(cache.get(&digest(1)), None);
        assert_eq!(cache.get(&digest(9_999)), Some(9_999));
    }

    #[test]
    fn entries_end_with_their_time() {
        let cache = Expiring::new(4);
        cache.insert(digest(1), 1, Duration::from_nanos(1));
        cache.insert(digest(2), 2, Duration::ZERO);
        cache.insert(digest(3), 3, Duration::from_secs(3600));
        std::thread::sleep(Duration::from_millis(1));
        let found = [1, 2, 3].map(|number| cache.get(&digest(number)));
        assert_eq!(found, [None, None, Some(3)]);
    }
}

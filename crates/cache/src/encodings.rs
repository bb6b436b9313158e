//! Other encodings of entries, made from their canonical bytes by the first caller, kept while they are hot.
//!
//! 1. An entry is encoded at most once per encoding for as long as the result is kept; callers that ask while
//!    it is made wait for it.
//! 2. Kept results stay within the budget; results that are being made do not count.
//!
//! Eviction is the clock algorithm: a hand moves over the results, clears the mark of those that were asked
//! for since its last round, and drops those without a mark. The hand moves when room is needed, and goes
//! around once in a retention time, so that unused results are dropped too.

use crate::{Entry, Form};
use bytes::Bytes;
use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use store::Revision;

/// Into how many parts the results are divided, each with its own lock and its share of the budget.
const SHARDS: usize = 16;
/// About how many bytes of memory a result takes beside its encoding.
const OVERHEAD: usize = 160;

/// The number of an encoding: the layer above chooses one for each way of writing an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Encoding(pub u32);

/// The other encodings of all entries of a cache.
pub struct Encodings {
    shards: Vec<Mutex<Shard>>,
    /// When unused results were last dropped.
    expired: Mutex<Instant>,
    /// The budget of each shard.
    budget: AtomicUsize,
    hasher: RandomState,
}

/// Statistics of the encodings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodingStats {
    /// The results that are kept.
    pub kept: usize,
    /// Their bytes.
    pub bytes: usize,
    /// How often a kept result was returned.
    pub hits: u64,
    /// How often a result had to be made.
    pub misses: u64,
    /// How many results were dropped.
    pub evictions: u64,
}

/// Names an entry: its revision, and a keyed hash of its type and key, because changes of different keys may
/// share a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    revision: Revision,
    object: u64,
    form: Form,
    encoding: Encoding,
}

#[derive(Default)]
struct Shard {
    places: HashMap<Key, usize>,
    ring: Vec<RingSlot>,
    hand: usize,
    stats: EncodingStats,
}

/// A place in the ring of the clock algorithm.
struct RingSlot {
    key: Key,
    result: Arc<SharedResult>,
    /// The size that the budget counts; zero while the result is made.
    size: usize,
    hot: bool,
}

/// An encoding that all callers share, and that one of them makes.
#[derive(Default)]
struct SharedResult {
    making: Mutex<()>,
    bytes: OnceLock<Bytes>,
}

impl Encodings {
    /// Keeps about `budget` bytes.
    pub(crate) fn new(budget: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self {
            shards,
            expired: Mutex::new(Instant::now()),
            budget: AtomicUsize::new(budget / SHARDS),
            hasher: RandomState::new(),
        }
    }

    /// An encoding of an entry, made by `make` if it is not kept. A failure is not kept.
    pub fn get<E>(
        &self,
        entry: &Entry,
        encoding: Encoding,
        make: impl FnOnce(&Entry) -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        let key = self.key(entry, encoding);
        let Some(shard) = self.shard(key) else { return make(entry) };
        let result = lock(shard).find(key);
        if let Some(bytes) = result.bytes.get() {
            return Ok(bytes.clone());
        }
        let made = {
            let _one = result.making.lock().unwrap_or_else(PoisonError::into_inner);
            match result.bytes.get() {
                Some(bytes) => return Ok(bytes.clone()),
                None => make(entry),
            }
            .inspect(|bytes| {
                result.bytes.set(bytes.clone()).ok();
            })
        };
        let mut shard = lock(shard);
        match &made {
            Ok(bytes) => {
                shard.count(key, &result, bytes.len() + OVERHEAD, self.budget.load(Ordering::Relaxed));
            }
            Err(_) => shard.forget(key, &result),
        }
        made
    }

    /// An encoding of an entry, if it is kept. Does not wait for one that is being made.
    pub fn kept(&self, entry: &Entry, encoding: Encoding) -> Option<Bytes> {
        let key = self.key(entry, encoding);
        lock(self.shard(key)?).kept(key)
    }

    fn key(&self, entry: &Entry, encoding: Encoding) -> Key {
        let object = self.hasher.hash_one((entry.spec().prefix(), entry.key()));
        Key { revision: entry.mod_revision(), object, form: entry.form(), encoding }
    }

    /// Changes the budget, and drops results until they are within it.
    pub(crate) fn set_budget(&self, budget: usize) {
        let budget = budget / SHARDS;
        if self.budget.swap(budget, Ordering::Relaxed) > budget {
            self.shards.iter().for_each(|shard| lock(shard).shrink(budget));
        }
    }

    /// The bytes of kept results.
    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).stats.bytes).sum()
    }

    /// The statistics.
    pub fn stats(&self) -> EncodingStats {
        self.shards.iter().fold(EncodingStats::default(), |sum, shard| {
            let shard = lock(shard);
            EncodingStats {
                kept: sum.kept + shard.ring.len(),
                bytes: sum.bytes + shard.stats.bytes,
                hits: sum.hits + shard.stats.hits,
                misses: sum.misses + shard.stats.misses,
                evictions: sum.evictions + shard.stats.evictions,
            }
        })
    }

    /// Once in a retention time, drops the results that were not asked for since the last time.
    pub(crate) fn expire(&self, now: Instant, retention: Duration) {
        {
            let mut expired = self.expired.lock().unwrap_or_else(PoisonError::into_inner);
            if now.saturating_duration_since(*expired) < retention {
                return;
            }
            *expired = now;
        }
        self.shards.iter().for_each(|shard| lock(shard).expire());
    }

    /// Drops all results: another lineage begins, in which the same revisions belong to other changes.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            let stats = EncodingStats { bytes: 0, ..shard.stats };
            *shard = Shard { stats, ..Shard::default() };
        }
    }

    fn shard(&self, key: Key) -> Option<&Mutex<Shard>> {
        self.shards.get(key.revision.0 as usize % SHARDS)
    }
}

impl Shard {
    /// The result for a key, which may have to be made yet.
    fn find(&mut self, key: Key) -> Arc<SharedResult> {
        if let Some(slot) = self.places.get(&key).and_then(|place| self.ring.get_mut(*place)) {
            slot.hot = true;
            self.stats.hits += 1;
            return slot.result.clone();
        }
        self.stats.misses += 1;
        let result = Arc::<SharedResult>::default();
        self.places.insert(key, self.ring.len());
        self.ring.push(RingSlot { key, result: result.clone(), size: 0, hot: false });
        result
    }

    /// The bytes for a key, if they are made.
    fn kept(&mut self, key: Key) -> Option<Bytes> {
        let slot = self.places.get(&key).and_then(|place| self.ring.get_mut(*place))?;
        let bytes = slot.result.bytes.get()?.clone();
        slot.hot = true;
        self.stats.hits += 1;
        Some(bytes)
    }

    /// Counts a result that was made, and makes room for it.
    fn count(&mut self, key: Key, result: &Arc<SharedResult>, size: usize, budget: usize) {
        let Some(slot) = self.slot(key, result) else { return };
        slot.size = size;
        self.stats.bytes += size;
        if size > budget {
            self.forget(key, result);
        }
        self.make_room(budget);
    }

    /// Drops results until they are within a budget. Of none, nothing is left but what is being made.
    fn shrink(&mut self, budget: usize) {
        self.make_room(budget);
        self.release_places();
    }

    fn make_room(&mut self, budget: usize) {
        while self.stats.bytes > budget && !self.ring.is_empty() {
            self.hand %= self.ring.len();
            let Some(slot) = self.ring.get_mut(self.hand) else { return };
            if slot.size == 0 || std::mem::take(&mut slot.hot) {
                self.hand += 1;
            } else {
                // The newest result moves into the free slot, and is skipped.
                self.drop_at(self.hand);
                self.hand += 1;
                self.stats.evictions += 1;
            }
        }
    }

    /// Drops all results without a mark, and clears the mark of the others.
    fn expire(&mut self) {
        let mut place = 0;
        while let Some(slot) = self.ring.get_mut(place) {
            if slot.size == 0 || std::mem::take(&mut slot.hot) {
                place += 1;
            } else {
                self.drop_at(place);
                self.stats.evictions += 1;
            }
        }
        self.release_places();
    }

    fn release_places(&mut self) {
        if self.ring.len() < self.ring.capacity() / 4 {
            self.ring.shrink_to(self.ring.len() * 2);
            self.places.shrink_to(self.ring.len() * 2);
        }
    }

    fn forget(&mut self, key: Key, result: &Arc<SharedResult>) {
        if self.slot(key, result).is_some()
            && let Some(place) = self.places.get(&key)
        {
            self.drop_at(*place);
        }
    }

    /// The slot of a key, if it still holds this result.
    fn slot(&mut self, key: Key, result: &Arc<SharedResult>) -> Option<&mut RingSlot> {
        let slot = self.places.get(&key).and_then(|place| self.ring.get_mut(*place))?;
        Arc::ptr_eq(&slot.result, result).then_some(slot)
    }

    fn drop_at(&mut self, place: usize) {
        if place >= self.ring.len() {
            return;
        }
        let dropped = self.ring.swap_remove(place);
        self.places.remove(&dropped.key);
        self.stats.bytes -= dropped.size;
        if let Some(moved) = self.ring.get(place) {
            self.places.insert(moved.key, place);
        }
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Spec, testing};
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn entry(revision: u64) -> Arc<Entry> {
        let spec = Arc::new(Spec::cluster("nodes").unwrap());
        testing::entry(&spec, r#"{"metadata":{"name":"a"}}"#, revision)
    }

    fn size(bytes: usize) -> impl FnOnce(&Entry) -> Result<Bytes, Infallible> {
        move |_| Ok(Bytes::from(vec![0; bytes]))
    }

    #[test]
    fn an_encoding_is_made_once() {
        let encodings = Encodings::new(1 << 20);
        let (entry, made) = (entry(7), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let bytes = encodings.get(&entry, Encoding(1), |entry| {
                        made.fetch_add(1, Ordering::SeqCst);
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Ok::<_, Infallible>(entry.bytes().slice(..4))
                    });
                    assert_eq!(bytes.unwrap().len(), 4);
                });
            }
        });
        assert_eq!(made.load(Ordering::SeqCst), 1);
        let tombstone = entry.tombstone(Revision(7));
        assert_eq!(encodings.get(&tombstone, Encoding(1), size(9)).unwrap().len(), 9);
        assert_eq!(encodings.get(&entry, Encoding(2), size(10)).unwrap().len(), 10);
        assert_eq!(encodings.stats().kept, 3);
    }

    #[test]
    fn an_encoding_that_is_being_made_is_not_kept_yet() {
        let encodings = Encodings::new(1 << 20);
        let entry = entry(7);
        let made = encodings.get(&entry, Encoding(1), |entry| {
            assert_eq!(encodings.kept(entry, Encoding(1)), None);
            Ok::<_, Infallible>(entry.bytes().slice(..4))
        });
        assert_eq!(encodings.kept(&entry, Encoding(1)), made.ok());
        assert_eq!(encodings.kept(&entry, Encoding(2)), None);
        let stats = encodings.stats();
        assert_eq!((stats.kept, stats.hits, stats.misses), (1, 1, 1), "what is not there is not counted");
    }

    #[test]
    fn entries_that_share_a_revision_have_encodings_of_their_own() {
        let encodings = Encodings::new(1 << 20);
        let nodes = Arc::new(Spec::cluster("nodes").unwrap());
        let leases = Arc::new(Spec::cluster("leases").unwrap());
        let entries = [(&nodes, "a"), (&nodes, "b"), (&leases, "a")]
            .map(|(spec, name)| testing::entry(spec, &format!(r#"{{"metadata":{{"name":"{name}"}}}}"#), 7));
        for round in 0..2 {
            for (len, entry) in (1..).zip(&entries) {
                let bytes = encodings.get(entry, Encoding(0), size(len * (1 - round))).unwrap();
                assert_eq!(bytes.len(), len);
            }
        }
    }

    #[test]
    fn evictions_hold_the_budget_and_spare_hot_results() {
        let encodings = Encodings::new(SHARDS * 10 * (1000 + OVERHEAD));
        let hot = entry(16);
        for revision in 2..200u64 {
            encodings.get(&hot, Encoding(0), size(1000)).unwrap();
            encodings.get(&entry(revision * 16), Encoding(0), size(1000)).unwrap();
        }
        let stats = encodings.stats();
        assert!(stats.bytes <= 10 * (1000 + OVERHEAD), "{stats:?}");
        assert_eq!(stats.kept, 10);
        assert_eq!(stats.evictions, 199 - 10);
        assert_eq!(stats.misses, 199, "the hot one was made once");
    }

    #[test]
    fn results_that_nobody_asks_for_go_after_the_retention_time() {
        let encodings = Encodings::new(SHARDS * 10_000);
        let (asked, idle) = (entry(1), entry(2));
        let minute = Duration::from_secs(60);
        let later = |minutes| Instant::now() + minutes * minute;
        for entry in [&asked, &idle, &asked, &idle] {
            encodings.get(entry, Encoding(0), size(10)).unwrap();
        }
        encodings.expire(later(0), minute);
        encodings.expire(later(1), minute);
        assert_eq!(encodings.stats().kept, 2, "both were asked for");
        encodings.get(&asked, Encoding(0), size(0)).unwrap();
        encodings.expire(later(2), minute);
        assert_eq!(encodings.stats().kept, 1);
        assert_eq!(encodings.get(&asked, Encoding(0), size(0)).unwrap().len(), 10);
        encodings.expire(later(3), minute);
        encodings.expire(later(4), minute);
        assert_eq!(
            encodings.stats(),
            EncodingStats { hits: 4, misses: 2, evictions: 2, ..Default::default() }
        );
    }

    #[test]
    fn failures_and_results_over_the_budget_are_not_kept() {
        let encodings = Encodings::new(SHARDS * 1000);
        assert_eq!(encodings.get(&entry(1), Encoding(0), |_| Err::<Bytes, _>("no")), Err("no"));
        assert_eq!(encodings.get(&entry(1), Encoding(0), size(2000)).unwrap().len(), 2000);
        assert_eq!(encodings.stats(), EncodingStats { misses: 2, ..Default::default() });
    }
}

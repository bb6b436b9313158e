//! Cells: what is counted for one set of label values.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// The shard of a thread: threads take turns over the shards.
fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: usize = NEXT.fetch_add(1, Relaxed);
    }
    SHARD.try_with(|shard| *shard).unwrap_or_default() & (shards() - 1)
}

/// How many shards a cell has: a power of two, at most eight.
fn shards() -> usize {
    static SHARDS: OnceLock<usize> = OnceLock::new();
    *SHARDS.get_or_init(|| {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        threads.next_power_of_two().min(8)
    })
}

/// A number of its own line of the processor's cache, so that threads do not take it from each other.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Padded(AtomicU64);

/// A number that only grows.
#[derive(Debug)]
pub struct Counter(Box<[Padded]>);

impl Default for Counter {
    fn default() -> Self {
        Self((0..shards()).map(|_| Padded::default()).collect())
    }
}

impl Counter {
    /// Adds one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds `more`.
    pub fn add(&self, more: u64) {
        if let Some(shard) = self.0.get(shard()) {
            shard.0.fetch_add(more, Relaxed);
        }
    }

    /// The number so far.
    pub fn value(&self) -> u64 {
        self.0.iter().map(|shard| shard.0.load(Relaxed)).sum()
    }

    /// Begins anew.
    pub(crate) fn zero(&self) {
        self.0.iter().for_each(|shard| shard.0.store(0, Relaxed));
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets it.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Relaxed);
    }

    /// Adds one.
    pub fn inc(&self) {
        self.add(1.0);
    }

    /// Adds one, until the guard is dropped.
    #[must_use]
    pub fn guard(self: Arc<Self>) -> GaugeGuard {
        self.inc();
        GaugeGuard(self)
    }

    /// Subtracts one.
    pub fn dec(&self) {
        self.add(-1.0);
    }

    /// Adds `more`, which may be negative.
    pub fn add(&self, more: f64) {
        add(&self.0, more);
    }

    /// The number now.
    pub fn value(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }
}

/// One that is counted in a gauge, until this is dropped.
#[derive(Debug)]
pub struct GaugeGuard(Arc<Gauge>);

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Adds to a number that is kept as the bits of a float.
pub(crate) fn add(bits: &AtomicU64, more: f64) {
    let mut known = bits.load(Relaxed);
    loop {
        let sum = (f64::from_bits(known) + more).to_bits();
        match bits.compare_exchange_weak(known, sum, Relaxed, Relaxed) {
            Ok(_) => return,
            Err(now) => known = now,
        }
    }
}

/// How often values fell into each of some ranges, and their sum.
#[derive(Debug)]
pub struct Histogram {
    /// The upper bounds of the ranges, in ascending order; above the last there is one more range.
    bounds: &'static [f64],
    shards: Box<[Ranges]>,
}

/// The part of a histogram that one shard of threads counts in.
#[derive(Debug)]
#[repr(align(64))]
struct Ranges {
    sum: AtomicU64,
    counts: Box<[AtomicU64]>,
}

impl Histogram {
    pub(crate) fn of(bounds: &'static [f64]) -> Self {
        let ranges = || Ranges {
            sum: AtomicU64::default(),
            counts: (0..=bounds.len()).map(|_| AtomicU64::default()).collect(),
        };
        Self { bounds, shards: (0..shards()).map(|_| ranges()).collect() }
    }

    /// Counts one value.
    pub fn observe(&self, value: f64) {
        let range = self.bounds.partition_point(|bound| *bound < value);
        let Some(shard) = self.shards.get(shard()) else { return };
        if let Some(count) = shard.counts.get(range) {
            count.fetch_add(1, Relaxed);
        }
        add(&shard.sum, value);
    }

    /// Counts a time, in seconds.
    pub fn observe_time(&self, time: std::time::Duration) {
        self.observe(time.as_secs_f64());
    }

    /// Begins anew.
    pub(crate) fn zero(&self) {
        for shard in &self.shards {
            shard.counts.iter().chain([&shard.sum]).for_each(|number| number.store(0, Relaxed));
        }
    }

    /// The upper bounds of the ranges but the last.
    pub(crate) fn bounds(&self) -> &'static [f64] {
        self.bounds
    }

    /// How many values are in each range.
    pub fn counts(&self) -> Vec<u64> {
        let mut counts = vec![0; self.bounds.len() + 1];
        for shard in &self.shards {
            for (sum, count) in counts.iter_mut().zip(&shard.counts) {
                *sum += count.load(Relaxed);
            }
        }
        counts
    }

    /// The sum of all values.
    pub fn sum(&self) -> f64 {
        self.shards.iter().map(|shard| f64::from_bits(shard.sum.load(Relaxed))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_in_one_number() {
        let counter = Counter::default();
        let histogram = Histogram::of(&[1.0, 2.0]);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| (0..1000).for_each(|_| counter.inc()));
                scope.spawn(|| (0..1000).for_each(|_| histogram.observe(1.5)));
            }
        });
        assert_eq!(counter.value(), 16_000);
        assert_eq!(histogram.counts(), [0, 16_000, 0]);
        assert!((histogram.sum() - 24_000.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_bound_belongs_to_the_range_below_it() {
        let histogram = Histogram::of(&[1.0, 2.0]);
        [1.0, 1.1, 2.0, 2.1, -1.0].into_iter().for_each(|value| histogram.observe(value));
        assert_eq!(histogram.counts(), [2, 2, 1]);
    }
}

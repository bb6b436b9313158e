//! The share of its budgets that a cache may use at present, and what it holds.
//!
//! 1. Encodings are given up first, then states of the past, then the log: what is dropped first is the
//!    cheapest to make again.
//! 2. Nothing that is dropped is lost: encodings and states of the past are made again, and a watch that is
//!    behind the log reads the store's history.
//! 3. The log keeps a floor, so that watches that follow do not read the store for every change.

use crate::{Cache, CacheOptions, resource::Core};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The share of the log's budget that it always has: a sixteenth.
const LOG_FLOOR: f64 = 1.0 / 16.0;

/// The budgets of a cache, as they are at present.
#[derive(Debug)]
pub(crate) struct Budgets {
    log: AtomicUsize,
    snapshots: AtomicUsize,
}

impl Budgets {
    /// All that the options say.
    pub(crate) fn new(options: &CacheOptions) -> Self {
        Self { log: AtomicUsize::new(options.log_bytes), snapshots: AtomicUsize::new(options.snapshot_bytes) }
    }

    /// The most bytes in the logs.
    pub(crate) fn log(&self) -> usize {
        self.log.load(Ordering::Relaxed)
    }

    /// The most bytes of states of the past.
    pub(crate) fn snapshots(&self) -> usize {
        self.snapshots.load(Ordering::Relaxed)
    }
}

/// The bytes that a cache holds, of all its types and stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheMemory {
    /// The newest states of all objects.
    pub entries: u64,
    /// Superseded states in the logs.
    pub log: u64,
    /// What states of the past alone keep from being freed.
    pub snapshots: u64,
    /// Other encodings.
    pub encodings: u64,
}

impl Cache {
    /// Sets the share of the budgets that may be used, between 0 and 1, and drops at once what is above it.
    /// May take some milliseconds. With a share below a half, no encodings are kept.
    pub fn set_share(&self, share: f64) {
        let share = share.clamp(0.0, 1.0);
        let core = self.core();
        let options = &core.options;
        core.encodings.set_budget(part(options.encodings, 2.0 * share - 1.0));
        core.budgets.snapshots.store(part(options.snapshot_bytes, share), Ordering::Relaxed);
        core.budgets.log.store(part(options.log_bytes, share.max(LOG_FLOOR)), Ordering::Relaxed);
        // In this order: what leaves the log counts for the states of the past that hold it.
        core.applier.with(|work| work.trim(core));
        drop_snapshots(core, &self.own_resources());
        self.beside().iter().for_each(|other| other.set_share(share));
    }

    /// The bytes that the cache holds.
    pub fn memory(&self) -> CacheMemory {
        let core = self.core();
        let mut sum = CacheMemory {
            log: core.log_bytes.load(Ordering::Relaxed) as u64,
            encodings: core.encodings.bytes() as u64,
            ..CacheMemory::default()
        };
        for resource in self.own_resources() {
            sum.entries += resource.size().1;
            sum.snapshots += resource.snapshot_bytes();
        }
        self.beside().iter().map(Self::memory).fold(sum, |sum, other| CacheMemory {
            entries: sum.entries + other.entries,
            log: sum.log + other.log,
            snapshots: sum.snapshots + other.snapshots,
            encodings: sum.encodings + other.encodings,
        })
    }
}

/// Drops states of the past until they are within their budget, of the type first that keeps most.
pub(crate) fn drop_snapshots<R: AsRef<crate::Resource>>(core: &Core, resources: &[R]) {
    let budget = core.budgets.snapshots() as u64;
    loop {
        let sizes = resources.iter().map(|resource| (resource.as_ref().snapshot_bytes(), resource.as_ref()));
        let sizes: Vec<_> = sizes.collect();
        let total: u64 = sizes.iter().map(|(bytes, _)| bytes).sum();
        let most = sizes.iter().max_by_key(|(bytes, _)| *bytes);
        match most {
            Some((_, resource)) if total > budget && resource.snapshots().drop_one() => {}
            _ => return,
        }
    }
}

/// A part of a number of bytes.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "at most the whole"
)]
fn part(bytes: usize, share: f64) -> usize {
    (bytes as f64 * share.clamp(0.0, 1.0)) as usize
}

//! The ceiling of the process's memory: `--memory-limit`.
//!
//! [`Ceiling`] knows what the process holds: its resident memory, as the system counts it, and what expensive
//! requests that were let in may still take ([`room`]). It acts by the part of the limit that both together
//! are:
//!
//! 1. From [`SHRINK_FROM`] on, the cache gives its budgets up step by step, and free memory goes back to the
//!    system. Below [`RESTORE_BELOW`], the budgets come back.
//! 2. An expensive request ([`expense`]) is let in while it fits below [`FILL_TO`]. Otherwise it waits for
//!    room, in order, and is refused after [`LONGEST_WAIT`].
//! 3. Requests that are not expensive pass without a look at any of this. What was let in may finish.
//!
//! Without a limit, nothing waits, and only what is free goes back to the system ([`keeper`]).
//!
//! What it leaves to others: the budgets of unsent bytes and of superseded objects, which
//! [`Limits::within`](crate::Limits::within) derives from the limit, and the limits of connections and
//! requests in flight. Objects are data, and are never refused for their memory: past the limit by what is
//! stored alone, expensive requests are refused, and a warning is logged.

mod expense;
mod keeper;
mod layer;
mod room;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use cache::Cache;
use metrics::{CounterVec, Kind, Observed, Samples, Stability};

use crate::unsent::Unsent;
pub use layer::MemoryLayer;
pub(crate) use layer::Reserved;
use room::Room;

/// The part of the limit from which on the cache gives up its budgets.
const SHRINK_FROM: f64 = 0.7;
/// The part of the limit below which the cache gets its budgets back.
const RESTORE_BELOW: f64 = 0.6;
/// The part of the limit up to which expensive requests are let in.
const FILL_TO: f64 = 0.95;
/// The longest time that an expensive request waits for room.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// About what an open watch holds: its cursor, its chunk, and its part of a connection.
const WATCH: usize = 16 << 10;

const fn own(
    kind: Kind,
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
) -> Observed {
    Observed::new(kind, name, help, Stability::Unstated, labels)
}

metrics::families! {
    /// The limit.
    static LIMIT: Observed = own(
        Kind::Gauge, "keelson_memory_limit_bytes", "Ceiling of the memory of the process, 0 without one.", &[]);
    /// What is known of memory.
    static BYTES: Observed = own(
        Kind::Gauge, "keelson_memory_bytes", "Bytes of memory that the server accounts for, by what they are for.", &["part"]);
    /// How near the limit is.
    static PRESSURE: Observed = own(
        Kind::Gauge, "keelson_memory_pressure", "Resident and reserved memory as a part of the ceiling.", &[]);
    /// The share of the cache's budgets.
    static SHARE: Observed = own(
        Kind::Gauge, "keelson_memory_cache_share", "Share of the budgets of the cache that it may use at present.", &[]);
    /// Requests that waited.
    pub(crate) static WAITS: CounterVec<0> = CounterVec::new(
        "keelson_memory_waits_total", "Number of expensive requests that waited for memory.", Stability::Unstated, []);
    /// Requests that were refused.
    pub(crate) static REFUSALS: CounterVec<0> = CounterVec::new(
        "keelson_memory_refusals_total", "Number of expensive requests that were refused near the memory limit.", Stability::Unstated, []);
    /// How often memory was given back.
    static RELEASES: CounterVec<0> = CounterVec::new(
        "keelson_memory_releases_total", "Number of times that free memory was given back to the system.", Stability::Unstated, []);
}

/// What the process may take, and what is known of what it takes.
pub struct Ceiling {
    room: Arc<Room>,
    cache: OnceLock<Arc<Cache>>,
    unsent: OnceLock<Arc<Unsent>>,
    /// The share of the budgets of the cache, in thousandths.
    share: AtomicUsize,
}

impl fmt::Debug for Ceiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ceiling").field("limit", &self.limit()).finish_non_exhaustive()
    }
}

/// What is known of the memory of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accounts {
    pub(crate) cache: cache::CacheMemory,
    /// The responses that are being sent.
    pub(crate) unsent: u64,
    /// What expensive requests were let in with.
    pub(crate) reserved: u64,
    /// The open watches.
    pub(crate) watches: u64,
}

impl Accounts {
    fn parts(&self) -> [(&'static str, u64); 7] {
        [
            ("encodings", self.cache.encodings),
            ("entries", self.cache.entries),
            ("log", self.cache.log),
            ("reserved", self.reserved),
            ("snapshots", self.cache.snapshots),
            ("unsent", self.unsent),
            ("watches", self.watches),
        ]
    }

    /// What the server can give up, or has under way.
    fn transient(&self) -> u64 {
        self.cache.encodings + self.cache.log + self.cache.snapshots + self.unsent
    }
}

impl Ceiling {
    /// A ceiling of so many bytes; none for 0.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self {
            room: Room::new(limit),
            cache: OnceLock::new(),
            unsent: OnceLock::new(),
            share: AtomicUsize::new(WHOLE),
        })
    }

    /// Follows the memory of this cache, and shrinks it near the limit. The families of this module are
    /// served from now on.
    pub fn connect(self: &Arc<Self>, cache: &Arc<Cache>) {
        if self.cache.set(Arc::clone(cache)).is_ok() {
            self.observe();
        }
    }

    /// The limit in bytes; 0 for none.
    pub fn limit(&self) -> u64 {
        self.room.limit()
    }

    /// Counts the unsent bytes of a server.
    pub(crate) fn count_unsent(&self, unsent: &Arc<Unsent>) {
        // There is one server.
        let _ = self.unsent.set(Arc::clone(unsent));
    }

    /// What is known of the memory of the process.
    pub(crate) fn accounts(&self) -> Accounts {
        let cache = self.cache.get();
        let watchers = |cache: &Arc<Cache>| {
            cache.resources().iter().map(|resource| resource.stats().watchers).sum::<usize>()
        };
        Accounts {
            cache: cache.map(|cache| cache.memory()).unwrap_or_default(),
            unsent: self.unsent.get().map_or(0, |unsent| unsent.total() as u64),
            reserved: self.room.reserved(),
            watches: (cache.map_or(0, watchers) * WATCH) as u64,
        }
    }

    /// The share of the budgets of the cache, between 0 and 1.
    #[allow(clippy::cast_precision_loss, reason = "at most a thousand")]
    fn share(&self) -> f64 {
        self.share.load(Ordering::Relaxed) as f64 / WHOLE as f64
    }

    #[allow(clippy::cast_precision_loss, reason = "samples are floats")]
    fn observe(self: &Arc<Self>) {
        let show = |show: fn(&Self) -> f64| {
            let ceiling: Weak<Self> = Arc::downgrade(self);
            move |samples: &mut Samples<'_, '_>| {
                if let Some(ceiling) = ceiling.upgrade() {
                    samples.sample(&[], show(&ceiling));
                }
            }
        };
        LIMIT.observe(show(|ceiling| ceiling.room.limit() as f64));
        PRESSURE.observe(show(|ceiling| ceiling.room.pressure()));
        SHARE.observe(show(Self::share));
        let ceiling: Weak<Self> = Arc::downgrade(self);
        BYTES.observe(move |samples| {
            let Some(ceiling) = ceiling.upgrade() else { return };
            for (part, bytes) in ceiling.accounts().parts() {
                samples.sample(&[part], bytes as f64);
            }
        });
        metrics::MAIN.register(FAMILIES);
    }
}

/// The share of a cache that has all of its budgets.
const WHOLE: usize = 1000;

#[cfg(test)]
mod tests;

//! How a cache behaves.

use std::time::Duration;

/// How a [`Cache`](crate::Cache) behaves.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// How long a reader waits for a revision that is not there yet.
    pub wait: Duration,
    /// For how long the changes of a type are kept in memory: the retention of the store's history, or less.
    pub log_retention: Duration,
    /// How many bytes of superseded states the logs of all types may hold together. Older changes are read
    /// from the store's history.
    pub log_bytes: usize,
    /// How many of the newest changes are read back into the logs when the cache starts.
    pub replay: u64,
    /// For how long a state of the past is kept in memory after its last use; never longer than the store's
    /// history reaches it.
    pub snapshot_retention: Duration,
    /// The most states of the past that are kept of one type.
    pub snapshots: usize,
    /// How many bytes the states of the past that are kept of all types may keep from being freed, beside
    /// those in the logs.
    pub snapshot_bytes: usize,
    /// For how long another encoding is kept after it was last asked for, about.
    pub encoding_retention: Duration,
    /// How many bytes of other encodings are kept.
    pub encodings: usize,
    /// How often a watcher that asked for them gets a bookmark.
    pub bookmark_interval: Duration,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            wait: Duration::from_secs(3),
            log_retention: Duration::from_secs(300),
            log_bytes: 64 << 20,
            replay: 20_000,
            snapshot_retention: Duration::from_secs(75),
            snapshots: 64,
            snapshot_bytes: 64 << 20,
            encoding_retention: Duration::from_secs(60),
            encodings: 64 << 20,
            bookmark_interval: Duration::from_secs(60),
        }
    }
}

impl CacheOptions {
    /// How often logs, snapshots, chunks and bookmarks are checked.
    pub(crate) fn tick(&self) -> Duration {
        let shortest = self.log_retention.min(self.snapshot_retention).min(self.bookmark_interval);
        let shortest = shortest.min(self.encoding_retention);
        (shortest / 30).clamp(Duration::from_millis(5), Duration::from_secs(5))
    }
}

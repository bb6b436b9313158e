//! The state of the store that its tasks share.
//!
//! 1. An answer that shows the state at a revision is given after the watch has delivered every change up to
//!    it, so that [`Shared::known_revision`] covers it. If the watch cannot keep up, the answer is given
//!    after a bounded wait, and the revision is known before it is delivered.
//! 2. `compacted` only grows, unless the cluster was replaced by an older state of itself.

use super::{
    EtcdOptions,
    client::Client,
    failure::Failure,
    lease::Leases,
    messages::{Header, KeyValue, RangeRequest},
};
use crate::{
    Change, Error, Fate, Head, Health, Key, Revision,
    feed::{Feed, check_reach},
    waiting::{Waiting, size},
};
use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

pub(super) struct Shared {
    pub(super) options: EtcdOptions,
    pub(super) client: Client,
    pub(super) feed: Arc<Feed>,
    pub(super) leases: Leases,
    /// Wakes the task that learns of compactions.
    pub(super) compaction: Notify,
    known: AtomicU64,
    compacted: AtomicU64,
    lineage: Mutex<Lineage>,
    health: Mutex<Health>,
    usage: Mutex<Usage>,
    idle: Condvar,
}

/// Identifies the history of a cluster, so that another cluster, or a restored one, is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lineage {
    pub(super) cluster: u64,
    pub(super) term: u64,
}

/// Where the watch was before a question to etcd.
#[derive(Clone, Copy)]
pub(super) struct Position {
    generation: u64,
    /// Every later answer of etcd has at least this revision, unless etcd was restored from an older
    /// snapshot.
    pub(super) delivered: Revision,
}

/// Which commits are under way.
struct Usage {
    open: bool,
    commits: Waiting,
}

/// A commit that is under way.
pub(super) struct Underway {
    shared: Arc<Shared>,
    size: usize,
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.shared.usage().commits.remove(self.size);
        self.shared.idle.notify_all();
    }
}

impl Lineage {
    pub(super) fn of(header: &Header) -> Self {
        Self { cluster: header.cluster_id, term: header.raft_term }
    }
}

impl Shared {
    pub(super) fn new(options: EtcdOptions, client: Client, header: &Header) -> Self {
        let feed = Arc::new(Feed::new(revision(header.revision), options.window));
        Self {
            leases: Leases::default(),
            compaction: Notify::new(),
            known: AtomicU64::new(0),
            compacted: AtomicU64::new(0),
            lineage: Mutex::new(Lineage::of(header)),
            health: Mutex::new(Health::Good),
            usage: Mutex::new(Usage { open: true, commits: Waiting::default() }),
            idle: Condvar::new(),
            options,
            client,
            feed,
        }
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails after the store was closed.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.usage().open { Ok(()) } else { Err(Error::Closed) }
    }

    /// Notes that a change is being committed; fails if too many are.
    pub(super) fn begin(self: &Arc<Self>, change: &Change) -> Result<Underway, Error> {
        let mut usage = self.usage();
        if !usage.open {
            return Err(Error::Closed);
        }
        let size = size(change);
        usage.commits.add(size)?;
        Ok(Underway { shared: self.clone(), size })
    }

    /// Refuses further work, and waits for the commits under way. Blocking.
    pub(super) fn finish(&self, patience: Duration) {
        let mut usage = self.usage();
        usage.open = false;
        let waited = self.idle.wait_timeout_while(usage, patience, |usage| usage.commits.changes > 0);
        drop(waited);
        self.feed.close();
    }

    pub(super) fn known_revision(&self) -> Revision {
        self.feed.revision().max(Revision(self.known.load(Ordering::Acquire)))
    }

    /// Waits until the watch has delivered everything up to a revision that etcd has answered.
    pub(super) async fn settle(&self, reached: Revision) {
        let before = Revision(reached.0.saturating_sub(1));
        if self.feed.revision() > before {
            return;
        }
        let delivered = tokio::time::timeout(self.options.request_timeout, self.feed.changed(before)).await;
        if !matches!(delivered, Ok(Ok(()))) {
            self.known.fetch_max(reached.0, Ordering::AcqRel);
        }
    }

    /// Where the watch is.
    pub(super) fn position(&self) -> Position {
        // In this order: after a restart in between, the revision is that of the new generation.
        let generation = self.feed.generation();
        Position { generation, delivered: self.feed.revision() }
    }

    /// Waits until the watch has noticed that etcd was restored from an older snapshot, as an answer with an
    /// older revision has shown. So the caller of that request sees the new lineage.
    pub(super) async fn start_of_lineage(&self, before: Position) -> Result<(), Error> {
        let restarted = self.feed.restarted(before.generation);
        match tokio::time::timeout(self.options.request_timeout, restarted).await {
            Ok(restarted) => restarted,
            Err(_) => Err(Error::Io {
                fate: Fate::Unknown,
                source: Arc::new(std::io::Error::other(
                    "etcd has answered with a revision that is older than before",
                )),
            }),
        }
    }

    /// Asks a quorum for the newest revision.
    pub(super) async fn newest(&self) -> Result<Header, Failure> {
        Ok(self.client.read(&self.probe(0)).await?.header.unwrap_or_default())
    }

    /// A cheap read; at a revision, it shows whether the revision is compacted.
    pub(super) fn probe(&self, revision: i64) -> RangeRequest {
        RangeRequest { key: self.options.prefix.clone(), revision, count_only: true, ..Default::default() }
    }

    pub(super) fn compacted(&self) -> Revision {
        Revision(self.compacted.load(Ordering::Acquire))
    }

    /// Notes that history starts at a revision, or later.
    pub(super) fn raise_compacted(&self, to: Revision) {
        self.compacted.fetch_max(to.0, Ordering::AcqRel);
        // Events that the watch has not delivered yet are delivered, even if they are compacted in the
        // meantime.
        self.feed.trim(self.compacted().min(self.feed.revision()));
    }

    pub(super) fn check_reach(&self, requested: Revision) -> Result<(), Error> {
        check_reach(requested, self.compacted(), self.known_revision())
    }

    /// The error of a revision that etcd says is compacted.
    pub(super) async fn compacted_error(&self, requested: Revision) -> Error {
        match self.refresh_compacted().await {
            Ok(()) => Error::Compacted { requested, compacted: self.compacted().max(requested.next()) },
            Err(failure) => failure.of_read(),
        }
    }

    pub(super) fn lineage(&self) -> Lineage {
        *self.lineage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_lineage(&self, lineage: Lineage) {
        *self.lineage.lock().unwrap_or_else(PoisonError::into_inner) = lineage;
    }

    /// Starts again on a cluster that has lost revisions: all followers end.
    pub(super) fn start_again(&self, header: &Header) {
        let newest = revision(header.revision);
        self.set_lineage(Lineage::of(header));
        self.known.store(0, Ordering::Release);
        self.compacted.store(newest.0, Ordering::Release);
        self.feed.restart(newest);
    }

    pub(super) fn health(&self) -> Health {
        match self.usage().open {
            true => self.health.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            false => Health::Closed,
        }
    }

    pub(super) fn set_health(&self, health: Health) {
        *self.health.lock().unwrap_or_else(PoisonError::into_inner) = health;
    }

    /// The intersection of a prefix and the prefix of the store; `None` if it is empty.
    pub(super) fn within<'a>(&'a self, prefix: &'a [u8]) -> Option<&'a [u8]> {
        let own: &[u8] = &self.options.prefix;
        if prefix.starts_with(own) { Some(prefix) } else { own.starts_with(prefix).then_some(own) }
    }
}

/// A revision of etcd, which is never negative.
pub(super) fn revision(of_etcd: i64) -> Revision {
    Revision(u64::try_from(of_etcd).unwrap_or_default())
}

/// A revision for etcd. One that etcd cannot have is the largest that it can.
pub(super) fn for_etcd(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

/// The revisions of an entry.
pub(super) fn head(kv: &KeyValue) -> Head {
    Head { create_revision: revision(kv.create_revision), mod_revision: revision(kv.mod_revision) }
}

/// The key of an entry; none if it is not one that Keelson can have.
pub(super) fn key(kv: &KeyValue) -> Option<Key> {
    Key::new(kv.key.clone()).ok()
}

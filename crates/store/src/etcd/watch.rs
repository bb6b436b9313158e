//! The watch that feeds all followers, and the reads of history for those that fall behind.
//!
//! 1. The watch is over *all* keys of etcd, and keys that are not under the store's prefix are dropped here.
//!    Each revision of etcd has at least one event, so the watch comes to every revision that any answer has
//!    named, without a question to etcd. The progress notifications of etcd before 3.4.31 and 3.5.13 may
//!    overtake events, and a range shows no deletes: neither could say that the watch is complete up to a
//!    revision.
//! 2. All events of a revision are published together: etcd sends them in one response, whose fragments are
//!    joined.
//! 3. A watch that is lost is opened again, after the last revision that was published, at the next member. A
//!    watch that does not deliver what another answer has named is taken for lost.
//! 4. If what follows is compacted, the window starts again at the newest revision; followers that are behind
//!    find that out when they ask for history.
//! 5. No revision is passed over: one without an event is one that was compacted before it was sent. etcd
//!    before 3.5.16 does not say so of a delete at the very revision that it is compacted to.
//! 6. Before a watch is opened, a quorum is asked for the newest revision. If that is older than what was
//!    published, or the term of the leader is, or it is another cluster, then etcd was restored from a
//!    snapshot: all followers end.

use super::{
    client::Watch,
    compact::COMPACT_KEY,
    failure::Failure,
    messages::{WatchCreateRequest, WatchEvent, WatchResponse},
    shared::{Lineage, Shared, for_etcd, head, key, revision},
};
use crate::{
    Batch, BoxFuture, ChangeKind, Error, Event, Revision, StoredEntry, Value,
    feed::{BatchBuilder, History},
};
use bytes::Bytes;
use std::{sync::Arc, time::Duration};
use tokio::{runtime::Handle, task::JoinSet};

/// How long the watch may be silent while it is known to be behind; after two such times it is taken for
/// lost.
const SILENCE: Duration = Duration::from_millis(500);
/// The pause before a watch is opened again; it doubles up to [`PAUSE_LIMIT`].
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_LIMIT: Duration = Duration::from_secs(1);

/// The first revision of etcd, which is that of an empty store, without an event.
const FIRST: Revision = Revision(1);

/// Why a watch has ended.
enum End {
    /// The member, or the connection to it, failed.
    Lost(Failure),
    /// The next events are compacted.
    Compacted,
    /// The watch is silent although events are due.
    Silent,
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Lost(failure)
    }
}

/// Keeps a watch open and publishes what it delivers.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut pause = PAUSE;
    loop {
        let reached = shared.feed.revision();
        match shared.watch().await {
            End::Compacted => {
                if let Err(failure) = shared.skip_ahead().await {
                    log::warn!("the watch of etcd cannot go on: {failure}");
                }
            }
            End::Lost(failure) => log::info!("the watch of etcd is lost: {failure}"),
            End::Silent => {
                log::info!("the watch of etcd is silent, and is opened elsewhere");
                if let Err(failure) = shared.skip_compacted().await {
                    log::info!("etcd does not say how far it is compacted: {failure}");
                }
            }
        }
        pause = if shared.feed.revision() > reached { PAUSE } else { (pause * 2).min(PAUSE_LIMIT) };
        tokio::time::sleep(pause).await;
    }
}

/// A watch over all keys after a revision.
fn all_after(after: Revision) -> WatchCreateRequest {
    let all = Bytes::from_static(&[0]);
    let start_revision = for_etcd(after.next());
    WatchCreateRequest { key: all.clone(), range_end: all, start_revision, prev_kv: true, fragment: true }
}

impl Shared {
    /// Watches until the watch ends. Unless the next events are compacted, another member is used from then
    /// on.
    async fn watch(&self) -> End {
        let opened = match self.check_lineage().await {
            Ok(()) => self.client.watch(all_after(self.feed.revision())).await,
            Err(failure) => Err(failure),
        };
        let mut watch = match opened {
            Ok(watch) => watch,
            Err(failure) => return End::Lost(failure),
        };
        match self.deliver(&mut watch).await {
            Err(End::Compacted) => End::Compacted,
            Err(end) => {
                self.client.leave(watch.index);
                end
            }
            Ok(never) => match never {},
        }
    }

    /// Publishes what a watch delivers.
    async fn deliver(&self, watch: &mut Watch<'_>) -> Result<std::convert::Infallible, End> {
        let mut partial = Vec::new();
        let mut silent_at = None;
        loop {
            let response = match tokio::time::timeout(SILENCE, watch.next(&mut partial)).await {
                Ok(response) => response?,
                Err(_) => {
                    let reached = self.feed.revision();
                    let is_behind = self.client.seen() > reached.0;
                    if is_behind && silent_at == Some(reached) {
                        return Err(End::Silent);
                    }
                    silent_at = is_behind.then_some(reached);
                    continue;
                }
            };
            silent_at = None;
            self.publish(response)?;
        }
    }

    /// Starts again if etcd has lost events that were published.
    async fn check_lineage(&self) -> Result<(), Failure> {
        let header = self.newest().await?;
        let (before, now) = (self.lineage(), Lineage::of(&header));
        let has_lost = revision(header.revision) < self.feed.revision()
            || now.term < before.term
            || now.cluster != before.cluster;
        if has_lost {
            log::warn!(
                "etcd was replaced by an older state of itself: revision {} follows {}",
                header.revision,
                self.feed.revision()
            );
            self.start_again(&header);
        }
        self.set_lineage(now);
        self.client.set_seen(revision(header.revision).0);
        Ok(())
    }

    fn publish(&self, response: WatchResponse) -> Result<(), End> {
        if response.canceled {
            return Err(End::Compacted);
        }
        let reached = self.feed.revision();
        let mut newest = reached;
        let mut events = Vec::with_capacity(response.events.len());
        for event in response.events {
            let Some(at) = event.kv.as_ref().map(|kv| revision(kv.mod_revision)) else { continue };
            if at <= reached {
                continue;
            }
            if at > newest.next() {
                return Err(End::Compacted);
            }
            newest = newest.max(at);
            if event.kv.as_ref().is_some_and(|kv| kv.key == COMPACT_KEY) {
                self.compaction.notify_one();
            }
            match self.event(event) {
                Notified::Foreign => {}
                Notified::Incomplete => return Err(End::Compacted),
                Notified::Event(event) => events.push(compact_memory(event)),
            }
        }
        if newest > reached {
            self.feed.publish(events, newest);
        }
        Ok(())
    }

    /// Goes on from the newest revision, after those before it were compacted.
    async fn skip_ahead(&self) -> Result<(), Failure> {
        self.refresh_compacted().await?;
        let newest = revision(self.newest().await?.revision);
        if newest > self.feed.revision() {
            self.feed.trim(newest);
            self.feed.publish(Vec::new(), newest);
        }
        Ok(())
    }

    /// Goes on from the newest revision if the next one is compacted: its event may never come.
    async fn skip_compacted(&self) -> Result<(), Failure> {
        self.refresh_compacted().await?;
        match self.compacted() > self.feed.revision() {
            true => self.skip_ahead().await,
            false => Ok(()),
        }
    }

    /// Reads an event.
    fn event(&self, event: WatchEvent) -> Notified {
        let WatchEvent { kind, kv, prev_kv } = event;
        let Some(kv) = kv.filter(|kv| kv.key.starts_with(&self.options.prefix)) else {
            return Notified::Foreign;
        };
        let Some(key) = key(&kv) else { return Notified::Foreign };
        let mut head = head(&kv);
        let is_delete = kind == WatchEvent::DELETE;
        let is_create = !is_delete && kv.create_revision == kv.mod_revision;
        let previous =
            prev_kv.map(|kv| StoredEntry { head: super::shared::head(&kv), value: Some(Ok(kv.value)) });
        if previous.is_none() && !is_create {
            // The previous value was compacted before the event was sent.
            return Notified::Incomplete;
        }
        if let Some(previous) = &previous
            && is_delete
        {
            head.create_revision = previous.head.create_revision;
        }
        let kind = if is_delete { ChangeKind::Delete } else { ChangeKind::Put };
        Notified::Event(Event { key, kind, head, value: Ok(kv.value), previous })
    }

    /// Reads a batch of history.
    async fn history(&self, after: Revision, until: Revision, prefix: &[u8]) -> Result<Batch, Error> {
        if after < self.compacted() {
            return Err(Error::Compacted { requested: after, compacted: self.compacted() });
        }
        let mut batch = BatchBuilder::new(after);
        if until <= FIRST {
            return Ok(batch.complete(until));
        }
        let mut watch =
            self.client.watch_apart(all_after(after)).await.map_err(|failure| failure.of_read())?;
        let mut partial = Vec::new();
        let mut last = after.max(FIRST);
        loop {
            let response = self.next_of(&mut watch, &mut partial).await?;
            if response.canceled {
                return Err(self.compacted_error(after).await);
            }
            for event in response.events {
                let before = last;
                last = event.kv.as_ref().map_or(last, |kv| revision(kv.mod_revision));
                if last > before.next() {
                    return Err(self.compacted_error(after).await);
                }
                if last > until {
                    break;
                }
                let event = match self.event(event) {
                    Notified::Foreign => None,
                    Notified::Incomplete => return Err(self.compacted_error(after).await),
                    Notified::Event(event) => event.key.as_bytes().starts_with(prefix).then_some(event),
                };
                if batch.push(last, || event).is_break() {
                    return Ok(batch.full());
                }
            }
            if last >= until {
                return Ok(batch.complete(until));
            }
        }
    }

    async fn next_of(
        &self,
        watch: &mut Watch<'_>,
        partial: &mut Vec<WatchEvent>,
    ) -> Result<WatchResponse, Error> {
        match tokio::time::timeout(self.options.request_timeout, watch.next(partial)).await {
            Ok(response) => response.map_err(|failure| failure.of_read()),
            Err(_) => Err(Error::read(std::io::Error::new(
                std::io::ErrorKind::TimedOut,
                "etcd has not sent history in time",
            ))),
        }
    }
}

/// What an event of etcd's watch means to the store.
enum Notified {
    /// The key does not belong to the store.
    Foreign,
    /// The previous value is compacted.
    Incomplete,
    Event(Event),
}

/// The event without the buffer that it was read into: the window holds events for long. The values before
/// are in the window too, or are read when a follower asks for them.
fn compact_memory(mut event: Event) -> Event {
    event.value = event.value.map(|value| Bytes::copy_from_slice(&value));
    if let Ok(key) = crate::Key::new(Bytes::copy_from_slice(event.key.as_bytes())) {
        event.key = key;
    }
    if let Some(previous) = &mut event.previous {
        previous.value = None;
    }
    event
}

/// History, read by tasks of the store's own runtime.
pub(super) struct Past {
    pub(super) shared: Arc<Shared>,
    pub(super) handle: Handle,
}

impl Past {
    /// Runs work in the store's own runtime until the caller drops it: an abandoned read would keep its
    /// connection.
    fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Error>> {
        let mut task = JoinSet::new();
        task.spawn_on(work, &self.handle);
        Box::pin(async move {
            let outcome = task.join_next().await;
            outcome.and_then(Result::ok).unwrap_or(Err(Error::Closed))
        })
    }
}

impl History for Past {
    fn read(
        &self,
        after: Revision,
        until: Revision,
        prefix: Bytes,
    ) -> BoxFuture<'static, Result<Batch, Error>> {
        let shared = self.shared.clone();
        self.run(async move { shared.history(after, until, &prefix).await })
    }

    fn values(&self, wanted: Vec<(crate::Key, Revision)>) -> BoxFuture<'static, Result<Vec<Value>, Error>> {
        let shared = self.shared.clone();
        self.run(async move {
            let mut values = Vec::with_capacity(wanted.len());
            for (key, written) in wanted {
                values.push(Ok(shared.value(&key, written).await?));
            }
            Ok(values)
        })
    }
}

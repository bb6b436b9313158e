//! Compaction: once in an interval for all servers of a cluster, those of the reference among them; and how
//! the store learns the compacted revision.
//!
//! The servers share the key [`COMPACT_KEY`]. Its version counts the intervals. A server that finds the
//! version that it has seen an interval ago raises it, and compacts to the revision that was the newest one
//! then; a server that finds another version notes it: another server has compacted. So history reaches back
//! for one interval at least, and for two if the server that compacts fails.
//!
//! etcd does not report its compacted revision, only whether a given revision is compacted;
//! [`Shared::refresh_compacted`] finds it by binary search.

use super::{
    failure::Failure,
    messages::{CompactionRequest, Compare, OpRequest, PutRequest, RangeRequest, TxnRequest},
    shared::{Shared, for_etcd, revision},
};
use crate::{Error, Revision};
use bytes::Bytes;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// The key that the servers of a cluster share, as the reference calls it.
pub(super) const COMPACT_KEY: &[u8] = b"compact_rev_key";
/// How often the store asks whether another process has compacted.
const REFRESH: Duration = Duration::from_secs(60);
/// How long after another server has raised the version its compaction is expected to be done.
const DELAY: Duration = Duration::from_secs(1);

/// What a server knows of the shared key.
#[derive(Default)]
struct Turn {
    version: i64,
    revision: i64,
}

/// Compacts once in an interval, and learns of compactions by others.
pub(super) async fn run(shared: Arc<Shared>) {
    let interval = shared.options.compaction_interval;
    let mut turn = Turn::default();
    let mut due = Instant::now() + interval;
    let mut refresh = Instant::now() + REFRESH;
    loop {
        let wake = if interval.is_zero() { refresh } else { due.min(refresh) };
        if tokio::time::timeout_at(wake, shared.compaction.notified()).await.is_ok() {
            refresh = refresh.min(Instant::now() + DELAY);
            continue;
        }
        if !interval.is_zero() && Instant::now() >= due {
            due = Instant::now() + interval;
            if let Err(failure) = shared.take_turn(&mut turn).await {
                log::warn!("history could not be compacted: {failure}");
            }
        }
        if Instant::now() >= refresh {
            refresh = Instant::now() + REFRESH;
            if let Err(failure) = shared.refresh_compacted().await {
                log::debug!("the compacted revision could not be learned: {failure}");
            }
        }
    }
}

impl Shared {
    /// Compacts for this interval, unless another server has.
    async fn take_turn(&self, turn: &mut Turn) -> Result<(), Failure> {
        let key = Bytes::from_static(COMPACT_KEY);
        let value = turn.revision.to_string().into();
        let request = TxnRequest {
            compare: vec![Compare::version_is(key.clone(), turn.version)],
            success: vec![OpRequest::Put(PutRequest { key: key.clone(), value, lease: 0 }).into()],
            failure: vec![OpRequest::Range(RangeRequest { key, ..Default::default() }).into()],
        };
        let answer = self.client.write(&request).await?;
        let newest = answer.header.unwrap_or_default().revision;
        if !answer.succeeded {
            let range = answer.responses.into_iter().next().and_then(|response| response.range);
            let found = range.and_then(|range| range.kvs.into_iter().next());
            *turn = Turn { version: found.map_or(0, |kv| kv.version), revision: newest };
            return Ok(());
        }
        let due = turn.revision;
        *turn = Turn { version: turn.version + 1, revision: newest };
        if due > 0 { self.compact_to(due).await } else { Ok(()) }
    }

    /// Compacts; it is no failure if the revision is compacted already.
    async fn compact_to(&self, to: i64) -> Result<(), Failure> {
        match self.client.read(&CompactionRequest { revision: to }).await {
            Ok(_) => {
                self.raise_compacted(revision(to));
                Ok(())
            }
            Err(failure) if failure.is_compacted() => self.refresh_compacted().await,
            Err(failure) => Err(failure),
        }
    }

    /// Compacts history before a revision at the request of a caller.
    pub(super) async fn compact(&self, to: Revision) -> Result<(), Error> {
        if to <= self.compacted() {
            return Ok(());
        }
        if to > self.known_revision() {
            let current = revision(self.newest().await.map_err(|failure| failure.of_read())?.revision);
            if to > current {
                return Err(Error::Future { requested: to, current });
            }
        }
        self.compact_to(for_etcd(to)).await.map_err(|failure| failure.of_write())
    }

    /// Learns how far etcd is compacted.
    pub(super) async fn refresh_compacted(&self) -> Result<(), Failure> {
        let known = self.compacted().0.max(1);
        let Some(newest) = self.reach_at(known).await? else { return Ok(()) };
        // The answer is in `low..=high`.
        let (mut low, mut high) = (known + 1, newest.max(known + 1));
        while low < high {
            let middle = low + (high - low) / 2;
            match self.reach_at(middle).await? {
                Some(_) => low = middle + 1,
                None => high = middle,
            }
        }
        self.raise_compacted(Revision(low));
        Ok(())
    }

    /// `None` if a revision can be read; otherwise the newest revision.
    async fn reach_at(&self, at: u64) -> Result<Option<u64>, Failure> {
        match self.client.read(&self.probe(for_etcd(Revision(at)))).await {
            Ok(_) => Ok(None),
            Err(failure) if failure.is_compacted() => Ok(Some(revision(self.newest().await?.revision).0)),
            Err(failure) => Err(failure),
        }
    }
}

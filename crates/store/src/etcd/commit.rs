//! A commit: one transaction of etcd.
//!
//! ```text
//! if      the mod revision of the key is what the change expects
//! then    read the key, then put or delete it
//! else    read the key
//! ```
//!
//! 1. The read in the first branch shows the entry before the change, its value only if the caller requested
//!    it.
//! 2. The revision of the answer's header is the revision of the change.
//! 3. A transaction that may have been sent is not sent again.
//! 4. A transaction that was not sent when its caller left is not sent any more.

use super::{
    failure::Failure,
    messages::{Compare, DeleteRangeRequest, OpRequest, PutRequest, RangeRequest, TxnRequest, TxnResponse},
    shared::{Shared, for_etcd, head, revision},
};
use crate::{Change, Committed, Conflict, Error, Expect, Health, Op, Returning, Revision, StoredEntry};
use bytes::Bytes;
use std::sync::{Arc, OnceLock};

/// A mod revision that no key has.
const NEVER: i64 = -1;

/// Whether a transaction is sent first, or its caller leaves first.
#[derive(Default)]
pub(super) struct Gate(OnceLock<Passed>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Passed {
    Sent,
    Withdrawn,
}

impl Gate {
    /// Whether the transaction may be sent.
    pub(super) fn begin(&self) -> bool {
        *self.0.get_or_init(|| Passed::Sent) == Passed::Sent
    }

    /// Whether the transaction will not be sent any more.
    pub(super) fn withdraw(&self) -> bool {
        *self.0.get_or_init(|| Passed::Withdrawn) == Passed::Withdrawn
    }
}

/// Commits a change, and answers after the watch has delivered it.
pub(super) async fn run(shared: Arc<Shared>, change: Change, gate: &Gate) -> Result<Committed, Error> {
    let before = shared.position();
    let answer = send(&shared, &change, gate).await.map_err(|failure| {
        let error = failure.too_large().map_or_else(|| failure.of_write(), Error::RequestTooLarge);
        if failure.is_full() {
            shared.set_health(Health::Failing(error.clone()));
        }
        error
    })?;
    let reached = revision(answer.header.unwrap_or_default().revision);
    let outcome = read(&change, answer, reached);
    if reached < before.delivered || outcome.is_ok() && reached == before.delivered {
        shared.start_of_lineage(before).await?;
    }
    shared.settle(reached).await;
    outcome
}

/// Sends the transaction, with a lease if the change has a lifetime. A lease that has ended is replaced once.
async fn send(shared: &Shared, change: &Change, gate: &Gate) -> Result<TxnResponse, Failure> {
    let lifetime = match &change.op {
        Op::Put(_) => change.lifetime,
        Op::Delete => None,
    };
    let Some(lifetime) = lifetime else {
        return shared.client.write_through(gate, &transaction(change, 0)).await;
    };
    let lease = shared.leases.lease(shared, lifetime).await?;
    match shared.client.write_through(gate, &transaction(change, lease)).await {
        Err(failure) if failure.is_lease_missing() => {
            shared.leases.forget(lease).await;
            let lease = shared.leases.lease(shared, lifetime).await?;
            shared.client.write_through(gate, &transaction(change, lease)).await
        }
        outcome => outcome,
    }
}

fn transaction(change: &Change, lease: i64) -> TxnRequest {
    let key = Bytes::copy_from_slice(change.key.as_bytes());
    let read = |keys_only| {
        OpRequest::Range(RangeRequest { key: key.clone(), keys_only, ..Default::default() }).into()
    };
    let (write, is_delete) = match &change.op {
        Op::Put(value) => {
            (OpRequest::Put(PutRequest { key: key.clone(), value: value.clone(), lease }), false)
        }
        Op::Delete => (OpRequest::DeleteRange(DeleteRangeRequest { key: key.clone() }), true),
    };
    let compare = match (change.expect, is_delete) {
        (Expect::Any, false) => None,
        (Expect::Any, true) => Some(Compare::exists(key.clone())),
        (Expect::Absent, false) => Some(Compare::mod_revision_is(key.clone(), 0)),
        (Expect::Absent, true) | (Expect::At(Revision::ZERO), _) => {
            Some(Compare::mod_revision_is(key.clone(), NEVER))
        }
        (Expect::At(expected), _) => Some(Compare::mod_revision_is(key.clone(), for_etcd(expected))),
    };
    TxnRequest {
        compare: compare.into_iter().collect(),
        success: vec![read(change.returning == Returning::Head), write.into()],
        failure: vec![read(!change.wants_found_value())],
    }
}

/// Reads the answer to a transaction.
fn read(change: &Change, answer: TxnResponse, reached: Revision) -> Result<Committed, Error> {
    let range = answer.responses.into_iter().next().and_then(|response| response.range);
    let found = range.and_then(|range| range.kvs.into_iter().next());
    let with_value = match answer.succeeded {
        true => change.returning == Returning::Value,
        false => change.wants_found_value(),
    };
    let found = found.map(|kv| StoredEntry { head: head(&kv), value: with_value.then_some(Ok(kv.value)) });
    if !answer.succeeded {
        return Err(Box::new(Conflict { key: change.key.clone(), found }).into());
    }
    let create_revision = found.as_ref().map_or(reached, |found| found.head.create_revision);
    Ok(Committed { revision: reached, create_revision, previous: found })
}

//! The last step of a write: a change is committed if the object is still the one that was read.

use crate::convert::map_mut;
use crate::error::{object_too_large, status};
use crate::find::Old;
use crate::write::MODIFIED;
use crate::{Content, Registry, Stored, Target, object_meta};
use admission::Admitted;
use bytes::Bytes;
use cache::{Change, Committed, Entry};
use object::Value;
use observe::{Commit, Part};
use schema::{Limits, Status};
use std::sync::Arc;

/// Whether a write is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteMode {
    /// The change is committed.
    Persist,
    /// `dryRun=All`: the change is validated and answered, not committed.
    DryRun,
}

impl WriteMode {
    pub(crate) fn dry_run_if(is_dry_run: bool) -> Self {
        if is_dry_run { Self::DryRun } else { Self::Persist }
    }
}

/// The treatment of managed fields that make an object too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Oversize {
    /// The managed fields are dropped, because the client did not send them. The reference does this for all
    /// writes but an apply.
    DropManagedFields,
    /// The write is refused.
    Refuse,
}

/// The outcome of one attempt to write.
pub(crate) enum Outcome {
    /// The write is committed, or there was nothing to change. The content of the response.
    Done(Content),
    /// Another write has changed the object since it was read, or made one with the name of a new object. The
    /// 409 for a write that is not retried.
    Conflict(Status),
}

/// Encodes a new state; 413 if it is too large.
pub(crate) async fn encode(stored: &Stored, new: &mut Value, oversize: Oversize) -> Result<Bytes, Status> {
    let limit = Limits::REQUEST.bytes;
    let mut bytes = stored.encode(new).await?;
    if bytes.len() > limit && oversize == Oversize::DropManagedFields {
        object_meta::remove(map_mut(new)?, &["managedFields"]);
        bytes = stored.encode(new).await?;
    }
    if bytes.len() > limit { Err(object_too_large(limit)) } else { Ok(bytes) }
}

impl Registry {
    /// Replaces `old` by a new state. A new state that equals `old` is not written, unless its stored bytes
    /// would differ from those of `old`, for example in another storage version.
    pub(crate) async fn replace(
        &self,
        target: &Target<'_>,
        old: &Old,
        mut new: Value,
        mode: WriteMode,
        oversize: Oversize,
        admitted: Admitted,
    ) -> Result<Outcome, Status> {
        let stored = target.stored()?;
        if mode == WriteMode::Persist
            && new.get("metadata").and_then(|metadata| metadata.get("selfLink")).is_some()
        {
            // The stored state has no `selfLink`; the response to a dry run has it.
            object_meta::remove(map_mut(&mut new)?, &["selfLink"]);
        }
        if new == old.object && stored.is_as_written_today(&old.entry) {
            return Ok(Outcome::Done(Content::Entry(old.entry.clone())));
        }
        if mode == WriteMode::DryRun {
            return Ok(Outcome::Done(Content::Tree(stored.as_read(new).await?)));
        }
        let _span = target.store_span("GuaranteedUpdate etcd3");
        let observation = target.observation();
        observation.step("About to Encode");
        let bytes = encode(stored, &mut new, oversize).await?;
        observation.step_with("Encode succeeded", "len", bytes.len());
        let change = Change::put(&stored.resource, target.namespace, target.name, bytes);
        let change = change.expect_revision(old.entry.mod_revision());
        observation.step("Transaction prepared");
        observation.commit(Commit::Begins);
        let committing = self.commit_state(stored, change, &mut new, oversize, admitted);
        let outcome = observation.timed(Part::Store, committing).await;
        observation.step("Txn call completed");
        match outcome {
            Ok(committed) => {
                observation.commit(Commit::Done);
                observation.step("Transaction committed");
                let entry = committed.entry().cloned();
                let entry = entry.ok_or_else(|| Status::internal_error("a commit without a state"))?;
                stored.note_written(&entry, &new);
                Ok(Outcome::Done(Content::Entry(entry)))
            }
            Err(cache::Error::Conflict(_)) => Ok(Outcome::Conflict(target.conflict(MODIFIED))),
            Err(error) => Err(status(error)),
        }
    }

    /// Removes an object from the store if it is still in the state `entry`. The result is its last state.
    pub(crate) async fn remove(
        &self,
        target: &Target<'_>,
        entry: &Arc<Entry>,
        mode: WriteMode,
        mut admitted: Admitted,
    ) -> Result<Outcome, Status> {
        if mode == WriteMode::DryRun {
            return Ok(Outcome::Done(Content::Entry(entry.clone())));
        }
        let hook = self.config().hooks.of(&target.served.group, &target.served.resource);
        hook.and_then(|hook| hook.before_remove(entry)).into_iter().for_each(|held| admitted.reserve(held));
        let change = Change::delete(&target.stored()?.resource, target.namespace, target.name);
        let observation = target.observation();
        observation.commit(Commit::Begins);
        let committing = self.commit(change.expect_revision(entry.mod_revision()), admitted);
        match observation.timed(Part::Store, committing).await {
            Ok(committed) => {
                observation.commit(Commit::Done);
                Ok(Outcome::Done(Content::Entry(committed.entry().unwrap_or(entry).clone())))
            }
            Err(cache::Error::Conflict(_)) => Ok(Outcome::Conflict(target.conflict(MODIFIED))),
            Err(error) => Err(status(error)),
        }
    }

    /// Commits a change that was admitted, and settles what was reserved for it.
    ///
    /// A commit whose outcome matters to a reservation or a hook runs to its end even if the request is
    /// cancelled.
    pub(crate) async fn commit(&self, change: Change, admitted: Admitted) -> Result<Committed, cache::Error> {
        let cache = self.cache().clone();
        settled(async move { cache.commit(change).await }, admitted, |outcome| outcome.as_ref().err())
            .await
            .unwrap_or(Err(cache::Error::Closed))
    }

    /// Commits a new state, which was encoded into the change. If the store refuses it as too large, its
    /// managed fields are dropped and it is committed without them, as [`Oversize`] says.
    pub(crate) async fn commit_state(
        &self,
        stored: &Stored,
        change: Change,
        new: &mut Value,
        oversize: Oversize,
        admitted: Admitted,
    ) -> Result<Committed, cache::Error> {
        if oversize == Oversize::Refuse || change.size() < SMALLEST_LIMIT {
            return self.commit(change, admitted).await;
        }
        let (cache, stored, mut state) = (self.cache().clone(), stored.clone(), std::mem::take(new));
        let committing = async move {
            let outcome = match cache.commit(change.clone()).await {
                Err(cache::Error::Store(
                    error @ (store::Error::TooLarge { .. } | store::Error::RequestTooLarge(_)),
                )) => match without_managed_fields(&stored, &mut state).await {
                    Some(bytes) => cache.commit(change.with_object(bytes)).await,
                    None => Err(error.into()),
                },
                outcome => outcome,
            };
            (outcome, state)
        };
        let finished = settled(committing, admitted, |(outcome, _)| outcome.as_ref().err()).await;
        let (outcome, state) = finished.unwrap_or_else(|| (Err(cache::Error::Closed), Value::Null));
        *new = state;
        outcome
    }
}

/// No store refuses an object of fewer bytes as too large.
const SMALLEST_LIMIT: usize = 64 << 10;

/// The bytes of a state without its managed fields; `None` if it has none.
async fn without_managed_fields(stored: &Stored, state: &mut Value) -> Option<Bytes> {
    state.get("metadata")?.get("managedFields")?;
    object_meta::remove(map_mut(state).ok()?, &["managedFields"]);
    stored.encode(state).await.ok()
}

/// Awaits a commit, and settles what was reserved for it by its error. `None` if the commit panicked.
async fn settled<T: Send + 'static>(
    commit: impl Future<Output = T> + Send + 'static,
    admitted: Admitted,
    error: fn(&T) -> Option<&cache::Error>,
) -> Option<T> {
    if !admitted.needs_outcome() {
        return Some(commit.await);
    }
    let finished = tasks::once(async move {
        let outcome = commit.await;
        match error(&outcome) {
            None => admitted.committed().await,
            Some(error) if error.is_fate_unknown() => admitted.unknown().await,
            Some(_) => admitted.abandoned().await,
        }
        outcome
    });
    finished.await.ok()
}

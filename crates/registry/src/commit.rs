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
    /// Another write has changed the object since it was read. The 409 for a write that is not retried.
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
        let bytes = encode(stored, &mut new, oversize).await?;
        let change = Change::put(&stored.resource, target.namespace, target.name, bytes);
        match self.commit(change.expect_revision(old.entry.mod_revision()), admitted).await {
            Ok(committed) => {
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
        match self.commit(change.expect_revision(entry.mod_revision()), admitted).await {
            Ok(committed) => Ok(Outcome::Done(Content::Entry(committed.entry().unwrap_or(entry).clone()))),
            Err(cache::Error::Conflict(_)) => Ok(Outcome::Conflict(target.conflict(MODIFIED))),
            Err(error) => Err(status(error)),
        }
    }

    /// Commits a change that was admitted, and settles what was reserved for it.
    ///
    /// A commit whose outcome matters to a reservation or a hook runs to its end even if the request is
    /// cancelled.
    pub(crate) async fn commit(&self, change: Change, admitted: Admitted) -> Result<Committed, cache::Error> {
        if !admitted.needs_outcome() {
            return self.cache().commit(change).await;
        }
        let cache = self.cache().clone();
        let finished = tasks::once(async move {
            let outcome = cache.commit(change).await;
            match &outcome {
                Ok(_) => admitted.committed().await,
                Err(error) if error.is_fate_unknown() => admitted.unknown().await,
                Err(_) => admitted.abandoned().await,
            }
            outcome
        });
        finished.await.unwrap_or(Err(cache::Error::Closed))
    }
}

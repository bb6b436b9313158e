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
pub(crate) enum Run {
    /// The change is committed.
    Real,
    /// `dryRun=All`: the change is validated and answered, not committed.
    Dry,
}

impl Run {
    pub(crate) fn dry_if(dry: bool) -> Self {
        if dry { Self::Dry } else { Self::Real }
    }
}

/// What happens to the managed fields of a state that is too large with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Oversize {
    /// They are dropped, as the reference does it for all writes but an apply: they are not what the client
    /// sent.
    DropManagedFields,
    /// The state is refused.
    Refuse,
}

/// What became of an attempt.
pub(crate) enum Outcome {
    /// It was committed, or nothing had to be: what the client sees.
    Done(Content),
    /// Another write was faster: what the client sees if it is not tried again.
    Conflict(Status),
}

/// The bytes of a new state; 413 if there are too many.
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
    /// Puts a new state in the place of `old`. A state that is the same is not written, unless it would have
    /// other bytes today.
    pub(crate) async fn replace(
        &self,
        target: &Target<'_>,
        old: &Old,
        mut new: Value,
        run: Run,
        oversize: Oversize,
        admitted: Admitted,
    ) -> Result<Outcome, Status> {
        let stored = target.stored()?;
        if run == Run::Real && new.get("metadata").and_then(|metadata| metadata.get("selfLink")).is_some() {
            // Of the state that is stored; a dry run shows it.
            object_meta::remove(map_mut(&mut new)?, &["selfLink"]);
        }
        if new == old.object && stored.is_as_written_today(&old.entry) {
            return Ok(Outcome::Done(Content::Entry(old.entry.clone())));
        }
        if run == Run::Dry {
            return Ok(Outcome::Done(Content::Tree(new)));
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

    /// Removes the object that is in the state `entry`; the client sees its last state.
    pub(crate) async fn remove(
        &self,
        target: &Target<'_>,
        entry: &Arc<Entry>,
        run: Run,
        mut admitted: Admitted,
    ) -> Result<Outcome, Status> {
        if run == Run::Dry {
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
    /// A commit whose outcome matters is finished even if the request ends meanwhile: once it has begun, only its
    /// outcome tells whether they can be released.
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

//! The last step of a change: one state of an object in place of another, if that is still the one that was read.

use crate::convert::map_mut;
use crate::error::status;
use crate::{Content, Registry, Target, object_meta};
use cache::{Change, Entry};
use object::Value;
use schema::Status;
use std::sync::Arc;

/// Whether a write is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// It is.
    Real,
    /// It only answers.
    Dry,
}

impl Run {
    pub(crate) fn dry_if(dry: bool) -> Self {
        if dry { Self::Dry } else { Self::Real }
    }
}

impl Registry {
    /// Puts a state in the place of `entry`, whose tree is `before`; a state that is the same is not written. `None` if the
    /// object was changed meanwhile.
    pub(crate) async fn replace(
        &self,
        target: &Target<'_>,
        entry: &Arc<Entry>,
        before: &Value,
        mut object: Value,
        run: Run,
    ) -> Result<Option<Content>, Status> {
        if run == Run::Real && object.get("metadata").and_then(|metadata| metadata.get("selfLink")).is_some()
        {
            // Of the state that is kept; a dry run shows it.
            object_meta::remove(map_mut(&mut object)?, &["selfLink"]);
        }
        if object == *before {
            return Ok(Some(Content::Entry(entry.clone())));
        }
        if run == Run::Dry {
            return Ok(Some(Content::Tree(object)));
        }
        let stored = target.stored()?;
        let change = Change::put(&stored.resource, target.namespace, target.name, stored.encode(&object));
        match self.cache().commit(change.expect_revision(entry.mod_revision())).await {
            Ok(committed) => Ok(committed.entry().cloned().map(Content::Entry)),
            Err(cache::Error::Conflict(_)) => Ok(None),
            Err(error) => Err(status(error)),
        }
    }

    /// Removes the object that is in the state `entry`, and gives that last state. `None` if it was changed meanwhile.
    pub(crate) async fn remove(
        &self,
        target: &Target<'_>,
        entry: &Arc<Entry>,
        run: Run,
    ) -> Result<Option<Arc<Entry>>, Status> {
        if run == Run::Dry {
            return Ok(Some(entry.clone()));
        }
        let change = Change::delete(&target.stored()?.resource, target.namespace, target.name);
        match self.cache().commit(change.expect_revision(entry.mod_revision())).await {
            Ok(committed) => Ok(Some(committed.entry().unwrap_or(entry).clone())),
            Err(cache::Error::Conflict(_)) => Ok(None),
            Err(error) => Err(status(error)),
        }
    }
}

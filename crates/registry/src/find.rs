//! The state that a write starts from: the newest one, or that there is none, or that it cannot be read.

use crate::error::{status, unreadable};
use crate::{Registry, Target};
use cache::{Entry, Freshness};
use object::Value;
use schema::Status;
use std::sync::Arc;
use store::Corrupt;

/// An object that is there.
pub(crate) struct Old {
    pub(crate) entry: Arc<Entry>,
    pub(crate) object: Value,
}

/// What is stored under a name.
pub(crate) enum Found {
    /// An object.
    Object(Old),
    /// Bytes that cannot be read.
    Damaged(Arc<Corrupt>),
    /// Nothing.
    Nothing,
}

impl Registry {
    /// The newest state of what a target names.
    pub(crate) async fn find(&self, target: &Target<'_>) -> Result<Found, Status> {
        let stored = target.stored()?;
        match stored.resource.get(target.namespace, target.name, Freshness::MostRecent).await {
            Ok(Some(entry)) => Ok(Found::Object(Old { object: stored.decode(&entry).await?, entry })),
            Ok(None) => Ok(Found::Nothing),
            Err(cache::Error::Corrupt(corrupt)) => Ok(Found::Damaged(corrupt)),
            Err(error) => Err(status(error)),
        }
    }

    /// The newest state of an object that has to be there.
    pub(crate) async fn find_object(&self, target: &Target<'_>) -> Result<Old, Status> {
        match self.find(target).await? {
            Found::Object(old) => Ok(old),
            Found::Damaged(corrupt) => Err(unreadable(&corrupt)),
            Found::Nothing => Err(target.not_found()),
        }
    }
}

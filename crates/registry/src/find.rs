//! The state that a write starts from: the newest one, or that there is none, or that it cannot be read.

use crate::error::status;
use crate::unreadable::Unreadable;
use crate::{Registry, Target};
use cache::{Entry, Freshness};
use object::Value;
use schema::Status;
use std::sync::Arc;

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
    Unreadable(Unreadable),
    /// Nothing.
    Nothing,
}

impl Registry {
    /// The newest state of what a target names.
    pub(crate) async fn find(&self, target: &Target<'_>) -> Result<Found, Status> {
        let stored = target.stored()?;
        match stored.resource.get(target.namespace, target.name, Freshness::MostRecent).await {
            Ok(Some(entry)) => match stored.decode_as_stored(&entry) {
                Ok(object) => {
                    let object = stored.to_storage_version(&entry, object).await?;
                    Ok(Found::Object(Old { object, entry }))
                }
                Err(unreadable) => Ok(Found::Unreadable(unreadable)),
            },
            Ok(None) => Ok(Found::Nothing),
            Err(cache::Error::Corrupt(corrupt)) => Ok(Found::Unreadable((&*corrupt).into())),
            Err(error) => Err(status(error)),
        }
    }

    /// The newest state of an object that has to be there.
    pub(crate) async fn find_object(&self, target: &Target<'_>) -> Result<Old, Status> {
        match self.find(target).await? {
            Found::Object(old) => Ok(old),
            Found::Unreadable(unreadable) => Err(target.unreadable(&unreadable)),
            Found::Nothing => Err(target.not_found()),
        }
    }
}

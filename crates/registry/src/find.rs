//! Reads the newest state of an object for a write: the object, nothing, or damaged bytes.

use crate::damaged::Damaged;
use crate::error::status;
use crate::write::MODIFIED;
use crate::{Registry, Target};
use cache::{Entry, Freshness};
use object::Value;
use schema::Status;
use std::sync::Arc;

/// An existing object: its entry, and its tree in the working version.
pub(crate) struct Old {
    pub(crate) entry: Arc<Entry>,
    pub(crate) object: Value,
}

/// The result of reading a name from the store.
pub(crate) enum Found {
    /// An object.
    Object(Old),
    /// Damaged bytes.
    Damaged(Damaged),
    /// Nothing.
    Nothing,
}

impl Registry {
    /// The newest state of the object of a target.
    pub(crate) async fn find(&self, target: &Target<'_>) -> Result<Found, Status> {
        match self.newest(target).await? {
            Ok(Some(entry)) => found(target, entry).await,
            Ok(None) => Ok(Found::Nothing),
            Err(damaged) => Ok(Found::Damaged(damaged)),
        }
    }

    /// The newest state of the object of a target, without a call of a conversion webhook, for work on the
    /// metadata; and the target of [`Target::in_place`].
    pub(crate) async fn find_in_place<'a>(&self, target: &Target<'a>) -> Result<(Target<'a>, Found), Status> {
        Ok(match self.newest(target).await? {
            Ok(Some(entry)) => {
                let target = target.in_place(&entry);
                (target, found(&target, entry).await?)
            }
            Ok(None) => (*target, Found::Nothing),
            Err(damaged) => (*target, Found::Damaged(damaged)),
        })
    }

    async fn newest(&self, target: &Target<'_>) -> Result<Result<Option<Arc<Entry>>, Damaged>, Status> {
        match target.stored()?.resource.get(target.namespace, target.name, Freshness::MostRecent).await {
            Ok(entry) => Ok(Ok(entry)),
            Err(cache::Error::Corrupt(corrupt)) => Ok(Err((&*corrupt).into())),
            Err(error) => Err(status(error)),
        }
    }

    /// The newest state of an object that must exist: 404 if it does not.
    pub(crate) async fn find_object(&self, target: &Target<'_>) -> Result<Old, Status> {
        match self.find(target).await? {
            Found::Object(old) => Ok(old),
            Found::Damaged(damaged) => Err(target.damaged(&damaged)),
            Found::Nothing => Err(target.not_found()),
        }
    }
}

/// An object that was found, in the working version.
async fn found(target: &Target<'_>, entry: Arc<Entry>) -> Result<Found, Status> {
    let stored = target.stored()?;
    if stored.is_in_place() && !stored.is_in_working_version(&entry) {
        // Another write has changed the version of the stored bytes since the target was chosen for them.
        return Err(target.conflict(MODIFIED));
    }
    match stored.decode_as_stored(&entry) {
        Ok(object) => {
            let object = stored.to_working_version(&entry, object).await?;
            Ok(Found::Object(Old { object, entry }))
        }
        Err(damaged) => Ok(Found::Damaged(damaged)),
    }
}

//! Everything that can go wrong between the API and the store.

use crate::Entry;
use std::{fmt, sync::Arc};
use store::{Corrupt, Fate, InvalidKey, Revision, Unavailable, Unreadable};

/// An error of the cache. The texts of those that a client sees are the API's own.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A watch cannot start, or go on, after this revision: the changes that follow it are gone.
    #[error("too old resource version: {requested} ({oldest})")]
    TooOld {
        /// The revision asked for, or the last one that was seen.
        requested: Revision,
        /// The oldest revision that a watch can start after.
        oldest: Revision,
    },
    /// The state at exactly this revision is gone.
    #[error("The resourceVersion for the provided list is too old.")]
    Expired {
        /// The revision asked for.
        requested: Revision,
    },
    /// The state that a continued list belongs to is gone. A new token with this start and no revision
    /// continues at the most recent state, which is not the one that the list began with.
    #[error(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
         results. Continuing with the provided token results in an inconsistent list - objects that were created, \
         modified, or deleted between the time the first chunk was returned and now may show up in the list."
    )]
    ContinueExpired {
        /// The key within the type at which the list was to go on.
        start: String,
    },
    /// The revision asked for did not come in time.
    #[error("Too large resource version: {requested}, current: {current}")]
    TooLarge {
        /// The revision asked for.
        requested: Revision,
        /// The newest one that can be served.
        current: Revision,
    },
    /// The stored bytes of the object asked for are damaged.
    #[error(transparent)]
    Corrupt(#[from] Arc<Corrupt>),
    /// The stored bytes of the object asked for cannot be decrypted at present.
    #[error(transparent)]
    Unavailable(#[from] Arc<Unavailable>),
    /// A state was asked for of which these objects cannot be read.
    #[error("{} of the objects cannot be read", .0.len())]
    Damaged(Vec<Arc<Corrupt>>),
    /// An object was removed whose last state cannot be read.
    #[error("saw a DELETED event, but object data is corrupt - {0}")]
    UnreadableDeleted(Unreadable),
    /// The newest changes of the resource type cannot be decrypted at present.
    #[error("the newest changes of {prefix} cannot be decrypted at present")]
    Lagging {
        /// The prefix of its keys.
        prefix: String,
    },
    /// A precondition did not hold; nothing was changed.
    #[error(transparent)]
    Conflict(#[from] Box<Conflict>),
    /// The change is invalid.
    #[error("the change cannot be stored: {reason}")]
    Invalid {
        /// What is wrong with the change.
        reason: Invalid,
    },
    /// The resource type is not served any more.
    #[error("the resource type {prefix} was removed")]
    Removed {
        /// The prefix of its keys.
        prefix: String,
    },
    /// A resource type with this prefix exists already.
    #[error("there is a resource type {prefix} already")]
    Exists {
        /// The prefix of its keys.
        prefix: String,
    },
    /// A panic interrupted the application of a change, and all types are being loaded again.
    #[error("the cache is being loaded again")]
    Recovering,
    /// The cache was closed, or its store.
    #[error("the cache is closed")]
    Closed,
    /// The store failed.
    #[error(transparent)]
    Store(store::Error),
}

/// A precondition that did not hold.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// The current object.
    pub found: Option<Arc<Entry>>,
}

impl std::error::Error for Conflict {}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.found {
            Some(entry) => {
                write!(f, "the object has changed: it exists at revision {}", entry.mod_revision())
            }
            None => f.write_str("the object does not exist"),
        }
    }
}

/// Why something cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// Namespace and name do not make a key of the type.
    #[error("{namespace:?} and {name:?} are not the namespace and name of such an object")]
    Name {
        /// The namespace given.
        namespace: String,
        /// The name given.
        name: String,
    },
    /// The key is not one for the store.
    #[error(transparent)]
    Key(#[from] InvalidKey),
    /// The bytes are not the JSON of an object.
    #[error("it is not an object: {0}")]
    Json(String),
    /// `metadata.namespace` and `metadata.name` differ from the key.
    #[error("it calls itself {0:?}")]
    Named(String),
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Closed => Self::Closed,
            store::Error::Corrupt(corrupt) => Self::Corrupt(Arc::new(corrupt)),
            store::Error::Unavailable(unavailable) => Self::Unavailable(unavailable),
            other => Self::Store(other),
        }
    }
}

impl From<Unreadable> for Error {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::Corrupt(corrupt) => Self::Corrupt(corrupt),
            Unreadable::Unavailable(unavailable) => Self::Unavailable(unavailable),
        }
    }
}

impl Error {
    /// Whether a write that failed with this error may have been committed nevertheless.
    pub fn is_fate_unknown(&self) -> bool {
        use store::Error::{Full, Io};
        matches!(self, Self::Store(Full { fate: Fate::Unknown, .. } | Io { fate: Fate::Unknown, .. }))
    }
}

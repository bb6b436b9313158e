//! Damaged objects, and the errors for them, with the messages of the reference.
//!
//! The stored bytes of a damaged object fail their checksum, or are whole and do not decode as its type. A
//! get, a patch and a plain delete of the object fail with 500 `InternalError`, a list that would contain it
//! with 500 `StorageReadError`; both messages name the object.
//!
//! An object whose bytes cannot be decrypted at present is another case: everything that needs it is 503, and
//! it is not replaced.

use crate::Served;
use cache::Entry;
use schema::Status;
use schema::status::{Cause, Details, Reason};
use std::fmt;
use std::sync::Arc;
use store::{Corrupt, Revision};

/// The most objects that the error of a list names.
const MOST_NAMED: usize = 100;

/// A damaged object.
#[derive(Debug)]
pub(crate) struct Damaged {
    /// The revision of the damaged state.
    pub(crate) revision: Revision,
    why: String,
}

impl Damaged {
    /// The bytes of an object do not decode as its type.
    pub(crate) fn undecodable(entry: &Entry, why: &schema::Error) -> Self {
        let revision = entry.mod_revision();
        Self { revision, why: format!("object not decodable revision={revision}: {why}") }
    }

    /// 500 for the object with a key.
    pub(crate) fn status(&self, key: &str) -> Status {
        Status::internal_error(&self.storage_error(key))
    }

    fn storage_error(&self, key: &str) -> String {
        format!(
            "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {self}"
        )
    }
}

impl From<&Corrupt> for Damaged {
    fn from(corrupt: &Corrupt) -> Self {
        let why = format!(
            "data from the storage is not transformable revision=0: {corrupt}; \
             creating it again or replacing it as a whole repairs that"
        );
        Self { revision: corrupt.revision, why }
    }
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// Whether a status says that an object is damaged.
pub fn is_damaged(status: &Status) -> bool {
    match status.reason {
        Reason::StorageReadError => true,
        Reason::InternalError => status.message.contains("StorageError: corrupt object"),
        _ => false,
    }
}

/// The damaged objects of a list.
#[derive(Default)]
pub struct DamagedObjects {
    /// The objects with their keys, relative to the resource type; at most one more than the error names.
    found: Vec<(String, Damaged)>,
}

impl DamagedObjects {
    /// Those that the cache could not take in.
    pub(crate) fn of_cache(served: &Served, damaged: &[Arc<Corrupt>]) -> Self {
        let prefix = served.stored.as_ref().map_or("", |stored| stored.resource.spec().prefix());
        let mut all = Self::default();
        for corrupt in damaged {
            log::error!(error:% = corrupt; "an object is damaged");
            let key = corrupt.key.to_string();
            let within = key.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/'));
            all.push(within.unwrap_or(&key), (&**corrupt).into());
        }
        all
    }

    /// Adds an object if its bytes do not decode. The entry keeps the result of the check.
    pub fn check(&mut self, served: &Served, entry: &Entry) {
        if let Some(stored) = &served.stored
            && !entry.is_known_to_decode()
            && let Err(damaged) = stored.decode_as_stored(entry)
        {
            self.push(entry.key(), damaged);
        }
    }

    fn push(&mut self, within: &str, damaged: Damaged) {
        if self.found.len() <= MOST_NAMED {
            self.found.push((within.to_owned(), damaged));
        }
    }

    /// 500 for a list with these objects; `Ok` if there are none.
    pub fn refuse(&self, served: &Served) -> Result<(), Status> {
        if self.found.is_empty() {
            return Ok(());
        }
        let mut causes = Vec::new();
        for (within, damaged) in self.found.iter().take(MOST_NAMED) {
            let key = format!("/registry/{}/{within}", served.key_prefix);
            let message = damaged.storage_error(&key);
            causes.push(Cause { reason: "UnexpectedServerResponse".into(), message, field: key });
        }
        if self.found.len() > MOST_NAMED {
            let message = "too many errors, the list is truncated".into();
            causes.push(Cause { reason: "FieldValueTooMany".into(), message, field: String::new() });
        }
        let separator = if served.group.is_empty() { "" } else { "." };
        Err(Status {
            code: 500,
            reason: Reason::StorageReadError,
            message: format!(
                "failed to read one or more {}{separator}{} from the storage",
                served.resource, served.group
            ),
            details: Some(Details { causes, ..Details::of(&served.group, &served.resource, "list") }.into()),
            token: String::new(),
        })
    }
}

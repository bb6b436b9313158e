//! Where the objects of a kind are, and the versions that their bytes can be in.
//!
//! The version of stored bytes is a fact of each object: they begin with their kind and version. Objects that were written while
//! another version was the storage version are read by the version they name, and converted. They are written anew in the
//! storage version when they change.

use crate::catalog::head;
use crate::convert::{Conversion, set_kind};
use crate::unreadable::Unreadable;
use bytes::Bytes;
use cache::{Entry, Resource};
use object::{Text, Value};
use schema::{Limits, Ref, Status, Type, json};
use std::sync::Arc;

/// The objects of a kind, seen from one of its versions.
pub struct Stored {
    /// The objects.
    pub resource: Arc<Resource>,
    /// Every version that their bytes can be in.
    pub versions: Arc<StoredVersions>,
    /// Whether this version is the storage version.
    pub is_storage_version: bool,
    /// The way between this version and the storage version.
    pub conversion: Conversion,
}

/// Every version that the bytes of a kind's objects can be in.
pub struct StoredVersions {
    /// The version that new states are written in.
    pub storage: StoredVersion,
    /// The other versions.
    pub others: Vec<StoredVersion>,
}

/// One version that bytes can be in.
pub struct StoredVersion {
    /// The kind.
    pub kind: Text,
    /// `apps/v1`.
    pub api_version: Text,
    /// The type.
    pub ty: Ref<Type>,
    /// The way between this version and the storage version.
    pub conversion: Conversion,
    head: Box<[u8]>,
}

impl StoredVersion {
    /// A version with its type, and the way between it and the storage version.
    pub fn new(kind: &Text, api_version: &Text, ty: Ref<Type>, conversion: Conversion) -> Self {
        let head = head(kind, api_version);
        Self { kind: kind.clone(), api_version: api_version.clone(), ty, conversion, head }
    }

    /// Whether bytes are in this version.
    fn wrote(&self, bytes: &[u8]) -> bool {
        // What follows is the next field, or the end: a version is not taken for one that it only begins with.
        bytes.strip_prefix(&*self.head).is_some_and(|rest| matches!(rest.first(), Some(b',' | b'}')))
    }
}

impl Stored {
    /// The type of objects in the storage version.
    pub fn ty(&self) -> &Ref<Type> {
        &self.versions.storage.ty
    }

    /// Whether the bytes of an object are in the storage version.
    pub fn is_in_storage_version(&self, entry: &Entry) -> bool {
        self.versions.storage.wrote(entry.bytes())
    }

    /// The tree of a stored object, in the storage version.
    pub async fn decode(&self, entry: &Entry) -> Result<Value, Status> {
        self.to_storage_version(entry, self.decode_or_refuse(entry)?).await
    }

    /// The tree of a stored object, in the version of its bytes.
    pub(crate) fn decode_as_stored(&self, entry: &Entry) -> Result<Value, Unreadable> {
        let ty = self.old_version(entry).map_or(self.ty(), |version| &version.ty);
        let decoded = json::decode(ty, entry.bytes(), &Limits::STORED);
        match decoded {
            Ok(decoded) => {
                entry.note_that_it_decodes();
                Ok(decoded.value)
            }
            Err(error) => {
                log::error!(key = entry.key(), error:%; "a stored object cannot be decoded");
                Err(Unreadable::undecodable(entry, &error))
            }
        }
    }

    /// Converts the tree of a stored object from the version of its bytes to the storage version.
    pub(crate) async fn to_storage_version(&self, entry: &Entry, object: Value) -> Result<Value, Status> {
        let Some(version) = self.old_version(entry) else { return Ok(object) };
        let storage = &self.versions.storage;
        let mut object = version.conversion.to_storage(object, &storage.api_version).await?;
        set_kind(&mut object, &storage.kind, &storage.api_version);
        Ok(object)
    }

    /// The same for an object that needs no conversion that waits; otherwise as it is stored.
    pub fn decode_now(&self, entry: &Entry) -> Result<Value, Status> {
        let mut object = self.decode_or_refuse(entry)?;
        let Some(version) = self.old_version(entry) else { return Ok(object) };
        if let Conversion::Builtin(conversion) = &version.conversion {
            (conversion.to_stored)(&mut object);
        }
        set_kind(&mut object, &self.versions.storage.kind, &self.versions.storage.api_version);
        Ok(object)
    }

    fn decode_or_refuse(&self, entry: &Entry) -> Result<Value, Status> {
        let key = || format!("/{}/{}", self.resource.spec().prefix(), entry.key());
        self.decode_as_stored(entry).map_err(|unreadable| unreadable.status(&key()))
    }

    /// The version of bytes that are not in the storage version.
    fn old_version(&self, entry: &Entry) -> Option<&StoredVersion> {
        if self.is_in_storage_version(entry) {
            return None;
        }
        self.versions.others.iter().find(|version| version.wrote(entry.bytes()))
    }

    /// The canonical bytes of a tree in the storage version.
    pub(crate) fn encode(&self, object: &Value) -> Bytes {
        let mut out = Vec::with_capacity(1024);
        json::encode(&self.versions.storage.ty, object, &mut out);
        out.into()
    }
}

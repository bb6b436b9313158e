//! Between the version of a request and the storage version.

use crate::Served;
use object::{Map, Value};
use schema::Status;

/// The way between a version and the storage version. `apiVersion` and `kind` are set by the caller.
#[derive(Clone, Copy)]
pub enum Conversion {
    /// Nothing but `apiVersion` differs.
    None,
    /// The functions of a built-in kind.
    Builtin(&'static kinds::Conversion),
}

impl Conversion {
    /// Of a version of a built-in kind.
    pub(crate) fn of(version: &kinds::Version) -> Self {
        version.conversion.map_or(Self::None, Self::Builtin)
    }

    /// Makes a tree of this version one of the storage version.
    pub(crate) fn to_storage(self, value: &mut Value) -> Result<(), Status> {
        match self {
            Self::None => {}
            Self::Builtin(conversion) => (conversion.to_stored)(value),
        }
        Ok(())
    }

    /// Makes a tree of the storage version one of this version.
    pub(crate) fn from_storage(self, value: &mut Value) -> Result<(), Status> {
        match self {
            Self::None => {}
            Self::Builtin(conversion) => (conversion.from_stored)(value),
        }
        Ok(())
    }
}

impl Served {
    /// Makes a tree of this version one of the storage version.
    pub fn to_storage(&self, value: &mut Value) -> Result<(), Status> {
        let Some(stored) = &self.stored else { return Ok(()) };
        stored.conversion.to_storage(value)?;
        set_kind(value, &stored.versions.storage.kind, &stored.versions.storage.api_version);
        Ok(())
    }

    /// Makes a tree of the storage version one of this version.
    pub fn from_storage(&self, value: &mut Value) -> Result<(), Status> {
        if let Some(stored) = &self.stored {
            stored.conversion.from_storage(value)?;
        }
        set_kind(value, &self.kind, &self.api_version);
        Ok(())
    }
}

pub(crate) fn set_kind(value: &mut Value, kind: &object::Text, api_version: &object::Text) {
    if let Some(map) = value.as_map_mut() {
        map.insert("kind", kind.clone());
        map.insert("apiVersion", api_version.clone());
    }
}

/// The map of an object, or the refusal of what is none.
pub(crate) fn map_mut(object: &mut Value) -> Result<&mut Map, Status> {
    object.as_map_mut().ok_or_else(|| Status::bad_request("the object is not a map"))
}

/// The map of an object.
pub(crate) fn map(object: &Value) -> Result<&Map, Status> {
    object.as_map().ok_or_else(|| Status::bad_request("the object is not a map"))
}

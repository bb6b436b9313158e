//! Between the version of a request and the one that is kept, and between trees and bytes.

use crate::{Served, Stored};
use bytes::Bytes;
use cache::Entry;
use object::{Map, Value};
use schema::{Limits, Status, json};

impl Served {
    /// Makes a tree of this version one of the version that is kept.
    pub fn to_stored(&self, value: &mut Value) {
        let Some(stored) = &self.stored else { return };
        if let Some(conversion) = self.version.conversion {
            (conversion.to_stored)(value);
        }
        name_kind(value, stored.kind.kind, crate::api_version(stored.kind.group, stored.version.name));
    }

    /// Makes a tree of the version that is kept one of this version.
    pub fn from_stored(&self, value: &mut Value) {
        if let Some(conversion) = self.version.conversion {
            (conversion.from_stored)(value);
        }
        name_kind(value, self.kind.kind, self.api_version());
    }
}

fn name_kind(value: &mut Value, kind: &'static str, api_version: String) {
    if let Some(map) = value.as_map_mut() {
        map.insert("kind", kind);
        map.insert("apiVersion", api_version);
    }
}

impl Stored {
    /// The tree of a stored object.
    pub fn decode(&self, entry: &Entry) -> Result<Value, Status> {
        let decoded = json::decode(self.ty, entry.bytes(), &Limits::STORED).map_err(|error| {
            log::error!(key = entry.key(), error:%; "a stored object cannot be decoded");
            Status::internal_error(&format!("unable to decode {}: {error}", entry.key()))
        })?;
        Ok(decoded.value)
    }

    /// The canonical bytes of a tree.
    pub(crate) fn encode(&self, object: &Value) -> Bytes {
        let mut out = Vec::with_capacity(1024);
        json::encode(self.ty, object, &mut out);
        out.into()
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

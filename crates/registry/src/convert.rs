//! Between the version of a request and the storage version.
//!
//! The conversions of built-in kinds are functions. Those of a custom kind may wait for an answer from outside and may fail, and
//! are best asked for many objects at once ([`Convert`]). Writes wait for them where they need them; reads convert what they are
//! about to send ([`Served::read`]).

use crate::Served;
use auth::BoxFuture;
use cache::Entry;
use object::{Map, Value};
use schema::Status;
use std::sync::Arc;

/// Converts the objects of a custom kind.
pub trait Convert: Send + Sync {
    /// The same objects in another version, in the same order. Each names the version that it is in.
    fn convert<'a>(
        &'a self,
        objects: Vec<Value>,
        api_version: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>>;
}

/// The way between a version and the storage version.
#[derive(Clone)]
pub enum Conversion {
    /// Nothing but `apiVersion` differs.
    None,
    /// The functions of a built-in kind. They leave `apiVersion` and `kind` to the caller.
    Builtin(&'static kinds::Conversion),
    /// A conversion that may wait and fail.
    Custom(Arc<dyn Convert>),
}

impl Conversion {
    /// Of a version of a built-in kind.
    pub(crate) fn of(version: &kinds::Version) -> Self {
        version.conversion.map_or(Self::None, Self::Builtin)
    }

    /// Converts a tree of this version to the storage version, whose name is `api_version`.
    pub(crate) async fn to_storage(&self, mut value: Value, api_version: &str) -> Result<Value, Status> {
        match self {
            Self::None => {}
            Self::Builtin(conversion) => (conversion.to_stored)(&mut value),
            Self::Custom(convert) => value = one(convert.convert(vec![value], api_version).await?)?,
        }
        Ok(value)
    }
}

fn one(objects: Vec<Value>) -> Result<Value, Status> {
    objects.into_iter().next().ok_or_else(|| Status::internal_error("a conversion returned no object"))
}

impl Served {
    /// Converts a tree of this version to the storage version.
    pub async fn to_storage(&self, value: Value) -> Result<Value, Status> {
        let Some(stored) = &self.stored else { return Ok(value) };
        let storage = &stored.versions.storage;
        let mut value = stored.conversion.to_storage(value, &storage.api_version).await?;
        set_kind(&mut value, &storage.kind, &storage.api_version);
        Ok(value)
    }

    /// The same for a conversion that does not wait; one that does is left out.
    pub(crate) fn to_storage_now(&self, value: &mut Value) {
        let Some(stored) = &self.stored else { return };
        if let Conversion::Builtin(conversion) = &stored.conversion {
            (conversion.to_stored)(value);
        }
        set_kind(value, &stored.versions.storage.kind, &stored.versions.storage.api_version);
    }

    /// Converts a tree of the storage version to this version.
    pub async fn from_storage(&self, mut value: Value) -> Result<Value, Status> {
        if let Some(stored) = &self.stored
            && let Conversion::Custom(convert) = &stored.conversion
        {
            value = one(convert.convert(vec![value], &self.api_version).await?)?;
        }
        self.from_storage_now(&mut value);
        Ok(value)
    }

    /// The same for a conversion that does not wait; one that does is left out.
    pub fn from_storage_now(&self, value: &mut Value) {
        if let Some(stored) = &self.stored
            && let Conversion::Builtin(conversion) = &stored.conversion
        {
            (conversion.from_stored)(value);
        }
        set_kind(value, &self.kind, &self.api_version);
    }

    /// Whether reading an object may take a conversion that waits: [`Served::read`] has to be asked then.
    pub fn read_waits(&self) -> bool {
        let is_custom = |conversion: &Conversion| matches!(conversion, Conversion::Custom(_));
        self.stored.as_ref().is_some_and(|stored| {
            is_custom(&stored.conversion)
                || stored.versions.others.iter().any(|version| is_custom(&version.conversion))
        })
    }

    /// Stored objects in this version.
    pub async fn read(&self, entries: &[Arc<Entry>]) -> Result<Vec<Value>, Status> {
        let stored = self.stored.as_ref().ok_or_else(Status::method_not_allowed)?;
        let mut objects = Vec::with_capacity(entries.len());
        for entry in entries {
            objects.push(stored.decode(entry).await?);
        }
        if let Conversion::Custom(convert) = &stored.conversion {
            let count = objects.len();
            objects = convert.convert(objects, &self.api_version).await?;
            if objects.len() != count {
                return Err(Status::internal_error("a conversion returned another number of objects"));
            }
        }
        objects.iter_mut().for_each(|object| self.from_storage_now(object));
        Ok(objects)
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

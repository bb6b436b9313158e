//! Conversion of objects between the versions of a kind.
//!
//! The conversions of built-in kinds are functions. That of a custom kind may call a webhook and may fail,
//! and takes many objects in one call ([`Convert`]). Writes wait for it where they need it; reads convert the
//! objects that they are about to send ([`Served::read`]).

use crate::{Served, Stored};
use cache::Entry;
use object::{Map, Value};
use schema::Status;
use std::sync::Arc;
use tasks::BoxFuture;

/// Converts the objects of a custom kind.
pub trait Convert: Send + Sync {
    /// Converts objects to `api_version`, in the same order. Each object names its current version.
    fn convert<'a>(
        &'a self,
        objects: Vec<Value>,
        api_version: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Value>, ConvertError>>;
}

/// Why objects were not converted, with the status for the client.
#[derive(Clone, Debug)]
pub enum ConvertError {
    /// The webhook did not answer.
    Unreachable(Status),
    /// The webhook refused, or its answer is wrong.
    Failed(Status),
}

impl From<ConvertError> for Status {
    fn from(error: ConvertError) -> Self {
        match error {
            ConvertError::Unreachable(status) | ConvertError::Failed(status) => status,
        }
    }
}

impl From<Status> for ConvertError {
    fn from(status: Status) -> Self {
        Self::Failed(status)
    }
}

/// The conversion between a version and the working version.
#[derive(Clone)]
pub enum Conversion {
    /// Nothing but `apiVersion` differs.
    None,
    /// The functions of a built-in kind. They leave `apiVersion` and `kind` to the caller.
    Builtin(&'static kinds::BuiltinConversion),
    /// The conversion of a custom kind: it may call a webhook, and may fail.
    Custom(Arc<dyn Convert>),
}

impl Conversion {
    /// The conversion of a version of a built-in kind.
    pub(crate) fn of(version: &kinds::Version) -> Self {
        version.conversion.map_or(Self::None, Self::Builtin)
    }

    /// Whether the conversion may call a webhook, and has to be awaited.
    pub(crate) fn waits(&self) -> bool {
        matches!(self, Self::Custom(_))
    }

    /// Converts trees of this version to the working version, whose name is `api_version`.
    pub(crate) async fn to_working(
        &self,
        mut objects: Vec<Value>,
        api_version: &str,
    ) -> Result<Vec<Value>, ConvertError> {
        match self {
            Self::Custom(convert) => converted(&**convert, objects, api_version).await,
            now => {
                objects.iter_mut().for_each(|object| now.to_working_now(object));
                Ok(objects)
            }
        }
    }

    /// Converts a tree of the working version to this version, whose name is `api_version`.
    pub(crate) async fn out_of_working(&self, mut object: Value, api_version: &str) -> Result<Value, Status> {
        match self {
            Self::Custom(convert) => one(converted(&**convert, vec![object], api_version).await?),
            now => {
                now.out_of_working_now(&mut object);
                Ok(object)
            }
        }
    }

    /// Converts a tree to the working version, unless that needs a webhook.
    pub(crate) fn to_working_now(&self, object: &mut Value) {
        if let Self::Builtin(conversion) = self {
            (conversion.to_stored)(object);
        }
    }

    /// Converts a tree from the working version, unless that needs a webhook.
    fn out_of_working_now(&self, object: &mut Value) {
        if let Self::Builtin(conversion) = self {
            (conversion.from_stored)(object);
        }
    }
}

async fn converted(
    convert: &dyn Convert,
    objects: Vec<Value>,
    api_version: &str,
) -> Result<Vec<Value>, ConvertError> {
    let count = objects.len();
    if count == 0 {
        return Ok(objects);
    }
    let objects = convert.convert(objects, api_version).await?;
    match objects.len() == count {
        true => Ok(objects),
        false => Err(Status::internal_error("a conversion returned another number of objects").into()),
    }
}

pub(crate) fn one(objects: Vec<Value>) -> Result<Value, Status> {
    objects.into_iter().next().ok_or_else(|| Status::internal_error("a conversion returned no object"))
}

impl Served {
    /// Converts a tree of this version to the working version.
    pub async fn to_working(&self, value: Value) -> Result<Value, Status> {
        let Some(stored) = &self.stored else { return Ok(value) };
        // A body of a custom kind keeps its own `kind`: validation refuses a wrong one.
        if stored.is_working_version && self.is_custom() {
            return Ok(value);
        }
        let working = &stored.versions.working;
        let mut value = one(stored.conversion.to_working(vec![value], &working.api_version).await?)?;
        set_kind(&mut value, &working.kind, &working.api_version);
        Ok(value)
    }

    /// Converts a tree of the working version to this version.
    pub async fn out_of_working(&self, mut value: Value) -> Result<Value, Status> {
        if let Some(stored) = &self.stored {
            value = stored.conversion.out_of_working(value, &self.api_version).await?;
        }
        set_kind(&mut value, &self.kind, &self.api_version);
        Ok(value)
    }

    /// [`Self::out_of_working`] without waiting: a conversion that needs a webhook is left out.
    pub fn out_of_working_now(&self, value: &mut Value) {
        if let Some(stored) = &self.stored {
            stored.conversion.out_of_working_now(value);
        }
        set_kind(value, &self.kind, &self.api_version);
    }

    /// Converts a tree of another version of the same kind to this version.
    pub(crate) async fn import(&self, from: &Self, object: Value) -> Result<Value, Status> {
        self.out_of_working_of(from, from.to_working(object).await?).await
    }

    /// Converts a tree in the working version of requests for `other` to this version.
    pub(crate) async fn out_of_working_of(&self, other: &Self, mut object: Value) -> Result<Value, Status> {
        if let Some((stored, working)) = self.other_working_version(other) {
            object = stored.import_from(working, object).await?;
        }
        self.out_of_working(object).await
    }

    /// [`Self::import`] without waiting; `None` if the conversion needs a webhook.
    pub(crate) fn import_now(&self, from: &Self, object: &Value) -> Option<Value> {
        let mut object = object.clone();
        let (own, theirs) = (&self.stored.as_ref()?.conversion, &from.stored.as_ref()?.conversion);
        if own.waits() || theirs.waits() {
            return None;
        }
        theirs.to_working_now(&mut object);
        if let Some((stored, working)) = self.other_working_version(from) {
            object = stored.import_from_now(working, object)?;
        }
        self.out_of_working_now(&mut object);
        Some(object)
    }

    /// The working version of requests for `other`, if that is not the working version of requests for this
    /// version.
    fn other_working_version<'a>(&'a self, other: &'a Self) -> Option<(&'a Stored, &'a str)> {
        let (own, theirs) = (self.stored.as_ref()?, other.stored.as_ref()?);
        let working = &theirs.versions.working.api_version;
        (own.versions.working.api_version != *working).then_some((own, working.as_str()))
    }

    /// Whether reading an object may need a conversion webhook: [`Served::read`] is to be used then.
    pub fn read_waits(&self) -> bool {
        self.stored
            .as_ref()
            .is_some_and(|stored| stored.versions.others.iter().any(|version| version.conversion.waits()))
    }

    /// Stored objects in this version.
    pub async fn read(&self, entries: &[Arc<Entry>]) -> Result<Vec<Value>, Status> {
        let stored = self.stored.as_ref().ok_or_else(Status::method_not_allowed)?;
        let mut objects = stored.decode_all(entries).await?;
        objects.iter_mut().for_each(|object| self.out_of_working_now(object));
        Ok(objects)
    }
}

pub(crate) fn set_kind(value: &mut Value, kind: &object::Text, api_version: &object::Text) {
    if let Some(map) = value.as_map_mut() {
        map.insert("kind", kind.clone());
        map.insert("apiVersion", api_version.clone());
    }
}

/// The map of an object; 400 for any other value.
pub(crate) fn map_mut(object: &mut Value) -> Result<&mut Map, Status> {
    object.as_map_mut().ok_or_else(|| Status::bad_request("the object is not a map"))
}

/// The map of an object; 400 for any other value.
pub(crate) fn map(object: &Value) -> Result<&Map, Status> {
    object.as_map().ok_or_else(|| Status::bad_request("the object is not a map"))
}

//! Managed fields, which record the owners of an object's fields, and server-side apply, which is based on
//! them.
//!
//! A [`Ownership`] is made for one kind of request: a type, its version, a subresource. [`Ownership::update`]
//! updates the owners after any other write; [`Ownership::apply`] merges a configuration into an object. Both
//! are pure: the time, and how objects are converted to other versions, are given.
//!
//! The type says which values are atomic and which granular ([`schema::Topology`]). Sets of paths are those
//! of [`object::path_set`].
//!
//! 1. The same code walks both forms of a value: the tree of a type, which omits empty fields, and plain
//!    JSON. See the module `place`.
//! 2. An entry that a write does not touch is not parsed, and is written as it was.
//! 3. Recursion is as deep as the object and the sets, whose depth their decoders bound.
//!
//! Left to others: defaults of the applied object, names and resource versions, and validation.

mod apply;
mod check;
mod compare;
mod conflict;
mod entries;
mod fields;
mod last_applied;
mod merged;
mod place;
mod scale;
mod times;
mod update;

pub use conflict::{Conflict, Conflicts};
pub use entries::check_entries;
pub use scale::Scale;
pub use times::keep_times;

pub(crate) use apply::decode;
use place::Form;
pub(crate) use place::{ListType, Place, Seen};

use crate::node::shape_of;
use apply::Applied;
use check::Duplicates;
use compare::Comparison;
use entries::Reading;
use object::path::Path;
use object::path_set::Set;
use object::{Map, Text, Value};
use schema::{Ref, Type};

/// An object and its type.
#[derive(Clone, Debug)]
pub struct Typed {
    /// The type.
    pub ty: Ref<Type>,
    /// The tree.
    pub value: Value,
}

/// The versions of the objects of a request.
pub trait Versions: Sync {
    /// The type of an object in a version, such as `apps/v1`; `None` if there is no such version.
    fn ty(&self, version: &str) -> Option<Ref<Type>>;

    /// An object in another version. `None` if there is no such version, or if the conversion has to be
    /// waited for: the caller then repeats the whole update with the converted object.
    fn convert(&self, object: Value, from: &str, to: &str) -> Option<Typed>;

    /// The fields of a version, with everything below them, that this request cannot own.
    fn unowned(&self, version: &str) -> Option<&Set>;
}

/// The manager that writes, and the time.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The name of the manager.
    pub name: &'a str,
    /// The time of the request, RFC 3339 in UTC with seconds.
    pub now: &'a Text,
    /// Lists that were sent as `[]`, which a tree cannot distinguish from null.
    pub empty: &'a [Path],
}

/// Whether an apply takes over fields that other managers own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Force {
    /// The fields are taken over.
    Yes,
    /// The fields are conflicts.
    #[default]
    No,
}

/// Why a configuration could not be applied.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The request is malformed: 400.
    #[error("{0}")]
    BadRequest(String),
    /// Other managers own some of the fields: 409.
    #[error("{0}")]
    Conflict(Conflicts),
    /// The configuration cannot be merged. The reference answers with status 500 and no reason.
    #[error("{0}")]
    Failed(String),
}

/// Keeps the managed fields of one kind of request.
///
/// ```
/// use merge::managed::{Force, Ownership, Typed, Versions, Writer};
/// use object::{Text, Value, path_set::Set};
/// use schema::{Limits, Ref, Shape, Type, builtin, json};
///
/// /// Config maps have one version, and all of their fields can be owned.
/// struct ConfigMaps(Ref<Type>);
/// impl Versions for ConfigMaps {
///     fn ty(&self, version: &str) -> Option<Ref<Type>> {
///         (version == "v1").then(|| self.0.clone())
///     }
///     fn convert(&self, object: Value, _from: &str, to: &str) -> Option<Typed> {
///         Some(Typed { ty: self.ty(to)?, value: object })
///     }
///     fn unowned(&self, _version: &str) -> Option<&Set> {
///         None
///     }
/// }
///
/// let ty = Ref::Static(builtin::by_kind("", "v1", "ConfigMap").unwrap());
/// let versions = ConfigMaps(ty.clone());
/// let ownership = Ownership { ty: &ty, api_version: "v1", subresource: "", versions: &versions };
/// let now = Text::known("2026-01-01T00:00:00Z");
/// let writer = |name| Writer { name, now: &now, empty: &[] };
/// let config = |text: &str| json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::default()).unwrap().value;
///
/// let one = config(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1"}}"#);
/// let live = ownership.apply(None, &one, writer("one"), Force::No).unwrap();
/// let two = config(r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"x":"2"}}"#);
/// let refused = ownership.apply(Some(&live), &two, writer("two"), Force::No).unwrap_err();
/// assert_eq!(refused.to_string(), r#"Apply failed with 1 conflict: conflict with "one": .data.x"#);
/// ```
pub struct Ownership<'a> {
    /// The type of the objects, in the version of the request.
    pub ty: &'a Ref<Type>,
    /// That version: `v1`, `apps/v1`.
    pub api_version: &'a str,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The other versions.
    pub versions: &'a dyn Versions,
}

/// The manager that owns the fields from before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

impl Ownership<'_> {
    /// Updates the owners after `writer` has changed `live` to `new`. All are in the version of the request;
    /// a created object has no `live`.
    ///
    /// Managed fields that a client has sent in `new` replace the previous ones, except through a
    /// subresource; a single empty entry, or an empty list, resets them. If there is nothing to record, the
    /// object has no managed fields.
    pub fn update(&self, live: Option<&Value>, new: &mut Value, writer: Writer<'_>) {
        // Decoding the metadata of a custom object drops empty lists.
        let empty = if self.ty.custom.is_some() { &[] } else { writer.empty };
        let writer = Writer { empty, ..writer };
        let sent = entries::take(new);
        let known = live.and_then(entries::of).unwrap_or_default();
        let mut owners = match sent.as_ref().and_then(Value::as_list).filter(|_| self.subresource.is_empty())
        {
            None if self.subresource.is_empty() && writer.empty.iter().any(entries::is_place) => {
                entries::Owners::new()
            }
            Some(sent) if entries::is_reset(sent) => entries::Owners::new(),
            Some(sent) if sent != known => match entries::read(sent, Reading::Whole) {
                Ok(owners) if !owners.is_empty() => owners,
                _ => entries::read(known, Reading::Lazy).unwrap_or_default(),
            },
            _ => entries::read(known, Reading::Lazy).unwrap_or_default(),
        };
        // After a reset nothing is recorded until the next apply.
        let is_made = live.is_none_or(|live| text(live, "uid").is_empty());
        if owners.is_empty() && !is_made {
            return;
        }
        if self.note(&without_entries(live), new, &mut owners, writer).is_ok() {
            entries::put(new, entries::write(owners));
        }
    }

    /// Applies a configuration to an object, or creates an object from it. Everything is in the version of
    /// the request, the configuration as plain JSON; the resulting object has no defaults yet.
    pub fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        writer: Writer<'_>,
        force: Force,
    ) -> Result<Value, Error> {
        let known = live.and_then(entries::of).unwrap_or_default();
        let mut owners = entries::read(known, Reading::Lazy)
            .map_err(|why| Error::Failed(format!("failed to decode managed fields: {why}")))?;
        self.check_kind(config)?;
        let live = without_entries(live);
        if owners.is_empty() {
            let before = Writer { name: BEFORE_FIRST_APPLY, empty: &[], ..writer };
            self.note(&self.empty(), &live, &mut owners, before).map_err(|why| {
                Error::Failed(format!("failed to create manager for existing fields: {why}"))
            })?;
        }
        let mut outcome = self.merge(&live, config, owners.clone(), writer, force);
        if writer.name == last_applied::KUBECTL
            && let Err(Error::Conflict(conflicts)) = &outcome
            && let Some(left) = self.beyond_last_applied(&live, conflicts)
        {
            outcome = match left.is_empty() {
                true => self.merge(&live, config, owners, writer, Force::Yes),
                false => Err(Error::Conflict(Conflicts::new(left))),
            };
        }
        let Applied { object, owners } = outcome?;
        let mut object = object.unwrap_or(live);
        if writer.name == last_applied::KUBECTL {
            last_applied::renew(&mut object, config);
        }
        entries::put(&mut object, entries::write(owners));
        Ok(object)
    }

    /// Refuses a configuration of another type or version.
    fn check_kind(&self, config: &Value) -> Result<(), Error> {
        let part = |key: &str| config.get(key).and_then(Value::as_str).unwrap_or_default();
        let own = self.ty.kind.as_ref().map(|kind| kind.kind.as_str()).unwrap_or_default();
        if part("apiVersion") == self.api_version && part("kind") == own {
            return Ok(());
        }
        let (group, version) = group_and_version(part("apiVersion"));
        Err(Error::BadRequest(format!("invalid object type: {group}/{version}, Kind={}", part("kind"))))
    }

    /// The object of the type in which nothing is set.
    fn empty(&self) -> Value {
        let mut empty = Map::new();
        if let Some(kind) = &self.ty.kind {
            empty.insert("kind", kind.kind.clone());
            empty.insert("apiVersion", self.api_version);
        }
        empty.into()
    }

    /// The differences in fields that can be owned.
    fn filtered(&self, version: &str, comparison: Comparison) -> Comparison {
        match self.versions.unowned(version) {
            Some(resets) => comparison.without(resets),
            None => comparison,
        }
    }

    /// An object as messages name it: `default/a; apps/v1, Kind=Deployment`.
    fn shown(&self, object: &Value) -> String {
        let kind = self.ty.kind.as_ref().map(|kind| kind.kind.as_str()).unwrap_or_default();
        let (group, version) = group_and_version(self.api_version);
        let (namespace, name) = (text(object, "namespace"), text(object, "name"));
        format!("{namespace}/{name}; {group}/{version}, Kind={kind}")
    }
}

/// Checks that a configuration can be an object of a type.
pub(crate) fn check_configuration(ty: &Ref<Type>, configuration: &Value) -> Result<(), String> {
    let (shape, form) = (shape_of(ty), Form::Plain);
    check::check(Place::of(&shape), configuration, form, Duplicates::Refused)
        .map_err(|faults| faults.to_string())
}

/// Checks that the items of the lists of an object can be told apart.
pub(crate) fn check_object(ty: &Ref<Type>, object: &Value) -> Result<(), String> {
    check::check_typed(ty, object, Duplicates::Refused).map_err(|faults| faults.to_string())
}

/// An object with a configuration merged into it, both with the same managed fields. The result is plain
/// JSON.
pub(crate) fn merge_configuration(
    ty: &Ref<Type>,
    object: &Value,
    configuration: &Value,
) -> Result<Value, String> {
    let live = place::plain(ty, object);
    merged::merged(Place::of(&shape_of(ty)), &live, configuration).map_err(|why| why.to_string())
}

/// An object without its managed fields; an empty one for none.
fn without_entries(object: Option<&Value>) -> Value {
    let mut object = object.cloned().unwrap_or_else(|| Map::new().into());
    entries::take(&mut object);
    object
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    let value = object.get("metadata").and_then(|metadata| metadata.get(key));
    value.and_then(Value::as_str).unwrap_or_default()
}

fn group_and_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

//! Server-side apply: a configuration is merged into an object, fields that its manager applied before and no
//! longer applies are removed, and fields of other owners are conflicts unless the request is forced.

use super::check::{Duplicates, check, check_typed};
use super::compare::compare;
use super::conflict::{Conflict, Conflicts};
use super::entries::{Id, Operation, Owned, Owners};
use super::fields::{fields, with_named_fields};
use super::merged::{merged, without};
use super::place::{Form, Place, plain};
use super::update::{Comparisons, STRIPPED};
use super::{Error, Force, Ownership, Typed, Writer, group_and_version};
use crate::node::{UNBOUNDED, shape_of};
use object::path_set::Set;
use object::{Map, Text, Value};
use schema::{Limits, Ref, Shape, Type, json};
use std::collections::BTreeMap;

/// The first float after which not every integer is representable.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// An object as plain JSON, and its type.
struct Plain {
    shape: Shape,
    value: Value,
}

impl Plain {
    fn place(&self) -> Place<'_> {
        Place::of(&self.shape)
    }

    fn fields(&self) -> Set {
        with_named_fields(&fields(self.place(), &self.value, Form::Plain), Some(self.place()))
    }

    fn without(&self, paths: &Set) -> Self {
        Self { shape: self.shape.clone(), value: without(self.place(), &self.value, paths) }
    }
}

/// The result of an apply.
pub(crate) struct Applied {
    /// The object; `None` if it does not change.
    pub(crate) object: Option<Value>,
    pub(crate) owners: Owners,
}

impl Ownership<'_> {
    /// Applies a configuration to an object without managed fields.
    pub(crate) fn merge(
        &self,
        live: &Value,
        config: &Value,
        mut owners: Owners,
        writer: Writer<'_>,
        force: Force,
    ) -> Result<Applied, Error> {
        if config.get("metadata").and_then(|metadata| metadata.get("managedFields")).is_some_and(is_list) {
            return Err(Error::BadRequest("metadata.managedFields must be nil".into()));
        }
        let shape = shape_of(self.ty);
        let place = Place::of(&shape);
        check(place, config, Form::Plain, Duplicates::Refused).map_err(|faults| {
            Error::Failed(format!("failed to create typed patch object ({}): {faults}", self.shown(config)))
        })?;
        check_typed(self.ty, live, Duplicates::Allowed).map_err(|faults| {
            Error::Failed(format!("failed to create typed live object ({}): {faults}", self.shown(live)))
        })?;
        self.reconcile(&mut owners, |_| true);
        let live = plain(self.ty, live);
        let merged = merged(place, &live, config)
            .map_err(|why| Error::Failed(format!("failed to merge config: {why}")))?;
        let mut own = fields(place, config, Form::Plain);
        if let Some(resets) = self.versions.unowned(self.api_version) {
            own = own.recursive_difference(resets);
        }
        let name = if writer.name.is_empty() { "unknown" } else { writer.name };
        let id = Id::new(name, Operation::Apply, "", self.subresource);
        let last = owners.remove(&id);
        let time = last.as_ref().and_then(|last| last.time.clone());
        owners.insert(id.clone(), Owned::new(own, self.api_version, time));
        let merged = Plain { shape: shape.clone(), value: merged };
        let new = self
            .prune(merged, &owners, last.as_ref())
            .map_err(|why| Error::Failed(format!("failed to prune fields: {why}")))?;
        self.settle(&live, &new, &mut owners, &id, force)?;
        let object = if super::place::equal(&live, &new) { None } else { Some(self.typed(&new, config)?) };
        if let Some(owned) = owners.get_mut(&id) {
            let left = owned.set().difference(&STRIPPED);
            if left.is_empty() {
                owners.remove(&id);
            } else {
                owned.replace_set(left);
                if object.is_some() {
                    owned.time = Some(Value::String(writer.now.clone()));
                }
            }
        }
        Ok(Applied { object, owners })
    }

    /// Takes written and removed fields from all other owners; written ones are conflicts unless forced.
    fn settle(
        &self,
        live: &Value,
        new: &Value,
        owners: &mut Owners,
        own: &Id,
        force: Force,
    ) -> Result<(), Error> {
        let failed = |why: String| Error::Failed(why);
        let shape = shape_of(self.ty);
        let comparison = compare(Place::of(&shape), live, new, Form::Plain)
            .map_err(|why| Error::Failed(format!("failed to compare objects: {why}")))?;
        let mut versions = Comparisons::new(self, live, new, Form::Plain, comparison);
        if force == Force::No {
            let mut conflicts = Vec::new();
            for (id, owned) in owners.iter().filter(|(id, _)| *id != own) {
                let Some(known) = versions.find(&owned.version).map_err(failed)? else { continue };
                let paths = owned.set().intersection(&known.written);
                conflicts.extend(paths.iter().map(|path| Conflict { owner: id.clone(), path }));
            }
            if !conflicts.is_empty() {
                return Err(Error::Conflict(Conflicts::new(conflicts)));
            }
        }
        for (_, owned) in owners.iter_mut().filter(|(id, _)| *id != own) {
            versions.release(owned).map_err(failed)?;
        }
        owners.retain(|_, owned| !owned.is_empty());
        Ok(())
    }

    /// Removes the fields that the manager applied last time and not now, unless another manager owns them.
    fn prune(&self, merged: Plain, owners: &Owners, last: Option<&Owned>) -> Result<Value, String> {
        let Some(last) = last.filter(|last| !last.is_empty()) else { return Ok(merged.value) };
        let (version, last) = (last.version.clone(), last.set());
        let Some(converted) = self.plain_at(&merged.value, self.api_version, &version)? else {
            return Ok(merged.value);
        };
        let last = with_named_fields(&last, Some(converted.place()));
        let pruned = converted.without(&last);
        let pruned = self.keep_owned(&converted, pruned, &version, owners)?;
        let pruned = self.keep_dangling(&converted, &pruned, &last);
        let back = self.plain_at(&pruned.value, &version, self.api_version)?;
        Ok(back.map(|back| back.value).unwrap_or(merged.value))
    }

    /// Restores removed fields that other managers own.
    fn keep_owned(
        &self,
        merged: &Plain,
        pruned: Plain,
        version: &Text,
        owners: &Owners,
    ) -> Result<Plain, String> {
        let mut by_version: BTreeMap<&Text, Vec<Set>> = BTreeMap::new();
        for owned in owners.values() {
            by_version.entry(&owned.version).or_default().push(owned.set());
        }
        let own = by_version.remove(version).map(|set| (version, set));
        let mut current =
            (version.clone(), Plain { shape: merged.shape.clone(), value: merged.value.clone() }, pruned);
        for (at, owned) in own.into_iter().chain(by_version) {
            let (from, merged, pruned) = &current;
            let Some(merged) = self.plain_at(&merged.value, from, at)? else { continue };
            let Some(pruned) = self.plain_at(&pruned.value, from, at)? else { continue };
            let owned = with_named_fields(&Set::union_of(owned), Some(merged.place()));
            let gone = merged.fields().difference(&pruned.fields().union(&owned));
            let kept = merged.without(&gone);
            current = (at.clone(), merged, kept);
        }
        let (from, _, pruned) = current;
        let back = self.plain_at(&pruned.value, &from, version)?;
        Ok(back.unwrap_or(pruned))
    }

    /// Restores removed fields that the manager did not own.
    fn keep_dangling(&self, merged: &Plain, pruned: &Plain, last: &Set) -> Plain {
        merged.without(&merged.fields().difference(&pruned.fields()).intersection(last))
    }

    /// A plain object in another version; `None` if there is no such version.
    fn plain_at(&self, object: &Value, from: &str, to: &str) -> Result<Option<Plain>, String> {
        let converted = self.convert_plain(object, from, to)?;
        Ok(converted.map(|typed| Plain { shape: shape_of(&typed.ty), value: typed.value }))
    }

    /// A plain object in another version, with its type.
    pub(crate) fn convert_plain(
        &self,
        object: &Value,
        from: &str,
        to: &str,
    ) -> Result<Option<Typed>, String> {
        let ty = if from == self.api_version { Some(self.ty.clone()) } else { self.versions.ty(from) };
        let Some(ty) = ty else { return Ok(None) };
        if from == to {
            return Ok(Some(Typed { ty, value: object.clone() }));
        }
        let typed = decode(&ty, from, object)?;
        let Some(converted) = self.versions.convert(typed, from, to) else { return Ok(None) };
        let value = plain(&converted.ty, &converted.value);
        Ok(Some(Typed { ty: converted.ty, value }))
    }

    /// A plain object as the tree of its type; the configuration that it comes from is what an error names.
    fn typed(&self, object: &Value, config: &Value) -> Result<Value, Error> {
        decode(self.ty, self.api_version, object).map_err(|why| {
            let shown = self.shown(config);
            Error::Failed(format!("failed to convert new object ({shown}) to proper version: {why}"))
        })
    }
}

fn is_list(value: &Value) -> bool {
    value.as_list().is_some()
}

/// The tree of a type. The reference converts without a text in between, where a whole number is a number of
/// any field.
pub(crate) fn decode(ty: &Ref<Type>, api_version: &str, object: &Value) -> Result<Value, String> {
    let decoded = match decode_text(ty, object) {
        Err(schema::Error::Type(mismatch)) if is_fraction(ty, &mismatch) => decode_text(ty, &whole(object)),
        decoded => decoded,
    };
    decoded.map_err(|error| {
        let why = match error {
            schema::Error::Type(mismatch) if is_fraction(ty, &mismatch) => {
                format!("cannot convert float64 to {}", mismatch.wanted)
            }
            schema::Error::Type(mismatch) => {
                let bare = schema::Mismatch { struct_name: String::new(), path: String::new(), ..mismatch };
                schema::Error::Type(bare).to_string()
            }
            schema::Error::Value(why) if why.starts_with("illegal base64 data ") => {
                format!("error decoding from json: {why}")
            }
            error => error.to_string(),
        };
        let kind = ty.kind.as_ref().map(|kind| kind.kind.as_str()).unwrap_or_default();
        let (group, version) = group_and_version(api_version);
        format!("unable to convert unstructured object to {group}/{version}, Kind={kind}: {why}")
    })
}

fn decode_text(ty: &Ref<Type>, object: &Value) -> Result<Value, schema::Error> {
    let mut text = Vec::with_capacity(1024);
    json::encode_shape(&crate::node::ANY, object, &mut text);
    let limits = Limits { depth: Limits::STORED.depth, keeps_nulls: true, ..UNBOUNDED };
    json::decode_shape(&shape_of(ty), &text, &limits).map(|decoded| decoded.value)
}

/// Whether a number was found that the field, which takes integers, cannot hold. A field that takes text too
/// reads its number as JSON.
fn is_fraction(ty: &Type, mismatch: &schema::Mismatch) -> bool {
    let is_number = mismatch.found.starts_with("number") && mismatch.wanted.starts_with("int");
    is_number && !matches!(shape_at(ty, &mismatch.path), Some(Shape::IntOrString))
}

/// The shape at a path, which has no indexes and no keys.
fn shape_at<'t>(ty: &'t Type, path: &str) -> Option<&'t Shape> {
    let mut ty = ty;
    let mut found = None;
    for name in path.split('.') {
        let mut shape = &ty.field(name)?.shape;
        found = Some(shape);
        while let Shape::List(inner) | Shape::Map(inner) = shape {
            shape = inner;
        }
        if let Shape::Struct(inner) = shape {
            ty = inner;
        }
    }
    found
}

/// The same JSON, with an integer for each float that is one.
fn whole(value: &Value) -> Value {
    match value {
        Value::Float(number) if number.fract() == 0.0 && number.abs() < EXACT => Value::Int(*number as i64),
        Value::List(items) => items.iter().map(whole).collect(),
        Value::Map(map) => {
            let entries: Vec<_> = map.iter().map(|(key, value)| (key.clone(), whole(value))).collect();
            Map::from_distinct(entries).into()
        }
        value => value.clone(),
    }
}

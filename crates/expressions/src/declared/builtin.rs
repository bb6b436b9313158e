//! What built-in types declare.
//!
//! Of their values expressions see what OpenAPI documents say: times, bytes and numbers have their types,
//! what is an integer or a string can be either, and a quantity, whose schema names no single type, is not
//! seen at all. A type within itself is an object without fields.

use super::{field, identifying_metadata, text};
use cel::declared::{Declared, DeclaredField};
use schema::{Raw, Shape, Type, builtin};
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

/// What the type of an object declares.
pub fn of_type(ty: &Type) -> Arc<Declared> {
    let mut fields = fields(ty, &mut vec![&*ty.name]);
    if !has_metadata(ty) {
        fields.retain(|field| !matches!(&*field.name, "kind" | "apiVersion" | "metadata"));
        fields.push(optional("metadata", identifying_metadata()));
        fields.extend(["kind", "apiVersion"].map(|name| optional(name, text())));
    }
    Arc::new(Declared::object(fields))
}

/// The metadata of objects.
pub(super) fn metadata() -> Arc<Declared> {
    static METADATA: LazyLock<Arc<Declared>> = LazyLock::new(|| {
        let fields = builtin::by_name("meta.v1.ObjectMeta").map(|ty| fields(ty, &mut vec![&*ty.name]));
        Arc::new(Declared::object(fields.unwrap_or_default()))
    });
    METADATA.clone()
}

/// Whether a type has the fields that every object has.
fn has_metadata(ty: &Type) -> bool {
    let is_text = |ty: &Type, name| ty.field(name).is_some_and(|field| matches!(field.shape, Shape::String));
    let metadata = ty.field("metadata").and_then(|field| match &field.shape {
        Shape::Struct(ty) => Some(ty),
        _ => None,
    });
    is_text(ty, "kind")
        && is_text(ty, "apiVersion")
        && metadata.is_some_and(|ty| is_text(ty, "name") && is_text(ty, "generateName"))
}

/// The fields of a type; `within` are the names of that type and of those around it.
fn fields<'t>(ty: &'t Type, within: &mut Vec<&'t str>) -> Vec<DeclaredField> {
    let of_field = |field: &'t schema::Field| Some(optional(&field.name, of_shape(&field.shape, within)?));
    ty.fields.iter().filter_map(of_field).collect()
}

fn of_shape<'t>(shape: &'t Shape, within: &mut Vec<&'t str>) -> Option<Arc<Declared>> {
    Some(Arc::new(match shape {
        Shape::Bool => Declared::boolean(),
        Shape::Int32 | Shape::Int64 => Declared::integer(),
        Shape::Float64 => Declared::number(),
        Shape::String | Shape::Duration => Declared::string(None, None),
        Shape::Bytes => Declared::bytes(None),
        Shape::Time | Shape::MicroTime => Declared::date_time(),
        Shape::IntOrString => Declared::int_or_string(),
        Shape::Raw(Raw::Extension | Raw::Fields) | Shape::Any => Declared::object(Vec::new()),
        Shape::Quantity | Shape::Raw(Raw::Json) | Shape::SchemaOr(..) => return None,
        Shape::List(element) => Declared::list(of_shape(element, within)?, None),
        Shape::Map(value) => Declared::map(of_shape(value, within)?, None),
        Shape::Struct(ty) if within.contains(&&*ty.name) => Declared::object(Vec::new()),
        Shape::Struct(ty) => {
            within.push(&ty.name);
            let fields = fields(ty, within);
            within.pop();
            Declared::object(fields)
        }
    }))
}

/// A field of which nothing is known but its type.
fn optional(name: &str, declared: Arc<Declared>) -> DeclaredField {
    field(name, declared, &HashSet::new(), false)
}

//! Trees as their JSON reads: what the encoder would leave out is left out, and what it would add is there.

use crate::model::{Field, Shape, Type};
use object::{Map, Value};

/// Makes an object of a type what a reader of its JSON would see.
pub fn make_plain(ty: &Type, value: &mut Value) {
    if let Value::Map(map) = value {
        make_struct_plain(ty, map);
    }
}

fn make_shape_plain(shape: &Shape, value: &mut Value) {
    match (shape, value) {
        (Shape::Struct(ty) | Shape::SchemaOr(_, ty), Value::Map(map)) => make_struct_plain(ty, map),
        (Shape::Map(shape), Value::Map(map)) if is_nested(shape) => {
            map.iter_mut().for_each(|(_, value)| make_shape_plain(shape, value));
        }
        (Shape::List(shape), Value::List(items)) if is_nested(shape) => {
            items.iter_mut().for_each(|item| make_shape_plain(shape, item));
        }
        (Shape::SchemaOr(_, ty), Value::List(items)) => {
            items.iter_mut().for_each(|item| make_plain(ty, item));
        }
        _ => {}
    }
}

/// Whether values of a shape can have fields within them.
fn is_nested(shape: &Shape) -> bool {
    matches!(shape, Shape::Struct(_) | Shape::Map(_) | Shape::List(_) | Shape::SchemaOr(..))
}

fn make_struct_plain(ty: &Type, map: &mut Map) {
    let mut has_empty = false;
    for (key, value) in map.iter_mut() {
        match ty.position(key).and_then(|at| ty.fields.get(at)) {
            Some(field) if field.drops(value) => has_empty = true,
            Some(field) => make_shape_plain(&field.shape, value),
            None => has_empty |= !ty.preserve_unknown_fields,
        }
    }
    if has_empty {
        map.retain(|key, value| match ty.position(key).and_then(|at| ty.fields.get(at)) {
            Some(field) => !field.drops(value),
            None => ty.preserve_unknown_fields,
        });
    }
    for at in &*ty.always {
        if let Some(field) = ty.fields.get(usize::from(*at))
            && !map.contains_key(&field.name)
        {
            map.insert(field.name.clone(), absent(field));
        }
    }
}

/// What the encoder writes for an absent field.
fn absent(field: &Field) -> Value {
    if field.optional {
        return Value::Null;
    }
    match &field.shape {
        Shape::Struct(ty) => {
            let mut empty = Map::new();
            make_struct_plain(ty, &mut empty);
            empty.into()
        }
        Shape::Bool => false.into(),
        Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::IntOrString => 0.into(),
        Shape::String => "".into(),
        Shape::Quantity => "0".into(),
        Shape::Duration => "0s".into(),
        Shape::Time
        | Shape::MicroTime
        | Shape::Bytes
        | Shape::Raw(_)
        | Shape::Any
        | Shape::List(_)
        | Shape::Map(_)
        | Shape::SchemaOr(..) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{decode, decode_shape, encode};
    use crate::{Limits, builtin};

    #[test]
    fn a_plain_tree_is_what_the_encoder_writes() {
        let pod = builtin::by_kind("", "v1", "Pod").unwrap();
        for text in [
            r#"{"metadata":{"name":"a","labels":{"b":"c"}},"spec":{"containers":[{"name":"d","image":"","env":[{"name":"e","valueFrom":{"configMapKeyRef":{"name":"f","key":"g"}}}]}],"hostNetwork":false,"terminationGracePeriodSeconds":0}}"#,
            r#"{"spec":{"containers":[],"overhead":{"cpu":"1"},"volumes":[{"name":"v","secret":{"items":[{"key":"k","path":"p"}]}}]},"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#,
            "{}",
        ] {
            let mut tree = decode(pod, text.as_bytes(), &Limits::REQUEST).unwrap().value;
            let mut written = Vec::new();
            encode(pod, &tree, &mut written);
            make_plain(pod, &mut tree);
            let read = decode_shape(&Shape::Any, &written, &Limits::REQUEST).unwrap().value;
            assert_eq!(tree, read, "{text}");
        }
    }
}

//! Defaulting: the defaults that the type files declare.

use crate::model::{Field, Shape, Type};
use crate::structural::Defaulted;
use object::{Map, Value};

/// Sets absent fields to the defaults that their type declares, at every depth. An absent struct that is not
/// optional counts as an empty one, so its defaults apply. If the defaults of the schema of a custom kind
/// would make an object too large, none of them are set.
pub fn default(ty: &Type, value: &mut Value) -> Defaulted {
    let filled = fill_value(ty, value);
    match &ty.custom {
        Some(custom) if ty.has_defaults => match custom.default(value) {
            Defaulted::Unchanged if filled => Defaulted::Changed,
            defaulted => defaulted,
        },
        _ if filled => Defaulted::Changed,
        _ => Defaulted::Unchanged,
    }
}

fn fill_value(ty: &Type, value: &mut Value) -> bool {
    ty.has_defaults && value.as_map_mut().is_some_and(|map| fill(ty, map))
}

fn fill(ty: &Type, map: &mut Map) -> bool {
    // Most fields have no default: skip the lookup of their values.
    let concerned = |field: &&Field| field.options.default.is_some() || reaches_defaults(&field.shape);
    let mut changed = false;
    for field in ty.fields.iter().filter(concerned) {
        match map.get_mut(&field.name) {
            Some(value) => changed |= descend(&field.shape, value),
            None => {
                if let Some(value) = absent(field) {
                    map.insert(field.name.clone(), value);
                    changed = true;
                }
            }
        }
    }
    changed
}

fn descend(shape: &Shape, value: &mut Value) -> bool {
    let mut changed = false;
    match shape {
        Shape::Struct(ty) => changed = fill_value(ty, value),
        Shape::List(inner) if reaches_defaults(inner) => {
            for element in value.as_list_mut().into_iter().flatten() {
                changed |= descend(inner, element);
            }
        }
        Shape::Map(inner) if reaches_defaults(inner) => {
            for (_, element) in value.as_map_mut().into_iter().flat_map(Map::iter_mut) {
                changed |= descend(inner, element);
            }
        }
        _ => {}
    }
    changed
}

fn reaches_defaults(shape: &Shape) -> bool {
    match shape {
        Shape::Struct(ty) => ty.has_defaults,
        Shape::List(inner) | Shape::Map(inner) => reaches_defaults(inner),
        _ => false,
    }
}

/// The value of an absent field, if it has a default.
fn absent(field: &Field) -> Option<Value> {
    if let Some(value) = &field.options.default {
        return Some(value.clone());
    }
    match &field.shape {
        Shape::Struct(ty) if !field.optional && ty.has_defaults => {
            let mut map = Map::new();
            fill(ty, &mut map);
            (!map.is_empty()).then(|| map.into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::structural::Defaulted;
    use crate::{Limits, builtin, json};

    #[test]
    fn defaulting_fills_list_elements_and_keeps_set_fields() {
        let pod = builtin::by_kind("", "v1", "Pod").expect("pods are built in");
        let text = br#"{"spec":{"containers":[{"name":"a","ports":[{"containerPort":1},{"containerPort":2,"protocol":"UDP"}]}]}}"#;
        let mut value = json::decode(pod, text, &Limits::default()).expect("valid").value;
        assert_eq!(super::default(pod, &mut value), Defaulted::Changed);
        let mut out = Vec::new();
        json::encode(pod, &value, &mut out);
        let text = String::from_utf8(out).expect("text");
        assert!(
            text.contains(r#"{"containerPort":1,"protocol":"TCP"},{"containerPort":2,"protocol":"UDP"}"#),
            "{text}"
        );
        assert_eq!(super::default(pod, &mut value), Defaulted::Unchanged);
    }
}

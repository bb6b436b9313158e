//! Equality of values by what they mean, as the reference has it: quantities are equal if they are the same
//! amount, and an empty value equals an absent one unless its field is a pointer in the reference.

use crate::{Shape, Type};
use object::quantity::Quantity;
use object::{Map, Value};

/// A key of one of two maps, with its values.
pub struct Entry<'a> {
    /// The key.
    pub key: &'a str,
    /// The value in the one map.
    pub one: Option<&'a Value>,
    /// The value in the other map.
    pub other: Option<&'a Value>,
}

impl Entry<'_> {
    /// Whether the values are equal in maps of a type. A field that the type does not have is compared as it
    /// is.
    pub fn is_equal(&self, ty: &Type) -> bool {
        match (self.one, self.other, ty.field(self.key)) {
            (Some(one), Some(other), Some(field)) => {
                equal(&field.shape, one, other) || (field.drops(one) && field.drops(other))
            }
            (Some(present), None, Some(field)) | (None, Some(present), Some(field)) => field.drops(present),
            (one, other, _) => one == other,
        }
    }
}

/// The entries of two maps.
pub fn entries<'a>(one: &'a Map, other: &'a Map) -> impl Iterator<Item = Entry<'a>> {
    let (here, there) = (one.index(), other.index());
    let added = other.iter().filter(move |(key, _)| !here.contains_key(key.as_str()));
    let kept = one.iter().map(move |(key, value)| Entry {
        key: key.as_str(),
        one: Some(value),
        other: there.get(key.as_str()).copied(),
    });
    kept.chain(added.map(|(key, value)| Entry { key: key.as_str(), one: None, other: Some(value) }))
}

/// The names of the fields in which two maps of a type differ.
pub fn differences<'a>(ty: &Type, one: &'a Map, other: &'a Map) -> Vec<&'a str> {
    if one == other {
        return Vec::new();
    }
    entries(one, other).filter(|entry| !entry.is_equal(ty)).map(|entry| entry.key).collect()
}

/// Whether two maps of a type are equal. Recursion ends, because the depth of objects is limited.
pub fn equal_maps(ty: &Type, one: &Map, other: &Map) -> bool {
    one == other || entries(one, other).all(|entry| entry.is_equal(ty))
}

fn equal(shape: &Shape, one: &Value, other: &Value) -> bool {
    if one == other {
        return true;
    }
    match (shape, one, other) {
        (Shape::Quantity, one, other) => {
            let amount = |value: &Value| value.as_str().and_then(|text| text.parse::<Quantity>().ok());
            matches!((amount(one), amount(other)), (Some(one), Some(other)) if one == other)
        }
        (Shape::Struct(ty), Value::Map(one), Value::Map(other)) => equal_maps(ty, one, other),
        (Shape::List(shape), Value::List(one), Value::List(other)) => {
            one.len() == other.len()
                && one.iter().zip(other.iter()).all(|(one, other)| equal(shape, one, other))
        }
        (Shape::Map(shape), Value::Map(one), Value::Map(other)) => {
            let is_equal =
                |entry: Entry<'_>| entry.one.zip(entry.other).is_some_and(|(a, b)| equal(shape, a, b));
            entries(one, other).all(is_equal)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::View;
    use crate::views::core::v1::{Container, PodSpec};
    use crate::{Limits, json};

    fn decode(ty: &'static Type, text: &str) -> Map {
        let decoded = json::decode(ty, text.as_bytes(), &Limits::REQUEST).unwrap().value;
        decoded.as_map().unwrap().clone()
    }

    #[test]
    fn quantities_are_compared_as_amounts_and_texts_as_texts() {
        let container = |limit: &str, value: &str| {
            let text = format!(
                r#"{{"resources":{{"limits":{{"memory":"{limit}"}}}},"env":[{{"name":"A","value":"{value}"}}]}}"#
            );
            decode(Container::schema(), &text)
        };
        let same = |one: Map, other: Map| equal_maps(Container::schema(), &one, &other);
        assert!(same(container("1Gi", "1"), container("1073741824", "1")));
        assert!(!same(container("1Gi", "1"), container("2Gi", "1")));
        assert!(!same(container("1Gi", "1Gi"), container("1Gi", "1073741824")));
        assert!(!same(container("1Gi", "1"), Map::new()));
    }

    #[test]
    fn empty_values_equal_absent_ones_unless_they_are_pointers() {
        let spec = |text: &str| decode(PodSpec::schema(), text);
        let absent = spec("{}");
        for empty in [r#"{"volumes":[]}"#, r#"{"nodeSelector":{}}"#, r#"{"nodeName":""}"#] {
            assert_eq!(differences(PodSpec::schema(), &spec(empty), &absent), Vec::<&str>::new(), "{empty}");
        }
        for pointer in [r#"{"runtimeClassName":""}"#, r#"{"priority":0}"#, r#"{"securityContext":{}}"#] {
            assert!(!equal_maps(PodSpec::schema(), &spec(pointer), &absent), "{pointer}");
        }
    }
}

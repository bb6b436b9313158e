//! Equality of values by their shapes: quantities are equal if they are the same amount.

use object::quantity::Quantity;
use object::{Map, Value};
use schema::{Shape, Type};

/// A key that one of two maps has, with its values.
pub(crate) struct Entry<'a> {
    /// The key.
    pub(crate) key: &'a str,
    /// The value in the one map.
    pub(crate) one: Option<&'a Value>,
    /// The value in the other map.
    pub(crate) other: Option<&'a Value>,
}

impl Entry<'_> {
    /// Whether the values mean the same in a map of a type.
    pub(crate) fn is_same(&self, ty: &Type) -> bool {
        match (self.one, self.other, ty.field(self.key)) {
            (Some(one), Some(other), Some(field)) => values(&field.shape, one, other),
            (one, other, _) => one == other,
        }
    }
}

/// The entries of two maps.
pub(crate) fn entries<'a>(one: &'a Map, other: &'a Map) -> impl Iterator<Item = Entry<'a>> {
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
pub(crate) fn differences<'a>(ty: &Type, one: &'a Map, other: &'a Map) -> Vec<&'a str> {
    if one == other {
        return Vec::new();
    }
    entries(one, other).filter(|entry| !entry.is_same(ty)).map(|entry| entry.key).collect()
}

/// Whether two maps of a type mean the same.
pub(crate) fn maps(ty: &Type, one: &Map, other: &Map) -> bool {
    one == other || entries(one, other).all(|entry| entry.is_same(ty))
}

fn values(shape: &Shape, one: &Value, other: &Value) -> bool {
    if one == other {
        return true;
    }
    match (shape, one, other) {
        (Shape::Quantity, one, other) => {
            let amount = |value: &Value| value.as_str().and_then(|text| text.parse::<Quantity>().ok());
            matches!((amount(one), amount(other)), (Some(one), Some(other)) if one == other)
        }
        (Shape::Struct(ty), Value::Map(one), Value::Map(other)) => maps(ty, one, other),
        (Shape::List(shape), Value::List(one), Value::List(other)) => {
            one.len() == other.len()
                && one.iter().zip(other.iter()).all(|(one, other)| values(shape, one, other))
        }
        (Shape::Map(shape), Value::Map(one), Value::Map(other)) => {
            let same =
                |entry: Entry<'_>| entry.one.zip(entry.other).is_some_and(|(a, b)| values(shape, a, b));
            entries(one, other).all(same)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::view::View;
    use schema::views::core::v1::Container;
    use schema::{Limits, json};

    #[test]
    fn quantities_are_compared_as_amounts_and_texts_as_texts() {
        let container = |limit: &str, value: &str| {
            let text = format!(
                r#"{{"resources":{{"limits":{{"memory":"{limit}"}}}},"env":[{{"name":"A","value":"{value}"}}]}}"#
            );
            json::decode(Container::schema(), text.as_bytes(), &Limits::REQUEST).unwrap().value
        };
        let same = |one: Value, other: Value| {
            maps(Container::schema(), one.as_map().unwrap(), other.as_map().unwrap())
        };
        assert!(same(container("1Gi", "1"), container("1073741824", "1")));
        assert!(!same(container("1Gi", "1"), container("2Gi", "1")));
        assert!(!same(container("1Gi", "1Gi"), container("1Gi", "1073741824")));
        assert!(!same(container("1Gi", "1"), Map::new().into()));
    }
}

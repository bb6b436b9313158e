//! Equality of values by what they mean.

use crate::Value;

/// Whether two values mean the same: what is empty means the same as what is absent. Recursion ends, because
/// the depth of objects is limited.
pub fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::List(one), Value::List(other)) => {
            one.len() == other.len() && one.iter().zip(other.iter()).all(|(one, other)| equal(one, other))
        }
        (Value::Map(one), Value::Map(other)) => {
            let (there, here) = (other.index(), one.index());
            one.iter().all(|(key, value)| equal(value, there.get(key.as_str()).unwrap_or(&&Value::Null)))
                && other.iter().all(|(key, value)| here.contains_key(key.as_str()) || is_empty(value))
        }
        _ => one == other || (is_empty(one) && is_empty(other)),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        _ => value.as_str() == Some(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Map;

    fn map(key: &'static str, value: impl Into<Value>) -> Value {
        let mut map = Map::new();
        map.insert(key, value);
        map.into()
    }

    #[test]
    fn empty_values_equal_absent_ones_at_every_level() {
        let empty = Value::from(Map::new());
        for value in [Value::Null, "".into(), Vec::<Value>::new().into(), Map::new().into()] {
            assert!(equal(&map("a", value.clone()), &empty), "{value:?}");
            assert!(equal(&map("b", map("a", value.clone())), &map("b", Map::new())), "{value:?}");
        }
        assert!(equal(&map("a", vec![map("b", "")]), &map("a", vec![Value::from(Map::new())])));
        for value in [Value::from(0), false.into(), vec![Value::Null].into()] {
            assert!(!equal(&map("a", value.clone()), &empty), "{value:?}");
        }
        assert!(!equal(&map("a", "x"), &map("a", "y")));
        assert!(!equal(&map("a", "x"), &map("b", "x")));
    }
}

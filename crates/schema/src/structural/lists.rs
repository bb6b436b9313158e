//! Lists of the types `set` and `map`: their items are distinct.

use super::{ListType, Node, Structural};
use crate::validate::{go_value, json_text};
use object::field::{Error, List, Path};
use object::{Key, Map, Text, Value};
use std::collections::HashMap;

impl Structural {
    /// Reports duplicate items in lists of the types `set` and `map`.
    pub fn validate_lists(&self, object: &Map) -> List {
        let mut errors = List::new();
        check_map(object, &self.root, &Path::UNSET, &mut errors);
        errors
    }
}

fn check(value: &Value, node: &Node, path: &Path<'_>, errors: &mut List) {
    if !node.has_list_types {
        return;
    }
    match value {
        Value::Map(map) => check_map(map, node, path, errors),
        Value::List(items) => {
            match &node.list_type {
                ListType::Atomic => {}
                ListType::Set => check_set(items, path, errors),
                ListType::Map(keys) => check_list_map(items, keys, path, errors),
            }
            let Some(node) = &node.items else { return };
            for (at, item) in items.iter().enumerate() {
                check(item, node, &path.index(at), errors);
            }
        }
        _ => {}
    }
}

fn check_map(map: &Map, node: &Node, path: &Path<'_>, errors: &mut List) {
    if !node.has_list_types {
        return;
    }
    if let Some(node) = node.additional.node() {
        for (key, value) in map.iter() {
            check(value, node, &path.key(key), errors);
        }
    }
    for (key, value) in map.iter() {
        if let Some(node) = node.property(key) {
            check(value, node, &path.child(key), errors);
        }
    }
}

fn check_set(items: &[Value], path: &Path<'_>, errors: &mut List) {
    for at in second_places(items.iter().map(Identity::of)) {
        let item = items.get(at).unwrap_or(&Value::Null);
        errors.push_with(|| Error::duplicate(&path.index(at), go_value(item)));
    }
}

fn check_list_map(items: &[Value], keys: &[Text], path: &Path<'_>, errors: &mut List) {
    let other = items.iter().enumerate().find(|(_, item)| !matches!(item, Value::Null | Value::Map(_)));
    if let Some((at, item)) = other {
        let why = "must be an object for an array of list-type map";
        errors.push_with(|| Error::invalid(&path.index(at), go_value(item), why));
        return;
    }
    let places = match keys {
        [key] => second_places(items.iter().map(|item| item.get(key).map_or(Identity::Absent, Identity::of))),
        keys => second_places(items.iter().map(|item| Identity::Json(json_text(&keys_of(item, keys))))),
    };
    for at in places {
        let item = items.get(at).unwrap_or(&Value::Null);
        errors.push_with(|| Error::duplicate(&path.index(at), go_value(&keys_of(item, keys))));
    }
}

/// The keys that an item has, with their values.
fn keys_of(item: &Value, keys: &[Text]) -> Value {
    let Some(fields) = item.as_map().map(|item| item.lookup(keys.len())) else { return Map::new().into() };
    let present = keys.iter().filter_map(|key| Some((Key::from(key.clone()), fields.get(key)?.clone())));
    let mut present: Vec<(Key, Value)> = present.collect();
    present.sort_by(|(one, _), (other, _)| one.cmp(other));
    present.dedup_by(|(one, _), (other, _)| one == other);
    Map::from_distinct(present).into()
}

/// The index of the second occurrence, for each value that occurs more than once.
fn second_places<'v>(values: impl Iterator<Item = Identity<'v>>) -> Vec<usize> {
    let mut times: HashMap<Identity<'v>, usize> = HashMap::new();
    let mut places = Vec::new();
    for (at, value) in values.enumerate() {
        let times = times.entry(value).or_default();
        *times += 1;
        if *times == 2 {
            places.push(at);
        }
    }
    places
}

/// What makes two values equal: scalars by type and value, others by their JSON.
#[derive(PartialEq, Eq, Hash)]
pub(super) enum Identity<'v> {
    Absent,
    Null,
    Bool(bool),
    Int(i64),
    Float(u64),
    String(&'v str),
    Json(String),
}

impl<'v> Identity<'v> {
    pub(super) fn of(value: &'v Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Bool(*flag),
            Value::Int(number) => Self::Int(*number),
            // Zero and negative zero are equal.
            Value::Float(number) => Self::Float((number + 0.0).to_bits()),
            Value::String(text) => Self::String(text),
            other => Self::Json(json_text(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{compile, tree};

    fn check(schema: &str, object: &str, expected: &[&str]) {
        let schema = compile(&format!(r#"{{"type":"object","properties":{schema}}}"#));
        let errors = schema.validate_lists(tree(object).as_map().unwrap());
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected, "{object}");
    }

    #[test]
    fn a_set_has_no_value_twice() {
        let set = r#"{"s":{"type":"array","x-kubernetes-list-type":"set","items":{"x-kubernetes-preserve-unknown-fields":true}}}"#;
        check(
            set,
            r#"{"s":[1,"1",1.0,true,null,"a",1,"a",1,null,{"a":1,"b":[2]},{"b":[2],"a":1},{"a":1},0.0,-0.0]}"#,
            &[
                "s[6]: Duplicate value: 1",
                r#"s[7]: Duplicate value: "a""#,
                r#"s[9]: Duplicate value: "null""#,
                r#"s[11]: Duplicate value: map[string]interface {}{"a":1, "b":[]interface {}{2}}"#,
                "s[14]: Duplicate value: -0",
            ],
        );
        check(set, r#"{"s":[1]}"#, &[]);
        check(set, r#"{"s":{"a":1}}"#, &[]);
    }

    #[test]
    fn a_list_map_has_no_key_twice() {
        let items = r#""items":{"type":"object","properties":{"k":{"type":"string"},"l":{"type":"string"}}}"#;
        let one = format!(
            r#"{{"m":{{"type":"object","additionalProperties":{{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],{items}}}}}}}"#
        );
        check(
            &one,
            r#"{"m":{"x":[{"k":"a","z":1},{"k":"b"},{"k":"a"},{"k":"a"},{},{"k":null},null,{"k":null}]}}"#,
            &[
                r#"m[x][2]: Duplicate value: map[string]interface {}{"k":"a"}"#,
                "m[x][6]: Duplicate value: map[string]interface {}{}",
                r#"m[x][7]: Duplicate value: map[string]interface {}{"k":interface {}(nil)}"#,
            ],
        );
        check(
            &one,
            r#"{"m":{"x":[{"k":"a"},7,{"k":"a"}]}}"#,
            &["m[x][1]: Invalid value: 7: must be an object for an array of list-type map"],
        );
        let two = format!(
            r#"{{"x":{{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k","l"],{items}}}}}"#
        );
        check(
            &two,
            r#"{"x":[{"k":"a","l":"b"},{"k":"a"},{"l":"b","k":"a"},{"k":"a","q":1},{},null]}"#,
            &[
                r#"x[2]: Duplicate value: map[string]interface {}{"k":"a", "l":"b"}"#,
                r#"x[3]: Duplicate value: map[string]interface {}{"k":"a"}"#,
                "x[5]: Duplicate value: map[string]interface {}{}",
            ],
        );
    }

    #[test]
    fn lists_within_lists_are_checked_after_them() {
        check(
            r#"{"a":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{
                "k":{"type":"integer"},"s":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}}}}}"#,
            r#"{"a":[{"k":1,"s":["x","x"]},{"k":1}]}"#,
            &[
                r#"a[1]: Duplicate value: map[string]interface {}{"k":1}"#,
                r#"a[0].s[1]: Duplicate value: "x""#,
            ],
        );
    }
}

//! Managed fields after mutating admission: what a plugin has broken is put back.

use crate::Warnings;
use object::path_set::Set;
use object::quote::Quoted;
use object::{Map, Value};
use schema::view::View as _;
use schema::views::meta::v1::ManagedFieldsEntry;

const KEY: &str = "managedFields";

/// The managed fields of an object before mutating admission; none if it has no metadata.
pub(crate) fn of(object: Option<&Value>) -> Option<Value> {
    let metadata = object.and_then(|object| object.get("metadata"))?;
    Some(metadata.get(KEY).cloned().unwrap_or_default())
}

/// Puts the managed fields `before` back, with a warning, if those of the object are malformed now.
pub(crate) fn restore(before: Option<Value>, object: Option<&mut Value>, warnings: &Warnings) {
    let (Some(before), Some(metadata)) = (before, object.and_then(metadata)) else { return };
    let now = metadata.get(KEY).unwrap_or(&Value::Null);
    if *now == before {
        return;
    }
    let entries = now.as_list().unwrap_or_default();
    let Some(why) = entries.iter().enumerate().find_map(|(at, entry)| fault(at, entry)) else { return };
    match before {
        Value::Null => metadata.remove(KEY),
        before => metadata.insert(KEY, before),
    };
    warnings.extend([format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating \
         admission controller; please fix your requests: {why}"
    )]);
}

fn metadata(object: &mut Value) -> Option<&mut Map> {
    object.as_map_mut()?.get_mut("metadata")?.as_map_mut()
}

/// What is wrong with an entry.
fn fault(at: usize, entry: &Value) -> Option<String> {
    let empty = Map::new();
    let map = entry.as_map().unwrap_or(&empty);
    let entry = ManagedFieldsEntry::of(map);
    if !matches!(entry.operation(), "Apply" | "Update") {
        return Some("operation must be `Apply` or `Update`".to_owned());
    }
    if entry.api_version().is_empty() {
        return Some("apiVersion must not be empty".to_owned());
    }
    match entry.fields_type() {
        "FieldsV1" => {}
        "" => return Some(format!("missing fieldsType in managed fields entry {at}")),
        ty => return Some(format!("invalid fieldsType {} in managed fields entry {at}", Quoted(ty))),
    }
    let Some(Value::Raw(fields)) = map.get("fieldsV1") else { return None };
    let error = Set::from_json(fields.as_str()).err()?;
    Some(format!("error decoding versioned set from managed fields entry {at}: error decoding set: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::views::core::v1::ConfigMap;
    use schema::{Limits, json};

    fn object(entry: &str) -> Value {
        let text = format!(r#"{{"metadata":{{"name":"a","managedFields":[{entry}]}}}}"#);
        json::decode(ConfigMap::schema(), text.as_bytes(), &Limits::REQUEST).unwrap().value
    }

    const GOOD: &str = r#"{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}}}"#;

    #[test]
    fn broken_managed_fields_are_put_back_with_a_warning() {
        let before = object(GOOD);
        for (entry, why) in [
            (r#"{"manager":"m"}"#, "operation must be `Apply` or `Update`"),
            (r#"{"operation":"Apply"}"#, "apiVersion must not be empty"),
            (r#"{"operation":"Apply","apiVersion":"v1"}"#, "missing fieldsType in managed fields entry 0"),
            (
                r#"{"operation":"Apply","apiVersion":"v1","fieldsType":"x"}"#,
                "invalid fieldsType \"x\" in managed fields entry 0",
            ),
            (
                r#"{"operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"q":{}}}"#,
                "error decoding set",
            ),
        ] {
            let (mut now, warnings) = (object(entry), Warnings::default());
            restore(of(Some(&before)), Some(&mut now), &warnings);
            assert_eq!(now, before, "{entry}");
            let given = warnings.take();
            assert!(given.first().is_some_and(|text| text.contains(why)), "{given:?}");
        }
        let (mut now, warnings) = (object(&GOOD.replace("\"m\"", "\"n\"")), Warnings::default());
        restore(of(Some(&before)), Some(&mut now), &warnings);
        assert_ne!(now, before);
        assert!(warnings.take().is_empty());
    }
}

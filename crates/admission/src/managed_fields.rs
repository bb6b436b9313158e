//! Managed fields after mutating admission: malformed entries that a plugin has written are replaced by those
//! before admission.

use crate::Warnings;
use object::{Map, Value};

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
    let Err(why) = merge::managed::check_entries(now.as_list().unwrap_or_default()) else { return };
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

#[cfg(test)]
mod tests {
    use super::*;
    use schema::view::View as _;
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
                "error decoding versioned set from managed fields entry 0: error decoding set: ",
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

//! How values are written.

use object::Value;
use schema::{Shape, json};

/// Writes a value as Go's templates do.
pub(super) fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<no value>"),
        other => out.push_str(&text(other)),
    }
}

/// A value as Go's `fmt` shows it.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.to_string(),
        Value::Map(map) => {
            let mut items: Vec<_> = map.iter().map(|(key, value)| format!("{key}:{}", text(value))).collect();
            items.sort();
            format!("map[{}]", items.join(" "))
        }
        list if list.as_list().is_some() => {
            let items: Vec<_> = list.as_list().unwrap_or_default().iter().map(text).collect();
            format!("[{}]", items.join(" "))
        }
        other => json(other),
    }
}

/// A value as JSON.
pub(super) fn json(value: &Value) -> String {
    let mut out = Vec::new();
    json::encode_shape(&Shape::Any, value, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

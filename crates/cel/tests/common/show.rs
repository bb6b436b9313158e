//! Values as texts that the recorded answers have them in: every value of every type has one text, doubles
//! always with an exponent, maps sorted by the texts of their entries.

use cel::value::{Fields, List, Map};
use cel::{Outcome, Value};

/// The text of a value.
pub fn show(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => format!("{number}u"),
        Value::Double(number) if number.is_finite() => format!("{number:e}"),
        Value::Double(number) => number.to_string(),
        Value::String(text) => quoted(text.as_str()),
        Value::Bytes(bytes) => {
            bytes.as_slice().iter().fold("b".into(), |text, byte| format!("{text}{byte:02x}"))
        }
        Value::Duration(nanos) => format!("duration({nanos})"),
        Value::Timestamp(time) => format!("timestamp({},{})", time.seconds, time.nanos),
        Value::Type(ty) => format!("type({})", ty.name()),
        Value::List(list) => format!("[{}]", list_texts(list).join(", ")),
        Value::Map(map) => {
            let mut entries = map_texts(map);
            entries.sort_unstable();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Struct(message) => format!("opaque({})", message.name),
        Value::Fields(fields) => fields_text(*fields),
        Value::Optional(None) => "none".into(),
        Value::Optional(Some(value)) => format!("some({})", show(value)),
        Value::Opaque(opaque) => format!("opaque({})", opaque.type_of().name()),
        Value::Preserved(_) => "preserved".into(),
    }
}

/// The text of a value, or of a fault in the place of one.
fn outcome(outcome: &Outcome<'_>) -> String {
    match outcome {
        Ok(value) => show(value),
        Err(failure) => format!("!err {failure}"),
    }
}

fn list_texts(list: &List<'_>) -> Vec<String> {
    list.iter().map(|element| outcome(&element)).collect()
}

fn map_texts(map: &Map<'_>) -> Vec<String> {
    if let Map::Entries(entries) = map {
        return entries
            .as_slice()
            .iter()
            .map(|(key, value)| format!("{}: {}", show(key), show(value)))
            .collect();
    }
    // The recorded texts leave out the fields that no schema knows and those that are null.
    let known = map.iter().filter(|(key, value)| {
        let missing = |failure: &cel::Failure| failure.to_string().starts_with("no such key");
        !matches!(key, Value::Null) && !value.as_ref().is_err_and(missing)
    });
    known.map(|(key, value)| format!("{}: {}", show(&key), outcome(&value))).collect()
}

fn fields_text(fields: &dyn Fields) -> String {
    format!("fields({})", fields.type_of())
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter < ' ' || letter == '\x7f' => out.push_str(&format!("\\x{:02x}", letter as u32)),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

//! The errors of values that cannot be converted, in the words of the reference.

use crate::Value;
use object::quote::Quoted;

/// The error of a key that is no text, in a map of an object.
pub(super) fn not_a_text(key: &Value<'_>) -> String {
    let name = key.go_name();
    let shown = match key {
        Value::Int(number) => quoted_rune(u32::try_from(*number).ok()),
        Value::Uint(number) => quoted_rune(u32::try_from(*number).ok()),
        Value::Null => quoted_rune(Some(0)),
        Value::Bool(flag) => format!("%!q({name}={flag})"),
        Value::Double(number) => format!("%!q({name}={})", crate::value::double(*number)),
        other => Quoted(&other.to_string()).to_string(),
    };
    format!("map key {shown} is of type {name}, not string")
}

/// The character of a number in Go's quotes.
fn quoted_rune(code: Option<u32>) -> String {
    let letter = code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
    match letter {
        '\'' => r"'\''".into(),
        '"' => "'\"'".into(),
        letter => {
            let quoted = Quoted(letter.encode_utf8(&mut [0; 4])).to_string();
            let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            format!("'{}'", inner.unwrap_or_default())
        }
    }
}

/// A key of a map as JSON has it; the error is the reference's.
pub(super) fn key_text(key: &Value<'_>) -> Result<String, String> {
    let name = key.type_of();
    let name = name.name();
    Err(match key {
        Value::String(text) => return Ok(text.as_str().to_owned()),
        Value::Opaque(opaque) => match opaque.native() {
            Some(native) => return Ok(native.text),
            None => format!("type conversion error from '{name}' to 'string'"),
        },
        Value::Int(_) | Value::Uint(_) => format!("unsupported type conversion from '{name}' to string"),
        Value::Bool(_) => "type conversion error from bool to 'string'".to_owned(),
        Value::Double(_) => "type conversion error from Double to 'string'".to_owned(),
        Value::Timestamp(_) => "type conversion error from 'Timestamp' to 'string'".to_owned(),
        Value::Duration(_) => "type conversion error from 'Duration' to 'string'".to_owned(),
        Value::Type(_) => "type conversion not supported for 'type'".to_owned(),
        Value::List(_) | Value::Map(_) => format!("type conversion error from {name} to 'string'"),
        _ => format!("type conversion error from '{name}' to 'string'"),
    })
}

/// The error of a value that has no JSON.
pub(super) fn no_json(value: &Value<'_>) -> String {
    match value {
        Value::Type(_) => "type conversion not supported for 'type'".into(),
        Value::Optional(_) => "optional.none() dereference".into(),
        Value::Struct(_) => "cannot convert to native type: *structpb.Value".into(),
        Value::Fields(fields) => {
            format!("disallowed conversion from {} to \"\"", Quoted(fields.type_of().name()))
        }
        Value::Opaque(opaque) => {
            let ty = opaque.type_of();
            let name = opaque.native().map_or_else(|| ty.name().to_owned(), |native| native.name.to_owned());
            format!("type conversion error from '{name}' to '*structpb.Value'")
        }
        other => {
            format!("unsupported native conversion from {} to '*structpb.Value'", other.type_of().name())
        }
    }
}

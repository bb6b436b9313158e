//! Values that JSON cannot hold, as the errors of the reference show them: the text of Go's `%v` and `%#v`.

use crate::Value;
use crate::value::{List, Map, Timestamp};
use object::excerpt::{MOST_BYTES, excerpt};
use object::foreign::Foreign;
use object::quote::Quoted;
use std::fmt::Write as _;

/// A value as Go shows it.
pub(super) fn of(value: &Value<'_>) -> Foreign {
    let (text, source) = match value {
        Value::Null => ("NULL_VALUE".into(), "0".into()),
        Value::Duration(nanos) => (value.to_string(), nanos.to_string()),
        Value::Timestamp(time) => (value.to_string(), date(*time)),
        Value::List(list) => shown_list(list),
        Value::Map(map) => shown_map(map),
        Value::Bytes(_) => (excerpt(value), bytes("[]uint8", value)),
        Value::Fields(_) => return failed("no such overload".into()),
        Value::Opaque(opaque) => match opaque.native() {
            Some(native) => (native.text.clone(), format!("({})({})", native.type_name, native.text)),
            None => return failed("no such overload".into()),
        },
        other => (excerpt(other), source(other)),
    };
    Foreign { type_name: value.native_name().into(), text, source }
}

/// An error in the place of a value.
pub(super) fn failed(text: String) -> Foreign {
    Foreign { type_name: "*types.Err".into(), source: format!("(*types.Err)({text})"), text }
}

/// A part of a value in the syntax of Go. What Go shows as an address is shown as itself.
fn source(value: &Value<'_>) -> String {
    match value {
        Value::String(text) => Quoted(&object::excerpt::shorten(text.as_str())).to_string(),
        Value::Uint(number) => format!("{number:#x}"),
        Value::Bytes(_) => bytes("types.Bytes", value),
        Value::Duration(nanos) => format!("types.Duration{{Duration:{nanos}}}"),
        Value::Timestamp(time) => format!("types.Timestamp{{Time:{}}}", date(*time)),
        Value::Bool(_) | Value::Int(_) | Value::Double(_) | Value::Null => value.to_string(),
        other => format!("({})({})", other.go_name(), excerpt(other)),
    }
}

fn bytes(name: &str, value: &Value<'_>) -> String {
    let Value::Bytes(bytes) = value else { return String::new() };
    let shown = bytes.as_slice().iter().take(MOST_BYTES / 6).map(|byte| format!("{byte:#x}"));
    format!("{name}{{{}}}", shown.collect::<Vec<_>>().join(", "))
}

/// A point in time: `time.Date(2024, time.January, 2, 3, 4, 5, 0, time.UTC)`.
fn date(time: Timestamp) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let at = time.civil();
    let month = usize::try_from(at.month - 1).ok().and_then(|month| MONTHS.get(month)).unwrap_or(&"");
    let zone = if time.offset == 0 { "time.UTC" } else { "time.Location(\"\")" };
    format!(
        "time.Date({}, time.{month}, {}, {}, {}, {}, {}, {zone})",
        at.year, at.day, at.hour, at.minute, at.second, time.nanos
    )
}

/// A list that an expression made: `[a b]`, and `[]ref.Val{"a", "b"}` or `[]string{"a", "b"}`.
fn shown_list(list: &List<'_>) -> (String, String) {
    let of_texts = matches!(list, List::Texts(_));
    let name = if of_texts { "[]string{" } else { "[]ref.Val{" };
    let (mut text, mut source_text) = ("[".to_owned(), name.to_owned());
    for (place, element) in list.iter().flatten().enumerate() {
        if text.len().max(source_text.len()) > MOST_BYTES {
            break;
        }
        let (space, comma) = if place == 0 { ("", "") } else { (" ", ", ") };
        // Writing into a String cannot fail.
        let _ = write!(text, "{space}{}", excerpt(&element));
        let _ = write!(source_text, "{comma}{}", source(&element));
    }
    (text + "]", source_text + "}")
}

/// A map that an expression made: `map[a:b]`, and `map[ref.Val]ref.Val{"a":"b"}`.
fn shown_map(map: &Map<'_>) -> (String, String) {
    let shown = map.iter().filter_map(|(key, value)| Some((excerpt(&key), key, value.ok()?)));
    let mut entries: Vec<_> = shown.take(MOST_BYTES).collect();
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    let (mut text, mut source_text) = ("map[".to_owned(), "map[ref.Val]ref.Val{".to_owned());
    for (place, (shown, key, value)) in entries.iter().enumerate() {
        if text.len().max(source_text.len()) > MOST_BYTES {
            break;
        }
        let (space, comma) = if place == 0 { ("", "") } else { (" ", ", ") };
        let _ = write!(text, "{space}{shown}:{}", excerpt(value));
        let _ = write!(source_text, "{comma}{}:{}", source(key), source(value));
    }
    (text + "]", source_text + "}")
}

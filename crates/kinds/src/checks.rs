//! The rules for single values that many kinds share. Each gives the error, if there is one.

use object::Value;
use object::field::{BadValue, Error, List, Path};
use object::name;
use object::quote::quote_each;
use schema::view::Items;

/// The error of a text that an update changes.
pub(crate) fn same_text(new: &str, old: &str, path: &Path<'_>) -> Option<Error> {
    (new != old).then(|| Error::invalid(path, new, "field is immutable"))
}

/// Text that has to be there.
pub(crate) fn required(text: &str, path: &Path<'_>) -> Option<Error> {
    text.is_empty().then(|| Error::required(path, ""))
}

/// A number from zero on.
pub(crate) fn non_negative(number: i64, path: &Path<'_>) -> Option<Error> {
    (number < 0).then(|| Error::invalid(path, number, "must be greater than or equal to 0"))
}

/// A number from one on.
pub(crate) fn positive(number: i64, path: &Path<'_>) -> Option<Error> {
    (number <= 0).then(|| Error::invalid(path, number, "must be greater than zero"))
}

/// One of a few texts, which the error lists.
pub(crate) fn one_of(text: &str, among: &[&str], path: &Path<'_>) -> Option<Error> {
    (!among.contains(&text)).then(|| Error::not_supported(path, text, among.iter().copied()))
}

/// Text that has to be there, and to be one of a few.
pub(crate) fn required_one_of(text: &str, among: &[&str], path: &Path<'_>) -> Option<Error> {
    required(text, path).or_else(|| one_of(text, among, path))
}

/// The protocols of ports.
pub(crate) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// A protocol of a port.
pub(crate) fn protocol(text: &str, path: &Path<'_>) -> Option<Error> {
    required_one_of(text, &PROTOCOLS, path)
}

/// A number of a port, or the name of one. Zero is absent.
pub(crate) fn port_number_or_name(port: Option<&Value>, path: &Path<'_>) -> List {
    match port.and_then(Value::as_str) {
        Some(text) => name::invalid(path, text, name::port_name(text)),
        None => port_number(port.and_then(Value::as_i64).unwrap_or_default(), path),
    }
}

/// The name of a port that has to have one beside other ports.
pub(crate) fn port_label(text: &str, among: usize, path: &Path<'_>) -> List {
    match text {
        "" if among > 1 => Error::required(path, "").into(),
        "" => List::new(),
        text => name::invalid(path, text, name::dns1123_label(text)),
    }
}

/// A number of a port.
pub(crate) fn port_number(port: i64, path: &Path<'_>) -> List {
    name::port_number(port).into_iter().map(|why| Error::invalid(path, port, why)).collect()
}

/// A number or a name of a port.
pub(crate) fn port(port: Option<&Value>, path: &Path<'_>) -> List {
    match port.and_then(Value::as_str) {
        Some(text) => name::invalid(path, text, name::port_name(text)),
        None => port_number(port.and_then(Value::as_i64).unwrap_or_default(), path),
    }
}

/// The lifetime of a token in seconds.
pub(crate) fn token_lifetime(seconds: i64, path: &Path<'_>) -> Option<Error> {
    let why = match seconds {
        ..600 => "may not specify a duration less than 10 minutes",
        600..=0x1_0000_0000 => return None,
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    Some(Error::invalid(path, seconds, why))
}

/// A value that may not change.
pub(crate) fn immutable(new: Option<&Value>, old: Option<&Value>, path: &Path<'_>) -> Option<Error> {
    (new != old).then(|| Error::invalid(path, shown(new), "field is immutable"))
}

/// A value as an error shows it. The reference shows a list or a map as a Go structure; here it is JSON.
pub(crate) fn shown(value: Option<&Value>) -> BadValue {
    value.map_or(BadValue::Null, schema::bad_value)
}

/// A list of texts of a Go type as an error shows it: `[]T{"a", "b"}`, or `[]T(nil)`.
pub(crate) fn shown_texts<'a>(of: &str, texts: Items<'a, &'a str>) -> BadValue {
    BadValue::Raw(match texts.is_empty() {
        true => format!("[]{of}(nil)"),
        false => format!("[]{of}{{{}}}", quote_each(texts.iter())),
    })
}

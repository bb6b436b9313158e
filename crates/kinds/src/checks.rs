//! The rules for single values that many kinds share. Each gives the error, if there is one.

use object::Value;
use object::field::{BadValue, Error, List, Path};
use object::name;

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

/// One of a few texts, where empty text counts as absent.
pub(crate) fn required_one_of(text: &str, among: &[&str], path: &Path<'_>) -> Option<Error> {
    required(text, path).or_else(|| one_of(text, among, path))
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

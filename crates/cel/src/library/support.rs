//! What the libraries have in common: their arguments, their results, and the texts of values in faults.

use crate::value::{Bytes, Entries, List, Map, Meter, Opaque, Str, Value};
use crate::{Failure, Function, Outcome, Overload, Run, Type};
use object::float;
use object::quote::Quoted;
use std::ops::Range;
use std::sync::Arc;

/// The most bytes of a text that a function makes. cel-go has no such bound: there, a short expression can
/// ask for more memory than a machine has.
pub(crate) const MOST_BYTES: usize = 16 << 20;

/// The text that an argument is.
pub(crate) fn text<'v, 'a>(args: &'v [Value<'a>], at: usize) -> Result<&'v Str<'a>, Failure> {
    match args.get(at) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(no_such_overload()),
    }
}

/// The text that an argument is.
pub(crate) fn str<'v>(args: &'v [Value<'_>], at: usize) -> Result<&'v str, Failure> {
    text(args, at).map(Str::as_str)
}

/// The whole number that an argument is.
pub(crate) fn int(args: &[Value<'_>], at: usize) -> Result<i64, Failure> {
    match args.get(at) {
        Some(Value::Int(number)) => Ok(*number),
        _ => Err(no_such_overload()),
    }
}

/// The boolean that an argument is.
pub(crate) fn bool(args: &[Value<'_>], at: usize) -> Result<bool, Failure> {
    match args.get(at) {
        Some(Value::Bool(value)) => Ok(*value),
        _ => Err(no_such_overload()),
    }
}

/// The list that an argument is.
pub(crate) fn list<'v, 'a>(args: &'v [Value<'a>], at: usize) -> Result<&'v List<'a>, Failure> {
    match args.get(at) {
        Some(Value::List(list)) => Ok(list),
        _ => Err(no_such_overload()),
    }
}

/// The value of a library that an argument is.
pub(crate) fn opaque<'v, T: Opaque + 'static>(args: &'v [Value<'_>], at: usize) -> Result<&'v T, Failure> {
    match args.get(at) {
        Some(Value::Opaque(value)) => value.as_any().downcast_ref().ok_or_else(no_such_overload),
        _ => Err(no_such_overload()),
    }
}

/// The fault of arguments that no signature fits.
pub(crate) fn no_such_overload() -> Failure {
    Failure::error("no such overload")
}

/// A text that a function made.
pub(crate) fn string<'a>(text: impl Into<Arc<str>>) -> Value<'a> {
    Value::String(Str::Shared(text.into()))
}

/// A list of texts that a function made.
pub(crate) fn texts<'a>(texts: Vec<Str<'a>>) -> Value<'a> {
    Value::List(List::Texts(Arc::new(texts)))
}

/// A map of entries that a function made.
pub(crate) fn entries<'a>(entries: impl IntoIterator<Item = (Value<'a>, Value<'a>)>) -> Value<'a> {
    let mut map = Entries::default();
    for (key, value) in entries {
        map.insert(key, value);
    }
    Value::Map(Map::of(map))
}

/// A value of a library.
pub(crate) fn made<'a>(value: impl Opaque + 'static) -> Value<'a> {
    Value::Opaque(Arc::new(value))
}

/// A value that is there.
pub(crate) fn some<'a>(value: Value<'a>) -> Value<'a> {
    Value::Optional(Some(Arc::new(value)))
}

/// A part of a text, by its bytes. What is borrowed stays borrowed.
pub(crate) fn part<'a>(text: &Str<'a>, range: Range<usize>) -> Str<'a> {
    match text {
        Str::Borrowed(text) => Str::Borrowed(text.get(range).unwrap_or_default()),
        Str::Shared(shared) if range == (0..shared.len()) => text.clone(),
        Str::Shared(shared) => Str::Shared(shared.get(range).unwrap_or_default().into()),
    }
}

/// A signature of a function: `overload` is called with its arguments.
pub(crate) fn overload(
    id: &'static str,
    params: impl Into<Vec<Type>>,
    result: Type,
    call: for<'a> fn(&[Value<'a>]) -> Outcome<'a>,
) -> Overload {
    Overload { id, member: false, params: params.into(), result, run: Run::Call(call) }
}

/// A signature of a function that is called on its first argument.
pub(crate) fn member(
    id: &'static str,
    params: impl Into<Vec<Type>>,
    result: Type,
    call: for<'a> fn(&[Value<'a>]) -> Outcome<'a>,
) -> Overload {
    overload(id, params, result, call).on_target()
}

/// A signature of a function that counts its own work.
pub(crate) fn metered(
    id: &'static str,
    params: impl Into<Vec<Type>>,
    result: Type,
    call: for<'a> fn(&[Value<'a>], &mut Meter<'_>) -> Outcome<'a>,
) -> Overload {
    Overload { id, member: false, params: params.into(), result, run: Run::Metered(call) }
}

/// A signature of a function that the plan evaluates itself.
pub(crate) fn planned(id: &'static str, params: impl Into<Vec<Type>>, result: Type) -> Overload {
    Overload { id, member: false, params: params.into(), result, run: Run::Planned }
}

/// A function with such signatures.
pub(crate) fn function(name: &str, overloads: impl IntoIterator<Item = Overload>) -> Function {
    Function { name: name.into(), overloads: overloads.into_iter().collect() }
}

/// A length of time as expressions write it: seconds, with a fraction, and `s`.
pub(crate) fn duration(nanos: i64) -> String {
    let seconds = object::duration::Duration::from_nanos(nanos).as_secs_f64();
    format!("{}s", float::decimal(seconds))
}

/// Whether a text is one that `%q` may quote: bytes that are UTF-8.
pub(crate) fn utf8<'v>(bytes: &'v Bytes<'_>) -> Option<&'v str> {
    std::str::from_utf8(bytes.as_slice()).ok()
}

/// A text in quotes, as Go's `%q` shows it.
pub(crate) fn quoted(text: &str) -> String {
    Quoted(text).to_string()
}

//! Functions of texts: cel-go's extension `strings`, of which release 0 is in expressions that Kubernetes
//! 1.28 reads, and release 2 since 1.29.
//!
//! | since | function |
//! |---|---|
//! | 0 | `charAt`, `indexOf`, `join`, `lastIndexOf`, `lowerAscii`, `replace`, `split`, `substring`, `trim`, `upperAscii` |
//! | 1 | `format`, `strings.quote` |
//! | 2 | `join` of a list whose type is not known looks at its elements |
//!
//! Places in texts are counted in code points.

mod format;
#[cfg(test)]
mod tests;

pub(crate) use format::{Clause, ClauseFault, Piece, clauses};

use super::support::{
    self, MOST_BYTES, function, int, list, member, metered, overload, part, str, string, text,
};
use crate::value::{Str, Value};
use crate::{Failure, Function, Halt, Outcome, Type};

/// The functions of a release of the library.
pub(crate) fn functions(release: u32) -> Vec<Function> {
    let (s, i) = (Type::String, Type::Int);
    let strings = Type::list(Type::String);
    let of = |params: &[&Type]| params.iter().map(|ty| (*ty).clone()).collect::<Vec<_>>();
    let mut functions = vec![
        function("charAt", [member("string_char_at_int", of(&[&s, &i]), Type::String, char_at)]),
        function(
            "indexOf",
            [
                member("string_index_of_string", of(&[&s, &s]), Type::Int, index_of),
                member("string_index_of_string_int", of(&[&s, &s, &i]), Type::Int, index_of),
            ],
        ),
        function(
            "lastIndexOf",
            [
                member("string_last_index_of_string", of(&[&s, &s]), Type::Int, last_index_of),
                member("string_last_index_of_string_int", of(&[&s, &s, &i]), Type::Int, last_index_of),
            ],
        ),
        function("lowerAscii", [member("string_lower_ascii", of(&[&s]), Type::String, lower_ascii)]),
        function(
            "replace",
            [
                member("string_replace_string_string", of(&[&s, &s, &s]), Type::String, replace),
                member("string_replace_string_string_int", of(&[&s, &s, &s, &i]), Type::String, replace),
            ],
        ),
        function(
            "split",
            [
                member("string_split_string", of(&[&s, &s]), strings.clone(), split),
                member("string_split_string_int", of(&[&s, &s, &i]), strings.clone(), split),
            ],
        ),
        function(
            "substring",
            [
                member("string_substring_int", of(&[&s, &i]), Type::String, substring),
                member("string_substring_int_int", of(&[&s, &i, &i]), Type::String, substring),
            ],
        ),
        function("trim", [member("string_trim", of(&[&s]), Type::String, trim)]),
        function("upperAscii", [member("string_upper_ascii", of(&[&s]), Type::String, upper_ascii)]),
        function(
            "join",
            [
                member("list_join", of(&[&strings]), Type::String, join),
                member("list_join_string", of(&[&strings, &s]), Type::String, join),
            ],
        ),
    ];
    if release >= 1 {
        let params = vec![Type::String, Type::list(Type::Dyn)];
        let format = metered("string_format", params, Type::String, format::format).on_target();
        functions.push(function("format", [format]));
        functions.push(function("strings.quote", [overload("strings_quote", [s], Type::String, quote)]));
    }
    functions
}

fn out_of_range(place: i64) -> Failure {
    Failure::error(format!("index out of range: {place}"))
}

/// The byte at which a code point begins; the end of the text for the number of its code points.
fn byte_of(text: &str, place: i64) -> Option<usize> {
    let place = usize::try_from(place).ok()?;
    if text.is_ascii() {
        return (place <= text.len()).then_some(place);
    }
    let mut left = place;
    for (at, _) in text.char_indices() {
        if left == 0 {
            return Some(at);
        }
        left -= 1;
    }
    (left == 0).then_some(text.len())
}

/// How many code points a text has.
fn length(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

fn char_at<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (text, place) = (text(args, 0)?, int(args, 1)?);
    let start = byte_of(text.as_str(), place).ok_or_else(|| out_of_range(place))?;
    let rest = text.as_str().get(start..).unwrap_or_default();
    let width = rest.chars().next().map_or(0, char::len_utf8);
    Ok(Value::String(part(text, start..start + width)))
}

fn index_of<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (text, sought) = (str(args, 0)?, str(args, 1)?);
    let from = if args.len() > 2 { int(args, 2)? } else { 0 };
    if sought.is_empty() {
        return Ok(Value::Int(from));
    }
    if from < 0 {
        return Err(out_of_range(from));
    }
    let found = byte_of(text, from).and_then(|start| {
        let rest = text.get(start..)?;
        let found = rest.find(sought)?;
        Some(from + length(rest.get(..found)?))
    });
    Ok(Value::Int(found.unwrap_or(-1)))
}

fn last_index_of<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (text, sought) = (str(args, 0)?, str(args, 1)?);
    let length_of_text = length(text);
    let last = match (args.len() > 2, sought.is_empty()) {
        (true, _) => int(args, 2)?,
        (false, true) => length_of_text,
        (false, false) => length_of_text - 1,
    };
    if sought.is_empty() {
        return Ok(Value::Int(last));
    }
    if last < 0 {
        return Err(out_of_range(last));
    }
    if last >= length_of_text {
        return Ok(Value::Int(-1));
    }
    // A match that begins at the last place or before it ends here at the latest.
    let end = byte_of(text, last).unwrap_or_default() + sought.len();
    let found = text.get(..text.floor_char_boundary(end)).and_then(|text| {
        let found = text.rfind(sought)?;
        Some(length(text.get(..found)?))
    });
    Ok(Value::Int(found.unwrap_or(-1)))
}

fn lower_ascii<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let text = text(args, 0)?;
    Ok(match text.as_str().bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => string(text.as_str().to_ascii_lowercase()),
        false => Value::String(text.clone()),
    })
}

fn upper_ascii<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let text = text(args, 0)?;
    Ok(match text.as_str().bytes().any(|byte| byte.is_ascii_lowercase()) {
        true => string(text.as_str().to_ascii_uppercase()),
        false => Value::String(text.clone()),
    })
}

fn replace<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (whole, old, new) = (text(args, 0)?, str(args, 1)?, str(args, 2)?);
    let text = whole.as_str();
    let most = if args.len() > 3 { int(args, 3)? } else { -1 };
    let times = text.matches(old).take(usize::try_from(most).unwrap_or(usize::MAX)).count();
    if times == 0 || old == new {
        return Ok(Value::String(whole.clone()));
    }
    let grown = new.len().saturating_sub(old.len()).saturating_mul(times).saturating_add(text.len());
    if grown > MOST_BYTES {
        return Err(Failure::Halt(Halt::CostLimit));
    }
    Ok(string(text.replacen(old, new, times)))
}

fn split<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (whole, separator) = (text(args, 0)?, str(args, 1)?);
    let text = whole.as_str();
    let most = if args.len() > 2 { int(args, 2)? } else { -1 };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let piece = |range| part(whole, range);
    let mut pieces = Vec::new();
    if most == 0 || (text.is_empty() && separator.is_empty()) {
        return Ok(support::texts(pieces));
    }
    let mut start = 0;
    if separator.is_empty() {
        for (at, _) in text.char_indices().skip(1).take(most - 1) {
            pieces.push(piece(start..at));
            start = at;
        }
    } else {
        for (at, _) in text.match_indices(separator).take(most - 1) {
            pieces.push(piece(start..at));
            start = at + separator.len();
        }
    }
    pieces.push(piece(start..text.len()));
    Ok(support::texts(pieces))
}

fn substring<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (text, start) = (text(args, 0)?, int(args, 1)?);
    let from = |place: i64| byte_of(text.as_str(), place).ok_or_else(|| out_of_range(place));
    if args.len() < 3 {
        return Ok(Value::String(part(text, from(start)?..text.as_str().len())));
    }
    let end = int(args, 2)?;
    if start > end {
        return Err(Failure::error(format!("invalid substring range. start: {start}, end: {end}")));
    }
    Ok(Value::String(part(text, from(start)?..from(end)?)))
}

fn trim<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let text = text(args, 0)?;
    let start = text.as_str().len() - text.as_str().trim_start().len();
    let end = text.as_str().trim_end().len();
    Ok(Value::String(part(text, start.min(end)..end)))
}

fn join<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let separator = if args.len() > 1 { str(args, 1)? } else { "" };
    let mut joined = String::new();
    for (at, element) in list(args, 0)?.iter().enumerate() {
        if at > 0 {
            joined.push_str(separator);
        }
        let element = element.map_err(|failure| match failure {
            Failure::Error(error) => Failure::error(format!("join: invalid input: {}", error.message)),
            halt => halt,
        })?;
        let Value::String(text) = &element else {
            return Err(Failure::error(format!("join: invalid input: {}", element)));
        };
        joined.push_str(text.as_str());
        if joined.len() > MOST_BYTES {
            return Err(Failure::Halt(Halt::CostLimit));
        }
    }
    Ok(Value::String(Str::Shared(joined.into())))
}

/// In quotes, with the escapes of the language.
fn quote<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let text = str(args, 0)?;
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '\x07' => quoted.push_str(r"\a"),
            '\x08' => quoted.push_str(r"\b"),
            '\x0c' => quoted.push_str(r"\f"),
            '\n' => quoted.push_str(r"\n"),
            '\r' => quoted.push_str(r"\r"),
            '\t' => quoted.push_str(r"\t"),
            '\x0b' => quoted.push_str(r"\v"),
            '\\' => quoted.push_str(r"\\"),
            '"' => quoted.push_str(r#"\""#),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    Ok(string(quoted))
}

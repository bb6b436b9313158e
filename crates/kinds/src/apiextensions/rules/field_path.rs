//! Paths to fields of a schema, as rules and selectable fields name them: `.spec.a['b.c']`.

use super::walk::single;
use ::schema::views::apiextensions::v1::JSONSchemaProps;

/// Whether a path may name a field in brackets.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Arrays {
    Allowed,
    Refused,
}

/// What a path leads to.
pub(super) struct Found<'a> {
    /// The path as errors show it.
    pub path: String,
    /// Its first step.
    pub root: String,
    /// The schema at its end; none if anything can be there.
    pub schema: Option<JSONSchemaProps<'a>>,
}

/// Follows a path through a schema.
pub(super) fn find<'a>(text: &str, schema: JSONSchemaProps<'a>, arrays: Arrays) -> Result<Found<'a>, String> {
    let mut found = Found { path: String::new(), root: String::new(), schema: Some(schema) };
    let mut rest = text;
    while let Some(token) = next(&mut rest) {
        match token {
            "[" if arrays == Arrays::Refused => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let token = next(&mut rest).ok_or_else(ended)?;
                let quoted = token.strip_prefix('\'').and_then(|token| token.strip_suffix('\''));
                let quoted =
                    quoted.ok_or_else(|| format!("expected single quoted string but got {token}"))?;
                found.step(&unescaped(quoted)?)?;
                match next(&mut rest).ok_or_else(ended)? {
                    "]" => {}
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            "." => found.step(next(&mut rest).ok_or_else(ended)?)?,
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(found)
}

fn ended() -> String {
    "unexpected end of JSON path".to_owned()
}

impl Found<'_> {
    fn step(&mut self, name: &str) -> Result<(), String> {
        let missing = || "does not refer to a valid field".to_owned();
        let schema = self.schema.ok_or_else(missing)?;
        let (shown, next) = if !schema.properties().is_empty() {
            let separator = if self.path.is_empty() { "" } else { "." };
            (format!("{separator}{name}"), Some(schema.properties().get(name).ok_or_else(missing)?))
        } else {
            let additional = schema.additional_properties().ok_or_else(missing)?;
            (format!("[{name}]"), single(Some(additional)))
        };
        if self.path.is_empty() {
            self.root = shown.clone();
        }
        self.path.push_str(&shown);
        self.schema = next;
        Ok(())
    }
}

/// The next token: a delimiter, a text in single quotes, or what stands before the next delimiter.
fn next<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let bytes = rest.as_bytes();
    let end = match bytes.first()? {
        b'\'' => {
            let end = bytes.windows(2).position(|pair| pair[1] == b'\'' && pair[0] != b'\\');
            end.map_or(bytes.len(), |at| at + 2)
        }
        b'.' | b'[' | b']' => 1,
        _ => bytes.iter().position(|byte| matches!(byte, b'.' | b'[' | b']')).unwrap_or(bytes.len()),
    };
    let (token, after) = rest.split_at_checked(end)?;
    *rest = after;
    Some(token)
}

/// A text without its escapes.
fn unescaped(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            out.push(char);
            continue;
        }
        let next = match chars.next() {
            // A backslash at the end, or before a line break, stays.
            None => '\\',
            Some('\n') => {
                out.push('\\');
                '\n'
            }
            Some('a') => '\x07',
            Some('b') => '\x08',
            Some('f') => '\x0c',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\x0b',
            Some(same @ ('\'' | '\\')) => same,
            Some(other) => return Err(format!("invalid string literal: invalid escape char \\{other}")),
        };
        out.push(next);
    }
    Ok(out)
}

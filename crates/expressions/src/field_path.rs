//! Paths to fields of a schema, as rules and selectable fields name them: `.spec.a['b.c']`.

use schema::structural::{Additional, Node};
use schema::view::View;
use schema::views::apiextensions::v1::JSONSchemaProps;

/// A schema, as far as a path goes through it.
pub trait Fields: Copy {
    /// Whether the schema lists properties.
    fn has_properties(self) -> bool;
    /// The schema of a property.
    fn property(self, name: &str) -> Option<Self>;
    /// Whether there can be other keys, and the schema of their values, if they have one.
    fn additional(self) -> Option<Option<Self>>;
}

impl Fields for JSONSchemaProps<'_> {
    fn has_properties(self) -> bool {
        !self.properties().is_empty()
    }

    fn property(self, name: &str) -> Option<Self> {
        self.properties().get(name)
    }

    fn additional(self) -> Option<Option<Self>> {
        self.additional_properties().map(|value| value.as_map().map(JSONSchemaProps::of))
    }
}

impl Fields for &Node {
    fn has_properties(self) -> bool {
        !self.properties.is_empty()
    }

    fn property(self, name: &str) -> Option<Self> {
        Node::property(self, name).map(|node| &**node)
    }

    fn additional(self) -> Option<Option<Self>> {
        match &self.additional {
            Additional::None => None,
            Additional::Any => Some(None),
            Additional::Node(node) => Some(Some(node)),
        }
    }
}

/// Whether a path may name a field in brackets.
#[derive(Clone, Copy, PartialEq)]
pub enum Arrays {
    /// It may.
    Allowed,
    /// It may not.
    Refused,
}

/// What a path leads to.
pub struct Found<S> {
    /// The path as errors show it.
    pub path: String,
    /// Its first step.
    pub root: String,
    /// The schema at its end; none if anything can be there.
    pub schema: Option<S>,
}

/// Follows a path through a schema.
pub fn find<S: Fields>(text: &str, schema: S, arrays: Arrays) -> Result<Found<S>, String> {
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

impl<S: Fields> Found<S> {
    fn step(&mut self, name: &str) -> Result<(), String> {
        let missing = || "does not refer to a valid field".to_owned();
        let schema = self.schema.ok_or_else(missing)?;
        let (shown, next) = if schema.has_properties() {
            let separator = if self.path.is_empty() { "" } else { "." };
            (format!("{separator}{name}"), Some(schema.property(name).ok_or_else(missing)?))
        } else {
            (format!("[{name}]"), schema.additional().ok_or_else(missing)?)
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
            let end = bytes.windows(2).position(|pair| matches!(pair, [before, b'\''] if *before != b'\\'));
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

//! Documents as trees, written as JSON with keys in insertion order.

use aws_lc_rs::digest::{SHA512, digest};
use object::{Key, Map, Value};
use std::fmt::Write;

/// The SHA-512 of a document in upper case hexadecimal digits: its ETag, and its hash in the OpenAPI index.
pub fn hash(document: &[u8]) -> String {
    let mut text = String::with_capacity(128);
    for byte in digest(&SHA512, document).as_ref() {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02X}");
    }
    text
}

/// An object under construction. The caller adds each key once.
#[derive(Default)]
pub(crate) struct Object(Vec<(Key, Value)>);

impl Object {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn with(mut self, key: impl Into<Key>, value: impl Into<Value>) -> Self {
        self.put(key, value);
        self
    }

    /// Adds the value if it is `Some`.
    pub(crate) fn with_some(self, key: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    pub(crate) fn put(&mut self, key: impl Into<Key>, value: impl Into<Value>) {
        self.0.push((key.into(), value.into()));
    }

    /// Adds the entries of another object.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<(String, Value)>> for Object {
    fn from(entries: Vec<(String, Value)>) -> Self {
        Self(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Map::from_distinct(object.0).into()
    }
}

/// A list of texts.
pub(crate) fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Value {
    texts.into_iter().map(Value::from).collect::<Vec<_>>().into()
}

/// The characters that are escaped beside those that JSON requires.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escape {
    /// Characters with a meaning in HTML.
    Markup,
    /// None.
    Nothing,
}

/// Writes a tree as compact JSON.
pub(crate) fn json(tree: &Value, escape: Escape) -> Vec<u8> {
    let mut out = Vec::new();
    write(tree, escape, &mut out);
    out
}

/// Recursive: its depth is that of the documents that this crate builds.
fn write(tree: &Value, escape: Escape, out: &mut Vec<u8>) {
    match tree {
        Value::Map(map) => {
            let mut before = b'{';
            for (key, value) in map.iter() {
                out.push(before);
                write_string(key, escape, out);
                out.push(b':');
                write(value, escape, out);
                before = b',';
            }
            out.extend_from_slice(if map.is_empty() { b"{}" } else { b"}" });
        }
        Value::List(list) => {
            let mut before = b'[';
            for value in list.iter() {
                out.push(before);
                write(value, escape, out);
                before = b',';
            }
            out.extend_from_slice(if list.is_empty() { b"[]" } else { b"]" });
        }
        Value::String(text) => write_string(text, escape, out),
        scalar => schema::json::encode_shape(&schema::Shape::Any, scalar, out),
    }
}

fn write_string(text: &str, escape: Escape, out: &mut Vec<u8>) {
    if escape == Escape::Markup {
        out.extend_from_slice(schema::json::string(text).as_bytes());
        return;
    }
    out.push(b'"');
    for character in text.chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\0'..' ' => out.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes()),
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_json_keeps_key_order_and_escapes_markup_on_request() {
        let tree: Value =
            Object::new().with("b", 1).with("a", texts(["<\"\n"])).with("c", Object::new()).into();
        assert_eq!(json(&tree, Escape::Nothing), br#"{"b":1,"a":["<\"\n"],"c":{}}"#);
        assert_eq!(json(&tree, Escape::Markup), br#"{"b":1,"a":["\u003c\"\n"],"c":{}}"#);
    }

    #[test]
    fn hash_is_upper_case_hexadecimal() {
        assert!(hash(b"").starts_with("CF83E1357EEFB8BDF1542850D66D8007"));
        assert_eq!(hash(b"").len(), 128);
    }
}

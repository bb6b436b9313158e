//! JSON without a type: the tree of a document with the text of its numbers and strings, and all keys in
//! their order, duplicates included. Patches need it: they are compared, copied and refused by their text.

use super::decode::utf8;
use super::scan::Scanner;
use crate::decode::{Budget, Error, Fault, Limits};
use std::borrow::Cow;

/// One value of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Node<'t> {
    /// `null`.
    Null,
    /// A number, a string with its quotes and escapes, `true` or `false`.
    Scalar(Cow<'t, str>),
    /// Values in order.
    List(Vec<Node<'t>>),
    /// Entries in order; a key may occur more than once.
    Object(Vec<Entry<'t>>),
}

/// One entry of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<'t> {
    /// The key, unescaped.
    pub key: Cow<'t, str>,
    /// The value.
    pub value: Node<'t>,
}

impl<'t> Node<'t> {
    /// Reads one document.
    ///
    /// ```
    /// use schema::{Limits, json::Node};
    /// let node = Node::read(r#"{"a": 1.0, "a": "\u0041"}"#, &Limits::default()).unwrap();
    /// let Node::Object(entries) = node else { unreachable!() };
    /// assert_eq!(entries[0].value, Node::Scalar("1.0".into()));
    /// assert_eq!(entries[1].value.text().as_deref(), Some("A"));
    /// ```
    pub fn read(text: &'t str, limits: &Limits) -> Result<Self, Error> {
        if text.len() > limits.bytes {
            return Err(Error::TooLarge(limits.bytes));
        }
        let mut reader = Reader { scanner: Scanner::new(text), budget: Budget::new(limits) };
        let node = reader.value().and_then(|node| reader.scanner.end().map(|()| node));
        node.map_err(|fault| *fault)
    }

    /// The text of a string, unescaped.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Node::Scalar(raw) if raw.starts_with('"') => Scanner::new(raw).string().ok(),
            _ => None,
        }
    }

    /// The name of the JSON type in error messages of the reference.
    pub fn kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::List(_) => "array",
            Node::Object(_) => "object",
            Node::Scalar(raw) => match raw.as_bytes().first() {
                Some(b'"') => "string",
                Some(b't' | b'f') => "bool",
                _ => "number",
            },
        }
    }

    /// The same node with owned texts.
    pub fn into_owned(self) -> Node<'static> {
        match self {
            Node::Null => Node::Null,
            Node::Scalar(raw) => Node::Scalar(raw.into_owned().into()),
            Node::List(items) => Node::List(items.into_iter().map(Node::into_owned).collect()),
            Node::Object(entries) => Node::Object(
                entries
                    .into_iter()
                    .map(|Entry { key, value }| Entry {
                        key: key.into_owned().into(),
                        value: value.into_owned(),
                    })
                    .collect(),
            ),
        }
    }
}

/// The bytes of a document as text: each byte that is not UTF-8 becomes a replacement character.
pub fn text(input: &[u8]) -> Cow<'_, str> {
    utf8(input)
}

struct Reader<'t> {
    scanner: Scanner<'t>,
    budget: Budget,
}

impl<'t> Reader<'t> {
    fn value(&mut self) -> Result<Node<'t>, Fault> {
        self.budget.value()?;
        match self.scanner.peek_token() {
            Some(b'{') => self.object(),
            Some(b'[') => self.list(),
            Some(b'n') => self.scanner.word("null").map(|()| Node::Null),
            // Skipping checks the syntax of a scalar.
            Some(_) => Ok(Node::Scalar(self.scanner.skip(0)?.text.into())),
            None => Err(self.scanner.unexpected("")),
        }
    }

    fn object(&mut self) -> Result<Node<'t>, Fault> {
        self.budget.enter()?;
        self.scanner.advance();
        let mut entries = Vec::new();
        while let Some(key) = self.scanner.key(entries.is_empty())? {
            let value = self.value()?;
            entries.push(Entry { key, value });
            if !self.scanner.more_entries()? {
                break;
            }
        }
        self.budget.leave();
        Ok(Node::Object(entries))
    }

    fn list(&mut self) -> Result<Node<'t>, Fault> {
        self.budget.enter()?;
        self.scanner.advance();
        let mut items = Vec::new();
        if self.scanner.peek_token() == Some(b']') {
            self.scanner.advance();
        } else {
            loop {
                items.push(self.value()?);
                if !self.scanner.more_elements()? {
                    break;
                }
            }
        }
        self.budget.leave();
        Ok(Node::List(items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Node::read(text, &Limits::default()).unwrap_err().to_string()
    }

    #[test]
    fn node_keeps_number_text_key_order_and_duplicate_keys() {
        let node = Node::read(r#" {"b":[1e2, null,true],"a":"\n","b":{}} "#, &Limits::default()).unwrap();
        let Node::Object(entries) = &node else { panic!("{node:?}") };
        assert_eq!(entries.iter().map(|entry| &*entry.key).collect::<Vec<_>>(), ["b", "a", "b"]);
        let list = vec![Node::Scalar("1e2".into()), Node::Null, Node::Scalar("true".into())];
        assert_eq!(entries[0].value, Node::List(list));
        assert_eq!(entries[1].value.text().as_deref(), Some("\n"));
        assert_eq!(entries[2].value, Node::Object(vec![]));
        assert_eq!(node.clone().into_owned(), node);
    }

    #[test]
    fn node_read_reports_syntax_errors_as_the_reference_does() {
        assert_eq!(refused(""), "unexpected end of JSON input");
        assert_eq!(refused(r#"{"a":1"#), "unexpected end of JSON input");
        assert_eq!(refused("[1 2]"), "invalid character '2' after array element");
        assert_eq!(refused("{} x"), "invalid character 'x' after top-level value");
        assert_eq!(refused("trux"), "invalid character 'x' in literal true (expecting 'e')");
        assert_eq!(refused("]"), "invalid character ']' looking for beginning of value");
        assert_eq!(refused(&"[".repeat(600)), "exceeded max depth");
    }
}

//! From JSON text to YAML text.

use super::emit::Emitter;
use super::go::yaml_float;
use super::resolve::{Scalar, number};
use super::sort::sort_keys;
use crate::decode::{Error, Fault};
use crate::json::Scanner;
use crate::model::Type;
use object::Value;
use std::borrow::Cow;

/// Lists and maps within each other: more than any decoder lets in.
const DEEPEST: usize = 1000;

/// A value in the order in which it is written.
pub(super) enum Node<'t> {
    /// Null, a boolean or a number.
    Plain(Cow<'t, str>),
    Text(Cow<'t, str>),
    List(Vec<Node<'t>>),
    Map(Vec<(Cow<'t, str>, Node<'t>)>),
}

/// Writes an object of a type.
pub fn encode(ty: &Type, value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut json = Vec::with_capacity(4096);
    crate::json::encode(ty, value, &mut json);
    from_json(&crate::json::utf8(&json), out)
}

/// Writes JSON as YAML: keys in the reference's order, of equal ones the last.
pub fn from_json(json: &str, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut scanner = Scanner::new(json);
    let node = read(&mut scanner, DEEPEST).and_then(|node| scanner.end().map(|()| node));
    Emitter::new(out).document(&node.map_err(|fault| *fault)?);
    Ok(())
}

fn read<'t>(scanner: &mut Scanner<'t>, depth: usize) -> Result<Node<'t>, Fault> {
    let deeper = || depth.checked_sub(1).ok_or_else(|| Fault::new(Error::TooDeep));
    Ok(match scanner.peek_token() {
        Some(b'{') => {
            let depth = deeper()?;
            scanner.advance();
            let mut entries = Vec::new();
            while let Some(key) = scanner.key(entries.is_empty())? {
                entries.push((key, read(scanner, depth)?));
                if !scanner.more_entries()? {
                    break;
                }
            }
            Node::Map(sort_keys(entries))
        }
        Some(b'[') => {
            let depth = deeper()?;
            scanner.advance();
            let mut elements = Vec::new();
            if scanner.peek_token() == Some(b']') {
                scanner.advance();
                return Ok(Node::List(elements));
            }
            loop {
                elements.push(read(scanner, depth)?);
                if !scanner.more_elements()? {
                    return Ok(Node::List(elements));
                }
            }
        }
        Some(b'"') => Node::Text(scanner.string()?),
        Some(b't') => scanner.word("true").map(|()| Node::Plain("true".into()))?,
        Some(b'f') => scanner.word("false").map(|()| Node::Plain("false".into()))?,
        Some(b'n') => scanner.word("null").map(|()| Node::Plain("null".into()))?,
        Some(b'-' | b'0'..=b'9') => {
            let text = scanner.number()?;
            match number(text) {
                Some(Scalar::Int(number)) => Node::Plain(number.to_string().into()),
                Some(Scalar::Uint(number)) => Node::Plain(number.to_string().into()),
                Some(Scalar::Float(number)) => Node::Plain(yaml_float(number).into()),
                // Past all that a number can be, it is text.
                _ => Node::Text(text.into()),
            }
        }
        _ => return Err(scanner.unexpected("looking for beginning of value")),
    })
}

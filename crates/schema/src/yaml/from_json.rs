//! JSON text to YAML text.

use super::emit::Emitter;
use super::go::yaml_float;
use super::resolve::{Scalar, number};
use super::sort::sort_keys;
use crate::decode::{Error, Fault};
use crate::json::Scanner;
use crate::model::Type;
use object::Value;
use std::borrow::Cow;

/// The nesting limit: above the limit of every decoder.
const DEEPEST: usize = 1000;

/// A value to be emitted, with its keys in order.
pub(super) enum EmitNode<'t> {
    /// Null, a boolean or a number.
    Plain(Cow<'t, str>),
    Text(Cow<'t, str>),
    List(Vec<EmitNode<'t>>),
    Map(Vec<(Cow<'t, str>, EmitNode<'t>)>),
}

/// Writes an object of a type.
pub fn encode(ty: &Type, value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut json = Vec::with_capacity(4096);
    crate::json::encode(ty, value, &mut json);
    from_json(&crate::json::utf8(&json), out)
}

/// Writes JSON as YAML: keys in the order of the reference, the last of duplicate keys.
pub fn from_json(json: &str, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut scanner = Scanner::new(json);
    let node = read(&mut scanner, DEEPEST).and_then(|node| scanner.end().map(|()| node));
    Emitter::new(out).document(&node.map_err(|fault| *fault)?);
    Ok(())
}

fn read<'t>(scanner: &mut Scanner<'t>, depth: usize) -> Result<EmitNode<'t>, Fault> {
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
            EmitNode::Map(sort_keys(entries))
        }
        Some(b'[') => {
            let depth = deeper()?;
            scanner.advance();
            let mut elements = Vec::new();
            if scanner.peek_token() == Some(b']') {
                scanner.advance();
                return Ok(EmitNode::List(elements));
            }
            loop {
                elements.push(read(scanner, depth)?);
                if !scanner.more_elements()? {
                    return Ok(EmitNode::List(elements));
                }
            }
        }
        Some(b'"') => EmitNode::Text(scanner.string()?),
        Some(b't') => scanner.word("true").map(|()| EmitNode::Plain("true".into()))?,
        Some(b'f') => scanner.word("false").map(|()| EmitNode::Plain("false".into()))?,
        Some(b'n') => scanner.word("null").map(|()| EmitNode::Plain("null".into()))?,
        Some(b'-' | b'0'..=b'9') => {
            let text = scanner.number()?;
            match number(text) {
                Some(Scalar::Int(number)) => EmitNode::Plain(number.to_string().into()),
                Some(Scalar::Uint(number)) => EmitNode::Plain(number.to_string().into()),
                Some(Scalar::Float(number)) => EmitNode::Plain(yaml_float(number).into()),
                // A number out of range is written as a string.
                _ => EmitNode::Text(text.into()),
            }
        }
        _ => return Err(scanner.unexpected("looking for beginning of value")),
    })
}

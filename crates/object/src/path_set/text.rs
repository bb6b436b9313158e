//! The text of a set, as in `fieldsV1`: an object whose keys are elements, in which the key `.` says that
//! the path up to here is in the set. An element with an empty object is in it, too.

use super::build::settle;
use super::{Node, Set};
use crate::path::scan::{Scanner, Source};
use crate::path::text::{Markup, push_escaped};
use crate::path::{Element, Error, JsonError};
use std::sync::Arc;

impl Set {
    /// The text of the set.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.push_json(&mut out);
        out
    }

    /// Appends the text of the set.
    pub fn push_json(&self, out: &mut String) {
        out.push('{');
        push_nodes(&self.nodes, "", &mut String::new(), out);
        out.push('}');
    }

    /// Reads the text of a set. Elements of sorts that do not exist are left out.
    pub fn from_json(text: &str) -> Result<Self, JsonError> {
        let mut scanner = Scanner::new(text, Source::Stream);
        let mut pending = Vec::with_capacity(text.len().min(4096) / 32);
        let level = read_level(&mut scanner, &mut pending)?;
        Ok(level.children.map(Arc::unwrap_or_clone).unwrap_or_default())
    }
}

/// Writes the nodes of a level, each after a comma but the first, which comes after `separator`.
fn push_nodes(nodes: &[Node], mut separator: &'static str, scratch: &mut String, out: &mut String) {
    for node in nodes {
        out.push_str(separator);
        separator = ",";
        out.push('"');
        push_key(&node.element, scratch, out);
        out.push_str("\":{");
        if let Some(children) = &node.children {
            let own = if node.member { "\".\":{}," } else { "" };
            push_nodes(&children.nodes, own, scratch, out);
        }
        out.push('}');
    }
}

/// Writes the text of an element as a key, without its quotes.
pub(super) fn push_key(element: &Element, scratch: &mut String, out: &mut String) {
    match element {
        Element::Field(name) => {
            out.push_str("f:");
            push_escaped(name, Markup::Plain, out);
        }
        element => {
            scratch.clear();
            element.push_text(scratch);
            push_escaped(scratch, Markup::Plain, out);
        }
    }
}

/// What an element means.
struct Level {
    member: bool,
    children: Option<Arc<Set>>,
}

/// Reads the value of an element. The nodes of the levels that are not complete yet are pending, so that a
/// complete one is allocated once, in its size.
fn read_level(scanner: &mut Scanner<'_>, pending: &mut Vec<Node>) -> Result<Level, JsonError> {
    if scanner.skip_empty_object() {
        return Ok(Level { member: true, children: None });
    }
    let start = pending.len();
    let mut sorted = true;
    let mut member = false;
    scanner.map(|scanner, key| {
        if key == "." {
            member = true;
            return if scanner.skip_empty_object() { Ok(()) } else { scanner.skip() };
        }
        let element: Element = match key.parse() {
            Ok(element) => element,
            Err(Error::UnknownType) => return scanner.skip(),
            Err(error) => return Err(scanner.error("parsing key as path element", &error.to_string())),
        };
        let Level { member, children } = read_level(scanner, pending)?;
        sorted &= pending.get(start..).and_then(<[_]>::last).is_none_or(|last| last.element < element);
        pending.push(Node { element, member, children });
        Ok(())
    })?;
    let mut nodes: Vec<Node> = pending.drain(start..).collect();
    if !sorted {
        nodes = settle(nodes, replace);
    }
    let children = Set { nodes }.into_children();
    Ok(Level { member: member || children.is_none(), children })
}

/// Of elements that are there twice, the children of the last that has any count.
fn replace(node: &mut Node, member: bool, children: Option<Arc<Set>>) {
    node.member |= member;
    if children.is_some() {
        node.children = children;
    }
}

//! YAML nodes to JSON text: aliases and merge keys are resolved, keys become strings, the last of duplicate
//! keys wins.
//!
//! Aliases make a document larger than its text. Three limits bound their expansion: the ratio that the
//! reference allows, the number of values, and the bytes of text.

use super::go;
use super::parse::{Content, Document, NodeId, YamlNode};
use super::resolve::{Scalar, resolve};
use super::{fault, fault_plain};
use crate::decode::{Budget, Decoded, Fault, Limits};
use crate::json::{write_float, write_text};
use object::Text;
use std::collections::HashMap;
use std::fmt::Write;

/// The value of a node, with aliases resolved.
#[derive(Debug)]
pub(super) enum YamlValue {
    Scalar(Scalar),
    List(Vec<YamlValue>),
    Map(Vec<(Scalar, YamlValue)>),
}

/// A document as JSON, and its duplicate keys.
pub(super) struct Converted {
    pub(super) json: Vec<u8>,
    /// `line 4: key "a" already set in map`.
    pub(super) repeated: Vec<String>,
}

/// Writes a document as JSON.
pub(super) fn write(document: &Document, limits: &Limits) -> Result<Converted, Fault> {
    let mut converter = Converter {
        nodes: &document.nodes,
        budget: Budget::new(limits),
        bytes_left: limits.bytes,
        followed: 0,
        count: 0,
        count_in_aliases: 0,
        open: Vec::new(),
        repeated: Vec::new(),
    };
    let item = match document.root {
        Some(root) => {
            // The document itself is counted like a node.
            converter.count += 1;
            converter.item(root)?
        }
        None => YamlValue::Scalar(Scalar::Null),
    };
    check_keys(&item)?;
    let mut json = Vec::new();
    write_item(&item, &mut json)?;
    Ok(Converted { json, repeated: converter.repeated })
}

struct Converter<'d> {
    nodes: &'d [YamlNode],
    budget: Budget,
    /// The bytes of text that aliases may still add.
    bytes_left: usize,
    /// The number of open aliases.
    followed: usize,
    /// The number of nodes read, counted again for each alias; then the number of those inside aliases.
    count: u64,
    count_in_aliases: u64,
    /// The open aliases: one that contains itself is an error.
    open: Vec<NodeId>,
    repeated: Vec<String>,
}

/// The entries of a map, and the index of each key.
#[derive(Default)]
struct MapEntries {
    list: Vec<(Scalar, YamlValue)>,
    places: HashMap<Scalar, usize>,
}

impl<'d> Converter<'d> {
    fn node(&self, id: NodeId) -> Result<&'d YamlNode, Fault> {
        self.nodes.get(id as usize).ok_or_else(|| fault("unknown problem parsing YAML content"))
    }

    /// Counts a node that is read.
    fn count(&mut self) -> Result<(), Fault> {
        self.count += 1;
        if self.followed > 0 {
            self.count_in_aliases += 1;
        }
        let share = self.count_in_aliases as f64 / self.count as f64;
        if self.count_in_aliases > 100 && self.count > 1000 && share > allowed_share(self.count) {
            return Err(excessive());
        }
        Ok(())
    }

    fn item(&mut self, id: NodeId) -> Result<YamlValue, Fault> {
        self.count()?;
        let node = self.node(id)?;
        match &node.content {
            Content::Alias(alias) => {
                self.follow(id, &alias.name)?;
                let item = self.item(alias.target)?;
                self.unfollow();
                Ok(item)
            }
            Content::Plain(text) => self.text(text).and_then(|()| resolve(text, "")).map(YamlValue::Scalar),
            Content::Quoted(text) => self.text(text).map(|()| YamlValue::Scalar(Scalar::Text(text.clone()))),
            Content::TaggedScalar(tagged) => {
                self.text(&tagged.text)?;
                resolve(&tagged.text, &tagged.tag).map(YamlValue::Scalar)
            }
            Content::Sequence(elements) => {
                self.budget.enter()?;
                let mut list = Vec::with_capacity(elements.len());
                for element in elements {
                    self.budget.value()?;
                    list.push(self.item(*element)?);
                }
                self.budget.leave();
                Ok(YamlValue::List(list))
            }
            Content::Mapping(_) => {
                let mut entries = MapEntries::default();
                self.entries(node, &mut entries)?;
                Ok(YamlValue::Map(entries.list))
            }
        }
    }

    /// Counts the text of a scalar that is read.
    fn text(&mut self, text: &str) -> Result<(), Fault> {
        if self.followed > 0 {
            self.bytes_left = self.bytes_left.checked_sub(text.len()).ok_or_else(excessive)?;
        }
        Ok(())
    }

    fn follow(&mut self, alias: NodeId, name: &str) -> Result<(), Fault> {
        if self.open.contains(&alias) {
            return Err(fault(format!("anchor '{name}' value contains itself")));
        }
        self.budget.enter()?;
        self.open.push(alias);
        self.followed += 1;
        Ok(())
    }

    fn unfollow(&mut self) {
        self.budget.leave();
        self.open.pop();
        self.followed -= 1;
    }

    /// Adds the entries of a mapping to `entries`.
    fn entries(&mut self, mapping: &'d YamlNode, entries: &mut MapEntries) -> Result<(), Fault> {
        let Content::Mapping(children) = &mapping.content else { return Err(not_mergeable()) };
        self.budget.enter()?;
        let (pairs, _) = children.as_chunks::<2>();
        for [key, value] in pairs {
            if self.is_merge(*key)? {
                self.merge(*value, entries)?;
                continue;
            }
            let key = match self.item(*key)? {
                YamlValue::Scalar(key) => key,
                collection => {
                    let mut message = String::from("invalid map key: ");
                    go::show(&collection, &mut message);
                    return Err(fault(message));
                }
            };
            self.budget.value()?;
            let line = self.node(*value)?.line as usize + 1;
            let value = self.item(*value)?;
            self.set(entries, key, value, line);
        }
        self.budget.leave();
        Ok(())
    }

    fn set(&mut self, entries: &mut MapEntries, key: Scalar, value: YamlValue, line: usize) {
        let earlier = entries.places.get(&key).and_then(|at| entries.list.get_mut(*at));
        match earlier {
            Some((_, earlier)) => {
                *earlier = value;
                if self.repeated.len() < Decoded::MOST_STRICT {
                    let mut message = format!("line {line}: key ");
                    go::show_scalar(&key, &mut message);
                    message.push_str(" already set in map");
                    self.repeated.push(message);
                }
            }
            None => {
                entries.places.insert(key.clone(), entries.list.len());
                entries.list.push((key, value));
            }
        }
    }

    fn is_merge(&self, key: NodeId) -> Result<bool, Fault> {
        Ok(match &self.node(key)?.content {
            Content::Plain(text) => text == "<<",
            Content::TaggedScalar(tagged) => {
                tagged.text == "<<" && matches!(tagged.tag.as_str(), "!" | "tag:yaml.org,2002:merge")
            }
            _ => false,
        })
    }

    /// Resolves a merge key: the entries of a mapping, or of several, where the first one wins.
    fn merge(&mut self, value: NodeId, entries: &mut MapEntries) -> Result<(), Fault> {
        match &self.node(value)?.content {
            Content::Sequence(elements) => {
                elements.iter().rev().try_for_each(|element| self.merge_one(*element, entries))
            }
            _ => self.merge_one(value, entries),
        }
    }

    fn merge_one(&mut self, value: NodeId, entries: &mut MapEntries) -> Result<(), Fault> {
        let node = self.node(value)?;
        match &node.content {
            Content::Mapping(_) => {
                self.count()?;
                self.entries(node, entries)
            }
            Content::Alias(alias) => {
                let target = self.node(alias.target)?;
                if !matches!(target.content, Content::Mapping(_)) {
                    return Err(not_mergeable());
                }
                self.count()?;
                self.follow(value, &alias.name)?;
                self.count()?;
                self.entries(target, entries)?;
                self.unfollow();
                Ok(())
            }
            _ => Err(not_mergeable()),
        }
    }
}

#[cold]
fn excessive() -> Fault {
    fault("document contains excessive aliasing")
}

#[cold]
fn not_mergeable() -> Fault {
    fault("map merge requires map or sequence of maps as the value")
}

/// The allowed ratio of nodes from aliases, by the number of nodes.
fn allowed_share(count: u64) -> f64 {
    const LOW: u64 = 400_000;
    const HIGH: u64 = 4_000_000;
    match count {
        ..=LOW => 0.99,
        HIGH.. => 0.10,
        _ => 0.99 - 0.89 * ((count - LOW) as f64 / (HIGH - LOW) as f64),
    }
}

/// Checks that all keys of all maps can be JSON keys.
fn check_keys(item: &YamlValue) -> Result<(), Fault> {
    match item {
        YamlValue::Scalar(_) => Ok(()),
        YamlValue::List(list) => list.iter().try_for_each(check_keys),
        YamlValue::Map(entries) => entries.iter().try_for_each(|(key, value)| {
            let kind = match key {
                Scalar::Null => "%!s(<nil>)",
                Scalar::Uint(_) => "uint64",
                _ => return check_keys(value),
            };
            let mut message = format!("unsupported map key of type: {kind}, key: ");
            go::show_scalar(key, &mut message);
            message.push_str(", value: ");
            go::show(value, &mut message);
            Err(fault_plain(message))
        }),
    }
}

/// A key as a string.
fn key_text(key: &Scalar) -> Text {
    match key {
        Scalar::Text(text) => text.clone(),
        Scalar::Bool(true) => Text::known("true"),
        Scalar::Bool(false) => Text::known("false"),
        Scalar::Int(number) => Text::from(itoa::Buffer::new().format(*number)),
        Scalar::Float(number) => go::key_float(*number).into(),
        Scalar::Null | Scalar::Uint(_) => Text::default(),
    }
}

fn write_item(item: &YamlValue, out: &mut Vec<u8>) -> Result<(), Fault> {
    match item {
        YamlValue::Scalar(scalar) => return write_scalar(scalar, out),
        YamlValue::List(list) => {
            out.push(b'[');
            for (at, element) in list.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_item(element, out)?;
            }
            out.push(b']');
        }
        YamlValue::Map(entries) => {
            let mut sorted: Vec<_> = entries.iter().map(|(key, value)| (key_text(key), value)).collect();
            sorted.sort_by(|a, b| a.0.cmp(&b.0));
            // Keys of different types can have the same text: the last one wins.
            sorted.dedup_by(|later, kept| {
                let same = later.0 == kept.0;
                if same {
                    kept.1 = later.1;
                }
                same
            });
            out.push(b'{');
            for (at, (key, value)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_text(&key, out);
                out.push(b':');
                write_item(value, out)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

fn write_scalar(scalar: &Scalar, out: &mut Vec<u8>) -> Result<(), Fault> {
    match scalar {
        Scalar::Null => out.extend_from_slice(b"null"),
        Scalar::Bool(true) => out.extend_from_slice(b"true"),
        Scalar::Bool(false) => out.extend_from_slice(b"false"),
        Scalar::Int(number) => out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes()),
        Scalar::Uint(number) => out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes()),
        Scalar::Float(number) if number.is_finite() => write_float(*number, out),
        Scalar::Float(number) => {
            let mut message = String::from("json: unsupported value: ");
            let _ = write!(message, "{}", go::go_float(*number));
            return Err(fault_plain(message));
        }
        Scalar::Text(text) => write_text(text, out),
    }
    Ok(())
}

//! The types that a schema declares for its values, as expressions see them, and how large the values can be.

mod builtin;

pub use builtin::of_type;

use cel::declared::{Declared, DeclaredField};
use cel::escape::escape;
use object::Text;
use schema::structural::{Additional, Node, NodeType};
use std::collections::HashSet;
use std::sync::Arc;

/// Whether a node is an object with `kind`, `apiVersion` and `metadata`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Declaration {
    /// The node is the root of a custom resource, or an embedded object.
    Resource,
    /// The node is any other value.
    Value,
}

impl Declaration {
    /// Of a node below the root.
    pub fn below_root(node: &Node) -> Self {
        if node.embedded_resource { Self::Resource } else { Self::Value }
    }
}

/// What a node declares for the rules of its schema; `None` if expressions cannot see its values.
pub fn of(node: &Node, declaration: Declaration) -> Option<Arc<Declared>> {
    Reader::Rules.of(node, declaration)
}

/// What the root of a schema declares for expressions outside of that schema, which see objects as OpenAPI
/// documents describe them: with all of their metadata.
pub fn published(root: &Node) -> Option<Arc<Declared>> {
    Reader::Documents.of(root, Declaration::Resource)
}

/// For whom a schema is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// For its own rules.
    Rules,
    /// For those who know it from OpenAPI documents.
    Documents,
}

impl Reader {
    fn of(self, node: &Node, declaration: Declaration) -> Option<Arc<Declared>> {
        let below = |node: &Node| self.of(node, Declaration::below_root(node));
        let rules = node.rules.as_ref();
        let format = rules.map_or("", |rules| rules.format.as_str());
        if node.int_or_string || (self == Self::Documents && format == "int-or-string") {
            return Some(Arc::new(Declared::int_or_string()));
        }
        Some(Arc::new(match node.ty? {
            NodeType::Array => {
                Declared::list(below(node.items.as_ref()?)?, rules.and_then(|rules| rules.max_items))
            }
            NodeType::Object => match &node.additional {
                Additional::Node(values) => {
                    Declared::map(below(values)?, rules.and_then(|rules| rules.max_properties))
                }
                Additional::None | Additional::Any => Declared::object(self.fields(node, declaration)),
            },
            NodeType::String => match format {
                "byte" => Declared::bytes(rules.and_then(|rules| rules.max_length)),
                "duration" => Declared::duration(),
                "date" => Declared::date(),
                "date-time" => Declared::date_time(),
                _ => {
                    let listed = rules.map_or(&[][..], |rules| &rules.values);
                    let longest = listed.iter().filter_map(|of| of.value().as_str()).map(str::len).max();
                    let longest = (!listed.is_empty()).then(|| longest.unwrap_or(0));
                    Declared::string(rules.and_then(|rules| rules.max_length), longest)
                }
            },
            NodeType::Boolean => Declared::boolean(),
            NodeType::Number => Declared::number(),
            NodeType::Integer => Declared::integer(),
        }))
    }

    fn fields(self, node: &Node, declaration: Declaration) -> Vec<DeclaredField> {
        let mut fields = Vec::with_capacity(node.properties.len());
        let required = node.rules.as_ref().map_or(&[][..], |rules| &rules.required);
        let required: HashSet<&str> = required.iter().map(Text::as_str).collect();
        let is_kept = self == Self::Rules && node.declares_meta();
        let replaced = declaration == Declaration::Resource && !is_kept;
        let is_replaced = |name: &str| replaced && matches!(name, "kind" | "apiVersion" | "metadata");
        for (name, property) in &node.properties {
            if is_replaced(name) {
                continue;
            }
            let Some(declared) = self.of(property, Declaration::below_root(property)) else { continue };
            fields.push(field(name, declared, &required, property.default.is_some()));
        }
        if replaced {
            let metadata = match self {
                Self::Rules => identifying_metadata(),
                Self::Documents => builtin::metadata(),
            };
            fields.push(field("metadata", metadata, &required, false));
            fields.extend(["kind", "apiVersion"].map(|name| field(name, text(), &required, false)));
        }
        fields
    }
}

/// A text of any length.
fn text() -> Arc<Declared> {
    Arc::new(Declared::string(None, None))
}

/// The metadata that every object has.
fn identifying_metadata() -> Arc<Declared> {
    let names = ["name", "generateName"].map(|name| field(name, text(), &HashSet::new(), false));
    Arc::new(Declared::object(names.into()))
}

fn field(name: &str, declared: Arc<Declared>, required: &HashSet<&str>, has_default: bool) -> DeclaredField {
    DeclaredField {
        name: name.into(),
        escaped: escape(name).map(|escaped| escaped.into()),
        declared,
        is_required: required.contains(name),
        has_default,
    }
}

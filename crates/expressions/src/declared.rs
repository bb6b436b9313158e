//! The types that a structural schema declares for its values, as expressions see them, and how large the
//! values can be.

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

/// What a node declares; `None` if expressions cannot see its values.
pub fn of(node: &Node, declaration: Declaration) -> Option<Arc<Declared>> {
    let below = |node: &Node| of(node, Declaration::below_root(node));
    if node.int_or_string {
        return Some(Arc::new(Declared::int_or_string()));
    }
    let rules = node.rules.as_ref();
    Some(Arc::new(match node.ty? {
        NodeType::Array => {
            Declared::list(below(node.items.as_ref()?)?, rules.and_then(|rules| rules.max_items))
        }
        NodeType::Object => match &node.additional {
            Additional::Node(values) => {
                Declared::map(below(values)?, rules.and_then(|rules| rules.max_properties))
            }
            Additional::None | Additional::Any => Declared::object(fields(node, declaration)),
        },
        NodeType::String => match rules.map_or("", |rules| rules.format.as_str()) {
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

fn fields(node: &Node, declaration: Declaration) -> Vec<DeclaredField> {
    let mut fields = Vec::with_capacity(node.properties.len());
    let required = node.rules.as_ref().map_or(&[][..], |rules| &rules.required);
    let required: HashSet<&str> = required.iter().map(Text::as_str).collect();
    let replaced = declaration == Declaration::Resource && !node.declares_meta();
    let is_replaced = |name: &str| replaced && matches!(name, "kind" | "apiVersion" | "metadata");
    for (name, property) in &node.properties {
        if is_replaced(name) {
            continue;
        }
        let Some(declared) = of(property, Declaration::below_root(property)) else { continue };
        fields.push(field(name, declared, &required, property.default.is_some()));
    }
    if replaced {
        let text = || Arc::new(Declared::string(None, None));
        let names = ["name", "generateName"].map(|name| field(name, text(), &HashSet::new(), false));
        fields.push(field("metadata", Arc::new(Declared::object(names.into())), &required, false));
        fields.extend(["kind", "apiVersion"].map(|name| field(name, text(), &required, false)));
    }
    fields
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

//! Structural schemas as the shapes of values that expressions see.

use super::{Additional, ListType, Node, NodeType};
use object::shape::{Form, ListForm, Shape};

impl Node {
    /// Whether the schema itself says of an object what every object has, so that expressions see it as the
    /// schema says.
    pub fn declares_meta(&self) -> bool {
        let is = |node: &Node, ty| node.ty == Some(ty);
        let of = |name: &str, ty| self.property(name).filter(|node| is(node, ty));
        of("kind", NodeType::String).is_some()
            && of("apiVersion", NodeType::String).is_some()
            && of("metadata", NodeType::Object).is_some_and(|metadata| {
                ["name", "generateName"]
                    .iter()
                    .all(|name| metadata.property(name).is_some_and(|node| is(node, NodeType::String)))
            })
    }

    /// The schema of a property of an object that has `kind`, `apiVersion` and `metadata`. Of the metadata
    /// expressions see the name alone, unless the schema has both kinds of names itself.
    pub fn resource_property(&self, name: &str) -> Option<&dyn Shape> {
        if !self.declares_meta() {
            match name {
                "kind" | "apiVersion" => return Some(&Meta::Text),
                "metadata" => return Some(&Meta::Metadata),
                _ => {}
            }
        }
        self.property(name).map(|node| &**node as &dyn Shape)
    }
}

impl Shape for Node {
    fn form(&self) -> Form<'_> {
        if self.int_or_string {
            return Form::IntOrString;
        }
        match self.ty {
            Some(NodeType::Object) if self.embedded_resource || !self.properties.is_empty() => Form::Object,
            Some(NodeType::Object) => Form::Map,
            Some(NodeType::Array) => Form::List(match &self.list_type {
                ListType::Atomic => ListForm::Atomic,
                ListType::Set => ListForm::Set,
                ListType::Map(keys) => ListForm::Map(keys),
            }),
            Some(NodeType::String) => match self.rules.as_ref().map_or("", |rules| rules.format.as_str()) {
                "byte" => Form::Bytes,
                "duration" => Form::Duration,
                "date" => Form::Date,
                "date-time" => Form::DateTime,
                _ => Form::String,
            },
            Some(NodeType::Boolean) => Form::Boolean,
            Some(NodeType::Integer) => Form::Integer,
            Some(NodeType::Number) => Form::Number,
            None if self.preserve_unknown_fields => Form::Preserved,
            None => Form::Unknown,
        }
    }

    fn is_nullable(&self) -> bool {
        self.nullable
    }

    fn field(&self, key: &str) -> Option<&dyn Shape> {
        if self.embedded_resource {
            return self.resource_property(key);
        }
        if !self.properties.is_empty() {
            return self.property(key).map(|node| &**node as &dyn Shape);
        }
        match &self.additional {
            Additional::Node(node) => Some(&**node),
            Additional::None | Additional::Any => None,
        }
    }

    fn items(&self) -> Option<&dyn Shape> {
        self.items.as_ref().map(|node| &**node as &dyn Shape)
    }
}

/// The shapes of what every object has.
enum Meta {
    Metadata,
    Text,
}

impl Shape for Meta {
    fn form(&self) -> Form<'_> {
        match self {
            Self::Metadata => Form::Object,
            Self::Text => Form::String,
        }
    }

    fn is_nullable(&self) -> bool {
        false
    }

    fn field(&self, key: &str) -> Option<&dyn Shape> {
        match (self, key) {
            (Self::Metadata, "name" | "generateName") => Some(&Self::Text),
            _ => None,
        }
    }

    fn items(&self) -> Option<&dyn Shape> {
        None
    }
}

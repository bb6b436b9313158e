//! Structural schemas: the types of custom resources, in the form in which objects are read, completed and
//! checked by them.
//!
//! A custom resource is decoded as a plain tree, because a value of the wrong type is a fault of the object
//! (422), not of its bytes. The schema is then applied to the tree, in this order:
//!
//! | step | when | here |
//! |---|---|---|
//! | prune | whenever an object is decoded, or came out of a conversion | [`Structural::prune`] |
//! | default | of what a client sent, of what a patch made, and of what is stored | [`Structural::default`] |
//! | validate | before an object is stored | [`Structural::validate`] |
//!
//! A schema is compiled once ([`Structural::compile`]). Equal schemas, and equal parts of different schemas,
//! share memory: most definitions repeat a few. Descriptions, titles and examples are left out; OpenAPI reads
//! them from the definition.

mod compile;
mod default;
mod edit;
mod embedded;
mod format;
mod intern;
mod lists;
mod prune;
mod shape;
#[cfg(test)]
mod tests;
mod validate;

pub use compile::CompileError;
pub use default::Defaulted;
pub use embedded::{Outermost, is_meta, readable_metadata};
pub use intern::Interned;
pub use prune::Pruned;
pub use validate::{Keyed, go_text};

use object::{Key, Text, Value};
use std::fmt;

/// The schema of a custom kind in one version.
pub struct Structural {
    number: u32,
    root: Interned<Node>,
}

/// Shows only the number.
impl fmt::Debug for Structural {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Structural({})", self.number)
    }
}

impl Structural {
    /// A number that no other schema has or had. Equal schemas that are in use at the same time have the
    /// same.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The schema of the object itself.
    pub fn root(&self) -> &Interned<Node> {
        &self.root
    }
}

/// The schema of the value at one path.
#[derive(PartialEq, Eq, Hash)]
pub struct Node {
    /// The type of the value; `None` if any type is allowed, or an integer or a string.
    pub ty: Option<NodeType>,
    /// Whether the value can be null.
    pub nullable: bool,
    /// Whether the value is an integer or a string: `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// Whether fields that are not listed are kept: `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown_fields: bool,
    /// Whether the value is an object with `kind`, `apiVersion` and `metadata`:
    /// `x-kubernetes-embedded-resource`.
    pub embedded_resource: bool,
    /// How server-side apply merges a list.
    pub list_type: ListType,
    /// Whether server-side apply merges an object as one value: `x-kubernetes-map-type: atomic`.
    pub atomic_map: bool,
    /// The fields, sorted by name.
    pub properties: Box<[(Key, Interned<Node>)]>,
    /// The values of other keys.
    pub additional: Additional,
    /// The items of a list.
    pub items: Option<Interned<Node>>,
    /// The default of an absent value.
    pub default: Option<Box<Constant>>,
    /// The rules for the value, if there are any.
    pub rules: Option<Interned<Rules>>,
    /// Whether this node or a nested one has a default.
    pub has_defaults: bool,
    /// Whether this node or a nested one is a list of the type `set` or `map`.
    pub has_list_types: bool,
    /// Whether this node or a nested one is an embedded object.
    pub has_embedded_resources: bool,
}

/// The types of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum NodeType {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

/// How server-side apply merges a list: `x-kubernetes-list-type`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ListType {
    /// As one value.
    #[default]
    Atomic,
    /// By the values of its items, which are distinct.
    Set,
    /// By these fields of its items.
    Map(Box<[Text]>),
}

/// The schema for keys that are not in `properties`.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub enum Additional {
    /// There are no other keys.
    #[default]
    None,
    /// Anything: `additionalProperties: true`.
    Any,
    /// Values of a schema.
    Node(Interned<Node>),
}

/// A value in a schema: a default, or one of an enumeration. Two constants are equal if their JSON texts are
/// and their values: the same default can lose other fields at another place.
#[derive(Clone)]
pub struct Constant {
    value: Value,
    text: Box<str>,
    /// About how long the JSON of the value is.
    bytes: usize,
}

/// The validation keywords for a value, beside `type` and the structure.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Rules {
    /// The format of a string or a number.
    pub format: Text,
    /// The least value.
    pub minimum: Option<Bound>,
    /// The greatest value.
    pub maximum: Option<Bound>,
    /// What a number is a multiple of.
    pub multiple_of: Option<Number>,
    /// The least number of characters.
    pub min_length: Option<i64>,
    /// The greatest number of characters.
    pub max_length: Option<i64>,
    /// The pattern of a string, in RE2 syntax.
    pub pattern: Text,
    /// The least number of items.
    pub min_items: Option<i64>,
    /// The greatest number of items.
    pub max_items: Option<i64>,
    /// Whether items are distinct.
    pub unique_items: bool,
    /// The least number of fields.
    pub min_properties: Option<i64>,
    /// The greatest number of fields.
    pub max_properties: Option<i64>,
    /// The fields that have to be there.
    pub required: Box<[Text]>,
    /// The values that are allowed; any if there are none.
    pub values: Box<[Constant]>,
    /// Schemas that all hold.
    pub all_of: Box<[Interned<Nested>]>,
    /// Schemas of which one holds at least.
    pub any_of: Box<[Interned<Nested>]>,
    /// Schemas of which exactly one holds.
    pub one_of: Box<[Interned<Nested>]>,
    /// A schema that does not hold.
    pub not: Option<Interned<Nested>>,
    /// The expressions that have to be true: `x-kubernetes-validations`.
    pub expressions: Box<[Expression]>,
}

/// A schema below `allOf`, `anyOf`, `oneOf` or `not`: rules for a value, and for values within it. It has no
/// structure of its own.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Nested {
    /// The type, which is allowed here only for an integer or a string.
    pub ty: Option<NodeType>,
    /// The rules.
    pub rules: Rules,
    /// The rules for fields, sorted by name.
    pub properties: Box<[(Key, Interned<Nested>)]>,
    /// The rules for the values of other keys.
    pub additional: Option<Interned<Nested>>,
    /// The rules for items.
    pub items: Option<Interned<Nested>>,
}

/// A number in a schema.
#[derive(Clone, Copy, Debug)]
pub struct Number(pub f64);

/// The end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bound {
    /// The number.
    pub at: Number,
    /// Whether the number itself is excluded.
    pub exclusive: bool,
}

/// A rule in the expression language: `x-kubernetes-validations`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expression {
    /// The expression.
    pub rule: Text,
    /// The message if the expression is false.
    pub message: Text,
    /// An expression that makes the message.
    pub message_expression: Text,
    /// The reason of the error.
    pub reason: Text,
    /// The field that the error names, relative to the value.
    pub field_path: Text,
    /// Whether the old value may be absent: `optionalOldSelf`.
    pub optional_old_self: Option<bool>,
}

impl Node {
    /// The field called `name`.
    pub fn property(&self, name: &str) -> Option<&Interned<Node>> {
        self.properties.get(self.position(name)?).map(|(_, node)| node)
    }

    /// The index of a field in `properties`.
    fn position(&self, name: &str) -> Option<usize> {
        self.properties.binary_search_by(|(key, _)| key.as_str().cmp(name)).ok()
    }

    /// The schema of the value of a key; `None` for a key that is neither in `properties` nor covered by
    /// `additional`.
    pub fn child(&self, name: &str) -> Option<&Interned<Node>> {
        self.property(name).or(self.additional.node())
    }
}

impl Additional {
    /// Whether there are no other keys.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The schema of the values.
    pub fn node(&self) -> Option<&Interned<Node>> {
        match self {
            Self::Node(node) => Some(node),
            Self::None | Self::Any => None,
        }
    }
}

impl Constant {
    /// The value.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The JSON text of the value, as in the definition.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// About how long the JSON of the value is. A default is longer than its text by the defaults within it.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl PartialEq for Constant {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.value == other.value
    }
}

impl Eq for Constant {}

impl std::hash::Hash for Constant {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Number {}

impl std::hash::Hash for Number {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

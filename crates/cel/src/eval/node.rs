//! What a plan consists of. Nodes lie in one list and refer to each other and to the tables beside it by
//! number.

use crate::cost::actual::Rule;
use crate::env::{Run, TypeProvider};
use crate::value::{Entries, Value};
use crate::{Failure, Type};
use pattern::Pattern;
use std::sync::Arc;

/// The number of a node.
pub(super) type NodeId = u32;

/// A part of a table of numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) len: u32,
}

/// A step of a plan. What is said of costs holds beside those of the operands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Node {
    /// A constant; costs nothing.
    Constant(u32),
    /// A variable or a value and the fields of it.
    Attribute(u32),
    /// Whether a field is there.
    Has(u32),
    /// `a && b`; costs nothing.
    And(Span),
    /// `a || b`; costs nothing.
    Or(Span),
    /// `a == b`.
    Equal(NodeId, NodeId),
    /// `a != b`.
    NotEqual(NodeId, NodeId),
    /// An operator or a function of the standard library with one operand.
    Unary { op: Op, rule: Rule, operand: NodeId },
    /// An operator or a function of the standard library with two operands.
    Binary { op: Op, rule: Rule, left: NodeId, right: NodeId },
    /// A list or map of a loop that becomes larger: `accu + [x]`. `right` is the operand; of an insertion
    /// with a key it is the place of the key among the numbers, and the value is the next one.
    Grow { op: Op, rule: Rule, local: u32, right: NodeId },
    /// `a.matches(b)` with a constant pattern.
    Matches { pattern: u32, rule: Rule, text: NodeId, constant: NodeId },
    /// `a in b` with constant elements; costs nothing.
    Member { set: u32, element: NodeId },
    /// A function of a library.
    Call(u32),
    /// `a.or(b)`; costs nothing.
    OrOptional(NodeId, NodeId),
    /// `a.orValue(b)`; costs nothing.
    OrValue(NodeId, NodeId),
    /// `[a, b]`.
    List(Span),
    /// `{a: b}`: keys and values by turns.
    Map(Span),
    /// `Name{field: value}`.
    Struct(u32),
    /// A loop.
    Fold(u32),
}

/// What the standard library does itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Negate,
    Not,
    Less,
    LessEquals,
    Greater,
    GreaterEquals,
    In,
    Size,
    Type,
    Dyn,
    NotStrictlyFalse,
    Contains,
    StartsWith,
    EndsWith,
    Matches,
    /// `cel.@mapInsert` with a map.
    InsertMap,
    /// `cel.@mapInsert` with a key and a value.
    InsertEntry,
}

impl Op {
    /// The operation of a function's name and its number of arguments.
    pub(super) fn of(function: &str, arguments: usize) -> Option<Self> {
        Some(match (function, arguments) {
            ("_+_", 2) => Self::Add,
            ("_-_", 2) => Self::Subtract,
            ("_*_", 2) => Self::Multiply,
            ("_/_", 2) => Self::Divide,
            ("_%_", 2) => Self::Modulo,
            ("-_", 1) => Self::Negate,
            ("!_", 1) => Self::Not,
            ("_<_", 2) => Self::Less,
            ("_<=_", 2) => Self::LessEquals,
            ("_>_", 2) => Self::Greater,
            ("_>=_", 2) => Self::GreaterEquals,
            ("@in" | "_in_" | "in", 2) => Self::In,
            ("size", 1) => Self::Size,
            ("type", 1) => Self::Type,
            ("dyn", 1) => Self::Dyn,
            ("@not_strictly_false" | "__not_strictly_false__", 1) => Self::NotStrictlyFalse,
            ("contains", 2) => Self::Contains,
            ("startsWith", 2) => Self::StartsWith,
            ("endsWith", 2) => Self::EndsWith,
            ("matches", 2) => Self::Matches,
            ("cel.@mapInsert", 2) => Self::InsertMap,
            ("cel.@mapInsert", 3) => Self::InsertEntry,
            _ => return None,
        })
    }

    /// The name of the function.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Add => "_+_",
            Self::Subtract => "_-_",
            Self::Multiply => "_*_",
            Self::Divide => "_/_",
            Self::Modulo => "_%_",
            Self::Negate => "-_",
            Self::Not => "!_",
            Self::Less => "_<_",
            Self::LessEquals => "_<=_",
            Self::Greater => "_>_",
            Self::GreaterEquals => "_>=_",
            Self::In => "@in",
            Self::Size => "size",
            Self::Type => "type",
            Self::Dyn => "dyn",
            Self::NotStrictlyFalse => "@not_strictly_false",
            Self::Contains => "contains",
            Self::StartsWith => "startsWith",
            Self::EndsWith => "endsWith",
            Self::Matches => "matches",
            Self::InsertMap | Self::InsertEntry => "cel.@mapInsert",
        }
    }
}

/// A value and the fields of it that are looked at, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attribute {
    pub(super) base: Base,
    pub(super) qualifiers: Span,
}

/// What an attribute begins with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Base {
    /// A variable.
    Slot(u32),
    /// A name of a loop.
    Local(u32),
    /// A variable that the environment does not have, by its name among the constants.
    Missing(u32),
    /// The value of a node.
    Node(NodeId),
    /// One of two attributes.
    Choice { condition: NodeId, truthy: u32, falsy: u32 },
}

/// A field, key or index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Qualifier {
    pub(super) by: By,
    /// Whether the result is an optional value.
    pub(super) optional: bool,
    /// Whether it is only asked if it is there.
    pub(super) test: bool,
}

/// What a part of a value is found by.
#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    /// A constant text, among the names.
    Name(u32),
    /// The same, of an object whose type is known.
    Field(u32),
    /// Another constant.
    Constant(u32),
    /// The value of an attribute, which costs nothing itself.
    Attribute(u32),
    /// The value of a node.
    Node(NodeId),
}

/// A constant text by which fields are found.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) text: Arc<str>,
    /// The property that is written so; `None` if none is.
    pub(super) property: Option<Arc<str>>,
}

/// A call of a function of a library.
pub(super) struct Call {
    pub(super) function: Arc<str>,
    pub(super) overloads: Box<[Callable]>,
    pub(super) arguments: Span,
    pub(super) rule: Rule,
    /// Whether the arguments after one that is an error are evaluated too.
    pub(super) eager: bool,
    /// The pattern, if it is constant.
    pub(super) pattern: Option<Box<Pattern>>,
}

/// What can be called.
pub(super) struct Callable {
    pub(super) params: Box<[Type]>,
    pub(super) run: Run,
}

/// A message to be made.
pub(super) struct Message {
    pub(super) name: Arc<str>,
    pub(super) fields: Box<[Arc<str>]>,
    pub(super) values: Span,
    /// What makes it; nothing for the messages that stand for values.
    pub(super) types: Option<Arc<dyn TypeProvider>>,
}

/// A loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    pub(super) range: NodeId,
    /// The local of the accumulator; those of the variables follow.
    pub(super) accumulator: u32,
    pub(super) two_variables: bool,
    pub(super) init: NodeId,
    pub(super) condition: NodeId,
    pub(super) step: NodeId,
    pub(super) result: NodeId,
}

/// The tables of a plan.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) nodes: Vec<Node>,
    pub(super) numbers: Vec<NodeId>,
    pub(super) constants: Vec<Result<Value<'static>, Failure>>,
    pub(super) attributes: Vec<Attribute>,
    pub(super) qualifiers: Vec<Qualifier>,
    pub(super) names: Vec<Name>,
    pub(super) sets: Vec<Entries<'static>>,
    pub(super) patterns: Vec<Pattern>,
    pub(super) calls: Vec<Call>,
    pub(super) messages: Vec<Message>,
    pub(super) folds: Vec<Fold>,
    /// The names of the variables in use, by slot.
    pub(super) variables: Vec<(u32, Arc<str>)>,
    /// The most names of loops that there are at once.
    pub(super) locals: u32,
}

/// The locals of a loop: its accumulator and its variables.
pub(super) const LOCALS: u32 = 3;

/// The bit of a number of an optional element.
pub(super) const OPTIONAL: u32 = 1 << 31;

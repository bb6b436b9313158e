//! The tree of an expression, as the parser makes it.
//!
//! Nodes lie in one list and refer to each other by number. The number of a node is also its identity: a
//! macro can use the same argument at two places of what it expands to, and both are then the same node. A
//! macro can also drop a node: what the root does not lead to belongs to no part of the expression.

use crate::Value;
use crate::issues::Source;
use std::sync::Arc;

/// The number of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExprId(pub u32);

/// A parsed expression.
#[derive(Debug, Clone)]
pub struct Ast {
    pub(crate) source: Arc<Source>,
    /// The nodes; an operand has been added before the node that it belongs to.
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: ExprId,
}

/// A node and its place in the text.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) expr: Expr,
    /// The code point at which cel-go reports faults of this node.
    pub(crate) offset: u32,
}

impl Ast {
    /// The node that has the value of the expression.
    pub fn root(&self) -> ExprId {
        self.root
    }

    /// A node.
    #[allow(clippy::indexing_slicing, reason = "only the tree itself makes numbers of its nodes")]
    pub fn expr(&self, id: ExprId) -> &Expr {
        &self.nodes[id.0 as usize].expr
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether a node of the expression is such a one.
    pub fn any(&self, mut is_it: impl FnMut(&Expr) -> bool) -> bool {
        let mut seen = vec![false; self.nodes.len()];
        let mut open = vec![self.root];
        while let Some(id) = open.pop() {
            let Some(seen) = seen.get_mut(id.0 as usize) else { continue };
            if std::mem::replace(seen, true) {
                continue;
            }
            let expr = self.expr(id);
            if is_it(expr) {
                return true;
            }
            expr.operands(&mut open);
        }
        false
    }

    /// Whether there are no nodes: never.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many nodes there are from the root down to the deepest one.
    pub(crate) fn depth(&self) -> usize {
        let mut depths: Vec<usize> = Vec::with_capacity(self.nodes.len());
        let mut operands = Vec::new();
        for node in &self.nodes {
            operands.clear();
            node.expr.operands(&mut operands);
            let below = operands.iter().filter_map(|id| depths.get(id.0 as usize)).max();
            depths.push(below.map_or(1, |below| below + 1));
        }
        depths.get(self.root.0 as usize).copied().unwrap_or(1)
    }
}

/// The kinds of nodes.
#[derive(Debug, Clone)]
pub enum Expr {
    /// A constant.
    Literal(Value<'static>),
    /// A name; with a leading dot if it is meant from the root.
    Ident(Arc<str>),
    /// `operand.field`, or `has(operand.field)`.
    Select {
        /// What the field is of.
        operand: ExprId,
        /// The name of the field.
        field: Arc<str>,
        /// Whether it is asked only if the field is there.
        test_only: bool,
    },
    /// `function(arguments)` or `target.function(arguments)`; operators are functions with cel-go's names
    /// (`_+_`, `_[_]`, `_?_:_`).
    Call {
        /// The name of the function.
        function: Arc<str>,
        /// What a member function is called on.
        target: Option<ExprId>,
        /// The arguments.
        args: Vec<ExprId>,
    },
    /// `[a, ?b]`.
    List {
        /// The elements.
        elements: Vec<ExprId>,
        /// The places of those that are optional, in order.
        optional: Vec<u32>,
    },
    /// `{key: value, ?key: value}`.
    Map(Vec<MapEntry>),
    /// `Name{field: value}`.
    Struct {
        /// The name of the type.
        name: Arc<str>,
        /// The fields.
        fields: Vec<StructField>,
    },
    /// A loop that a macro expanded to.
    Comprehension(Box<Comprehension>),
}

impl Expr {
    /// Adds the nodes that a node is made of.
    pub(crate) fn operands(&self, out: &mut Vec<ExprId>) {
        match self {
            Self::Literal(_) | Self::Ident(_) => {}
            Self::Select { operand, .. } => out.push(*operand),
            Self::Call { target, args, .. } => out.extend(target.iter().chain(args)),
            Self::List { elements, .. } => out.extend(elements),
            Self::Map(entries) => out.extend(entries.iter().flat_map(|entry| [entry.key, entry.value])),
            Self::Struct { fields, .. } => out.extend(fields.iter().map(|field| field.value)),
            Self::Comprehension(fold) => {
                out.extend([fold.range, fold.init, fold.condition, fold.step, fold.result]);
            }
        }
    }
}

/// An entry of a map.
#[derive(Debug, Clone)]
pub struct MapEntry {
    /// The node that stands for the entry itself: a `null` that nothing evaluates, at the colon.
    pub id: ExprId,
    /// The key.
    pub key: ExprId,
    /// The value.
    pub value: ExprId,
    /// Whether the entry is left out if its value is `optional.none()`.
    pub optional: bool,
}

/// A field of a message.
#[derive(Debug, Clone)]
pub struct StructField {
    /// The node that stands for the field itself: a `null` that nothing evaluates, at the colon.
    pub id: ExprId,
    /// Its name.
    pub name: Arc<str>,
    /// Its value.
    pub value: ExprId,
    /// Whether the field is left out if its value is `optional.none()`.
    pub optional: bool,
}

/// `accu = init; for (var in range) { if (!condition) break; accu = step }; result`.
#[derive(Debug, Clone)]
pub struct Comprehension {
    /// The list or map.
    pub range: ExprId,
    /// The name of an element, or of a key.
    pub var: Arc<str>,
    /// The name of a value, with `var` for its key or index.
    pub var2: Option<Arc<str>>,
    /// The name of what is accumulated.
    pub accu: Arc<str>,
    /// Its first value.
    pub init: ExprId,
    /// Whether to go on.
    pub condition: ExprId,
    /// Its next value.
    pub step: ExprId,
    /// The value of the whole.
    pub result: ExprId,
}

/// The name of the accumulator in the expansion of macros; no text can write it.
pub const ACCUMULATOR: &str = "@result";

/// The name that the accumulator had in older releases of cel-go, which texts can write. cel-go still knows
/// the name.
pub(crate) const OLD_ACCUMULATOR: &str = "__result__";

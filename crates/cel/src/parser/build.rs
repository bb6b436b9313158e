//! Puts trees together.

use super::names::Name;
use crate::Value;
use crate::ast::{Comprehension, Expr, ExprId, Node};
use std::sync::Arc;

/// The offset of a node that has no place: faults of it are of line -1.
pub(super) const NOWHERE: u32 = u32::MAX;

/// The offset of a node that stands for something that is missing: faults of it are before the first column.
pub(super) const BEFORE: u32 = u32::MAX - 1;

/// The number of nodes that macros may repeat in one tree. Each link of a chain of `optMap` repeats all links
/// before it.
const REPEATED: usize = 20_000;

/// The nodes of a tree that is being put together.
#[derive(Default)]
pub(super) struct Builder {
    pub(super) nodes: Vec<Node>,
    /// The nodes that were repeated so far.
    repeated: usize,
}

/// A tree would have too many nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

impl Builder {
    /// With room for this many nodes.
    pub(super) fn with_capacity(nodes: usize) -> Self {
        Self { nodes: Vec::with_capacity(nodes), repeated: 0 }
    }

    /// Adds a node.
    pub(super) fn add(&mut self, offset: u32, expr: Expr) -> ExprId {
        let id = ExprId(self.nodes.len() as u32);
        self.nodes.push(Node { expr, offset });
        id
    }

    /// A node.
    pub(super) fn node(&self, id: ExprId) -> Option<&Node> {
        self.nodes.get(id.0 as usize)
    }

    /// The offset of a node.
    pub(super) fn offset(&self, id: ExprId) -> u32 {
        self.node(id).map_or(NOWHERE, |node| node.offset)
    }

    /// The name that a node is, if it is one.
    pub(super) fn ident(&self, id: ExprId) -> Option<&Arc<str>> {
        match &self.node(id)?.expr {
            Expr::Ident(name) => Some(name),
            _ => None,
        }
    }

    /// A constant.
    pub(super) fn literal(&mut self, offset: u32, value: Value<'static>) -> ExprId {
        self.add(offset, Expr::Literal(value))
    }

    /// A node that stands for an entry of a map, or for something that could not be read.
    pub(super) fn placeholder(&mut self, offset: u32) -> ExprId {
        self.literal(offset, Value::Null)
    }

    /// A call of a function that is not a member.
    pub(super) fn call(&mut self, offset: u32, function: Name, args: Vec<ExprId>) -> ExprId {
        self.add(offset, Expr::Call { function: function.text(), target: None, args })
    }

    /// Terms between `&&` or between `||`, as a tree of the least height. There is one operator less than
    /// there are terms.
    pub(super) fn balanced(&mut self, function: Name, terms: &[ExprId], operators: &[u32]) -> ExprId {
        let middle = operators.len() / 2;
        match (operators.get(middle), terms) {
            (Some(offset), [_, _, ..]) => {
                let (left, right) = terms.split_at_checked(middle + 1).unwrap_or((terms, &[]));
                let (before, after) = operators.split_at_checked(middle).unwrap_or((operators, &[]));
                let left = self.balanced(function, left, before);
                let right = self.balanced(function, right, after.get(1..).unwrap_or_default());
                self.call(*offset, function, vec![left, right])
            }
            (_, [term, ..]) => *term,
            (_, []) => self.placeholder(NOWHERE),
        }
    }

    /// A copy of a node and of everything below it. Entries of maps are copied to an offset of their own.
    pub(super) fn copy(&mut self, root: ExprId, offset_of_entries: u32) -> Result<ExprId, TooLarge> {
        let mut below = vec![root];
        let mut next = 0;
        while let Some(id) = below.get(next).copied() {
            next += 1;
            if let Some(node) = self.node(id) {
                node.expr.operands(&mut below);
                below.extend(entries(&node.expr));
            }
            if self.repeated + below.len() > REPEATED {
                return Err(TooLarge);
            }
        }
        self.repeated += below.len();
        below.sort_unstable();
        let first = self.nodes.len() as u32;
        for old in &below {
            let Some(node) = self.node(*old) else { continue };
            let mut node = node.clone();
            let mut moved = |id: &mut ExprId| {
                if let Ok(place) = below.binary_search(id) {
                    *id = ExprId(first + place as u32);
                }
            };
            operands_mut(&mut node.expr, &mut moved);
            self.nodes.push(node);
        }
        for place in 0..below.len() {
            let copied = self.node(ExprId(first + place as u32));
            for id in copied.map(|node| entries(&node.expr)).unwrap_or_default() {
                if let Some(node) = self.nodes.get_mut(id.0 as usize) {
                    node.offset = offset_of_entries;
                }
            }
        }
        Ok(below.binary_search(&root).map_or(root, |place| ExprId(first + place as u32)))
    }
}

/// The nodes that stand for the entries of a map or for the fields of a message.
fn entries(expr: &Expr) -> Vec<ExprId> {
    match expr {
        Expr::Map(map) => map.iter().map(|entry| entry.id).collect(),
        Expr::Struct { fields, .. } => fields.iter().map(|field| field.id).collect(),
        _ => Vec::new(),
    }
}

/// The nodes that a node refers to, with those of its entries, to be changed.
fn operands_mut(expr: &mut Expr, take: &mut dyn FnMut(&mut ExprId)) {
    match expr {
        Expr::Literal(_) | Expr::Ident(_) => {}
        Expr::Select { operand, .. } => take(operand),
        Expr::Call { target, args, .. } => target.iter_mut().chain(args).for_each(take),
        Expr::List { elements, .. } => elements.iter_mut().for_each(take),
        Expr::Map(entries) => {
            for entry in entries {
                take(&mut entry.id);
                take(&mut entry.key);
                take(&mut entry.value);
            }
        }
        Expr::Struct { fields, .. } => {
            for field in fields {
                take(&mut field.id);
                take(&mut field.value);
            }
        }
        Expr::Comprehension(loops) => {
            let Comprehension { range, init, condition, step, result, .. } = &mut **loops;
            for id in [range, init, condition, step, result] {
                take(id);
            }
        }
    }
}

//! Finds the types of expressions, as cel-go does: the same types, the same overloads of calls, the same
//! faults with the same words at the same places. The checker goes on after a fault.
//!
//! What is bounded here: the depth of the tree ([`DEEPEST`]), the parts of a type
//! ([`crate::types::MAX_PARTS`]), and the steps over parts of types by the number of nodes. Past any of them
//! an expression is refused.

mod calls;
mod faults;
mod format;
mod literals;
mod messages;
mod names;
mod substitution;
#[cfg(test)]
mod tests;
mod walk;

use crate::ast::{Ast, Expr, ExprId};
use crate::cost::{CostEstimate, Sizes};
use crate::value::Value;
use crate::{Env, Issues, Type};
pub(crate) use names::value_of_type;
use std::sync::Arc;
use substitution::Substitution;

/// How many nodes an expression may be nested deep, macros included. Checker, estimate, planner and evaluator
/// recurse over the tree, and workers of the server have stacks of 2 MB.
const DEEPEST: usize = 600;

/// The steps over parts of types that every expression has.
const STEPS: usize = 100_000;

/// The steps that each node adds.
const STEPS_OF_NODE: usize = 60;

/// An expression whose types are known.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The tree, in which names and functions are whole: `a.b` is one name if it is a variable, and
    /// `math.least()` is called on nothing.
    pub(crate) ast: Ast,
    /// The types of the nodes, by number.
    pub(crate) types: Vec<Option<Type>>,
    /// What names and calls refer to, by number of their nodes.
    pub(crate) references: Vec<Option<Reference>>,
}

/// What a node refers to.
#[derive(Debug, Clone)]
pub(crate) enum Reference {
    /// A variable, a local name or a type, by its whole name; with the value if it is a constant or a type.
    Ident(Arc<str>, Option<Value<'static>>),
    /// The overloads that a call may have, by their ids.
    Call(Vec<&'static str>),
}

/// Finds the types of an expression.
pub(crate) fn check(env: &Env, mut ast: Ast) -> Result<Checked, Issues> {
    if ast.depth() > DEEPEST {
        let mut issues = Issues::new(ast.source);
        issues.report_at(-1, -1, format!("expression is nested deeper than {DEEPEST} levels"));
        return Err(issues);
    }
    let mut checker = Checker::new(env, &ast);
    checker.check(ast.root());
    let Checker { mut types, references, rewrites, mut substitution, mut issues, .. } = checker;
    for ty in types.iter_mut().flatten() {
        *ty = substitution.close(ty);
    }
    if substitution.is_spent() {
        issues = Issues::new(ast.source.clone());
        issues.report(0, "the types of the expression are too large".to_owned());
    }
    if !issues.is_empty() {
        return Err(issues.sorted());
    }
    for (id, expr) in rewrites {
        if let Some(node) = ast.nodes.get_mut(id.0 as usize) {
            node.expr = expr;
        }
    }
    let checked = Checked { ast, types, references };
    literals::check(env, &checked, &mut issues);
    if issues.is_empty() { Ok(checked) } else { Err(issues.sorted()) }
}

/// The state of a check.
struct Checker<'a> {
    env: &'a Env,
    ast: &'a Ast,
    types: Vec<Option<Type>>,
    references: Vec<Option<Reference>>,
    /// The nodes that are other nodes than the parser could know.
    rewrites: Vec<(ExprId, Expr)>,
    substitution: Substitution,
    /// The names of the loops around a node, the innermost last.
    locals: Vec<(Arc<str>, Type)>,
    numeric_comparisons: bool,
    issues: Issues,
}

impl<'a> Checker<'a> {
    fn new(env: &'a Env, ast: &'a Ast) -> Self {
        Self {
            env,
            ast,
            types: vec![None; ast.len()],
            references: vec![None; ast.len()],
            rewrites: Vec::new(),
            substitution: Substitution::new(STEPS + STEPS_OF_NODE * ast.len()),
            locals: Vec::new(),
            numeric_comparisons: env.settings().numeric_comparisons,
            issues: Issues::new(ast.source.clone()),
        }
    }

    fn types_are_too_large(&self) -> bool {
        self.substitution.is_spent()
    }

    /// The type of a node that was checked.
    fn type_of(&self, id: ExprId) -> &Type {
        self.types.get(id.0 as usize).and_then(Option::as_ref).unwrap_or(&Type::Error)
    }

    /// The type of a node that was checked, with what its unknowns stand for so far.
    fn resolved(&mut self, id: ExprId) -> Type {
        let ty = self.type_of(id).clone();
        self.substitution.resolve(&ty)
    }

    fn set_type(&mut self, id: ExprId, ty: Type) {
        if let Some(there) = self.types.get_mut(id.0 as usize) {
            *there = Some(ty);
        }
    }

    fn set_reference(&mut self, id: ExprId, reference: Reference) {
        if let Some(there) = self.references.get_mut(id.0 as usize) {
            *there = Some(reference);
        }
    }

    /// Reports a fault at a node.
    fn report(&mut self, id: ExprId, message: impl FnOnce() -> String) {
        let offset = self.ast.nodes.get(id.0 as usize).map_or(0, |node| node.offset);
        self.issues.report(offset, message());
    }
}

impl Checked {
    /// The tree.
    pub fn ast(&self) -> &Ast {
        &self.ast
    }

    /// The type of the expression.
    pub fn result_type(&self) -> &Type {
        self.type_of(self.ast.root())
    }

    /// The type of a node.
    pub fn type_of(&self, id: ExprId) -> &Type {
        self.types.get(id.0 as usize).and_then(Option::as_ref).unwrap_or(&Type::Dyn)
    }

    /// Whether the expression refers to the variable of this name.
    pub fn refers_to(&self, name: &str) -> bool {
        self.references
            .iter()
            .flatten()
            .any(|reference| matches!(reference, Reference::Ident(there, _) if &**there == name))
    }

    /// What the expression may cost.
    pub fn estimate(&self, sizes: &dyn Sizes) -> CostEstimate {
        crate::cost::estimate::estimate(self, sizes)
    }
}

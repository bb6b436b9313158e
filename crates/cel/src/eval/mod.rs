//! Plans and their evaluation.
//!
//! A plan is a list of nodes. Names of variables and of loops are numbers in it, and the function of a call
//! and the rule of its cost are known; what differs with the types of values is found out while it is
//! evaluated.
//!
//! An evaluation costs exactly what it costs in cel-go, errors included, but for one thing: cel-go keeps the
//! values of arguments on a stack, and after an error within a loop it can find an argument of an earlier
//! turn there.
//!
//! Work that costs do not bound (the length of a text at the cost of one, equality of values within values)
//! is counted apart, by [`crate::value::Meter`], and ends an evaluation as if it was interrupted.

mod node;
mod plan;
mod run;
#[cfg(test)]
mod tests;

use crate::value::{Entries, Value};
use crate::{Checked, Env};
use node::{Attribute, Call, Fold, Message, Name, Node, NodeId, Qualifier};
use pattern::Pattern;
use std::fmt;

/// An expression that is ready to be evaluated: variables are slots, functions are known, constants are made.
pub struct Program {
    root: NodeId,
    /// How many levels deep the expression is.
    depth: u32,
    locals: u32,
    variables: Box<[(u32, std::sync::Arc<str>)]>,
    nodes: Box<[Node]>,
    numbers: Box<[NodeId]>,
    constants: Box<[Result<Value<'static>, Failure>]>,
    attributes: Box<[Attribute]>,
    qualifiers: Box<[Qualifier]>,
    names: Box<[Name]>,
    sets: Box<[Entries<'static>]>,
    patterns: Box<[Pattern]>,
    calls: Box<[Call]>,
    messages: Box<[Message]>,
    folds: Box<[Fold]>,
}

/// What an evaluation may cost, and what it has cost.
pub struct Budget<'b> {
    /// The cost at which an evaluation ends.
    pub limit: u64,
    /// What has been spent.
    pub spent: u64,
    /// Asked now and then whether to end.
    pub interrupted: Option<&'b dyn Fn() -> bool>,
}

/// A value, or why there is none.
pub type Outcome<'a> = Result<Value<'a>, Failure>;

/// Why there is no value.
#[derive(Clone, Debug)]
pub enum Failure {
    /// A fault of the values, which `&&`, `||` and `?:` can make up for.
    Error(Box<EvalError>),
    /// The evaluation ended for a reason that the expression does not see.
    Halt(Halt),
}

/// A fault of the values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalError {
    /// cel-go's text.
    pub message: String,
}

/// Why an evaluation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The budget is spent.
    CostLimit,
    /// It was interrupted.
    Interrupted,
    /// A value of this type, by Go's name of it, is where Go's run time needs one that it can hash; cel-go
    /// gives up there.
    Unhashable(&'static str),
    /// A function needs an answer that is not there yet; the evaluation can be repeated when it is.
    Waiting,
}

impl Failure {
    /// A fault with this text.
    pub fn error(message: impl Into<String>) -> Self {
        Self::Error(Box::new(EvalError { message: message.into() }))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => f.write_str(&error.message),
            Self::Halt(Halt::CostLimit) => f.write_str("operation cancelled: actual cost limit exceeded"),
            Self::Halt(Halt::Interrupted) => f.write_str("operation interrupted"),
            Self::Halt(Halt::Unhashable(name)) => {
                write!(f, "internal error: runtime error: hash of unhashable type {name}")
            }
            Self::Halt(Halt::Waiting) => f.write_str("operation waits for an answer"),
        }
    }
}

/// Plans an expression; the error is cel-go's text.
pub(crate) fn plan(env: &Env, checked: &Checked) -> Result<Program, String> {
    plan::plan(env, checked)
}

impl Program {
    /// The value of the expression for the values of its variables, by slot ([`Env::variable`]).
    pub fn evaluate<'a>(&'a self, slots: &[Value<'a>], budget: &mut Budget<'_>) -> Outcome<'a> {
        run::evaluate(self, slots, budget)
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

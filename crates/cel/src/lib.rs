//! The Common Expression Language as the Kubernetes API server speaks it: parser, type checker, costs,
//! evaluator and libraries. No IO.
//!
//! An expression goes through four steps, each of which is a type that only the step before makes:
//!
//! | step | what it has | made by |
//! |---|---|---|
//! | text | | the client |
//! | [`Ast`] | the tree, macros expanded | [`Env::parse`] |
//! | [`Checked`] | the type of every node and what every name and call refers to | [`Env::check`] |
//! | [`Program`] | a plan whose variables are slots, to be evaluated many times on many threads | [`Env::program`] |
//!
//! What cannot be compiled is described by [`Issues`], in the words and with the positions of cel-go. What an
//! evaluation may cost is known before ([`Checked::estimate`]) and counted while it runs ([`Budget`]).
//!
//! Guarantees:
//!
//! 1. No input panics or overflows the stack: depth and length are checked before anything recurses.
//! 2. An evaluation ends: its cost is bounded, and the time of a unit of cost is.
//! 3. Values of objects are borrowed from their trees; to look at a field copies nothing.

#![deny(clippy::indexing_slicing)]

pub mod ast;
mod checker;
pub mod cost;
pub mod declared;
mod env;
pub mod escape;
mod eval;
mod issues;
pub mod kubernetes;
pub mod library;
pub mod mutation;
mod parser;
pub mod types;
pub mod value;

pub use ast::{Ast, Expr, ExprId};
pub use checker::Checked;
pub use env::{Env, EnvBuilder, Function, MacroSet, Overload, Run, Settings, TypeProvider, Variable};
pub use eval::{Budget, EvalError, Failure, Halt, Outcome, Program};
pub use issues::{Issue, Issues};
pub use kubernetes::{EnvSet, Release};
pub use types::Type;
pub use value::Value;

//! The expressions of admission: of policies and of match conditions.
//!
//! They see the object before and after the change, the request, the object's namespace, the parameters of a
//! policy's binding, and an authorizer. A policy can name further values (`variables`), which are found out
//! when an expression asks for them, at most once for a batch of expressions.
//!
//! | module | job |
//! |---|---|
//! | [`scope`] | what expressions may use, with its types; compiles them |
//! | [`variables`] | the variables of a policy, and their evaluation |
//! | [`evaluation`] | evaluates a batch of expressions within a budget |
//! | [`type_check`] | what is wrong with expressions if objects have the types of a kind |

pub mod evaluation;
pub mod scope;
#[cfg(test)]
mod tests;
pub mod type_check;
pub mod variables;

pub use evaluation::{Batch, Limits, Seen, Stopped};
pub use scope::{Purpose, Scope};
pub use type_check::TypeCheck;
pub use variables::{Variable, Variables};

use crate::{Compiled, Fault};

/// An expression, which may have a fault: what is stored can have been written by another release.
#[derive(Debug)]
pub struct Expression {
    /// Its text.
    pub text: Box<str>,
    /// Its plan, or why there is none.
    pub compiled: Result<Compiled, Fault>,
}

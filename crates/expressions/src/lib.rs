//! Where the server evaluates expressions: the validation rules of custom resources
//! (`x-kubernetes-validations`), and the expressions of policies, match conditions and configuration files.
//! Selectors of devices are compiled here, and evaluated by others.
//!
//! A rule is an expression at a node of a structural schema, which has the value of that node as `self` and
//! the value before a change as `oldSelf`.
//!
//! | module | job |
//! |---|---|
//! | [`admission`] | the expressions of policies and match conditions |
//! | [`compiled`] | an expression outside of schemas |
//! | [`configuration`] | the expressions of the files that configure authentication and authorization |
//! | [`device`] | the selectors of devices |
//! | [`stage`] | what new and stored expressions may use |
//! | [`configuration`] | the expressions of the files that configure authentication and authorization |
//! | [`declared`] | the types and sizes that a schema declares for its values |
//! | [`rule`] | compiles the rules of one node, and says what they may cost |
//! | [`validator`] | the rules of a whole schema, and their evaluation on an object |
//! | [`patches`] | the mutations of policies, and what their values do to an object |
//! | [`field_path`] | the paths by which rules and selectable fields name fields |
//!
//! A rule is compiled once for a schema. Rules of equal nodes are shared by all schemas that are in use.

#![deny(clippy::indexing_slicing)]

pub mod admission;
pub mod compiled;
pub mod configuration;
mod counted;
pub mod declared;
pub mod device;
pub mod field_path;
mod message;
pub mod patches;
mod ratchet;
pub mod rule;
pub mod stage;
pub mod validator;

pub use compiled::{Compiled, Fault};
pub use counted::register_families;
pub use rule::{CompiledRule, RuleFault, RuleScope};
pub use stage::Stage;
pub use validator::{Change, OBJECT_BUDGET, Outcome, Validator};

#[cfg(test)]
mod tests;

//! Admission policies: expressions in the API that refuse or change writes.
//!
//! 1. **A policy is compiled once**, for the first write that its rules match, and not again until it
//!    changes. A write that no bound policy matches waits for nothing and allocates nothing.
//! 2. **What a policy looks up counts for the next request**: policies, bindings, namespaces and parameters
//!    are those that were acknowledged before.
//! 3. **Everything is bounded**: expressions have a budget for each policy, binding and parameter object.
//! 4. **Nobody is locked out**: no policy is asked about policies, their bindings, and the reviews that
//!    decide who may do what.
//!
//! | module | job |
//! |---|---|
//! | `definition` | policies and bindings, and which of them a write is matched by |
//! | `params` | the parameters of a binding |
//! | `mutations` | the expressions of a policy that changes objects |
//! | `mutating` | the plugin `MutatingAdmissionPolicy` |
//! | `validations` | the expressions of a validating policy |
//! | `validating` | the plugin `ValidatingAdmissionPolicy` |

mod definition;
mod mutating;
mod mutations;
mod params;
#[cfg(test)]
mod tests;
mod validating;
mod validations;

pub use mutating::MutatingAdmissionPolicy;
pub use validating::ValidatingAdmissionPolicy;

//! Faults on demand: rules that say which requests meet which fault, and the decision about each request.
//!
//! A [`Plan`] is a seed and a list of [`Rule`]s, read from a document of `/keelson/v1/faults` with all its
//! errors. [`Faults`] has the plan of a server, and [`Faults::decide`] says what happens to a request.
//! Nothing is done here: the layer of the server that asks does it.
//!
//! 1. **The same seed gives the same faults for the same requests.** Whether a rule with a share hits a
//!    request is a function of the seed, the name of the rule, the request (user, user agent, verb, resource,
//!    namespace, name), and how many equal requests the rule has matched before. How requests of different
//!    callers, or for different objects, are interleaved does not matter.
//! 2. `after` and `times` count the matches and injections of a rule as they come.
//! 3. What a rule remembers is bounded: past [`MOST_CALLS`] different requests, each further one counts as
//!    the first of its sort.

pub mod document;
mod draw;
mod plan;
mod read;
mod rule;
#[cfg(test)]
mod tests;
mod write;

pub use draw::{Call, MOST_CALLS};
pub use plan::{Faults, Hit, Hits, Plan};
pub use read::{read_plan, read_rule};
pub use rule::{CommitPoint, Fault, Match, Rule, StaleBy, WatchEnd, WatchEndsAfter};

/// The most rules of a plan.
pub const MOST_RULES: usize = 100;
/// The greatest seed: every JSON parser reads it exactly.
pub const MOST_SEED: u64 = (1 << 53) - 1;

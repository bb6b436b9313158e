//! Priority and fairness: which requests are handled now, which wait, and which are refused.
//!
//! A request is *classified* by the flow schemas ([`Schema`]): the first that matches says its *level* and
//! its *flow*. Levels share all *seats* of the server; a request takes one or more of them
//! ([`WorkEstimate`]) while it is handled. In a level without free seats it waits, in one of the queues of
//! its flow, or is refused. Among the queues the one whose turn it is by fair queuing is next. Every ten
//! seconds levels lend seats that they did not use to those that need more ([`FlowControl::adjust`]).
//!
//! 1. A request that was let in holds [`Seats`]; in whichever way it ends, they are free afterwards.
//! 2. A request that waits and whose future is dropped leaves its queue.
//! 3. There is always a level for exempt requests and one for all others, whatever is configured.
//! 4. What waits is bounded by the configuration of the levels.
//!
//! The algorithm, its numbers and its metrics are those of the reference. Configuration comes from others
//! as data; the crate knows no API objects and no HTTP.

#![deny(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::indexing_slicing, reason = "an index out of range fails the test"))]

mod control;
mod dealer;
mod demand;
mod dump;
pub mod estimate;
mod families;
mod level;
mod phases;
mod queues;
mod retry_after;
mod rules;
mod share;
mod standing;
mod timing;
mod watches;
mod work;

pub use control::{Classified, FlowControl, Seats};
pub use dump::{About, Table};
pub use level::LevelConfig;
pub use phases::{Counted, Phase, RequestKind, register_families, set_limit};
pub use queues::{Queuing, Refusal};
pub use rules::{Digest, Distinguisher, PathRule, ResourceRule, Rule, Schema, Subject};
pub use standing::{Holder, Look, Standing};
pub use watches::{Watches, Watching};
pub use work::{SeatSeconds, WorkEstimate};

//! Two answers of servers side by side: the recorded one and the one of now.
//!
//! [`normal`](normal::normal) replaces what differs from run to run (uids, versions, times, generated names)
//! by placeholders; [`differences`] are the places where two values are not equal.

mod compare;
pub mod normal;

pub use compare::{Difference, Severity, differences, find, leave_out, same};

//! The time of day by which the server decides, and waiting for a point in it. The clock can be moved.
//!
//! 1. [`now`] is the time of day. Until the clock is first moved it is that of the system, at the price of
//!    one atomic load. It may go back, as the clock of a system may.
//! 2. [`Instant`] is the time that passes for what waits. It goes forward with every step and with the rate
//!    of the clock, and never back: a wait that has begun is not made longer by a clock that is set back. What
//!    waits for a time of day looks at [`now`] again when its wait ends.
//! 3. A wait ends at once when the clock is moved past its end.
//! 4. [`system`] is the time of day of the system, whatever was moved: for logs, for stores, and for what
//!    several processes agree about. Connections, time-outs of requests and the disk have the clocks of
//!    `std` and `tokio`.
//!
//! A process has one clock. It is moved by [`change`] alone, and is that of the system again in a new
//! process.

mod instant;
mod state;
#[cfg(test)]
mod tests;
mod wait;

pub use instant::Instant;
pub use state::{Change, FASTEST, Place, Reading, Refused, change, is_settling, now, read};
pub use wait::{moved, sleep, sleep_until, timeout_at};

use std::time::SystemTime;

/// The time of day of the system.
#[allow(clippy::disallowed_methods, reason = "this is the one place that asks the system")]
pub fn system() -> SystemTime {
    SystemTime::now()
}

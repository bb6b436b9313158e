//! Recorded exchanges: requests, and what the reference answered to them, replayed against a server under
//! test.
//!
//! A file is a JSON list of [`Scenario`]s. Each has a namespace of its own, so scenarios can run beside each
//! other; the steps of one run in order. Before an answer is compared with the recorded one, what differs
//! from run to run (uids, versions, times, generated names: see [`comparison::normal`]) is replaced by
//! placeholders, and what a step ignores is removed. What is left has to be equal. Differences in the words
//! of a message or in a `Warning` or `Content-Type` header only are counted apart.
//!
//! [`replay()`] runs a whole file. The program `golden` (through `cargo xtask golden`) shows the differences;
//! the end-to-end tests use the library, with a [`Waiting`] list of what is known to be missing.

mod exchange;
mod replay;
mod scenario;
mod waiting;
mod webhook;

pub use comparison::{Difference, Severity};
pub use replay::{Outcome, StepDifferences, Summary, replay};
pub use scenario::{Error, Scenario, load};
pub use waiting::{Verdict, Waiting, ranges};
pub use webhook::Webhook;

use std::num::NonZeroUsize;
use std::path::Path;

use testkit::Server;

/// How many scenarios run beside each other by default: many of them wait for events that do not come.
pub const AT_ONCE: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// Objects are in memory: the fastest.
pub const IN_MEMORY: &[&str] = &["--storage=memory"];

/// Starts a server as the recorded one was: without controllers, with the same range of service addresses.
/// `storage` are the flags that say where objects are kept.
pub fn start_server(binary: &Path, storage: &[&str]) -> Result<Server, testkit::Error> {
    let flags = [
        "--service-cluster-ip-range=10.0.0.0/16",
        "--controllers=-*",
        "--enable-bootstrap-token-auth",
        "--enable-admission-plugins=NodeRestriction",
    ];
    Server::start(binary, &[storage, &flags].concat())
}

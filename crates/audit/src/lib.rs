//! The audit log: events of requests, by a policy, to a log file and a webhook.
//!
//! An [`Auditor`] decides how much of a request is recorded ([`Policy`]) and gives a [`Trail`], which makes
//! the events of its stages and hands them to the backends. What is kept of a request between its start and
//! its end is in its `observe::Observation`.
//!
//! 1. An event is encoded once, into bytes that all backends share; what does not change between the events
//!    of a request is encoded once for all of them.
//! 2. A backend in a blocking mode has the event before the request goes on; in the strict mode a request
//!    whose first event is not written is refused. A backend in batch mode makes no request wait: what does
//!    not fit into its buffer, which is bounded in events and in bytes, is counted and lost.
//! 3. Below the level `Request` no event has anything of an object but its name.
//! 4. A line of the log is whole: what was written of an event that did not fit on the disk is removed
//!    again.
//!
//! The crate knows nothing of HTTP responses: the layers of `server` say which stage a request is at.

#![deny(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::indexing_slicing, reason = "an index out of range fails the test"))]

mod backend;
mod buffer;
mod event;
mod file;
mod json;
pub mod metrics;
mod options;
mod policy;
mod throttle;
mod trail;
mod webhook;

pub use backend::Failure;
pub use event::Facts;
pub use options::{BatchOptions, Error, Format, LogOptions, Mode, Options, TruncateOptions, WebhookOptions};
pub use policy::{Attributes, Decision, Error as PolicyError, Policy, ResourceTarget, Stage, Stages, Target};
pub use trail::{Auditor, Outcome, Trail};

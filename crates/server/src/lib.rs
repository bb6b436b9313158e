//! The outer shell of the server: sockets, TLS, HTTP, limits, health, version, and the start and stop of
//! serving.
//!
//! A request passes through [`stack`], one list of layers, to an inner [`Handler`]; the API itself is such a
//! handler and does not know sockets. The guarantees:
//!
//! 1. Nothing a peer sends can panic the server, stop its accept loop, or make it hold memory without bound;
//!    every wait for a peer has an end ([`Limits`]).
//! 2. Errors become responses in one place, `Error::into_response`.
//! 3. Shutdown has an order: readiness fails, then new connections are refused, then requests in flight
//!    finish ([`Lifecycle`], [`Server`]).
//! 4. Private keys on disk are readable by their owner only (crate `pki`).
//!
//! Authentication and authorization are in the crate `auth`. [`Peer`] has the certificate chain of the
//! client; TLS has verified only that the client owns the key of its first certificate.

#![deny(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::indexing_slicing, reason = "an index out of range fails the test"))]

pub mod api;
mod at_end;
pub mod body;
mod connection;
mod connections;
mod cost;
mod count;
mod date;
mod deadline;
pub mod debug;
mod error;
mod fairness;
mod families;
mod handler;
pub mod health;
mod http1;
mod inject;
pub(crate) mod keelson_v1;
mod large;
mod layers;
mod lifecycle;
mod limits;
mod measure;
mod memory;
mod metered;
mod negotiate;
mod observed;
mod poll_when_woken;
mod query;
mod request;
mod request_info;
mod sending;
mod serve;
mod set_clock;
mod stack;
mod takeover;
pub mod tls;
mod unsent;
pub mod version;

pub use body::Body;
pub use cost::Costs;
pub use error::Error;
pub use fairness::{Fairness, FlowControlDebug, Flows, InFlight};
pub use handler::{Handler, Layer, Stacked};
pub use inject::Injection;
pub use layers::{Audit, Cors, Goaway, RetryAfter, TransportSecurity, Unserved};
pub use lifecycle::{Lifecycle, Phase};
pub use limits::Limits;
pub use measure::register_families;
pub use memory::{Ceiling, MemoryLayer};
pub use query::Query;
pub use request::{Peer, Request, RequestBody};
pub use schema::status::{Cause, Details, Reason, Status};
pub use serve::{Outcome, PortUse, Server, StartError};
pub use stack::{OptionalLayers, stack};

/// The response of a handler.
pub type Response = http::Response<Body>;

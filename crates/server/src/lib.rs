//! The outer shell of the server: sockets, TLS, HTTP, limits, health, version, and the start and stop of serving.
//!
//! A request travels through [`stack`], one readable list of layers, to an inner [`Handler`]; the API itself is such a
//! handler and knows nothing of sockets. What stands here:
//!
//! 1. Nothing a peer sends can panic the server, stop its accept loop, or make it hold memory without bound; every wait
//!    for a peer has an end ([`Limits`]).
//! 2. Errors become responses in one place, [`Error::into_response`].
//! 3. Shutting down is ordered: readiness fails, then new connections are refused, then what is in flight finishes
//!    ([`Lifecycle`], [`Server`]).
//! 4. Private keys on disk are readable by their owner only ([`pki`]).
//!
//! Who the caller is and what it may do is left to others; the certificate chain that the peer has proven to own the
//! key of is handed on, unverified, in [`Peer`].

pub mod api;
pub mod body;
mod connection;
mod deadline;
mod error;
mod handler;
pub mod health;
mod layers;
mod lifecycle;
mod limits;
pub mod pki;
mod query;
mod rare;
mod request;
mod serve;
mod stack;
pub mod tls;
pub mod version;

pub use body::Body;
pub use error::Error;
pub use handler::{Handler, Layer, Stacked};
pub use layers::Unserved;
pub use lifecycle::{Lifecycle, Phase};
pub use limits::Limits;
pub use query::Query;
pub use request::{Peer, Request, RequestBody};
pub use schema::status::{Cause, Details, Reason, Status};
pub use serve::{Outcome, Server, StartError};
pub use stack::stack;

/// What every handler answers with.
pub type Response = http::Response<Body>;

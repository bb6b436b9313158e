//! What the controllers do, with the binary and with real clients.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

#[path = "controllers/accounts.rs"]
mod accounts;
#[path = "controllers/certificates.rs"]
mod certificates;
#[path = "controllers/events.rs"]
mod events;
#[path = "controllers/garbage.rs"]
mod garbage;
#[path = "controllers/lifetimes.rs"]
mod lifetimes;
#[path = "controllers/namespaces.rs"]
mod namespaces;
#[path = "controllers/policies.rs"]
mod policies;

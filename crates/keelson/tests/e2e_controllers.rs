//! What the controllers do, with the binary and with real clients.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

#[path = "controllers/lifetimes.rs"]
mod lifetimes;

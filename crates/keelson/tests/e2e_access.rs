//! Who may do what, from outside: a sweep over every route, real clients, and secrets that must not be seen.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used
)]

mod access;

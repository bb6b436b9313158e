//! Hostile clients and broken disks: each case bounded in time, with its figures printed.
//!
//! `docs/security.md` has the table of what each test here excludes.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

mod hostile;

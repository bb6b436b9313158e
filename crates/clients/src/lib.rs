//! Tests of the server with client libraries of other projects.
//!
//! The tests are in `tests/`. They have a crate of their own so that the dependencies of those libraries are
//! built for these tests only.

//! Tests of the server with client libraries of other people.
//!
//! There is nothing here: the tests are in `tests/`. They have a crate of their own so that what those libraries bring
//! with them is built for these tests only.

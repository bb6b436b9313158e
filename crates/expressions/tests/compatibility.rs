//! New expressions of a server whose writes an older release reads. The setting is for the process, so this
//! file has one test.
#![allow(clippy::unwrap_used, reason = "this is test code")]

use expressions::stage::{Compatibility, Release, base, set_compatibility};

#[test]
fn new_expressions_use_what_the_oldest_compatible_release_knows() {
    set_compatibility(Compatibility { release: Release(31), selectors: true });
    // Only the first call counts.
    set_compatibility(Compatibility::default());
    let envs = base();
    assert!(envs.new.compile("[1].all(i, v, i < v)").is_err());
    assert!(envs.stored.compile("[1].all(i, v, i < v)").is_ok());
    assert!(envs.new.compile("format.named('uri')").is_ok());
}

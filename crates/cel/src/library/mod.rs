//! Functions, a file for each library.

pub mod authz;
pub(crate) mod cidr;
pub(crate) mod comprehensions;
pub(crate) mod format;
pub(crate) mod ip;
pub(crate) mod jsonpatch;
pub(crate) mod lists;
pub(crate) mod optional;
pub(crate) mod quantity;
pub(crate) mod regex;
pub(crate) mod semver;
pub(crate) mod sets;
pub(crate) mod standard;
pub(crate) mod strings;
mod support;
pub(crate) mod urls;

pub(crate) use support::duration as duration_text;

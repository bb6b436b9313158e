//! The API: what lies between HTTP and the verbs.

pub(crate) mod negotiate;
pub(crate) mod path;

//! The API: what lies between HTTP and the verbs.

pub(crate) mod path;

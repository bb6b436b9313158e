//! `secrets`.

use crate::Kind;

/// The row.
pub(crate) const KIND: Kind = Kind { resource: "secrets", singular: "secret", kind: "Secret", ..Kind::PLAIN };

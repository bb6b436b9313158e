//! `limitranges`.

use crate::Kind;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "limitranges",
    singular: "limitrange",
    kind: "LimitRange",
    short_names: &["limits"],
    ..Kind::PLAIN
};

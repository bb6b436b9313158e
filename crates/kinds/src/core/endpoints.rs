//! `endpoints`.

use crate::Kind;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "endpoints",
    singular: "endpoints",
    kind: "Endpoints",
    short_names: &["ep"],
    ..Kind::PLAIN
};

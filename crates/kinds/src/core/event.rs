//! `events`.

use crate::Kind;

/// The row.
pub(crate) const KIND: Kind =
    Kind { resource: "events", singular: "event", kind: "Event", short_names: &["ev"], ..Kind::PLAIN };

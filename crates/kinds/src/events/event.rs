//! `events`.

use crate::{Kind, Storage};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "events.k8s.io",
    resource: "events",
    singular: "event",
    kind: "Event",
    short_names: &["ev"],
    storage: Storage::Shared { group: "", resource: "events" },
    ..Kind::PLAIN
};

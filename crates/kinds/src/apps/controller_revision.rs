//! `controllerrevisions`.

use crate::Kind;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "apps",
    resource: "controllerrevisions",
    singular: "controllerrevision",
    kind: "ControllerRevision",
    ..Kind::PLAIN
};

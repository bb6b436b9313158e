//! `podtemplates`.

use crate::Kind;

/// The row.
pub(crate) const KIND: Kind =
    Kind { resource: "podtemplates", singular: "podtemplate", kind: "PodTemplate", ..Kind::PLAIN };

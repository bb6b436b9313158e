//! `resourcequotas`.

use crate::{Kind, Subresource, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "resourcequotas",
    singular: "resourcequota",
    kind: "ResourceQuota",
    short_names: &["quota"],
    subresources: &[Subresource::STATUS],
    strategy: &WithStatus,
    ..Kind::PLAIN
};

//! The kinds of `apiextensions.k8s.io`.

use crate::Kind;

mod approval;
mod custom_resource_definition;
mod rules;

pub use approval::Approval;
pub use custom_resource_definition::note_stored_version;
pub use rules::NonStructural;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[&custom_resource_definition::KIND];

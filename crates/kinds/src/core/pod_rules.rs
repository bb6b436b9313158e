//! The rules for pod specs: of pods, and of every template.

pub(in crate::core) mod containers;
pub(in crate::core) mod mounts;
pub(in crate::core) mod security;
pub(in crate::core) mod volumes;

use object::field::{List, Path};
use schema::views::core::v1::{PodSpec, PodTemplateSpec};
use schema::views::meta::v1::ObjectMeta;

/// What a pod spec may have because the object had it already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {}

impl Options {
    /// For a pod: its new and its old state.
    pub(crate) fn of_pod(_new: PodSpec<'_>, _old: Option<PodSpec<'_>>) -> Self {
        Self {}
    }

    /// For a template.
    pub(crate) fn of_template(new: PodTemplateSpec<'_>, old: Option<PodTemplateSpec<'_>>) -> Self {
        Self::of_pod(new.spec(), old.map(|old| old.spec()))
    }
}

/// The field errors of a pod spec at `path`. A template has no `metadata` of a pod.
pub(crate) fn spec(
    _spec: PodSpec<'_>,
    _metadata: Option<ObjectMeta<'_>>,
    _options: &Options,
    _path: &Path<'_>,
) -> List {
    List::new()
}

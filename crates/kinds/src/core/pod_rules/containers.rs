//! The rules for the containers of a pod.

use super::Options;
use super::volumes::Declared;
use object::field::{List, Path};
use schema::views::core::v1::PodSpec;

/// What the rules for a container need to know of its pod.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Surroundings<'a> {
    /// The spec of the pod.
    pub(in crate::core) spec: PodSpec<'a>,
    /// Its volumes.
    pub(in crate::core) volumes: &'a Declared<'a>,
    /// What the spec may have.
    pub(in crate::core) options: &'a Options,
}

/// The field errors of the regular containers; `path` is that of `containers`.
pub(in crate::core) fn regular(_pod: Surroundings<'_>, _path: &Path<'_>) -> List {
    List::new()
}

/// The field errors of the init containers; `path` is that of `initContainers`.
pub(in crate::core) fn init(_pod: Surroundings<'_>, _path: &Path<'_>) -> List {
    List::new()
}

/// The field errors of the ephemeral containers; `path` is that of `ephemeralContainers`.
pub(in crate::core) fn ephemeral(_pod: Surroundings<'_>, _path: &Path<'_>) -> List {
    List::new()
}

/// The field errors of containers that a pod has and a template does not; `path` is that of the pod spec.
pub(in crate::core) fn only_for_pod(_spec: PodSpec<'_>, _path: &Path<'_>) -> List {
    List::new()
}

/// The field errors of the host ports of a pod in the network of its host; `path` is that of the pod spec.
pub(in crate::core) fn host_network(_spec: PodSpec<'_>, _options: &Options, _path: &Path<'_>) -> List {
    List::new()
}

//! The rules for the security contexts of pods and containers.

use super::Options;
use object::field::{List, Path};
use schema::views::core::v1::PodSpec;

/// The field errors of the security context of a pod and of what the host shares with it; `path` is that of the pod spec.
pub(in crate::core) fn pod(_spec: PodSpec<'_>, _options: &Options, _path: &Path<'_>) -> List {
    List::new()
}

/// The field errors of containers that run as processes of a Windows host; `path` is that of the pod spec.
pub(in crate::core) fn windows_host_processes(_spec: PodSpec<'_>, _path: &Path<'_>) -> List {
    List::new()
}

/// The field errors of a pod in a user namespace; `path` is that of the pod spec.
pub(in crate::core) fn host_users(_spec: PodSpec<'_>, _path: &Path<'_>) -> List {
    List::new()
}

/// The field errors of the operating system of a pod, and of fields that are for another one; `path` is that of the pod spec.
pub(in crate::core) fn os(_spec: PodSpec<'_>, _path: &Path<'_>) -> List {
    List::new()
}

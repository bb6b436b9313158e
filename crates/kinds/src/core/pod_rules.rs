//! The rules for pod specs: of pods, and of every template.

pub(in crate::core) mod containers;
pub(in crate::core) mod env;
pub(in crate::core) mod field_refs;
pub(in crate::core) mod mounts;
mod os;
mod ports;
mod probes;
mod resources;
pub(in crate::core) mod security;
pub(in crate::core) mod volumes;
mod windows;

use crate::core::resources::{HugePages, has_broken_pages};
use object::field::{List, Path};
use schema::views::core::v1::{PodSpec, PodTemplateSpec};
use schema::views::meta::v1::ObjectMeta;

/// What a pod spec may have because the object had it already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// The object is a pod, not a template.
    pub(in crate::core) is_pod: bool,
    /// Any amount of huge pages if the old spec has one that is no multiple of the page size.
    pub(in crate::core) huge_pages: HugePages,
    /// The old spec has sysctls of namespaces that the pod shares with its host.
    pub(in crate::core) host_sysctls: bool,
    /// The old spec has a policy for changes of SELinux labels. A new one may only be `Recursive`.
    pub(in crate::core) any_selinux_change_policy: bool,
}

impl Options {
    /// For a pod: its new and its old state.
    pub(crate) fn of_pod(_new: PodSpec<'_>, old: Option<PodSpec<'_>>) -> Self {
        Self {
            is_pod: true,
            huge_pages: if old.is_some_and(breaks_huge_pages) { HugePages::Any } else { HugePages::Whole },
            host_sysctls: old.is_some_and(security::has_host_sysctls),
            any_selinux_change_policy: old
                .and_then(|old| old.security_context()?.se_linux_change_policy())
                .is_some(),
        }
    }

    /// For a template.
    pub(crate) fn of_template(new: PodTemplateSpec<'_>, old: Option<PodTemplateSpec<'_>>) -> Self {
        Self { is_pod: false, ..Self::of_pod(new.spec(), old.map(|old| old.spec())) }
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

/// Whether a spec has an amount of huge pages that is no multiple of the page size.
fn breaks_huge_pages(spec: PodSpec<'_>) -> bool {
    let mut breaks = has_broken_pages(spec.overhead());
    containers::each(spec, &Path::UNSET, |container, _| {
        let resources = container.resources();
        breaks = breaks || has_broken_pages(resources.limits()) || has_broken_pages(resources.requests());
    });
    breaks
}

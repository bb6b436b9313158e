//! What a pod spec may have: what this server allows, and what the object had already although a new one may
//! not.

use super::{annotations, containers, security};
use crate::core::resources::{HugePages, has_broken_pages};
use crate::core::{affinity, local_path, node_selector};
use crate::label_selector::{self, Values};
use crate::{Privileged, Rules};
use object::field::Path;
use schema::views::core::v1::{Pod, PodSpec, PodTemplateSpec};
use schema::views::meta::v1::ObjectMeta;

/// What a pod spec may have because this server allows it, or because the object had it already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PodOptions {
    /// The spec is that of a pod, not that of a template.
    pub(in crate::core) is_pod: bool,
    /// Privileged containers.
    pub(in crate::core) privileged: Privileged,
    /// The annotation with the cost of a deletion may be no number.
    pub(in crate::core) invalid_deletion_cost: bool,
    /// Values in the selectors of pod affinity.
    pub(in crate::core) affinity_values: Values,
    /// Values in required node affinity.
    pub(in crate::core) node_affinity_values: Values,
    /// Amounts of huge pages.
    pub(in crate::core) huge_pages: HugePages,
    /// Selectors of topology spread constraints are not checked.
    pub(in crate::core) invalid_spread_selectors: bool,
    /// Projected tokens may have paths that lead out of their volume.
    pub(in crate::core) non_local_token_paths: bool,
    /// A pod in a namespace of its host may set sysctls of that namespace.
    pub(in crate::core) host_sysctls: bool,
    /// `seLinuxChangePolicy` may be another than `Recursive`.
    pub(in crate::core) any_selinux_change_policy: bool,
}

impl PodOptions {
    /// For a pod: its old state, if there is one.
    pub(in crate::core) fn of_pod(old: Option<Pod<'_>>, rules: &Rules<'_>) -> Self {
        Self { is_pod: true, ..Self::after(old.map(|old| (old.spec(), old.metadata())), rules) }
    }

    /// For a template.
    pub(crate) fn of_template(old: Option<PodTemplateSpec<'_>>, rules: &Rules<'_>) -> Self {
        Self::after(old.map(|old| (old.spec(), old.metadata())), rules)
    }

    fn after(old: Option<(PodSpec<'_>, ObjectMeta<'_>)>, rules: &Rules<'_>) -> Self {
        let privileged = rules.privileged();
        let Some((spec, metadata)) = old else { return Self { privileged, ..Self::default() } };
        let context = spec.security_context();
        Self {
            is_pod: false,
            privileged,
            invalid_deletion_cost: !annotations::has_valid_deletion_cost(metadata.annotations()),
            affinity_values: unchecked_if(spec.affinity().is_some_and(affinity::has_invalid_selectors)),
            node_affinity_values: unchecked_if(has_invalid_node_affinity(spec)),
            huge_pages: if breaks_huge_pages(spec) { HugePages::Any } else { HugePages::Whole },
            invalid_spread_selectors: has_invalid_spread_selectors(spec),
            non_local_token_paths: has_non_local_token_paths(spec),
            host_sysctls: security::has_host_sysctls(spec),
            any_selinux_change_policy: context
                .is_some_and(|context| context.se_linux_change_policy().is_some()),
        }
    }
}

fn unchecked_if(invalid: bool) -> Values {
    if invalid { Values::Unchecked } else { Values::Checked }
}

fn has_invalid_node_affinity(spec: PodSpec<'_>) -> bool {
    let node = spec.affinity().and_then(|affinity| affinity.node_affinity());
    let required = node.and_then(|node| node.required_during_scheduling_ignored_during_execution());
    required.is_some_and(node_selector::has_invalid_values)
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

fn has_invalid_spread_selectors(spec: PodSpec<'_>) -> bool {
    let mut selectors =
        spec.topology_spread_constraints().iter().filter_map(|constraint| constraint.label_selector());
    selectors.any(|selector| !label_selector::validate(selector, Values::Checked, &Path::UNSET).is_empty())
}

fn has_non_local_token_paths(spec: PodSpec<'_>) -> bool {
    let projected = spec.volumes().iter().filter_map(|volume| volume.projected());
    let mut tokens = projected
        .flat_map(|projected| projected.sources().iter())
        .filter_map(|source| source.service_account_token());
    tokens.any(|token| !local_path::not_reserved(token.path(), &Path::UNSET).is_empty())
}

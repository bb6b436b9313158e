//! The rules for pod specs: of pods, and of every template.

pub(crate) mod annotations;
pub(in crate::core) mod containers;
mod dns;
pub(in crate::core) mod env;
pub(in crate::core) mod field_refs;
pub(in crate::core) mod mounts;
mod options;
mod os;
mod ports;
mod probes;
pub(in crate::core) mod resize;
mod resources;
mod scheduling;
pub(in crate::core) mod security;
pub(in crate::core) mod status;
#[cfg(test)]
mod tests;
pub(in crate::core) mod update;
pub(in crate::core) mod volumes;
mod windows;

pub(crate) use options::PodOptions;

use super::{affinity, tolerations};
use crate::checks::{self, required_one_of};
use crate::core::resources::overhead;
use crate::seen::Seen;
use crate::{Rules, label_selector};
use containers::Surroundings;
use object::Map;
use object::field::{Error, List, Path};
use object::name::{Mode, dns1123_label, in_range, invalid, name_is_dns_subdomain, qualified_name};
use schema::view::{Items, View};
use schema::views::core::v1::{Pod, PodResourceClaim, PodSpec};
use schema::views::meta::v1::ObjectMeta;

/// The field errors of a pod spec at `path`. A template has no `metadata` of a pod.
pub(crate) fn spec(
    spec: PodSpec<'_>,
    metadata: Option<ObjectMeta<'_>>,
    options: &PodOptions,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    if spec.termination_grace_period_seconds().is_none() {
        errors.push(Error::required(&path.child("terminationGracePeriodSeconds"), ""));
    }
    let (volumes, of_volumes) = volumes::validate(spec.volumes(), metadata, options, &path.child("volumes"));
    errors.append(of_volumes);
    errors.append(resource_claims(spec.resource_claims(), metadata, &path.child("resourceClaims")));
    let pod = Surroundings { spec, volumes: &volumes, options };
    errors.append(containers::regular(pod, &path.child("containers")));
    errors.append(containers::init(pod, &path.child("initContainers")));
    errors.append(containers::ephemeral(pod, &path.child("ephemeralContainers")));
    errors.append(containers::host_network(spec, options, path));
    errors.extend(required_one_of(spec.restart_policy(), RESTART_POLICIES, &path.child("restartPolicy")));
    errors.extend(required_one_of(spec.dns_policy(), DNS_POLICIES, &path.child("dnsPolicy")));
    errors.append(label_selector::labels(spec.node_selector(), &path.child("nodeSelector")));
    errors.append(security::pod(spec, options, path));
    if let Some(affinity) = spec.affinity() {
        let values = affinity::Checked { nodes: options.node_affinity_values, pods: options.affinity_values };
        errors.append(affinity::validate(affinity, values, &path.child("affinity")));
    }
    errors.append(dns::config(spec, &path.child("dnsConfig")));
    let gates = path.child("readinessGates");
    for (at, gate) in spec.readiness_gates().iter().enumerate() {
        let ty = gate.condition_type();
        errors.append(invalid(&gates.index(at).child("conditionType"), ty, qualified_name(ty)));
    }
    errors.append(scheduling::gates(spec.scheduling_gates(), &path.child("schedulingGates")));
    let constraints = spec.topology_spread_constraints();
    errors.append(scheduling::spread(constraints, options, &path.child("topologySpreadConstraints")));
    errors.append(security::windows_host_processes(spec, options, path));
    errors.append(security::host_users(spec, path));
    errors.append(scalars(spec, path));
    errors.append(overhead(spec.overhead(), options.huge_pages, &path.child("overhead")));
    errors.append(security::os(spec, path));
    errors
}

const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];
const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

/// The field errors of the last fields of a pod spec: names, numbers, tolerations and host aliases.
fn scalars(spec: PodSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = named("serviceAccountName", spec.service_account_name(), path);
    errors.append(named("nodeName", spec.node_name(), path));
    if let Some(seconds) = spec.active_deadline_seconds() {
        for why in in_range(seconds, 1, i32::MAX.into()) {
            errors.push(Error::invalid(&path.child("activeDeadlineSeconds"), seconds, why));
        }
    }
    for (field, text) in [("hostname", spec.hostname()), ("subdomain", spec.subdomain())] {
        if !text.is_empty() {
            errors.append(invalid(&path.child(field), text, dns1123_label(text)));
        }
    }
    errors.append(tolerations::validate(spec.tolerations(), &path.child("tolerations")));
    errors.append(dns::host_aliases(spec.host_aliases(), &path.child("hostAliases")));
    errors.append(named("priorityClassName", spec.priority_class_name(), path));
    if let Some(name) = spec.runtime_class_name() {
        let messages = name_is_dns_subdomain(name, Mode::Name);
        errors.append(invalid(&path.child("runtimeClassName"), name, messages));
    }
    if let Some(text) = spec.preemption_policy() {
        let among = &["PreemptLowerPriority", "Never"];
        errors.extend(required_one_of(text, among, &path.child("preemptionPolicy")));
    }
    errors
}

/// A field that names another object, if it does.
fn named(field: &str, name: &str, path: &Path<'_>) -> List {
    if name.is_empty() {
        return List::new();
    }
    invalid(&path.child(field), name, name_is_dns_subdomain(name, Mode::Name))
}

fn resource_claims(
    claims: Items<'_, PodResourceClaim<'_>>,
    metadata: Option<ObjectMeta<'_>>,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    let is_static =
        metadata.is_some_and(|metadata| metadata.annotations().get(annotations::MIRROR).is_some());
    let mut names = Seen::new();
    for (at, claim) in claims.iter().enumerate() {
        if is_static {
            errors.push(Error::forbidden(&Path::new(""), "static pods do not support resource claims"));
            continue;
        }
        let path = path.index(at);
        let name = path.child("name");
        if claim.name().is_empty() {
            errors.push(Error::required(&name, ""));
        } else if !names.insert(claim.name()) {
            errors.push(Error::duplicate(&name, claim.name()));
        } else {
            errors.append(invalid(&name, claim.name(), dns1123_label(claim.name())));
        }
        let (own, template) = (claim.resource_claim_name(), claim.resource_claim_template_name());
        let why = match (own, template) {
            (Some(_), Some(_)) => {
                Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
            }
            (None, None) => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            _ => None,
        };
        errors.extend(why.map(|why| {
            let shown = checks::shown(Some(&claim.map().clone().into()));
            Error::invalid(&path, shown, why)
        }));
        for (field, name) in [("resourceClaimName", own), ("resourceClaimTemplateName", template)] {
            if let Some(name) = name {
                errors.append(invalid(&path.child(field), name, name_is_dns_subdomain(name, Mode::Name)));
            }
        }
    }
    errors
}

/// The field errors of a new pod.
pub(in crate::core) fn create(object: &Map, rules: &Rules<'_>) -> List {
    let options = PodOptions::of_pod(None, rules);
    let mut errors = metadata_and_spec(object, &options, rules);
    let (pod, path) = (Pod::of(object), Path::new("spec"));
    let spec = pod.spec();
    if !spec.ephemeral_containers().is_empty() {
        errors.push(Error::forbidden(&path.child("ephemeralContainers"), "cannot be set on create"));
    }
    if !spec.node_name().is_empty() && !spec.scheduling_gates().is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        errors.push(Error::forbidden(&path.child("nodeName"), why));
    }
    errors.append(annotations::match_fields(pod.metadata().annotations(), spec, &path));
    errors
}

/// The field errors of a pod by itself, be it new or changed.
fn metadata_and_spec(object: &Map, options: &PodOptions, rules: &Rules<'_>) -> List {
    let mut errors = rules.metadata(object);
    let pod = Pod::of(object);
    let (metadata, pod_spec, path) = (pod.metadata(), pod.spec(), Path::new("spec"));
    let meta_path = Path::new("metadata");
    let annotations_path = meta_path.child("annotations");
    errors.append(annotations::validate(metadata.annotations(), pod_spec, options, &annotations_path));
    errors.append(spec(pod_spec, Some(metadata), options, &path));
    if pod_spec.service_account_name().is_empty() {
        errors.append(tokens_without_account(pod_spec, &path.child("volumes")));
    }
    errors.append(containers::only_for_pod(pod_spec, &path));
    errors
}

/// The errors of volumes with tokens in a pod without a service account.
fn tokens_without_account(spec: PodSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    for (at, volume) in spec.volumes().iter().enumerate() {
        let Some(projected) = volume.projected() else { continue };
        let path = path.index(at);
        let path = path.child("projected");
        let path = path.child("sources");
        for (at, source) in projected.sources().iter().enumerate() {
            if source.service_account_token().is_some() {
                let why = "must not be specified when serviceAccountName is not set";
                errors.push(Error::forbidden(&path.index(at).child("serviceAccountToken"), why));
            }
        }
    }
    errors
}

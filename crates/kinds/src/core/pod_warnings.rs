//! The warnings for pods and pod templates: what is deprecated, does nothing, or is hardly meant.

mod paths;
mod ports;
#[cfg(test)]
mod tests;

use super::pod_rules::annotations::{SECCOMP, SECCOMP_CONTAINER};
use super::pod_rules::containers;
use super::{affinity, app_armor, node_selector};
use crate::seen::Seen;
use object::field::Path;
use object::name::address::ip_warnings;
use object::name::dns1123_label;
use object::quantity::Quantity;
use object::quote::Quoted;
use schema::view::Entries;
use schema::views::core::v1::{
    Container, PersistentVolumeClaimSpec, Pod, PodSpec, PodStatus, PodTemplateSpec, Volume,
};
use std::collections::HashSet;

/// The most warnings for one object. A client gets fewer: their texts together are limited.
const MOST: usize = 4_096;

/// The warnings so far.
#[derive(Debug, Default)]
struct Warnings(Vec<String>);

impl Warnings {
    fn is_full(&self) -> bool {
        self.0.len() >= MOST
    }

    /// Adds a warning that is only made if it is kept.
    fn push(&mut self, make: impl FnOnce() -> String) {
        if !self.is_full() {
            self.0.push(make());
        }
    }

    fn extend(&mut self, warnings: Vec<String>) {
        warnings.into_iter().for_each(|warning| self.push(|| warning));
    }
}

/// The warnings for a new pod.
pub(super) fn of_pod(pod: Pod<'_>) -> Vec<String> {
    let mut warnings = Warnings::default();
    let messages = dns1123_label(pod.metadata().name());
    if !messages.is_empty() {
        let hostname = "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended";
        warnings.push(|| format!("metadata.name: {hostname}: [{}]", messages.join(" ")));
    }
    let source = Source { spec: pod.spec(), annotations: pod.metadata().annotations(), is_template: false };
    source.warn(&Path::UNSET, &mut warnings);
    warnings.0
}

/// The warnings for a new status of a pod: addresses that are not in their canonical form.
pub(super) fn of_status(status: PodStatus<'_>) -> Vec<String> {
    let mut warnings = Warnings::default();
    let path = Path::new("status");
    let (pods, hosts) = (path.child("podIPs"), path.child("hostIPs"));
    for (at, address) in status.pod_ips().iter().enumerate() {
        warnings.extend(ip_warnings(&pods.index(at).child("ip"), address.ip()));
    }
    for (at, address) in status.host_ips().iter().enumerate() {
        warnings.extend(ip_warnings(&hosts.index(at).child("ip"), address.ip()));
    }
    warnings.0
}

/// The warnings for a template at `path`.
pub(crate) fn of_template(template: PodTemplateSpec<'_>, path: &Path<'_>) -> Vec<String> {
    let mut warnings = Warnings::default();
    let source =
        Source { spec: template.spec(), annotations: template.metadata().annotations(), is_template: true };
    source.warn(path, &mut warnings);
    warnings.0
}

/// Annotations that do nothing any more.
const DEPRECATED_ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        r#"non-functional in v1.16+; use the "priorityClassName" field instead"#,
    ),
    ("security.alpha.kubernetes.io/sysctls", r#"non-functional in v1.11+; use the "sysctls" field instead"#),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        r#"non-functional in v1.11+; use the "sysctls" field instead"#,
    ),
];

const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";
const OLD_SECCOMP: &str = r#"non-functional in v1.27+; use the "seccompProfile" field instead"#;

/// What the warnings are about.
#[derive(Clone, Copy)]
struct Source<'a> {
    spec: PodSpec<'a>,
    annotations: Entries<'a, &'a str>,
    is_template: bool,
}

impl Source<'_> {
    fn warn(self, path: &Path<'_>, warnings: &mut Warnings) {
        let Self { spec, annotations, .. } = self;
        let spec_path = path.child("spec");
        placement(spec, &spec_path, warnings);
        let metadata = path.child("metadata");
        let annotations_path = metadata.child("annotations");
        for (key, why) in DEPRECATED_ANNOTATIONS {
            if annotations.get(key).is_some() {
                warnings.push(|| format!("{}: {why}", annotations_path.key(key)));
            }
        }
        let volumes = spec_path.child("volumes");
        for (at, volume) in spec.volumes().iter().enumerate() {
            old_volume(volume, &volumes.index(at), warnings);
        }
        spec.volumes().iter().for_each(|volume| paths::overlaps(volume, warnings));
        duplicates(spec, &spec_path, warnings);
        fractions(spec.overhead(), &["memory", "ephemeral-storage"], &spec_path.child("overhead"), warnings);
        let own = spec.security_context().and_then(|context| context.seccomp_profile());
        if own.is_none() && annotations.get(SECCOMP).is_some() {
            warnings.push(|| format!("{}: {OLD_SECCOMP}", annotations_path.key(SECCOMP)));
        }
        self.containers(&spec_path, &annotations_path, warnings);
        ports::warn(spec, &spec_path, warnings);
        if spec.termination_grace_period_seconds().is_some_and(|seconds| seconds < 0) {
            let why = "must be >= 0; negative values are invalid and will be treated as 1";
            warnings.push(|| format!("{}: {why}", spec_path.child("terminationGracePeriodSeconds")));
        }
        if let Some(affinity) = spec.affinity() {
            warnings.extend(affinity::pod_warnings(affinity, &spec_path.child("affinity")));
        }
        addresses(spec, &spec_path, warnings);
    }

    fn containers(self, path: &Path<'_>, annotations_path: &Path<'_>, warnings: &mut Warnings) {
        let annotated: HashSet<&str> = self
            .annotations
            .iter()
            .map(|(key, _)| key)
            .filter(|key| key.starts_with(SECCOMP_CONTAINER) || key.starts_with(app_armor::ANNOTATION))
            .collect();
        let of_pod = self.spec.security_context().and_then(|context| context.app_armor_profile());
        containers::each(self.spec, path, |container, path| {
            if !annotated.is_empty() {
                let own = container.security_context();
                let mut warn = |prefix: &str, why: &str| {
                    let key = format!("{prefix}{}", container.name());
                    if annotated.contains(key.as_str()) {
                        warnings.push(|| format!("{}: {why}", annotations_path.key(&key)));
                    }
                };
                if own.is_none_or(|context| context.seccomp_profile().is_none()) {
                    warn(SECCOMP_CONTAINER, OLD_SECCOMP);
                }
                let profile = own.and_then(|context| context.app_armor_profile()).or(of_pod);
                if self.is_template && profile.is_none() {
                    warn(app_armor::ANNOTATION, app_armor::DEPRECATED);
                }
            }
            let resources = container.resources();
            let path_of_resources = path.child("resources");
            let limits = path_of_resources.child("limits");
            let requests = path_of_resources.child("requests");
            for name in ["memory", "ephemeral-storage"] {
                fractions(resources.limits(), &[name], &limits, warnings);
                fractions(resources.requests(), &[name], &requests, warnings);
            }
            hidden_variables(container, &path.child("env"), warnings);
        });
    }
}

/// Warns of labels of nodes that are deprecated, and of constraints that match no pod.
fn placement(spec: PodSpec<'_>, path: &Path<'_>, warnings: &mut Warnings) {
    let selector = path.child("nodeSelector");
    for (key, _) in spec.node_selector().iter() {
        if let Some(why) = node_selector::deprecated_label(key) {
            warnings.push(|| format!("{}: {why}", selector.key(key)));
        }
    }
    if let Some(affinity) = spec.affinity() {
        warnings.extend(affinity::node_warnings(affinity, &path.child("affinity")));
    }
    let path = path.child("topologySpreadConstraints");
    for (at, constraint) in spec.topology_spread_constraints().iter().enumerate() {
        let (path, key) = (path.index(at), constraint.topology_key());
        if let Some(why) = node_selector::deprecated_label(key) {
            warnings.push(|| format!("{}: {key} is {why}", path.child("topologyKey")));
        }
        if constraint.label_selector().is_none() {
            warnings.push(|| format!("{}: {NO_SELECTOR}", path.child("labelSelector")));
        }
    }
}

/// Warns of volumes of plugins that are gone or will go.
fn old_volume(volume: Volume<'_>, path: &Path<'_>, warnings: &mut Warnings) {
    let mut warn = |is_used: bool, field: &str, why: &str| {
        if is_used {
            warnings.push(|| format!("{}: {why}", path.child(field)));
        }
    };
    let gone = "deprecated in v1.22, non-functional in v1.25+";
    let last = "deprecated in v1.28, non-functional in v1.31+";
    let disk = "deprecated in v1.11, non-functional in v1.16+";
    warn(volume.photon_persistent_disk().is_some(), "photonPersistentDisk", disk);
    warn(volume.git_repo().is_some(), "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+");
    warn(volume.scale_io().is_some(), "scaleIO", "deprecated in v1.16, non-functional in v1.22+");
    warn(volume.flocker().is_some(), "flocker", gone);
    warn(volume.storageos().is_some(), "storageOS", gone);
    warn(volume.quobyte().is_some(), "quobyte", gone);
    warn(volume.glusterfs().is_some(), "glusterfs", "deprecated in v1.25, non-functional in v1.26+");
    let template = volume.ephemeral().and_then(|ephemeral| ephemeral.volume_claim_template());
    if let Some(template) = template {
        let path = path.child("ephemeral");
        let path = path.child("volumeClaimTemplate");
        warnings.extend(of_claim(template.spec(), &path.child("spec")));
    }
    let mut warn = |is_used: bool, field: &str| {
        if is_used {
            warnings.push(|| format!("{}: {last}", path.child(field)));
        }
    };
    warn(volume.cephfs().is_some(), "cephfs");
    warn(volume.rbd().is_some(), "rbd");
}

/// The warnings for the spec of a volume claim at `path`.
pub(crate) fn of_claim(spec: PersistentVolumeClaimSpec<'_>, path: &Path<'_>) -> Vec<String> {
    let mut warnings = Warnings::default();
    let path = path.child("resources");
    fractions(spec.resources().requests(), &["storage"], &path.child("requests"), &mut warnings);
    fractions(spec.resources().limits(), &["storage"], &path.child("limits"), &mut warnings);
    warnings.0
}

/// Warns of amounts of bytes that are no whole numbers.
fn fractions(amounts: Entries<'_, &str>, names: &[&str], path: &Path<'_>, warnings: &mut Warnings) {
    for name in names {
        let Some(text) = amounts.get(name) else { continue };
        let is_fraction = text.parse::<Quantity>().is_ok_and(|amount| amount.milli_value() % 1000 != 0);
        if is_fraction {
            warnings.push(|| {
                let path = path.key(name);
                format!("{path}: fractional byte value {} is invalid, must be an integer", Quoted(text))
            });
        }
    }
}

/// Warns of addresses in host aliases and of pull secrets that come twice, and of pull secrets without a
/// name.
fn duplicates(spec: PodSpec<'_>, path: &Path<'_>, warnings: &mut Warnings) {
    let aliases = path.child("hostAliases");
    let mut seen = Seen::new();
    for (at, alias) in spec.host_aliases().iter().enumerate() {
        if !seen.insert(alias.ip()) {
            warnings
                .push(|| format!("{}: duplicate ip {}", aliases.index(at).child("ip"), Quoted(alias.ip())));
        }
    }
    let secrets = path.child("imagePullSecrets");
    let mut seen = Seen::new();
    for (at, secret) in spec.image_pull_secrets().iter().enumerate() {
        if !seen.insert(secret.name()) {
            warnings.push(|| {
                format!("{}: duplicate name {}", secrets.index(at).child("name"), Quoted(secret.name()))
            });
        }
    }
    for (at, secret) in spec.image_pull_secrets().iter().enumerate() {
        if secret.name().is_empty() {
            warnings.push(|| format!("{}: invalid empty name \"\"", secrets.index(at).child("name")));
        }
    }
}

/// Warns of variables that hide another of the same name. One that refers to the other extends it.
fn hidden_variables(container: Container<'_>, path: &Path<'_>, warnings: &mut Warnings) {
    let mut seen = Seen::new();
    for (at, variable) in container.env().iter().enumerate() {
        if seen.insert(variable.name()) {
            continue;
        }
        let reference = format!("$({})", variable.name());
        let value = variable.value();
        let extends = value != reference && value.contains(&reference);
        if variable.value_from().is_some() || !extends {
            warnings.push(|| {
                let name = Quoted(variable.name());
                let path = path.index(at);
                format!("{path}: hides previous definition of {name}, which may be dropped when using apply")
            });
        }
    }
}

/// Warns of addresses that are not in their canonical form.
fn addresses(spec: PodSpec<'_>, path: &Path<'_>, warnings: &mut Warnings) {
    if let Some(config) = spec.dns_config() {
        let path = path.child("dnsConfig");
        let path = path.child("nameservers");
        for (at, address) in config.nameservers().iter().enumerate() {
            warnings.extend(ip_warnings(&path.index(at), address));
        }
    }
    let path = path.child("hostAliases");
    for (at, alias) in spec.host_aliases().iter().enumerate() {
        warnings.extend(ip_warnings(&path.index(at).child("ip"), alias.ip()));
    }
}

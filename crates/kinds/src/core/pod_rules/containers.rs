//! The rules for the containers of a pod.

#[cfg(test)]
mod tests;

use super::volumes::Declared;
use super::{PodOptions, env, mounts, ports, probes, resources, security};
use crate::checks;
use crate::seen::Seen;
use object::field::{Error, List, Path};
use object::name::{dns1123_label, invalid};
use schema::view::{Items, View};
use schema::views::core::v1::{Container, EphemeralContainer, PodSpec};

pub(in crate::core) use ports::host_network;

/// What the rules for a container need to know of its pod.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Surroundings<'a> {
    /// The spec of the pod.
    pub(in crate::core) spec: PodSpec<'a>,
    /// Its volumes.
    pub(in crate::core) volumes: &'a Declared<'a>,
    /// What the spec may have.
    pub(in crate::core) options: &'a PodOptions,
}

impl Surroundings<'_> {
    fn grace(&self) -> Option<i64> {
        self.spec.termination_grace_period_seconds()
    }
}

/// The field errors of the regular containers; `path` is that of `containers`.
pub(in crate::core) fn regular(pod: Surroundings<'_>, path: &Path<'_>) -> List {
    let containers = pod.spec.containers();
    if containers.is_empty() {
        return Error::required(path, "").into();
    }
    let mut errors = List::new();
    let mut names = Seen::new();
    for (at, container) in containers.iter().enumerate() {
        let path = path.index(at);
        errors.append(common(container, pod, &path));
        if !names.insert(container.name()) {
            errors.push(Error::duplicate(&path.child("name"), container.name()));
        }
        errors.append(probes::validate(container, pod.grace(), &path));
        if container.restart_policy().is_some() {
            let why = "may not be set for non-init containers";
            errors.push(Error::forbidden(&path.child("restartPolicy"), why));
        }
    }
    let mut host_ports = ports::HostPorts::new();
    for (at, container) in containers.iter().enumerate() {
        errors.append(host_ports.add(container.ports(), &path.index(at)));
    }
    errors
}

/// The field errors of the init containers; `path` is that of `initContainers`.
pub(in crate::core) fn init(pod: Surroundings<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let containers = pod.spec.init_containers();
    if containers.is_empty() {
        return errors;
    }
    let mut names: Seen<&str> = pod.spec.containers().iter().map(|container| container.name()).collect();
    // Init containers run one by one, so each has the ports of the host for itself. The errors name the first
    // container.
    let first = path.index(0);
    for (at, container) in containers.iter().enumerate() {
        let path = path.index(at);
        errors.append(common(container, pod, &path));
        if let Some(policy) = container.restart_policy() {
            errors.extend(checks::one_of(policy, &["Always"], &path.child("restartPolicy")));
        }
        if names.contains(container.name()) {
            errors.push(Error::duplicate(&path.child("name"), container.name()));
        } else if !container.name().is_empty() {
            names.insert(container.name());
        }
        errors.append(ports::HostPorts::new().add(container.ports(), &first));
        errors.append(match container.restart_policy() {
            Some("Always") => probes::validate(container, pod.grace(), &path),
            _ => probes::forbidden(container, &path),
        });
    }
    errors
}

/// The field errors of the ephemeral containers; `path` is that of `ephemeralContainers`.
pub(in crate::core) fn ephemeral(pod: Surroundings<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if pod.spec.ephemeral_containers().is_empty() {
        return errors;
    }
    let others = || pod.spec.containers().iter().chain(pod.spec.init_containers().iter());
    let targets: Seen<&str> = others().map(|container| container.name()).collect();
    let mut names: Seen<&str> = others().map(|container| container.name()).collect();
    for (at, of) in pod.spec.ephemeral_containers().iter().enumerate() {
        let path = path.index(at);
        let container = as_container(of);
        errors.append(common(container, pod, &path));
        errors.extend(untrimmed_image(container, &path));
        if !names.insert(container.name()) {
            errors.push(Error::duplicate(&path.child("name"), container.name()));
        }
        let target = of.target_container_name();
        if !target.is_empty() && !targets.contains(target) {
            errors.push(Error::not_found(&path.child("targetContainerName"), target));
        }
        errors.append(not_for_ephemeral(container, &path));
    }
    errors
}

/// What an ephemeral container may not have: it is no part of what the pod is for, and its mounts stay as
/// long as the pod.
fn not_for_ephemeral(container: Container<'_>, path: &Path<'_>) -> List {
    const WHY: &str = "cannot be set for an Ephemeral Container";
    let fields = [
        (!container.ports().is_empty(), "ports"),
        (!container.resources().map().is_empty(), "resources"),
        (!container.resize_policy().is_empty(), "resizePolicy"),
        (container.restart_policy().is_some(), "restartPolicy"),
        (container.liveness_probe().is_some(), "livenessProbe"),
        (container.readiness_probe().is_some(), "readinessProbe"),
        (container.startup_probe().is_some(), "startupProbe"),
        (container.lifecycle().is_some(), "lifecycle"),
    ];
    let set = fields.into_iter().filter(|(is_set, _)| *is_set);
    let mut errors: List = set.map(|(_, field)| Error::forbidden(&path.child(field), WHY)).collect();
    let path = path.child("volumeMounts");
    for (at, mount) in container.volume_mounts().iter().enumerate() {
        for (text, field) in [(mount.sub_path(), "subPath"), (mount.sub_path_expr(), "subPathExpr")] {
            if !text.is_empty() {
                errors.push(Error::forbidden(&path.index(at).child(field), WHY));
            }
        }
    }
    errors
}

/// The rules for containers of all three kinds.
fn common(container: Container<'_>, pod: Surroundings<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    match container.name() {
        "" => errors.push(Error::required(&path.child("name"), "")),
        text => errors.append(invalid(&path.child("name"), text, dns1123_label(text))),
    }
    errors.extend(checks::required(container.image(), &path.child("image")));
    errors.extend(checks::required_one_of(
        container.termination_message_policy(),
        &["File", "FallbackToLogsOnError"],
        &path.child("terminationMessagePolicy"),
    ));
    errors.append(ports::validate(container.ports(), &path.child("ports")));
    errors.append(env::variables(container.env(), &path.child("env")));
    errors.append(env::sources(container.env_from(), &path.child("envFrom")));
    errors.append(mounts::volume_mounts(container, pod.volumes, &path.child("volumeMounts")));
    errors.append(mounts::volume_devices(container, pod.volumes, &path.child("volumeDevices")));
    errors.extend(checks::required_one_of(
        container.image_pull_policy(),
        &["Always", "IfNotPresent", "Never"],
        &path.child("imagePullPolicy"),
    ));
    errors.append(resources::validate(
        container.resources(),
        pod.spec,
        pod.options,
        &path.child("resources"),
    ));
    errors.append(resources::resize_policy(container.resize_policy(), pod.spec, &path.child("resizePolicy")));
    errors.append(security::container(container, pod.spec, pod.options, &path.child("securityContext")));
    errors
}

/// The field errors of containers that a pod has and a template does not; `path` is that of the pod spec.
/// Those of ephemeral containers are among the errors of [`ephemeral`].
pub(in crate::core) fn only_for_pod(spec: PodSpec<'_>, path: &Path<'_>) -> List {
    let images = |containers: Items<'_, Container<'_>>, path: &Path<'_>| -> List {
        let images = containers.iter().enumerate();
        images.filter_map(|(at, container)| untrimmed_image(container, &path.index(at))).collect()
    };
    let mut errors = images(spec.containers(), &path.child("containers"));
    errors.append(images(spec.init_containers(), &path.child("initContainers")));
    errors
}

fn untrimmed_image(container: Container<'_>, path: &Path<'_>) -> Option<Error> {
    let image = container.image();
    (image.trim().len() != image.len())
        .then(|| Error::invalid(&path.child("image"), image, "must not have leading or trailing whitespace"))
}

/// An ephemeral container has the fields of a container.
fn as_container(container: EphemeralContainer<'_>) -> Container<'_> {
    Container::of(container.map())
}

/// Calls `to` with each container and its path: init containers, then regular ones, then ephemeral ones.
pub(in crate::core) fn each<'a>(
    spec: PodSpec<'a>,
    path: &Path<'_>,
    mut to: impl FnMut(Container<'a>, &Path<'_>),
) {
    let lists = [(spec.init_containers(), "initContainers"), (spec.containers(), "containers")];
    for (containers, field) in lists {
        let path = path.child(field);
        containers.iter().enumerate().for_each(|(at, container)| to(container, &path.index(at)));
    }
    let path = path.child("ephemeralContainers");
    let ephemeral = spec.ephemeral_containers().iter().enumerate();
    ephemeral.for_each(|(at, container)| to(as_container(container), &path.index(at)));
}

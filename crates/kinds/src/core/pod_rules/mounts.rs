//! The rules for the volume mounts and the volume devices of a container. An ephemeral container is seen as a
//! container.

use super::volumes::Declared;
use crate::checks;
use crate::core::local_path;
use crate::seen::Seen;
use object::field::{Error, List, Path};
use schema::views::core::v1::{Container, VolumeMount};
use std::collections::{HashMap, HashSet};

const PROPAGATIONS: &[&str] = &["Bidirectional", "HostToContainer", "None"];
const RECURSIVE: &[&str] = &["Disabled", "Enabled", "IfPossible"];

/// The field errors of the volume mounts of a container; `path` is that of `volumeMounts`.
pub(in crate::core) fn volume_mounts(
    container: Container<'_>,
    volumes: &Declared<'_>,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    let mounts = container.volume_mounts();
    let devices = container.volume_devices().iter();
    let devices = Used::of(devices.map(|device| (device.name(), device.device_path())));
    let mut points = Seen::new();
    for (at, mount) in mounts.iter().enumerate() {
        let own = path.index(at);
        let (name, point) = (own.child("name"), own.child("mountPath"));
        errors.extend(checks::required(mount.name(), &name));
        if volumes.get(mount.name()).is_none() {
            errors.push(Error::not_found(&name, mount.name()));
        }
        errors.extend(checks::required(mount.mount_path(), &point));
        if !points.insert(mount.mount_path()) {
            errors.push(Error::invalid(&point, mount.mount_path(), "must be unique"));
        }
        if devices.has_name(mount.name()) {
            errors.push(Error::invalid(&name, mount.name(), "must not already exist in volumeDevices"));
        }
        if devices.has_path(mount.mount_path()) {
            let why = "must not already exist as a path in volumeDevices";
            errors.push(Error::invalid(&point, mount.mount_path(), why));
        }
        errors.append(options(mount, container, &own, path));
    }
    errors
}

/// The rules for one mount alone. Most of their errors have the path of the list.
fn options(mount: VolumeMount<'_>, container: Container<'_>, own: &Path<'_>, list: &Path<'_>) -> List {
    let (sub_path, expression) = (mount.sub_path(), mount.sub_path_expr());
    let mut errors = local_path::descending(sub_path, &list.child("subPath"));
    if !expression.is_empty() && !sub_path.is_empty() {
        let why = "subPathExpr and subPath are mutually exclusive";
        errors.push(Error::invalid(&own.child("subPathExpr"), expression, why));
    }
    errors.append(local_path::descending(expression, &list.child("subPathExpr")));
    if let Some(propagation) = mount.mount_propagation() {
        let path = list.child("mountPropagation");
        errors.extend(checks::one_of(propagation, PROPAGATIONS, &path));
        let privileged =
            container.security_context().and_then(|security| security.privileged()).unwrap_or_default();
        if propagation == "Bidirectional" && !privileged {
            let why = "Bidirectional mount propagation is available only to privileged containers";
            errors.push(Error::forbidden(&path, why));
        }
    }
    let path = list.child("recursiveReadOnly");
    match mount.recursive_read_only() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.read_only() {
                errors.push(Error::forbidden(&path, "may only be specified when readOnly is true"));
            }
            if !matches!(mount.mount_propagation(), None | Some("None")) {
                let why = "may only be specified when mountPropagation is None or not specified";
                errors.push(Error::forbidden(&path, why));
            }
        }
        Some(other) => errors.extend(checks::one_of(other, RECURSIVE, &path)),
    }
    errors
}

/// The field errors of the volume devices of a container; `path` is that of `volumeDevices`.
pub(in crate::core) fn volume_devices(
    container: Container<'_>,
    volumes: &Declared<'_>,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    let devices = container.volume_devices();
    if devices.is_empty() {
        return errors;
    }
    let mounts = Used::of(container.volume_mounts().iter().map(|mount| (mount.name(), mount.mount_path())));
    let (mut names, mut paths) = (Seen::new(), Seen::new());
    for (at, device) in devices.iter().enumerate() {
        let own = path.index(at);
        let (name, point) = (own.child("name"), own.child("devicePath"));
        let (text, device_path) = (device.name(), device.device_path());
        errors.extend(checks::required(text, &name));
        if !text.is_empty() && !names.insert(text) {
            errors.push(Error::invalid(&name, text, "must be unique"));
        }
        match volumes.get(text) {
            None => errors.push(Error::not_found(&name, text)),
            Some(volume) if volume.persistent_volume_claim().is_none() && volume.ephemeral().is_none() => {
                let why =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.push(Error::invalid(&name, text, why));
            }
            Some(_) => {}
        }
        errors.extend(checks::required(device_path, &point));
        if local_path::has_backsteps(device_path) {
            errors.push(Error::invalid(&point, device_path, "can not contain backsteps ('..')"));
        } else if !paths.insert(device_path) {
            errors.push(Error::invalid(&point, device_path, "must be unique"));
        }
        if mounts.has_name(text) {
            errors.push(Error::invalid(&name, text, "must not already exist in volumeMounts"));
        }
        if mounts.has_path(device_path) {
            let why = "must not already exist as a path in volumeMounts";
            errors.push(Error::invalid(&point, device_path, why));
        }
    }
    errors
}

/// The volumes that a container has in the other form, and their paths. The last path of a volume counts.
struct Used<'a> {
    names: HashMap<&'a str, &'a str>,
    paths: HashSet<&'a str>,
}

impl<'a> Used<'a> {
    fn of(all: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let names: HashMap<_, _> = all.collect();
        let paths = names.values().copied().collect();
        Self { names, paths }
    }

    fn has_name(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    fn has_path(&self, path: &str) -> bool {
        self.paths.contains(path)
    }
}

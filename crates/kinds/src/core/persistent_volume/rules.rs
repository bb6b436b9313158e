//! The rules for persistent volumes, and for volumes in attachments, which have no object of their own.

use crate::checks;
use crate::core::node_selector::{self, has_invalid_values};
use crate::core::resources::{amount, not_below_zero, positive};
use crate::core::{local_path, volume_sources};
use crate::differs_but_for;
use crate::label_selector::Values;
use object::Map;
use object::field::{BadValue, Error, List, Path};
use object::name::{Mode, invalid, name_is_dns_subdomain};
use object::quote::Quoted;
use schema::semantic;
use schema::view::{Entries, Items, View};
use schema::views::core::v1::{
    NodeSelectorRequirement, PersistentVolume, PersistentVolumeSpec, VolumeNodeAffinity,
};

const SPEC: Path<'static> = Path::new("spec");
const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];
const RECLAIM_POLICIES: &[&str] = &["Delete", "Recycle", "Retain"];
/// The annotation that was there before `mountOptions`.
pub(super) const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

/// The fields that are not the source.
const OTHER_FIELDS: &[&str] = &[
    "capacity",
    "accessModes",
    "claimRef",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "mountOptions",
    "volumeMode",
    "nodeAffinity",
    "volumeAttributesClassName",
];

/// The sources that know the annotation for mount options.
const WITH_MOUNT_OPTIONS: &[&str] = &[
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
];

/// The field errors of the access modes of a volume or of a claim.
pub(in crate::core) fn access_modes(modes: Items<'_, &str>, path: &Path<'_>) -> List {
    let (mut errors, mut once_per_pod, mut other) = (List::new(), false, false);
    for mode in modes.iter() {
        errors.extend(checks::one_of(mode, ACCESS_MODES, path));
        match mode {
            "ReadWriteOncePod" => once_per_pod = true,
            mode => other |= ACCESS_MODES.contains(&mode),
        }
    }
    if once_per_pod && other {
        errors.push(Error::forbidden(path, "may not use ReadWriteOncePod with other access modes"));
    }
    errors
}

/// The error of the mode of a volume or of a claim.
pub(in crate::core) fn volume_mode(mode: &str, path: &Path<'_>) -> Option<Error> {
    checks::one_of(mode, VOLUME_MODES, path)
}

/// The field errors of the name of a class.
pub(crate) fn class_name(name: &str, path: &Path<'_>) -> List {
    invalid(path, name, name_is_dns_subdomain(name, Mode::Name))
}

/// The field errors of the spec of a volume. An old volume may keep invalid values in its node affinity.
pub(super) fn spec(spec: PersistentVolumeSpec<'_>, name: &str, values: Values) -> List {
    let mut errors = modes(spec, &SPEC);
    errors.append(capacity(spec.capacity(), &SPEC.child("capacity")));
    let policy = spec.persistent_volume_reclaim_policy();
    let policy_path = SPEC.child("persistentVolumeReclaimPolicy");
    if !policy.is_empty() {
        errors.extend(checks::one_of(policy, RECLAIM_POLICIES, &policy_path));
    }
    if let Some(affinity) = spec.node_affinity() {
        errors.append(node_affinity(affinity, values, &SPEC.child("nodeAffinity")));
    }
    errors.append(volume_sources::of_persistent(spec, name, spec.node_affinity(), &SPEC));
    errors.extend(recycled_root(spec, &SPEC));
    if !spec.storage_class_name().is_empty() {
        errors.append(class_name(spec.storage_class_name(), &SPEC.child("storageClassName")));
    }
    if let Some(mode) = spec.volume_mode() {
        errors.extend(volume_mode(mode, &SPEC.child("volumeMode")));
    }
    if let Some(name) = spec.volume_attributes_class_name() {
        let path = SPEC.child("volumeAttributesClassName");
        match name {
            "" => errors.push(Error::required(&path, "an empty string is disallowed")),
            name => errors.append(class_name(name, &path)),
        }
        if spec.csi().is_none() {
            let why = "has to be specified when using volumeAttributesClassName";
            errors.push(Error::required(&SPEC.child("csi"), why));
        }
    }
    errors
}

/// The field errors of the spec of a volume in an attachment, which is one of a CSI driver and has no claim.
pub(crate) fn inline_spec(spec: PersistentVolumeSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let refused = "may not be specified in the context of inline volumes";
    if spec.claim_ref().is_some() {
        errors.push(Error::forbidden(&path.child("claimRef"), refused));
    }
    if !spec.capacity().is_empty() {
        errors.push(Error::forbidden(&path.child("capacity"), refused));
    }
    if spec.csi().is_none() {
        let why = "has to be specified in the context of inline volumes";
        errors.push(Error::required(&path.child("csi"), why));
    }
    errors.append(modes(spec, path));
    if !matches!(spec.persistent_volume_reclaim_policy(), "" | "Retain") {
        let why = "may only be Retain in the context of inline volumes";
        errors.push(Error::forbidden(&path.child("persistentVolumeReclaimPolicy"), why));
    }
    if spec.node_affinity().is_some() {
        errors.push(Error::forbidden(&path.child("nodeAffinity"), refused));
    }
    errors.append(volume_sources::of_persistent(spec, "", None, path));
    errors.extend(recycled_root(spec, path));
    if !spec.storage_class_name().is_empty() {
        errors.push(Error::forbidden(&path.child("storageClassName"), refused));
    }
    if !matches!(spec.volume_mode(), None | Some("Filesystem")) {
        let why = "may not specify volumeMode other than Filesystem in the context of inline volumes";
        errors.push(Error::forbidden(&path.child("volumeMode"), why));
    }
    errors
}

fn modes(spec: PersistentVolumeSpec<'_>, path: &Path<'_>) -> List {
    let path = path.child("accessModes");
    let mut errors = List::new();
    if spec.access_modes().is_empty() {
        errors.push(Error::required(&path, ""));
    }
    errors.append(access_modes(spec.access_modes(), &path));
    errors
}

/// The capacity is storage and nothing else.
fn capacity(capacity: Entries<'_, &str>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if capacity.is_empty() {
        errors.push(Error::required(path, ""));
    }
    if capacity.len() != 1 || capacity.get("storage").is_none() {
        errors.push(Error::not_supported(path, amounts_text(capacity), ["storage"]));
    }
    for (name, text) in capacity.iter() {
        let (amount, path) = (amount(text), path.key(name));
        errors.extend(not_below_zero(&amount, &path));
        errors.extend(positive(&amount, &path));
    }
    errors
}

/// Amounts by resource as an error shows them.
fn amounts_text(amounts: Entries<'_, &str>) -> BadValue {
    if amounts.is_empty() {
        return BadValue::Raw("core.ResourceList(nil)".to_owned());
    }
    let mut all: Vec<_> = amounts.iter().collect();
    all.sort_unstable();
    let each = all.into_iter().map(|(name, text)| format!("{}:{}", Quoted(name), amount(text).go_syntax()));
    BadValue::Raw(format!("core.ResourceList{{{}}}", each.collect::<Vec<_>>().join(", ")))
}

fn node_affinity(affinity: VolumeNodeAffinity<'_>, values: Values, path: &Path<'_>) -> List {
    let path = path.child("required");
    match affinity.required() {
        Some(selector) => node_selector::validate(selector, values, &path),
        None => Error::required(&path, "must specify required node constraints").into(),
    }
}

/// The root directory of a node is not emptied for the next claim.
fn recycled_root(spec: PersistentVolumeSpec<'_>, path: &Path<'_>) -> Option<Error> {
    let is_recycled = spec.persistent_volume_reclaim_policy() == "Recycle";
    let is_root = spec.host_path().is_some_and(|source| local_path::is_root(source.path()));
    (is_recycled && is_root).then(|| {
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        Error::forbidden(&path.child("persistentVolumeReclaimPolicy"), why)
    })
}

/// The error of the annotation for mount options on a volume whose source does not know it.
pub(super) fn mount_options(volume: PersistentVolume<'_>) -> Option<Error> {
    volume.metadata().annotations().get(MOUNT_OPTIONS)?;
    let spec = volume.spec().map();
    let knows = WITH_MOUNT_OPTIONS.iter().any(|source| spec.contains_key(source));
    let metadata = Path::new("metadata");
    let path = metadata.child("annotations");
    let why = "may not specify mount options for this volume type";
    (!knows).then(|| Error::forbidden(&path.child(MOUNT_OPTIONS), why))
}

/// Whether a volume that was `old` before may have invalid values in its node affinity.
pub(super) fn values_after(old: PersistentVolumeSpec<'_>) -> Values {
    match old.node_affinity().and_then(|affinity| affinity.required()).is_some_and(has_invalid_values) {
        true => Values::Unchecked,
        false => Values::Checked,
    }
}

/// The field errors of a change of a volume, without those of its new state alone.
pub(super) fn change(new: PersistentVolumeSpec<'_>, old: PersistentVolumeSpec<'_>) -> List {
    let mut errors = List::new();
    let differing = source_differences(new, old);
    if !differing.is_empty() {
        let rule = "spec.persistentvolumesource is immutable after creation";
        let why = format!("{rule}\n{}", differing.join(", "));
        errors.push(Error::forbidden(&SPEC.child("persistentvolumesource"), why));
    }
    let path = Path::new("volumeMode");
    errors.extend(checks::immutable(new.map().get("volumeMode"), old.map().get("volumeMode"), &path));
    if let Some(before) = old.node_affinity()
        && !new.node_affinity().is_some_and(|after| is_same_affinity(after, before))
    {
        let shown = checks::shown(new.map().get("nodeAffinity"));
        let why = "field is immutable, except for updating from beta label to GA";
        errors.push(Error::invalid(&Path::new("nodeAffinity"), shown, why));
    }
    let (class, old_class) = (new.volume_attributes_class_name(), old.volume_attributes_class_name());
    if class != old_class {
        let path = SPEC.child("volumeAttributesClassName");
        let why = "update is forbidden when the VolumeAttributesClass feature gate is disabled";
        errors.push(Error::forbidden(&path, why));
        if class.is_none() {
            errors.push(Error::forbidden(&path, "update from non-nil value to nil is forbidden"));
        }
    }
    errors
}

/// The names of the sources that differ. The secret for expansions may be added to a source that has none.
fn source_differences<'a>(new: PersistentVolumeSpec<'a>, old: PersistentVolumeSpec<'a>) -> Vec<&'a str> {
    let added = |new: &Map, old: &Map| {
        let key = "controllerExpandSecretRef";
        new.contains_key(key) && !old.contains_key(key) && !differs_but_for(new, old, &[key])
    };
    let only_added = new.csi().zip(old.csi()).is_some_and(|(new, old)| added(new.map(), old.map()));
    let mut differing = semantic::differences(PersistentVolumeSpec::schema(), new.map(), old.map());
    let may_differ = |key: &str| OTHER_FIELDS.contains(&key) || (only_added && key == "csi");
    differing.retain(|key| !may_differ(key));
    differing
}

/// Beta labels of nodes may have become those that took their place.
fn is_same_affinity(new: VolumeNodeAffinity<'_>, old: VolumeNodeAffinity<'_>) -> bool {
    let (new, old) = match (new.required(), old.required()) {
        (Some(new), Some(old)) => (new.node_selector_terms(), old.node_selector_terms()),
        (new, old) => return new.is_none() && old.is_none(),
    };
    new.len() == old.len()
        && new.iter().zip(old.iter()).all(|(new, old)| {
            is_same_list(new.match_expressions(), old.match_expressions())
                && is_same_list(new.match_fields(), old.match_fields())
        })
}

fn is_same_list<'a>(
    new: Items<'a, NodeSelectorRequirement<'a>>,
    old: Items<'a, NodeSelectorRequirement<'a>>,
) -> bool {
    new.len() == old.len()
        && new.iter().zip(old.iter()).all(|(new, old)| {
            (new.key() == old.key() || successor(old.key()) == Some(new.key()))
                && !differs_but_for(new.map(), old.map(), &["key"])
        })
}

/// The label that took the place of a beta one.
fn successor(key: &str) -> Option<&'static str> {
    Some(match key {
        "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
        "beta.kubernetes.io/os" => "kubernetes.io/os",
        "beta.kubernetes.io/arch" => "kubernetes.io/arch",
        "beta.kubernetes.io/instance-type" => "node.kubernetes.io/instance-type",
        _ => return None,
    })
}

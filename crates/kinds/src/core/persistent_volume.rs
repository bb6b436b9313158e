//! `persistentvolumes`.

pub(crate) mod rules;

use super::node_selector::term_warnings;
use super::persistent_volume_claim::rules::BETA_CLASS;
use super::pod_spec::{default_azure_disk, default_host_path};
use crate::Resets;
use crate::defaults::{fill_text, round_up, update_map, update_or_insert_map};
use crate::label_selector::Values;
use crate::{
    About, Cell, Column, Context, Deleted, Kind, Rules, Scope, Strategy, Subresource, Version, columns,
    metadata,
};
use object::field::{Error, List, Path};
use object::{Key, Map};
use schema::view::{Items, View};
use schema::views::core::v1::PersistentVolume;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "persistentvolumes",
    singular: "persistentvolume",
    kind: "PersistentVolume",
    short_names: &["pv"],
    scope: Scope::Cluster,
    versions: &[Version::V1.introduced(0)],
    subresources: &[Subresource::STATUS],
    columns: columns!(|object| {
        let volume = PersistentVolume::of(object);
        let (spec, status) = (volume.spec(), volume.status());
        let claim = spec.claim_ref().map(|claim| format!("{}/{}", claim.namespace(), claim.name()));
    } [
        Column::NAME => Cell::name(object),
        Column::text("Capacity", About::Field("core.v1.PersistentVolumeSpec", "capacity"))
            => Cell::text(spec.capacity().get("storage").unwrap_or("0")),
        Column::text("Access Modes", About::Field("core.v1.PersistentVolumeSpec", "accessModes"))
            => Cell::Text(access_modes(spec.access_modes())),
        Column::text(
            "Reclaim Policy",
            About::Field("core.v1.PersistentVolumeSpec", "persistentVolumeReclaimPolicy"),
        ) => Cell::text(spec.persistent_volume_reclaim_policy()),
        Column::text("Status", About::Field("core.v1.PersistentVolumeStatus", "phase"))
            => Cell::text(phase(object, status.phase())),
        Column::text("Claim", About::Field("core.v1.PersistentVolumeSpec", "claimRef"))
            => Cell::Text(claim.unwrap_or_default()),
        Column::text("StorageClass", About::Text("StorageClass of the pv"))
            => Cell::text(storage_class(object, spec.storage_class_name())),
        Column::text("VolumeAttributesClass", About::Text("VolumeAttributesClass of the pv"))
            => Cell::text(spec.volume_attributes_class_name().unwrap_or("<unset>")),
        Column::text("Reason", About::Field("core.v1.PersistentVolumeStatus", "reason"))
            => Cell::text(status.reason()),
        Column::AGE => Cell::age(object),
        Column::text("VolumeMode", About::Field("core.v1.PersistentVolumeSpec", "volumeMode")).wide()
            => Cell::text(spec.volume_mode().unwrap_or("<unset>")),
    ]),
    deleted: Deleted::Object,
    resets: &Resets::STATUS,
    strategy: &PersistentVolumeStrategy,
    ..Kind::PLAIN
};

/// The short names of access modes.
pub(super) fn access_modes(modes: Items<'_, &str>) -> String {
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let there = known.iter().filter(|(mode, _)| modes.iter().any(|there| there == *mode));
    there.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

/// The phase, or `Terminating` with a `deletionTimestamp`.
pub(super) fn phase<'a>(object: &Map, phase: &'a str) -> &'a str {
    if metadata(object).deletion_timestamp().is_some() { "Terminating" } else { phase }
}

/// The storage class: from the field, or from the beta annotation.
pub(super) fn storage_class<'a>(object: &'a Map, class: &'a str) -> &'a str {
    metadata(object).annotations().get(BETA_CLASS).unwrap_or(class)
}

struct PersistentVolumeStrategy;

impl Strategy for PersistentVolumeStrategy {
    fn default(&self, volume: &mut Map) {
        update_or_insert_map(volume, "status", |status| fill_text(status, "phase", "Pending"));
        update_or_insert_map(volume, "spec", |spec| {
            fill_text(spec, "persistentVolumeReclaimPolicy", "Retain");
            fill_text(spec, "volumeMode", "Filesystem");
            round_up(spec, "capacity");
            update_map(spec, "hostPath", default_host_path);
            update_map(spec, "azureDisk", default_azure_disk);
        });
    }

    fn prepare_create(&self, volume: &mut Map, context: &Context<'_>) {
        update_map(volume, "spec", |spec| drop(spec.remove("volumeAttributesClassName")));
        let status = [("phase", "Pending"), ("lastPhaseTransitionTime", context.now)];
        volume.insert(Key::known("status"), Map::from_iter(status));
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        if PersistentVolume::of(old).spec().volume_attributes_class_name().is_none() {
            update_map(new, "spec", |spec| drop(spec.remove("volumeAttributesClassName")));
        }
    }

    fn prepare_status(&self, new: &mut Map, old: &Map, context: &Context<'_>) {
        let before = PersistentVolume::of(old).status();
        let since = before.last_phase_transition_time();
        update_map(new, "status", |status| {
            let now = status.get("lastPhaseTransitionTime").and_then(|time| time.as_str());
            let same_phase =
                status.get("phase").and_then(|phase| phase.as_str()).unwrap_or_default() == before.phase();
            match (same_phase, now) {
                (true, None) => {
                    if let Some(time) = since {
                        status.insert(Key::known("lastPhaseTransitionTime"), time);
                    }
                }
                (false, time) if time.is_none() || time == since => {
                    status.insert(Key::known("lastPhaseTransitionTime"), context.now);
                }
                _ => {}
            }
        });
    }

    fn validate_create(&self, volume: &Map, rules: &Rules<'_>) -> List {
        let mut errors = validate(volume, Values::Checked, rules);
        errors.extend(rules::mount_options(PersistentVolume::of(volume)));
        errors
    }

    /// The reference checks the new state twice.
    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let (after, before) = (PersistentVolume::of(new), PersistentVolume::of(old));
        let own = validate(new, rules::values_after(before.spec()), rules);
        let mut errors = own.clone();
        errors.extend(rules::mount_options(after));
        errors.append(own);
        errors.append(rules::change(after.spec(), before.spec()));
        errors
    }

    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata_update(new, old);
        errors.extend(versioned(new));
        errors
    }

    fn warnings(&self, new: &Map, _old: Option<&Map>) -> Vec<String> {
        let volume = PersistentVolume::of(new);
        let (annotations, spec) = (volume.metadata().annotations(), volume.spec());
        let mut warnings: Vec<String> = DEPRECATED_ANNOTATIONS
            .iter()
            .filter(|(key, _)| annotations.get(key).is_some())
            .map(|(key, why)| format!("metadata.annotations[{key}]: {why}"))
            .collect();
        if spec.persistent_volume_reclaim_policy() == "Recycle" {
            let why = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
            warnings.push(format!("spec.persistentVolumeReclaimPolicy: {why}"));
        }
        let required = spec.node_affinity().and_then(|affinity| affinity.required());
        let path = Path::new("spec.nodeAffinity.required.nodeSelectorTerms");
        for (at, term) in
            required.iter().flat_map(|selector| selector.node_selector_terms().iter()).enumerate()
        {
            warnings.extend(term_warnings(term, Values::Unchecked, &path.index(at)));
        }
        let sources = DEPRECATED_SOURCES.iter().filter(|(key, _, _)| spec.map().contains_key(key));
        warnings.extend(sources.map(|(_, shown, why)| format!("spec.{shown}: {why}")));
        warnings
    }
}

/// The field errors of the state of a volume.
fn validate(volume: &Map, values: Values, rules: &Rules<'_>) -> List {
    let mut errors = rules.metadata(volume);
    let volume = PersistentVolume::of(volume);
    errors.append(rules::spec(volume.spec(), volume.metadata().name(), values));
    errors
}

/// An update of the status needs a resource version.
pub(super) fn versioned(object: &Map) -> Option<Error> {
    let is_missing = metadata(object).resource_version().is_empty();
    is_missing.then(|| Error::required(&Path::new("resourceVersion"), ""))
}

/// Annotations that fields took the place of.
const DEPRECATED_ANNOTATIONS: &[(&str, &str)] = &[
    (BETA_CLASS, r#"deprecated since v1.8; use "storageClassName" attribute instead"#),
    (rules::MOUNT_OPTIONS, r#"deprecated since v1.31; use "mountOptions" attribute instead"#),
];

/// Sources that no longer work: the field, its name in the warning, and what is said of it.
const DEPRECATED_SOURCES: &[(&str, &str, &str)] = &[
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

#[cfg(test)]
mod tests;

//! `persistentvolumeclaims`.

pub(crate) mod rules;

use super::persistent_volume::{access_modes, phase, storage_class, versioned};
use super::pod_spec::default_claim;
use super::pod_warnings;
use crate::Resets;
use crate::defaults::{fill_text, round_up, update_map, update_or_insert_map};
use crate::{About, Cell, Column, Context, Deleted, Kind, Rules, Strategy, Subresource, Version, columns};
use object::field::{List, Path};
use object::{Key, Map, Value};
use schema::view::View;
use schema::views::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "persistentvolumeclaims",
    singular: "persistentvolumeclaim",
    kind: "PersistentVolumeClaim",
    short_names: &["pvc"],
    versions: &[Version::V1.introduced(0)],
    subresources: &[Subresource::STATUS],
    columns: columns!(|object| {
        let claim = PersistentVolumeClaim::of(object);
        let (spec, status) = (claim.spec(), claim.status());
        let (capacity, modes) = match spec.volume_name() {
            "" => ("", String::new()),
            _ => (status.capacity().get("storage").unwrap_or("0"), access_modes(status.access_modes())),
        };
    } [
        Column::NAME => Cell::name(object),
        Column::text("Status", About::Field("core.v1.PersistentVolumeClaimStatus", "phase"))
            => Cell::text(phase(object, status.phase())),
        Column::text("Volume", About::Field("core.v1.PersistentVolumeClaimSpec", "volumeName"))
            => Cell::text(spec.volume_name()),
        Column::text("Capacity", About::Field("core.v1.PersistentVolumeClaimStatus", "capacity"))
            => Cell::text(capacity),
        Column::text("Access Modes", About::Field("core.v1.PersistentVolumeClaimStatus", "accessModes"))
            => Cell::Text(modes),
        Column::text("StorageClass", About::Text("StorageClass of the pvc"))
            => Cell::text(storage_class(object, spec.storage_class_name().unwrap_or_default())),
        Column::text("VolumeAttributesClass", About::Text("VolumeAttributesClass of the pvc"))
            => Cell::text(spec.volume_attributes_class_name().unwrap_or("<unset>")),
        Column::AGE => Cell::age(object),
        Column::text("VolumeMode", About::Field("core.v1.PersistentVolumeClaimSpec", "volumeMode")).wide()
            => Cell::text(spec.volume_mode().unwrap_or("<unset>")),
    ]),
    deleted: Deleted::Object,
    resets: &Resets::STATUS,
    strategy: &PersistentVolumeClaimStrategy,
    ..Kind::PLAIN
};

struct PersistentVolumeClaimStrategy;

impl Strategy for PersistentVolumeClaimStrategy {
    fn default(&self, claim: &mut Map) {
        update_or_insert_map(claim, "status", |status| {
            fill_text(status, "phase", "Pending");
            round_up(status, "capacity");
            round_up(status, "allocatedResources");
        });
        update_or_insert_map(claim, "spec", default_claim);
    }

    fn prepare_create(&self, claim: &mut Map, _context: &Context<'_>) {
        claim.insert(Key::known("status"), Map::from_iter([(Key::known("phase"), "Pending")]));
        update_map(claim, "spec", |spec| {
            drop_disabled(spec, None);
            settle_data_source(spec, None);
        });
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        let old = PersistentVolumeClaim::of(old).spec();
        update_map(new, "spec", |spec| {
            drop_disabled(spec, Some(old));
            settle_data_source(spec, Some(old));
        });
    }

    fn prepare_status(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        let old = PersistentVolumeClaim::of(old).status();
        update_map(new, "status", |status| {
            if old.current_volume_attributes_class_name().is_none() {
                status.remove("currentVolumeAttributesClassName");
            }
            if old.modify_volume_status().is_none() {
                status.remove("modifyVolumeStatus");
            }
        });
    }

    fn validate_create(&self, claim: &Map, rules: &Rules<'_>) -> List {
        validate(claim, rules::ClaimOptions::NEW, rules)
    }

    /// The reference checks the new state twice.
    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let (after, before) = (PersistentVolumeClaim::of(new), PersistentVolumeClaim::of(old));
        let own = validate(new, rules::ClaimOptions::after(before.spec()), rules);
        let mut errors = own.clone();
        errors.append(rules.metadata_update(new, old));
        errors.append(own);
        errors.append(rules::change(after, before));
        errors
    }

    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata_update(new, old);
        errors.extend(versioned(new));
        errors.append(rules::status(PersistentVolumeClaim::of(new)));
        errors
    }

    fn warnings(&self, new: &Map, _old: Option<&Map>) -> Vec<String> {
        let claim = PersistentVolumeClaim::of(new);
        let mut warnings = Vec::new();
        if claim.metadata().annotations().get(rules::BETA_CLASS).is_some() {
            let why = r#"deprecated since v1.8; use "storageClassName" attribute instead"#;
            warnings.push(format!("metadata.annotations[{}]: {why}", rules::BETA_CLASS));
        }
        warnings.extend(pod_warnings::of_claim(claim.spec(), &Path::new("spec")));
        warnings
    }
}

/// The field errors of the state of a claim.
fn validate(claim: &Map, options: rules::ClaimOptions, rules: &Rules<'_>) -> List {
    let mut errors = rules.metadata(claim);
    errors.append(rules::spec(PersistentVolumeClaim::of(claim).spec(), options, &Path::new("spec")));
    errors
}

/// Drops the fields of disabled features unless the old object uses them: volume attributes classes, and data
/// sources in other namespaces.
pub(crate) fn drop_disabled(spec: &mut Map, old: Option<PersistentVolumeClaimSpec<'_>>) {
    if old.is_none_or(|old| old.volume_attributes_class_name().is_none()) {
        spec.remove("volumeAttributesClassName");
    }
    let elsewhere =
        PersistentVolumeClaimSpec::of(spec).data_source_ref().and_then(|source| source.namespace());
    if elsewhere.is_some_and(|namespace| !namespace.is_empty())
        && old.is_none_or(|old| old.data_source_ref().is_none())
    {
        spec.remove("dataSourceRef");
    }
}

/// Makes `dataSource` and `dataSourceRef` agree. `dataSource` accepts only claims and snapshots; other values
/// are dropped.
fn settle_data_source(spec: &mut Map, old: Option<PersistentVolumeClaimSpec<'_>>) {
    let had_source = old.is_some_and(|old| old.data_source().is_some() || old.data_source_ref().is_some());
    let view = PersistentVolumeClaimSpec::of(spec);
    if !had_source
        && view.data_source_ref().is_none()
        && view.data_source().is_some_and(|source| {
            !matches!(
                (source.kind(), source.api_group().unwrap_or_default()),
                ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
            )
        })
    {
        spec.remove("dataSource");
    }
    align_data_sources(spec);
}

/// Copies the one of `dataSource` and `dataSourceRef` that is there to the other one.
fn align_data_sources(spec: &mut Map) {
    let (from, to) = match (spec.get("dataSource"), spec.get("dataSourceRef")) {
        (Some(source), None) => (source, "dataSourceRef"),
        (None, Some(source)) if source.get("namespace").and_then(Value::as_str).is_none_or(str::is_empty) => {
            (source, "dataSource")
        }
        _ => return,
    };
    let same = from.as_map().into_iter().flat_map(Map::iter).filter(|(key, _)| key.as_str() != "namespace");
    let copy: Map = same.map(|(key, value)| (key.clone(), value.clone())).collect();
    spec.insert(Key::known(to), copy);
}

#[cfg(test)]
mod tests;

//! Which volume fits a claim.

use super::Object;
use crate::objects::annotation;
use kinds::label_selector;
use object::Map;
use object::label::Selector;
use object::quantity::Quantity;
use object::quote::Quoted;
use schema::view::{Items, View as _};
use schema::views::core::v1::{PersistentVolume, PersistentVolumeClaim};

const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The class of a claim; `None` if it has none, not even an empty one.
pub(super) fn claim_class(claim: &Map) -> Option<&str> {
    match annotation(claim, CLASS) {
        "" => PersistentVolumeClaim::of(claim).spec().storage_class_name(),
        class => Some(class),
    }
}

/// The class of a volume; empty if it has none.
pub(super) fn volume_class(volume: &Map) -> &str {
    match annotation(volume, CLASS) {
        "" => PersistentVolume::of(volume).spec().storage_class_name(),
        class => class,
    }
}

fn quantity(text: Option<&str>) -> Quantity {
    text.and_then(|text| text.parse().ok())
        .unwrap_or_else(|| Quantity::new(0, object::quantity::Format::BinarySi))
}

fn capacity(volume: &Map) -> Quantity {
    quantity(PersistentVolume::of(volume).spec().capacity().get("storage"))
}

fn requested(claim: &Map) -> Quantity {
    quantity(PersistentVolumeClaim::of(claim).spec().resources().requests().get("storage"))
}

/// Whether a volume is for a claim: it names the claim, and no other uid.
pub(super) fn is_for(volume: &Map, claim: &Object) -> bool {
    PersistentVolume::of(volume).spec().claim_ref().is_some_and(|of| {
        of.name() == claim.entry.name()
            && of.namespace() == claim.entry.namespace()
            && (of.uid().is_empty() || of.uid() == claim.entry.uid())
    })
}

pub(super) fn has_other_mode(volume: &Map, claim: &Map) -> bool {
    let mode = |mode: Option<&str>| mode.unwrap_or("Filesystem").to_owned();
    mode(PersistentVolume::of(volume).spec().volume_mode())
        != mode(PersistentVolumeClaim::of(claim).spec().volume_mode())
}

fn has_modes(volume: &Map, claim: &Map) -> bool {
    let own: Items<'_, &str> = PersistentVolume::of(volume).spec().access_modes();
    let mut wanted = PersistentVolumeClaim::of(claim).spec().access_modes().iter();
    wanted.all(|mode| own.iter().any(|own| own == mode))
}

fn attributes_class_differs(volume: &Map, claim: &Map) -> bool {
    let own = PersistentVolume::of(volume).spec().volume_attributes_class_name();
    let wanted = PersistentVolumeClaim::of(claim).spec().volume_attributes_class_name();
    own.unwrap_or_default() != wanted.unwrap_or_default()
}

/// Why a volume that a claim names does not fit it.
pub(super) fn mismatch(volume: &Object, claim: &Map) -> Option<String> {
    let why = if volume.entry.is_deleting() {
        return Some(format!("the volume is marked for deletion {}", Quoted(volume.entry.name())));
    } else if capacity(&volume.map) < requested(claim) {
        "requested PV is too small"
    } else if volume_class(&volume.map) != claim_class(claim).unwrap_or_default() {
        "storageClassName does not match"
    } else if attributes_class_differs(&volume.map, claim) {
        "volumeAttributesClassName does not match"
    } else if has_other_mode(&volume.map, claim) {
        "incompatible volumeMode"
    } else if !has_modes(&volume.map, claim) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// Whether the claim waits until a pod that uses it is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    Immediate,
    Delayed,
}

/// The best volume for a claim: one that is for it already; otherwise, unless its binding is delayed, one
/// with the fewest access modes, and of these the smallest.
pub(super) fn best(claim: &Object, volumes: Vec<Object>, binding: Binding) -> Result<Option<Object>, String> {
    let spec = PersistentVolumeClaim::of(&claim.map).spec();
    let selector = match spec.selector() {
        None => Selector::everything(),
        Some(selector) => label_selector::compile(selector).map_err(|error| {
            format!(
                "error creating internal label selector for claim: {}/{}: {error}",
                claim.entry.namespace(),
                claim.entry.name()
            )
        })?,
    };
    let requested = requested(&claim.map);
    let class = claim_class(&claim.map).unwrap_or_default();
    let mut best: Option<((usize, Quantity), Object)> = None;
    for volume in volumes {
        let view = PersistentVolume::of(&volume.map);
        let is_own = is_for(&volume.map, claim);
        let size = capacity(&volume.map);
        if view.spec().claim_ref().is_some() && !is_own
            || volume.entry.is_deleting()
            || size < requested
            || has_other_mode(&volume.map, &claim.map)
            || attributes_class_differs(&volume.map, &claim.map)
            || !has_modes(&volume.map, &claim.map)
        {
            continue;
        }
        if is_own {
            return Ok(Some(volume));
        }
        if binding == Binding::Delayed
            || view.status().phase() != "Available"
            || !selector.matches(&*volume.entry)
            || volume_class(&volume.map) != class
        {
            continue;
        }
        let rank = (view.spec().access_modes().len(), size);
        if best.as_ref().is_none_or(|(known, _)| rank < *known) {
            best = Some((rank, volume));
        }
    }
    Ok(best.map(|(_, volume)| volume))
}

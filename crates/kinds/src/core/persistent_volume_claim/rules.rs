//! The rules for claims of volumes: of claims, and of templates for them.

use crate::checks;
use crate::core::persistent_volume::rules::{access_modes, class_name, volume_mode};
use crate::core::resources::{amount, non_negative, not_below_zero, positive, shown};
use crate::label_selector::{self, Values};
use crate::object_meta;
use object::field::{BadValue, Error, List, Path};
use object::name::{Mode, dns1123_subdomain, invalid, name_is_dns_label, qualified_name};
use object::{Key, Map, Value};
use schema::semantic;
use schema::view::View;
use schema::views::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimTemplate,
    TypedLocalObjectReference, TypedObjectReference,
};

/// The annotation that was there before `storageClassName`.
pub(in crate::core) const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

const SPEC: Path<'static> = Path::new("spec");
const STORAGE: &str = "storage";
const RESIZE_STATUSES: &[&str] = &[
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// What a claim may have because the object had it already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimOptions {
    /// Values in the selector.
    selector: Values,
    /// Groups of data sources may be invalid: the old claim names one.
    any_source_group: bool,
    /// The class of attributes is checked. A claim has one only if it had one before the gate of these
    /// classes was turned off; a template may have any, because nothing takes it away.
    attributes_class: bool,
}

impl ClaimOptions {
    /// For a new claim.
    pub(crate) const NEW: Self =
        Self { selector: Values::Checked, any_source_group: false, attributes_class: true };
    /// For a template of claims.
    const TEMPLATE: Self = Self { attributes_class: false, ..Self::NEW };

    /// For a claim that was `old` before.
    pub(in crate::core) fn after(old: PersistentVolumeClaimSpec<'_>) -> Self {
        let is_invalid = |selector| !label_selector::validate(selector, Values::Checked, &SPEC).is_empty();
        let source_group = old.data_source().and_then(|source| source.api_group());
        let ref_group = old.data_source_ref().and_then(|source| source.api_group());
        Self {
            selector: if old.selector().is_some_and(is_invalid) {
                Values::Unchecked
            } else {
                Values::Checked
            },
            any_source_group: source_group.or(ref_group).is_some(),
            attributes_class: true,
        }
    }
}

/// The field errors of a template for a claim.
pub(crate) fn template(template: PersistentVolumeClaimTemplate<'_>, path: &Path<'_>) -> List {
    let own = path.child("metadata");
    let metadata = template.metadata().map();
    let mut errors = object_meta::annotations(Some(metadata), &own.child("annotations"));
    errors.append(object_meta::labels(Some(metadata), &own.child("labels")));
    errors.append(object_meta::only_labels_and_annotations(metadata, &own));
    errors.append(spec(template.spec(), ClaimOptions::TEMPLATE, &path.child("spec")));
    errors
}

/// The field errors of the spec of a claim.
pub(crate) fn spec(spec: PersistentVolumeClaimSpec<'_>, options: ClaimOptions, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let modes = path.child("accessModes");
    if spec.access_modes().is_empty() {
        errors.push(Error::required(&modes, "at least 1 access mode is required"));
    }
    if let Some(selector) = spec.selector() {
        errors.append(label_selector::validate(selector, options.selector, &path.child("selector")));
    }
    errors.append(access_modes(spec.access_modes(), &modes));
    let resources = path.child("resources");
    let storage = resources.key(STORAGE);
    errors.extend(match spec.resources().requests().get(STORAGE) {
        None => Some(Error::required(&storage, "")),
        Some(text) => positive(&amount(text), &storage),
    });
    if let Some(name) = spec.storage_class_name().filter(|name| !name.is_empty()) {
        errors.append(class_name(name, &path.child("storageClassName")));
    }
    if let Some(mode) = spec.volume_mode() {
        errors.extend(volume_mode(mode, &path.child("volumeMode")));
    }
    errors.append(data_sources(spec, options, path));
    if options.attributes_class
        && let Some(name) = spec.volume_attributes_class_name().filter(|name| !name.is_empty())
    {
        errors.append(class_name(name, &path.child("volumeAttributesClassName")));
    }
    errors
}

fn data_sources(spec: PersistentVolumeClaimSpec<'_>, options: ClaimOptions, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let (source, source_ref) = (spec.data_source(), spec.data_source_ref());
    if let Some(source) = source {
        errors.append(data_source(source, options, &path.child("dataSource")));
    }
    let Some(source_ref) = source_ref else { return errors };
    let at = path.child("dataSourceRef");
    errors.append(data_source(TypedLocalObjectReference::of(source_ref.map()), options, &at));
    let namespace = source_ref.namespace().unwrap_or_default();
    if !namespace.is_empty() {
        let messages = name_is_dns_label(namespace, Mode::Name);
        errors.append(invalid(&at.child("namespace"), namespace, messages));
    }
    let why = match source {
        Some(_) if !namespace.is_empty() => "may not be specified when dataSourceRef.namespace is specified",
        Some(source) if !is_same(source, source_ref) => "must match dataSourceRef",
        _ => return errors,
    };
    let shown = BadValue::Raw(path.child("dataSource").to_string());
    errors.push(Error::invalid(path, shown, why));
    errors
}

fn is_same(source: TypedLocalObjectReference<'_>, source_ref: TypedObjectReference<'_>) -> bool {
    source.api_group() == source_ref.api_group()
        && source.kind() == source_ref.kind()
        && source.name() == source_ref.name()
}

/// A data source, or a reference to one.
fn data_source(source: TypedLocalObjectReference<'_>, options: ClaimOptions, path: &Path<'_>) -> List {
    let mut errors = List::new();
    errors.extend(checks::required(source.name(), &path.child("name")));
    errors.extend(checks::required(source.kind(), &path.child("kind")));
    match source.api_group().unwrap_or_default() {
        "" if source.kind() != "PersistentVolumeClaim" => {
            let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.push(Error::invalid(path, source.kind(), why));
        }
        "" => {}
        group if !options.any_source_group => {
            errors.append(invalid(&path.child("apiGroup"), group, dns1123_subdomain(group)));
        }
        _ => {}
    }
    errors
}

/// The field errors of a change of a claim, without those of its new state alone.
pub(super) fn change(new: PersistentVolumeClaim<'_>, old: PersistentVolumeClaim<'_>) -> List {
    let mut errors = List::new();
    let (before, after) = (old.spec(), new.spec());
    let upgrade = ClassUpgrade::of(new, old);
    if upgrade != ClassUpgrade::FromAnnotation {
        errors.extend(annotation_change(new, old));
    }
    let (fixed_after, fixed_before) = fixed(new, old, upgrade);
    let differing = semantic::differences(PersistentVolumeClaimSpec::schema(), &fixed_after, &fixed_before);
    if !differing.is_empty() {
        let rule = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(Error::forbidden(&SPEC, format!("{rule}\n{}", differing.join(", "))));
    }
    let size = |text: Option<&str>| amount(text.unwrap_or("0"));
    let new_size = size(after.resources().requests().get(STORAGE));
    let shrinks = new_size < size(before.resources().requests().get(STORAGE));
    if shrinks && new_size <= size(old.status().capacity().get(STORAGE)) {
        let resources = SPEC.child("resources");
        let path = resources.child("requests");
        let why = "field can not be less than status.capacity";
        errors.push(Error::forbidden(&path.child(STORAGE), why));
    }
    let path = Path::new("volumeMode");
    errors.extend(checks::immutable(after.map().get("volumeMode"), before.map().get("volumeMode"), &path));
    let (new_class, old_class) =
        (after.volume_attributes_class_name(), before.volume_attributes_class_name());
    if new_class != old_class {
        let path = SPEC.child("volumeAttributesClassName");
        let why = "update is forbidden when the VolumeAttributesClass feature gate is disabled";
        errors.push(Error::forbidden(&path, why));
        match new_class {
            None => errors.push(Error::forbidden(&path, "update from non-nil value to nil is forbidden")),
            Some("") => {
                let why = "update from non-nil value to an empty string is forbidden";
                errors.push(Error::forbidden(&path, why));
            }
            Some(_) => {}
        }
    }
    errors
}

/// How a claim without a storage class gets one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClassUpgrade {
    /// It does not.
    None,
    /// It had the annotation for it, and now has the field.
    FromAnnotation,
    /// It had nothing.
    FromNothing,
}

impl ClassUpgrade {
    fn of(new: PersistentVolumeClaim<'_>, old: PersistentVolumeClaim<'_>) -> Self {
        let Some(class) = new.spec().storage_class_name() else { return Self::None };
        let annotation = old.metadata().annotations().get(BETA_CLASS);
        if old.spec().storage_class_name().is_some() || annotation.is_some_and(|old| old != class) {
            return Self::None;
        }
        let kept = new.metadata().annotations().get(BETA_CLASS);
        match annotation {
            Some(old) if kept.is_none_or(|kept| kept == old) => Self::FromAnnotation,
            _ => Self::FromNothing,
        }
    }
}

fn annotation_change(new: PersistentVolumeClaim<'_>, old: PersistentVolumeClaim<'_>) -> Option<Error> {
    let (new, old) = (new.metadata().annotations(), old.metadata().annotations());
    let (new, old) = (new.get(BETA_CLASS).unwrap_or_default(), old.get(BETA_CLASS).unwrap_or_default());
    let metadata = Path::new("metadata");
    let annotations = metadata.child("annotations");
    (new != old).then(|| Error::invalid(&annotations.child(BETA_CLASS), new, "field is immutable"))
}

/// The new spec and the old one, made equal in what may change.
fn fixed(
    new: PersistentVolumeClaim<'_>,
    old: PersistentVolumeClaim<'_>,
    upgrade: ClassUpgrade,
) -> (Map, Map) {
    let (mut after, mut before) = (new.spec().map().clone(), old.spec().map().clone());
    super::align_data_sources(&mut before);
    if old.spec().volume_name().is_empty() {
        crate::keep(&mut before, &after.clone(), "volumeName");
    }
    if upgrade != ClassUpgrade::None {
        after.remove("storageClassName");
    }
    if new.status().phase() == "Bound" {
        if let Some(size) = old.spec().resources().requests().get(STORAGE) {
            set_size(&mut after, size);
        }
        if after.contains_key("volumeAttributesClassName") {
            crate::keep(&mut after, &before, "volumeAttributesClassName");
        }
    }
    (after, before)
}

/// Sets the size that a claim asks for, if it asks for anything.
fn set_size(spec: &mut Map, size: &str) {
    let requests =
        spec.get_mut("resources").and_then(|resources| resources.as_map_mut()?.get_mut("requests"));
    if let Some(requests) = requests.and_then(Value::as_map_mut) {
        requests.insert(Key::known(STORAGE), size);
    }
}

/// The field errors of the status of a claim.
pub(super) fn status(claim: PersistentVolumeClaim<'_>) -> List {
    let mut errors = List::new();
    if claim.spec().access_modes().is_empty() {
        let path = Path::new("Spec");
        errors.push(Error::required(&path.child("accessModes"), ""));
    }
    let (path, status) = (Path::new("status"), claim.status());
    let capacity = path.child("capacity");
    for (name, text) in status.capacity().iter() {
        errors.extend(not_below_zero(&amount(text), &capacity.key(name)));
    }
    let statuses = path.child("allocatedResourceStatus");
    for (name, text) in status.allocated_resource_statuses().iter() {
        errors.append(resource_key(name, &statuses));
        if !RESIZE_STATUSES.contains(&text) {
            let among = RESIZE_STATUSES.iter().copied();
            errors.push(Error::not_supported(&statuses, shown(name), among));
        }
    }
    let allocated = path.child("allocatedResources");
    for (name, text) in status.allocated_resources().iter() {
        let key = resource_key(name, &allocated);
        if !key.is_empty() {
            errors.append(key);
            continue;
        }
        let (amount, path) = (amount(text), allocated.key(name));
        errors.extend(not_below_zero(&amount, &path).or_else(|| non_negative(&amount, &path)));
    }
    errors
}

/// The name of a resource that the status of a claim may have: storage, or one of another domain.
fn resource_key(name: &str, path: &Path<'_>) -> List {
    let mut errors = invalid(path, name, qualified_name(name));
    if errors.is_empty() && crate::core::resources::is_native(name) {
        errors.extend(checks::one_of(name, &[STORAGE], path));
    }
    errors
}

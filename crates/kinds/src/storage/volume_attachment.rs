//! `volumeattachments`.

use crate::Resets;
use crate::core::persistent_volume::rules::{class_name, inline_spec};
use crate::core::pod_spec;
use crate::core::volume_sources::csi_driver_name;
use crate::defaults::{round_up, update_map};
use crate::{
    About, Cell, Column, Context, Deleted, Kind, OldVersion, Rules, Scope, Strategy, Subresource, Version,
    checks, columns,
};
use object::Map;
use object::field::{Error, List, Path};
use object::name::range_message;
use schema::view::View;
use schema::views::storage::v1::{
    VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec, VolumeAttachmentStatus, VolumeError,
};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "storage.k8s.io",
    resource: "volumeattachments",
    singular: "volumeattachment",
    kind: "VolumeAttachment",
    versions: &[Version::V1.introduced(13)],
    old_versions: &[
        OldVersion::named("storage.k8s.io/v1beta1"),
        OldVersion::named("storage.k8s.io/v1alpha1"),
    ],
    scope: Scope::Cluster,
    subresources: &[Subresource::STATUS],
    columns: columns!(|object| {
        let attachment = VolumeAttachment::of(object);
        let spec = attachment.spec();
    } [
        Column::NAME => Cell::name(object),
        Column {
            format: "name",
            ..Column::text("Attacher", About::Field("storage.v1.VolumeAttachmentSpec", "attacher"))
        } => Cell::text(spec.attacher()),
        Column::text("PV", About::Field("storage.v1.VolumeAttachmentSource", "persistentVolumeName"))
            => Cell::text(spec.source().persistent_volume_name().unwrap_or_default()),
        Column::text("Node", About::Field("storage.v1.VolumeAttachmentSpec", "nodeName"))
            => Cell::text(spec.node_name()),
        crate::cells::boolean("Attached", About::Field("storage.v1.VolumeAttachmentStatus", "attached"))
            => Cell::Bool(attachment.status().attached()),
        Column::AGE => Cell::age(object),
    ]),
    deleted: Deleted::Object,
    resets: &Resets::STATUS_WITHOUT_METADATA,
    strategy: &VolumeAttachmentStrategy,
    ..Kind::PLAIN
};

/// In bytes, of keys and values together.
const LARGEST_METADATA: usize = 256 << 10;
const LONGEST_MESSAGE: usize = 1024;

struct VolumeAttachmentStrategy;

impl Strategy for VolumeAttachmentStrategy {
    fn default(&self, object: &mut Map) {
        update_map(object, "spec", |spec| {
            update_map(spec, "source", |source| update_map(source, "inlineVolumeSpec", inline_volume))
        });
    }

    fn prepare_status(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        let status = VolumeAttachment::of(old).status();
        let errors = [("attachError", status.attach_error()), ("detachError", status.detach_error())];
        for (key, before) in errors {
            if before.and_then(|error| error.error_code()).is_none() {
                drop_error_code(new, key);
            }
        }
    }

    /// A new attachment has stricter names than one that is there.
    fn validate_create(&self, object: &Map, rules: &Rules<'_>) -> List {
        let mut errors = validate(object, rules);
        let spec = VolumeAttachment::of(object).spec();
        let path = Path::new("spec");
        errors.append(csi_driver_name(spec.attacher(), &path.child("attacher")));
        if let Some(name) = spec.source().persistent_volume_name() {
            let path = path.child("source");
            errors.append(class_name(name, &path.child("persistentVolumeName")));
        }
        errors
    }

    /// The reference checks the new state twice.
    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let own = validate(new, rules);
        let mut errors = own.clone();
        errors.append(own);
        errors.extend(checks::immutable(new.get("spec"), old.get("spec"), &Path::new("spec")));
        errors
    }

    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        self.validate_update(new, old, rules)
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// The field errors of the state of an attachment.
fn validate(object: &Map, rules: &Rules<'_>) -> List {
    let attachment = VolumeAttachment::of(object);
    let mut errors = rules.metadata(object);
    errors.append(spec(attachment.spec(), &Path::new("spec")));
    errors.append(status(attachment.status(), &Path::new("status")));
    errors
}

fn spec(spec: VolumeAttachmentSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    errors.extend(checks::required(spec.attacher(), &path.child("attacher")));
    errors.append(source(spec.source(), &path.child("source")));
    errors.append(class_name(spec.node_name(), &path.child("nodeName")));
    errors
}

fn source(source: VolumeAttachmentSource<'_>, path: &Path<'_>) -> List {
    let one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (source.inline_volume_spec(), source.persistent_volume_name()) {
        (None, None) => Error::required(path, one).into(),
        (Some(_), Some(_)) => Error::forbidden(path, one).into(),
        (None, Some("")) => {
            let why = "must specify non empty persistentVolumeName";
            Error::required(&path.child("persistentVolumeName"), why).into()
        }
        (None, Some(_)) => List::new(),
        (Some(spec), None) => inline_spec(spec, &path.child("inlineVolumeSpec")),
    }
}

fn status(status: VolumeAttachmentStatus<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let size: usize = status.attachment_metadata().iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > LARGEST_METADATA {
        errors.push(Error::too_long(&path.child("attachmentMetadata"), Some(LARGEST_METADATA)));
    }
    for (key, error) in [("attachError", status.attach_error()), ("detachError", status.detach_error())] {
        if let Some(error) = error {
            errors.append(volume_error(error, &path.child(key)));
        }
    }
    errors
}

/// The message of a message that is too long names another limit.
fn volume_error(error: VolumeError<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if error.message().len() > LONGEST_MESSAGE {
        errors.push(Error::too_long(&path.child("message"), Some(LARGEST_METADATA)));
    }
    if let Some(code @ ..0) = error.error_code() {
        let why = range_message(0, i32::MAX.into());
        errors.push(Error::invalid(&path.child("errorCode"), code, why));
    }
    errors
}

/// The feature `MutableCSINodeAllocatableCount` is off: drops the field unless the old object uses it.
fn drop_error_code(object: &mut Map, key: &str) {
    update_map(object, "status", |status| update_map(status, key, |error| drop(error.remove("errorCode"))));
}

fn inline_volume(volume: &mut Map) {
    round_up(volume, "capacity");
    update_map(volume, "hostPath", pod_spec::default_host_path);
    update_map(volume, "azureDisk", pod_spec::default_azure_disk);
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, status, update};

    fn attachment(spec: &str, status: &str) -> String {
        format!(
            r#"{{"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttachment","spec":{spec},"status":{status}}}"#
        )
    }

    const GOOD: &str = r#"{"attacher":"a.io","nodeName":"n","source":{"persistentVolumeName":"v"}}"#;

    #[test]
    fn new_attachment_names_a_driver_and_a_volume() {
        assert!(create(&attachment(GOOD, "{}")).is_empty());
        let spec = r#"{"attacher":"A.io","nodeName":"n","source":{"persistentVolumeName":"v","inlineVolumeSpec":{}}}"#;
        assert_eq!(
            create(&attachment(spec, "{}")),
            ["spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName"]
        );
        assert!(create(&attachment("{}", "{}")).contains(&"spec.attacher: Required value".to_owned()));
    }

    #[test]
    fn volume_without_an_object_is_one_of_a_driver() {
        let inline = r#"{"attacher":"a.io","nodeName":"n","source":{"inlineVolumeSpec":{"accessModes":["ReadWriteOnce"],
            "local":{"path":"/a"},"claimRef":{},"capacity":{"storage":"1"},"persistentVolumeReclaimPolicy":"Delete",
            "nodeAffinity":{},"storageClassName":"c","volumeMode":"Block"}}}"#;
        let errors = create(&attachment(inline, "{}"));
        let texts: Vec<_> =
            errors.iter().map(|error| error.trim_start_matches("spec.source.inlineVolumeSpec.")).collect();
        let refused = |field: &str| {
            format!("{field}: Forbidden: may not be specified in the context of inline volumes")
        };
        assert_eq!(
            texts,
            [
                refused("claimRef"),
                refused("capacity"),
                "csi: Required value: has to be specified in the context of inline volumes".to_owned(),
                "persistentVolumeReclaimPolicy: Forbidden: may only be Retain in the context of inline volumes".to_owned(),
                refused("nodeAffinity"),
                "nodeAffinity: Required value: Local volume requires node affinity".to_owned(),
                refused("storageClassName"),
                "volumeMode: Forbidden: may not specify volumeMode other than Filesystem in the context of inline volumes".to_owned(),
            ]
        );
    }

    #[test]
    fn spec_does_not_change_and_each_error_is_there_twice() {
        let new =
            attachment(r#"{"attacher":"a.io","nodeName":"N","source":{"persistentVolumeName":"v"}}"#, "{}");
        let errors = update(&new, &attachment(GOOD, "{}"));
        assert_eq!(errors.len(), 3);
        assert_eq!(errors[0], errors[1]);
        assert!(
            errors[2].starts_with("spec: Invalid value: ") && errors[2].ends_with(": field is immutable"),
            "{errors:?}"
        );
    }

    #[test]
    fn status_is_bounded() {
        let long = format!(
            r#"{{"attachError":{{"message":"{}"}},"attachmentMetadata":{{"a":"{}"}}}}"#,
            "m".repeat(1025),
            "v".repeat(256 << 10)
        );
        let errors = status(&attachment(GOOD, &long), &attachment(GOOD, "{}"));
        assert_eq!(
            errors[..2],
            [
                "status.attachmentMetadata: Too long: may not be more than 262144 bytes",
                "status.attachError.message: Too long: may not be more than 262144 bytes",
            ]
        );
        let code = |number: i64| attachment(GOOD, &format!(r#"{{"detachError":{{"errorCode":{number}}}}}"#));
        let refused =
            "status.detachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive";
        assert_eq!(status(&code(-1), &code(1))[0], refused);
        assert!(status(&code(-1), &attachment(GOOD, "{}")).is_empty());
    }
}

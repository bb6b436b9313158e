//! `volumeattachments`.

use crate::core::pod_spec;
use crate::defaults::{at, round_up};
use crate::resets;
use crate::{
    About, Cell, Column, Columns, Context, Deleted, Kind, Row, Scope, Strategy, Subresource, keep_all_but,
    keep_metadata,
};
use object::Map;
use schema::view::View;
use schema::views::storage::v1::VolumeAttachment;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "storage.k8s.io",
    resource: "volumeattachments",
    singular: "volumeattachment",
    kind: "VolumeAttachment",
    scope: Scope::Cluster,
    subresources: &[Subresource::STATUS],
    columns: Columns {
        list: &[
            Column::NAME,
            Column {
                format: "name",
                ..Column::text("Attacher", About::Field("storage.v1.VolumeAttachmentSpec", "attacher"))
            },
            Column::text("PV", About::Field("storage.v1.VolumeAttachmentSource", "persistentVolumeName")),
            Column::text("Node", About::Field("storage.v1.VolumeAttachmentSpec", "nodeName")),
            crate::cells::boolean("Attached", About::Field("storage.v1.VolumeAttachmentStatus", "attached")),
            Column::AGE,
        ],
        row,
    },
    deleted: Deleted::Object,
    resets: resets::STATUS_WITHOUT_METADATA,
    strategy: &VolumeAttachmentStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let attachment = VolumeAttachment::of(object);
    let spec = attachment.spec();
    vec![
        Cell::name(object),
        Cell::text(spec.attacher()),
        Cell::text(spec.source().persistent_volume_name().unwrap_or_default()),
        Cell::text(spec.node_name()),
        Cell::Bool(attachment.status().attached()),
        Cell::age(object),
    ]
    .into()
}

struct VolumeAttachmentStrategy;

impl Strategy for VolumeAttachmentStrategy {
    fn default(&self, object: &mut Map) {
        at(object, "spec", |spec| at(spec, "source", |source| at(source, "inlineVolumeSpec", inline_volume)));
    }

    fn prepare_status(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        keep_all_but(new, old, &["apiVersion", "kind", "metadata", "status"]);
        keep_metadata(new, old);
        let status = VolumeAttachment::of(old).status();
        let errors = [("attachError", status.attach_error()), ("detachError", status.detach_error())];
        for (key, before) in errors {
            if before.and_then(|error| error.error_code()).is_none() {
                drop_error_code(new, key);
            }
        }
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// The feature `MutableCSINodeAllocatableCount` is off: drops the field unless the old object uses it.
fn drop_error_code(object: &mut Map, key: &str) {
    at(object, "status", |status| at(status, key, |error| drop(error.remove("errorCode"))));
}

fn inline_volume(volume: &mut Map) {
    round_up(volume, "capacity");
    at(volume, "hostPath", pod_spec::default_host_path);
    at(volume, "azureDisk", pod_spec::default_azure_disk);
}

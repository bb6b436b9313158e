//! `csidrivers`.

use crate::cells::{NONE, UNSET, boolean, joined};
use crate::defaults::{at, fill, fill_text, within};
use crate::{About, Cell, Column, Columns, Context, Deleted, Generation, Kind, Row, Scope, Strategy};
use object::{Map, Value};
use schema::view::View;
use schema::views::storage::v1::{CSIDriver, CSIDriverSpec};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "storage.k8s.io",
    resource: "csidrivers",
    singular: "csidriver",
    kind: "CSIDriver",
    scope: Scope::Cluster,
    columns: Columns {
        list: &[
            Column::NAME,
            boolean("AttachRequired", About::Field("storage.v1.CSIDriverSpec", "attachRequired")),
            boolean("PodInfoOnMount", About::Field("storage.v1.CSIDriverSpec", "podInfoOnMount")),
            boolean("StorageCapacity", About::Field("storage.v1.CSIDriverSpec", "storageCapacity")),
            Column::text("TokenRequests", About::Field("storage.v1.CSIDriverSpec", "tokenRequests")),
            boolean("RequiresRepublish", About::Field("storage.v1.CSIDriverSpec", "requiresRepublish")),
            Column::text("Modes", About::Field("storage.v1.CSIDriverSpec", "volumeLifecycleModes")),
            Column::AGE,
        ],
        row,
    },
    generation: Generation::CountedLater,
    deleted: Deleted::Object,
    strategy: &CSIDriverStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let spec = CSIDriver::of(object).spec();
    vec![
        Cell::name(object),
        Cell::Bool(spec.attach_required().unwrap_or(true)),
        Cell::Bool(spec.pod_info_on_mount().unwrap_or_default()),
        Cell::Bool(spec.storage_capacity().unwrap_or_default()),
        Cell::Text(audiences(spec)),
        Cell::Bool(spec.requires_republish().unwrap_or_default()),
        Cell::Text(modes(spec)),
        Cell::age(object),
    ]
    .into()
}

/// The audiences of the service account tokens that the driver requests.
fn audiences(spec: CSIDriverSpec<'_>) -> String {
    let requests = spec.token_requests();
    if requests.is_empty() {
        UNSET.into()
    } else {
        joined(requests.iter().map(|request| request.audience()), ",")
    }
}

fn modes(spec: CSIDriverSpec<'_>) -> String {
    let text = joined(spec.volume_lifecycle_modes().iter(), ",");
    if text.is_empty() { NONE.into() } else { text }
}

struct CSIDriverStrategy;

impl Strategy for CSIDriverStrategy {
    fn default(&self, object: &mut Map) {
        within(object, "spec", |spec| {
            fill(spec, "attachRequired", true);
            fill(spec, "podInfoOnMount", false);
            fill(spec, "storageCapacity", false);
            fill_text(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
            fill(spec, "volumeLifecycleModes", Value::from_iter(["Persistent"]));
            fill(spec, "requiresRepublish", false);
            fill(spec, "seLinuxMount", false);
        });
    }

    fn prepare_create(&self, object: &mut Map, _context: &Context<'_>) {
        drop_update_period(object);
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        if CSIDriver::of(old).spec().node_allocatable_update_period_seconds().is_none() {
            drop_update_period(new);
        }
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// The feature `MutableCSINodeAllocatableCount` is off: drops the field unless the old object uses it.
fn drop_update_period(object: &mut Map) {
    at(object, "spec", |spec| drop(spec.remove("nodeAllocatableUpdatePeriodSeconds")));
}

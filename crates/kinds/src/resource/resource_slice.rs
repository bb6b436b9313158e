//! `resourceslices`.

use super::{conversion, default_slice, versions};
use crate::defaults::{at, each, fill};
use crate::{
    About, Cell, Column, Columns, Context, Deleted, Generation, Kind, Refusal, Row, Scope, SelectableFields,
    SelectableRow, Strategy, Version,
};
use object::Map;
use schema::view::View;
use schema::views::resource::v1beta1::ResourceSlice;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "resource.k8s.io",
    resource: "resourceslices",
    singular: "resourceslice",
    kind: "ResourceSlice",
    scope: Scope::Cluster,
    versions: versions!(Some(&conversion::SLICE), Some(&conversion::SLICE_V1ALPHA3)),
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text("Node", About::Field("resource.v1beta1.ResourceSliceSpec", "nodeName")),
            Column::text("Driver", About::Field("resource.v1beta1.ResourceSliceSpec", "driver")),
            Column::text("Pool", About::Field("resource.v1beta1.ResourcePool", "name")),
            Column::AGE,
        ],
        row,
    },
    fields: SelectableFields {
        list: &[SelectableRow::at(&["spec.nodeName"]), SelectableRow::at(&["spec.driver"])],
        refusal: Refusal::NotSupportedForVersion,
    },
    generation: Generation::Counted,
    deleted: Deleted::Object,
    strategy: &ResourceSliceStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let spec = ResourceSlice::of(object).spec();
    vec![
        Cell::name(object),
        Cell::text(spec.node_name()),
        Cell::text(spec.driver()),
        Cell::text(spec.pool().name()),
        Cell::age(object),
    ]
    .into()
}

struct ResourceSliceStrategy;

impl Strategy for ResourceSliceStrategy {
    fn default(&self, object: &mut Map) {
        at(object, "spec", default_slice);
    }

    fn prepare_create(&self, object: &mut Map, _context: &Context<'_>) {
        drop_taints(object);
        drop_partitions(object);
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, context: &Context<'_>) {
        in_devices(new, |device| each(device, "taints", |taint| fill(taint, "timeAdded", context.now)));
        if !has_taints(old) {
            drop_taints(new);
        }
        if !has_partitions(old) {
            drop_partitions(new);
        }
    }
}

fn in_devices(object: &mut Map, mut to: impl FnMut(&mut Map)) {
    at(object, "spec", |spec| each(spec, "devices", |device| at(device, "basic", &mut to)));
}

fn has_taints(object: &Map) -> bool {
    let devices = ResourceSlice::of(object).spec().devices();
    devices.iter().filter_map(|device| device.basic()).any(|device| !device.taints().is_empty())
}

/// The feature `DRADeviceTaints` is off: drops taints unless the old object has some.
fn drop_taints(object: &mut Map) {
    in_devices(object, |device| drop(device.remove("taints")));
}

fn has_partitions(object: &Map) -> bool {
    let spec = ResourceSlice::of(object).spec();
    spec.per_device_node_selection().is_some()
        || !spec.shared_counters().is_empty()
        || spec
            .devices()
            .iter()
            .filter_map(|device| device.basic())
            .any(|device| PARTITION.iter().any(|key| device.map().contains_key(key)))
}

/// The fields of partitionable devices.
const PARTITION: &[&str] = &["consumesCounters", "nodeName", "nodeSelector", "allNodes"];

/// The feature `DRAPartitionableDevices` is off: drops its fields unless the old object uses them.
fn drop_partitions(object: &mut Map) {
    at(object, "spec", |spec| {
        spec.retain(|key, _| !matches!(key.as_str(), "sharedCounters" | "perDeviceNodeSelection"));
    });
    in_devices(object, |device| device.retain(|key, _| !PARTITION.contains(&key.as_str())));
}

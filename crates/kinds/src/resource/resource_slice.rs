//! `resourceslices`.

use super::{conversion, default_slice, slice, versions};
use crate::defaults::{each, fill, update_map};
use crate::{
    About, Cell, Check, Column, Context, Deleted, Generation, Kind, Refusal, Rules, Scope, SelectableFields,
    SelectableRow, Strategy, Version, columns,
};
use object::Map;
use object::field::List;
use schema::view::View;
use schema::views::resource::v1beta1::ResourceSlice;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "resource.k8s.io",
    resource: "resourceslices",
    singular: "resourceslice",
    kind: "ResourceSlice",
    scope: Scope::Cluster,
    versions: versions!("ResourceSlice", Some(&conversion::SLICE), Some(&conversion::SLICE_V1ALPHA3)),
    columns: columns!(|object| {
        let spec = ResourceSlice::of(object).spec();
    } [
        Column::NAME => Cell::name(object),
        Column::text("Node", About::Field("resource.v1beta1.ResourceSliceSpec", "nodeName"))
            => Cell::text(spec.node_name()),
        Column::text("Driver", About::Field("resource.v1beta1.ResourceSliceSpec", "driver"))
            => Cell::text(spec.driver()),
        Column::text("Pool", About::Field("resource.v1beta1.ResourcePool", "name"))
            => Cell::text(spec.pool().name()),
        Column::AGE => Cell::age(object),
    ]),
    fields: SelectableFields {
        list: &[SelectableRow::at(&["spec.nodeName"]), SelectableRow::at(&["spec.driver"])],
        refusal: Refusal::NotSupportedForVersion,
    },
    generation: Generation::Counted,
    deleted: Deleted::Object,
    update_checks: &[Check::MetadataChange, Check::Object],
    strategy: &ResourceSliceStrategy,
    ..Kind::PLAIN
};

struct ResourceSliceStrategy;

impl Strategy for ResourceSliceStrategy {
    fn default(&self, object: &mut Map) {
        update_map(object, "spec", default_slice);
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

    fn validate_object(&self, object: &Map, old: Option<&Map>, _rules: &Rules<'_>) -> List {
        slice::validate(ResourceSlice::of(object).spec(), old.map(|old| ResourceSlice::of(old).spec()))
    }
}

fn in_devices(object: &mut Map, mut to: impl FnMut(&mut Map)) {
    update_map(object, "spec", |spec| each(spec, "devices", |device| update_map(device, "basic", &mut to)));
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
    update_map(object, "spec", |spec| {
        spec.retain(|key, _| !matches!(key.as_str(), "sharedCounters" | "perDeviceNodeSelection"));
    });
    in_devices(object, |device| device.retain(|key, _| !PARTITION.contains(&key.as_str())));
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};

    fn slice(spec: &str) -> String {
        format!(r#"{{"apiVersion":"resource.k8s.io/v1beta1","kind":"ResourceSlice","spec":{{{spec}}}}}"#)
    }

    #[test]
    fn slices_name_a_driver_a_pool_and_nodes() {
        assert_eq!(
            create(&slice(r#""driver":"d","pool":{"name":"","resourceSliceCount":0,"generation":-1}"#)),
            [
                "spec.pool.name: Required value",
                "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
                "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero",
                "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
            ]
        );
        let of = |fields: &str| {
            slice(&format!(r#""driver":"d","pool":{{"name":"p","resourceSliceCount":1}}{fields}"#))
        };
        assert_eq!(
            create(&of(r#","nodeName":"n","allNodes":true"#)),
            [
                r#"spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set"#
            ]
        );
        assert_eq!(
            update(&of(r#","nodeName":"m""#), &of(r#","nodeName":"n""#)),
            [r#"spec.nodeName: Invalid value: "m": field is immutable"#]
        );
    }

    #[test]
    fn devices_have_names_and_properties() {
        let device = r#"{"name":"a","basic":{"attributes":{"x":{},"y":{"string":"s","bool":true},"1":{"version":"1.0"}}}}"#;
        let errors = create(&slice(&format!(
            r#""driver":"d","pool":{{"name":"p","resourceSliceCount":1}},"allNodes":true,"devices":[{device},{{"name":"a"}}]"#
        )));
        let path = "spec.devices[0].attributes";
        let both = "exactly one value must be specified";
        assert_eq!(
            errors[..2],
            [
                format!("{path}[x]: Required value: {both}"),
                format!(r#"{path}[y]: Invalid value: {{"bool":true,"string":"s"}}: {both}"#),
            ]
        );
        assert!(errors[2].starts_with(&format!(r#"{path}[1]: Invalid value: "1": a valid C identifier"#)));
        assert_eq!(
            errors[3..],
            [
                format!(
                    r#"{path}[1].version: Invalid value: "1.0": must be a string compatible with semver.org spec 2.0.0"#
                ),
                r#"spec.devices[1].name: Duplicate value: "a""#.to_owned(),
            ]
        );
    }
}

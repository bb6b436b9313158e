//! `resourceclaims`.

use super::{conversion, default_claim, drop_from_claim, has_admin_access, versions};
use crate::defaults::{at, each};
use crate::resets;
use crate::{
    About, Cell, Column, Columns, Context, Deleted, Kind, Row, Strategy, Subresource, Version, keep,
    keep_all_but, keep_metadata, metadata,
};
use object::{Map, Value};
use schema::view::View;
use schema::views::resource::v1beta1::{AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim};
use std::collections::HashSet;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "resource.k8s.io",
    resource: "resourceclaims",
    singular: "resourceclaim",
    kind: "ResourceClaim",
    versions: versions!(Some(&conversion::CLAIM), None),
    subresources: &[Subresource::STATUS],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text(
                "State",
                About::Text("A summary of the current state (allocated, pending, reserved, etc.)."),
            ),
            Column::AGE,
        ],
        row,
    },
    deleted: Deleted::Object,
    resets: resets::STATUS,
    strategy: &ResourceClaimStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    vec![Cell::name(object), Cell::text(state(object)), Cell::age(object)].into()
}

fn state(object: &Map) -> &'static str {
    let status = ResourceClaim::of(object).status();
    let deleted = metadata(object).deletion_timestamp().is_some();
    match (deleted, status.allocation().is_some(), !status.reserved_for().is_empty()) {
        (true, false, _) => "deleted",
        (true, true, false) => "deleted,allocated",
        (true, true, true) => "deleted,allocated,reserved",
        (false, false, _) => "pending",
        (false, true, false) => "allocated",
        (false, true, true) => "allocated,reserved",
    }
}

struct ResourceClaimStrategy;

impl Strategy for ResourceClaimStrategy {
    fn default(&self, object: &mut Map) {
        at(object, "spec", default_claim);
    }

    fn prepare_create(&self, object: &mut Map, _context: &Context<'_>) {
        object.remove("status");
        drop_disabled(object, None);
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        keep(new, old, "status");
        drop_disabled(new, Some(old));
    }

    fn prepare_status(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        keep_all_but(new, old, &["apiVersion", "kind", "metadata", "status"]);
        keep_metadata(new, old);
        drop_released(new, old);
        drop_disabled(new, Some(old));
    }
}

/// The features `DRAPrioritizedList` and `DRAAdminAccess` are off: drops their fields unless the old object uses them.
fn drop_disabled(new: &mut Map, old: Option<&Map>) {
    let spec = old.and_then(|old| old.get("spec")).and_then(Value::as_map);
    let old_results = old.map(results).unwrap_or_default();
    let admin = old_results.iter().any(|result| result.admin_access().is_some())
        || spec.is_some_and(has_admin_access);
    at(new, "spec", |new| drop_from_claim(new, spec, admin));
    if !admin {
        at(new, "status", |status| {
            at(status, "allocation", |allocation| {
                at(allocation, "devices", |devices| {
                    each(devices, "results", |result| drop(result.remove("adminAccess")));
                });
            });
        });
    }
}

fn results(object: &Map) -> Vec<DeviceRequestAllocationResult<'_>> {
    let allocation = ResourceClaim::of(object).status().allocation();
    allocation.map(|allocation| allocation.devices().results().iter().collect()).unwrap_or_default()
}

/// Drops the status of devices that are no longer allocated.
fn drop_released(new: &mut Map, old: &Map) {
    let ids = |object| results(object).into_iter().map(id_of_result).collect::<HashSet<_>>();
    let kept = ids(new);
    let released: HashSet<[String; 3]> = ids(old).difference(&kept).cloned().collect();
    at(new, "status", |status| {
        let Some(devices) = status.get_mut("devices").and_then(Value::as_list_mut) else { return };
        devices.retain(|device| {
            let id = device.as_map().map(|device| id_of_device(AllocatedDeviceStatus::of(device)));
            id.is_none_or(|id| !released.contains(&id))
        });
        if devices.is_empty() {
            status.remove("devices");
        }
    });
}

fn id_of_result(result: DeviceRequestAllocationResult<'_>) -> [String; 3] {
    [result.driver(), result.pool(), result.device()].map(str::to_owned)
}

fn id_of_device(device: AllocatedDeviceStatus<'_>) -> [String; 3] {
    [device.driver(), device.pool(), device.device()].map(str::to_owned)
}

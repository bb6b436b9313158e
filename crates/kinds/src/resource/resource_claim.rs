//! `resourceclaims`.

use super::claim::{self, Deletion, Names};
use super::{conversion, default_claim, drop_from_claim, has_admin_access, versions};
use crate::Resets;
use crate::defaults::{each, update_map};
use crate::{
    About, Cell, Column, Context, Deleted, Kind, Rules, Strategy, Subresource, Version, columns, metadata,
};
use expressions::Stage;
use object::field::{List, Path};
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
    versions: versions!("ResourceClaim", Some(&conversion::CLAIM), None),
    subresources: &[Subresource::STATUS],
    columns: columns!(|object| [
        Column::NAME => Cell::name(object),
        Column::text(
            "State",
            About::Text("A summary of the current state (allocated, pending, reserved, etc.)."),
        ) => Cell::text(state(object)),
        Column::AGE => Cell::age(object),
    ]),
    deleted: Deleted::Object,
    resets: &Resets { declared: Some(Resets::STATUS.update), ..Resets::STATUS_WITHOUT_METADATA },
    strategy: &ResourceClaimStrategy,
    ..Kind::PLAIN
};

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
        update_map(object, "spec", default_claim);
    }

    fn prepare_create(&self, object: &mut Map, _context: &Context<'_>) {
        drop_disabled(object, None);
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        drop_disabled(new, Some(old));
    }

    fn prepare_status(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        drop_released(new, old);
        drop_disabled(new, Some(old));
    }

    fn validate_create(&self, object: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata(object);
        errors.append(claim::validate(
            ResourceClaim::of(object).spec(),
            Stage::New,
            rules,
            &Path::new("spec"),
        ));
        errors
    }

    /// The spec is checked as that of a new claim too, as in the reference.
    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = self.validate_create(new, rules);
        errors.append(rules.metadata_update(new, old));
        errors.extend(claim::same_spec(new, old));
        errors.append(claim::validate(
            ResourceClaim::of(new).spec(),
            Stage::Stored,
            rules,
            &Path::new("spec"),
        ));
        errors
    }

    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata_update(new, old);
        let of = ResourceClaim::of(new);
        let deletion = match metadata(new).deletion_timestamp() {
            Some(_) => Deletion::Begun,
            None => Deletion::No,
        };
        let names = Names::of(of.spec().devices());
        errors.append(claim::validate_status(of.status(), ResourceClaim::of(old).status(), deletion, &names));
        errors
    }
}

/// The features `DRAPrioritizedList` and `DRAAdminAccess` are off: drops their fields unless the old object
/// uses them.
fn drop_disabled(new: &mut Map, old: Option<&Map>) {
    let spec = old.and_then(|old| old.get("spec")).and_then(Value::as_map);
    let old_results = old.map(results).unwrap_or_default();
    let admin = old_results.iter().any(|result| result.admin_access().is_some())
        || spec.is_some_and(has_admin_access);
    update_map(new, "spec", |new| drop_from_claim(new, spec, admin));
    if !admin {
        update_map(new, "status", |status| {
            update_map(status, "allocation", |allocation| {
                update_map(allocation, "devices", |devices| {
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
    update_map(new, "status", |status| {
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

#[cfg(test)]
mod tests {
    use crate::testing::{create, status, update};

    fn claim(devices: &str, status: &str) -> String {
        format!(
            r#"{{"apiVersion":"resource.k8s.io/v1beta1","kind":"ResourceClaim","spec":{{"devices":{{{devices}}}}},"status":{{{status}}}}}"#
        )
    }

    #[test]
    fn requests_constraints_and_configurations_are_checked() {
        let unknown = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        assert_eq!(
            create(&claim(
                r#""requests":[{"name":"r","deviceClassName":"c","count":-1,"selectors":[{}],"tolerations":[{"operator":"Exists","value":"x"}]},{"name":"r"}],"constraints":[{"requests":["q"],"matchAttribute":"a"}],"config":[{"requests":["r","r"],"opaque":{"driver":"d","parameters":[]}}]"#,
                ""
            )),
            [
                "spec.devices.requests[0].exactly.selectors[0].cel: Required value".to_owned(),
                "spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero".to_owned(),
                r#"spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: "x": must be empty for operator `Exists`"#.to_owned(),
                "spec.devices.requests[1]: Required value: exactly one of `exactly` or `firstAvailable` is required".to_owned(),
                r#"spec.devices.requests[1].name: Duplicate value: "r""#.to_owned(),
                format!(r#"spec.devices.constraints[0].requests[0]: Invalid value: "q": {unknown}"#),
                r#"spec.devices.constraints[0].matchAttribute: Invalid value: "a": must include a domain"#.to_owned(),
                r#"spec.devices.config[0].requests[1]: Duplicate value: "r""#.to_owned(),
                r#"spec.devices.config[0].opaque.parameters: Invalid value: "<value omitted>": parameters must be a valid JSON object"#.to_owned(),
            ]
        );
    }

    #[test]
    fn spec_and_allocation_do_not_change() {
        let request = r#""requests":[{"name":"r","deviceClassName":"c"}]"#;
        let old = claim(request, "");
        let errors = update(&claim(r#""requests":[{"name":"s","deviceClassName":"c"}]"#, ""), &old);
        assert_eq!(errors.len(), 1);
        assert!(errors[0].starts_with("spec: Invalid value: ") && errors[0].ends_with("field is immutable"));
        let device = |driver: &str| {
            format!(
                r#""allocation":{{"devices":{{"results":[{{"request":"r","driver":"{driver}","pool":"p","device":"d"}}]}}}}"#
            )
        };
        let allocated = claim(request, &device("a"));
        assert!(status(&allocated, &old).is_empty());
        assert!(status(&claim(request, &device("b")), &allocated)[0].ends_with("field is immutable"));
        assert_eq!(
            status(&claim(request, r#""reservedFor":[{"resource":"pods","name":"a","uid":"u"}]"#), &old),
            ["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"]
        );
        let with_device = format!(
            r#"{},"devices":[{{"driver":"a","pool":"p","device":"other","networkData":{{"ips":["x"]}}}}]"#,
            device("a")
        );
        let errors = status(&claim(request, &with_device), &allocated);
        assert_eq!(
            errors[0],
            "status.devices[0]: Invalid value: a/p/other: must be an allocated device in the claim"
        );
        assert!(errors[1].starts_with(r#"status.devices[0].networkData.ips[0]: Invalid value: "x""#));
    }
}

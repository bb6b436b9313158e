//! The kinds of `resource.k8s.io`. The storage version is `v1beta1`; device taint rules have only `v1alpha3`.

use crate::Kind;
use crate::defaults::{each, fill, fill_text, update_map};
use object::{Map, Value};

mod claim;
mod conversion;
mod device_class;
mod device_taint_rule;
mod resource_claim;
mod resource_claim_template;
mod resource_slice;
mod slice;
mod validate;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[
    &device_class::KIND,
    &resource_claim::KIND,
    &resource_claim_template::KIND,
    &resource_slice::KIND,
    &device_taint_rule::KIND,
];

/// The versions of the kinds that have all three, with their conversions.
macro_rules! versions {
    ($kind:literal, $v1beta2:expr, $v1alpha3:expr) => {
        &[
            Version { conversion: $v1beta2, ..Version::on_request("v1beta2") }
                .introduced(33)
                .deprecated(36)
                .removed(39),
            Version::on_request("v1beta1").stored().introduced(32).deprecated(35).removed(38),
            Version { conversion: $v1alpha3, ..Version::on_request("v1alpha3") }
                .introduced(31)
                .deprecated(34)
                .removed(37)
                .replaced_by("resource.k8s.io/v1beta1", $kind),
        ]
    };
}
use versions;

/// Sets the defaults of the device requests in a claim spec.
fn default_claim(spec: &mut Map) {
    update_map(spec, "devices", |devices| {
        each(devices, "requests", |request| {
            if is_set(request, "deviceClassName") {
                default_request(request);
            }
            each(request, "firstAvailable", default_request);
        });
    });
}

/// Sets the default count of devices of a request.
fn default_request(request: &mut Map) {
    const EXACT: &str = "ExactCount";
    fill_text(request, "allocationMode", EXACT);
    if request.get("allocationMode").and_then(Value::as_str) == Some(EXACT) {
        fill(request, "count", 1i64);
    }
}

/// Sets the defaults of a slice spec: each device is a basic one.
fn default_slice(spec: &mut Map) {
    each(spec, "devices", |device| fill(device, "basic", Map::new()));
}

fn is_set(map: &Map, key: &str) -> bool {
    map.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty())
}

/// Drops the fields of disabled features from a claim spec, unless the old object uses them.
fn drop_from_claim(new: &mut Map, old: Option<&Map>, admin: bool) {
    let listed =
        old.is_some_and(|old| requests(old).iter().any(|request| request.get("firstAvailable").is_some()));
    update_map(new, "devices", |devices| {
        each(devices, "requests", |request| {
            if !listed {
                request.remove("firstAvailable");
            }
            if !admin {
                request.remove("adminAccess");
            }
        });
    });
}

/// Whether a request of the claim has `adminAccess`.
fn has_admin_access(claim: &Map) -> bool {
    requests(claim).iter().any(|request| request.get("adminAccess").is_some())
}

fn requests(claim: &Map) -> &[Value] {
    let requests = claim.get("devices").and_then(|devices| devices.get("requests"));
    requests.and_then(Value::as_list).unwrap_or_default()
}

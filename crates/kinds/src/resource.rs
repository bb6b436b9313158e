//! The kinds of `resource.k8s.io`. They are kept in `v1beta1`, but for rules of taints, which have one version only.

use crate::Kind;
use crate::defaults::{at, each, fill, fill_text};
use object::{Map, Value};

mod conversion;
mod device_class;
mod device_taint_rule;
mod resource_claim;
mod resource_claim_template;
mod resource_slice;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[
    &device_class::KIND,
    &resource_claim::KIND,
    &resource_claim_template::KIND,
    &resource_slice::KIND,
    &device_taint_rule::KIND,
];

/// The versions of the kinds that have all of them, with the ways between them.
macro_rules! versions {
    ($v1beta2:expr, $v1alpha3:expr) => {
        &[
            Version { conversion: $v1beta2, ..Version::on_request("v1beta2") },
            Version::on_request("v1beta1").stored(),
            Version { conversion: $v1alpha3, ..Version::on_request("v1alpha3") },
        ]
    };
}
use versions;

/// Sets what the requests for devices in the spec of a claim get.
fn default_claim(spec: &mut Map) {
    at(spec, "devices", |devices| {
        each(devices, "requests", |request| {
            if is_set(request, "deviceClassName") {
                default_request(request);
            }
            each(request, "firstAvailable", default_request);
        });
    });
}

/// Sets how many devices a request is for.
fn default_request(request: &mut Map) {
    const EXACT: &str = "ExactCount";
    fill_text(request, "allocationMode", EXACT);
    if request.get("allocationMode").and_then(Value::as_str) == Some(EXACT) {
        fill(request, "count", 1i64);
    }
}

fn is_set(map: &Map, key: &str) -> bool {
    map.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty())
}

/// Drops what features that are off brought into the spec of a claim, unless it is in use already.
fn drop_from_claim(new: &mut Map, old: Option<&Map>, admin: bool) {
    let listed =
        old.is_some_and(|old| requests(old).iter().any(|request| request.get("firstAvailable").is_some()));
    at(new, "devices", |devices| {
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

/// Whether a request of the claim asks for access to devices that are in use.
fn has_admin_access(claim: &Map) -> bool {
    requests(claim).iter().any(|request| request.get("adminAccess").is_some())
}

fn requests(claim: &Map) -> &[Value] {
    let requests = claim.get("devices").and_then(|devices| devices.get("requests"));
    requests.and_then(Value::as_list).unwrap_or_default()
}

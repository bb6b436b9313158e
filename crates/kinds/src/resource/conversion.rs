//! Conversion between the served versions and the storage version `v1beta1`.
//!
//! `v1beta2` has the fields of a plain device request under `exactly`; the other versions have them in the
//! request itself. Devices of `v1beta2` have no `basic` struct. Capacities of `v1alpha3` are plain
//! quantities.

use super::{default_request, default_slice};
use crate::BuiltinConversion;
use crate::defaults::{each, update_map};
use object::{Key, Map, Value};

/// Claims of v1beta2.
pub(super) const CLAIM: BuiltinConversion = BuiltinConversion {
    default: |object| update_map(object, "spec", default_claim),
    to_stored: |object| in_claims(object, flatten_request),
    from_stored: |object| in_claims(object, nest_request),
};

/// Templates of claims of v1beta2.
pub(super) const CLAIM_TEMPLATE: BuiltinConversion = BuiltinConversion {
    default: |object| update_map(object, "spec", |spec| update_map(spec, "spec", default_claim)),
    to_stored: |object| in_templates(object, flatten_request),
    from_stored: |object| in_templates(object, nest_request),
};

/// Slices of v1beta2.
pub(super) const SLICE: BuiltinConversion = BuiltinConversion {
    default: |_| {},
    to_stored: |object| {
        in_spec(object, |spec| {
            if spec.get("nodeName").and_then(Value::as_str) == Some("") {
                spec.remove("nodeName");
            }
            if spec.get("allNodes") == Some(&Value::Bool(false)) {
                spec.remove("allNodes");
            }
            each(spec, "devices", nest_device);
        });
    },
    from_stored: |object| in_spec(object, |spec| each(spec, "devices", flatten_device)),
};

/// Slices of v1alpha3.
pub(super) const SLICE_V1ALPHA3: BuiltinConversion = BuiltinConversion {
    default: |object| update_map(object, "spec", default_slice),
    to_stored: |object| {
        in_capacities(object, |amount| match amount.as_str() {
            Some("0") => Map::new().into(),
            _ => Map::from_iter([("value", amount.clone())]).into(),
        });
    },
    from_stored: |object| {
        in_capacities(object, |capacity| capacity.get("value").cloned().unwrap_or_else(|| Value::from("0")));
    },
};

fn in_spec(object: &mut Value, change: impl FnOnce(&mut Map)) {
    if let Some(object) = object.as_map_mut() {
        update_map(object, "spec", change);
    }
}

fn in_claims(object: &mut Value, change: fn(&mut Map)) {
    in_spec(object, |spec| update_map(spec, "devices", |devices| each(devices, "requests", change)));
}

fn in_templates(object: &mut Value, change: fn(&mut Map)) {
    in_spec(object, |spec| {
        update_map(spec, "spec", |spec| {
            update_map(spec, "devices", |devices| each(devices, "requests", change))
        });
    });
}

fn in_capacities(object: &mut Value, change: impl Fn(&Value) -> Value) {
    in_spec(object, |spec| {
        each(spec, "devices", |device| {
            update_map(device, "basic", |basic| {
                update_map(basic, "capacity", |capacities| {
                    for (_, capacity) in capacities.iter_mut() {
                        *capacity = change(capacity);
                    }
                });
            });
        });
    });
}

/// The fields of a plain device request.
const PLAIN: &[&str] =
    &["deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations"];

/// Sets the defaults of the device requests in a claim spec of v1beta2.
fn default_claim(spec: &mut Map) {
    update_map(spec, "devices", |devices| {
        each(devices, "requests", |request| {
            update_map(request, "exactly", default_request);
            each(request, "firstAvailable", default_request);
        });
    });
}

fn flatten_request(request: &mut Map) {
    let Some(Value::Map(exactly)) = request.remove("exactly") else { return };
    for (key, value) in exactly {
        request.insert(key, value);
    }
}

fn nest_request(request: &mut Map) {
    let mut exactly = Map::new();
    for key in PLAIN {
        if let Some(value) = request.remove(key)
            && value.as_str() != Some("")
        {
            exactly.insert(Key::known(key), value);
        }
    }
    if !exactly.is_empty() {
        request.insert(Key::known("exactly"), exactly);
    }
}

fn nest_device(device: &mut Map) {
    let mut basic = Map::new();
    for key in
        ["attributes", "capacity", "consumesCounters", "nodeName", "nodeSelector", "allNodes", "taints"]
    {
        if let Some(value) = device.remove(key) {
            basic.insert(Key::known(key), value);
        }
    }
    device.insert(Key::known("basic"), basic);
}

fn flatten_device(device: &mut Map) {
    if let Some(Value::Map(basic)) = device.remove("basic") {
        for (key, value) in basic {
            device.insert(key, value);
        }
    }
}

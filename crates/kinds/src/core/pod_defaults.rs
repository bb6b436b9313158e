//! The defaults of pods that do not apply to pod templates.

use super::pod_spec;
use crate::defaults::{each, fill, fill_entries, round_up, round_up_requirements, update_map};
use object::{Key, Map, Value};

/// Sets the defaults of a pod spec that a template does not get.
pub(super) fn spec(spec: &mut Map) {
    for list in ["containers", "initContainers"] {
        each(spec, list, request_what_is_limited);
    }
    fill(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or_default() {
        for list in ["containers", "initContainers"] {
            each(spec, list, |container| each(container, "ports", open_on_host));
        }
    }
    pod_spec::default(spec);
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        spec.insert(Key::known("terminationGracePeriodSeconds"), 1i64);
    }
}

fn request_what_is_limited(container: &mut Map) {
    update_map(container, "resources", |resources| {
        if let Some(limits) = resources.get("limits").and_then(Value::as_map).cloned() {
            fill_entries(resources, "requests", &limits);
        }
    });
}

fn open_on_host(port: &mut Map) {
    if let Some(number) = port.get("containerPort").cloned() {
        fill(port, "hostPort", number);
    }
}

/// Sets the defaults of a pod status.
pub(super) fn status(status: &mut Map) {
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        each(status, list, |status| {
            round_up(status, "allocatedResources");
            round_up_requirements(status, "resources");
        });
    }
    mirror_addresses(status);
}

/// Makes `podIP` and the first of `podIPs` agree; if they differ, `podIP` wins and becomes the only one.
fn mirror_addresses(status: &mut Map) {
    let first = status.get("podIPs").and_then(Value::as_list).and_then(|list| list.first());
    let first = first.map(|address| address.get("ip").cloned().unwrap_or_else(|| "".into()));
    match (status.get("podIP").cloned(), first) {
        (Some(address), first) if first.as_ref() != Some(&address) => {
            let list = Value::from_iter([Map::from_iter([(Key::known("ip"), address)])]);
            status.insert(Key::known("podIPs"), list);
        }
        (None, Some(address)) if address.as_str() != Some("") => {
            status.insert(Key::known("podIP"), address);
        }
        _ => {}
    }
}

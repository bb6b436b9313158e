//! The pod fields of disabled features: they are dropped unless the old object uses them.
//!
//! Disabled are pod-level resources, image volumes, stop signals, the health of allocated resources, the
//! observed generation of pods, and without their gates dynamic resource allocation, the resizing of running
//! pods and trust bundles in projected volumes.

use crate::Gates;
use crate::defaults::{each, update_map};
use object::{Map, Value};
use schema::view::View;
use schema::views::core::v1::{PodSpec, PodStatus};
use std::collections::HashSet;

/// Drops the fields of disabled features that `old` does not use from a pod spec. Copies only the parts that
/// change.
pub(crate) fn drop_disabled(spec: &mut Map, old: Option<&Map>, gates: Gates) {
    let old = old.map(PodSpec::of);
    if !old.is_some_and(has_resources) {
        spec.remove("resources");
    }
    if !gates.dynamic_resource_allocation && old.is_none_or(|old| old.resource_claims().is_empty()) {
        spec.remove("resourceClaims");
        if has_claims(PodSpec::of(spec)) {
            each_container(spec, |container| remove_within(container, "resources", "claims"));
        }
    }
    if !gates.in_place_pod_vertical_scaling && !old.is_some_and(has_resize_policies) {
        each_container(spec, |container| drop(container.remove("resizePolicy")));
    }
    if !gates.cluster_trust_bundle_projection
        && has_trust_bundles(PodSpec::of(spec))
        && !old.is_some_and(has_trust_bundles)
    {
        each(spec, "volumes", |volume| {
            update_map(volume, "projected", |projected| {
                each(projected, "sources", |source| drop(source.remove("clusterTrustBundle")));
            });
        });
    }
    if old.is_none_or(|old| old.volumes().iter().all(|volume| volume.image().is_none())) {
        drop_image_volumes(spec);
    }
    if has_stop_signals(PodSpec::of(spec)) && !old.is_some_and(has_stop_signals) {
        each_container(spec, |container| remove_within(container, "lifecycle", "stopSignal"));
    }
}

/// Drops the fields of disabled features that the old pod does not use from a pod status. Copies only the
/// parts that change.
pub(super) fn drop_disabled_status(
    status: &mut Map,
    old: Option<PodStatus<'_>>,
    old_spec: Option<PodSpec<'_>>,
    gates: Gates,
) {
    if !gates.dynamic_resource_allocation && old_spec.is_none_or(|old| old.resource_claims().is_empty()) {
        status.remove("resourceClaimStatuses");
    }
    if !gates.in_place_pod_vertical_scaling && !old_spec.is_some_and(has_resize_policies) {
        for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
            each(status, list, |container| {
                container.remove("resources");
                container.remove("allocatedResources");
            });
        }
    }
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        if has_field(status, list, "allocatedResourcesStatus") {
            each(status, list, |container| drop(container.remove("allocatedResourcesStatus")));
        }
    }
    if !old.is_some_and(tracks_generations) {
        status.remove("observedGeneration");
        if has_field(status, "conditions", "observedGeneration") {
            each(status, "conditions", |condition| drop(condition.remove("observedGeneration")));
        }
    }
}

/// Whether a pod status has observed generations.
pub(super) fn tracks_generations(status: PodStatus<'_>) -> bool {
    status.observed_generation() != 0
        || status.conditions().iter().any(|condition| condition.observed_generation() != 0)
}

/// Whether an element of the list at `list` has a field.
fn has_field(map: &Map, list: &str, field: &str) -> bool {
    let list = map.get(list).and_then(Value::as_list).unwrap_or_default();
    list.iter().any(|element| element.get(field).is_some())
}

/// Whether a container of a pod says how it is resized.
fn has_resize_policies(spec: PodSpec<'_>) -> bool {
    let containers = spec.containers().iter().any(|container| !container.resize_policy().is_empty());
    containers || spec.init_containers().iter().any(|container| !container.resize_policy().is_empty())
}

fn each_container(spec: &mut Map, mut to: impl FnMut(&mut Map)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, list, &mut to);
    }
}

/// Removes a field of the map at `outer`, and the map if it is empty then.
fn remove_within(map: &mut Map, outer: &str, field: &str) {
    let mut emptied = false;
    update_map(map, outer, |inner| emptied = inner.remove(field).is_some() && inner.is_empty());
    if emptied {
        map.remove(outer);
    }
}

fn has_resources(spec: PodSpec<'_>) -> bool {
    spec.resources()
        .is_some_and(|resources| !resources.requests().is_empty() || !resources.limits().is_empty())
}

fn has_claims(spec: PodSpec<'_>) -> bool {
    let containers = spec.init_containers().iter().chain(spec.containers().iter()).map(|c| c.resources());
    let ephemeral = spec.ephemeral_containers().iter().map(|c| c.resources());
    containers.chain(ephemeral).any(|resources| !resources.claims().is_empty())
}

fn has_trust_bundles(spec: PodSpec<'_>) -> bool {
    let mut sources =
        spec.volumes().iter().filter_map(|volume| volume.projected()).flat_map(|p| p.sources().iter());
    sources.any(|source| source.cluster_trust_bundle().is_some())
}

fn has_stop_signals(spec: PodSpec<'_>) -> bool {
    let containers = spec.init_containers().iter().chain(spec.containers().iter()).map(|c| c.lifecycle());
    let ephemeral = spec.ephemeral_containers().iter().map(|c| c.lifecycle());
    containers.chain(ephemeral).flatten().any(|lifecycle| lifecycle.stop_signal().is_some())
}

fn drop_image_volumes(spec: &mut Map) {
    let volumes = PodSpec::of(spec).volumes();
    let names: HashSet<String> = volumes
        .iter()
        .filter(|volume| volume.image().is_some())
        .map(|volume| volume.name().to_owned())
        .collect();
    if names.is_empty() {
        return;
    }
    retain(spec, "volumes", |volume| volume.get("image").is_none());
    each_container(spec, |container| {
        retain(container, "volumeMounts", |mount| {
            mount.get("name").and_then(Value::as_str).is_none_or(|name| !names.contains(name))
        });
    });
}

/// Keeps the elements of the list at `key` that `keep` accepts; removes the list if it is empty then.
fn retain(map: &mut Map, key: &str, keep: impl FnMut(&Value) -> bool) {
    let Some(list) = map.get_mut(key).and_then(Value::as_list_mut) else { return };
    list.retain(keep);
    if list.is_empty() {
        map.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::created_with;
    use schema::views::core::v1::Pod;

    const SPEC: &str = r#"{"containers":[{"name":"c","image":"i","resources":{"claims":[{"name":"r"}]}}],
        "restartPolicy":"Always","resourceClaims":[{"name":"r","resourceClaimName":"device"}]}"#;

    /// How many claims a spec has, and how many its first container uses.
    fn claims(spec: PodSpec<'_>) -> (usize, usize) {
        let used = spec.containers().iter().map(|container| container.resources().claims().len()).sum();
        (spec.resource_claims().len(), used)
    }

    #[test]
    fn resize_policies_stay_only_with_resizing() {
        let off = Gates { in_place_pod_vertical_scaling: false, ..Gates::DEFAULT };
        let pod = r#"{"apiVersion":"v1","kind":"Pod","spec":{"restartPolicy":"Always","containers":[{"name":"c","image":"i",
            "resizePolicy":[{"resourceName":"cpu","restartPolicy":"NotRequired"}]}]}}"#;
        for (gates, expected) in [(Gates::DEFAULT, 1), (off, 0)] {
            let pod = created_with(gates, pod).unwrap();
            let containers = Pod::of(&pod).spec().containers();
            assert_eq!(containers.iter().map(|one| one.resize_policy().len()).sum::<usize>(), expected);
            let status =
                r#"{"containerStatuses":[{"name":"c","resources":{},"allocatedResources":{"cpu":"1"}}]}"#;
            let status =
                schema::json::decode_shape(&schema::Shape::Any, status.as_bytes(), &schema::Limits::REQUEST);
            let mut status = status.unwrap().value;
            drop_disabled_status(status.as_map_mut().unwrap(), None, None, gates);
            let kept = status.get("containerStatuses").and_then(Value::as_list).unwrap()[0].get("resources");
            assert_eq!(kept.is_some(), expected == 1);
        }
    }

    #[test]
    fn claims_stay_only_with_dynamic_resource_allocation() {
        let on = Gates { dynamic_resource_allocation: true, ..Gates::DEFAULT };
        let pod = format!(r#"{{"apiVersion":"v1","kind":"Pod","spec":{SPEC}}}"#);
        let workload = format!(
            r#"{{"apiVersion":"apps/v1","kind":"Deployment","spec":{{"selector":{{"matchLabels":{{"a":"b"}}}},
            "template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{SPEC}}}}}}}"#
        );
        for (gates, expected) in [(Gates::DEFAULT, (0, 0)), (on, (1, 1))] {
            let pod = created_with(gates, &pod).unwrap();
            assert_eq!(claims(Pod::of(&pod).spec()), expected);
            let workload = created_with(gates, &workload).unwrap();
            let template = workload.get("spec").and_then(|spec| spec.get("template"));
            assert_eq!(claims(Pod::of(template.and_then(Value::as_map).unwrap()).spec()), expected);
        }
    }

    #[test]
    fn statuses_of_claims_stay_only_with_dynamic_resource_allocation() {
        let on = Gates { dynamic_resource_allocation: true, ..Gates::DEFAULT };
        for (gates, expected) in [(Gates::DEFAULT, false), (on, true)] {
            let mut status = Map::from_iter([("resourceClaimStatuses", Value::from_iter([Map::new()]))]);
            drop_disabled_status(&mut status, None, None, gates);
            assert_eq!(status.contains_key("resourceClaimStatuses"), expected);
        }
    }
}

//! The rules for nodes.

use super::resources::{amount, quantity_value};
use crate::checks::{self, shown, shown_texts};
use crate::metadata;
use object::field::{BadValue, Error, List, Path};
use object::name::{
    self, Mode, address, config_map_key, invalid, label_key, label_value, name_is_dns_label,
    name_is_dns_subdomain,
};
use object::quote::Quoted;
use object::{Map, Value};
use schema::view::{Entries, Items, View};
use schema::views::core::v1::{
    ConfigMapNodeConfigSource, Node, NodeConfigSource, NodeSpec, NodeStatus, Taint,
};
use schema::{Limits, Shape, json};
use std::collections::HashSet;

const TAINTS: &str = "scheduler.alpha.kubernetes.io/taints";
const AVOID_PODS: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";

/// The rules for any node, but for its metadata.
pub(super) fn validate(object: &Map) -> List {
    let node = Node::of(object);
    let (spec, status) = (node.spec(), node.status());
    let metadata = Path::new("metadata");
    let mut errors = annotations(object);
    errors.append(taints(spec.taints(), &metadata.child("taints")));
    errors.append(resources(status));
    if let Some(capacity) = status.node_info().swap().and_then(|swap| swap.capacity()) {
        errors.extend(checks::positive(capacity, &metadata.child("nodeSwapStatus").child("capacity")));
    }
    errors.append(pod_ranges(spec.pod_cidrs()));
    errors
}

/// The rules for a change of a node or of its status, but for its metadata.
pub(super) fn validate_change(new: &Map, old: &Map) -> List {
    let (node, before) = (Node::of(new), Node::of(old).spec());
    let (spec, status) = (node.spec(), node.status());
    let mut errors = annotations(new);
    errors.append(resources(status));
    errors.append(addresses(status));
    errors.append(same_spec(spec, before));
    let path = Path::new("spec");
    if let Some(source) = spec.config_source() {
        errors.append(config_source(source, in_spec, &path.child("configSource")));
    }
    if let Some(config) = status.config() {
        let path = Path::new("status");
        let path = path.child("config");
        let sources = [
            ("assigned", config.assigned()),
            ("active", config.active()),
            ("lastKnownGood", config.last_known_good()),
        ];
        for (key, source) in sources {
            if let Some(source) = source {
                errors.append(config_source(source, in_status, &path.child(key)));
            }
        }
    }
    let metadata = Path::new("metadata");
    errors.append(taints(spec.taints(), &metadata.child("taints")));
    if spec.external_id() != before.external_id() {
        errors.push(Error::forbidden(&path.child("externalID"), "may not be updated"));
    }
    errors
}

fn annotations(object: &Map) -> List {
    let metadata_path = Path::new("metadata");
    let path = metadata_path.child("annotations");
    let annotation = |key| metadata(object).annotations().get(key).filter(|text| !text.is_empty());
    let mut errors = List::new();
    if let Some(text) = annotation(TAINTS) {
        errors.append(annotated_taints(text, &path));
    }
    if let Some(text) = annotation(AVOID_PODS) {
        errors.append(avoided_pods(text, &path));
    }
    errors
}

fn annotated_taints(text: &str, path: &Path<'_>) -> List {
    match annotated(text, "[]core.Taint", |value| value.as_list().is_some()) {
        Ok(value) => {
            let mut holder = Map::new();
            holder.insert("taints", value);
            taints(NodeSpec::of(&holder).taints(), &path.child(TAINTS))
        }
        Err(why) => Error::invalid(path, TAINTS, why).into(),
    }
}

fn avoided_pods(text: &str, path: &Path<'_>) -> List {
    let avoided = match annotated(text, "v1.AvoidPods", |value| value.as_map().is_some()) {
        Ok(avoided) => avoided,
        Err(why) => return Error::invalid(&path.child("AvoidPods"), AVOID_PODS, why).into(),
    };
    let path = path.child(AVOID_PODS);
    let mut errors = List::new();
    let entries = avoided.get("preferAvoidPods").and_then(Value::as_list).unwrap_or_default();
    for (at, entry) in entries.iter().enumerate() {
        let entry_path = path.index(at);
        let path = entry_path.child("PodSignature");
        let owner = entry.get("podSignature").and_then(|signature| signature.get("podController"));
        match owner {
            None => errors.push(Error::required(&path, "")),
            Some(owner) if owner.get("controller").and_then(Value::as_bool) == Some(true) => {}
            Some(_) => {
                let controller = path.child("PodController");
                let why = "must point to a controller";
                errors.push(Error::invalid(&controller.child("Controller"), false, why));
            }
        }
    }
    errors
}

/// The JSON of an annotation, of the Go type `wanted`.
fn annotated(text: &str, wanted: &str, is_wanted: fn(&Value) -> bool) -> Result<Value, String> {
    match json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::REQUEST) {
        Ok(decoded) if decoded.value.is_null() || is_wanted(&decoded.value) => Ok(decoded.value),
        Ok(decoded) => {
            Err(format!("json: cannot unmarshal {} into Go value of type {wanted}", decoded.value.kind()))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// The taints of a node are unique by key and effect.
pub(crate) fn taints(taints: Items<'_, Taint<'_>>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut seen = HashSet::new();
    for (at, taint) in taints.iter().enumerate() {
        let path = path.index(at);
        errors.append(invalid(&path.child("key"), taint.key(), label_key(taint.key())));
        let messages = label_value(taint.value());
        if !messages.is_empty() {
            errors.push(Error::invalid(&path.child("value"), taint.value(), messages.join(";")));
        }
        errors.extend(taint_effect(taint.effect(), &path.child("effect")));
        if !seen.insert((taint.key(), taint.effect())) {
            let mut error = Error::duplicate(&path, BadValue::Raw(shown_taint(taint)));
            error.detail = "taints must be unique by key and effect pair".into();
            errors.push(error);
        }
    }
    errors
}

fn taint_effect(effect: &str, path: &Path<'_>) -> Option<Error> {
    checks::required_one_of(effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"], path)
}

fn shown_taint(taint: Taint<'_>) -> String {
    format!(
        "core.Taint{{Key:{}, Value:{}, Effect:{}, TimeAdded:{}}}",
        Quoted(taint.key()),
        Quoted(taint.value()),
        Quoted(taint.effect()),
        taint.time_added().unwrap_or("<nil>")
    )
}

fn resources(status: NodeStatus<'_>) -> List {
    let path = Path::new("status");
    let mut errors = List::new();
    let mut check = |list: Entries<'_, &str>, key: &str| {
        let path = path.child(key);
        for (name, text) in list.iter() {
            errors.append(quantity_value(name, &amount(text), &path.child(name)));
        }
    };
    check(status.capacity(), "capacity");
    check(status.allocatable(), "allocatable");
    errors
}

fn addresses(status: NodeStatus<'_>) -> List {
    let path = Path::new("status");
    let path = path.child("addresses");
    let mut seen = HashSet::new();
    let all = status.addresses().iter().enumerate();
    all.filter(|(_, address)| !seen.insert((address.r#type(), address.address())))
        .map(|(at, address)| {
            let shown = format!(
                "core.NodeAddress{{Type:{}, Address:{}}}",
                Quoted(address.r#type()),
                Quoted(address.address())
            );
            Error::duplicate(&path.index(at), BadValue::Raw(shown))
        })
        .collect()
}

/// The ranges are valid, and at most one for each family.
fn pod_ranges(ranges: Items<'_, &str>) -> List {
    let path = Path::new("spec");
    let path = path.child("podCIDRs");
    let mut errors = List::new();
    for (at, range) in ranges.iter().enumerate() {
        errors.append(address::legacy_cidr(&path.index(at), range, address::Legacy::Lenient));
    }
    if ranges.len() > 1 {
        if let Some((at, range)) = ranges.iter().enumerate().find(|(_, range)| is_v6(range).is_none()) {
            let why = format!(
                "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{at}]: <nil> (invalid CIDR address: {range})"
            );
            errors.push(Error::internal(&path, why));
        }
        let families: HashSet<_> = ranges.iter().map(is_v6).collect();
        let is_dual = families.contains(&Some(true)) && families.contains(&Some(false));
        if !is_dual || families.contains(&None) || ranges.len() > 2 {
            let why = "may specify no more than one CIDR for each IP family";
            errors.push(Error::invalid(&path, shown_texts("string", ranges), why));
        }
    }
    errors
}

/// Whether the range is one of IPv6; `None` if it is no range.
fn is_v6(range: &str) -> Option<bool> {
    let (text, bits) = range.split_once('/')?;
    let address = address::parse_lenient(text)?;
    let most = if address.is_ipv6() { 128 } else { 32 };
    (bits.parse::<u8>().ok()? <= most).then(|| address.is_ipv6())
}

/// What was assigned to a node stays.
fn same_spec(new: NodeSpec<'_>, old: NodeSpec<'_>) -> List {
    let path = Path::new("spec");
    let mut errors = List::new();
    let (ranges, before) = (new.pod_cidrs(), old.pod_cidrs());
    let changes = match ranges.len() == before.len() {
        true => ranges.iter().zip(before.iter()).filter(|(new, old)| new != old).count(),
        false => usize::from(!before.is_empty()),
    };
    for _ in 0..changes {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(Error::forbidden(&path.child("podCIDRs"), why));
    }
    if !old.provider_id().is_empty() && new.provider_id() != old.provider_id() {
        let why = "node updates may not change providerID except from \"\" to valid";
        errors.push(Error::forbidden(&path.child("providerID"), why));
    }
    errors
}

/// A source of configuration of a kubelet. The feature is gone; old objects may have one.
fn config_source(
    source: NodeConfigSource<'_>,
    identity: fn(ConfigMapNodeConfigSource<'_>, &Path<'_>) -> List,
    path: &Path<'_>,
) -> List {
    let Some(map) = source.config_map() else {
        let why = "exactly one reference subfield must be non-nil";
        return Error::invalid(path, shown(Some(&source.map().clone().into())), why).into();
    };
    let path = path.child("configMap");
    let mut errors = identity(map, &path);
    let required = [
        ("namespace", map.namespace(), "namespace must be set", namespace_name as fn(&str) -> name::Messages),
        ("name", map.name(), "name must be set", config_map_name),
        ("kubeletConfigKey", map.kubelet_config_key(), "kubeletConfigKey must be set", config_map_key),
    ];
    for (key, value, why, check) in required {
        let path = path.child(key);
        match value.is_empty() {
            true => errors.push(Error::required(&path, why)),
            false => errors.append(invalid(&path, value, check(value))),
        }
    }
    errors
}

fn namespace_name(name: &str) -> name::Messages {
    name_is_dns_label(name, Mode::Name)
}

fn config_map_name(name: &str) -> name::Messages {
    name_is_dns_subdomain(name, Mode::Name)
}

fn in_spec(source: ConfigMapNodeConfigSource<'_>, path: &Path<'_>) -> List {
    [
        ("uid", source.uid(), "uid must not be set in spec"),
        ("resourceVersion", source.resource_version(), "resourceVersion must not be set in spec"),
    ]
    .into_iter()
    .filter(|(_, value, _)| !value.is_empty())
    .map(|(key, _, why)| Error::forbidden(&path.child(key), why))
    .collect()
}

fn in_status(source: ConfigMapNodeConfigSource<'_>, path: &Path<'_>) -> List {
    [
        ("uid", source.uid(), "uid must be set in status"),
        ("resourceVersion", source.resource_version(), "resourceVersion must be set in status"),
    ]
    .into_iter()
    .filter(|(_, value, _)| value.is_empty())
    .map(|(key, _, why)| Error::required(&path.child(key), why))
    .collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, status, update, warnings};

    fn object(fields: &str) -> String {
        format!(r#"{{"apiVersion":"v1","kind":"Node",{fields}}}"#)
    }

    #[test]
    fn taints_are_valid_and_unique() {
        let node = object(
            r#""spec":{"taints":[{"key":"a","effect":"NoSchedule"},{"key":"a","value":"x","effect":"NoSchedule"},{"key":"b"},{"key":"c","value":"-","effect":"X"}]}"#,
        );
        let errors = create(&node);
        assert_eq!(
            errors[..2],
            [
                r#"metadata.taints[1]: Duplicate value: core.Taint{Key:"a", Value:"x", Effect:"NoSchedule", TimeAdded:<nil>}: taints must be unique by key and effect pair"#,
                "metadata.taints[2].effect: Required value",
            ]
        );
        assert!(errors[2].starts_with(r#"metadata.taints[3].value: Invalid value: "-": a valid label"#));
        let effects = r#"supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#;
        assert_eq!(errors[3..], [format!(r#"metadata.taints[3].effect: Unsupported value: "X": {effects}"#)]);
        assert_eq!(update(&node, &node).len(), 8, "an update checks taints twice");
    }

    #[test]
    fn annotations_are_read() {
        let node = |key: &str, text: &str| {
            let text = text.replace('"', "\\\"");
            create(&object(&format!(
                r#""metadata":{{"annotations":{{"scheduler.alpha.kubernetes.io/{key}":"{text}"}}}}"#
            )))
        };
        let invalid = "invalid character 'x' looking for beginning of value";
        assert_eq!(
            node("taints", "x"),
            [format!(
                r#"metadata.annotations: Invalid value: "scheduler.alpha.kubernetes.io/taints": {invalid}"#
            )]
        );
        assert_eq!(
            node("taints", r#"[{"key":"a"}]"#),
            ["metadata.annotations.scheduler.alpha.kubernetes.io/taints[0].effect: Required value"]
        );
        assert_eq!(
            node("preferAvoidPods", "x"),
            [format!(
                r#"metadata.annotations.AvoidPods: Invalid value: "scheduler.alpha.kubernetes.io/preferAvoidPods": {invalid}"#
            )]
        );
        assert_eq!(
            node("preferAvoidPods", r#"{"preferAvoidPods":[{}]}"#),
            [
                "metadata.annotations.scheduler.alpha.kubernetes.io/preferAvoidPods[0].PodSignature: Required value"
            ]
        );
    }

    #[test]
    fn pod_ranges_are_one_for_each_family() {
        let node = |ranges: &str| object(&format!(r#""spec":{{"podCIDRs":[{ranges}]}}"#));
        assert_eq!(
            create(&node(r#""x""#)),
            [
                r#"spec.podCIDRs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"#
            ]
        );
        assert_eq!(
            create(&node(r#""10.0.0.0/24","10.3.0.0/24""#)),
            [
                r#"spec.podCIDRs: Invalid value: []string{"10.0.0.0/24", "10.3.0.0/24"}: may specify no more than one CIDR for each IP family"#
            ]
        );
        assert!(create(&node(r#""10.0.0.0/24","2001:db8::/64""#)).is_empty());
    }

    #[test]
    fn assigned_fields_stay() {
        let old = object(r#""spec":{"podCIDRs":["10.8.0.0/24"],"providerID":"p"}"#);
        assert_eq!(
            update(&object(r#""spec":{"externalID":"e"}"#), &old),
            [
                r#"spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid"#,
                r#"spec.providerID: Forbidden: node updates may not change providerID except from "" to valid"#,
                "spec.externalID: Forbidden: may not be updated",
            ]
        );
    }

    #[test]
    fn status_has_amounts_addresses_and_sources() {
        let old = object(r#""status":{"config":{}}"#);
        let new = object(
            r#""status":{"capacity":{"memory":"-1Gi","pods":"1500m"},"addresses":[{"type":"A","address":"x"},{"type":"A","address":"x"}],"config":{"active":{"configMap":{"name":"a","namespace":"n","kubeletConfigKey":"k"}}}}"#,
        );
        let errors = status(&new, &old);
        assert_eq!(errors.len(), 7, "allocatable is filled from capacity: {errors:?}");
        assert_eq!(
            errors[0],
            r#"status.capacity.memory: Invalid value: "-1Gi": must be greater than or equal to 0"#
        );
        assert_eq!(
            errors[4..],
            [
                r#"status.addresses[1]: Duplicate value: core.NodeAddress{Type:"A", Address:"x"}"#,
                "status.config.active.configMap.uid: Required value: uid must be set in status",
                "status.config.active.configMap.resourceVersion: Required value: resourceVersion must be set in status",
            ]
        );
    }

    #[test]
    fn fields_without_effect_are_warned_about() {
        assert_eq!(
            warnings(&object(r#""spec":{"externalID":"e"}"#), None),
            ["spec.externalID: this field is deprecated, and is unused by Kubernetes"]
        );
    }
}

//! The status of a node, as its kubelet would write it.

use crate::options::Capacity;
use crate::{annotation, is_fake};
use object::time::Time;
use object::{Map, Value};
use schema::view::View as _;
use schema::views::core::v1;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::Ipv4Addr;

/// The annotation of a node that says what it has.
const CAPACITY: &str = "keelson.io/capacity";
/// The version of the kubelet that is played.
pub(crate) const KUBELET: &str = "v1.33.7";
/// The port of a kubelet; nothing listens there.
pub(crate) const PORT: i64 = 10250;

/// The conditions of a node: type, status, reason and message.
const CONDITIONS: [[&str; 4]; 4] = [
    ["MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"],
    ["DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"],
    ["PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"],
    ["Ready", "True", "KubeletReady", "kubelet is posting ready status"],
];

/// Whether a node is played here and does not say that it is ready.
pub(crate) fn needs_status(node: &Map) -> bool {
    let status = v1::Node::of(node).status();
    let is_ready = status.conditions().iter().any(|it| it.r#type() == "Ready" && it.status() == "True");
    is_fake(node) && !is_ready
}

/// Sets the status of a node; what it has already of addresses and resources stays.
pub(crate) fn set(node: &mut Map, capacity: &Capacity, address: Ipv4Addr) {
    let name = v1::Node::of(node).metadata().name().to_owned();
    let capacity = match annotation(node, CAPACITY).map(str::parse::<Capacity>) {
        Some(Ok(own)) => own,
        Some(Err(error)) => {
            log::warn!(node = name.as_str(), error = error.as_str(); "the annotation {CAPACITY} of a node is malformed");
            capacity.clone()
        }
        None => capacity.clone(),
    };
    let known = node.get("status").and_then(Value::as_map).cloned().unwrap_or_default();
    let kept = |key: &str| known.get(key).filter(|value| !is_empty(value)).cloned();
    let mut status = known.clone();
    let amounts: Map = capacity.amounts().collect();
    let amounts = kept("capacity").unwrap_or_else(|| amounts.into());
    status.insert("allocatable", kept("allocatable").unwrap_or_else(|| amounts.clone()));
    status.insert("capacity", amounts);
    let addresses = || {
        let address = Map::from_iter([("type", "InternalIP"), ("address", &*address.to_string())]);
        let host = Map::from_iter([("type", "Hostname"), ("address", name.as_str())]);
        Value::from_iter([address, host])
    };
    status.insert("addresses", kept("addresses").unwrap_or_else(addresses));
    let mut endpoint = Map::new();
    endpoint.insert("Port", PORT);
    let mut endpoints = Map::new();
    endpoints.insert("kubeletEndpoint", endpoint);
    status.insert("daemonEndpoints", endpoints);
    status.insert("nodeInfo", node_info(&name));
    status.insert("conditions", conditions(&known));
    node.insert("status", status);
}

fn is_empty(value: &Value) -> bool {
    value.as_map().is_some_and(Map::is_empty) || value.as_list().is_some_and(<[Value]>::is_empty)
}

fn node_info(name: &str) -> Map {
    let id = |purpose: &str| hex(&[name, purpose], 32);
    let mut info = Map::new();
    info.insert("machineID", id("machine"));
    info.insert("systemUUID", id("system"));
    info.insert("bootID", id("boot"));
    info.insert("kernelVersion", "none");
    info.insert("osImage", "Keelson fake node");
    info.insert("containerRuntimeVersion", concat!("keelson://", env!("CARGO_PKG_VERSION")));
    info.insert("kubeletVersion", KUBELET);
    info.insert("kubeProxyVersion", "");
    info.insert("operatingSystem", "linux");
    info.insert("architecture", "amd64");
    info
}

/// The conditions of a node that is well; others that the node has stay.
fn conditions(known: &Map) -> Value {
    let now = Time::now().text();
    let known = known.get("conditions").and_then(Value::as_list).unwrap_or_default();
    let text = |condition: &Value, key: &str| {
        condition.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let is_own = |condition: &&Value| CONDITIONS.iter().any(|[own, ..]| text(condition, "type") == *own);
    let mut all: Vec<Value> = known.iter().filter(|condition| !is_own(condition)).cloned().collect();
    for [r#type, status, reason, message] in CONDITIONS {
        let before = known.iter().find(|condition| text(condition, "type") == r#type);
        let since = before.filter(|before| text(before, "status") == status);
        let since = since.map(|before| text(before, "lastTransitionTime"));
        let since = since.filter(|since| !since.is_empty()).unwrap_or_else(|| now.to_string());
        all.push(
            Map::from_iter([
                ("type", r#type),
                ("status", status),
                ("lastHeartbeatTime", &*now),
                ("lastTransitionTime", since.as_str()),
                ("reason", reason),
                ("message", message),
            ])
            .into(),
        );
    }
    all.into()
}

/// The taint that keeps pods off a node which is not ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Whether a node still has the taint of nodes that are not ready.
pub(crate) fn is_tainted(node: &Map) -> bool {
    v1::Node::of(node).spec().taints().iter().any(|taint| taint.key() == NOT_READY)
}

/// Removes that taint.
pub(crate) fn untaint(node: &mut Map) {
    let Some(spec) = node.get_mut("spec").and_then(Value::as_map_mut) else { return };
    let Some(taints) = spec.get_mut("taints").and_then(Value::as_list_mut) else { return };
    taints.retain(|taint| taint.get("key").and_then(Value::as_str) != Some(NOT_READY));
    if taints.is_empty() {
        spec.remove("taints");
    }
}

/// Hexadecimal digits that follow from some texts: an identity of something that does not exist.
pub(crate) fn hex(texts: &[&str], digits: usize) -> String {
    let mut all = String::new();
    for part in 0_u8.. {
        let mut hasher = DefaultHasher::new();
        (texts, part).hash(&mut hasher);
        all.push_str(&format!("{:016x}", hasher.finish()));
        if all.len() >= digits {
            break;
        }
    }
    all.truncate(digits);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::map;

    fn node(fields: &str) -> Map {
        map(
            v1::Node::schema(),
            &format!(
                r#"{{"metadata":{{"name":"n","annotations":{{"kwok.x-k8s.io/node":"fake"}}}}{fields}}}"#
            ),
        )
    }

    #[test]
    fn a_node_gets_what_a_kubelet_would_write_once() {
        let mut node = node("");
        assert!(needs_status(&node));
        set(&mut node, &Capacity::default(), [172, 16, 0, 1].into());
        assert!(!needs_status(&node));
        let status = v1::Node::of(&node).status();
        let addresses: Vec<_> = status.addresses().iter().map(|it| (it.r#type(), it.address())).collect();
        assert_eq!(addresses, [("InternalIP", "172.16.0.1"), ("Hostname", "n")]);
        assert_eq!(status.capacity().get("pods"), Some("250"));
        assert_eq!(status.allocatable().get("cpu"), Some("32"));
        assert_eq!(status.node_info().kubelet_version(), KUBELET);
        let ready = status.conditions().iter().find(|it| it.r#type() == "Ready").unwrap();
        assert_eq!((ready.status(), ready.reason()), ("True", "KubeletReady"));
    }

    #[test]
    fn what_a_node_says_of_itself_stays() {
        let mut own = node(
            r#","status":{"capacity":{"cpu":"1"},"addresses":[{"type":"InternalIP","address":"1.2.3.4"}],
            "conditions":[{"type":"Mine","status":"True"},{"type":"Ready","status":"Unknown"}]}"#,
        );
        set(&mut own, &Capacity::default(), [172, 16, 0, 1].into());
        let status = v1::Node::of(&own).status();
        assert_eq!(status.allocatable().iter().collect::<Vec<_>>(), [("cpu", "1")]);
        assert_eq!(status.addresses().get(0).unwrap().address(), "1.2.3.4");
        let types: Vec<_> = status.conditions().iter().map(|it| it.r#type()).collect();
        assert_eq!(types, ["Mine", "MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]);
        let text = r#"{"metadata":{"name":"n","annotations":{"keelson.io/capacity":"cpu=2,pods=5"}}}"#;
        let mut small = map(v1::Node::schema(), text);
        set(&mut small, &Capacity::default(), [172, 16, 0, 1].into());
        let capacity = v1::Node::of(&small).status().capacity();
        assert_eq!((capacity.get("cpu"), capacity.get("pods")), (Some("2"), Some("5")));
    }

    #[test]
    fn only_the_taint_of_nodes_that_are_not_ready_goes() {
        let mut tainted = node(
            r#","spec":{"taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"},{"key":"a","effect":"NoSchedule"}]}"#,
        );
        assert!(is_tainted(&tainted));
        untaint(&mut tainted);
        assert!(!is_tainted(&tainted));
        assert_eq!(v1::Node::of(&tainted).spec().taints().len(), 1);
    }
}

//! The taints that the conditions of a node stand for.

use super::text;
use crate::objects::edit;
use crate::workloads::node_fit::NO_EXECUTE;
use object::time::Time;
use object::{List, Map, Value};
use schema::view::View as _;
use schema::views::core::v1::Node;

const NO_SCHEDULE: &str = "NoSchedule";
pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Conditions, the status in which they stand for a taint, and its key.
const CONDITIONS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Labels that have the value of another one.
const LABELS: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

/// The conditions of a node that is silent.
const SILENT: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// How a node says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    Ready,
    NotReady,
    Unknown,
}

impl Health {
    /// The key of the taint by which pods leave the node.
    fn key(self) -> Option<&'static str> {
        match self {
            Self::Ready => None,
            Self::NotReady => Some(NOT_READY),
            Self::Unknown => Some(UNREACHABLE),
        }
    }
}

/// What happens with the taints by which pods leave a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eviction {
    /// They stay as they are.
    None,
    /// They become those of the health of the node.
    Now,
    /// They become that, if the zone of the node allows it.
    Limited,
    /// They are removed: no node is ready.
    Stopped,
}

fn is_eviction(taint: &Value) -> bool {
    text(taint, "effect") == NO_EXECUTE && matches!(text(taint, "key"), NOT_READY | UNREACHABLE)
}

fn taints(node: &Map) -> &[Value] {
    Node::of(node).spec().taints().values()
}

/// What the health of a node asks for. One of the two taints is replaced by the other at once.
pub(super) fn eviction(node: &Map, health: Health) -> Eviction {
    let own: Vec<&str> =
        taints(node).iter().filter(|taint| is_eviction(taint)).map(|one| text(one, "key")).collect();
    match health.key() {
        None if own.is_empty() => Eviction::None,
        None => Eviction::Now,
        Some(key) if own == [key] => Eviction::None,
        Some(_) if own.is_empty() => Eviction::Limited,
        Some(_) => Eviction::Now,
    }
}

fn taint(key: &str, effect: &str) -> Value {
    let mut taint: Map = [("key", key), ("effect", effect)].into_iter().collect();
    taint.insert("timeAdded", Time::now().text());
    taint.into()
}

/// Brings the taints and labels of a node up to date.
pub(super) fn update(node: &mut Map, health: Health, eviction: Eviction) {
    let wanted = no_schedule(node);
    let is_own = |key: &str| key == UNSCHEDULABLE || CONDITIONS.iter().any(|(_, _, own)| *own == key);
    let mut list: Vec<Value> = taints(node).to_vec();
    list.retain(|taint| {
        let key = text(taint, "key");
        match text(taint, "effect") {
            NO_SCHEDULE => !is_own(key) || wanted.contains(&key),
            _ if !is_eviction(taint) => true,
            _ => match eviction {
                Eviction::None | Eviction::Limited => true,
                Eviction::Now => health.key() == Some(key),
                Eviction::Stopped => false,
            },
        }
    });
    let has = |list: &[Value], key: &str, effect: &str| {
        list.iter().any(|taint| text(taint, "key") == key && text(taint, "effect") == effect)
    };
    for key in wanted {
        if !has(&list, key, NO_SCHEDULE) {
            list.push(taint(key, NO_SCHEDULE));
        }
    }
    if let Some(key) = health.key().filter(|_| eviction == Eviction::Now)
        && !has(&list, key, NO_EXECUTE)
    {
        list.push(taint(key, NO_EXECUTE));
    }
    if list.as_slice() != taints(node) {
        edit(node, "spec", |spec| match list.is_empty() {
            true => drop(spec.remove("taints")),
            false => drop(spec.insert("taints", list.into_iter().collect::<List>())),
        });
    }
    copy_labels(node);
}

/// The keys of the taints that keep new pods away.
fn no_schedule(node: &Map) -> Vec<&'static str> {
    let conditions = Node::of(node).status().conditions();
    let held = CONDITIONS.iter().filter(|(kind, status, _)| {
        conditions.iter().any(|condition| condition.r#type() == *kind && condition.status() == *status)
    });
    let mut keys: Vec<&str> = held.map(|(_, _, key)| *key).collect();
    if Node::of(node).spec().unschedulable() {
        keys.push(UNSCHEDULABLE);
    }
    keys
}

fn copy_labels(node: &mut Map) {
    let labels = Node::of(node).metadata().labels();
    let missing = LABELS.iter().filter_map(|(from, to)| {
        let value = labels.get(from)?;
        (labels.get(to) != Some(value)).then(|| (*to, value.to_owned()))
    });
    let missing: Vec<(&'static str, String)> = missing.collect();
    if !missing.is_empty() {
        edit(node, "metadata", |metadata| {
            edit(metadata, "labels", |labels| {
                missing.into_iter().for_each(|(key, value)| drop(labels.insert(key, value)));
            });
        });
    }
}

/// Says in the conditions that nothing is known of a node.
pub(super) fn make_unknown(status: &mut Map, node: &Map) {
    let created = kinds::object_meta::text(node, "creationTimestamp").to_owned();
    let now = Time::now().text();
    let list = status.get_or_insert_with("conditions", || List::new().into());
    let Some(list) = list.as_list_mut() else { return };
    for kind in SILENT {
        let known = list.iter_mut().find(|condition| text(condition, "type") == kind);
        match known.and_then(Value::as_map_mut) {
            Some(condition) => {
                if condition.get("status").and_then(Value::as_str) != Some("Unknown") {
                    condition.insert("status", "Unknown");
                    condition.insert("reason", "NodeStatusUnknown");
                    condition.insert("message", "Kubelet stopped posting node status.");
                    condition.insert("lastTransitionTime", now.clone());
                }
            }
            None => {
                let fields = [
                    ("type", kind),
                    ("status", "Unknown"),
                    ("reason", "NodeStatusNeverUpdated"),
                    ("message", "Kubelet never posted node status."),
                    ("lastHeartbeatTime", &created),
                    ("lastTransitionTime", now.as_str()),
                ];
                list.push(fields.into_iter().collect::<Map>().into());
            }
        }
    }
}

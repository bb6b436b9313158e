//! What a kubelet may change of its node and of the status of claims.

use super::NodeRequest;
use crate::Operation;
use object::quote::Quoted;
use object::{Map, Value};
use schema::Status;
use schema::view::View as _;
use schema::views::core::v1::Node;
use std::collections::BTreeSet;

/// The labels of its node that a kubelet sets, of those in the namespaces of the project.
const KUBELET_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

/// The namespaces of labels that a kubelet sets, with all below them.
const KUBELET_NAMESPACES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The namespace of labels that a kubelet may not set.
const RESTRICTED_NAMESPACE: &str = "node-restriction.kubernetes.io";

impl NodeRequest<'_> {
    pub(super) fn admit_node(&self) -> Result<(), Status> {
        let (node, requested) = (Quoted(self.node), self.attributes.name);
        if requested != self.node {
            return self.forbid(format!("node {node} is not allowed to modify node {}", Quoted(requested)));
        }
        match self.attributes.operation {
            Operation::Create => self.admit_new_node(),
            Operation::Update => self.admit_changed_node(),
            Operation::Delete | Operation::Connect => Ok(()),
        }
    }

    fn admit_new_node(&self) -> Result<(), Status> {
        let (new, node) = (Node::of(self.new_map()?), Quoted(self.node));
        if new.spec().config_source().is_some() {
            return self
                .forbid(format!("node {node} is not allowed to create pods with a non-nil configSource"));
        }
        let forbidden = forbidden_labels(new.metadata().labels().map(), &Map::new());
        match forbidden.is_empty() {
            true => Ok(()),
            false => {
                self.forbid(format!("node {node} is not allowed to set the following labels: {forbidden}"))
            }
        }
    }

    fn admit_changed_node(&self) -> Result<(), Status> {
        let (new, old) = (Node::of(self.new_map()?), Node::of(self.old_map()?));
        let node = Quoted(self.node);
        let differs = |new: &Map, old: &Map, field: &str| new.get(field) != old.get(field);
        let (new_spec, old_spec) = (new.spec().map(), old.spec().map());
        if new_spec.contains_key("configSource") && differs(new_spec, old_spec, "configSource") {
            return self.forbid(format!(
                "node {node} is not allowed to update configSource to a new non-nil configSource"
            ));
        }
        if differs(new_spec, old_spec, "taints") {
            return self.forbid(format!("node {node} is not allowed to modify taints"));
        }
        if differs(new.metadata().map(), old.metadata().map(), "ownerReferences") {
            return self.forbid(format!("node {node} is not allowed to modify ownerReferences"));
        }
        let forbidden = forbidden_labels(new.metadata().labels().map(), old.metadata().labels().map());
        match forbidden.is_empty() {
            true => Ok(()),
            false => self.forbid(format!("is not allowed to modify labels: {forbidden}")),
        }
    }

    pub(super) fn admit_claim(&self) -> Result<(), Status> {
        if self.attributes.subresource != "status" {
            return self.forbid("may only update PVC status");
        }
        if self.attributes.operation != Operation::Update {
            return self.forbid(format!("unexpected operation {}", Quoted(self.attributes.operation.name())));
        }
        let (new, old) = (fixed_of_claim(self.new_map()?), fixed_of_claim(self.old_map()?));
        let changed = changed_fields(&new, &old);
        match changed.is_empty() {
            true => Ok(()),
            false => self.forbid(format!(
                "node {} is not allowed to update fields other than status.quantity and status.conditions: {}",
                Quoted(self.node),
                changed.join(", ")
            )),
        }
    }
}

/// A claim without what a kubelet may change.
fn fixed_of_claim(claim: &Map) -> Map {
    let mut fixed = claim.clone();
    let free = [
        ("metadata", &["resourceVersion", "managedFields"][..]),
        ("status", &["capacity", "conditions", "allocatedResources", "allocatedResourceStatuses"]),
    ];
    for (part, fields) in free {
        if let Some(inner) = fixed.get_mut(part).and_then(Value::as_map_mut) {
            inner.retain(|key, _| !fields.contains(&key.as_str()));
        }
    }
    fixed
}

/// The fields in which two objects differ, down to the second level: `metadata.labels`.
fn changed_fields(new: &Map, old: &Map) -> Vec<String> {
    let empty = Map::new();
    let mut changed = Vec::new();
    for part in keys(new, old) {
        let (new, old) = (new.get(part), old.get(part));
        let inner = |value: Option<&Value>| value.and_then(Value::as_map).unwrap_or(&empty).clone();
        let (new_inner, old_inner) = (inner(new), inner(old));
        let fields = keys(&new_inner, &old_inner).into_iter();
        let of_part: Vec<String> = fields
            .filter(|field| new_inner.get(field) != old_inner.get(field))
            .map(|field| format!("{part}.{field}"))
            .collect();
        let is_scalar = new.or(old).is_some_and(|value| value.as_map().is_none());
        if is_scalar && new != old {
            changed.push(part.to_owned());
        }
        changed.extend(of_part);
    }
    changed
}

fn keys<'a>(one: &'a Map, other: &'a Map) -> BTreeSet<&'a str> {
    one.keys().chain(other.keys()).map(object::Key::as_str).collect()
}

/// The changed labels that a kubelet may not change, in their order.
fn forbidden_labels(new: &Map, old: &Map) -> String {
    let (by_new, by_old) = (new.index(), old.index());
    let changed = keys(new, old).into_iter().filter(|key| by_new.get(key) != by_old.get(key));
    changed.filter(|key| is_forbidden(key)).collect::<Vec<_>>().join(", ")
}

fn is_forbidden(label: &str) -> bool {
    let namespace = label.split_once('/').map_or("", |(namespace, _)| namespace);
    let is_within =
        |of: &str| namespace.strip_suffix(of).is_some_and(|above| above.is_empty() || above.ends_with('.'));
    let is_reserved = is_within("kubernetes.io") || is_within("k8s.io");
    let is_kubelets = KUBELET_LABELS.contains(&label) || KUBELET_NAMESPACES.into_iter().any(is_within);
    is_within(RESTRICTED_NAMESPACE) || (is_reserved && !is_kubelets)
}

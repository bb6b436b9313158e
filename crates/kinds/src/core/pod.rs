//! `pods`.

use super::pod_rules::{self, resize, status, update};
use super::{app_armor, pod_columns, pod_defaults, pod_gates, pod_spec, pod_warnings, qos};
use crate::defaults::{each, update_map, update_or_insert_map};
use crate::{
    Action, Connect, Context, Deleted, Generation, Kind, Refusal, Rules, SelectableFields, SelectableRow,
    Strategy, Subresource, SubresourceBody, Traffic, Verb, Version, WrittenPart, keep, keep_metadata, map_at,
};
use crate::{Gates, Resets};
use object::field::List;
use object::{Key, Map, Value};
use schema::view::View;
use schema::views::core::v1::{Binding, Pod};
use schema::views::policy::v1::Eviction;
use std::collections::HashMap;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "pods",
    singular: "pod",
    kind: "Pod",
    short_names: &["po"],
    categories: &["all"],
    versions: &[Version::V1.introduced(0)],
    subresources: &[
        Subresource {
            name: "attach",
            verbs: &[Verb::Create, Verb::Get],
            body: SubresourceBody::Options("PodAttachOptions"),
            action: Action::Connect(Connect::Attach),
            traffic: Traffic::Connection,
        },
        Subresource {
            name: "binding",
            verbs: Verb::CREATE,
            body: SubresourceBody::Kind(Binding::schema),
            action: Action::Bind,
            traffic: Traffic::Objects,
        },
        Subresource {
            name: "ephemeralcontainers",
            verbs: Verb::READ_AND_CHANGE,
            body: SubresourceBody::Object,
            action: Action::Part(WrittenPart::EphemeralContainers),
            traffic: Traffic::Objects,
        },
        Subresource {
            name: "eviction",
            verbs: Verb::CREATE,
            body: SubresourceBody::Kind(Eviction::schema),
            action: Action::Evict,
            traffic: Traffic::Objects,
        },
        Subresource {
            name: "exec",
            verbs: &[Verb::Create, Verb::Get],
            body: SubresourceBody::Options("PodExecOptions"),
            action: Action::Connect(Connect::Exec),
            traffic: Traffic::Connection,
        },
        Subresource {
            name: "log",
            verbs: &[Verb::Get],
            body: SubresourceBody::Object,
            action: Action::Connect(Connect::Log),
            traffic: Traffic::Log,
        },
        Subresource {
            name: "portforward",
            verbs: &[Verb::Create, Verb::Get],
            body: SubresourceBody::Options("PodPortForwardOptions"),
            action: Action::Connect(Connect::PortForward),
            traffic: Traffic::Connection,
        },
        Subresource {
            name: "proxy",
            verbs: &[Verb::Create, Verb::Delete, Verb::Get, Verb::Patch, Verb::Update],
            body: SubresourceBody::Options("PodProxyOptions"),
            action: Action::Connect(Connect::Proxy),
            traffic: Traffic::Proxy,
        },
        Subresource {
            name: "resize",
            verbs: Verb::READ_AND_CHANGE,
            body: SubresourceBody::Object,
            action: Action::Part(WrittenPart::Resize),
            traffic: Traffic::Objects,
        },
        Subresource::STATUS,
    ],
    columns: pod_columns::COLUMNS,
    fields: SelectableFields {
        list: &[
            SelectableRow { indexed: true, ..SelectableRow::at(&["spec.nodeName"]) },
            SelectableRow { name: "spec.host", ..SelectableRow::at(&["spec.nodeName"]) },
            SelectableRow::at(&["spec.restartPolicy"]),
            SelectableRow::at(&["spec.schedulerName"]),
            SelectableRow::at(&["spec.serviceAccountName"]),
            SelectableRow { absent: "false", ..SelectableRow::at(&["spec.hostNetwork"]) },
            SelectableRow::at(&["status.phase"]),
            SelectableRow::at(&["status.podIP"]),
            SelectableRow { name: "status.podIPs", paths: &[], absent: "", indexed: false },
            SelectableRow::at(&["status.nominatedNodeName"]),
        ],
        refusal: Refusal::NotSupported,
    },
    generation: Generation::Counted,
    deleted: Deleted::Object,
    resets: &Resets {
        create: &[],
        update: &[
            ("", &[&["status"]]),
            ("status", &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]),
        ],
        declared: None,
    },
    strategy: &PodStrategy,
    ..Kind::PLAIN
};

struct PodStrategy;

impl Strategy for PodStrategy {
    fn default(&self, pod: &mut Map) {
        pod_spec::drop_legacy_annotations(pod);
        update_or_insert_map(pod, "spec", pod_defaults::spec);
        update_map(pod, "status", pod_defaults::status);
    }

    /// Also keeps AppArmor fields and annotations in step: older nodes read the annotations.
    fn prepare_create(&self, pod: &mut Map, context: &Context<'_>) {
        let class = match Pod::of(pod).status().qos_class() {
            "" => qos::class(Pod::of(pod).spec()),
            given => given.to_owned().into(),
        };
        let mut status = Map::from_iter([("phase", Value::from("Pending")), ("qosClass", class)]);
        update_map(pod, "spec", |spec| {
            pod_spec::mirror_service_account(spec);
            pod_gates::drop_disabled(spec, None, context.gates);
        });
        if !Pod::of(pod).spec().scheduling_gates().is_empty() {
            status.insert(Key::known("conditions"), Value::from_iter([gated(context)]));
        }
        pod.insert(Key::known("status"), status);
        apply_label_keys(pod);
        app_armor::settle(pod);
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, context: &Context<'_>) {
        drop_disabled(new, old, context.gates);
    }

    /// Also keeps the owner references: old kubelets corrupt them.
    fn prepare_status(&self, new: &mut Map, old: &Map, context: &Context<'_>) {
        let before = Pod::of(old).status();
        update_or_insert_map(new, "status", |status| {
            if !status.contains_key("qosClass") && !before.qos_class().is_empty() {
                status.insert(Key::known("qosClass"), before.qos_class());
            }
            keep_observed_generations(status, old);
        });
        drop_disabled(new, old, context.gates);
    }

    /// Changes ephemeral containers, or the resources of containers; keeps the rest of the spec.
    fn prepare_part(&self, part: WrittenPart, new: &mut Map, old: &Map, context: &Context<'_>) {
        match part {
            WrittenPart::EphemeralContainers => keep_all_but_spec(new, old, |new, old| {
                let containers = new.get("ephemeralContainers").cloned();
                *new = old.clone();
                match containers {
                    Some(containers) => drop(new.insert(Key::known("ephemeralContainers"), containers)),
                    None => drop(new.remove("ephemeralContainers")),
                }
            }),
            WrittenPart::Resize => take_resources(new, old),
            WrittenPart::Status | WrittenPart::Finalize | WrittenPart::Approval => return,
        }
        drop_disabled(new, old, context.gates);
    }

    fn validate_create(&self, pod: &Map, rules: &Rules<'_>) -> List {
        pod_rules::create(pod, rules)
    }

    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        update::validate(new, old, rules)
    }

    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        status::validate(new, old, rules)
    }

    fn validate_part(&self, part: WrittenPart, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        match part {
            WrittenPart::EphemeralContainers => update::ephemeral_containers(new, old, rules),
            WrittenPart::Resize => resize::validate(new, old, rules),
            WrittenPart::Status | WrittenPart::Finalize | WrittenPart::Approval => {
                rules.metadata_update(new, old)
            }
        }
    }

    fn preparation_warnings(&self, pod: &Map) -> Vec<String> {
        app_armor::warnings(Pod::of(pod))
    }

    fn status_warnings(&self, new: &Map) -> Vec<String> {
        pod_warnings::of_status(Pod::of(new).status())
    }

    /// Only for a new pod: pods are changed by programs, and often.
    fn warnings(&self, new: &Map, old: Option<&Map>) -> Vec<String> {
        if old.is_some() { Vec::new() } else { pod_warnings::of_pod(Pod::of(new)) }
    }

    fn grace(&self, pod: &Map, requested: Option<i64>) -> Option<i64> {
        let pod = Pod::of(pod);
        let seconds = requested.or(pod.spec().termination_grace_period_seconds()).unwrap_or_default();
        let at_once =
            pod.spec().node_name().is_empty() || matches!(pod.status().phase(), "Failed" | "Succeeded");
        Some(match seconds {
            _ if at_once => 0,
            ..0 => 1,
            _ => seconds,
        })
    }
}

fn drop_disabled(new: &mut Map, old: &Map, gates: Gates) {
    let old_pod = Pod::of(old);
    update_map(new, "spec", |spec| pod_gates::drop_disabled(spec, Some(old_pod.spec().map()), gates));
    update_map(new, "status", |status| {
        pod_gates::drop_disabled_status(status, Some(old_pod.status()), Some(old_pod.spec()), gates);
    });
}

/// The condition of a pod with scheduling gates.
fn gated(context: &Context<'_>) -> Map {
    Map::from_iter([
        ("type", "PodScheduled"),
        ("status", "False"),
        ("lastTransitionTime", context.now),
        ("reason", "SchedulingGated"),
        ("message", "Scheduling is blocked due to non-empty scheduling gates"),
    ])
}

/// Keeps the observed generations of the old status and its conditions where the new ones have none.
fn keep_observed_generations(status: &mut Map, old: &Map) {
    let before = Pod::of(old).status();
    if !pod_gates::tracks_generations(before) {
        return;
    }
    if !status.contains_key("observedGeneration") && before.observed_generation() != 0 {
        status.insert(Key::known("observedGeneration"), before.observed_generation());
    }
    let mut seen: HashMap<&str, Vec<i64>> = HashMap::new();
    for condition in before.conditions().iter() {
        seen.entry(condition.r#type()).or_default().push(condition.observed_generation());
    }
    seen.values_mut().for_each(|generations| generations.reverse());
    each(status, "conditions", |condition| {
        let ty = condition.get("type").and_then(Value::as_str).unwrap_or_default();
        let generation = seen.get_mut(ty).and_then(Vec::pop).unwrap_or_default();
        if !condition.contains_key("observedGeneration") && generation != 0 {
            condition.insert(Key::known("observedGeneration"), generation);
        }
    });
}

/// Keeps the status and the metadata that a status update may not change. `change` makes the new spec from
/// the client's spec and the old one.
fn keep_all_but_spec(new: &mut Map, old: &Map, change: impl FnOnce(&mut Map, &Map)) {
    keep(new, old, "status");
    keep_metadata(new, old);
    if let Some(spec) = map_at(new, "spec") {
        change(spec, Pod::of(old).spec().map());
    }
}

/// Takes from `new` the resources and resize policies of containers. If the containers differ, the pod stays
/// as the client sent it, and validation refuses it.
fn take_resources(new: &mut Map, old: &Map) {
    let (before, after) = (Pod::of(old).spec(), Pod::of(new).spec());
    if after.containers().len() != before.containers().len()
        || after.init_containers().len() != before.init_containers().len()
    {
        return;
    }
    keep_all_but_spec(new, old, |new, old| {
        let sent = std::mem::replace(new, old.clone());
        for list in ["containers", "initContainers"] {
            let Some(sent) = sent.get(list).and_then(Value::as_list) else {
                new.remove(list);
                continue;
            };
            let resized = resized(sent, old.get(list).and_then(Value::as_list).unwrap_or_default());
            new.insert(Key::known(list), resized.unwrap_or_else(|| sent.to_vec()));
        }
    });
}

/// The containers of `old` with the resources of those in `sent`; `None` if the names differ.
fn resized(sent: &[Value], old: &[Value]) -> Option<Vec<Value>> {
    let pairs = sent.iter().zip(old).map(|(sent, old)| {
        let (sent, mut result) = (sent.as_map()?, old.as_map()?.clone());
        if sent.get("name") != result.get("name") {
            return None;
        }
        keep(&mut result, sent, "resources");
        keep(&mut result, sent, "resizePolicy");
        Some(result.into())
    });
    pairs.collect()
}

/// Turns `matchLabelKeys` of affinity terms into requirements with the label values of the pod.
fn apply_label_keys(pod: &mut Map) {
    if Pod::of(pod).spec().affinity().is_none() {
        return;
    }
    let labels = Pod::of(pod).metadata().labels().map().clone();
    let labels = labels.index();
    update_map(pod, "spec", |spec| {
        update_map(spec, "affinity", |affinity| {
            for kind in ["podAffinity", "podAntiAffinity"] {
                update_map(affinity, kind, |affinity| {
                    each(affinity, "preferredDuringSchedulingIgnoredDuringExecution", |term| {
                        update_map(term, "podAffinityTerm", |term| apply_label_keys_of(term, &labels));
                    });
                    each(affinity, "requiredDuringSchedulingIgnoredDuringExecution", |term| {
                        apply_label_keys_of(term, &labels);
                    });
                });
            }
        });
    });
}

fn apply_label_keys_of(term: &mut Map, labels: &HashMap<&str, &Value>) {
    if !term.contains_key("labelSelector") {
        return;
    }
    let mut requirements: Vec<Value> = Vec::new();
    for (keys, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term.get(keys).and_then(Value::as_list).unwrap_or_default() {
            if let Some(value) = key.as_str().and_then(|key| labels.get(key)) {
                let requirement = [
                    ("key", key.clone()),
                    ("operator", operator.into()),
                    ("values", Value::from_iter([(*value).clone()])),
                ];
                requirements.push(Map::from_iter(requirement).into());
            }
        }
    }
    if requirements.is_empty() {
        return;
    }
    update_map(term, "labelSelector", |selector| {
        let list = selector.get_or_insert_with(Key::known("matchExpressions"), || Vec::new().into());
        list.as_list_mut().into_iter().for_each(|list| list.extend(requirements.drain(..)));
    });
}

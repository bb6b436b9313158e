//! The pods of a daemon set: each is bound to a node by its node affinity, and tolerates what happens to
//! nodes.

use crate::objects::annotation;
use object::{Key, Map, Value};
use schema::view::View as _;
use schema::views::core::v1::{Pod, Toleration};

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
const GENERATION_LABEL: &str = "pod-template-generation";

/// What every pod of a daemon set tolerates: the taint, and its effect.
const TOLERATED: [[&str; 2]; 6] = [
    ["node.kubernetes.io/not-ready", "NoExecute"],
    ["node.kubernetes.io/unreachable", "NoExecute"],
    ["node.kubernetes.io/disk-pressure", "NoSchedule"],
    ["node.kubernetes.io/memory-pressure", "NoSchedule"],
    ["node.kubernetes.io/pid-pressure", "NoSchedule"],
    ["node.kubernetes.io/unschedulable", "NoSchedule"],
];
/// What pods in the network of the node tolerate as well.
const NO_NETWORK: [&str; 2] = ["node.kubernetes.io/network-unavailable", "NoSchedule"];

/// The generation of the template that an annotation gives.
pub(super) fn generation(set: &Map) -> Option<i64> {
    annotation(set, TEMPLATE_GENERATION).parse().ok()
}

/// Whether labels of a pod say that it was made of a template, by its hash or its generation.
pub(super) fn is_updated<'a>(
    label: impl Fn(&str) -> Option<&'a str>,
    hash: &str,
    generation: Option<i64>,
) -> bool {
    let has_hash = !hash.is_empty() && label(super::REVISION_LABEL) == Some(hash);
    has_hash || generation.is_some_and(|own| label(GENERATION_LABEL) == Some(own.to_string().as_str()))
}

/// The template with the tolerations of daemons, and the labels of its revision.
pub(super) fn complete(template: &Map, hash: &str, generation: Option<i64>) -> Map {
    let mut template = template.clone();
    if let Some(spec) = template.get_or_insert_with("spec", || Map::new().into()).as_map_mut() {
        tolerate(spec);
    }
    let metadata = template.get_or_insert_with("metadata", || Map::new().into()).as_map_mut();
    let labels = metadata.map(|metadata| metadata.get_or_insert_with("labels", || Map::new().into()));
    if let Some(labels) = labels.and_then(Value::as_map_mut) {
        if let Some(generation) = generation {
            labels.insert(GENERATION_LABEL, generation.to_string());
        }
        labels.insert(super::REVISION_LABEL, hash);
    }
    template
}

fn tolerate(spec: &mut Map) {
    let has_network = spec.get("hostNetwork").and_then(Value::as_bool) == Some(true);
    let list = spec.get_or_insert_with("tolerations", || Vec::<Value>::new().into());
    let mut tolerations = list.as_list().unwrap_or_default().to_vec();
    for [key, effect] in TOLERATED.into_iter().chain(has_network.then_some(NO_NETWORK)) {
        let toleration: Map =
            [("key", key), ("operator", "Exists"), ("effect", effect)].into_iter().collect();
        let is_same = |own: &Value| {
            own.as_map().map(Toleration::of).is_some_and(|own| {
                [own.key(), own.operator(), own.value(), own.effect()] == [key, "Exists", "", effect]
            })
        };
        match tolerations.iter_mut().find(|own| is_same(own)) {
            // It may have a time.
            Some(own) => *own = toleration.into(),
            None => tolerations.push(toleration.into()),
        }
    }
    *list = tolerations.into();
}

/// Binds a pod to a node: all terms of its required node affinity give way to the name of the node.
pub(super) fn bind(pod: &mut Map, node: &str) {
    let mut field = Map::new();
    field.insert("key", "metadata.name");
    field.insert("operator", "In");
    field.insert("values", vec![Value::from(node)]);
    let mut term = Map::new();
    term.insert("matchFields", vec![Value::from(field)]);
    let mut place = pod;
    let path = ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    for key in path {
        let value = place.get_or_insert_with(Key::known(key), || Map::new().into());
        if value.as_map().is_none() {
            *value = Map::new().into();
        }
        match value.as_map_mut() {
            Some(map) => place = map,
            None => return,
        }
    }
    place.insert("nodeSelectorTerms", vec![Value::from(term)]);
}

/// The node that a pod was made for, if it has no node yet.
pub(super) fn bound_to(pod: &Map) -> Option<&str> {
    let affinity = Pod::of(pod).spec().affinity()?.node_affinity()?;
    let required = affinity.required_during_scheduling_ignored_during_execution()?;
    let mut fields = required.node_selector_terms().iter().flat_map(|term| term.match_fields().iter());
    let name = fields.find(|field| field.key() == "metadata.name" && field.operator() == "In")?;
    name.values().get(0).filter(|_| name.values().len() == 1)
}

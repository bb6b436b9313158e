//! Spreading pods over topology domains, as their constraints demand.

use crate::cluster::Cluster;
use crate::node::{Facts, Node};
use crate::pod::Pod;
use crate::taints::untolerated;
use kinds::label_selector;
use object::Text;
use object::label::{Operator, Requirement, Selector};
use schema::views::core::v1::{PodSpec, TopologySpreadConstraint};
use std::collections::HashMap;

/// The label of a node's own name, which is counted for each node.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// A constraint of a pod.
#[derive(Clone, Debug)]
pub(crate) struct Constraint {
    max_skew: i64,
    topology_key: Text,
    selector: Selector,
    min_domains: i64,
    /// Only nodes that the pod's node affinity allows count.
    by_affinity: bool,
    /// Only nodes whose taints the pod tolerates count.
    by_taints: bool,
    /// The constraint is a preference.
    pub(crate) is_soft: bool,
}

impl Constraint {
    /// The constraints of a pod; an error if a selector is malformed.
    pub(crate) fn all(spec: PodSpec<'_>, labels: &[(Text, Text)]) -> Result<Vec<Self>, String> {
        spec.topology_spread_constraints().iter().map(|constraint| Self::new(constraint, labels)).collect()
    }

    fn new(constraint: TopologySpreadConstraint<'_>, labels: &[(Text, Text)]) -> Result<Self, String> {
        let selector = constraint.label_selector();
        let mut selector = selector
            .map_or(Ok(Selector::nothing()), label_selector::compile)
            .map_err(|error| error.to_string())?;
        for key in constraint.match_label_keys().iter() {
            if let Some((key, value)) = labels.iter().find(|(known, _)| known == key) {
                let equal = Requirement::new(key, Operator::In, &[value.as_str()]);
                selector.add(equal.map_err(|error| error.to_string())?);
            }
        }
        Ok(Self {
            max_skew: constraint.max_skew(),
            topology_key: constraint.topology_key().into(),
            selector,
            min_domains: constraint.min_domains().unwrap_or(1),
            by_affinity: constraint.node_affinity_policy() != Some("Ignore"),
            by_taints: constraint.node_taints_policy() == Some("Honor"),
            is_soft: constraint.when_unsatisfiable() == "ScheduleAnyway",
        })
    }

    /// Whether the pods of a node count.
    fn includes(&self, pod: &Pod, node: &Facts) -> bool {
        (!self.by_affinity || pod.required.matches(node))
            && (!self.by_taints || untolerated(&node.taints, &pod.tolerations).is_none())
    }

    /// How many pods on a node the constraint counts.
    fn count(&self, pod: &Pod, node: &Node) -> i64 {
        if self.selector.is_everything() {
            return 0;
        }
        let counts = |other: &&std::sync::Arc<Pod>| {
            !other.entry.is_deleting()
                && other.namespace() == pod.namespace()
                && self.selector.matches(&*other.entry)
        };
        i64::try_from(node.pods.iter().filter(counts).count()).unwrap_or(i64::MAX)
    }
}

/// The pods in each domain, for each hard constraint.
#[derive(Clone, Debug)]
pub(crate) struct Prepared(Vec<HashMap<Text, i64>>);

/// Why a node is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It lacks the label of a constraint.
    MissingLabel,
    /// Its domain has too many pods.
    Skew,
}

fn hard(pod: &Pod) -> impl Iterator<Item = &Constraint> {
    pod.spread.iter().filter(|constraint| !constraint.is_soft)
}

fn has_labels<'c>(node: &Facts, mut constraints: impl Iterator<Item = &'c Constraint>) -> bool {
    constraints.all(|constraint| node.labels.get(&constraint.topology_key).is_some())
}

/// Counts the pods of all domains; `None` without hard constraints.
pub(crate) fn prepare(cluster: &Cluster, pod: &Pod) -> Option<Prepared> {
    let mut domains: Vec<HashMap<Text, i64>> = hard(pod).map(|_| HashMap::new()).collect();
    if domains.is_empty() {
        return None;
    }
    for node in cluster.nodes() {
        let Some(facts) = node.facts.as_ref().filter(|facts| has_labels(facts, hard(pod))) else { continue };
        for (constraint, counts) in hard(pod).zip(&mut domains) {
            if constraint.includes(pod, facts)
                && let Some(value) = facts.labels.get(&constraint.topology_key)
            {
                *counts.entry(value.into()).or_default() += constraint.count(pod, node);
            }
        }
    }
    Some(Prepared(domains))
}

impl Prepared {
    /// Counts another pod on a node, or removes it again.
    pub(crate) fn update(&mut self, pod: &Pod, other: &Pod, node: &Facts, sign: i64) {
        if other.namespace() != pod.namespace() || !has_labels(node, hard(pod)) {
            return;
        }
        for (constraint, counts) in hard(pod).zip(&mut self.0) {
            if constraint.selector.matches(&*other.entry)
                && constraint.includes(pod, node)
                && let Some(value) = node.labels.get(&constraint.topology_key)
            {
                *counts.entry(value.into()).or_default() += sign;
            }
        }
    }

    /// Whether a pod may be on a node.
    pub(crate) fn check(&self, pod: &Pod, node: &Facts) -> Result<(), Refusal> {
        for (constraint, counts) in hard(pod).zip(&self.0) {
            let Some(value) = node.labels.get(&constraint.topology_key) else {
                return Err(Refusal::MissingLabel);
            };
            let has_domains = i64::try_from(counts.len()).is_ok_and(|len| len >= constraint.min_domains);
            let least = match has_domains {
                // Without any domain there is no least one, and no skew.
                true => counts.values().copied().min().unwrap_or(i64::from(i32::MAX)),
                false => 0,
            };
            let own = i64::from(constraint.selector.matches(&*pod.entry));
            let there = counts.get(value).copied().unwrap_or_default();
            if there + own - least > constraint.max_skew {
                return Err(Refusal::Skew);
            }
        }
        Ok(())
    }
}

/// The pods in each domain, for the soft constraints of a pod.
#[derive(Debug)]
pub(crate) struct Soft {
    domains: Vec<Option<HashMap<Text, i64>>>,
    /// What a pod of a domain counts for: less in topologies with few domains.
    weights: Vec<f64>,
}

fn soft(pod: &Pod) -> impl Iterator<Item = &Constraint> {
    pod.spread.iter().filter(|constraint| constraint.is_soft)
}

/// Counts the pods in the domains of the nodes that a pod may be on; `None` without soft constraints.
pub(crate) fn weigh(cluster: &Cluster, pod: &Pod, feasible: &[&Node]) -> Option<Soft> {
    let is_host = |constraint: &Constraint| constraint.topology_key == HOSTNAME;
    let mut domains: Vec<Option<HashMap<Text, i64>>> =
        soft(pod).map(|constraint| (!is_host(constraint)).then(HashMap::new)).collect();
    if domains.is_empty() {
        return None;
    }
    let mut with_labels = 0_usize;
    for facts in feasible.iter().filter_map(|node| node.facts.as_ref()) {
        if !has_labels(facts, soft(pod)) {
            continue;
        }
        with_labels += 1;
        for (constraint, counts) in soft(pod).zip(&mut domains) {
            if let (Some(counts), Some(value)) = (counts, facts.labels.get(&constraint.topology_key)) {
                counts.entry(value.into()).or_default();
            }
        }
    }
    for node in cluster.nodes() {
        let Some(facts) = node.facts.as_ref().filter(|facts| has_labels(facts, soft(pod))) else { continue };
        for (constraint, counts) in soft(pod).zip(&mut domains) {
            if let (Some(counts), Some(value)) = (counts, facts.labels.get(&constraint.topology_key))
                && constraint.includes(pod, facts)
                && let Some(count) = counts.get_mut(value)
            {
                *count += constraint.count(pod, node);
            }
        }
    }
    let weight = |counts: &Option<HashMap<_, _>>| {
        (counts.as_ref().map_or(with_labels, HashMap::len) as f64 + 2.0).ln()
    };
    let weights = domains.iter().map(weight).collect();
    Some(Soft { domains, weights })
}

impl Soft {
    /// How crowded the domains of a node are; `None` if it lacks a label.
    pub(crate) fn crowd(&self, pod: &Pod, node: &Node) -> Option<i64> {
        let facts = node.facts.as_ref().filter(|facts| has_labels(facts, soft(pod)))?;
        let mut crowd = 0.0;
        for ((constraint, counts), weight) in soft(pod).zip(&self.domains).zip(&self.weights) {
            let value = facts.labels.get(&constraint.topology_key)?;
            let count = match counts {
                Some(counts) => counts.get(value).copied().unwrap_or_default(),
                None => constraint.count(pod, node),
            };
            crowd += count as f64 * weight + (constraint.max_skew - 1) as f64;
        }
        Some(crowd.round() as i64)
    }
}

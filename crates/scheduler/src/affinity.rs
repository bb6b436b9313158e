//! Affinity and anti-affinity between pods: which pods a pod wants near it, and which keep it away.

use crate::cluster::Cluster;
use crate::node::{Facts, Node};
use crate::pod::Pod;
use kinds::label_selector;
use object::Text;
use object::label::{Labels, Selector};
use schema::view::Items;
use schema::views::core::v1::{PodAffinityTerm, PodSpec, WeightedPodAffinityTerm};
use std::collections::HashMap;

/// The weight of a required term of a pod that runs, in the scores of a pod that it matches.
const REQUIRED_WEIGHT: i64 = 1;

/// Which pods a term is about, and what "near" means for it.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    namespaces: Vec<Text>,
    namespace_selector: Selector,
    selector: Selector,
    topology_key: Text,
}

/// A term with its weight; negative for anti-affinity.
#[derive(Clone, Debug)]
pub(crate) struct Weighted {
    weight: i64,
    term: Term,
}

/// The terms of a pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Affinity {
    pub(crate) required: Vec<Term>,
    pub(crate) required_anti: Vec<Term>,
    pub(crate) preferred: Vec<Weighted>,
    /// A selector is malformed.
    pub(crate) error: Option<String>,
}

impl Affinity {
    /// The terms of a pod; `None` if it has none.
    pub(crate) fn new(namespace: &str, spec: PodSpec<'_>) -> Option<Box<Self>> {
        let affinity = spec.affinity()?;
        let mut all = Self::default();
        if let Some(near) = affinity.pod_affinity() {
            all.required = all.terms(namespace, near.required_during_scheduling_ignored_during_execution());
            all.prefer(namespace, near.preferred_during_scheduling_ignored_during_execution(), 1);
        }
        if let Some(away) = affinity.pod_anti_affinity() {
            all.required_anti =
                all.terms(namespace, away.required_during_scheduling_ignored_during_execution());
            all.prefer(namespace, away.preferred_during_scheduling_ignored_during_execution(), -1);
        }
        let is_empty = all.required.is_empty() && all.required_anti.is_empty() && all.preferred.is_empty();
        (!is_empty || all.error.is_some()).then(|| Box::new(all))
    }

    fn terms(&mut self, namespace: &str, terms: Items<'_, PodAffinityTerm<'_>>) -> Vec<Term> {
        terms.iter().filter_map(|term| self.term(namespace, term)).collect()
    }

    fn prefer(&mut self, namespace: &str, terms: Items<'_, WeightedPodAffinityTerm<'_>>, sign: i64) {
        for weighted in terms.iter() {
            if let Some(term) = self.term(namespace, weighted.pod_affinity_term()) {
                self.preferred.push(Weighted { weight: sign * weighted.weight(), term });
            }
        }
    }

    fn term(&mut self, namespace: &str, term: PodAffinityTerm<'_>) -> Option<Term> {
        let compile = |selector: Option<_>| selector.map_or(Ok(Selector::nothing()), label_selector::compile);
        let (selector, namespace_selector) =
            match (compile(term.label_selector()), compile(term.namespace_selector())) {
                (Ok(selector), Ok(namespaces)) => (selector, namespaces),
                (Err(error), _) | (_, Err(error)) => {
                    self.error.get_or_insert_with(|| error.to_string());
                    return None;
                }
            };
        // Without any namespaces, a term is about the namespace of its pod.
        let namespaces = match term.namespaces().is_empty() && term.namespace_selector().is_none() {
            true => vec![namespace.into()],
            false => term.namespaces().iter().map(Text::from).collect(),
        };
        Some(Term { namespaces, namespace_selector, selector, topology_key: term.topology_key().into() })
    }
}

impl Term {
    fn matches(&self, pod: &Pod, namespaces: &Namespaces<'_>) -> bool {
        let namespace = pod.namespace();
        (self.namespaces.iter().any(|known| known == namespace)
            || self.namespace_selector.is_everything()
            || !self.namespace_selector.is_nothing()
                && namespaces.matches(&self.namespace_selector, namespace))
            && self.selector.matches(&*pod.entry)
    }
}

/// The labels of namespaces.
#[derive(Clone, Copy)]
struct Namespaces<'c>(&'c Cluster);

impl Namespaces<'_> {
    fn matches(self, selector: &Selector, namespace: &str) -> bool {
        match self.0.namespace(namespace) {
            Some(entry) => selector.matches(&*entry),
            None => selector.matches_with(|_| None),
        }
    }
}

/// How many terms are matched by pods in a topology domain: by key and value of its label.
type Counts = HashMap<(Text, Text), i64>;

/// What the filter knows of all pods, before it looks at nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prepared {
    existing_anti: Counts,
    near: Counts,
    away: Counts,
    matches_itself: bool,
}

/// Why a node is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No pod that the pod has to be near is in the domain.
    Near,
    /// A pod in the domain is one that the pod must not be near.
    Away,
    /// A pod in the domain must not be near the pod.
    Existing,
}

/// Counts the pods that matter for a pod; `None` if there is nothing to check.
pub(crate) fn prepare(cluster: &Cluster, pod: &Pod) -> Option<Prepared> {
    let own = pod.affinity.as_deref();
    let has_required = own.is_some_and(|own| !own.required.is_empty() || !own.required_anti.is_empty());
    if !has_required && !cluster.has_anti_affinity() {
        return None;
    }
    let mut prepared = Prepared::default();
    let namespaces = Namespaces(cluster);
    for node in cluster.nodes() {
        let Some(facts) = &node.facts else { continue };
        if has_required {
            for other in &node.pods {
                prepared.count(&namespaces, pod, other, facts, 1);
            }
        } else if node.anti_affinity > 0 {
            for other in node.pods.iter().filter(|other| other.affinity.is_some()) {
                prepared.count(&namespaces, pod, other, facts, 1);
            }
        }
    }
    if let Some(own) = own {
        prepared.matches_itself = all_match(&own.required, pod, &namespaces);
    }
    (has_required || !prepared.existing_anti.is_empty()).then_some(prepared)
}

fn all_match(terms: &[Term], pod: &Pod, namespaces: &Namespaces<'_>) -> bool {
    !terms.is_empty() && terms.iter().all(|term| term.matches(pod, namespaces))
}

impl Prepared {
    /// Counts another pod on a node, or removes it again.
    pub(crate) fn update(&mut self, cluster: &Cluster, pod: &Pod, other: &Pod, node: &Facts, sign: i64) {
        self.count(&Namespaces(cluster), pod, other, node, sign);
    }

    fn count(&mut self, namespaces: &Namespaces<'_>, pod: &Pod, other: &Pod, node: &Facts, sign: i64) {
        if let Some(theirs) = &other.affinity {
            for term in theirs.required_anti.iter().filter(|term| term.matches(pod, namespaces)) {
                add(&mut self.existing_anti, node, &term.topology_key, sign);
            }
        }
        let Some(own) = &pod.affinity else { return };
        if all_match(&own.required, other, namespaces) {
            for term in &own.required {
                add(&mut self.near, node, &term.topology_key, sign);
            }
        }
        for term in own.required_anti.iter().filter(|term| term.matches(other, namespaces)) {
            add(&mut self.away, node, &term.topology_key, sign);
        }
    }

    /// Whether a pod may be on a node.
    pub(crate) fn check(&self, pod: &Pod, node: &Facts) -> Result<(), Refusal> {
        if let Some(own) = &pod.affinity {
            if !self.is_near(&own.required, node) {
                return Err(Refusal::Near);
            }
            let is_hit = |term: &Term| {
                let value = node.labels.get(&term.topology_key);
                value.is_some_and(|value| count(&self.away, &term.topology_key, value) > 0)
            };
            if !self.away.is_empty() && own.required_anti.iter().any(is_hit) {
                return Err(Refusal::Away);
            }
        }
        let mut hits = self.existing_anti.iter().filter(|(_, count)| **count > 0);
        match hits.any(|((key, value), _)| node.labels.get(key) == Some(value.as_str())) {
            true => Err(Refusal::Existing),
            false => Ok(()),
        }
    }

    fn is_near(&self, terms: &[Term], node: &Facts) -> bool {
        let mut has_pods = true;
        for term in terms {
            let Some(value) = node.labels.get(&term.topology_key) else { return false };
            has_pods &= count(&self.near, &term.topology_key, value) > 0;
        }
        // The first pod of several that want to be near each other may go anywhere.
        has_pods || self.near.is_empty() && self.matches_itself
    }
}

fn add(counts: &mut Counts, node: &Facts, key: &Text, amount: i64) {
    let Some(value) = node.labels.get(key) else { return };
    let pair = (key.clone(), Text::from(value));
    let count = counts.entry(pair.clone()).or_default();
    *count += amount;
    if *count == 0 {
        counts.remove(&pair);
    }
}

fn count(counts: &Counts, key: &Text, value: &str) -> i64 {
    if counts.is_empty() {
        return 0;
    }
    counts.get(&(key.clone(), Text::from(value))).copied().unwrap_or_default()
}

/// The sums of weights by topology domain, for the scores of nodes.
#[derive(Debug, Default)]
pub(crate) struct Weights(Counts);

/// The weights of preferences: those of the pod about others, and those of others about the pod. None if
/// there are none.
pub(crate) fn weigh(cluster: &Cluster, pod: &Pod) -> Option<Weights> {
    let own = pod.affinity.as_deref().map(|own| own.preferred.as_slice()).unwrap_or_default();
    if own.is_empty() && !cluster.has_affinity() {
        return None;
    }
    let namespaces = Namespaces(cluster);
    let mut weights = Counts::new();
    for node in cluster.nodes() {
        let Some(facts) = node.facts.as_ref().filter(|_| !own.is_empty() || node.affinity > 0) else {
            continue;
        };
        weigh_node(&mut weights, &namespaces, own, pod, node, facts);
    }
    (!weights.is_empty()).then_some(Weights(weights))
}

fn weigh_node(
    weights: &mut Counts,
    namespaces: &Namespaces<'_>,
    own: &[Weighted],
    pod: &Pod,
    node: &Node,
    facts: &Facts,
) {
    for other in &node.pods {
        for Weighted { weight, term } in own {
            if term.matches(other, namespaces) {
                add(weights, facts, &term.topology_key, *weight);
            }
        }
        let Some(theirs) = &other.affinity else { continue };
        for term in theirs.required.iter().filter(|term| term.matches(pod, namespaces)) {
            add(weights, facts, &term.topology_key, REQUIRED_WEIGHT);
        }
        for Weighted { weight, term } in &theirs.preferred {
            if term.matches(pod, namespaces) {
                add(weights, facts, &term.topology_key, *weight);
            }
        }
    }
}

impl Weights {
    /// The weight of a node.
    pub(crate) fn of(&self, node: &Facts) -> i64 {
        let matching = |(key, value): &&(Text, Text)| node.labels.label(key) == Some(value.as_str());
        self.0.iter().filter(|(pair, _)| matching(pair)).map(|(_, weight)| *weight).sum()
    }
}

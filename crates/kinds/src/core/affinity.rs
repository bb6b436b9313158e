//! The affinity of pods: to nodes, to other pods, and against them.

use super::node_selector;
use crate::label_selector::{self, Values};
use object::field::{Error, List, Path};
use object::name::{Mode, invalid, label_key, name_is_dns_label};
use schema::view::Items;
use schema::views::core::v1::{
    Affinity, NodeAffinity, PodAffinityTerm, PreferredSchedulingTerm, WeightedPodAffinityTerm,
};
use schema::views::meta::v1::LabelSelector;
use std::collections::{HashMap, HashSet};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Which values of selectors are checked.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Checked {
    /// Those of required node affinity.
    pub(in crate::core) nodes: Values,
    /// Those of pod affinity.
    pub(in crate::core) pods: Values,
}

/// The field errors of the affinity of a pod.
pub(in crate::core) fn validate(affinity: Affinity<'_>, values: Checked, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if let Some(nodes) = affinity.node_affinity() {
        errors.append(node_affinity(nodes, values.nodes, &path.child("nodeAffinity")));
    }
    for PodTerms { field, required, preferred } in pod_terms(affinity) {
        let path = path.child(field);
        let required_path = path.child(REQUIRED);
        for (at, term) in required.iter().enumerate() {
            errors.append(pod_term(term, values.pods, &required_path.index(at)));
        }
        let preferred_path = path.child(PREFERRED);
        for (at, weighted) in preferred.iter().enumerate() {
            let path = preferred_path.index(at);
            errors.extend(weight(weighted.weight(), &path));
            let term = path.child("podAffinityTerm");
            errors.append(pod_term(weighted.pod_affinity_term(), values.pods, &term));
        }
    }
    errors
}

/// The terms of `podAffinity` or of `podAntiAffinity`.
struct PodTerms<'a> {
    field: &'static str,
    required: Items<'a, PodAffinityTerm<'a>>,
    preferred: Items<'a, WeightedPodAffinityTerm<'a>>,
}

fn pod_terms(affinity: Affinity<'_>) -> impl Iterator<Item = PodTerms<'_>> {
    let towards = affinity.pod_affinity().map(|pods| PodTerms {
        field: "podAffinity",
        required: pods.required_during_scheduling_ignored_during_execution(),
        preferred: pods.preferred_during_scheduling_ignored_during_execution(),
    });
    let against = affinity.pod_anti_affinity().map(|pods| PodTerms {
        field: "podAntiAffinity",
        required: pods.required_during_scheduling_ignored_during_execution(),
        preferred: pods.preferred_during_scheduling_ignored_during_execution(),
    });
    towards.into_iter().chain(against)
}

fn weight(weight: i64, path: &Path<'_>) -> Option<Error> {
    let why = "must be in the range 1-100";
    (!(1..=100).contains(&weight)).then(|| Error::invalid(&path.child("weight"), weight, why))
}

fn node_affinity(affinity: NodeAffinity<'_>, values: Values, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if let Some(required) = affinity.required_during_scheduling_ignored_during_execution() {
        errors.append(node_selector::validate(required, values, &path.child(REQUIRED)));
    }
    let path = path.child(PREFERRED);
    let preferred = affinity.preferred_during_scheduling_ignored_during_execution();
    for (at, term) in preferred.iter().enumerate() {
        errors.append(preferred_term(term, &path.index(at)));
    }
    errors
}

/// Values of preferred terms are not checked: a term that nothing matches does no harm.
fn preferred_term(term: PreferredSchedulingTerm<'_>, path: &Path<'_>) -> List {
    let mut errors = List::from_iter(weight(term.weight(), path));
    errors.append(node_selector::term(term.preference(), Values::Unchecked, &path.child("preference")));
    errors
}

fn pod_term(term: PodAffinityTerm<'_>, values: Values, path: &Path<'_>) -> List {
    let mut errors = selectors(term, values, path);
    for name in term.namespaces().iter() {
        errors.append(invalid(&path.child("namespace"), name, name_is_dns_label(name, Mode::Name)));
    }
    errors.append(label_keys(term, path));
    let key = path.child("topologyKey");
    if term.topology_key().is_empty() {
        errors.push(Error::required(&key, "can not be empty"));
    }
    errors.append(invalid(&key, term.topology_key(), label_key(term.topology_key())));
    errors
}

fn selectors(term: PodAffinityTerm<'_>, values: Values, path: &Path<'_>) -> List {
    let mut errors = List::new();
    for (name, selector) in
        [("labelSelector", term.label_selector()), ("namespaceSelector", term.namespace_selector())]
    {
        if let Some(selector) = selector {
            errors.append(label_selector::validate(selector, values, &path.child(name)));
        }
    }
    errors
}

/// Whether a selector of pod affinity is not valid.
pub(in crate::core) fn has_invalid_selectors(affinity: Affinity<'_>) -> bool {
    let mut terms = pod_terms(affinity).flat_map(|terms| {
        terms.required.iter().chain(terms.preferred.iter().map(|weighted| weighted.pod_affinity_term()))
    });
    terms.any(|term| !selectors(term, Values::Checked, &Path::UNSET).is_empty())
}

fn label_keys(term: PodAffinityTerm<'_>, path: &Path<'_>) -> List {
    let (matched, mismatched) = (term.match_label_keys(), term.mismatch_label_keys());
    let mut errors = List::new();
    let match_path = path.child("matchLabelKeys");
    for (keys, path) in [(matched, &match_path), (mismatched, &path.child("mismatchLabelKeys"))] {
        if !keys.is_empty() && term.label_selector().is_none() {
            errors.push(Error::forbidden(path, "must not be specified when labelSelector is not set"));
            continue;
        }
        for (at, key) in keys.iter().enumerate() {
            errors.append(invalid(&path.index(at), key, label_key(key)));
        }
    }
    if let Some(selector) = term.label_selector() {
        errors.append(selected_twice(selector, matched, path));
    }
    let mismatched: HashSet<_> = mismatched.iter().collect();
    for (at, key) in matched.iter().enumerate() {
        if mismatched.contains(key) {
            let why = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.push(Error::invalid(&match_path.index(at), key, why));
        }
    }
    errors
}

/// The keys of `matchLabelKeys` that the selector had before they were added to it as expressions.
fn selected_twice(selector: LabelSelector<'_>, keys: Items<'_, &str>, path: &Path<'_>) -> List {
    let places: HashMap<_, _> = keys.iter().enumerate().map(|(at, key)| (key, at)).collect();
    if places.is_empty() {
        return List::new();
    }
    let mut errors = List::new();
    let mut seen: HashSet<_> = selector.match_labels().iter().map(|(key, _)| key).collect();
    for expression in selector.match_expressions().iter() {
        if !seen.insert(expression.key())
            && let Some(at) = places.get(expression.key())
        {
            let why = "exists in both matchLabelKeys and labelSelector";
            errors.push(Error::invalid(&path.index(*at), expression.key(), why));
        }
    }
    errors
}

/// The warnings for the affinity of a pod at `path`: to nodes, and then to pods.
pub(in crate::core) fn node_warnings(affinity: Affinity<'_>, path: &Path<'_>) -> Vec<String> {
    let Some(nodes) = affinity.node_affinity() else { return Vec::new() };
    let mut warnings = Vec::new();
    let path = path.child("nodeAffinity");
    if let Some(required) = nodes.required_during_scheduling_ignored_during_execution() {
        let path = path.child(REQUIRED);
        let path = path.child("nodeSelectorTerms");
        for (at, term) in required.node_selector_terms().iter().enumerate() {
            warnings.extend(node_selector::term_warnings(term, Values::Unchecked, &path.index(at)));
        }
    }
    let path = path.child(PREFERRED);
    let preferred = nodes.preferred_during_scheduling_ignored_during_execution();
    for (at, term) in preferred.iter().enumerate() {
        let (term, path) = (term.preference(), path.index(at));
        warnings.extend(node_selector::term_warnings(term, Values::Checked, &path.child("preference")));
    }
    warnings
}

/// The warnings for terms of pod affinity that match no pod.
pub(in crate::core) fn pod_warnings(affinity: Affinity<'_>, path: &Path<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut check = |term: PodAffinityTerm<'_>, path: &Path<'_>| {
        if term.label_selector().is_none() {
            let path = path.child("labelSelector");
            warnings.push(format!("{path}: a null labelSelector results in matching no pod"));
        }
    };
    for PodTerms { field, required, preferred } in pod_terms(affinity) {
        let path = path.child(field);
        let required_path = path.child(REQUIRED);
        for (at, term) in required.iter().enumerate() {
            check(term, &required_path.index(at));
        }
        let preferred_path = path.child(PREFERRED);
        for (at, weighted) in preferred.iter().enumerate() {
            check(weighted.pod_affinity_term(), &preferred_path.index(at).child("podAffinityTerm"));
        }
    }
    warnings
}

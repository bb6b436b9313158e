//! The rules for scheduling gates and topology spread constraints.

use super::PodOptions;
use crate::checks;
use crate::label_selector::{self, Values};
use object::field::{Error, List, Path};
use object::name::{invalid, label_key, qualified_name};
use schema::view::Items;
use schema::views::core::v1::{PodSchedulingGate, TopologySpreadConstraint};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The field errors of scheduling gates.
pub(super) fn gates(gates: Items<'_, PodSchedulingGate<'_>>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut seen = HashSet::new();
    for (at, gate) in gates.iter().enumerate() {
        let path = path.index(at);
        errors.append(invalid(&path, gate.name(), qualified_name(gate.name())));
        if !seen.insert(gate.name()) {
            errors.push(Error::duplicate(&path, gate.name()));
        }
    }
    errors
}

/// The errors of a change that adds scheduling gates.
pub(super) fn only_deleted_gates(
    new: Items<'_, PodSchedulingGate<'_>>,
    old: Items<'_, PodSchedulingGate<'_>>,
    path: &Path<'_>,
) -> List {
    let before: HashSet<_> = old.iter().map(|gate| gate.name()).collect();
    let added = new.iter().enumerate().filter(|(_, gate)| !before.contains(gate.name()));
    let last: BTreeMap<_, _> = added.map(|(at, gate)| (gate.name(), at)).collect();
    let mut added: Vec<_> = last.into_iter().collect();
    added.sort_unstable_by_key(|(_, at)| *at);
    let errors = added.into_iter().map(|(name, at)| {
        let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
        Error::forbidden(&path.index(at).child("name"), why)
    });
    errors.collect()
}

/// The field errors of topology spread constraints.
pub(super) fn spread(
    constraints: Items<'_, TopologySpreadConstraint<'_>>,
    options: &PodOptions,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    // How often a pair of key and action comes from here on.
    let mut later: HashMap<_, usize> = HashMap::new();
    for constraint in constraints.iter() {
        *later.entry((constraint.topology_key(), constraint.when_unsatisfiable())).or_default() += 1;
    }
    for (at, constraint) in constraints.iter().enumerate() {
        let path = path.index(at);
        errors.extend(checks::positive(constraint.max_skew(), &path.child("maxSkew")));
        let (key, action) = (constraint.topology_key(), constraint.when_unsatisfiable());
        if key.is_empty() {
            errors.push(Error::required(&path.child("topologyKey"), "can not be empty"));
        }
        let actions = &["DoNotSchedule", "ScheduleAnyway"];
        errors.extend(checks::one_of(action, actions, &path.child("whenUnsatisfiable")));
        let count = later.entry((key, action)).or_default();
        *count = count.saturating_sub(1);
        if *count > 0 {
            let path = path.child("{topologyKey, whenUnsatisfiable}");
            errors.push(Error::duplicate(&path, format!("{{{key}, {action}}}")));
        }
        errors.append(constraint_details(constraint, options, &path));
    }
    errors
}

fn constraint_details(
    constraint: TopologySpreadConstraint<'_>,
    options: &PodOptions,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    if let Some(domains) = constraint.min_domains() {
        let path = path.child("minDomains");
        errors.extend(checks::positive(domains, &path));
        if constraint.when_unsatisfiable() != "DoNotSchedule" {
            let why = format!(
                "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
                constraint.when_unsatisfiable()
            );
            errors.push(Error::invalid(&path, domains, why));
        }
    }
    for (field, policy) in [
        ("nodeAffinityPolicy", constraint.node_affinity_policy()),
        ("nodeTaintsPolicy", constraint.node_taints_policy()),
    ] {
        let path = path.child(field);
        errors.extend(policy.and_then(|policy| checks::one_of(policy, &["Honor", "Ignore"], &path)));
    }
    errors.append(match_label_keys(constraint, &path.child("matchLabelKeys")));
    if !options.invalid_spread_selectors
        && let Some(selector) = constraint.label_selector()
    {
        let path = path.child("labelSelector");
        errors.append(label_selector::validate(selector, Values::Checked, &path));
    }
    errors
}

fn match_label_keys(constraint: TopologySpreadConstraint<'_>, path: &Path<'_>) -> List {
    let keys = constraint.match_label_keys();
    if keys.is_empty() {
        return List::new();
    }
    let mut errors = List::new();
    let mut selected = HashSet::new();
    match constraint.label_selector() {
        Some(selector) => {
            selected.extend(selector.match_labels().iter().map(|(key, _)| key));
            selected.extend(selector.match_expressions().iter().map(|expression| expression.key()));
        }
        None => {
            errors.push(Error::forbidden(path, "must not be specified when labelSelector is not set"));
        }
    }
    for (at, key) in keys.iter().enumerate() {
        let path = path.index(at);
        errors.append(invalid(&path, key, label_key(key)));
        if selected.contains(key) {
            let why = "exists in both matchLabelKeys and labelSelector";
            errors.push(Error::invalid(&path, key, why));
        }
    }
    errors
}

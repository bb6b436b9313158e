//! Selectors of nodes: node selector terms, topology selector terms, and labels of nodes that are deprecated.

use crate::label_selector::Values;
use object::field::{BadValue, Error, List, Path};
use object::name::{Mode, invalid, label_key, label_value, name_is_dns_subdomain};
use object::quote::{Quoted, quote_each};
use schema::view::Items;
use schema::views::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, TopologySelectorTerm,
};
use std::collections::{BTreeMap, BTreeSet};

/// The field errors of a node selector.
pub(crate) fn validate(selector: NodeSelector<'_>, values: Values, path: &Path<'_>) -> List {
    let path = path.child("nodeSelectorTerms");
    let terms = selector.node_selector_terms();
    if terms.is_empty() {
        return Error::required(&path, "must have at least one node selector term").into();
    }
    terms.iter().enumerate().map(|(at, of)| term(of, values, &path.index(at))).collect()
}

/// The field errors of a node selector term.
pub(crate) fn term(term: NodeSelectorTerm<'_>, values: Values, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let expressions = path.child("matchExpressions");
    for (at, expression) in term.match_expressions().iter().enumerate() {
        errors.append(label_requirement(expression, values, &expressions.index(at)));
    }
    let fields = path.child("matchFields");
    for (at, field) in term.match_fields().iter().enumerate() {
        errors.append(field_requirement(field, &fields.index(at)));
    }
    errors
}

fn label_requirement(requirement: NodeSelectorRequirement<'_>, values: Values, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let values_path = path.child("values");
    match (requirement.operator(), requirement.values().len()) {
        ("In" | "NotIn", 0) => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(Error::required(&values_path, why));
        }
        ("Exists" | "DoesNotExist", 1..) => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(Error::forbidden(&values_path, why));
        }
        ("Gt" | "Lt", 0 | 2..) => {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(Error::required(&values_path, why));
        }
        ("In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt", _) => {}
        (other, _) => errors.push(unknown_operator(other, path)),
    }
    errors.append(invalid(&path.child("key"), requirement.key(), label_key(requirement.key())));
    if values == Values::Checked {
        for (at, value) in requirement.values().iter().enumerate() {
            errors.append(invalid(&values_path.index(at), value, label_value(value)));
        }
    }
    errors
}

fn field_requirement(requirement: NodeSelectorRequirement<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let values_path = path.child("values");
    match requirement.operator() {
        "In" | "NotIn" if requirement.values().len() == 1 => {}
        "In" | "NotIn" => {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(Error::required(&values_path, why));
        }
        other => errors.push(unknown_operator(other, path)),
    }
    if requirement.key() != "metadata.name" {
        errors.push(Error::invalid(&path.child("key"), requirement.key(), "not a valid field selector key"));
        return errors;
    }
    for (at, value) in requirement.values().iter().enumerate() {
        errors.append(invalid(&values_path.index(at), value, name_is_dns_subdomain(value, Mode::Name)));
    }
    errors
}

fn unknown_operator(operator: &str, path: &Path<'_>) -> Error {
    Error::invalid(&path.child("operator"), operator, "not a valid selector operator")
}

/// Whether an expression of a node selector has a value that no label can have.
pub(crate) fn has_invalid_values(selector: NodeSelector<'_>) -> bool {
    let terms = selector.node_selector_terms();
    let mut values = terms
        .iter()
        .flat_map(|term| term.match_expressions().iter())
        .flat_map(|expression| expression.values().iter());
    values.any(|value| !label_value(value).is_empty())
}

/// The warnings for a node selector term. Values are looked at where validation does not.
pub(crate) fn term_warnings(term: NodeSelectorTerm<'_>, values: Values, path: &Path<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let path = path.child("matchExpressions");
    for (at, expression) in term.match_expressions().iter().enumerate() {
        let path = path.index(at);
        if let Some(why) = deprecated_label(expression.key()) {
            warnings.push(format!("{}: {} is {why}", path.child("key"), expression.key()));
        }
        if values == Values::Checked {
            let path = path.child("values");
            for (at, value) in expression.values().iter().enumerate() {
                for why in label_value(value) {
                    warnings.push(format!("{}: {value} is invalid, {why}", path.index(at)));
                }
            }
        }
    }
    warnings
}

/// What a warning says of a label of nodes that is deprecated.
pub(crate) fn deprecated_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#,
        "beta.kubernetes.io/os" => r#"deprecated since v1.14; use "kubernetes.io/os" instead"#,
        "failure-domain.beta.kubernetes.io/region" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#
        }
        "beta.kubernetes.io/instance-type" => {
            r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            "deprecated since v1.22; use Taints and Tolerations instead"
        }
        "node-role.kubernetes.io/master" => r#"use "node-role.kubernetes.io/control-plane" instead"#,
        _ => return None,
    })
}

/// What a topology selector term asks for: the values of each key.
pub(crate) type Topology<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// The field errors of a topology selector term, and what it asks for.
pub(crate) fn topology_term<'a>(term: TopologySelectorTerm<'a>, path: &Path<'_>) -> (Topology<'a>, List) {
    let mut errors = List::new();
    let mut topology = Topology::new();
    let path = path.child("matchLabelExpressions");
    for (at, requirement) in term.match_label_expressions().iter().enumerate() {
        let path = path.index(at);
        let values_path = path.child("values");
        if requirement.values().is_empty() {
            errors.push(Error::required(&values_path, ""));
        }
        let mut values = BTreeSet::new();
        for (at, value) in requirement.values().iter().enumerate() {
            if !values.insert(value) {
                errors.push(Error::duplicate(&values_path.index(at), value));
            }
        }
        let (key, key_path) = (requirement.key(), path.child("key"));
        errors.append(invalid(&key_path, key, label_key(key)));
        if topology.insert(key, values).is_some() {
            errors.push(Error::duplicate(&key_path, key));
        }
    }
    (topology, errors)
}

/// A term as an error shows it.
pub(crate) fn shown_term(term: NodeSelectorTerm<'_>) -> BadValue {
    BadValue::Raw(term_text(term))
}

/// Terms as an error shows them.
pub(crate) fn shown_terms(terms: Items<'_, NodeSelectorTerm<'_>>) -> BadValue {
    BadValue::Raw(list_text("core.NodeSelectorTerm", terms.iter().map(term_text)))
}

fn term_text(term: NodeSelectorTerm<'_>) -> String {
    let requirements = |list: Items<'_, NodeSelectorRequirement<'_>>| {
        list_text("core.NodeSelectorRequirement", list.iter().map(requirement_text))
    };
    format!(
        "core.NodeSelectorTerm{{MatchExpressions:{}, MatchFields:{}}}",
        requirements(term.match_expressions()),
        requirements(term.match_fields())
    )
}

fn requirement_text(requirement: NodeSelectorRequirement<'_>) -> String {
    let values = match requirement.values() {
        none if none.is_empty() => "[]string(nil)".to_owned(),
        some => format!("[]string{{{}}}", quote_each(some.iter())),
    };
    format!(
        "core.NodeSelectorRequirement{{Key:{}, Operator:{}, Values:{values}}}",
        Quoted(requirement.key()),
        Quoted(requirement.operator())
    )
}

fn list_text(ty: &str, items: impl ExactSizeIterator<Item = String>) -> String {
    if items.len() == 0 {
        return format!("[]{ty}(nil)");
    }
    format!("[]{ty}{{{}}}", items.collect::<Vec<_>>().join(", "))
}

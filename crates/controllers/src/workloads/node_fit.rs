//! Whether a node is one that a pod may run on, by name, labels and taints.

use crate::objects::{decode_part, mentions};
use cache::Entry;
use object::Map;
use object::label::{Operator, Requirement, Selector};
use schema::view::{Items, View as _};
use schema::views::core::v1::{Node, NodeSelectorTerm, PodSpec, Taint, Toleration};
use schema::{Builder, Part, Ref, Status, Type};
use std::sync::{Arc, LazyLock};

/// The fields of a node that are decoded.
static PART: LazyLock<Ref<Type>> =
    LazyLock::new(|| Builder::part_of(Node::schema(), &[Part("spec", &[Part("taints", &[])])]).build());

/// A node, with its taints.
pub(crate) struct NodeFacts {
    pub(crate) entry: Arc<Entry>,
    spec: Map,
}

impl NodeFacts {
    pub(crate) fn read(entry: Arc<Entry>) -> Result<Self, Status> {
        let spec = match mentions(&entry, r#""taints":["#) {
            true => decode_part(&PART, &entry)?,
            false => Map::new(),
        };
        Ok(Self { entry, spec })
    }

    pub(crate) fn name(&self) -> &str {
        self.entry.name()
    }

    fn taints(&self) -> Items<'_, Taint<'_>> {
        Node::of(&self.spec).spec().taints()
    }

    /// Whether a change of the node can matter to [`matches_affinity`] and [`Self::is_tolerated`].
    pub(crate) fn fits_like(&self, other: &Self) -> bool {
        self.entry.labels().eq(other.entry.labels()) && self.spec == other.spec
    }

    /// Whether tolerations tolerate all taints with one of the effects.
    pub(crate) fn is_tolerated(&self, tolerations: &[Toleration<'_>], effects: &[&str]) -> bool {
        let mut taints = self.taints().iter().filter(|taint| effects.contains(&taint.effect()));
        taints.all(|taint| tolerations.iter().any(|toleration| tolerates(*toleration, taint)))
    }
}

/// Whether a node has the labels that a pod demands by its node selector and its node affinity.
pub(crate) fn matches_affinity(spec: PodSpec<'_>, node: &Entry) -> bool {
    let selector = spec.node_selector();
    if !selector.is_empty() && !Selector::from_labels(selector.iter()).matches(node) {
        return false;
    }
    let required = spec
        .affinity()
        .and_then(|affinity| affinity.node_affinity())
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution());
    required.is_none_or(|required| required.node_selector_terms().iter().any(|term| term_matches(term, node)))
}

/// Whether a node has what a term demands. A term that is empty, or not valid, matches no node.
fn term_matches(term: NodeSelectorTerm<'_>, node: &Entry) -> bool {
    let (labels, fields) = (term.match_expressions(), term.match_fields());
    if labels.is_empty() && fields.is_empty() {
        return false;
    }
    let has_labels = labels.iter().all(|wanted| {
        let operator = match wanted.operator() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => Operator::GreaterThan,
            "Lt" => Operator::LessThan,
            _ => return false,
        };
        let values: Vec<_> = wanted.values().iter().collect();
        let Ok(requirement) = Requirement::new(wanted.key(), operator, &values) else { return false };
        let mut selector = Selector::everything();
        selector.add(requirement);
        selector.matches(node)
    });
    has_labels
        && fields.iter().all(|wanted| {
            let value = if wanted.key() == "metadata.name" { node.name() } else { "" };
            match (wanted.operator(), wanted.values().len(), wanted.values().get(0)) {
                ("In", 1, Some(only)) => value == only,
                ("NotIn", 1, Some(only)) => value != only,
                _ => false,
            }
        })
}

/// The effect that pods without a toleration leave the node.
pub(crate) const NO_EXECUTE: &str = "NoExecute";

/// Whether a toleration is one for a taint.
pub(crate) fn tolerates(toleration: Toleration<'_>, taint: Taint<'_>) -> bool {
    let fits = |own: &str, wanted: &str| own.is_empty() || own == wanted;
    fits(toleration.effect(), taint.effect())
        && fits(toleration.key(), taint.key())
        && match toleration.operator() {
            "Exists" => true,
            "" | "Equal" => toleration.value() == taint.value(),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::Map;
    use schema::view::View as _;

    #[test]
    fn tolerations_fit_by_key_value_and_effect() {
        let map = |fields: &[(&'static str, &str)]| fields.iter().copied().collect::<Map>();
        let taint = map(&[("key", "k"), ("value", "v"), ("effect", "NoExecute")]);
        let fits =
            |fields: &[(&'static str, &str)]| tolerates(Toleration::of(&map(fields)), Taint::of(&taint));
        assert!(fits(&[("operator", "Exists")]));
        assert!(fits(&[("key", "k"), ("operator", "Exists"), ("effect", "NoExecute")]));
        assert!(fits(&[("key", "k"), ("value", "v")]));
        assert!(!fits(&[("key", "k"), ("operator", "Exists"), ("effect", "NoSchedule")]));
        assert!(!fits(&[("key", "k"), ("operator", "Equal"), ("value", "w")]));
        assert!(!fits(&[("key", "other"), ("operator", "Exists")]));
    }
}

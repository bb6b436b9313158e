//! What nodes a pod or a volume may be on, by labels and names of nodes.

use crate::node::Facts;
use object::Text;
use object::label::{Operator, Requirement, Selector};
use schema::view::Items;
use schema::views::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec};
use std::collections::HashSet;

/// One term of a node selector: labels and names.
#[derive(Clone, Debug)]
struct Term {
    /// None if an expression is malformed: the term matches nothing then.
    parsed: Option<Parsed>,
}

#[derive(Clone, Debug)]
struct Parsed {
    labels: Option<Selector>,
    /// Conditions on the name: its value, and whether it has to be that or must not.
    names: Vec<(Text, bool)>,
}

/// The terms of a node selector, of which one has to match.
#[derive(Clone, Debug)]
pub(crate) struct Terms(Vec<Term>);

/// What a pod requires of its node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Required {
    labels: Option<Selector>,
    terms: Option<Terms>,
}

/// What a pod prefers of its node.
#[derive(Clone, Debug)]
pub(crate) struct Preferred {
    weight: i64,
    term: Term,
}

/// The nodes that a pod names in all terms of its affinity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// A term names no node.
    Any,
    /// The terms name these.
    Only(HashSet<Text>),
    /// Each term contradicts itself.
    None,
}

impl Terms {
    /// The terms of a selector; empty ones match nothing.
    pub(crate) fn new(selector: NodeSelector<'_>) -> Self {
        let terms = selector.node_selector_terms().iter();
        Self(terms.filter(|term| !is_empty(*term)).map(Term::new).collect())
    }

    /// Whether a node matches one of the terms.
    pub(crate) fn matches(&self, node: &Facts) -> bool {
        self.0.iter().any(|term| term.matches(node))
    }
}

impl Required {
    /// What the specification of a pod requires.
    pub(crate) fn new(spec: PodSpec<'_>) -> Self {
        let labels = spec.node_selector();
        let affinity = spec.affinity().and_then(|affinity| affinity.node_affinity());
        let terms = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution());
        Self {
            labels: (!labels.is_empty()).then(|| Selector::from_labels(labels.iter())),
            terms: terms.map(Terms::new),
        }
    }

    /// Whether a node has what is required.
    pub(crate) fn matches(&self, node: &Facts) -> bool {
        self.labels.as_ref().is_none_or(|labels| labels.matches(&node.labels))
            && self.terms.as_ref().is_none_or(|terms| terms.matches(node))
    }
}

impl Preferred {
    /// What the specification of a pod prefers.
    pub(crate) fn all(spec: PodSpec<'_>) -> Vec<Self> {
        let affinity = spec.affinity().and_then(|affinity| affinity.node_affinity());
        let terms = affinity
            .into_iter()
            .flat_map(|affinity| affinity.preferred_during_scheduling_ignored_during_execution().iter());
        let preferred = |term: schema::views::core::v1::PreferredSchedulingTerm<'_>| Self {
            weight: term.weight(),
            term: Term::new(term.preference()),
        };
        terms.filter(|term| term.weight() != 0 && !is_empty(term.preference())).map(preferred).collect()
    }

    /// The weight that a node gets.
    pub(crate) fn score(&self, node: &Facts) -> i64 {
        if self.term.matches(node) { self.weight } else { 0 }
    }
}

impl Named {
    /// The nodes that the affinity of a pod names.
    pub(crate) fn of(spec: PodSpec<'_>) -> Self {
        let affinity = spec.affinity().and_then(|affinity| affinity.node_affinity());
        let Some(selector) = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution())
        else {
            return Self::Any;
        };
        if selector.node_selector_terms().is_empty() {
            return Self::Any;
        }
        let mut all = HashSet::new();
        for term in selector.node_selector_terms().iter() {
            let mut own: Option<HashSet<Text>> = None;
            let is_name = |it: &NodeSelectorRequirement<'_>| it.key() == NAME && it.operator() == "In";
            for requirement in term.match_fields().iter().filter(is_name) {
                let names: HashSet<Text> = requirement.values().iter().map(Text::from).collect();
                own = Some(match own {
                    Some(own) => own.intersection(&names).cloned().collect(),
                    None => names,
                });
            }
            match own {
                Some(own) => all.extend(own),
                None => return Self::Any,
            }
        }
        if all.is_empty() { Self::None } else { Self::Only(all) }
    }
}

const NAME: &str = "metadata.name";

fn is_empty(term: NodeSelectorTerm<'_>) -> bool {
    term.match_expressions().is_empty() && term.match_fields().is_empty()
}

impl Term {
    fn new(term: NodeSelectorTerm<'_>) -> Self {
        Self { parsed: parse(term) }
    }

    fn matches(&self, node: &Facts) -> bool {
        self.parsed.as_ref().is_some_and(|term| {
            term.labels.as_ref().is_none_or(|labels| labels.matches(&node.labels))
                && term.names.iter().all(|(name, is)| (name.as_str() == &*node.name) == *is)
        })
    }
}

fn parse(term: NodeSelectorTerm<'_>) -> Option<Parsed> {
    let labels = match term.match_expressions() {
        expressions if expressions.is_empty() => None,
        expressions => Some(label_selector(expressions)?),
    };
    let mut names = Vec::new();
    for requirement in term.match_fields().iter() {
        let is = match requirement.operator() {
            "In" => true,
            "NotIn" => false,
            _ => return None,
        };
        // Another field reads as empty.
        let value = requirement.values().get(0).filter(|_| requirement.values().len() == 1)?;
        match requirement.key() == NAME {
            true => names.push((value.into(), is)),
            false if value.is_empty() == is => {}
            false => names.push((Text::default(), true)),
        }
    }
    Some(Parsed { labels, names })
}

fn label_selector(expressions: Items<'_, NodeSelectorRequirement<'_>>) -> Option<Selector> {
    let mut selector = Selector::everything();
    for expression in expressions.iter() {
        let operator = match expression.operator() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => Operator::GreaterThan,
            "Lt" => Operator::LessThan,
            _ => return None,
        };
        let values: Vec<&str> = expression.values().iter().collect();
        selector.add(Requirement::new(expression.key(), operator, &values).ok()?);
    }
    Some(selector)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{facts, map, pod};
    use schema::view::View as _;
    use schema::views::core::v1::Pod;

    fn required(spec: &str, labels: &str) -> bool {
        let object = map(&pod("p", &format!(r#""containers":[],{spec}"#)));
        Required::new(Pod::of(&object).spec()).matches(&facts("n1", labels, ""))
    }

    fn terms(terms: &str) -> String {
        format!(
            r#""affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[{terms}]}}}}}}"#
        )
    }

    fn expression(key: &str, operator: &str, values: &str) -> String {
        format!(r#"{{"matchExpressions":[{{"key":"{key}","operator":"{operator}","values":[{values}]}}]}}"#)
    }

    fn field(operator: &str, values: &str) -> String {
        format!(
            r#"{{"matchFields":[{{"key":"metadata.name","operator":"{operator}","values":[{values}]}}]}}"#
        )
    }

    #[test]
    fn nodes_have_to_match_the_selector_and_one_term() {
        let cases = [
            (r#""nodeSelector":{"foo":"bar"}"#.to_owned(), r#""foo":"bar","x":"y""#, true),
            (r#""nodeSelector":{"foo":"bar","baz":"blah"}"#.to_owned(), r#""foo":"bar""#, false),
            (terms(&expression("foo", "In", r#""bar","value2""#)), r#""foo":"bar""#, true),
            (terms(&expression("kernel-version", "Gt", r#""0204""#)), r#""kernel-version":"0206""#, true),
            (terms(&expression("kernel-version", "Lt", r#""0204""#)), r#""kernel-version":"0206""#, false),
            (terms(&expression("mem-type", "NotIn", r#""DDR","DDR2""#)), r#""mem-type":"DDR3""#, true),
            (terms(&expression("gpu", "Exists", "")), r#""gpu":"nvidia""#, true),
            (terms(&expression("gpu", "DoesNotExist", "")), r#""gpu":"nvidia""#, false),
            (terms(&expression("foo", "In", r#""value1""#)), r#""foo":"bar""#, false),
            (terms(""), r#""foo":"bar""#, false),
            (terms("{}"), r#""foo":"bar""#, false),
            (
                terms(&format!(
                    "{},{}",
                    expression("foo", "In", r#""x""#),
                    expression("foo", "In", r#""bar""#)
                )),
                r#""foo":"bar""#,
                true,
            ),
            (terms(&expression("foo", "Gt", r#""word""#)), r#""foo":"5""#, false),
            (terms(&expression("foo", "In", r#"":invalid:""#)), r#""foo":"bar""#, false),
            (terms(&field("In", r#""n1""#)), "", true),
            (terms(&field("In", r#""n2""#)), "", false),
            (terms(&field("NotIn", r#""n1""#)), "", false),
            (terms(&field("In", r#""n1","n2""#)), "", false),
            (
                format!("{},{}", r#""nodeSelector":{"a":"b"}"#, terms(&field("In", r#""n1""#))),
                r#""a":"c""#,
                false,
            ),
        ];
        for (spec, labels, expected) in cases {
            assert_eq!(required(&spec, labels), expected, "{spec} {labels}");
        }
    }

    #[test]
    fn names_in_all_terms_limit_the_nodes_that_are_looked_at() {
        let named = |spec: &str| {
            let object = map(&pod("p", &format!(r#""containers":[],{spec}"#)));
            Named::of(Pod::of(&object).spec())
        };
        let only = |names: &[&str]| Named::Only(names.iter().map(|name| Text::from(*name)).collect());
        assert_eq!(named(&terms(&field("In", r#""a""#))), only(&["a"]));
        let either = format!("{},{}", field("In", r#""a""#), field("In", r#""b""#));
        assert_eq!(named(&terms(&either)), only(&["a", "b"]));
        let open = format!("{},{}", field("In", r#""a""#), expression("x", "Exists", ""));
        assert_eq!(named(&terms(&open)), Named::Any);
        let contradiction = r#"{"matchFields":[{"key":"metadata.name","operator":"In","values":["a"]},{"key":"metadata.name","operator":"In","values":["b"]}]}"#;
        assert_eq!(named(&terms(contradiction)), Named::None);
        assert_eq!(named(r#""nodeSelector":{"a":"b"}"#), Named::Any);
    }

    #[test]
    fn preferences_give_their_weights() {
        let spec = r#""containers":[],"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[
            {"weight":4,"preference":{"matchExpressions":[{"key":"zone","operator":"In","values":["z1"]}]}},
            {"weight":2,"preference":{"matchExpressions":[{"key":"foo","operator":"Exists"}]}},
            {"weight":9,"preference":{}}]}}"#;
        let object = map(&pod("p", spec));
        let preferred = Preferred::all(Pod::of(&object).spec());
        let score = |labels: &str| {
            let node = facts("n", labels, "");
            preferred.iter().map(|term| term.score(&node)).sum::<i64>()
        };
        assert_eq!((score(r#""zone":"z1""#), score(r#""zone":"z1","foo":"x""#), score("")), (4, 6, 0));
    }
}

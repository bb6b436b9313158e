//! The requirements of a long selector, put together by key.
//!
//! Matching goes through the labels of an object once and looks each of them up, so that it costs about the
//! same however long the selector is.

use super::{Labels, Operator, Requirement};
use crate::Text;
use crate::quote::parse_i64;

/// The conditions of a selector, sorted by key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Compiled {
    rules: Vec<Rule>,
    /// How many of the rules require their label to exist.
    required: usize,
}

/// The condition of a selector on one label.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rule {
    key: Text,
    is_required: bool,
    is_forbidden: bool,
    /// The label has one of these values, sorted.
    allowed: Option<Vec<Text>>,
    /// The label has none of these values, sorted.
    denied: Vec<Text>,
    /// The label is an integer above and below these.
    above: Option<i64>,
    below: Option<i64>,
}

impl Compiled {
    /// Of requirements that are sorted by key.
    pub(super) fn of(requirements: &[Requirement]) -> Self {
        let same_key = requirements.chunk_by(|a, b| a.key() == b.key());
        let rules: Vec<Rule> = same_key.map(Rule::of).collect();
        let required = rules.iter().filter(|rule| rule.is_required).count();
        Self { rules, required }
    }

    pub(super) fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        let mut found = 0;
        let all = labels.all_labels(&mut |key, value| match self.rule(key) {
            Some(rule) => {
                found += usize::from(rule.is_required);
                rule.allows(value)
            }
            None => true,
        });
        all && found == self.required
    }

    pub(super) fn matches_with<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.rules.iter().all(|rule| match lookup(&rule.key) {
            Some(value) => rule.allows(value),
            None => !rule.is_required,
        })
    }

    fn rule(&self, key: &str) -> Option<&Rule> {
        let at = self.rules.binary_search_by(|rule| rule.key.as_str().cmp(key)).ok()?;
        self.rules.get(at)
    }
}

impl Rule {
    /// Of all requirements of one key.
    fn of(requirements: &[Requirement]) -> Self {
        let mut rule = Rule::default();
        for requirement in requirements {
            rule.key = requirement.key.clone();
            rule.is_required |= !matches!(
                requirement.operator,
                Operator::NotIn | Operator::NotEquals | Operator::DoesNotExist
            );
            match requirement.operator {
                Operator::Exists => {}
                Operator::DoesNotExist => rule.is_forbidden = true,
                Operator::In | Operator::Equals | Operator::DoubleEquals => {
                    let values = &requirement.values;
                    match &mut rule.allowed {
                        Some(allowed) => allowed.retain(|value| values.binary_search(value).is_ok()),
                        None => rule.allowed = Some(values.clone()),
                    }
                }
                Operator::NotIn | Operator::NotEquals => {
                    rule.denied.extend(requirement.values.iter().cloned())
                }
                Operator::GreaterThan => rule.above = rule.above.max(Some(requirement.bound)),
                Operator::LessThan => {
                    rule.below = Some(rule.below.map_or(requirement.bound, |at| at.min(requirement.bound)));
                }
            }
        }
        rule.denied.sort();
        rule.denied.dedup();
        rule
    }

    fn allows(&self, value: &str) -> bool {
        let has = |values: &[Text]| values.binary_search_by(|own| own.as_str().cmp(value)).is_ok();
        if self.is_forbidden
            || self.allowed.as_deref().is_some_and(|allowed| !has(allowed))
            || has(&self.denied)
        {
            return false;
        }
        if self.above.is_none() && self.below.is_none() {
            return true;
        }
        parse_i64(value).is_ok_and(|number| {
            self.above.is_none_or(|bound| number > bound) && self.below.is_none_or(|bound| number < bound)
        })
    }
}

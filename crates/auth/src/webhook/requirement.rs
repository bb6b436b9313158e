//! The requirements of selectors as the API has them.

use crate::Selectors;
use object::{field_selector, label};

/// A requirement of a selector.
pub(super) struct Requirement<'s> {
    /// The label or field.
    pub(super) key: &'s str,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub(super) operator: &'static str,
    /// The values, if the operator has some.
    pub(super) values: Vec<&'s str>,
}

/// The requirements of the field selector. A selector that could not be parsed has none: selectors only
/// narrow the request.
pub(super) fn of_fields(selectors: &Selectors) -> impl Iterator<Item = Requirement<'_>> {
    selectors.fields.iter().map(|requirement| Requirement {
        key: requirement.field.as_str(),
        operator: match requirement.operator {
            field_selector::Operator::Equals => "In",
            field_selector::Operator::NotEquals => "NotIn",
        },
        values: vec![requirement.value.as_str()],
    })
}

/// The requirements of the label selector. Those with operators that the API does not have are left out.
pub(super) fn of_labels(selectors: &Selectors) -> impl Iterator<Item = Requirement<'_>> {
    selectors.labels.iter().filter_map(|requirement| {
        let operator = match requirement.operator() {
            label::Operator::Equals | label::Operator::DoubleEquals | label::Operator::In => "In",
            label::Operator::NotEquals | label::Operator::NotIn => "NotIn",
            label::Operator::Exists => "Exists",
            label::Operator::DoesNotExist => "DoesNotExist",
            _ => return None,
        };
        let values = requirement.values().iter().map(|value| value.as_str()).collect();
        Some(Requirement { key: requirement.key(), operator, values })
    })
}

//! Label selectors that objects have as fields.

use crate::object_meta;
use object::field::{Error, List, Path};
use object::label::{self, Expression, Selector};
use object::name::{invalid, label_key, label_value};
use schema::views::meta::v1::LabelSelector;

/// Whether values of expressions have to be valid label values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// They have to be.
    Checked,
    /// An object that has an invalid value already may keep it.
    Unchecked,
}

/// The field errors of a selector.
pub fn validate(selector: LabelSelector<'_>, values: Values, path: &Path<'_>) -> List {
    let labels = selector.match_labels();
    let mut errors = object_meta::label_entries(labels.iter(), &path.child("matchLabels"));
    let expressions = path.child("matchExpressions");
    for (at, expression) in selector.match_expressions().iter().enumerate() {
        let path = expressions.index(at);
        let values_path = path.child("values");
        match (expression.operator(), expression.values().is_empty()) {
            ("In" | "NotIn", true) => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(Error::required(&values_path, why));
            }
            ("Exists" | "DoesNotExist", false) => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(Error::forbidden(&values_path, why));
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
            (other, _) => {
                errors.push(Error::invalid(&path.child("operator"), other, "not a valid selector operator"));
            }
        }
        errors.append(invalid(&path.child("key"), expression.key(), label_key(expression.key())));
        if values == Values::Checked {
            for (at, value) in expression.values().iter().enumerate() {
                errors.append(invalid(&values_path.index(at), value, label_value(value)));
            }
        }
    }
    errors
}

/// What a selector picks.
pub fn compile(selector: LabelSelector<'_>) -> Result<Selector, label::Error> {
    let expressions = selector.match_expressions().iter().map(|expression| Expression {
        key: expression.key(),
        operator: expression.operator(),
        values: expression.values().iter().collect(),
    });
    Selector::from_structured(selector.match_labels().iter(), expressions)
}

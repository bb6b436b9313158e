//! Label selectors that objects have as fields.

use crate::object_meta;
use object::field::{BadValue, Error, List, Path};
use object::label::{self, Expression, Labels, Selector};
use object::name::{invalid, label_key, label_value};
use object::quote::{Quoted, quote_each};
use schema::view::{Entries, View};
use schema::views::meta::v1::LabelSelector;

/// Whether values of expressions have to be valid label values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// They have to be.
    #[default]
    Checked,
    /// An object that has an invalid value already may keep it.
    Unchecked,
}

/// The field errors of a selector.
pub fn validate(selector: LabelSelector<'_>, values: Values, path: &Path<'_>) -> List {
    let mut errors = labels(selector.match_labels(), &path.child("matchLabels"));
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

/// The field errors of labels that something has to have.
pub(crate) fn labels(labels: Entries<'_, &str>, path: &Path<'_>) -> List {
    object_meta::label_entries(labels.iter(), path)
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

/// How the values of a changed selector are checked: one that has an invalid value may keep it.
pub fn values_after(old: Option<LabelSelector<'_>>) -> Values {
    let expressions = old.into_iter().flat_map(|old| old.match_expressions().iter());
    let mut values = expressions.flat_map(|expression| expression.values().iter());
    match values.any(|value| !label_value(value).is_empty()) {
        true => Values::Unchecked,
        false => Values::Checked,
    }
}

/// Whether a selector picks what has these labels. No selector picks nothing.
pub fn matches(selector: Option<LabelSelector<'_>>, labels: Entries<'_, &str>) -> Result<bool, label::Error> {
    struct Shown<'a>(Entries<'a, &'a str>);
    impl Labels for Shown<'_> {
        fn label(&self, key: &str) -> Option<&str> {
            self.0.get(key)
        }

        fn all_labels(&self, each: &mut dyn FnMut(&str, &str) -> bool) -> bool {
            self.0.iter().all(|(key, value)| each(key, value))
        }
    }
    let Some(selector) = selector else { return Ok(false) };
    Ok(compile(selector)?.matches(&Shown(labels)))
}

/// The error of a selector that has changed.
pub fn immutable(
    new: Option<LabelSelector<'_>>,
    old: Option<LabelSelector<'_>>,
    path: &Path<'_>,
) -> Option<Error> {
    let changed = new.map(View::map) != old.map(View::map);
    changed.then(|| Error::invalid(path, shown(new), "field is immutable"))
}

/// A selector as an error shows it: `v1.LabelSelector{MatchLabels:..., MatchExpressions:...}`.
pub fn shown(selector: Option<LabelSelector<'_>>) -> BadValue {
    let Some(selector) = selector else { return BadValue::Null };
    let expressions = selector.match_expressions();
    let all: Vec<_> = expressions
        .iter()
        .map(|expression| {
            let values = match expression.values() {
                values if values.is_empty() => "[]string(nil)".to_owned(),
                values => format!("[]string{{{}}}", quote_each(values.iter())),
            };
            format!(
                "v1.LabelSelectorRequirement{{Key:{}, Operator:{}, Values:{values}}}",
                Quoted(expression.key()),
                Quoted(expression.operator())
            )
        })
        .collect();
    let expressions = match all.is_empty() {
        true => "[]v1.LabelSelectorRequirement(nil)".to_owned(),
        false => format!("[]v1.LabelSelectorRequirement{{{}}}", all.join(", ")),
    };
    BadValue::Raw(format!(
        "v1.LabelSelector{{MatchLabels:{}, MatchExpressions:{expressions}}}",
        shown_labels(selector.match_labels())
    ))
}

/// Labels as an error shows them: `map[string]string{"a":"b"}`.
pub fn shown_labels(labels: Entries<'_, &str>) -> BadValue {
    if labels.is_empty() {
        return BadValue::Raw("map[string]string(nil)".to_owned());
    }
    let mut all: Vec<_> = labels.iter().collect();
    all.sort_unstable();
    let all: Vec<_> =
        all.into_iter().map(|(key, value)| format!("{}:{}", Quoted(key), Quoted(value))).collect();
    BadValue::Raw(format!("map[string]string{{{}}}", all.join(", ")))
}

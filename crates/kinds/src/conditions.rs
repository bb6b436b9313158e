//! The rules for lists of `meta.v1.Condition`.

use crate::checks;
use object::field::{Error, List, Path};
use object::name::{invalid, label_key, pattern_message};
use schema::view::Items;
use schema::views::meta::v1::Condition;
use std::collections::HashSet;

/// The field errors of the conditions at `path`.
pub(crate) fn validate(conditions: Items<'_, Condition<'_>>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut seen = HashSet::new();
    for (at, condition) in conditions.iter().enumerate() {
        let path = path.index(at);
        let ty = condition.r#type();
        errors.extend((!seen.insert(ty)).then(|| Error::duplicate(&path.child("type"), ty)));
        errors.append(validate_one(condition, &path));
    }
    errors
}

const LONGEST_REASON: usize = 1 << 10;
const LONGEST_MESSAGE: usize = 32 << 10;

fn validate_one(condition: Condition<'_>, path: &Path<'_>) -> List {
    let mut errors = invalid(&path.child("type"), condition.r#type(), label_key(condition.r#type()));
    let statuses = ["False", "True", "Unknown"];
    errors.extend(checks::one_of(condition.status(), &statuses, &path.child("status")));
    if condition.observed_generation() < 0 {
        let why = "must be greater than or equal to zero";
        errors.push(Error::invalid(&path.child("observedGeneration"), condition.observed_generation(), why));
    }
    if condition.last_transition_time().is_none() {
        errors.push(Error::required(&path.child("lastTransitionTime"), "must be set"));
    }
    let (reason, at) = (condition.reason(), path.child("reason"));
    if reason.is_empty() {
        errors.push(Error::required(&at, "must be set"));
    } else {
        if !is_reason(reason) {
            let why = pattern_message(
                "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'",
                "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
                &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"],
            );
            errors.push(Error::invalid(&at, reason, why));
        }
        errors.extend((reason.len() > LONGEST_REASON).then(|| Error::too_long(&at, Some(LONGEST_REASON))));
    }
    if condition.message().len() > LONGEST_MESSAGE {
        errors.push(Error::too_long(&path.child("message"), Some(LONGEST_MESSAGE)));
    }
    errors
}

fn is_reason(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.ends_with(|last: char| last.is_ascii_alphanumeric() || last == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b',' | b':'))
}

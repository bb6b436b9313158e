//! Which of several stages is next for an object.

use crate::Stage;
use object::Value;

/// The next stage of an object: one of those that select it, at random by their weights. If all weights are
/// zero, each is as likely as the others; otherwise those with zero are left out.
pub fn choose<'s>(stages: impl IntoIterator<Item = &'s Stage>, object: &Value) -> Option<&'s Stage> {
    let matching = stages.into_iter().filter(|stage| stage.matches(object));
    let weighed: Vec<(&Stage, u64)> = matching.map(|stage| (stage, stage.weight(object))).collect();
    let total = weighed.iter().fold(0_u64, |sum, (_, weight)| sum.saturating_add(*weight));
    if total == 0 {
        let at = if weighed.is_empty() { 0 } else { fastrand::usize(..weighed.len()) };
        return weighed.get(at).map(|(stage, _)| *stage);
    }
    let mut left = fastrand::u64(..total);
    let found = weighed.iter().find(|(_, weight)| match left.checked_sub(*weight) {
        Some(rest) => {
            left = rest;
            false
        }
        None => true,
    });
    found.or(weighed.last()).map(|(stage, _)| *stage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::testing::{stage, value};

    #[test]
    fn weights_decide_among_the_stages_that_select_an_object() {
        let of = |name: &str, weight: u64, phase: &str| {
            stage(&format!(
                r#"{{"metadata":{{"name":"{name}"}},"spec":{{"resourceRef":{{"kind":"Pod"}},"weight":{weight},
                "weightFrom":{{"expressionFrom":".metadata.annotations.weight"}},
                "selector":{{"matchExpressions":[{{"key":".phase","operator":"In","values":["{phase}"]}}]}},"next":{{}}}}}}"#
            ))
            .unwrap()
        };
        let stages = [of("a", 0, "x"), of("b", 5, "x"), of("c", 0, "x"), of("d", 0, "y"), of("e", 9, "z")];
        let names = |object: &str| {
            let object = value(object);
            let mut names: Vec<String> = (0..200)
                .filter_map(|_| choose(&stages, &object))
                .map(|stage| stage.name().to_owned())
                .collect();
            names.sort();
            names.dedup();
            names
        };
        assert_eq!(names(r#"{"phase":"x"}"#), ["b"]);
        assert_eq!(names(r#"{"phase":"y"}"#), ["d"]);
        assert_eq!(names(r#"{"phase":"none"}"#), [""; 0]);
        // An object can say another weight.
        assert_eq!(names(r#"{"phase":"x","metadata":{"annotations":{"weight":"0"}}}"#), ["a", "b", "c"]);
    }
}

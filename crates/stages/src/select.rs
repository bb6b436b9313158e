//! The selector of a stage: labels, annotations and expressions, all of which have to hold.

use crate::expression::Expression;
use crate::query::Query;
use object::{Map, Value};

/// The selector of a stage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Selector {
    labels: Vec<(String, String)>,
    annotations: Vec<(String, String)>,
    requirements: Vec<Requirement>,
}

/// What has to hold of an object.
#[derive(Clone, Debug, PartialEq)]
enum Requirement {
    /// What a query has to give.
    Query { query: Query, operator: Operator, values: Vec<String> },
    /// A condition in CEL.
    Cel(Expression),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Reads `spec.selector`.
    pub(crate) fn parse(selector: &Map) -> Result<Self, String> {
        let pairs = |key: &str| -> Vec<(String, String)> {
            let map = selector.get(key).and_then(Value::as_map);
            let pairs = map.into_iter().flat_map(Map::iter);
            pairs
                .map(|(key, value)| (key.as_str().to_owned(), value.as_str().unwrap_or_default().to_owned()))
                .collect()
        };
        let expressions = selector.get("matchExpressions").and_then(Value::as_list).unwrap_or_default();
        let requirements = expressions.iter().enumerate().map(|(at, expression)| {
            Requirement::parse(expression)
                .map_err(|why| format!("spec.selector.matchExpressions[{at}]: {why}"))
        });
        Ok(Self {
            labels: pairs("matchLabels"),
            annotations: pairs("matchAnnotations"),
            requirements: requirements.collect::<Result<_, _>>()?,
        })
    }

    /// Whether an object is selected.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let has = |key: &str, pairs: &[(String, String)]| {
            let own = object.get("metadata").and_then(|metadata| metadata.get(key));
            pairs.iter().all(|(key, value)| {
                own.and_then(|own| own.get(key)).and_then(Value::as_str) == Some(value.as_str())
            })
        };
        has("labels", &self.labels)
            && has("annotations", &self.annotations)
            && self.requirements.iter().all(|requirement| requirement.holds(object))
    }
}

impl Requirement {
    /// The query is in `jq`, or, in the older form, beside the operator.
    fn parse(expression: &Value) -> Result<Self, String> {
        if let Some(cel) = expression.get("cel").filter(|cel| !cel.is_null()) {
            let text = cel.get("expression").and_then(Value::as_str).unwrap_or_default();
            return Expression::parse(text).map(Self::Cel);
        }
        let jq = expression.get("jq").filter(|jq| !jq.is_null()).unwrap_or(expression);
        let text = |key: &str| jq.get(key).and_then(Value::as_str).unwrap_or_default();
        let values = jq.get("values").and_then(Value::as_list).unwrap_or_default();
        let operator = match text("operator") {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => return Err(format!("operator {other:?} is not supported")),
        };
        match (operator, values.is_empty()) {
            (Operator::In | Operator::NotIn, true) => {
                return Err("for 'in', 'notin' operators, values set can't be empty".to_owned());
            }
            (Operator::Exists | Operator::DoesNotExist, false) => {
                return Err("values set must be empty for exists and does not exist".to_owned());
            }
            _ => {}
        }
        let values = values.iter().map(|value| value.as_str().unwrap_or_default().to_owned());
        Ok(Self::Query { query: Query::parse(text("key"))?, operator, values: values.collect() })
    }

    fn holds(&self, object: &Value) -> bool {
        let (query, operator, values) = match self {
            Self::Cel(expression) => return expression.holds(object),
            Self::Query { query, operator, values } => (query, operator, values),
        };
        let found = query.run(object);
        let is_one = || found.iter().any(|value| values.iter().any(|wanted| is_called(value, wanted)));
        match operator {
            Operator::In => is_one(),
            Operator::NotIn => !is_one(),
            Operator::Exists => !found.is_empty(),
            Operator::DoesNotExist => found.is_empty(),
        }
    }
}

/// Whether the text of a value is this one; lists and maps have none.
fn is_called(value: &Value, text: &str) -> bool {
    match value {
        Value::Bool(value) => text == if *value { "true" } else { "false" },
        Value::Int(number) => number.to_string() == text,
        other => other.as_str() == Some(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::testing::value;

    fn matches(selector: &str, object: &str) -> bool {
        Selector::parse(value(selector).as_map().unwrap()).unwrap().matches(&value(object))
    }

    #[test]
    fn everything_has_to_hold() {
        let pod =
            r#"{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}},"status":{"phase":"Running","n":3}}"#;
        for (selector, expected) in [
            ("{}", true),
            (r#"{"matchLabels":{"a":"b"}}"#, true),
            (r#"{"matchLabels":{"a":"c"}}"#, false),
            (r#"{"matchAnnotations":{"c":"d"}}"#, true),
            (r#"{"matchAnnotations":{"e":"d"}}"#, false),
            (
                r#"{"matchExpressions":[{"key":".status.phase","operator":"In","values":["Pending","Running"]}]}"#,
                true,
            ),
            (
                r#"{"matchExpressions":[{"jq":{"key":".status.phase","operator":"NotIn","values":["Running"]}}]}"#,
                false,
            ),
            (r#"{"matchExpressions":[{"cel":{"expression":"self.status.n == 3"}}]}"#, true),
            (r#"{"matchExpressions":[{"cel":{"expression":"self.status.n == 4"}}]}"#, false),
            (r#"{"matchExpressions":[{"key":".status.n","operator":"In","values":["3"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":".status.none","operator":"NotIn","values":["3"]}]}"#, true),
            (
                r#"{"matchExpressions":[{"key":".metadata.deletionTimestamp","operator":"DoesNotExist"}]}"#,
                true,
            ),
            (
                r#"{"matchExpressions":[{"key":".status.phase","operator":"Exists"},{"key":".x","operator":"Exists"}]}"#,
                false,
            ),
        ] {
            assert_eq!(matches(selector, pod), expected, "{selector}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused_with_its_place() {
        for (expression, why) in [
            (r#"{"cel":{"expression":"self."}}"#, "Syntax error"),
            (r#"{"key":".a","operator":"Like"}"#, "\"Like\" is not supported"),
            (r#"{"key":".a","operator":"In"}"#, "values set can't be empty"),
            (r#"{"key":".a","operator":"Exists","values":["b"]}"#, "values set must be empty"),
            (r#"{"key":"len(.a)","operator":"Exists"}"#, "position 0"),
        ] {
            let selector = value(&format!(r#"{{"matchExpressions":[{expression}]}}"#));
            let error = Selector::parse(selector.as_map().unwrap()).unwrap_err();
            assert!(
                error.starts_with("spec.selector.matchExpressions[0]: ") && error.contains(why),
                "{error}"
            );
        }
    }
}

//! The match conditions of a webhook: only requests of which all hold are sent to it.

use super::requirement::{Requirement, of_fields, of_labels};
use crate::authorize::aggregate;
use crate::expression::{Evaluations, extra, map, texts};
use crate::{Attributes, Selectors, Target, User};
use cel::value::{List, Value};
use expressions::configuration::Expression;

const FIELD_SELECTOR: &str = "fieldSelector";
const LABEL_SELECTOR: &str = "labelSelector";

/// The match conditions of a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    expressions: Vec<Expression>,
    /// Whether one of the expressions selects something by this name; otherwise they do not see it.
    use_fields: bool,
    use_labels: bool,
}

impl Conditions {
    /// The conditions with these expressions.
    pub fn new(expressions: Vec<Expression>) -> Self {
        let use_it = |name| expressions.iter().any(|expression| expression.selects(name));
        Self { use_fields: use_it(FIELD_SELECTOR), use_labels: use_it(LABEL_SELECTOR), expressions }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.expressions.is_empty()
    }

    /// Whether all conditions hold. One that does not hold decides, whatever the others are; otherwise one
    /// that fails is an error.
    pub(super) fn hold(&self, user: &User, attributes: &Attributes) -> Result<bool, String> {
        if self.expressions.is_empty() {
            return Ok(true);
        }
        let request = self.request(user, attributes);
        let mut evaluations = Evaluations::default();
        let mut errors = Vec::new();
        for expression in &self.expressions {
            let why = match evaluations.evaluate(expression, request.clone()) {
                Ok(Value::Bool(true)) => continue,
                Ok(Value::Bool(false)) => return Ok(false),
                Ok(other) => format!("eval result type should be bool but got {}", other.type_of().name()),
                Err(failure) => format!("resulted in error: {failure}"),
            };
            errors.push(format!("cel evaluation error: expression '{}' {why}", expression.text()));
        }
        aggregate(&errors).map_or(Ok(true), Err)
    }

    /// The request as a `kubernetes.SubjectAccessReviewSpec`, with the texts and lists that are empty.
    fn request<'r>(&self, user: &'r User, attributes: &'r Attributes) -> Value<'r> {
        let about = match &attributes.target {
            Target::Path(path) => {
                let about = [("path", path.as_str().into()), ("verb", (&*attributes.verb).into())];
                ("nonResourceAttributes", map(about))
            }
            Target::Resource { group, version, resource, subresource, namespace, name } => {
                let texts = [
                    ("namespace", namespace.as_str()),
                    ("verb", &attributes.verb),
                    ("group", group),
                    ("version", version),
                    ("resource", resource),
                    ("subresource", subresource),
                    ("name", name),
                ];
                let texts = texts.map(|(key, text)| (key, Value::from(text)));
                let selectors = attributes.selectors.as_deref().map(|selectors| self.selectors(selectors));
                ("resourceAttributes", map(texts.into_iter().chain(selectors.into_iter().flatten())))
            }
        };
        let who = [
            ("user", user.name.as_str().into()),
            ("groups", texts(user.groups.iter().map(String::as_str))),
            ("uid", user.uid.as_str().into()),
            ("extra", extra(user)),
        ];
        map(who.into_iter().chain([about]))
    }

    /// The selectors with requirements.
    fn selectors<'r>(&self, selectors: &'r Selectors) -> Vec<(&'static str, Value<'r>)> {
        let fields = self.use_fields.then(|| of_fields(selectors).map(shown).collect());
        let labels = self.use_labels.then(|| of_labels(selectors).map(shown).collect());
        let both: [(_, Option<Vec<_>>); 2] = [(FIELD_SELECTOR, fields), (LABEL_SELECTOR, labels)];
        let with_requirements = both.into_iter().filter_map(|(key, requirements)| {
            let requirements = List::of(requirements.filter(|requirements| !requirements.is_empty())?);
            Some((key, map([("requirements", Value::List(requirements))])))
        });
        with_requirements.collect()
    }
}

fn shown(requirement: Requirement<'_>) -> Value<'_> {
    let Requirement { key, operator, values } = requirement;
    map([("key", key.into()), ("operator", operator.into()), ("values", texts(values))])
}

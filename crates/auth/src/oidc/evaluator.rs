//! The values of expressions over claims and users, in the form that users have them.

use super::mapping::Rule;
use crate::expression::{Evaluations, user};
use crate::jwt::Claims;
use crate::{InvalidToken, User};
use cel::value::{List, Map, Value};
use expressions::configuration::Expression;

/// What is said of a value that cannot be groups or an attribute.
pub(super) const NO_TEXTS: &str = "expression must return a string or a list of strings";

/// Evaluates the expressions for a token. They are over claims that were verified.
pub(super) struct Evaluator<'t> {
    claims: &'t Claims,
    evaluations: Evaluations,
}

impl<'t> Evaluator<'t> {
    pub(super) fn new(claims: &'t Claims) -> Self {
        Self { claims, evaluations: Evaluations::default() }
    }

    /// The value of an expression over the claims.
    pub(super) fn value<'e>(&mut self, expression: &'e Expression) -> Result<Value<'e>, InvalidToken>
    where
        't: 'e,
    {
        let claims = Value::Map(Map::Tree(self.claims.all(), None));
        self.evaluate(expression, claims)
    }

    /// The text that an expression over the claims makes. `what` says in an error which one it is.
    pub(super) fn text(&mut self, expression: &Expression, what: &str) -> Result<String, InvalidToken> {
        let begin = || format!("oidc: error evaluating {what} claim expression: ");
        match self.value(expression).map_err(|error| error.after(&begin()))? {
            Value::String(text) => Ok(text.as_str().to_owned()),
            _ => Err(format!("{}{what} claim expression must return a string", begin()).into()),
        }
    }

    /// The texts that an expression over the claims makes.
    pub(super) fn texts(&mut self, expression: &Expression) -> Result<Vec<String>, InvalidToken> {
        let value = self.value(expression)?;
        texts(&value).ok_or_else(|| NO_TEXTS.into())
    }

    /// Fails if the claims break one of the rules.
    pub(super) fn check_claims(&mut self, rules: &[Rule]) -> Result<(), InvalidToken> {
        let claims = Value::Map(Map::Tree(self.claims.all(), None));
        self.check(rules, &claims)
            .map_err(|error| error.after("oidc: error evaluating claim validation expression: "))
    }

    /// Fails if the user breaks one of the rules.
    pub(super) fn check_user(&mut self, rules: &[Rule], found: &User) -> Result<(), InvalidToken> {
        if rules.is_empty() {
            return Ok(());
        }
        self.check(rules, &user(found))
            .map_err(|error| error.after("oidc: error evaluating user info validation rule: "))
    }

    /// A rule that cannot be evaluated is reported before those that are broken.
    fn check(&mut self, rules: &[Rule], variable: &Value<'_>) -> Result<(), InvalidToken> {
        let mut first = None;
        for rule in rules {
            let value = self.evaluate(&rule.expression, variable.clone())?;
            let broken = match value {
                Value::Bool(true) => continue,
                Value::Bool(false) => {
                    let Rule { expression, message } = rule;
                    format!("validation expression '{}' failed: {message}", expression.text())
                }
                _ => "validation expression must return a boolean".to_owned(),
            };
            first.get_or_insert(broken);
        }
        first.map_or(Ok(()), |broken| Err(broken.into()))
    }

    fn evaluate<'e>(
        &mut self,
        expression: &'e Expression,
        variable: Value<'e>,
    ) -> Result<Value<'e>, InvalidToken> {
        // A failure can quote values.
        self.evaluations.evaluate(expression, variable).map_err(|failure| {
            let begin = format!("expression '{}' resulted in error: ", expression.text());
            InvalidToken::withholding(&begin, failure)
        })
    }
}

/// The texts of a value, without empty ones; `None` if the value is no text, no list of texts and not null.
///
/// As in the reference, a list that a function of a library made does not count as one of texts, such as that
/// of `split`, unless something was made of it; and the elements of a list may be types, which stand for
/// their names, and optional texts.
pub(super) fn texts(value: &Value<'_>) -> Option<Vec<String>> {
    let mut found = match value {
        Value::Null => Vec::new(),
        Value::String(text) => vec![text.as_str().to_owned()],
        Value::List(List::Texts(_)) => return None,
        Value::List(list) => {
            list.iter().map(|element| text_of(&element.ok()?)).collect::<Option<Vec<String>>>()?
        }
        _ => return None,
    };
    found.retain(|text| !text.is_empty());
    Some(found)
}

fn text_of(element: &Value<'_>) -> Option<String> {
    let mut element = element;
    loop {
        match element {
            Value::String(text) => return Some(text.as_str().to_owned()),
            Value::Type(ty) => return Some(ty.name().to_owned()),
            Value::Optional(Some(inner)) => element = inner,
            _ => return None,
        }
    }
}

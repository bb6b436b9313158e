//! From the claims of a token to its user.

use super::evaluator::{Evaluator, NO_TEXTS, texts};
use crate::jwt::Claims;
use crate::{InvalidToken, User};
use expressions::configuration::Expression;
use object::Value;
use object::quote::quote;

/// A claim, and a prefix for its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The name of the claim.
    pub claim: String,
    /// The prefix; may be empty.
    pub prefix: String,
}

/// Where a part of a user comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOrExpression<C> {
    /// From a claim.
    Claim(C),
    /// From an expression over all claims.
    Expression(Expression),
}

/// An expression that has to be true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The expression.
    pub expression: Expression,
    /// What is said if it is false; may be empty.
    pub message: String,
}

/// Which claims make a user, and which are required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mappings {
    /// The name of the user.
    pub username: ClaimOrExpression<Mapping>,
    /// The groups of the user.
    pub groups: Option<ClaimOrExpression<Mapping>>,
    /// The uid of the user.
    pub uid: Option<ClaimOrExpression<String>>,
    /// Further attributes of the user: their keys and values.
    pub extra: Vec<(String, Expression)>,
    /// Required claims and their values.
    pub required: Vec<(String, String)>,
    /// What has to be true of the claims.
    pub claim_rules: Vec<Rule>,
    /// What has to be true of the user.
    pub user_rules: Vec<Rule>,
}

impl Mappings {
    /// The user of a token whose claims are verified, or what is wrong with them. The texts are those of the
    /// reference, and of several faults the first one is the same.
    pub(super) fn user(&self, claims: &Claims) -> Result<User, InvalidToken> {
        let mut expressions = Evaluator::new(claims);
        let user = User {
            name: self.username(claims, &mut expressions)?,
            groups: self.groups(claims, &mut expressions)?,
            uid: self.uid(claims, &mut expressions)?,
            extra: self.extra(claims, &mut expressions)?,
        };
        self.check_required(claims)?;
        expressions.check_claims(&self.claim_rules)?;
        expressions.check_user(&self.user_rules, &user)?;
        Ok(user)
    }

    fn check_required(&self, claims: &Claims) -> Result<(), InvalidToken> {
        for (name, wanted) in &self.required {
            let Some(value) = claims.get(name) else {
                return Err(format!("oidc: required claim {name} not present in ID token").into());
            };
            let value = text(value).map_err(|why| format!("oidc: parse claim {name}: {why}"))?;
            if value != wanted {
                let begin = format!("oidc: required claim {name} value does not match. ");
                return Err(InvalidToken::withholding(&begin, format!("Got = {value}, want = {wanted}")));
            }
        }
        Ok(())
    }

    fn username(&self, claims: &Claims, expressions: &mut Evaluator<'_>) -> Result<String, InvalidToken> {
        let Mapping { claim, prefix } = match &self.username {
            ClaimOrExpression::Claim(mapping) => mapping,
            ClaimOrExpression::Expression(expression) => {
                let name = expressions.text(expression, "username")?;
                return match name.is_empty() {
                    true => Err("oidc: empty username via CEL expression is not allowed".into()),
                    false => Ok(name),
                };
            }
        };
        let name = claims.get(claim).ok_or_else(|| "claim not present".to_owned()).and_then(text);
        let name = name.map_err(|why| format!("oidc: parse username claims {}: {why}", quote(claim)))?;
        if claim == "email"
            && let Some(verified) = claims.get("email_verified")
        {
            match verified {
                Value::Bool(true) => {}
                Value::Bool(false) | Value::Null => return Err("oidc: email not verified".into()),
                other => {
                    let why = mismatch(other, "bool");
                    return Err(format!("oidc: parse 'email_verified' claim: {why}").into());
                }
            }
        }
        Ok(format!("{prefix}{name}"))
    }

    /// A claim that is a list of texts, or one text; or the texts of an expression.
    fn groups(&self, claims: &Claims, expressions: &mut Evaluator<'_>) -> Result<Vec<String>, InvalidToken> {
        let Mapping { claim, prefix } = match &self.groups {
            None => return Ok(Vec::new()),
            Some(ClaimOrExpression::Claim(mapping)) => mapping,
            Some(ClaimOrExpression::Expression(expression)) => {
                let groups = expressions.texts(expression);
                return groups
                    .map_err(|error| error.after("oidc: error evaluating group claim expression: "));
            }
        };
        let named = |group: &str| format!("{prefix}{group}");
        let groups = match claims.get(claim) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::List(list)) => {
                let groups: Result<Vec<_>, String> =
                    list.iter().map(|group| text(group).map(named)).collect();
                // The reference then tries to read the list as one text.
                groups.map_err(|_| "json: cannot unmarshal array into Go value of type string".to_owned())
            }
            Some(one) => text(one).map(|group| vec![named(group)]),
        };
        groups.map_err(|why| format!("oidc: parse groups claim {}: {why}", quote(claim)).into())
    }

    fn uid(&self, claims: &Claims, expressions: &mut Evaluator<'_>) -> Result<String, InvalidToken> {
        let claim = match &self.uid {
            None => return Ok(String::new()),
            Some(ClaimOrExpression::Claim(claim)) => claim,
            Some(ClaimOrExpression::Expression(expression)) => return expressions.text(expression, "uid"),
        };
        let uid = claims.get(claim).ok_or_else(|| "claim not present".to_owned()).and_then(text);
        uid.map(str::to_owned).map_err(|why| format!("oidc: parse uid claim {}: {why}", quote(claim)).into())
    }

    /// What identifies the token, for audits, and further attributes that are not empty. All expressions are
    /// evaluated before their values are looked at.
    fn extra(
        &self,
        claims: &Claims,
        expressions: &mut Evaluator<'_>,
    ) -> Result<Vec<(String, Vec<String>)>, InvalidToken> {
        let mut extra = match claims.text("jti") {
            "" => Vec::new(),
            id => vec![(User::CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")])],
        };
        let values = self.extra.iter().map(|(_, expression)| expressions.value(expression));
        let values = values.collect::<Result<Vec<_>, InvalidToken>>()?;
        for ((key, expression), value) in self.extra.iter().zip(&values) {
            let values = texts(value).ok_or_else(|| {
                let text = expression.text();
                format!("oidc: error evaluating extra claim expression: {text}: {NO_TEXTS}")
            })?;
            if !values.is_empty() {
                extra.push((key.clone(), values));
            }
        }
        Ok(extra)
    }
}

/// A text; null counts as an empty one.
pub(super) fn text(value: &Value) -> Result<&str, String> {
    match value {
        Value::String(text) => Ok(text.as_str()),
        Value::Null => Ok(""),
        other => Err(mismatch(other, "string")),
    }
}

/// A value of the wrong type, as Go says it.
pub(super) fn mismatch(value: &Value, wanted: &str) -> String {
    format!("json: cannot unmarshal {} into Go value of type {wanted}", value.kind())
}

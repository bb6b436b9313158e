//! From the claims of a token to its user.

use crate::User;
use crate::jwt::Claims;
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

/// Which claims make a user, and which are required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mappings {
    /// The name of the user.
    pub username: Mapping,
    /// The groups of the user.
    pub groups: Option<Mapping>,
    /// The claim that is the uid of the user.
    pub uid: Option<String>,
    /// Required claims and their values.
    pub required: Vec<(String, String)>,
}

impl Mappings {
    /// The user of a token whose claims are verified, or what is wrong with them. The texts are those of the
    /// reference.
    pub(super) fn user(&self, claims: &Claims) -> Result<User, String> {
        let user = User {
            name: self.username(claims)?,
            groups: self.groups(claims)?,
            uid: self.uid(claims)?,
            extra: extra(claims),
        };
        for (name, wanted) in &self.required {
            let Some(value) = claims.get(name) else {
                return Err(format!("oidc: required claim {name} not present in ID token"));
            };
            let value = text(value).map_err(|why| format!("oidc: parse claim {name}: {why}"))?;
            if value != wanted {
                return Err(format!(
                    "oidc: required claim {name} value does not match. Got = {value}, want = {wanted}"
                ));
            }
        }
        Ok(user)
    }

    fn username(&self, claims: &Claims) -> Result<String, String> {
        let Mapping { claim, prefix } = &self.username;
        let name = claims.get(claim).ok_or_else(|| "claim not present".to_owned()).and_then(text);
        let name = name.map_err(|why| format!("oidc: parse username claims {}: {why}", quote(claim)))?;
        if claim == "email"
            && let Some(verified) = claims.get("email_verified")
        {
            match verified {
                Value::Bool(true) => {}
                Value::Bool(false) | Value::Null => return Err("oidc: email not verified".to_owned()),
                other => {
                    let why = mismatch(other, "bool");
                    return Err(format!("oidc: parse 'email_verified' claim: {why}"));
                }
            }
        }
        Ok(format!("{prefix}{name}"))
    }

    /// A claim that is a list of texts, or one text.
    fn groups(&self, claims: &Claims) -> Result<Vec<String>, String> {
        let Some(Mapping { claim, prefix }) = &self.groups else { return Ok(Vec::new()) };
        let named = |group: &str| format!("{prefix}{group}");
        match claims.get(claim) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::List(list)) => {
                let groups: Result<Vec<_>, String> =
                    list.iter().map(|group| text(group).map(named)).collect();
                // The reference then tries to read the list as one text.
                groups.map_err(|_| "json: cannot unmarshal array into Go value of type string".to_owned())
            }
            Some(one) => text(one).map(|group| vec![named(group)]),
        }
        .map_err(|why| format!("oidc: parse groups claim {}: {why}", quote(claim)))
    }

    fn uid(&self, claims: &Claims) -> Result<String, String> {
        let Some(claim) = &self.uid else { return Ok(String::new()) };
        let uid = claims.get(claim).ok_or_else(|| "claim not present".to_owned()).and_then(text);
        uid.map(str::to_owned).map_err(|why| format!("oidc: parse uid claim {}: {why}", quote(claim)))
    }
}

/// What identifies the token, for audits.
fn extra(claims: &Claims) -> Vec<(String, Vec<String>)> {
    match claims.text("jti") {
        "" => Vec::new(),
        id => vec![(User::CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")])],
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

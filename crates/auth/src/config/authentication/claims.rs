//! How the claims of an issuer's tokens become users: the claims and expressions of a `JWTAuthenticator`.

use crate::config::compiled;
use crate::oidc::{ClaimOrExpression, Mapping, Mappings, Rule};
use expressions::configuration::{Expression, Scope};
use object::field::{Error, List, Path};
use object::name::domain::domain_prefixed_path;
use schema::views::apiserver::v1beta1::{ClaimMappings, JWTAuthenticator, PrefixedClaimOrExpression};
use std::collections::BTreeSet;

const EITHER: &str = "claim and expression can't both be set";
const REQUIRED: &str = "claim or expression is required";

/// The names of the claims that an address and its verification have.
const EMAIL: &str = "email";
const EMAIL_VERIFIED: &str = "email_verified";

/// The mappings of an issuer, unless something is wrong with them.
pub(super) fn validate(
    authenticator: JWTAuthenticator<'_>,
    path: &Path<'_>,
    errors: &mut List,
) -> Option<Mappings> {
    let (required, claim_rules) = claim_rules(authenticator, &path.child("claimValidationRules"), errors);
    let mappings = authenticator.claim_mappings();
    let path_of_mappings = path.child("claimMappings");
    let username = username(mappings, &path_of_mappings, errors);
    let groups = prefixed(mappings.groups(), &path_of_mappings.child("groups"), errors);
    let uid = uid(mappings, &path_of_mappings.child("uid"), errors);
    let extra = extra(mappings, &path_of_mappings.child("extra"), errors);
    if let Some(ClaimOrExpression::Expression(username)) = &username
        && username.selects_of("claims", EMAIL)
    {
        let rules = claim_rules.iter().map(|rule| &rule.expression);
        let mut all = rules.chain(extra.iter().map(|(_, value)| value)).chain([username]);
        if !all.any(|expression| expression.selects_of("claims", EMAIL_VERIFIED)) {
            let detail = "claims.email_verified must be used in claimMappings.username.expression or \
                          claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when \
                          claims.email is used in claimMappings.username.expression";
            let path = path_of_mappings.child("username");
            errors.push(Error::invalid(&path.child("expression"), username.text(), detail));
        }
    }
    let user_rules = user_rules(authenticator, &path.child("userValidationRules"), errors);
    Some(Mappings { username: username?, groups, uid, extra, required, claim_rules, user_rules })
}

/// The claims that tokens have to have, and the expressions that have to be true of them.
fn claim_rules(
    authenticator: JWTAuthenticator<'_>,
    path: &Path<'_>,
    errors: &mut List,
) -> (Vec<(String, String)>, Vec<Rule>) {
    let (mut claims, mut expressions) = (BTreeSet::new(), BTreeSet::new());
    let (mut required, mut rules) = (Vec::new(), Vec::new());
    for (at, rule) in authenticator.claim_validation_rules().iter().enumerate() {
        let path = path.index(at);
        match (rule.claim(), rule.expression()) {
            ("", "") => errors.push(Error::required(&path, REQUIRED)),
            (claim, "") => {
                if !rule.message().is_empty() {
                    let detail = "message can't be set when claim is set";
                    errors.push(Error::invalid(&path.child("message"), rule.message(), detail));
                }
                if !claims.insert(claim) {
                    errors.push(Error::duplicate(&path.child("claim"), claim));
                }
                required.push((claim.to_owned(), rule.required_value().to_owned()));
            }
            ("", text) => {
                if !rule.required_value().is_empty() {
                    let path = path.child("requiredValue");
                    let detail = "requiredValue can't be set when expression is set";
                    errors.push(Error::invalid(&path, rule.required_value(), detail));
                }
                let path = path.child("expression");
                if !expressions.insert(text) {
                    errors.push(Error::duplicate(&path, text));
                    continue;
                }
                let expression = compiled(Scope::Claims.condition(text), text, &path, errors);
                let message = rule.message().to_owned();
                rules.extend(expression.map(|expression| Rule { expression, message }));
            }
            (claim, _) => errors.push(Error::invalid(&path, claim, EITHER)),
        }
    }
    (required, rules)
}

/// The expressions that have to be true of users.
fn user_rules(authenticator: JWTAuthenticator<'_>, path: &Path<'_>, errors: &mut List) -> Vec<Rule> {
    let mut expressions = BTreeSet::new();
    let mut rules = Vec::new();
    for (at, rule) in authenticator.user_validation_rules().iter().enumerate() {
        let (item, text) = (path.index(at), rule.expression());
        let path = item.child("expression");
        if text.is_empty() {
            errors.push(Error::required(&path, "expression is required"));
        } else if !expressions.insert(text) {
            errors.push(Error::duplicate(&path, text));
        } else {
            let expression = compiled(Scope::User.condition(text), text, &path, errors);
            let message = rule.message().to_owned();
            rules.extend(expression.map(|expression| Rule { expression, message }));
        }
    }
    rules
}

fn username(
    mappings: ClaimMappings<'_>,
    path: &Path<'_>,
    errors: &mut List,
) -> Option<ClaimOrExpression<Mapping>> {
    let (mapping, path) = (mappings.username(), path.child("username"));
    if mapping.claim().is_empty() && mapping.expression().is_empty() {
        errors.push(Error::required(&path, REQUIRED));
    }
    prefixed(mapping, &path, errors)
}

/// A claim with a prefix, or an expression; `None` if there is neither, or something is wrong with it.
fn prefixed(
    mapping: PrefixedClaimOrExpression<'_>,
    path: &Path<'_>,
    errors: &mut List,
) -> Option<ClaimOrExpression<Mapping>> {
    let prefix_path = path.child("prefix");
    match (mapping.claim(), mapping.expression(), mapping.prefix()) {
        ("", "", _) => None,
        ("", text, prefix) => {
            if let Some(prefix) = prefix {
                let detail = "prefix can't be set when expression is set";
                errors.push(Error::invalid(&prefix_path, prefix, detail));
            }
            let expression = value(text, &path.child("expression"), errors);
            expression.filter(|_| prefix.is_none()).map(ClaimOrExpression::Expression)
        }
        (_, "", None) => {
            let detail =
                "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
            errors.push(Error::required(&prefix_path, detail));
            None
        }
        (claim, "", Some(prefix)) => {
            Some(ClaimOrExpression::Claim(Mapping { claim: claim.to_owned(), prefix: prefix.to_owned() }))
        }
        _ => {
            errors.push(Error::invalid(path, "", EITHER));
            None
        }
    }
}

fn uid(mappings: ClaimMappings<'_>, path: &Path<'_>, errors: &mut List) -> Option<ClaimOrExpression<String>> {
    let uid = mappings.uid();
    match (uid.claim(), uid.expression()) {
        ("", "") => None,
        (claim, "") => Some(ClaimOrExpression::Claim(claim.to_owned())),
        ("", text) => value(text, &path.child("expression"), errors).map(ClaimOrExpression::Expression),
        _ => {
            errors.push(Error::invalid(path, "", EITHER));
            None
        }
    }
}

/// The further attributes of users, by their keys.
fn extra(mappings: ClaimMappings<'_>, path: &Path<'_>, errors: &mut List) -> Vec<(String, Expression)> {
    let mut keys = BTreeSet::new();
    let mut values = Vec::new();
    for (at, mapping) in mappings.extra().iter().enumerate() {
        let (path, key, text) = (path.index(at), mapping.key(), mapping.value_expression());
        let (key_path, value_path) = (path.child("key"), path.child("valueExpression"));
        errors.append(domain_prefixed_path(&key_path, key));
        if key != key.to_lowercase() {
            errors.push(Error::invalid(&key_path, key, "key must be lowercase"));
        }
        if is_reserved(key) {
            let detail = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
            errors.push(Error::invalid(&key_path, key, detail));
        }
        if !keys.insert(key) {
            errors.push(Error::duplicate(&key_path, key));
        } else if text.is_empty() {
            errors.push(Error::required(&value_path, "valueExpression is required"));
        } else {
            let expression = value(text, &value_path, errors);
            values.extend(expression.map(|expression| (key.to_owned(), expression)));
        }
    }
    values
}

/// An expression over claims whose value may be of any type.
fn value(text: &str, path: &Path<'_>, errors: &mut List) -> Option<Expression> {
    compiled(Scope::Claims.value(text), text, path, errors)
}

/// Whether a key is in a domain of Kubernetes.
fn is_reserved(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return false };
    ["kubernetes.io", "k8s.io"].iter().any(|reserved| {
        domain.strip_suffix(reserved).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

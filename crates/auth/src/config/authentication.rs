//! The file of `--authentication-config`: an `AuthenticationConfiguration`.
//!
//! The server does not start with an invalid file. An invalid change is logged, and the configuration before
//! it stays.

use std::collections::BTreeSet;

use crate::Anonymous;
use crate::jwt::Algorithm;
use crate::oidc::{Config, Mapping, Mappings};
use object::field::{Aggregate, BadValue, Error as FieldError, List, Path as FieldPath};
use object::name::domain::domain_prefixed_path;
use object::quote::quote;
use object::{Map, Value};
use outbound::{Client, Tls, Trust};
use schema::config_file;
use schema::view::View as _;
use schema::views::apiserver::v1beta1::{
    AnonymousAuthConfig, AuthenticationConfiguration, ClaimMappings, Issuer, JWTAuthenticator,
    PrefixedClaimOrExpression,
};

use super::url_fault;

const VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];
const MOST_ISSUERS: usize = 64;
const EITHER: &str = "claim and expression can't both be set";
/// Expressions are CEL.
const NO_EXPRESSIONS: &str = "expressions are not supported by this server";

/// The rules for a configuration that flags and feature gates set.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The issuers of service account tokens, which no other issuer may be.
    pub disallowed: Vec<String>,
    /// The feature gate `AnonymousAuthConfigurableEndpoints`.
    pub may_configure_anonymous: bool,
}

/// A valid configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Authentication {
    /// The issuers of tokens.
    pub issuers: Vec<Config>,
    /// `None` if the configuration does not say.
    pub anonymous: Option<Anonymous>,
}

impl Authentication {
    /// Reads a file; the error lists what is wrong with it.
    pub fn parse(text: &[u8], rules: &Rules) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty config data".to_owned());
        }
        let (kind, ty) = ("AuthenticationConfiguration", AuthenticationConfiguration::schema());
        let value = config_file::decode(text, kind, &VERSIONS, ty)?;
        Self::check(&value, rules, &Algorithm::ALL)
    }

    /// Checks a configuration; the error lists what is wrong with it. Tokens may be signed with the
    /// algorithms.
    pub fn check(value: &Value, rules: &Rules, algorithms: &[Algorithm]) -> Result<Self, String> {
        let empty = Map::new();
        let configuration = AuthenticationConfiguration::of(value.as_map().unwrap_or(&empty));
        let mut errors = List::new();
        let issuers = validate(configuration, rules, algorithms, &mut errors);
        if let Some(anonymous) = configuration.anonymous() {
            validate_anonymous(anonymous, rules, &mut errors);
        }
        match Aggregate::new(errors) {
            Some(errors) => Err(errors.to_string()),
            None => Ok(Self { issuers, anonymous: configuration.anonymous().map(anonymous) }),
        }
    }
}

fn anonymous(config: AnonymousAuthConfig<'_>) -> Anonymous {
    let paths: Vec<String> =
        config.conditions().iter().map(|condition| condition.path().to_owned()).collect();
    match (config.enabled(), paths.is_empty()) {
        (false, _) => Anonymous::Refused,
        (true, true) => Anonymous::Allowed,
        (true, false) => Anonymous::On(paths),
    }
}

fn validate_anonymous(config: AnonymousAuthConfig<'_>, rules: &Rules, errors: &mut List) {
    let path = FieldPath::new("anonymous");
    if !rules.may_configure_anonymous {
        let detail =
            "anonymous is not supported when AnonymousAuthConfigurableEnpoints feature gate is disabled";
        errors.push(FieldError::forbidden(&path, detail));
    }
    if !config.enabled() && !config.conditions().is_empty() {
        let conditions = config.conditions().iter();
        let conditions: Vec<String> = conditions
            .map(|condition| format!("apiserver.AnonymousAuthCondition{{Path:{}}}", quote(condition.path())))
            .collect();
        let shown = format!("[]apiserver.AnonymousAuthCondition{{{}}}", conditions.join(", "));
        let detail = "enabled should be set to true when conditions are defined";
        errors.push(FieldError::invalid(&path.child("conditions"), BadValue::Raw(shown), detail));
    }
}

/// The issuers; their errors are added to `errors`.
fn validate(
    configuration: AuthenticationConfiguration<'_>,
    rules: &Rules,
    algorithms: &[Algorithm],
    errors: &mut List,
) -> Vec<Config> {
    let root = FieldPath::new("jwt");
    let all = configuration.jwt();
    if all.len() > MOST_ISSUERS {
        errors.push(FieldError::too_many(&root, Some(all.len()), Some(MOST_ISSUERS)));
        return Vec::new();
    }
    let (mut urls, mut discovery_urls) = (BTreeSet::new(), BTreeSet::new());
    let mut configs = Vec::new();
    for (at, authenticator) in all.iter().enumerate() {
        let path = root.index(at);
        let issuer = authenticator.issuer();
        let (path_of_issuer, discovery_url) =
            (path.child("issuer"), issuer.discovery_url().unwrap_or_default());
        validate_issuer(issuer, rules, &path_of_issuer, errors);
        let required = validate_claim_rules(authenticator, &path, errors);
        let claims = authenticator.claim_mappings();
        validate_mappings(claims, &path.child("claimMappings"), errors);
        validate_user_rules(authenticator, &path, errors);
        if !urls.insert(issuer.url()) {
            errors.push(FieldError::duplicate(&path_of_issuer.child("url"), issuer.url()));
        }
        if !discovery_url.is_empty() && !discovery_urls.insert(discovery_url) {
            errors.push(FieldError::duplicate(&path_of_issuer.child("discoveryURL"), discovery_url));
        }
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        configs.push(Config {
            issuer: issuer.url().to_owned(),
            discovery_url: text(discovery_url),
            certificate_authority: text(issuer.certificate_authority()),
            audiences: issuer.audiences().iter().map(str::to_owned).collect(),
            algorithms: algorithms.to_vec(),
            mappings: Mappings {
                username: mapping(claims.username()),
                groups: Some(mapping(claims.groups())).filter(|groups| !groups.claim.is_empty()),
                uid: text(claims.uid().claim()),
                required,
            },
        });
    }
    configs
}

fn mapping(mapping: PrefixedClaimOrExpression<'_>) -> Mapping {
    let prefix = mapping.prefix().unwrap_or_default();
    Mapping { claim: mapping.claim().to_owned(), prefix: prefix.to_owned() }
}

fn validate_issuer(issuer: Issuer<'_>, rules: &Rules, path: &FieldPath<'_>, errors: &mut List) {
    let url_path = path.child("url");
    match issuer.url() {
        "" => errors.push(FieldError::required(&url_path, "URL is required")),
        url => validate_url(url, &rules.disallowed, &url_path, errors),
    }
    let discovery_url = issuer.discovery_url().unwrap_or_default();
    if !discovery_url.is_empty() {
        let path = path.child("discoveryURL");
        let url = issuer.url();
        if !url.is_empty() && url.trim_end_matches('/') == discovery_url.trim_end_matches('/') {
            let detail = "discoveryURL must be different from URL";
            errors.push(FieldError::invalid(&path, discovery_url, detail));
        }
        validate_url(discovery_url, &[], &path, errors);
    }
    validate_audiences(issuer, path, errors);
    let authority = issuer.certificate_authority();
    if !authority.is_empty() {
        let wrong = match Trust::from_pem(authority.as_bytes()) {
            Err(_) => Some("data does not contain any valid RSA or ECDSA certificates".to_owned()),
            Ok(trust) => Client::new(&Tls { trust, ..Tls::default() }).err().map(|error| error.to_string()),
        };
        if let Some(wrong) = wrong {
            let path = path.child("certificateAuthority");
            errors.push(FieldError::invalid(&path, "<omitted>", wrong));
        }
    }
}

fn validate_url(url: &str, disallowed: &[String], path: &FieldPath<'_>, errors: &mut List) {
    let mut invalid = |detail: String| errors.push(FieldError::invalid(path, url, detail));
    if disallowed.iter().any(|issuer| issuer == url) {
        let mut all = disallowed.to_vec();
        all.sort_unstable();
        invalid(format!("URL must not overlap with disallowed issuers: [{}]", all.join(" ")));
    }
    if let Some(fault) = url_fault(url) {
        return invalid(fault);
    }
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once(':').unwrap_or(("", rest));
    let authority = rest.strip_prefix("//").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("https") {
        invalid("URL scheme must be https".to_owned());
    }
    if authority.contains('@') {
        invalid("URL must not contain a username or password".to_owned());
    }
    if !query.is_empty() {
        invalid("URL must not contain a query".to_owned());
    }
    if !fragment.is_empty() {
        invalid("URL must not contain a fragment".to_owned());
    }
}

fn validate_audiences(issuer: Issuer<'_>, path: &FieldPath<'_>, errors: &mut List) {
    let (list, policy_path) = (path.child("audiences"), path.child("audienceMatchPolicy"));
    let (audiences, policy) = (issuer.audiences(), issuer.audience_match_policy());
    if audiences.is_empty() {
        errors.push(FieldError::required(&list, format!("at least one {list} is required")));
        return;
    }
    let mut seen = BTreeSet::new();
    for (at, audience) in audiences.iter().enumerate() {
        let path = list.index(at);
        if audience.is_empty() {
            errors.push(FieldError::required(&path, "audience can't be empty"));
        }
        if !seen.insert(audience) {
            errors.push(FieldError::duplicate(&path, audience));
        }
    }
    let detail = match (audiences.len(), policy) {
        (_, "MatchAny") | (1, "") => return,
        (1, _) => "audienceMatchPolicy must be empty or MatchAny for single audience",
        _ => "audienceMatchPolicy must be MatchAny for multiple audiences",
    };
    errors.push(FieldError::invalid(&policy_path, policy, detail));
}

/// The claims that tokens have to have.
fn validate_claim_rules(
    authenticator: JWTAuthenticator<'_>,
    path: &FieldPath<'_>,
    errors: &mut List,
) -> Vec<(String, String)> {
    let list = path.child("claimValidationRules");
    let (mut claims, mut expressions) = (BTreeSet::new(), BTreeSet::new());
    let mut required = Vec::new();
    for (at, rule) in authenticator.claim_validation_rules().iter().enumerate() {
        let path = list.index(at);
        let expression_path = path.child("expression");
        match (rule.claim(), rule.expression()) {
            ("", "") => errors.push(FieldError::required(&path, "claim or expression is required")),
            (claim, "") => {
                if !rule.message().is_empty() {
                    let detail = "message can't be set when claim is set";
                    errors.push(FieldError::invalid(&path.child("message"), rule.message(), detail));
                }
                if !claims.insert(claim) {
                    errors.push(FieldError::duplicate(&path.child("claim"), claim));
                }
                required.push((claim.to_owned(), rule.required_value().to_owned()));
            }
            ("", expression) => {
                if !rule.required_value().is_empty() {
                    let path = path.child("requiredValue");
                    let detail = "requiredValue can't be set when expression is set";
                    errors.push(FieldError::invalid(&path, rule.required_value(), detail));
                }
                if expressions.insert(expression) {
                    errors.push(FieldError::forbidden(&expression_path, NO_EXPRESSIONS));
                } else {
                    errors.push(FieldError::duplicate(&expression_path, expression));
                }
            }
            (claim, _) => errors.push(FieldError::invalid(&path, claim, EITHER)),
        }
    }
    required
}

fn validate_mappings(mappings: ClaimMappings<'_>, path: &FieldPath<'_>, errors: &mut List) {
    let username_path = path.child("username");
    if mappings.username().claim().is_empty() && mappings.username().expression().is_empty() {
        errors.push(FieldError::required(&username_path, "claim or expression is required"));
    }
    validate_mapping(mappings.username(), &username_path, errors);
    validate_mapping(mappings.groups(), &path.child("groups"), errors);
    let (uid, uid_path) = (mappings.uid(), path.child("uid"));
    match (uid.claim(), uid.expression()) {
        (_, "") => {}
        ("", _) => errors.push(FieldError::forbidden(&uid_path.child("expression"), NO_EXPRESSIONS)),
        _ => errors.push(FieldError::invalid(&uid_path, "", EITHER)),
    }
    let (list, mut keys) = (path.child("extra"), BTreeSet::new());
    for (at, extra) in mappings.extra().iter().enumerate() {
        let (path, key) = (list.index(at), extra.key());
        let (key_path, value_path) = (path.child("key"), path.child("valueExpression"));
        errors.append(domain_prefixed_path(&key_path, key));
        if key != key.to_lowercase() {
            errors.push(FieldError::invalid(&key_path, key, "key must be lowercase"));
        }
        if is_reserved(key) {
            let detail = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
            errors.push(FieldError::invalid(&key_path, key, detail));
        }
        if !keys.insert(key) {
            errors.push(FieldError::duplicate(&key_path, key));
        } else if extra.value_expression().is_empty() {
            errors.push(FieldError::required(&value_path, "valueExpression is required"));
        } else {
            errors.push(FieldError::forbidden(&value_path, NO_EXPRESSIONS));
        }
    }
}

fn validate_mapping(mapping: PrefixedClaimOrExpression<'_>, path: &FieldPath<'_>, errors: &mut List) {
    let prefix_path = path.child("prefix");
    match (mapping.claim(), mapping.expression(), mapping.prefix()) {
        ("", "", _) => {}
        ("", _, prefix) => {
            if let Some(prefix) = prefix {
                let detail = "prefix can't be set when expression is set";
                errors.push(FieldError::invalid(&prefix_path, prefix, detail));
            }
            errors.push(FieldError::forbidden(&path.child("expression"), NO_EXPRESSIONS));
        }
        (_, "", None) => {
            let detail =
                "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
            errors.push(FieldError::required(&prefix_path, detail));
        }
        (_, "", Some(_)) => {}
        _ => errors.push(FieldError::invalid(path, "", EITHER)),
    }
}

/// Whether a key is in a domain of Kubernetes.
fn is_reserved(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return false };
    ["kubernetes.io", "k8s.io"].iter().any(|reserved| {
        domain.strip_suffix(reserved).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

fn validate_user_rules(authenticator: JWTAuthenticator<'_>, path: &FieldPath<'_>, errors: &mut List) {
    let (list, mut expressions) = (path.child("userValidationRules"), BTreeSet::new());
    for (at, rule) in authenticator.user_validation_rules().iter().enumerate() {
        let item = list.index(at);
        let path = item.child("expression");
        let wrong = match rule.expression() {
            "" => FieldError::required(&path, "expression is required"),
            expression if expressions.insert(expression) => FieldError::forbidden(&path, NO_EXPRESSIONS),
            expression => FieldError::duplicate(&path, expression),
        };
        errors.push(wrong);
    }
}

#[cfg(test)]
mod tests;

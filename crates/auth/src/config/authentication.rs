//! The file of `--authentication-config`: an `AuthenticationConfiguration`.
//!
//! The server does not start with an invalid file. An invalid change is logged, and the configuration before
//! it stays.

mod claims;

use std::collections::BTreeSet;

use crate::Anonymous;
use crate::jwt::Algorithm;
use crate::oidc::Config;
use object::field::{Aggregate, BadValue, Error as FieldError, List, Path as FieldPath};
use object::quote::quote;
use object::{Map, Value};
use outbound::{Client, Tls, Trust};
use schema::config_file;
use schema::view::View as _;
use schema::views::apiserver::v1beta1::{AnonymousAuthConfig, AuthenticationConfiguration, Issuer};

use super::url_fault;

const VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];
const MOST_ISSUERS: usize = 64;

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
        let mappings = claims::validate(authenticator, &path, errors);
        if !urls.insert(issuer.url()) {
            errors.push(FieldError::duplicate(&path_of_issuer.child("url"), issuer.url()));
        }
        if !discovery_url.is_empty() && !discovery_urls.insert(discovery_url) {
            errors.push(FieldError::duplicate(&path_of_issuer.child("discoveryURL"), discovery_url));
        }
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        configs.extend(mappings.map(|mappings| Config {
            issuer: issuer.url().to_owned(),
            discovery_url: text(discovery_url),
            certificate_authority: text(issuer.certificate_authority()),
            audiences: issuer.audiences().iter().map(str::to_owned).collect(),
            algorithms: algorithms.to_vec(),
            mappings,
        }));
    }
    configs
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

#[cfg(test)]
mod tests;

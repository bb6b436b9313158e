//! Issuers of tokens, and anonymous requests: `--oidc-*` and `--authentication-config`.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use auth::Anonymous;
use auth::config::authentication::{Authentication, Rules};
use auth::jwt::Algorithm;
use auth::oidc::{Issuers, Prepared};
use object::quote::quote;
use object::{Map, Value};
use schema::views::apiserver::v1beta1::{
    AuthenticationConfiguration, ClaimMappings, ClaimValidationRule, Issuer, JWTAuthenticator,
    PrefixedClaimOrExpression,
};
use tasks::{Ended, Name, Task};
use tokio::time::{Instant, sleep};

use crate::authentication::{Error, read};
use crate::families::Configuration;
use crate::reload;
use crate::{AccessOptions, OidcOptions};

/// How often it is asked whether new issuers are ready.
const INTERVAL: Duration = Duration::from_millis(200);
/// After this time it is logged that they are not.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the flags say.
pub(crate) struct Started {
    /// `None` if there are none, and cannot be any later.
    pub(crate) issuers: Option<Issuers>,
    /// `None` if the flags leave it to others.
    pub(crate) anonymous: Option<Anonymous>,
}

/// The issuers of the flags or of a file, which is read again when it changes. `audiences` are those of the
/// server.
pub(crate) fn start(options: &AccessOptions, audiences: &[String]) -> Result<Started, Error> {
    let rules = Rules {
        disallowed: options.service_accounts.issuers(),
        may_configure_anonymous: !options.anonymous_is_fixed,
    };
    let Some(path) = &options.authentication_config else {
        let Some(configuration) = of_flags(&options.oidc)? else {
            return Ok(Started { issuers: None, anonymous: None });
        };
        let algorithms = algorithms(&options.oidc)?;
        let checked = Authentication::check(&configuration, &rules, &algorithms).map_err(Error::Flag)?;
        let issuers = Issuers::start(checked.issuers, audiences.to_vec())?;
        return Ok(Started { issuers: Some(issuers), anonymous: None });
    };
    let content = read(path)?.into_bytes();
    let unusable = |why: String| Error::Authentication { path: path.clone(), why };
    let parsed = Authentication::parse(&content, &rules).map_err(unusable)?;
    if parsed.anonymous.is_some() && options.anonymous.is_some() {
        let why = "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file";
        return Err(unusable(why.to_owned()));
    }
    let issuers = Issuers::start(parsed.issuers, audiences.to_vec())?;
    follow(path, content, issuers.clone(), rules, parsed.anonymous.clone());
    Ok(Started { issuers: Some(issuers), anonymous: parsed.anonymous })
}

/// The flags `--oidc-*` as a configuration.
fn of_flags(options: &OidcOptions) -> Result<Option<Value>, Error> {
    let (Some(issuer_url), Some(client_id)) = (&options.issuer_url, &options.client_id) else {
        return Ok(None);
    };
    let claim = options.username_claim.as_deref().unwrap_or("sub");
    let prefix = match options.username_prefix.as_deref().unwrap_or_default() {
        "" if claim != "email" => format!("{issuer_url}#"),
        "-" => String::new(),
        given => given.to_owned(),
    };
    let mapping = |claim: &str, prefix: &str| {
        let mut mapping = Map::new();
        mapping.insert(PrefixedClaimOrExpression::CLAIM, claim);
        mapping.insert(PrefixedClaimOrExpression::PREFIX, prefix);
        mapping
    };
    let mut mappings = Map::new();
    mappings.insert(ClaimMappings::USERNAME, mapping(claim, &prefix));
    if let Some(claim) = options.groups_claim.as_deref().filter(|claim| !claim.is_empty()) {
        let prefix = options.groups_prefix.as_deref().unwrap_or_default();
        mappings.insert(ClaimMappings::GROUPS, mapping(claim, prefix));
    }
    let mut issuer = Map::new();
    issuer.insert(Issuer::URL, issuer_url.as_str());
    issuer.insert(Issuer::AUDIENCES, [Value::from(client_id.as_str())].into_iter().collect::<Value>());
    if let Some(path) = options.ca_file.as_ref().filter(|path| !path.as_os_str().is_empty()) {
        issuer.insert(Issuer::CERTIFICATE_AUTHORITY, read(path)?.as_str());
    }
    let rules = options.required_claims.iter().map(|(claim, value)| {
        let mut rule = Map::new();
        rule.insert(ClaimValidationRule::CLAIM, claim.as_str());
        rule.insert(ClaimValidationRule::REQUIRED_VALUE, value.as_str());
        Value::from(rule)
    });
    let mut authenticator = Map::new();
    authenticator.insert(JWTAuthenticator::ISSUER, issuer);
    authenticator.insert(JWTAuthenticator::CLAIM_VALIDATION_RULES, rules.collect::<Value>());
    authenticator.insert(JWTAuthenticator::CLAIM_MAPPINGS, mappings);
    let mut configuration = Map::new();
    let all: Value = [Value::from(authenticator)].into_iter().collect();
    configuration.insert(AuthenticationConfiguration::JWT, all);
    Ok(Some(configuration.into()))
}

/// The algorithms of `--oidc-signing-algs`.
fn algorithms(options: &OidcOptions) -> Result<Vec<Algorithm>, Error> {
    let given = options.signing_algs.as_deref().unwrap_or_default();
    if given.is_empty() {
        return Ok(vec![Algorithm::Rs256]);
    }
    let read = |name: &String| {
        let unsupported = || Error::Flag(format!("oidc: unsupported signing alg: {}", quote(name)));
        Algorithm::of_name(name).ok_or_else(unsupported)
    };
    given.iter().map(read).collect()
}

/// Replaces the issuers when the file changes and the new ones are ready.
fn follow(path: &Path, content: Vec<u8>, issuers: Issuers, rules: Rules, anonymous: Option<Anonymous>) {
    let waiting: Mutex<Option<Task>> = Mutex::default();
    let replace = move |content: &[u8]| {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // What is not in use yet is not wanted any more.
        drop(waiting.take());
        let parsed = Authentication::parse(content, &rules)?;
        if parsed.anonymous != anonymous {
            return Err("anonymous: Forbidden: changed from initial configuration file".to_owned());
        }
        let prepared = issuers.prepare(parsed.issuers).map_err(|error| error.to_string())?;
        let (issuers, prepared) = (issuers.clone(), Arc::new(prepared));
        *waiting = Some(tasks::spawn(Name::IssuerReload, move || {
            replace_when_ready(issuers.clone(), prepared.clone())
        }));
        Ok(())
    };
    reload::on_change(path, content, move |content| {
        let outcome: Result<(), String> = replace(content);
        if outcome.is_err() {
            Configuration::Authentication.reloaded(false);
        }
        outcome
    });
}

/// Waits until all new issuers were found; until then those before stay.
async fn replace_when_ready(issuers: Issuers, prepared: Arc<Prepared>) -> Ended {
    let mut log_at = Instant::now() + PATIENCE;
    while let Err(why) = prepared.health() {
        if Instant::now() >= log_at {
            log::error!(error = why.as_str(); "the issuers of a changed authentication configuration are not ready; those before stay");
            log_at = Instant::now() + PATIENCE;
        }
        sleep(INTERVAL).await;
    }
    issuers.replace(&prepared);
    Configuration::Authentication.reloaded(true);
    log::info!("the issuers of a changed authentication configuration are in use");
    Ended::Done
}

#[cfg(test)]
mod tests;

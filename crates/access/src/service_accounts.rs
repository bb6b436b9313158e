//! The rules of the flags `--service-account-*`, with the texts of the reference.

use std::time::Duration;

use auth::config::url_fault;
use object::quote::quote;

use crate::ServiceAccountOptions;

/// A shorter limit makes no sense for the tokens of pods, which ask for this much.
const EXTENDED_LIFETIME_ASKED: u64 = 60 * 60 + 7;
const EXTENDED_LIFETIME: u64 = 365 * 24 * 60 * 60;

/// Refuses flags that contradict each other; otherwise says what to warn about.
pub fn check(options: &ServiceAccountOptions) -> Result<Vec<String>, String> {
    let longest = options.longest;
    let bounds = Duration::from_secs(60 * 60)..=Duration::from_secs(1 << 32);
    if !longest.is_zero() && !bounds.contains(&longest) {
        return Err("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds".into());
    }
    if let Some(endpoint) = &options.signing_endpoint {
        check_endpoint(options, endpoint)?;
    }
    for (at, issuer) in options.issuers.iter().enumerate() {
        if let Some(why) = url_fault(issuer).filter(|_| issuer.contains(':')) {
            let issuer = quote(issuer);
            return Err(format!(
                "service-account-issuer {issuer} contained a ':' but was not a valid URL: {why}"
            ));
        }
        if issuer.is_empty() {
            return Err("service-account-issuer should not be an empty string".into());
        }
        if options.issuers.iter().take(at).any(|before| before == issuer) {
            return Err(format!("service-account-issuer {} is already specified", quote(issuer)));
        }
    }
    if let Some(uri) = &options.jwks_uri {
        if let Some(why) = url_fault(uri) {
            return Err(format!("service-account-jwks-uri must be a valid URL: {why}"));
        }
        if !uri.split_once(':').is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("https")) {
            return Err(format!("service-account-jwks-uri requires https scheme, parsed as: {uri}"));
        }
    }
    if !options.key_files.is_empty() && options.signing_key_file.is_none() {
        return Err("--service-account-signing-key-file, --service-account-issuer, and --api-audiences should be specified together".into());
    }
    Ok(warnings(options))
}

/// Refuses an endpoint that is none, or that contradicts other flags.
fn check_endpoint(options: &ServiceAccountOptions, endpoint: &str) -> Result<(), String> {
    if options.signing_key_file.is_some() {
        return Err("service-account-signing-key-file and service-account-signing-endpoint are mutually exclusive and cannot be set at the same time".into());
    }
    if !options.key_files.is_empty() {
        return Err("can't set `--service-account-signing-key-file` and/or `--service-account-key-file` with `--service-account-signing-endpoint` (They are mutually exclusive)".into());
    }
    if !options.has_external_signers {
        return Err("setting `--service-account-signing-endpoint` requires enabling ExternalServiceAccountTokenSigner feature gate".into());
    }
    let is_path = endpoint.starts_with('/') && !endpoint.contains([' ', '\n']) && !endpoint.contains("//");
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let is_socket = endpoint.strip_prefix('@').is_some_and(|name| name.split('.').all(is_label));
    if is_path || is_socket {
        return Ok(());
    }
    Err(format!(
        "invalid value {} passed for `--service-account-signing-endpoint`, should be a valid location on the filesystem or must be prefixed with @ to name UDS in abstract namespace",
        quote(endpoint)
    ))
}

/// The longest lifetime of tokens that a program signs, which supports lifetimes up to `supported`, and of
/// extended ones, in seconds; with what to warn about. A flag that asks for more is refused.
pub fn lifetimes(
    options: &ServiceAccountOptions,
    supported: Duration,
) -> Result<(Duration, i64, Vec<String>), String> {
    let shown = object::duration::Duration::from;
    if options.longest > supported {
        return Err(format!(
            "service-account-max-token-expiration cannot be set longer than the token expiration supported by service-account-signing-endpoint: {} > {}",
            shown(options.longest),
            shown(supported)
        ));
    }
    let longest = if options.longest.is_zero() { supported } else { options.longest };
    let mut warnings = Vec::new();
    if options.extends && longest < Duration::from_secs(EXTENDED_LIFETIME_ASKED) {
        warnings.push(format!(
            "service-account-extend-token-expiration is true, in order to correctly trigger safe transition logic, token lifetime supported by external-jwt-signer must be longer than {EXTENDED_LIFETIME_ASKED} seconds (currently {})",
            shown(longest)
        ));
    }
    if options.extends && longest < Duration::from_secs(EXTENDED_LIFETIME) {
        warnings.push(format!(
            "service-account-extend-token-expiration is true, tokens validity will be caped at the smaller of {EXTENDED_LIFETIME} seconds and maximum token lifetime supported by external-jwt-signer ({})",
            shown(longest)
        ));
    }
    let extended = supported.as_secs().min(EXTENDED_LIFETIME);
    Ok((longest, i64::try_from(extended).unwrap_or(i64::MAX), warnings))
}

/// Limits that the tokens of pods do not keep to.
fn warnings(options: &ServiceAccountOptions) -> Vec<String> {
    let mut warnings = Vec::new();
    // The program behind an endpoint says which lifetimes it supports.
    if !options.extends || options.longest.is_zero() || options.signing_endpoint.is_some() {
        return warnings;
    }
    let longest = object::duration::Duration::from(options.longest);
    if options.longest < Duration::from_secs(EXTENDED_LIFETIME_ASKED) {
        warnings.push(format!(
            "service-account-extend-token-expiration is true, in order to correctly trigger safe transition logic, service-account-max-token-expiration must be set longer than {EXTENDED_LIFETIME_ASKED} seconds (currently {longest})"
        ));
    }
    if options.longest < Duration::from_secs(EXTENDED_LIFETIME) {
        warnings.push(format!(
            "service-account-extend-token-expiration is true, enabling tokens valid up to {EXTENDED_LIFETIME} seconds, which is longer than service-account-max-token-expiration set to {longest}"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut ServiceAccountOptions)) -> String {
        let mut options = ServiceAccountOptions::default();
        change(&mut options);
        check(&options).unwrap_err()
    }

    #[test]
    fn flags_of_service_accounts_are_refused_as_by_the_reference() {
        assert_eq!(check(&ServiceAccountOptions::default()), Ok(Vec::new()));
        let issuers = |issuers: &[&str]| {
            let issuers = issuers.iter().map(|issuer| (*issuer).to_owned()).collect();
            refusal(|options| options.issuers = issuers)
        };
        assert_eq!(issuers(&["a", "a"]), "service-account-issuer \"a\" is already specified");
        assert_eq!(issuers(&[""]), "service-account-issuer should not be an empty string");
        assert_eq!(
            issuers(&[":x"]),
            "service-account-issuer \":x\" contained a ':' but was not a valid URL: parse \":x\": missing protocol scheme"
        );
        assert_eq!(
            issuers(&["1:x"]),
            "service-account-issuer \"1:x\" contained a ':' but was not a valid URL: parse \"1:x\": first path segment in URL cannot contain colon"
        );
        assert_eq!(
            refusal(|options| options.jwks_uri = Some("http://k".into())),
            "service-account-jwks-uri requires https scheme, parsed as: http://k"
        );
        for seconds in [3599, (1 << 32) + 1] {
            assert_eq!(
                refusal(|options| options.longest = Duration::from_secs(seconds)),
                "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds"
            );
        }
        assert_eq!(
            refusal(|options| options.signing_endpoint = Some("/run/signer.sock".into())),
            "setting `--service-account-signing-endpoint` requires enabling ExternalServiceAccountTokenSigner feature gate"
        );
        assert!(
            refusal(|options| options.key_files = vec!["k".into()]).contains("should be specified together")
        );
    }

    #[test]
    fn endpoint_of_a_signer_is_a_socket_and_excludes_keys() {
        let at = |endpoint: &str| {
            let signing_endpoint = Some(endpoint.to_owned());
            check(&ServiceAccountOptions {
                signing_endpoint,
                has_external_signers: true,
                ..Default::default()
            })
        };
        for endpoint in ["/run/signer.sock", "/a/b/", "@signer", "@a.b-c_d"] {
            assert_eq!(at(endpoint), Ok(Vec::new()), "{endpoint}");
        }
        for endpoint in ["signer.sock", "unix:///run/s", "/run//s", "/run/a b", "@", "@a..b", "@a/b", ""] {
            let refused = at(endpoint).unwrap_err();
            assert!(refused.starts_with(&format!("invalid value \"{endpoint}\" passed for")), "{refused}");
        }
        let with = |change: fn(&mut ServiceAccountOptions)| {
            refusal(|options| {
                (options.signing_endpoint, options.has_external_signers) = (Some("/s".into()), true);
                change(options);
            })
        };
        assert!(with(|options| options.signing_key_file = Some("k".into())).contains("mutually exclusive"));
        assert!(with(|options| options.key_files = vec!["k".into()]).contains("They are mutually exclusive"));
    }

    #[test]
    fn program_that_signs_bounds_the_lifetimes() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        let of = |longest: u64, supported: u64| {
            lifetimes(
                &ServiceAccountOptions { longest: hours(longest), ..Default::default() },
                hours(supported),
            )
        };
        let (longest, extended, warnings) = of(0, 24).unwrap();
        assert_eq!((longest, extended, warnings.len()), (hours(24), 24 * 3600, 1));
        let (longest, extended, warnings) = of(1, 24 * 1000).unwrap();
        assert_eq!((longest, extended, warnings.len()), (hours(1), 365 * 24 * 3600, 2));
        assert_eq!(
            of(25, 24).unwrap_err(),
            "service-account-max-token-expiration cannot be set longer than the token expiration supported by service-account-signing-endpoint: 25h0m0s > 24h0m0s"
        );
    }

    #[test]
    fn limit_that_the_tokens_of_pods_exceed_is_warned_about() {
        let warnings = |hours: u64, extends: bool| {
            let longest = Duration::from_secs(hours * 3600);
            check(&ServiceAccountOptions { longest, extends, ..Default::default() }).unwrap()
        };
        assert_eq!(warnings(1, true).len(), 2);
        assert!(warnings(1, true)[0].ends_with("must be set longer than 3607 seconds (currently 1h0m0s)"));
        assert_eq!(warnings(2, true).len(), 1);
        assert!(warnings(2, false).is_empty());
        assert!(warnings(24 * 365, true).is_empty());
    }
}

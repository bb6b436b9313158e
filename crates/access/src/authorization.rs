//! What users may do, by the flags of a run: the modes of authorization.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use auth::abac::Abac;
use auth::config::authorization::{
    Authorizers, DEFAULT_AUTHORIZED_TTL, DEFAULT_UNAUTHORIZED_TTL, WebhookEntry,
};
use auth::node::Node;
use auth::rbac::Rbac;
use auth::{AlwaysAllow, AlwaysDeny, Authorize, Authorizer, webhook};
use cache::Cache;
use object::quote::quote;
use outbound::Backoff;

use crate::authentication::{Error, read};
use crate::families::Configuration;
use crate::reload;
use crate::{AccessOptions, AuthorizationOptions, AuthorizationWebhookOptions};

/// The modes of authorization when none are given.
const DEFAULT_MODES: [&str; 2] = ["Node", "RBAC"];

/// The modes of authorization.
const MODES: [&str; 6] = ["AlwaysAllow", "AlwaysDeny", "ABAC", "Webhook", "RBAC", "Node"];

/// The authorizer of `--authorization-config`, or of `--authorization-mode` and `--authorization-webhook-*`.
pub fn authorizer(options: &AccessOptions, cache: &Cache, rbac: &Arc<Rbac>) -> Result<Authorizer, Error> {
    let AuthorizationOptions { modes: given, config_file, webhook, .. } = &options.authorization;
    let mode = |mode: &str| authorize(mode, options, cache, rbac);
    let Some(path) = config_file else {
        check_modes(options)?;
        return Ok(Authorizer::new(modes(options).map(mode).collect::<Result<Vec<_>, _>>()?));
    };
    if given.is_some() || *webhook != AuthorizationWebhookOptions::default() {
        let why = "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined";
        return Err(Error::Flag(why.into()));
    }
    configured(path, mode)
}

/// The modes of the flags.
pub fn modes(options: &AccessOptions) -> impl Iterator<Item = &str> {
    let given = options.authorization.modes.as_deref();
    let default = given.is_none().then_some(DEFAULT_MODES);
    given.into_iter().flatten().map(String::as_str).chain(default.into_iter().flatten())
}

/// The checks of the flags `--authorization-*`.
fn check_modes(options: &AccessOptions) -> Result<(), Error> {
    let given: Vec<&str> = modes(options).collect();
    let AuthorizationOptions { policy_file, webhook, .. } = &options.authorization;
    let mut errors = Vec::new();
    if given.is_empty() {
        errors.push("at least one authorization-mode must be passed".to_owned());
    }
    for mode in &given {
        if !MODES.contains(mode) {
            errors.push(format!("authorization-mode {} is not a valid mode", quote(mode)));
        }
        if *mode == "ABAC" && policy_file.is_none() {
            errors.push("authorization-mode ABAC's authorization policy file not passed".to_owned());
        }
        if *mode == "Webhook" && webhook.config_file.is_none() {
            errors.push("authorization-mode Webhook's authorization config file not passed".to_owned());
        }
    }
    if policy_file.is_some() && !given.contains(&"ABAC") {
        errors.push("cannot specify --authorization-policy-file without mode ABAC".to_owned());
    }
    if webhook.config_file.is_some() && !given.contains(&"Webhook") {
        errors.push("cannot specify --authorization-webhook-config-file without mode Webhook".to_owned());
    }
    if given.iter().enumerate().any(|(at, mode)| given.iter().take(at).any(|before| before == mode)) {
        let all: Vec<String> = given.iter().map(|mode| quote(mode)).collect();
        errors.push(format!("authorization-mode [{}] has mode specified more than once", all.join(" ")));
    }
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(Error::Flag(one.clone())),
        several => Err(Error::Flag(format!("[{}]", several.join(", ")))),
    }
}

fn authorize(
    mode: &str,
    options: &AccessOptions,
    cache: &Cache,
    rbac: &Arc<Rbac>,
) -> Result<Arc<dyn Authorize>, Error> {
    match mode {
        "Node" => Ok(Arc::new(node(options, cache)?)),
        "RBAC" => Ok(rbac.clone()),
        "ABAC" => Ok(Arc::new(abac(options)?)),
        "Webhook" => Ok(webhook_of_flags(&options.authorization.webhook)?.open()?),
        _ => unconditional(mode).ok_or_else(|| unknown_mode(mode)),
    }
}

/// The modes that decide without looking.
fn unconditional(mode: &str) -> Option<Arc<dyn Authorize>> {
    match mode {
        "AlwaysAllow" => Some(Arc::new(AlwaysAllow)),
        "AlwaysDeny" => Some(Arc::new(AlwaysDeny)),
        _ => None,
    }
}

fn unknown_mode(mode: &str) -> Error {
    Error::Flag(format!("authorization-mode {} is not a valid mode", quote(mode)))
}

/// What kubelets may do, by the pods of their nodes.
fn node(options: &AccessOptions, cache: &Cache) -> Result<Node, Error> {
    let of = |resource: &'static str| cache.resource(resource).ok_or(Error::Missing(resource));
    let node = Node::new(of("pods")?, of("persistentvolumes")?, of("volumeattachments.storage.k8s.io")?);
    let node = match options.nodes_need_no_selectors {
        true => node.without_selectors(),
        false => node,
    };
    let node = match options.trust_bundles {
        true => node.with_trust_bundles(),
        false => node,
    };
    Ok(match options.dynamic_resource_allocation {
        true => node.with_slices(of("resourceslices.resource.k8s.io")?),
        false => node,
    })
}

/// The policies of `--authorization-policy-file`.
fn abac(options: &AccessOptions) -> Result<Abac, Error> {
    let path = options.authorization.policy_file.clone().unwrap_or_default();
    Abac::parse(&read(&path)?).map_err(|cause| Error::Policies { path, cause })
}

/// Roles and bindings, which also bound what users may grant where they do not decide.
pub fn rbac(cache: &Cache) -> Result<Arc<Rbac>, Error> {
    let of = |resource: &'static str| {
        cache.resource(&format!("{resource}.{}", auth::rbac::GROUP)).ok_or(Error::Missing(resource))
    };
    let rbac = Rbac::new(of("roles")?, of("clusterroles")?, of("rolebindings")?, of("clusterrolebindings")?);
    Ok(Arc::new(rbac))
}

/// The webhook of the flags `--authorization-webhook-*`.
fn webhook_of_flags(options: &AuthorizationWebhookOptions) -> Result<WebhookEntry, Error> {
    let Some(kubeconfig) = options.config_file.clone() else {
        let why = "authorization-mode Webhook's authorization config file not passed";
        return Err(Error::Flag(why.into()));
    };
    let version = options.version.as_deref().unwrap_or("v1beta1");
    let config = webhook::Config {
        version: version.parse().map_err(Error::Flag)?,
        authorized_ttl: options.authorized_ttl.unwrap_or(DEFAULT_AUTHORIZED_TTL),
        unauthorized_ttl: options.unauthorized_ttl.unwrap_or(DEFAULT_UNAUTHORIZED_TTL),
        timeout: Duration::from_secs(30),
        failure_policy: webhook::FailurePolicy::NoOpinion,
        backoff: Backoff::default(),
    };
    Ok(WebhookEntry {
        name: "webhook".into(),
        kubeconfig,
        config,
        conditions: webhook::Conditions::default(),
    })
}

/// The authorizer of a file, which is read again when it changes. `mode` gives the modes of the server; those
/// of the start stay.
fn configured(
    path: &Path,
    mode: impl Fn(&str) -> Result<Arc<dyn Authorize>, Error>,
) -> Result<Authorizer, Error> {
    let content = read(path)?.into_bytes();
    let started =
        Authorizers::parse(&content).map_err(|why| Error::Authorization { path: path.to_owned(), why })?;
    let modes: BTreeMap<String, Arc<dyn Authorize>> = started
        .modes()
        .into_iter()
        .map(|name| Ok((name.to_owned(), mode(name)?)))
        .collect::<Result<_, Error>>()?;
    let chain = move |authorizers: &Authorizers| {
        authorizers.chain(|name| match modes.get(name) {
            Some(mode) => Ok(mode.clone()),
            None => unconditional(name).ok_or_else(|| unknown_mode(name)),
        })
    };
    let authorizer = Authorizer::new(chain(&started)?);
    let (mut current, changed) = (started.clone(), authorizer.clone());
    let mut replace = move |content: &[u8]| {
        let new = Authorizers::parse(content)?;
        new.check_change(&started)?;
        // The same authorizers keep what they know.
        if new != current {
            changed.replace(chain(&new).map_err(|error| error.to_string())?);
            current = new;
        }
        Ok(())
    };
    reload::on_change(path, content, move |content| {
        let outcome: Result<(), String> = replace(content);
        Configuration::Authorization.reloaded(outcome.is_ok());
        outcome
    });
    Ok(authorizer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::User;

    #[test]
    fn wrong_modes_are_all_named() {
        let error = |options: &AccessOptions| check_modes(options).unwrap_err().to_string();
        assert_eq!(error(&AccessOptions::with_modes(&[])), "at least one authorization-mode must be passed");
        assert_eq!(
            error(&AccessOptions::with_modes(&["rbac"])),
            "authorization-mode \"rbac\" is not a valid mode"
        );
        assert_eq!(
            error(&AccessOptions::with_modes(&["RBAC", "ABAC"])),
            "authorization-mode ABAC's authorization policy file not passed"
        );
        assert_eq!(
            error(&AccessOptions::with_modes(&["Node", "", "Node"])),
            "[authorization-mode \"\" is not a valid mode, \
             authorization-mode [\"Node\" \"\" \"Node\"] has mode specified more than once]"
        );
        let mut unused = AccessOptions::with_modes(&["Node", "RBAC"]);
        assert!(check_modes(&unused).is_ok());
        unused.authorization.policy_file = Some("policies".into());
        assert_eq!(error(&unused), "cannot specify --authorization-policy-file without mode ABAC");
    }

    #[test]
    fn policy_file_is_read_and_its_faults_have_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("policies");
        let mut options = AccessOptions::with_modes(&["ABAC"]);
        options.authorization.policy_file = Some(path.clone());
        assert!(abac(&options).unwrap_err().to_string().contains("cannot be read"));
        std::fs::write(&path, "{\"user\":\"jane\"}\n{]\n").unwrap();
        let error = abac(&options).unwrap_err().to_string();
        let start = format!("error reading policy file {}, line 2: {{]: ", path.display());
        assert!(error.starts_with(&start), "{error}");
        std::fs::write(&path, "{\"user\":\"jane\"}\n").unwrap();
        assert!(abac(&options).is_ok());
    }

    #[test]
    fn flags_of_the_webhook_that_cannot_take_effect_are_errors() {
        let mut options = AccessOptions::with_modes(&["Webhook"]);
        let error = check_modes(&options).unwrap_err().to_string();
        assert_eq!(error, "authorization-mode Webhook's authorization config file not passed");
        options = AccessOptions::with_modes(&["RBAC"]);
        options.authorization.webhook.config_file = Some("x".into());
        let error = check_modes(&options).unwrap_err().to_string();
        assert_eq!(error, "cannot specify --authorization-webhook-config-file without mode Webhook");
        let old = AuthorizationWebhookOptions {
            config_file: Some("x".into()),
            version: Some("v1alpha1".into()),
            ..AuthorizationWebhookOptions::default()
        };
        assert_eq!(
            webhook_of_flags(&old).unwrap_err().to_string(),
            "unsupported webhook authorizer version \"v1alpha1\", supported versions are \"v1\", \"v1beta1\""
        );
    }

    /// The decision of the modes of a file.
    async fn decision(authorizer: &Authorizer) -> auth::Decision {
        authorizer.decide(&User::default(), &auth::Attributes::path("get", "/")).await.decision
    }

    #[tokio::test]
    async fn changes_of_the_authorization_configuration_take_effect_unless_they_are_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        let write = |authorizers: &str| {
            let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n";
            std::fs::write(&path, format!("{head}authorizers: {authorizers}\n")).unwrap();
        };
        let mode = |name: &str| -> Result<Arc<dyn Authorize>, Error> {
            match name {
                "AlwaysAllow" => Ok(Arc::new(AlwaysAllow)),
                _ => Ok(Arc::new(AlwaysDeny)),
            }
        };
        write("[{type: AlwaysDeny, name: wrong}]");
        let error = configured(&path, mode).unwrap_err().to_string();
        assert!(error.contains("config.yaml cannot be used: expected name alwaysdeny"), "{error}");
        write("[{type: RBAC, name: rbac}]");
        let authorizer = configured(&path, mode).unwrap();
        assert_eq!(decision(&authorizer).await, auth::Decision::NoOpinion);
        write("[{type: AlwaysAllow, name: alwaysallow}]");
        tokio::time::sleep(Duration::from_millis(1500)).await;
        // RBAC may not leave.
        assert_eq!(decision(&authorizer).await, auth::Decision::NoOpinion);
        write("[{type: RBAC, name: rbac}, {type: AlwaysAllow, name: alwaysallow}]");
        let mut waited = 0;
        while decision(&authorizer).await != auth::Decision::Allow {
            waited += 1;
            assert!(waited < 200, "the change has no effect");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    #[test]
    fn defaults_of_the_webhook_are_those_of_the_help() {
        let given = AuthorizationWebhookOptions {
            config_file: Some("x".into()),
            version: Some("v1beta1".into()),
            authorized_ttl: Some(Duration::from_secs(300)),
            unauthorized_ttl: Some(Duration::from_secs(30)),
        };
        let left_out =
            AuthorizationWebhookOptions { config_file: given.config_file.clone(), ..Default::default() };
        assert_eq!(webhook_of_flags(&given).unwrap(), webhook_of_flags(&left_out).unwrap());
    }
}

//! The authorizers of `--authorization-config`: a file with an `AuthorizationConfiguration`.
//!
//! The server does not start with an invalid file. An invalid change is logged, and the authorizers before it
//! stay.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::compiled;
use crate::Authorize;
use crate::webhook::{Conditions, Config, FailurePolicy, Version, Webhook};
use expressions::configuration::Scope;
use object::field::{Aggregate, Error as FieldError, List, Path as FieldPath};
use object::name;
use object::{Map, Value};
use outbound::{Backoff, Kubeconfig};
use schema::config_file;
use schema::view::View as _;
use schema::views::apiserver::v1::{
    AuthorizationConfiguration, AuthorizerConfiguration, WebhookConfiguration,
};

const VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];
/// All types of authorizers, sorted.
const TYPES: [&str; 6] = ["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];
/// Types that a change of the file cannot add.
const AT_START_ONLY: [&str; 3] = ["ABAC", "Node", "RBAC"];
/// The longest that a webhook may take.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);
const MOST_CONDITIONS: usize = 64;

/// The authorizers, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Authorizers(Vec<Entry>);

/// An authorizer.
#[derive(Clone, Debug, PartialEq)]
enum Entry {
    /// A mode of the server.
    Mode(String),
    /// Another server.
    Webhook(WebhookEntry),
}

/// A webhook, and the kubeconfig of its server.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookEntry {
    /// The name that its decisions are counted with.
    pub name: String,
    /// The path of the kubeconfig.
    pub kubeconfig: PathBuf,
    /// How the webhook is asked.
    pub config: Config,
    /// What has to hold of the requests that it is asked about.
    pub conditions: Conditions,
}

impl WebhookEntry {
    /// Reads the kubeconfig. Nothing is sent to the server yet.
    pub fn open(&self) -> Result<Arc<dyn Authorize>, outbound::KubeconfigError> {
        let server = Kubeconfig::read(&self.kubeconfig)?.endpoint()?;
        Ok(Arc::new(Webhook::new(server, self.config, self.conditions.clone()).named(self.name.clone())))
    }
}

impl Authorizers {
    /// Reads a file; the error lists what is wrong with it.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let value = decode(text)?;
        let empty = Map::new();
        let configuration = AuthorizationConfiguration::of(value.as_map().unwrap_or(&empty));
        let mut errors = List::new();
        let entries = validate(configuration, &mut errors);
        if let Some(errors) = Aggregate::new(errors) {
            return Err(errors.to_string());
        }
        let mut wrong = Vec::new();
        for authorizer in configuration.authorizers().iter() {
            let (kind, name) = (authorizer.r#type(), authorizer.name());
            let expected = kind.to_lowercase();
            if kind != "Webhook" && name != expected {
                wrong.push(format!("expected name {expected} for authorizer {kind} instead of {name}"));
            }
        }
        if !wrong.is_empty() {
            return Err(joined(wrong));
        }
        Ok(Self(entries))
    }

    /// Refuses a change of the modes that cannot change while the server runs.
    pub fn check_change(&self, started: &Self) -> Result<(), String> {
        let (now, before) = (self.modes(), started.modes());
        let missing: Vec<&str> = before.difference(&now).copied().collect();
        if !missing.is_empty() {
            return Err(format!("missing required types: [{}]", missing.join(" ")));
        }
        match now.difference(&before).find(|mode| AT_START_ONLY.contains(mode)) {
            Some(mode) => Err(format!(
                "authorizer type {mode} is not allowed if it was not enabled at initial server startup"
            )),
            None => Ok(()),
        }
    }

    /// The authorizers; `mode` gives those of the server.
    pub fn chain<E: From<outbound::KubeconfigError>>(
        &self,
        mode: impl Fn(&str) -> Result<Arc<dyn Authorize>, E>,
    ) -> Result<Vec<Arc<dyn Authorize>>, E> {
        let open = |entry: &Entry| match entry {
            Entry::Mode(name) => mode(name),
            Entry::Webhook(webhook) => Ok(webhook.open()?),
        };
        self.0.iter().map(open).collect()
    }

    /// The modes among the authorizers that are not webhooks.
    pub fn modes(&self) -> BTreeSet<&str> {
        let modes = self.0.iter().filter_map(|entry| match entry {
            Entry::Mode(name) => Some(name.as_str()),
            Entry::Webhook(_) => None,
        });
        modes.collect()
    }
}

/// Decodes a file. Unknown and duplicate fields are errors.
fn decode(text: &[u8]) -> Result<Value, String> {
    let failed = |why: String| format!("failed to load AuthorizationConfiguration from file: {why}");
    if text.is_empty() {
        return Ok(Map::new().into());
    }
    let (kind, ty) = ("AuthorizationConfiguration", AuthorizationConfiguration::schema());
    config_file::decode(text, kind, &VERSIONS, ty).map_err(failed)
}

fn joined(mut errors: Vec<String>) -> String {
    match errors.len() {
        1 => errors.remove(0),
        _ => format!("[{}]", errors.join(", ")),
    }
}

/// The valid authorizers; the errors of the others are added to `errors`.
fn validate(configuration: AuthorizationConfiguration<'_>, errors: &mut List) -> Vec<Entry> {
    let list = FieldPath::new("authorizers");
    if configuration.authorizers().is_empty() {
        errors.push(FieldError::required(&list, "at least one authorization mode must be defined"));
    }
    let (mut types, mut names) = (BTreeSet::new(), BTreeSet::new());
    let mut entries = Vec::new();
    for (at, authorizer) in configuration.authorizers().iter().enumerate() {
        let path = list.index(at);
        let kind = authorizer.r#type();
        let type_path = path.child("type");
        if kind.is_empty() {
            errors.push(FieldError::required(&type_path, ""));
            continue;
        }
        if !TYPES.contains(&kind) {
            errors.push(FieldError::not_supported(&type_path, kind, TYPES));
            continue;
        }
        if !types.insert(kind) && kind != "Webhook" {
            errors.push(FieldError::duplicate(&type_path, kind));
            continue;
        }
        validate_name(authorizer, &names, &path, errors);
        names.insert(authorizer.name());
        match (kind, authorizer.webhook()) {
            ("Webhook", None) => {
                errors.push(FieldError::required(&path.child("webhook"), "required when type=Webhook"));
            }
            ("Webhook", Some(webhook)) => {
                entries
                    .extend(validate_webhook(authorizer.name(), webhook, &path, errors).map(Entry::Webhook));
            }
            (_, Some(_)) => {
                let detail = "may only be specified when type=Webhook";
                errors.push(FieldError::invalid(&path.child("webhook"), "non-null", detail));
            }
            (_, None) => entries.push(Entry::Mode(kind.to_owned())),
        }
    }
    entries
}

fn validate_name(
    authorizer: AuthorizerConfiguration<'_>,
    names: &BTreeSet<&str>,
    path: &FieldPath<'_>,
    errors: &mut List,
) {
    let (name, path) = (authorizer.name(), path.child("name"));
    if name.is_empty() {
        errors.push(FieldError::required(&path, ""));
        return;
    }
    if names.contains(name) {
        errors.push(FieldError::duplicate(&path, name));
        return;
    }
    let faults = name::dns1123_subdomain(name);
    if !faults.is_empty() {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        let detail = format!("authorizer name is invalid: {}", faults.join(", "));
        errors.push(FieldError::invalid(&path, name, detail));
    }
}

/// A webhook, unless something is wrong with it. As in the reference, the paths leave out the field
/// `webhook`.
fn validate_webhook(
    name: &str,
    webhook: WebhookConfiguration<'_>,
    path: &FieldPath<'_>,
    errors: &mut List,
) -> Option<WebhookEntry> {
    let timeout = match duration(webhook.timeout()) {
        None | Some(object::duration::Duration::ZERO) => {
            errors.push(FieldError::required(&path.child("timeout"), ""));
            None
        }
        Some(given) => {
            let timeout = Duration::try_from(given).ok().filter(|timeout| *timeout <= LONGEST_TIMEOUT);
            if timeout.is_none() {
                let detail = "must be > 0s and <= 30s";
                errors.push(FieldError::invalid(&path.child("timeout"), given.to_string(), detail));
            }
            timeout
        }
    };
    let mut ttl = |field: &str, given: Option<&str>, default: Duration| match duration(given) {
        None | Some(object::duration::Duration::ZERO) => Some(default),
        Some(given) => {
            let ttl = Duration::try_from(given).ok();
            if ttl.is_none() {
                errors.push(FieldError::invalid(&path.child(field), given.to_string(), "must be > 0s"));
            }
            ttl
        }
    };
    let authorized_ttl = ttl("authorizedTTL", webhook.authorized_ttl(), DEFAULT_AUTHORIZED_TTL);
    let unauthorized_ttl = ttl("unauthorizedTTL", webhook.unauthorized_ttl(), DEFAULT_UNAUTHORIZED_TTL);
    let version = one_of(
        &path.child("subjectAccessReviewVersion"),
        webhook.subject_access_review_version(),
        &[("v1", Version::V1), ("v1beta1", Version::V1beta1)],
        errors,
    );
    let conditions_path = path.child("matchConditionSubjectAccessReviewVersion");
    match webhook.match_condition_subject_access_review_version() {
        "" if webhook.match_conditions().is_empty() => {}
        "" => {
            let detail = "required if match conditions are specified";
            errors.push(FieldError::required(&conditions_path, detail));
        }
        "v1" => {}
        other => errors.push(FieldError::not_supported(&conditions_path, other, ["v1"])),
    }
    let failure_policy = one_of(
        &path.child("failurePolicy"),
        webhook.failure_policy(),
        &[("NoOpinion", FailurePolicy::NoOpinion), ("Deny", FailurePolicy::Deny)],
        errors,
    );
    let kubeconfig = validate_connection(webhook, path, errors);
    let conditions = validate_conditions(webhook, path, errors);
    Some(WebhookEntry {
        name: name.to_owned(),
        kubeconfig: kubeconfig?,
        conditions,
        config: Config {
            version: version?,
            authorized_ttl: authorized_ttl?,
            unauthorized_ttl: unauthorized_ttl?,
            timeout: timeout?,
            failure_policy: failure_policy?,
            backoff: Backoff::default(),
        },
    })
}

/// How long answers that allow are kept, if nothing else is given.
pub const DEFAULT_AUTHORIZED_TTL: Duration = Duration::from_secs(300);
/// How long other answers are kept, if nothing else is given.
pub const DEFAULT_UNAUTHORIZED_TTL: Duration = Duration::from_secs(30);

fn duration(given: Option<&str>) -> Option<object::duration::Duration> {
    given.and_then(|text| text.parse().ok())
}

/// The meaning of a required word.
fn one_of<T: Copy>(path: &FieldPath<'_>, given: &str, words: &[(&str, T)], errors: &mut List) -> Option<T> {
    if given.is_empty() {
        errors.push(FieldError::required(path, ""));
        return None;
    }
    let found = words.iter().find(|(word, _)| *word == given);
    if found.is_none() {
        errors.push(FieldError::not_supported(path, given, words.iter().map(|(word, _)| *word)));
    }
    found.map(|(_, meaning)| *meaning)
}

/// The kubeconfig of a webhook.
fn validate_connection(
    webhook: WebhookConfiguration<'_>,
    path: &FieldPath<'_>,
    errors: &mut List,
) -> Option<PathBuf> {
    let info = webhook.connection_info();
    let info_path = path.child("connectionInfo");
    let (type_path, file_path) = (info_path.child("type"), info_path.child("kubeConfigFile"));
    let file = info.kube_config_file().unwrap_or_default();
    match info.r#type() {
        "" => errors.push(FieldError::required(&type_path, "")),
        "InClusterConfig" => {
            if info.kube_config_file().is_some() {
                let detail = "can only be set when type=KubeConfigFile";
                errors.push(FieldError::invalid(&file_path, file, detail));
            }
            let detail = "is not allowed for the API server";
            errors.push(FieldError::invalid(&type_path, "InClusterConfig", detail));
        }
        "KubeConfigFile" if file.is_empty() => errors.push(FieldError::required(&file_path, "")),
        "KubeConfigFile" if !Path::new(file).is_absolute() => {
            errors.push(FieldError::invalid(&file_path, file, "must be an absolute path"));
        }
        "KubeConfigFile" => match std::fs::metadata(file) {
            Err(error) => {
                let why = match error.kind() {
                    ErrorKind::NotFound => "no such file or directory".to_owned(),
                    ErrorKind::PermissionDenied => "permission denied".to_owned(),
                    _ => error.to_string(),
                };
                let detail = format!("error loading file: stat {file}: {why}");
                errors.push(FieldError::invalid(&file_path, file, detail));
            }
            Ok(metadata) if !metadata.is_file() => {
                errors.push(FieldError::invalid(&file_path, file, "must be a regular file"));
            }
            Ok(_) => return Some(file.into()),
        },
        other => {
            errors.push(FieldError::not_supported(&type_path, other, ["InClusterConfig", "KubeConfigFile"]));
        }
    }
    None
}

/// The valid match conditions.
fn validate_conditions(
    webhook: WebhookConfiguration<'_>,
    path: &FieldPath<'_>,
    errors: &mut List,
) -> Conditions {
    let conditions = webhook.match_conditions();
    let path = path.child("matchConditions");
    if conditions.len() > MOST_CONDITIONS {
        errors.push(FieldError::too_many(&path, Some(conditions.len()), Some(MOST_CONDITIONS)));
        return Conditions::default();
    }
    let mut seen = BTreeSet::new();
    let mut expressions = Vec::with_capacity(conditions.len());
    for (at, condition) in conditions.iter().enumerate() {
        let (item, text) = (path.index(at), condition.expression());
        let path = item.child("expression");
        if text.trim().is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else if !seen.insert(text) {
            errors.push(FieldError::duplicate(&path, text));
        } else {
            expressions.extend(compiled(Scope::Request.condition(text), text, &path, errors));
        }
    }
    Conditions::new(expressions)
}

#[cfg(test)]
mod tests;

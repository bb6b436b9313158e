//! Webhook configurations in the form in which requests use them: read once, when they change.

use super::conditions::Conditions;
use super::rules::Rule;
use kinds::label_selector;
use object::label::Selector;
use object::{Map, Text};
use outbound::{Endpoint, WebhookServer};
use schema::view::View as _;
use schema::views::admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration};
use schema::views::meta::v1::LabelSelector;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A configuration: its webhooks, in their order.
pub(crate) struct Configuration {
    pub(crate) webhooks: Vec<Arc<Webhook>>,
}

/// A webhook.
pub(crate) struct Webhook {
    /// The name of its configuration.
    pub(crate) configuration: Text,
    pub(crate) name: Text,
    /// Tells it from all other webhooks of its plugin.
    pub(crate) id: Text,
    pub(crate) rules: Vec<Rule>,
    pub(crate) match_policy: MatchPolicy,
    pub(crate) failure_policy: FailurePolicy,
    /// Or why it cannot be used.
    pub(crate) namespace_selector: Result<Selector, String>,
    /// Or why it cannot be used.
    pub(crate) object_selector: Result<Selector, String>,
    pub(crate) side_effects: SideEffects,
    pub(crate) timeout: Option<Duration>,
    /// The version of reviews; none if it accepts none that the server speaks.
    pub(crate) review_version: Option<ReviewVersion>,
    pub(crate) reinvocation: Reinvocation,
    pub(crate) conditions: Conditions,
    pub(crate) server: WebhookServer,
    /// Its connections, once it was asked something.
    pub(crate) connections: OnceLock<Result<Arc<Endpoint>, String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchPolicy {
    Exact,
    Equivalent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailurePolicy {
    Fail,
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SideEffects {
    NotGiven,
    /// None, or none for a dry run.
    NoneOnDryRun,
    Some,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReviewVersion {
    V1,
    V1beta1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reinvocation {
    Never,
    IfNeeded,
}

impl ReviewVersion {
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

impl Configuration {
    /// Reads a configuration of either kind: the fields have the same names.
    pub(crate) fn read(object: &Map) -> Option<Self> {
        let object = MutatingWebhookConfiguration::of(object);
        let name = object.metadata().name();
        let mut same: HashMap<&str, usize> = HashMap::new();
        let webhooks = object.webhooks().iter().map(|webhook| {
            let count = same.entry(webhook.name()).or_default();
            *count += 1;
            Arc::new(Webhook::new(webhook, name, *count))
        });
        Some(Self { webhooks: webhooks.collect() })
    }
}

impl Webhook {
    /// The `count`th webhook of its name.
    fn new(webhook: MutatingWebhook<'_>, configuration: &str, count: usize) -> Self {
        let name = webhook.name();
        let seconds = webhook.timeout_seconds().and_then(|seconds| u64::try_from(seconds).ok());
        Self {
            configuration: configuration.into(),
            name: name.into(),
            id: format!("{configuration}/{name}/{count}").into(),
            rules: webhook.rules().iter().map(Rule::new).collect(),
            match_policy: match webhook.match_policy() {
                Some("Equivalent") => MatchPolicy::Equivalent,
                _ => MatchPolicy::Exact,
            },
            failure_policy: match webhook.failure_policy() {
                Some("Ignore") => FailurePolicy::Ignore,
                _ => FailurePolicy::Fail,
            },
            namespace_selector: selector(webhook.namespace_selector()),
            object_selector: selector(webhook.object_selector()),
            side_effects: match webhook.side_effects() {
                None => SideEffects::NotGiven,
                Some("None" | "NoneOnDryRun") => SideEffects::NoneOnDryRun,
                Some(_) => SideEffects::Some,
            },
            timeout: seconds.map(Duration::from_secs),
            review_version: webhook.admission_review_versions().iter().find_map(|version| match version {
                "v1" => Some(ReviewVersion::V1),
                "v1beta1" => Some(ReviewVersion::V1beta1),
                _ => None,
            }),
            reinvocation: match webhook.reinvocation_policy() {
                Some("IfNeeded") => Reinvocation::IfNeeded,
                _ => Reinvocation::Never,
            },
            conditions: Conditions::new(webhook.match_conditions()),
            server: WebhookServer::new(webhook.client_config()),
            connections: OnceLock::new(),
        }
    }
}

/// Compiles a label selector; an absent selector matches nothing.
fn selector(selector: Option<LabelSelector<'_>>) -> Result<Selector, String> {
    match selector {
        None => Ok(Selector::nothing()),
        Some(selector) => label_selector::compile(selector).map_err(|error| error.to_string()),
    }
}

//! Webhook configurations in the form in which requests use them: read once, when they change.

use super::places::MOST_OF_WEBHOOK;
use crate::conditions::{Conditions, FailurePolicy};
use crate::matching::{Criteria, MatchPolicy, Rule, selector};
use expressions::admission::Scope;
use object::{Map, Text};
use outbound::{Endpoint, WebhookServer};
use schema::view::View as _;
use schema::views::admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;

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
    pub(crate) criteria: Criteria,
    pub(crate) failure_policy: FailurePolicy,
    pub(crate) side_effects: SideEffects,
    pub(crate) timeout: Option<Duration>,
    /// The version of reviews; none if it accepts none that the server speaks.
    pub(crate) review_version: Option<ReviewVersion>,
    pub(crate) reinvocation: Reinvocation,
    pub(crate) has_conditions: bool,
    /// Compiled for the first write that rules and selectors match.
    pub(crate) conditions: LazyLock<Conditions, Box<dyn FnOnce() -> Conditions + Send>>,
    pub(crate) server: WebhookServer,
    /// The questions that it may have under way.
    pub(crate) places: Semaphore,
    /// Its connections, once it was asked something.
    pub(crate) connections: OnceLock<Result<Arc<Endpoint>, String>>,
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
        let conditions = Conditions::texts(webhook.match_conditions());
        let seconds = webhook.timeout_seconds().and_then(|seconds| u64::try_from(seconds).ok());
        Self {
            configuration: configuration.into(),
            name: name.into(),
            id: format!("{configuration}/{name}/{count}").into(),
            criteria: Criteria {
                rules: webhook.rules().iter().map(Rule::new).collect(),
                excluded: Vec::new(),
                match_policy: MatchPolicy::of(webhook.match_policy()),
                namespace_selector: selector(webhook.namespace_selector()),
                object_selector: selector(webhook.object_selector()),
            },
            failure_policy: FailurePolicy::of(webhook.failure_policy()),
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
            has_conditions: !conditions.is_empty(),
            conditions: LazyLock::new(Box::new(move || {
                Conditions::compile(conditions.iter().map(|text| &**text), &Scope::of_conditions(false))
            })),
            server: WebhookServer::new(webhook.client_config()),
            places: Semaphore::new(MOST_OF_WEBHOOK),
            connections: OnceLock::new(),
        }
    }
}

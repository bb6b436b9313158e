//! Which webhooks are asked about a write.
//!
//! Rules come first, because they decide for most webhooks without a look at anything else. What the
//! reference finds out in another order has the same outcome: a webhook that its rules or a selector leave
//! out is left out, whatever else is wrong.

use super::configuration::{Configuration, MatchPolicy, Webhook};
use super::rules;
use crate::{Attributes, Lister, Operation};
use kinds::ResourceType;
use object::label::{Labels, Selector};
use object::{Map, Text, Value};
use schema::Status;
use std::sync::Arc;

/// A webhook that is asked.
pub(crate) struct Matched {
    pub(crate) webhook: Arc<Webhook>,
    /// The resource that its rules mean, if that is not the requested one.
    pub(crate) equivalent: Option<Arc<ResourceType>>,
}

impl Matched {
    /// The resource that the review is about.
    pub(crate) fn resource<'a>(&'a self, attributes: &'a Attributes<'_>) -> &'a ResourceType {
        self.equivalent.as_deref().unwrap_or(attributes.resource)
    }
}

/// The labels of namespaces.
pub(crate) type Namespaces = Lister<Vec<(Text, Text)>>;

/// Reads the labels of a namespace.
pub(crate) fn read_labels(namespace: &Map) -> Option<Vec<(Text, Text)>> {
    let labels = ObjectLabels::of(Some(namespace)).0.map(Map::iter).into_iter().flatten();
    Some(labels.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into()))).collect())
}

/// Finds the webhooks for one write.
pub(crate) struct Matcher<'a> {
    namespaces: &'a Namespaces,
    /// The other resources through which the object can be written, once a webhook asks for them.
    equivalents: Option<Vec<Arc<ResourceType>>>,
}

impl<'a> Matcher<'a> {
    pub(crate) fn new(namespaces: &'a Namespaces) -> Self {
        Self { namespaces, equivalents: None }
    }

    /// Whether a webhook is asked about a write, and about which resource.
    pub(crate) fn find(
        &mut self,
        webhook: &Arc<Webhook>,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<Option<Matched>, Status> {
        let Some(equivalent) = self.find_resource(webhook, attributes) else { return Ok(None) };
        let in_namespace = self.selects_namespace(webhook, attributes, object);
        if matches!(in_namespace, Ok(false)) {
            return Ok(None);
        }
        let is_selected = selects_object(webhook, attributes, object);
        if matches!(is_selected, Ok(false)) {
            return Ok(None);
        }
        in_namespace?;
        is_selected?;
        let resource = attributes.resource;
        match webhook.conditions.hold(webhook.failure_policy) {
            Ok(false) => Ok(None),
            Ok(true) => Ok(Some(Matched { webhook: webhook.clone(), equivalent })),
            Err(why) => {
                log::warn!(webhook = webhook.name.as_str(), configuration = webhook.configuration.as_str(), error = why.as_str(); "match conditions of a webhook could not be evaluated; the request is refused");
                Err(Status::forbidden(&resource.group, &resource.resource, attributes.name, &why))
            }
        }
    }

    /// The resource that the rules mean: the requested one (`Some(None)`), or one that is equivalent.
    fn find_resource(
        &mut self,
        webhook: &Webhook,
        attributes: &Attributes<'_>,
    ) -> Option<Option<Arc<ResourceType>>> {
        let request = rules::RuleSubject::of(attributes);
        let ResourceType { group, version, .. } = attributes.resource;
        // Equivalent resources differ in their groups and versions only.
        let candidates = || webhook.rules.iter().filter(|rule| rule.may_match(request));
        if candidates().any(|rule| rule.matches(group, version)) {
            return Some(None);
        }
        if webhook.match_policy == MatchPolicy::Exact || candidates().next().is_none() {
            return None;
        }
        let equivalents = self.equivalents.get_or_insert_with(|| attributes.request.equivalents());
        let mut found = candidates()
            .flat_map(|rule| equivalents.iter().filter(|other| rule.matches(&other.group, &other.version)));
        found.next().map(|other| Some(other.clone()))
    }

    fn selects_namespace(
        &self,
        webhook: &Webhook,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<bool, Status> {
        let namespace = namespace(attributes);
        if namespace.is_empty() && attributes.resource.resource != "namespaces" {
            return Ok(true);
        }
        let selector = webhook.namespace_selector.as_ref().map_err(|why| Status::internal_error(why))?;
        if selector.is_everything() {
            return Ok(true);
        }
        let is_written = attributes.resource.resource == "namespaces"
            && attributes.subresource.is_empty()
            && matches!(attributes.operation, Operation::Create | Operation::Update);
        if is_written {
            return Ok(selector.matches(&ObjectLabels::of(object.and_then(Value::as_map))));
        }
        match self.namespaces.get("", namespace) {
            Some(labels) => Ok(selector.matches_with(|key| {
                labels.iter().find(|(of, _)| of.as_str() == key).map(|(_, value)| value.as_str())
            })),
            None => Err(Status::not_found("", "namespaces", namespace)),
        }
    }
}

/// The namespace of a request. As in the reference, a request about a namespace is in that namespace.
pub(crate) fn namespace<'a>(attributes: &Attributes<'a>) -> &'a str {
    if attributes.is_resource("", "namespaces") { attributes.name } else { attributes.namespace }
}

fn selects_object(
    webhook: &Webhook,
    attributes: &Attributes<'_>,
    object: Option<&Value>,
) -> Result<bool, Status> {
    let selector = webhook.object_selector.as_ref().map_err(|why| Status::internal_error(why))?;
    Ok(selector.is_everything() || has(object, selector) || has(attributes.old, selector))
}

fn has(object: Option<&Value>, selector: &Selector) -> bool {
    object.is_some_and(|object| selector.matches(&ObjectLabels::of(object.as_map())))
}

/// The labels of an object.
struct ObjectLabels<'a>(Option<&'a Map>);

impl<'a> ObjectLabels<'a> {
    fn of(object: Option<&'a Map>) -> Self {
        let metadata = object.and_then(|object| object.get("metadata"));
        Self(metadata.and_then(|metadata| metadata.get("labels")).and_then(Value::as_map))
    }
}

impl Labels for ObjectLabels<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        self.0.and_then(|labels| labels.get(key)).and_then(Value::as_str)
    }

    fn all_labels(&self, each: &mut dyn FnMut(&str, &str) -> bool) -> bool {
        let mut labels = self.0.into_iter().flat_map(Map::iter);
        labels.all(|(key, value)| each(key, value.as_str().unwrap_or_default()))
    }
}

/// Whether a write is about a configuration of webhooks or a policy, which no webhook is asked about, so that
/// each can be mended.
pub(crate) fn is_exempt(attributes: &Attributes<'_>) -> bool {
    attributes.resource.group == "admissionregistration.k8s.io"
        && matches!(
            attributes.resource.kind.as_str(),
            "ValidatingWebhookConfiguration"
                | "MutatingWebhookConfiguration"
                | "ValidatingAdmissionPolicy"
                | "ValidatingAdmissionPolicyBinding"
                | "MutatingAdmissionPolicy"
                | "MutatingAdmissionPolicyBinding"
        )
}

/// The webhooks of all configurations, in their order.
pub(crate) fn webhooks(all: &[Arc<Configuration>]) -> impl Iterator<Item = &Arc<Webhook>> {
    all.iter().flat_map(|configuration| &configuration.webhooks)
}

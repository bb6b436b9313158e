//! Which webhooks and policies a write is matched by: their rules and selectors.
//!
//! Rules come first, because they decide for most webhooks without a look at anything else. What the
//! reference finds out in another order has the same outcome: what rules or a selector leave out is left out,
//! whatever else is wrong.

mod rules;

pub(crate) use rules::Rule;

use crate::{Attributes, Lister, Operation};
use kinds::{ResourceType, label_selector};
use object::label::{Labels, Selector};
use object::{Map, Text, Value};
use rules::RuleSubject;
use schema::Status;
use schema::view::Items;
use schema::views::admissionregistration::v1::{MatchResources, NamedRuleWithOperations};
use schema::views::meta::v1::LabelSelector;
use std::sync::Arc;

/// Rules and selectors, compiled.
pub(crate) struct Criteria {
    pub(crate) rules: Vec<Rule>,
    /// Rules that leave out what the others mean.
    pub(crate) excluded: Vec<Rule>,
    pub(crate) match_policy: MatchPolicy,
    /// Or why it cannot be used.
    pub(crate) namespace_selector: Result<Selector, String>,
    /// Or why it cannot be used.
    pub(crate) object_selector: Result<Selector, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchPolicy {
    Exact,
    Equivalent,
}

impl MatchPolicy {
    pub(crate) fn of(name: Option<&str>) -> Self {
        if name == Some("Equivalent") { Self::Equivalent } else { Self::Exact }
    }
}

impl Criteria {
    /// The criteria of a policy, or of a binding.
    pub(crate) fn of(resources: MatchResources<'_>) -> Self {
        let rules = |rules: Items<'_, NamedRuleWithOperations<'_>>| rules.iter().map(Rule::named).collect();
        Self {
            rules: rules(resources.resource_rules()),
            excluded: rules(resources.exclude_resource_rules()),
            match_policy: MatchPolicy::of(resources.match_policy()),
            namespace_selector: selector(resources.namespace_selector()),
            object_selector: selector(resources.object_selector()),
        }
    }
}

/// Compiles a label selector; an absent selector matches nothing.
pub(crate) fn selector(selector: Option<LabelSelector<'_>>) -> Result<Selector, String> {
    match selector {
        None => Ok(Selector::nothing()),
        Some(selector) => label_selector::compile(selector).map_err(|error| error.to_string()),
    }
}

/// The resource by which a write is matched.
#[derive(Clone)]
pub(crate) enum Matched {
    /// The requested one.
    Requested,
    /// One through which the same objects can be written.
    Equivalent(Arc<ResourceType>),
}

impl Matched {
    /// The resource itself.
    pub(crate) fn resource<'a>(&'a self, attributes: &'a Attributes<'_>) -> &'a ResourceType {
        match self {
            Self::Requested => attributes.resource,
            Self::Equivalent(other) => other,
        }
    }
}

/// The labels of namespaces.
pub(crate) type Namespaces = Lister<Vec<(Text, Text)>>;

/// Reads the labels of a namespace.
pub(crate) fn read_labels(namespace: &Map) -> Option<Vec<(Text, Text)>> {
    let labels = ObjectLabels::of(Some(namespace)).0.map(Map::iter).into_iter().flatten();
    Some(labels.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into()))).collect())
}

/// Matches one write.
pub(crate) struct Matcher<'a> {
    namespaces: &'a Namespaces,
    /// The other resources through which the object can be written, once rules ask for them.
    equivalents: Option<Vec<Arc<ResourceType>>>,
}

impl<'a> Matcher<'a> {
    pub(crate) fn new(namespaces: &'a Namespaces) -> Self {
        Self { namespaces, equivalents: None }
    }

    /// The resource by which a write is matched, or why that cannot be found out; `None` if it is not
    /// matched.
    pub(crate) fn find(
        &mut self,
        criteria: &Criteria,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<Option<Matched>, Status> {
        let Some(matched) = self.find_resource(&criteria.rules, criteria, attributes) else {
            return Ok(None);
        };
        if self.find_resource(&criteria.excluded, criteria, attributes).is_some() {
            return Ok(None);
        }
        let is_selected = self.is_selected(criteria, attributes, object)?;
        Ok(is_selected.then_some(matched))
    }

    /// Whether a write is matched by the criteria of a binding, whose rules may be absent.
    pub(crate) fn matches_binding(
        &mut self,
        criteria: &Criteria,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<bool, Status> {
        if !criteria.rules.is_empty() {
            return Ok(self.find(criteria, attributes, object)?.is_some());
        }
        if self.find_resource(&criteria.excluded, criteria, attributes).is_some() {
            return Ok(false);
        }
        self.is_selected(criteria, attributes, object)
    }

    /// Whether both selectors select the object.
    fn is_selected(
        &self,
        criteria: &Criteria,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<bool, Status> {
        let in_namespace = self.selects_namespace(criteria, attributes, object);
        if matches!(in_namespace, Ok(false)) {
            return Ok(false);
        }
        let is_selected = selects_object(criteria, attributes, object);
        if matches!(is_selected, Ok(false)) {
            return Ok(false);
        }
        in_namespace.and(is_selected)
    }

    /// The resource that rules mean: the requested one, or one that is equivalent.
    fn find_resource(
        &mut self,
        rules: &[Rule],
        criteria: &Criteria,
        attributes: &Attributes<'_>,
    ) -> Option<Matched> {
        let request = RuleSubject::of(attributes);
        let ResourceType { group, version, .. } = attributes.resource;
        // Equivalent resources differ in their groups and versions only.
        let candidates = || rules.iter().filter(|rule| rule.may_match(request));
        if candidates().any(|rule| rule.matches(group, version)) {
            return Some(Matched::Requested);
        }
        if criteria.match_policy == MatchPolicy::Exact || candidates().next().is_none() {
            return None;
        }
        let equivalents = self.equivalents.get_or_insert_with(|| attributes.request.equivalents());
        let mut found = candidates()
            .flat_map(|rule| equivalents.iter().filter(|other| rule.matches(&other.group, &other.version)));
        found.next().map(|other| Matched::Equivalent(other.clone()))
    }

    fn selects_namespace(
        &self,
        criteria: &Criteria,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<bool, Status> {
        let namespace = namespace(attributes);
        if namespace.is_empty() && attributes.resource.resource != "namespaces" {
            return Ok(true);
        }
        let selector = criteria.namespace_selector.as_ref().map_err(|why| Status::internal_error(why))?;
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
    criteria: &Criteria,
    attributes: &Attributes<'_>,
    object: Option<&Value>,
) -> Result<bool, Status> {
    let selector = criteria.object_selector.as_ref().map_err(|why| Status::internal_error(why))?;
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

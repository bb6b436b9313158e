//! The kinds of `admissionregistration.k8s.io`.

use crate::cells::UNSET;
use crate::defaults::{each, fill, fill_text, update_map, update_or_insert_map};
use crate::{
    About, Cell, Check, Column, Columns, Generation, Kind, MetadataRules, Rules, Scope, Strategy, Version,
    columns,
};
use object::field::List;
use object::{Map, Value};
use schema::view::View;
use schema::views::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use schema::views::meta::v1::LabelSelector;
use std::fmt::Write;

mod compilation;
mod mutating_admission_policy;
mod mutating_admission_policy_binding;
mod mutating_webhook_configuration;
mod policy;
#[cfg(test)]
mod tests;
mod validating_admission_policy;
mod validating_admission_policy_binding;
mod validating_webhook_configuration;
mod webhooks;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[
    &mutating_webhook_configuration::KIND,
    &validating_admission_policy::KIND,
    &validating_admission_policy_binding::KIND,
    &validating_webhook_configuration::KIND,
    &mutating_admission_policy::KIND,
    &mutating_admission_policy_binding::KIND,
];

/// The row of the group: what its kinds have in common.
const PLAIN: Kind = Kind {
    group: "admissionregistration.k8s.io",
    categories: &["api-extensions"],
    scope: Scope::Cluster,
    versions: &[Version::V1.introduced(16)],
    generation: Generation::Counted,
    metadata_rules: MetadataRules::General,
    update_checks: &[Check::Metadata, Check::Object],
    ..Kind::PLAIN
};

/// The strategy of the kinds of the group.
struct RegistrationStrategy {
    default: fn(&mut Map),
    /// The errors of an object, which takes the place of another one, but for those of its metadata.
    validate: fn(&Map, Option<&Map>) -> List,
}

impl Strategy for RegistrationStrategy {
    fn default(&self, object: &mut Map) {
        (self.default)(object);
    }

    fn validate_object(&self, object: &Map, old: Option<&Map>, _rules: &Rules<'_>) -> List {
        (self.validate)(object, old)
    }

    /// Only validating policies have a status.
    fn validate_status(&self, new: &Map, _old: &Map, _rules: &Rules<'_>) -> List {
        policy::validate_status(ValidatingAdmissionPolicy::of(new).status())
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// The columns of bindings of either kind; the fields that they show are the same.
const BINDING_COLUMNS: Columns = columns!(|object| {
    let spec = ValidatingAdmissionPolicyBinding::of(object).spec();
    let parameters = spec
        .param_ref()
        .map(|reference| parameters(reference.name(), reference.namespace(), reference.selector()));
} [
    Column::NAME => Cell::name(object),
    Column::text(
        "PolicyName",
        About::Text("PolicyName indicates the policy definition which the policy binding binded to"),
    ) => Cell::text(spec.policy_name()),
    Column::text(
        "ParamRef",
        About::Text("ParamRef indicates the param resource which sets the configration param"),
    ) => Cell::Text(parameters.unwrap_or_else(|| UNSET.into())),
    Column::AGE => Cell::age(object),
]);

/// The column with the kind of the parameters of a policy.
const PARAM_KIND: Column = Column::text(
    "ParamKind",
    About::Text("ParamKind specifies the kind of resources used to parameterize this policy"),
);

/// The kind of the parameters of a policy of either kind; the fields that it reads are the same.
fn param_kind(object: &Map) -> Cell {
    let kind = ValidatingAdmissionPolicy::of(object).spec().param_kind();
    let kind = kind.map(|kind| format!("{}/{}", kind.api_version(), kind.kind()));
    Cell::Text(kind.unwrap_or_else(|| UNSET.into()))
}

/// Sets the defaults of a policy of either kind.
fn default_policy(object: &mut Map) {
    update_or_insert_map(object, "spec", |spec| {
        fill_text(spec, "failurePolicy", "Fail");
        update_map(spec, "matchConstraints", match_resources);
    });
}

/// Sets the defaults of a webhook.
fn webhook(webhook: &mut Map) {
    fill_text(webhook, "failurePolicy", "Fail");
    fill_text(webhook, "matchPolicy", "Equivalent");
    fill(webhook, "namespaceSelector", Map::new());
    fill(webhook, "objectSelector", Map::new());
    fill(webhook, "timeoutSeconds", 10i64);
    each(webhook, "rules", rule);
    update_map(webhook, "clientConfig", |config| {
        update_map(config, "service", |service| fill(service, "port", 443i64))
    });
}

/// Sets those defaults of a webhook that `v1beta1` has in place of those of `v1`.
fn webhook_v1beta1(webhook: &mut Map) {
    fill_text(webhook, "failurePolicy", "Ignore");
    fill_text(webhook, "matchPolicy", "Exact");
    fill_text(webhook, "sideEffects", "Unknown");
    fill(webhook, "timeoutSeconds", 30i64);
    fill(webhook, "admissionReviewVersions", Value::from_iter(["v1beta1"]));
}

/// Sets the defaults of the match resources of a policy.
fn match_resources(resources: &mut Map) {
    fill_text(resources, "matchPolicy", "Equivalent");
    fill(resources, "namespaceSelector", Map::new());
    fill(resources, "objectSelector", Map::new());
    each(resources, "resourceRules", rule);
    each(resources, "excludeResourceRules", rule);
}

fn rule(rule: &mut Map) {
    fill_text(rule, "scope", "*");
}

/// The parameters of a binding. A selector is printed as the Go types of the reference print.
fn parameters(name: &str, namespace: &str, selector: Option<LabelSelector<'_>>) -> String {
    match (name, namespace, selector) {
        ("", _, None) => UNSET.into(),
        ("", _, Some(selector)) => spelled(selector),
        (name, "", _) => format!("*/{name}"),
        (name, namespace, _) => format!("{namespace}/{name}"),
    }
}

fn spelled(selector: LabelSelector<'_>) -> String {
    let mut labels: Vec<(&str, &str)> = selector.match_labels().iter().collect();
    labels.sort_unstable();
    let mut out = String::from("&LabelSelector{MatchLabels:map[string]string{");
    for (key, value) in labels {
        let _ = write!(out, "{key}: {value},");
    }
    out.push_str("},MatchExpressions:[]LabelSelectorRequirement{");
    for expression in selector.match_expressions().iter() {
        let values = crate::cells::joined(expression.values().iter(), " ");
        let _ = write!(
            out,
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},",
            expression.key(),
            expression.operator()
        );
    }
    out.push_str("},}");
    out
}

//! The kinds of `admissionregistration.k8s.io`.

use crate::Kind;
use crate::defaults::{at, each, fill, fill_text};
use object::Map;
use schema::views::meta::v1::LabelSelector;
use std::fmt::Write;

mod mutating_admission_policy;
mod mutating_admission_policy_binding;
mod mutating_webhook_configuration;
mod policy;
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

/// Sets the defaults of a webhook.
fn webhook(webhook: &mut Map) {
    fill_text(webhook, "failurePolicy", "Fail");
    fill_text(webhook, "matchPolicy", "Equivalent");
    fill(webhook, "namespaceSelector", Map::new());
    fill(webhook, "objectSelector", Map::new());
    fill(webhook, "timeoutSeconds", 10i64);
    each(webhook, "rules", rule);
    at(webhook, "clientConfig", |config| at(config, "service", |service| fill(service, "port", 443i64)));
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
        ("", _, None) => crate::cells::UNSET.into(),
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

//! `networkpolicies`.

use super::network_policy_rules;
use crate::cells::selector;
use crate::defaults::{each, fill, fill_text, update_or_insert_map};
use crate::{About, Cell, Column, Generation, Kind, OldVersion, Rules, Strategy, Version, columns};
use object::field::List;
use object::{Map, Value};
use schema::view::View;
use schema::views::networking::v1::NetworkPolicy;
use std::collections::HashSet;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "networking.k8s.io",
    resource: "networkpolicies",
    singular: "networkpolicy",
    kind: "NetworkPolicy",
    short_names: &["netpol"],
    versions: &[Version::V1.introduced(7)],
    old_versions: &[OldVersion::named("extensions/v1beta1")
        .by(|object| update_or_insert_map(object, "spec", policy_types))],
    columns: columns!(|object| [
        Column::NAME => Cell::name(object),
        Column::text(
            "Pod-Selector",
            About::Text(
                "Selects the pods to which this NetworkPolicy object applies.  The array of ingress rules is \
                 applied to any pods selected by this field. Multiple network policies can select the same set \
                 of pods.  In this case, the ingress rules for each are combined additively. This field is NOT \
                 optional and follows standard label selector semantics. An empty podSelector matches all pods \
                 in this namespace.",
            ),
        ) => selector(Some(NetworkPolicy::of(object).spec().pod_selector())),
        Column::AGE => Cell::age(object),
    ]),
    generation: Generation::Counted,
    strategy: &NetworkPolicyStrategy,
    ..Kind::PLAIN
};

/// Sets the default of the policy types.
fn policy_types(spec: &mut Map) {
    let types = ["Ingress", "Egress"];
    let egress = spec.contains_key("egress");
    fill(spec, "policyTypes", Value::from_iter(types.into_iter().take(1 + usize::from(egress))));
}

struct NetworkPolicyStrategy;

impl Strategy for NetworkPolicyStrategy {
    fn default(&self, object: &mut Map) {
        update_or_insert_map(object, "spec", |spec| {
            for direction in ["ingress", "egress"] {
                each(spec, direction, |rule| {
                    each(rule, "ports", |port| fill_text(port, "protocol", "TCP"));
                });
            }
            policy_types(spec);
        });
    }

    fn validate_create(&self, object: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata(object);
        errors.append(network_policy_rules::validate(NetworkPolicy::of(object)));
        errors
    }

    /// The new policy is checked twice. Only the second time may networks of the old one stay as they are.
    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let (policy, before) = (NetworkPolicy::of(new), NetworkPolicy::of(old));
        let mut errors = rules.metadata(new);
        errors.append(network_policy_rules::validate_after(policy, before, &HashSet::new()));
        errors.append(rules.metadata_update(new, old));
        errors.append(network_policy_rules::validate_after(
            policy,
            before,
            &network_policy_rules::networks(before),
        ));
        errors
    }

    fn warnings(&self, new: &Map, _old: Option<&Map>) -> Vec<String> {
        network_policy_rules::warnings(NetworkPolicy::of(new))
    }
}

//! `runtimeclasses`.

use crate::core::resources::{self, HugePages};
use crate::core::{node_selector, tolerations};
use crate::{
    About, Cell, Check, Column, Kind, MetadataRules, OldVersion, Rules, Scope, Strategy, Version, checks,
    columns,
};
use object::field::{Error, List, Path};
use object::name::{dns1123_label, invalid, label_key, label_value};
use object::{Key, Map, Value};
use schema::view::View;
use schema::views::node::v1::{RuntimeClass, Scheduling};
use schema::views::node::v1alpha1;
use std::collections::HashSet;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "node.k8s.io",
    resource: "runtimeclasses",
    singular: "runtimeclass",
    kind: "RuntimeClass",
    versions: &[Version::V1.introduced(20)],
    old_versions: &[
        OldVersion::named("node.k8s.io/v1beta1"),
        OldVersion::named("node.k8s.io/v1alpha1").of(v1alpha1::RuntimeClass::schema).by(upgrade),
    ],
    scope: Scope::Cluster,
    columns: columns!(|object| [
        Column::NAME => Cell::name(object),
        Column::text("Handler", About::Text("")) => Cell::text(RuntimeClass::of(object).handler()),
        Column::AGE => Cell::age(object),
    ]),
    metadata_rules: MetadataRules::General,
    update_checks: &[Check::Metadata, Check::Object, Check::MetadataChange, Check::Change],
    strategy: &RuntimeClassStrategy,
    ..Kind::PLAIN
};

/// Converts a class of `v1alpha1`, which has its fields in a spec.
fn upgrade(object: &mut Map) {
    let Some(Value::Map(spec)) = object.remove("spec") else { return };
    for (key, value) in spec {
        let key = if key == "runtimeHandler" { Key::known("handler") } else { key };
        object.insert(key, value);
    }
}

struct RuntimeClassStrategy;

impl Strategy for RuntimeClassStrategy {
    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn validate_object(&self, object: &Map, _old: Option<&Map>, _rules: &Rules<'_>) -> List {
        let mut errors = List::new();
        let class = RuntimeClass::of(object);
        let handler = class.handler();
        errors.append(invalid(&Path::new("handler"), handler, dns1123_label(handler)));
        if let Some(overhead) = class.overhead() {
            let path = Path::new("overhead");
            errors.append(resources::overhead(overhead.pod_fixed(), HugePages::Whole, &path));
        }
        if let Some(scheduling) = class.scheduling() {
            errors.append(validate_scheduling(scheduling, &Path::new("scheduling")));
        }
        errors
    }

    fn validate_change(&self, new: &Map, old: &Map) -> List {
        let handler = |object| RuntimeClass::of(object).handler();
        checks::same_text(handler(new), handler(old), &Path::new("handler")).into_iter().collect()
    }

    fn warnings(&self, new: &Map, _old: Option<&Map>) -> Vec<String> {
        let Some(scheduling) = RuntimeClass::of(new).scheduling() else { return Vec::new() };
        let deprecated =
            scheduling.node_selector().iter().filter_map(|(key, _)| node_selector::deprecated_label(key));
        deprecated.map(|why| format!("scheduling.nodeSelector: {why}")).collect()
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

fn validate_scheduling(scheduling: Scheduling<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let selector_path = path.child("nodeSelector");
    for (key, value) in scheduling.node_selector().iter() {
        errors.append(invalid(&selector_path, key, label_key(key)));
        errors.append(invalid(&selector_path, value, label_value(value)));
    }
    let path = path.child("tolerations");
    let all = scheduling.tolerations();
    // The reference names the field twice.
    errors.append(tolerations::validate(all, &path.child("tolerations")));
    let mut seen = HashSet::new();
    for (at, toleration) in all.iter().enumerate() {
        let key = (toleration.key(), toleration.operator(), toleration.value(), toleration.effect());
        if !seen.insert(key) {
            let shown = checks::shown(all.values().get(at));
            errors.push(Error::duplicate(&path.index(at), shown));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update, warnings};

    fn class(rest: &str) -> String {
        format!(r#"{{"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass",{rest}}}"#)
    }

    #[test]
    fn handler_overhead_and_scheduling_are_checked() {
        assert_eq!(create(&class(r#""handler":"h""#)), [""; 0]);
        assert_eq!(
            create(&class(
                r#""handler":"a.b","overhead":{"podFixed":{"cpu":"-1"}},"scheduling":{"nodeSelector":{"a":"-"},"tolerations":[{"key":"a","operator":"Exists","value":"x"},{"key":"a","operator":"Exists","value":"x"}]}"#
            ))
            .iter()
            .map(|error| error.split(": ").next().unwrap())
            .collect::<Vec<_>>(),
            [
                "handler",
                "overhead.limits[cpu]",
                "scheduling.nodeSelector",
                "scheduling.tolerations.tolerations[0].operator",
                "scheduling.tolerations.tolerations[1].operator",
                "scheduling.tolerations[1]",
            ]
        );
        assert_eq!(
            update(&class(r#""handler":"other""#), &class(r#""handler":"h""#)),
            [r#"handler: Invalid value: "other": field is immutable"#]
        );
    }

    #[test]
    fn deprecated_labels_of_nodes_are_warned_of() {
        let class = class(r#""handler":"h","scheduling":{"nodeSelector":{"beta.kubernetes.io/os":"linux"}}"#);
        assert_eq!(
            warnings(&class, None),
            [r#"scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/os" instead"#]
        );
    }
}

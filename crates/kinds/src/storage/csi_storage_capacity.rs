//! `csistoragecapacities`.

use crate::core::node_selector::deprecated_label;
use crate::core::persistent_volume::rules::class_name;
use crate::core::resources::{amount, non_negative};
use crate::label_selector::{self, Values};
use crate::{Kind, OldVersion, Rules, Strategy, Version, checks};
use object::Map;
use object::field::{Error, List, Path};
use schema::view::View;
use schema::views::storage::v1::CSIStorageCapacity;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "storage.k8s.io",
    resource: "csistoragecapacities",
    singular: "csistoragecapacity",
    kind: "CSIStorageCapacity",
    versions: &[Version::V1.introduced(24)],
    old_versions: &[
        OldVersion::named("storage.k8s.io/v1beta1"),
        OldVersion::named("storage.k8s.io/v1alpha1"),
    ],
    strategy: &CSIStorageCapacityStrategy,
    ..Kind::PLAIN
};

struct CSIStorageCapacityStrategy;

impl Strategy for CSIStorageCapacityStrategy {
    fn validate_create(&self, object: &Map, rules: &Rules<'_>) -> List {
        validate(object, Values::Checked, rules)
    }

    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let before = topology(CSIStorageCapacity::of(old), Values::Checked);
        let values = if before.is_empty() { Values::Checked } else { Values::Unchecked };
        let mut errors = validate(new, values, rules);
        errors.append(rules.metadata_update(new, old));
        let key = "nodeTopology";
        errors.extend(checks::immutable(new.get(key), old.get(key), &Path::new(key)));
        let class = CSIStorageCapacity::of(new).storage_class_name();
        if class != CSIStorageCapacity::of(old).storage_class_name() {
            errors.push(Error::invalid(&Path::new("storageClassName"), class, "field is immutable"));
        }
        errors
    }

    fn warnings(&self, new: &Map, _old: Option<&Map>) -> Vec<String> {
        let Some(selector) = CSIStorageCapacity::of(new).node_topology() else { return Vec::new() };
        let expressions = selector.match_expressions().iter().enumerate().filter_map(|(at, expression)| {
            let (key, why) = (expression.key(), deprecated_label(expression.key())?);
            Some(format!("nodeTopology.matchExpressions[{at}].key: {key} is {why}"))
        });
        let labels = selector.match_labels().iter().filter_map(|(key, _)| {
            Some(format!("nodeTopology.matchLabels.{key}: {}", deprecated_label(key)?))
        });
        expressions.chain(labels).collect()
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// The field errors of the state of a capacity.
fn validate(object: &Map, values: Values, rules: &Rules<'_>) -> List {
    let mut errors = rules.metadata(object);
    let capacity = CSIStorageCapacity::of(object);
    errors.append(topology(capacity, values));
    errors.append(class_name(capacity.storage_class_name(), &Path::new("storageClassName")));
    if let Some(text) = capacity.capacity() {
        errors.extend(non_negative(&amount(text), &Path::new("capacity")));
    }
    errors
}

fn topology(capacity: CSIStorageCapacity<'_>, values: Values) -> List {
    let path = Path::new("nodeTopology");
    capacity
        .node_topology()
        .map(|selector| label_selector::validate(selector, values, &path))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update, warnings};

    fn capacity(fields: &str) -> String {
        format!(
            r#"{{"apiVersion":"storage.k8s.io/v1","kind":"CSIStorageCapacity","storageClassName":"a",{fields}}}"#
        )
    }

    #[test]
    fn capacity_is_not_negative_and_its_place_does_not_change() {
        let bad = capacity(r#""capacity":"-1Gi","maximumVolumeSize":"-1""#);
        let negative = r#"capacity: Invalid value: "-1Gi": must be greater than or equal to 0"#;
        assert_eq!(create(&bad), [negative]);
        let old = capacity(r#""nodeTopology":{"matchLabels":{"a":"b"}}"#);
        let immutable = r#"nodeTopology: Invalid value: "null": field is immutable"#;
        assert_eq!(update(&bad, &old), [negative, immutable]);
        let classless = old.replace(r#""storageClassName":"a","#, "");
        assert!(
            update(&classless, &old)
                .contains(&r#"storageClassName: Invalid value: "": field is immutable"#.to_owned())
        );
    }

    #[test]
    fn deprecated_labels_of_nodes_are_warned_of() {
        let selector = r#""nodeTopology":{"matchLabels":{"beta.kubernetes.io/os":"a"},"matchExpressions":[{"key":"beta.kubernetes.io/arch","operator":"Exists"}]}"#;
        assert_eq!(
            warnings(&capacity(selector), None),
            [
                r#"nodeTopology.matchExpressions[0].key: beta.kubernetes.io/arch is deprecated since v1.14; use "kubernetes.io/arch" instead"#,
                r#"nodeTopology.matchLabels.beta.kubernetes.io/os: deprecated since v1.14; use "kubernetes.io/os" instead"#,
            ]
        );
    }
}

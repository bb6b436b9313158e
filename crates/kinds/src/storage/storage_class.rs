//! `storageclasses`.

use super::{fixed, parameters, provisioner};
use crate::cells::{name_or_default, text_or};
use crate::core::node_selector::{Topology, deprecated_label, topology_term};
use crate::defaults::fill_text;
use crate::{
    About, Cell, Check, Column, Deleted, Kind, OldVersion, Rules, Scope, Strategy, Version, checks, columns,
};
use object::Map;
use object::field::{Error, List, Path};
use schema::view::{Items, View};
use schema::views::core::v1::TopologySelectorTerm;
use schema::views::storage::v1::StorageClass;
use std::collections::HashMap;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "storage.k8s.io",
    resource: "storageclasses",
    singular: "storageclass",
    kind: "StorageClass",
    short_names: &["sc"],
    versions: &[Version::V1.introduced(6)],
    old_versions: &[OldVersion::named("storage.k8s.io/v1beta1")],
    scope: Scope::Cluster,
    columns: columns!(|object| {
        let class = StorageClass::of(object);
    } [
        Column::NAME => name_or_default(object, DEFAULT_MARKS),
        Column::text("Provisioner", About::Field("storage.v1.StorageClass", "provisioner"))
            => Cell::text(class.provisioner()),
        Column::text("ReclaimPolicy", About::Field("storage.v1.StorageClass", "reclaimPolicy"))
            => text_or(class.reclaim_policy(), "Delete"),
        Column::text("VolumeBindingMode", About::Field("storage.v1.StorageClass", "volumeBindingMode"))
            => text_or(class.volume_binding_mode(), "Immediate"),
        Column::text("AllowVolumeExpansion", About::Field("storage.v1.StorageClass", "allowVolumeExpansion"))
            => Cell::Bool(class.allow_volume_expansion().unwrap_or_default()),
        Column::AGE => Cell::age(object),
    ]),
    deleted: Deleted::Object,
    update_checks: &[Check::Metadata, Check::Object, Check::MetadataChange, Check::Change],
    strategy: &StorageClassStrategy,
    ..Kind::PLAIN
};

const DEFAULT_MARKS: &[&str] =
    &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

const RECLAIM_POLICIES: &[&str] = &["Delete", "Retain"];
const BINDING_MODES: &[&str] = &["Immediate", "WaitForFirstConsumer"];

struct StorageClassStrategy;

impl Strategy for StorageClassStrategy {
    fn default(&self, object: &mut Map) {
        fill_text(object, "reclaimPolicy", "Delete");
        fill_text(object, "volumeBindingMode", "Immediate");
    }

    fn validate_object(&self, object: &Map, _old: Option<&Map>, _rules: &Rules<'_>) -> List {
        let class = StorageClass::of(object);
        let mut errors = List::new();
        errors.append(provisioner(class.provisioner(), &Path::new("provisioner")));
        errors.append(parameters(class.parameters(), &Path::new("parameters")));
        if let Some(policy) = class.reclaim_policy().filter(|policy| !policy.is_empty()) {
            errors.extend(checks::one_of(policy, RECLAIM_POLICIES, &Path::new("reclaimPolicy")));
        }
        let path = Path::new("volumeBindingMode");
        errors.extend(match class.volume_binding_mode() {
            None => Some(Error::required(&path, "")),
            Some(mode) => checks::one_of(mode, BINDING_MODES, &path),
        });
        errors.append(topologies(class.allowed_topologies(), &Path::new("allowedTopologies")));
        errors
    }

    fn validate_change(&self, new: &Map, old: &Map) -> List {
        let mut errors: List = ["parameters", "provisioner", "reclaimPolicy"]
            .into_iter()
            .filter_map(|key| fixed(key, new, old))
            .collect();
        let key = "volumeBindingMode";
        errors.extend(checks::immutable(new.get(key), old.get(key), &Path::new(key)));
        errors
    }

    fn warnings(&self, new: &Map, _old: Option<&Map>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (at, term) in StorageClass::of(new).allowed_topologies().iter().enumerate() {
            for (own, expression) in term.match_label_expressions().iter().enumerate() {
                if let Some(why) = deprecated_label(expression.key()) {
                    warnings.push(format!("allowedTopologies[{at}].matchLabelExpressions[{own}].key: {why}"));
                }
            }
        }
        warnings
    }
}

/// No two terms are the same. The reference compares each term with as many empty ones as there are terms,
/// too.
fn topologies(terms: Items<'_, TopologySelectorTerm<'_>>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut seen: HashMap<Topology<'_>, usize> = HashMap::from([(Topology::new(), terms.len())]);
    for (at, term) in terms.iter().enumerate() {
        let path = path.index(at);
        let (topology, own) = topology_term(term, &path);
        errors.append(own);
        let equal = seen.entry(topology).or_default();
        for _ in 0..*equal {
            if errors.left_out() > 0 {
                break;
            }
            errors.push(Error::duplicate(&path.child("matchLabelExpressions"), ""));
        }
        *equal += 1;
    }
    errors
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update, warnings};

    fn class(fields: &str) -> String {
        format!(r#"{{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass",{fields}}}"#)
    }

    #[test]
    fn provisioner_parameters_and_modes_are_checked() {
        let errors =
            create(&class(r#""parameters":{"":"x"},"reclaimPolicy":"Recycle","volumeBindingMode":"Later""#));
        assert_eq!(
            errors,
            [
                "provisioner: Required value",
                r#"parameters: Invalid value: "": field can not be empty."#,
                r#"reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain""#,
                r#"volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer""#,
            ]
        );
        let many: Vec<String> = (0..513).map(|at| format!(r#""p{at}":"""#)).collect();
        let errors = create(&class(&format!(r#""provisioner":"a","parameters":{{{}}}"#, many.join(","))));
        assert_eq!(errors, ["parameters: Too long: may not be more than 512 bytes"]);
        let large = format!(r#""provisioner":"a","parameters":{{"p":"{}"}}"#, "x".repeat(256 << 10));
        assert_eq!(create(&class(&large)), ["parameters: Too long: may not be more than 262144 bytes"]);
    }

    #[test]
    fn terms_are_not_repeated_or_empty() {
        let term = r#"{"matchLabelExpressions":[{"key":"a","values":["x"]}]}"#;
        let errors =
            create(&class(&format!(r#""provisioner":"a","allowedTopologies":[{term},{{}},{term}]"#)));
        let duplicate =
            |at: usize| format!(r#"allowedTopologies[{at}].matchLabelExpressions: Duplicate value: """#);
        assert_eq!(errors, [duplicate(1), duplicate(1), duplicate(1), duplicate(2)]);
    }

    #[test]
    fn only_expansion_options_and_topologies_change() {
        let old = class(r#""provisioner":"a","parameters":{"a":"b"}"#);
        assert!(
            update(&class(r#""provisioner":"a","parameters":{"a":"b"},"allowVolumeExpansion":true"#), &old)
                .is_empty()
        );
        assert_eq!(
            update(
                &class(
                    r#""provisioner":"b","reclaimPolicy":"Retain","volumeBindingMode":"WaitForFirstConsumer""#
                ),
                &old
            ),
            [
                "parameters: Forbidden: updates to parameters are forbidden.",
                "provisioner: Forbidden: updates to provisioner are forbidden.",
                "reclaimPolicy: Forbidden: updates to reclaimPolicy are forbidden.",
                r#"volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable"#,
            ]
        );
    }

    #[test]
    fn deprecated_labels_of_nodes_are_warned_of() {
        let key = "failure-domain.beta.kubernetes.io/zone";
        let terms = format!(
            r#""provisioner":"a","allowedTopologies":[{{"matchLabelExpressions":[{{"key":"{key}","values":["x"]}}]}}]"#
        );
        assert_eq!(
            warnings(&class(&terms), None),
            [
                r#"allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#
            ]
        );
    }
}

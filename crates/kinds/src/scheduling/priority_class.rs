//! `priorityclasses`.

use crate::cells::boolean;
use crate::defaults::fill_text;
use crate::{
    About, Cell, Check, Column, Generation, Kind, OldVersion, Rules, Scope, Strategy, Version, checks,
    columns, metadata,
};
use object::Map;
use object::field::{Error, List, Path};
use schema::view::View;
use schema::views::scheduling::v1::PriorityClass;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "scheduling.k8s.io",
    resource: "priorityclasses",
    singular: "priorityclass",
    kind: "PriorityClass",
    short_names: &["pc"],
    versions: &[Version::V1.introduced(14)],
    old_versions: &[
        OldVersion::named("scheduling.k8s.io/v1beta1"),
        OldVersion::named("scheduling.k8s.io/v1alpha1"),
    ],
    scope: Scope::Cluster,
    columns: columns!(|object| {
        let class = PriorityClass::of(object);
    } [
        Column::NAME => Cell::name(object),
        Column::integer("Value", About::Field("scheduling.v1.PriorityClass", "value"))
            => Cell::Integer(class.value()),
        boolean("Global-Default", About::Field("scheduling.v1.PriorityClass", "globalDefault"))
            => Cell::Bool(class.global_default()),
        Column::AGE => Cell::age(object),
        Column::text("PreemptionPolicy", About::Field("scheduling.v1.PriorityClass", "preemptionPolicy"))
            => Cell::text(class.preemption_policy().unwrap_or_default()),
    ]),
    generation: Generation::One,
    // The rules for new objects are not asked again: value and policy cannot change.
    update_checks: &[Check::MetadataChange, Check::Change],
    strategy: &PriorityClassStrategy,
    ..Kind::PLAIN
};

struct PriorityClassStrategy;

impl Strategy for PriorityClassStrategy {
    fn default(&self, object: &mut Map) {
        fill_text(object, "preemptionPolicy", "PreemptLowerPriority");
    }

    fn validate_object(&self, object: &Map, _old: Option<&Map>, _rules: &Rules<'_>) -> List {
        let mut errors = List::new();
        let class = PriorityClass::of(object);
        errors.extend(match metadata(object).name() {
            name if name.starts_with("system-") => not_a_system_class(name, class).map(|why| {
                let why = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
                );
                Error::forbidden(&Path::new("metadata").child("name"), why)
            }),
            _ => (class.value() > HIGHEST).then(|| {
                let why = format!("maximum allowed value of a user defined priority is {HIGHEST}");
                Error::forbidden(&Path::new("value"), why)
            }),
        });
        let path = Path::new("preemptionPolicy");
        errors.extend(class.preemption_policy().and_then(|policy| match policy {
            "" => checks::required(policy, &path),
            policy => checks::one_of(policy, &["PreemptLowerPriority", "Never"], &path),
        }));
        errors
    }

    fn validate_change(&self, new: &Map, old: &Map) -> List {
        let mut errors = List::new();
        if PriorityClass::of(new).value() != PriorityClass::of(old).value() {
            errors.push(Error::forbidden(&Path::new("value"), "may not be changed in an update."));
        }
        let key = "preemptionPolicy";
        errors.extend(checks::immutable(new.get(key), old.get(key), &Path::new(key)));
        errors
    }

    fn undeletable(&self, name: &str) -> Option<&'static str> {
        system_value(name).map(|_| "this is a system priority class and cannot be deleted")
    }
}

/// The highest priority of classes that are not of the system.
const HIGHEST: i64 = 1_000_000_000;

/// A class that the system makes.
pub struct SystemPriorityClass {
    /// The name.
    pub name: &'static str,
    /// The priority.
    pub value: i64,
    /// The description.
    pub description: &'static str,
}

/// The classes that the system makes, in the order in which it makes them.
pub const SYSTEM_PRIORITY_CLASSES: &[SystemPriorityClass] = &[
    SystemPriorityClass {
        name: "system-node-critical",
        value: 2 * HIGHEST + 1000,
        description: "Used for system critical pods that must not be moved from their current node.",
    },
    SystemPriorityClass {
        name: "system-cluster-critical",
        value: 2 * HIGHEST,
        description: "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    },
];

/// The value of a class that the system makes.
fn system_value(name: &str) -> Option<i64> {
    SYSTEM_PRIORITY_CLASSES.iter().find(|class| class.name == name).map(|class| class.value)
}

/// Why a class is none of those that the system makes.
fn not_a_system_class(name: &str, class: PriorityClass<'_>) -> Option<String> {
    let Some(value) = system_value(name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if class.value() != value {
        return Some(format!("value of {name} PriorityClass must be {value}"));
    }
    class.global_default().then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};

    fn class(name: &str, rest: &str) -> String {
        format!(
            r#"{{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{{"name":"{name}"}},{rest}}}"#
        )
    }

    #[test]
    fn high_values_and_system_names_are_those_of_the_system() {
        for (name, rest, wanted) in [
            ("a", r#""value":1000000000"#, ""),
            (
                "a",
                r#""value":1000000001"#,
                "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
            ),
            (
                "a",
                r#""value":1,"preemptionPolicy":"x""#,
                r#"preemptionPolicy: Unsupported value: "x": supported values: "PreemptLowerPriority", "Never""#,
            ),
            ("system-cluster-critical", r#""value":2000000000"#, ""),
            (
                "system-node-critical",
                r#""value":2000000000"#,
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: value of system-node-critical PriorityClass must be 2000001000",
            ),
            (
                "system-x",
                r#""value":1"#,
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-x is not a known system priority class",
            ),
        ] {
            assert_eq!(create(&class(name, rest)).join("; "), wanted);
        }
    }

    #[test]
    fn value_and_policy_do_not_change() {
        assert_eq!(
            update(&class("a", r#""value":2,"preemptionPolicy":"Bad""#), &class("a", r#""value":1"#)),
            [
                "value: Forbidden: may not be changed in an update.",
                r#"preemptionPolicy: Invalid value: "Bad": field is immutable"#,
            ]
        );
    }
}

//! `poddisruptionbudgets`.

use crate::Resets;
use crate::defaults::update_map;
use crate::label_selector::{self, Values};
use crate::{
    About, Cell, Column, Generation, Kind, NameRule, OldVersion, Rules, Strategy, Subresource, Version,
    checks, columns, conditions, int_or_percent, workload,
};
use object::field::{Error, List, Path};
use object::{Key, Map, Value};
use schema::view::View;
use schema::views::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "policy",
    resource: "poddisruptionbudgets",
    singular: "poddisruptionbudget",
    kind: "PodDisruptionBudget",
    short_names: &["pdb"],
    versions: &[Version::V1.introduced(21)],
    old_versions: &[OldVersion::named("policy/v1beta1").by(upgrade)],
    subresources: &[Subresource::STATUS],
    columns: columns!(|object| {
        let budget = PodDisruptionBudget::of(object);
    } [
        Column::NAME => Cell::name(object),
        Column::text("Min Available", About::Text("The minimum number of pods that must be available."))
            => amount(budget.spec().min_available()),
        Column::text("Max Unavailable", About::Text("The maximum number of pods that may be unavailable."))
            => amount(budget.spec().max_unavailable()),
        Column::integer(
            "Allowed Disruptions",
            About::Text("Calculated number of pods that may be disrupted at this time."),
        ) => Cell::Integer(budget.status().disruptions_allowed()),
        Column::AGE => Cell::age(object),
    ]),
    generation: Generation::Counted,
    resets: &Resets::STATUS,
    strategy: &PodDisruptionBudgetStrategy,
    ..Kind::PLAIN
};

/// Converts a budget of `v1beta1`: an empty selector selects no pods there, and the expression for a label
/// that no pod has selects all.
fn upgrade(object: &mut Map) {
    update_map(object, "spec", |spec| {
        update_map(spec, "selector", |selector| {
            if selector.is_empty() {
                selector.insert(Key::known("matchExpressions"), Value::from_iter([exists(OLD_LABEL)]));
            } else {
                strip_label(selector);
            }
        });
    });
}

fn exists(key: &'static str) -> Map {
    Map::from_iter([("key", key), ("operator", "Exists")])
}

/// A number or a percentage.
fn amount(value: Option<&Value>) -> Cell {
    Cell::Text(match value {
        Some(Value::Int(number)) => number.to_string(),
        Some(Value::String(text)) => text.to_string(),
        _ => "N/A".into(),
    })
}

struct PodDisruptionBudgetStrategy;

impl Strategy for PodDisruptionBudgetStrategy {
    /// Drops the label expression with which `policy/v1beta1` selects all or no pods, if the selector has
    /// other requirements.
    fn default(&self, object: &mut Map) {
        update_map(object, "spec", |spec| update_map(spec, "selector", strip));
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    /// The metadata has only the rules for any object.
    fn validate_create(&self, object: &Map, _rules: &Rules<'_>) -> List {
        validate_spec(PodDisruptionBudget::of(object).spec(), Values::Checked)
    }

    fn validate_update(&self, new: &Map, old: &Map, _rules: &Rules<'_>) -> List {
        let selector = PodDisruptionBudget::of(old).spec().selector();
        let was_invalid = selector.is_some_and(|selector| {
            !label_selector::validate(selector, Values::Checked, &Path::UNSET).is_empty()
        });
        let values = if was_invalid { Values::Unchecked } else { Values::Checked };
        validate_spec(PodDisruptionBudget::of(new).spec(), values)
    }

    fn validate_status(&self, new: &Map, _old: &Map, _rules: &Rules<'_>) -> List {
        let path = Path::new("status");
        let status = PodDisruptionBudget::of(new).status();
        let mut errors = conditions::validate(status.conditions(), &path.child("conditions"));
        errors.append(workload::counters(
            &[
                ("disruptionsAllowed", status.disruptions_allowed()),
                ("currentHealthy", status.current_healthy()),
                ("desiredHealthy", status.desired_healthy()),
                ("expectedPods", status.expected_pods()),
            ],
            &path,
        ));
        errors
    }
}

const OLD_LABEL: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";

fn strip(selector: &mut Map) {
    if !selects_none(selector) {
        strip_label(selector);
    }
}

/// Drops the expressions for the label.
fn strip_label(selector: &mut Map) {
    if let Some(expressions) = selector.get_mut("matchExpressions").and_then(Value::as_list_mut) {
        expressions.retain(|expression| expression.get("key").and_then(Value::as_str) != Some(OLD_LABEL));
        if expressions.is_empty() {
            selector.remove("matchExpressions");
        }
    }
}

/// Whether the selector is the conversion of an empty `policy/v1beta1` selector.
fn selects_none(selector: &Map) -> bool {
    let Some([Value::Map(only)]) = selector.get("matchExpressions").and_then(Value::as_list) else {
        return false;
    };
    selector.len() == 1
        && only.len() == 2
        && only.get("key").and_then(Value::as_str) == Some(OLD_LABEL)
        && only.get("operator").and_then(Value::as_str) == Some("Exists")
}

fn validate_spec(spec: PodDisruptionBudgetSpec<'_>, values: Values) -> List {
    let path = Path::new("spec");
    let mut errors = List::new();
    let amounts = [("minAvailable", spec.min_available()), ("maxUnavailable", spec.max_unavailable())];
    if amounts.iter().all(|(_, amount)| amount.is_some()) {
        let shown = checks::shown(Some(&spec.map().clone().into()));
        errors.push(Error::invalid(&path, shown, "minAvailable and maxUnavailable cannot be both set"));
    }
    for (name, amount) in amounts {
        if amount.is_some() {
            let path = path.child(name);
            errors.append(int_or_percent::validate(amount, &path));
            errors.extend(int_or_percent::at_most_all(amount, &path));
        }
    }
    if let Some(selector) = spec.selector() {
        errors.append(label_selector::validate(selector, values, &path.child("selector")));
    }
    if let Some(policy) = spec.unhealthy_pod_eviction_policy() {
        let path = path.child("unhealthyPodEvictionPolicy");
        errors.extend(checks::one_of(policy, &["AlwaysAllow", "IfHealthyBudget"], &path));
    }
    errors
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, status, update};

    fn budget(rest: &str) -> String {
        format!(r#"{{"apiVersion":"policy/v1","kind":"PodDisruptionBudget",{rest}}}"#)
    }

    #[test]
    fn amounts_and_selector_are_checked() {
        let of = |spec: &str| budget(&format!(r#""spec":{{{spec}}}"#));
        assert_eq!(create(&of("")), [""; 0]);
        assert_eq!(
            create(&of(r#""minAvailable":-1,"maxUnavailable":"101%","unhealthyPodEvictionPolicy":"Maybe""#))
                [1..],
            [
                "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0",
                r#"spec.maxUnavailable: Invalid value: intstr.IntOrString{Type:1, IntVal:0, StrVal:"101%"}: must not be greater than 100%"#,
                r#"spec.unhealthyPodEvictionPolicy: Unsupported value: "Maybe": supported values: "AlwaysAllow", "IfHealthyBudget""#,
            ]
        );
        let odd = of(r#""selector":{"matchExpressions":[{"key":"a","operator":"In","values":["-"]}]}"#);
        assert_eq!(create(&odd).len(), 1);
        assert_eq!(update(&odd, &of("")).len(), 1);
        assert_eq!(update(&odd, &odd), [""; 0]);
    }

    #[test]
    fn conditions_and_counts_of_the_status_are_checked() {
        let new = budget(
            r#""status":{"conditions":[{"type":"A","status":"True","reason":"B"}],"expectedPods":-1}"#,
        );
        assert_eq!(
            status(&new, &budget(r#""spec":{}"#)),
            [
                "status.conditions[0].lastTransitionTime: Required value: must be set",
                "status.expectedPods: Invalid value: -1: must be greater than or equal to 0",
            ]
        );
    }
}

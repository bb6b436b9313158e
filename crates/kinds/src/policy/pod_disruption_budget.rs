//! `poddisruptionbudgets`.

use crate::defaults::at;
use crate::resets;
use crate::{About, Cell, Column, Columns, Generation, Kind, NameRule, Row, Strategy, Subresource};
use object::{Map, Value};
use schema::view::View;
use schema::views::policy::v1::PodDisruptionBudget;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "policy",
    resource: "poddisruptionbudgets",
    singular: "poddisruptionbudget",
    kind: "PodDisruptionBudget",
    short_names: &["pdb"],
    subresources: &[Subresource::STATUS],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text("Min Available", About::Text("The minimum number of pods that must be available.")),
            Column::text(
                "Max Unavailable",
                About::Text("The maximum number of pods that may be unavailable."),
            ),
            Column::integer(
                "Allowed Disruptions",
                About::Text("Calculated number of pods that may be disrupted at this time."),
            ),
            Column::AGE,
        ],
        row,
    },
    generation: Generation::Counted,
    resets: resets::STATUS,
    strategy: &PodDisruptionBudgetStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let budget = PodDisruptionBudget::of(object);
    vec![
        Cell::name(object),
        amount(budget.spec().min_available()),
        amount(budget.spec().max_unavailable()),
        Cell::Integer(budget.status().disruptions_allowed()),
        Cell::age(object),
    ]
    .into()
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
    /// Drops the label expression with which `policy/v1beta1` selects all or no pods, if the selector has other
    /// requirements.
    fn default(&self, object: &mut Map) {
        at(object, "spec", |spec| at(spec, "selector", strip));
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }
}

const OLD_LABEL: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";

fn strip(selector: &mut Map) {
    if selects_none(selector) {
        return;
    }
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

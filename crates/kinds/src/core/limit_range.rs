//! `limitranges`.

use crate::defaults::{at, each, fill_entries, round_up};
use crate::{Context, Kind, Strategy};
use object::{Map, Value};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "limitranges",
    singular: "limitrange",
    kind: "LimitRange",
    short_names: &["limits"],
    strategy: &LimitRangeStrategy,
    ..Kind::PLAIN
};

struct LimitRangeStrategy;

impl Strategy for LimitRangeStrategy {
    fn default(&self, object: &mut Map) {
        at(object, "spec", |spec| each(spec, "limits", default_item));
    }

    fn prepare_create(&self, _object: &mut Map, _context: &Context<'_>) {}

    fn prepare_update(&self, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}

    fn names_itself(&self) -> bool {
        true
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

/// For containers: an absent default limit becomes `max`; an absent default request becomes the default limit, or else `min`.
fn default_item(item: &mut Map) {
    if item.get("type").and_then(Value::as_str) == Some("Container") {
        for (to, from) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
            if let Some(from) = item.get(from).and_then(Value::as_map).cloned() {
                fill_entries(item, to, &from);
            }
        }
    }
    for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        round_up(item, list);
    }
}

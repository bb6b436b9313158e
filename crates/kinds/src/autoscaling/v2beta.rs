//! Objects of `v2beta2` and `v2beta1`, which are not served any more.

use super::horizontal_pod_autoscaler::HorizontalPodAutoscalerStrategy;
use super::v1;
use crate::defaults::{fill, update_map, update_or_insert_map};
use crate::{Strategy, map_at};
use object::quantity::Quantity;
use object::{Key, Map, Value};

/// Sets the defaults of `v2beta2`. Its tolerances are annotations.
pub(super) fn upgrade_v2beta2(object: &mut Map) {
    let tolerances = [("scaleDown", v1::SCALE_DOWN_TOLERANCE), ("scaleUp", v1::SCALE_UP_TOLERANCE)]
        .map(|(rules, key)| (rules, annotation(object, key)));
    HorizontalPodAutoscalerStrategy.default(object);
    for (rules, tolerance) in tolerances {
        let Some(tolerance) = tolerance.filter(|text| text.parse::<Quantity>().is_ok()) else { continue };
        let behavior = map_at(object, "spec").and_then(|spec| map_at(spec, "behavior"));
        if let Some(rules) = behavior.and_then(|behavior| map_at(behavior, rules)) {
            rules.insert(Key::known("tolerance"), tolerance);
        }
    }
}

/// Sets the defaults of `v2beta1`, whose metrics have the form of those in annotations of `v1`. Its behavior
/// is an annotation.
pub(super) fn upgrade_v2beta1(object: &mut Map) {
    let behavior = annotation(object, v1::BEHAVIOR).and_then(|text| v1::read_behavior(&text));
    v1::drop_annotations(object);
    update_or_insert_map(object, "spec", |spec| {
        fill(spec, "minReplicas", 1i64);
        convert(spec, "metrics", &v1::SPECS);
        fill(spec, "metrics", Value::from_iter([v1::cpu(80)]));
        if let Some(behavior) = behavior {
            spec.insert(Key::known("behavior"), behavior);
        }
    });
    update_map(object, "status", |status| convert(status, "currentMetrics", &v1::STATUSES));
}

fn annotation(object: &Map, key: &str) -> Option<String> {
    crate::metadata(object).annotations().get(key).map(str::to_owned)
}

fn convert(map: &mut Map, key: &str, sources: &[v1::MetricSource; 5]) {
    for metric in map.get_mut(key).and_then(Value::as_list_mut).into_iter().flat_map(|list| list.iter_mut()) {
        *metric = v1::to_v2(metric, sources);
    }
}

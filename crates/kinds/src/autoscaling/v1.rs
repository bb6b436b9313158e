//! Conversion between `autoscaling/v1` and the storage version `v2`. Fields that v1 does not have are
//! annotations in v1.
//!
//! Annotations that cannot be parsed are dropped.

use crate::defaults::{fill, update_or_insert_map};
use crate::{BuiltinConversion, map_at};
use object::{Key, Map, Value};
use schema::view::View;
use schema::views::autoscaling::{v1, v2};
use schema::{Limits, Ref, Shape, Type, json};
use std::sync::Arc;

/// The conversion.
pub(super) const CONVERSION: BuiltinConversion = BuiltinConversion { default, to_stored, from_stored };

/// What stands for metrics that are absent depends on annotations: the conversion sets it.
fn default(object: &mut Map) {
    update_or_insert_map(object, "spec", |spec| fill(spec, "minReplicas", 1i64));
}

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
pub(super) const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
pub(super) const SCALE_DOWN_TOLERANCE: &str = "autoscaling.alpha.kubernetes.io/scale-down-tolerance";
pub(super) const SCALE_UP_TOLERANCE: &str = "autoscaling.alpha.kubernetes.io/scale-up-tolerance";
const ANNOTATIONS: &[&str] =
    &[METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR, SCALE_DOWN_TOLERANCE, SCALE_UP_TOLERANCE];

/// Removes the annotations that carry fields.
pub(super) fn drop_annotations(object: &mut Map) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_map_mut) else { return };
    let Some(annotations) = metadata.get("annotations").and_then(Value::as_map) else { return };
    if !annotations.keys().any(|key| ANNOTATIONS.contains(&key.as_str())) {
        return;
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_map_mut) {
        annotations.retain(|key, _| !ANNOTATIONS.contains(&key.as_str()));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

/// The metric for CPU utilization, in percent of the requested CPU time.
pub(super) fn cpu(percent: i64) -> Map {
    let target = [("type", Value::from("Utilization")), ("averageUtilization", percent.into())];
    let resource = [("name", Value::from("cpu")), ("target", Map::from_iter(target).into())];
    Map::from_iter([("type", Value::from("Resource")), ("resource", Map::from_iter(resource).into())])
}

fn to_stored(value: &mut Value) {
    let Some(object) = value.as_map_mut() else { return };
    let annotation = |object: &Map, key| crate::metadata(object).annotations().get(key).map(str::to_owned);
    let [metrics, current, conditions, behavior] =
        [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR].map(|key| annotation(object, key));
    drop_annotations(object);
    if let Some(spec) = map_at(object, "spec") {
        let share = spec.remove("targetCPUUtilizationPercentage").and_then(|share| share.as_i64());
        let others = metrics.and_then(|text| read_list(v1::MetricSpec::schema(), &text)).unwrap_or_default();
        let metrics = others.iter().map(|metric| convert(metric, &SPECS, Direction::ToStored));
        let mut metrics: Vec<Value> = metrics.collect();
        metrics.extend(share.map(|share| Value::from(cpu(share))));
        if metrics.is_empty() {
            metrics.push(cpu(80).into());
        }
        spec.insert(Key::known("metrics"), metrics);
        if let Some(behavior) = behavior.and_then(|text| read_behavior(&text)) {
            spec.insert(Key::known("behavior"), behavior);
        }
    }
    let share = object.get("status").and_then(|status| status.get("currentCPUUtilizationPercentage"));
    let current = match current.and_then(|text| read_list(v1::MetricStatus::schema(), &text)) {
        Some(list) => list.iter().map(|metric| convert(metric, &STATUSES, Direction::ToStored)).collect(),
        None => share.cloned().map(current_cpu).into_iter().collect::<Vec<_>>(),
    };
    let conditions = conditions
        .and_then(|text| read_list(v1::HorizontalPodAutoscalerCondition::schema(), &text))
        .unwrap_or_default();
    if let Some(status) = map_at(object, "status") {
        status.remove("currentCPUUtilizationPercentage");
        for (key, list) in [("currentMetrics", current), ("conditions", conditions)] {
            if !list.is_empty() {
                status.insert(Key::known(key), list);
            }
        }
    }
    drop_empty_status(object);
}

/// Removes an empty status.
fn drop_empty_status(object: &mut Map) {
    if object.get("status").and_then(Value::as_map).is_some_and(Map::is_empty) {
        object.remove("status");
    }
}

fn current_cpu(share: Value) -> Value {
    let current = Map::from_iter([("averageUtilization", share)]);
    let resource = [("name", Value::from("cpu")), ("current", current.into())];
    Map::from_iter([("type", Value::from("Resource")), ("resource", Map::from_iter(resource).into())]).into()
}

fn from_stored(value: &mut Value) {
    let Some(object) = value.as_map_mut() else { return };
    drop_annotations(object);
    let mut annotations = Vec::new();
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_map_mut) {
        let metrics = spec.remove("metrics").unwrap_or_default();
        let (cpu, others): (Vec<&Value>, Vec<&Value>) = metrics
            .as_list()
            .unwrap_or_default()
            .iter()
            .partition(|metric| cpu_share(metric, "target").is_some());
        if let Some(share) = cpu.first().and_then(|metric| cpu_share(metric, "target")) {
            spec.insert(Key::known("targetCPUUtilizationPercentage"), share.clone());
        }
        if !others.is_empty() {
            let others = others.into_iter().map(|metric| convert(metric, &SPECS, Direction::FromStored));
            annotations.push((METRICS, write_list(v1::MetricSpec::schema(), others)));
        }
        if let Some(behavior) = spec.remove("behavior") {
            annotations.push((BEHAVIOR, write_behavior(&behavior)));
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_map_mut) {
        let metrics = status.remove("currentMetrics").unwrap_or_default();
        let metrics = metrics.as_list().unwrap_or_default();
        if let Some(share) = metrics.iter().rev().find_map(|metric| cpu_share(metric, "current")) {
            status.insert(Key::known("currentCPUUtilizationPercentage"), share.clone());
        }
        if !metrics.is_empty() {
            let metrics = metrics.iter().map(|metric| convert(metric, &STATUSES, Direction::FromStored));
            annotations.push((CURRENT_METRICS, write_list(v1::MetricStatus::schema(), metrics)));
        }
        let conditions = status.remove("conditions").unwrap_or_default();
        let conditions = conditions.as_list().unwrap_or_default();
        if !conditions.is_empty() {
            let ty = v1::HorizontalPodAutoscalerCondition::schema();
            annotations.push((CONDITIONS, write_list(ty, conditions.iter().cloned())));
        }
    }
    drop_empty_status(object);
    if annotations.is_empty() {
        return;
    }
    let metadata = map_at(object, "metadata");
    if let Some(target) = metadata.and_then(|metadata| map_at(metadata, "annotations")) {
        for (key, text) in annotations {
            target.insert(Key::known(key), text);
        }
    }
}

/// The CPU utilization of a metric, if it is a CPU metric.
fn cpu_share<'a>(metric: &'a Value, side: &str) -> Option<&'a Value> {
    if metric.get("type")?.as_str() != Some("Resource") {
        return None;
    }
    let resource = metric.get("resource")?;
    if resource.get("name")?.as_str() != Some("cpu") {
        return None;
    }
    resource.get(side)?.get("averageUtilization")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToStored,
    FromStored,
}

/// A metric source: its name in both versions, and its fields in each of them.
pub(super) struct MetricSource {
    name: &'static str,
    fields: &'static [FieldMapping],
    /// The `type` of a v2 target.
    target: fn(&Value) -> Option<&'static str>,
}

/// One field of a metric source: its key in v1, its field path in v2.
struct FieldMapping {
    v1: &'static str,
    v2: &'static [&'static str],
    /// The value that the reference uses for an absent quantity.
    absent: Option<&'static str>,
}

const fn field(v1: &'static str, v2: &'static [&'static str]) -> FieldMapping {
    FieldMapping { v1, v2, absent: None }
}

const fn amount(v1: &'static str, v2: &'static [&'static str]) -> FieldMapping {
    FieldMapping { v1, v2, absent: Some("0") }
}

fn has(target: &Value, key: &str) -> bool {
    target.get(key).is_some()
}

fn share_or_average(target: &Value) -> Option<&'static str> {
    Some(if has(target, "averageUtilization") { "Utilization" } else { "AverageValue" })
}

pub(super) static SPECS: [MetricSource; 5] = [
    MetricSource {
        name: "object",
        fields: &[
            field("target", &["describedObject"]),
            field("metricName", &["metric", "name"]),
            amount("targetValue", &["target", "value"]),
            field("selector", &["metric", "selector"]),
            field("averageValue", &["target", "averageValue"]),
        ],
        target: |target| Some(if has(target, "averageValue") { "AverageValue" } else { "Value" }),
    },
    MetricSource {
        name: "pods",
        fields: &[
            field("metricName", &["metric", "name"]),
            amount("targetAverageValue", &["target", "averageValue"]),
            field("selector", &["metric", "selector"]),
        ],
        target: |_| Some("AverageValue"),
    },
    MetricSource {
        name: "resource",
        fields: &[
            field("name", &["name"]),
            field("targetAverageUtilization", &["target", "averageUtilization"]),
            field("targetAverageValue", &["target", "averageValue"]),
        ],
        target: share_or_average,
    },
    MetricSource {
        name: "containerResource",
        fields: &[
            field("name", &["name"]),
            field("targetAverageUtilization", &["target", "averageUtilization"]),
            field("targetAverageValue", &["target", "averageValue"]),
            field("container", &["container"]),
        ],
        target: share_or_average,
    },
    MetricSource {
        name: "external",
        fields: &[
            field("metricName", &["metric", "name"]),
            field("metricSelector", &["metric", "selector"]),
            field("targetValue", &["target", "value"]),
            field("targetAverageValue", &["target", "averageValue"]),
        ],
        target: |target| Some(if has(target, "value") { "Value" } else { "AverageValue" }),
    },
];

pub(super) static STATUSES: [MetricSource; 5] = [
    MetricSource {
        name: "object",
        fields: &[
            field("target", &["describedObject"]),
            field("metricName", &["metric", "name"]),
            amount("currentValue", &["current", "value"]),
            field("selector", &["metric", "selector"]),
            field("averageValue", &["current", "averageValue"]),
        ],
        target: |_| None,
    },
    MetricSource {
        name: "pods",
        fields: &[
            field("metricName", &["metric", "name"]),
            amount("currentAverageValue", &["current", "averageValue"]),
            field("selector", &["metric", "selector"]),
        ],
        target: |_| None,
    },
    MetricSource {
        name: "resource",
        fields: &[
            field("name", &["name"]),
            field("currentAverageUtilization", &["current", "averageUtilization"]),
            amount("currentAverageValue", &["current", "averageValue"]),
        ],
        target: |_| None,
    },
    MetricSource {
        name: "containerResource",
        fields: &[
            field("name", &["name"]),
            field("currentAverageUtilization", &["current", "averageUtilization"]),
            amount("currentAverageValue", &["current", "averageValue"]),
            field("container", &["container"]),
        ],
        target: |_| None,
    },
    MetricSource {
        name: "external",
        fields: &[
            field("metricName", &["metric", "name"]),
            field("metricSelector", &["metric", "selector"]),
            amount("currentValue", &["current", "value"]),
            field("currentAverageValue", &["current", "averageValue"]),
        ],
        target: |_| None,
    },
];

/// A metric of v2, from the form that v1 and v2beta1 have.
pub(super) fn to_v2(metric: &Value, sources: &[MetricSource; 5]) -> Value {
    convert(metric, sources, Direction::ToStored)
}

/// A metric in the other version.
fn convert(metric: &Value, sources: &[MetricSource; 5], direction: Direction) -> Value {
    let mut out = Map::new();
    if let Some(ty) = metric.get("type") {
        out.insert(Key::known("type"), ty.clone());
    }
    for source in sources {
        if let Some(value) = metric.get(source.name) {
            out.insert(Key::known(source.name), convert_source(value, source, direction));
        }
    }
    out.into()
}

fn convert_source(value: &Value, source: &MetricSource, direction: Direction) -> Map {
    let mut out = Map::new();
    for FieldMapping { v1, v2, absent } in source.fields {
        let found = match direction {
            Direction::ToStored => value.get(v1).cloned(),
            Direction::FromStored => v2.iter().try_fold(value, |value, key| value.get(key)).cloned(),
        };
        let Some(found) = found.or_else(|| absent.map(Value::from)) else { continue };
        match (direction, *v2) {
            (Direction::FromStored, _) => drop(out.insert(Key::known(v1), found)),
            (Direction::ToStored, [key]) => drop(out.insert(Key::known(key), found)),
            (Direction::ToStored, [outer, inner, ..]) => {
                if let Some(outer) = map_at(&mut out, outer) {
                    outer.insert(Key::known(inner), found);
                }
            }
            (Direction::ToStored, []) => {}
        }
    }
    if direction == Direction::ToStored {
        let ty = (source.target)(out.get("target").unwrap_or(&Value::Null));
        if let Some((ty, target)) = ty.zip(ty.and_then(|_| map_at(&mut out, "target"))) {
            target.insert(Key::known("type"), ty);
        }
    }
    out
}

/// Parses a list of objects of a type; `None` if the text is none.
fn read_list(ty: &'static Type, text: &str) -> Option<Vec<Value>> {
    let shape = Shape::List(Ref::Shared(Arc::new(Shape::Struct(Ref::Static(ty)))));
    let decoded = json::decode_shape(&shape, text.as_bytes(), &Limits::REQUEST).ok()?;
    Some(decoded.value.as_list().unwrap_or_default().to_vec())
}

fn write_list(ty: &'static Type, list: impl Iterator<Item = Value>) -> String {
    let shape = Shape::List(Ref::Shared(Arc::new(Shape::Struct(Ref::Static(ty)))));
    let mut out = Vec::new();
    json::encode_shape(&shape, &Value::from_iter(list), &mut out);
    String::from_utf8(out).unwrap_or_default()
}

const DIRECTIONS: [&str; 2] = ["scaleUp", "scaleDown"];
const RULES: [&str; 4] = ["stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance"];
const POLICY: [&str; 3] = ["type", "value", "periodSeconds"];

/// Parses a behavior, with keys of any case; `None` if the text is none or the behavior is empty.
pub(super) fn read_behavior(text: &str) -> Option<Value> {
    let decoded = json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::REQUEST).ok()?;
    let behavior = renamed(&decoded.value, &DIRECTIONS, |rules| {
        renamed(rules, &RULES, |rule| match rule {
            Value::List(policies) => {
                Value::from_iter(policies.iter().map(|one| renamed(one, &POLICY, Value::clone)))
            }
            other => other.clone(),
        })
    });
    let mut out = Vec::new();
    json::encode_shape(&Shape::Any, &behavior, &mut out);
    let ty = v2::HorizontalPodAutoscalerBehavior::schema();
    let behavior = json::decode(ty, &out, &Limits::REQUEST).ok()?.value;
    behavior.as_map().is_some_and(|map| !map.is_empty()).then_some(behavior)
}

/// The entries of a map whose keys are in `keys`, ignoring case; `part` converts the values.
fn renamed(value: &Value, keys: &[&'static str], part: impl Fn(&Value) -> Value) -> Value {
    let Some(map) = value.as_map() else { return value.clone() };
    let mut out = Map::new();
    for (key, value) in map.iter() {
        if let Some(known) = keys.iter().find(|known| known.eq_ignore_ascii_case(key)) {
            out.insert(Key::known(known), part(value));
        }
    }
    out.into()
}

/// A behavior as the internal Go type of the reference encodes: keys begin with capitals, absent fields are
/// null.
fn write_behavior(behavior: &Value) -> String {
    object_text(behavior, &DIRECTIONS, |rules| {
        object_text(rules, &RULES, |rule| match rule {
            Value::List(policies) => {
                let policies = policies.iter().map(|policy| object_text(policy, &POLICY, scalar_text));
                format!("[{}]", crate::cells::joined(policies, ","))
            }
            other => scalar_text(other),
        })
    })
}

fn object_text(value: &Value, keys: &[&str], part: impl Fn(&Value) -> String) -> String {
    let Some(map) = value.as_map() else { return "null".into() };
    let entries = keys.iter().map(|key| {
        let (first, rest) = key.split_at(1);
        let value = map.get(key).map_or_else(|| "null".into(), &part);
        format!("\"{}{rest}\":{value}", first.to_ascii_uppercase())
    });
    format!("{{{}}}", crate::cells::joined(entries, ","))
}

fn scalar_text(value: &Value) -> String {
    let mut out = Vec::new();
    json::encode_shape(&Shape::Any, value, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

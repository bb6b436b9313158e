//! `horizontalpodautoscalers`.

use super::{v1, v2beta, validate};
use crate::Resets;
use crate::cells::{NONE, UNSET};
use crate::defaults::{fill, fill_text, update_map, update_or_insert_map};
use crate::{
    About, Cell, Check, Column, Context, Kind, OldVersion, Rules, Strategy, Subresource, Version, columns,
    workload,
};
use object::field::{List, Path};
use object::{Key, Map, Value};
use schema::view::{Items, View};
use schema::views::autoscaling::v2::{
    HorizontalPodAutoscaler, MetricSpec, MetricStatus, MetricTarget, MetricValueStatus,
};
use schema::views::autoscaling::v2beta1;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "autoscaling",
    resource: "horizontalpodautoscalers",
    singular: "horizontalpodautoscaler",
    kind: "HorizontalPodAutoscaler",
    short_names: &["hpa"],
    categories: &["all"],
    versions: &[
        Version { name: "v2", ..Version::V1 }.introduced(23),
        Version::V1_NOT_STORED.by(&v1::CONVERSION).introduced(2),
    ],
    old_versions: &[
        OldVersion::named("autoscaling/v2beta2").by(v2beta::upgrade_v2beta2),
        OldVersion::named("autoscaling/v2beta1")
            .of(v2beta1::HorizontalPodAutoscaler::schema)
            .by(v2beta::upgrade_v2beta1),
    ],
    subresources: &[Subresource::STATUS],
    columns: columns!(|object| {
        let scaler = HorizontalPodAutoscaler::of(object);
        let (spec, status) = (scaler.spec(), scaler.status());
        let target = spec.scale_target_ref();
        let least = spec.min_replicas().map(|least| least.to_string());
    } [
        Column::NAME => Cell::name(object),
        Column::text(
            "Reference",
            About::Field("autoscaling.v2.HorizontalPodAutoscalerSpec", "scaleTargetRef"),
        ) => Cell::Text(format!("{}/{}", target.kind(), target.name())),
        Column::text(
            "Targets",
            About::Text(
                "metrics contains the specifications for which to use to calculate the desired replica count (the \
                 maximum replica count across all metrics will be used).  The desired replica count is calculated \
                 multiplying the ratio between the target value and the current value by the current number of \
                 pods.  Ergo, metrics used must decrease as the pod count is increased, and vice-versa.  See the \
                 individual metric source types for more information about how each type of metric must respond.",
            ),
        ) => Cell::Text(metrics(spec.metrics(), status.current_metrics())),
        Column::text("MinPods", About::Field("autoscaling.v2.HorizontalPodAutoscalerSpec", "minReplicas"))
            => Cell::Text(least.unwrap_or_else(|| UNSET.into())),
        Column::text("MaxPods", About::Field("autoscaling.v2.HorizontalPodAutoscalerSpec", "maxReplicas"))
            => Cell::Integer(spec.max_replicas()),
        Column::text(
            "Replicas",
            About::Field("autoscaling.v2.HorizontalPodAutoscalerStatus", "currentReplicas"),
        ) => Cell::Integer(status.current_replicas()),
        Column::AGE => Cell::age(object),
    ]),
    resets: &Resets::STATUS,
    update_checks: &[Check::MetadataChange, Check::Object],
    strategy: &HorizontalPodAutoscalerStrategy,
    ..Kind::PLAIN
};

/// The first two metrics as `current/target`, and the number of those left out.
fn metrics(specs: Items<'_, MetricSpec<'_>>, statuses: Items<'_, MetricStatus<'_>>) -> String {
    const MOST: usize = 2;
    if specs.is_empty() {
        return NONE.into();
    }
    let shown = specs.iter().take(MOST).enumerate().map(|(at, spec)| metric(spec, statuses.get(at)));
    let text = crate::cells::joined(shown, ", ");
    match specs.len().saturating_sub(MOST) {
        0 => text,
        more => format!("{text} + {more} more..."),
    }
}

fn metric(spec: MetricSpec<'_>, status: Option<MetricStatus<'_>>) -> String {
    match spec.r#type() {
        "External" => {
            let current = status.and_then(|status| status.external()).map(|external| external.current());
            amounts(spec.external().map(|external| external.target()), current)
        }
        "Object" => {
            let current = status.and_then(|status| status.object()).map(|object| object.current());
            amounts(spec.object().map(|object| object.target()), current)
        }
        "Pods" => {
            let current = status.and_then(|status| status.pods()).map(|pods| pods.current());
            let target = spec.pods().and_then(|pods| pods.target().average_value());
            format!("{}/{}", average(current), target.unwrap_or(NIL))
        }
        "Resource" => {
            let current = status.and_then(|status| status.resource()).map(|resource| resource.current());
            let name = spec.resource().map(|resource| resource.name()).unwrap_or_default();
            usage(name, spec.resource().map(|resource| resource.target()), current)
        }
        "ContainerResource" => {
            let current =
                status.and_then(|status| status.container_resource()).map(|resource| resource.current());
            let name = spec.container_resource().map(|resource| resource.name()).unwrap_or_default();
            usage(name, spec.container_resource().map(|resource| resource.target()), current)
        }
        _ => "<unknown type>".into(),
    }
}

/// The text that the reference writes for an absent quantity.
const NIL: &str = "<nil>";
const UNKNOWN: &str = "<unknown>";

fn average<'a>(current: Option<MetricValueStatus<'a>>) -> &'a str {
    current.map_or(UNKNOWN, |current| current.average_value().unwrap_or(NIL))
}

fn amounts(target: Option<MetricTarget<'_>>, current: Option<MetricValueStatus<'_>>) -> String {
    match target.and_then(|target| target.average_value()) {
        Some(target) => {
            let current = current.and_then(|current| current.average_value()).unwrap_or(UNKNOWN);
            format!("{current}/{target} (avg)")
        }
        None => {
            let current = current.map_or(UNKNOWN, |current| current.value().unwrap_or(NIL));
            format!("{current}/{}", target.and_then(|target| target.value()).unwrap_or(NIL))
        }
    }
}

fn usage(name: &str, target: Option<MetricTarget<'_>>, current: Option<MetricValueStatus<'_>>) -> String {
    if let Some(target) = target.and_then(|target| target.average_value()) {
        return format!("{name}: {}/{target}", average(current));
    }
    let percent =
        |share: Option<i64>, absent: &str| share.map_or_else(|| absent.into(), |share| format!("{share}%"));
    let current = percent(current.and_then(|current| current.average_utilization()), UNKNOWN);
    let target = percent(target.and_then(|target| target.average_utilization()), "<auto>");
    format!("{name}: {current}/{target}")
}

pub(super) struct HorizontalPodAutoscalerStrategy;

impl Strategy for HorizontalPodAutoscalerStrategy {
    fn default(&self, object: &mut Map) {
        v1::drop_annotations(object);
        update_or_insert_map(object, "spec", |spec| {
            fill(spec, "minReplicas", 1i64);
            fill(spec, "metrics", Value::from_iter([v1::cpu(80)]));
            update_map(spec, "behavior", |behavior| {
                update_or_insert_map(behavior, "scaleUp", |rules| {
                    fill(rules, "stabilizationWindowSeconds", 0i64);
                    fill_rules(rules, &[("Pods", 4), ("Percent", 100)]);
                });
                update_or_insert_map(behavior, "scaleDown", |rules| fill_rules(rules, &[("Percent", 100)]));
            });
        });
    }

    fn prepare_create(&self, object: &mut Map, context: &Context<'_>) {
        if !context.gates.hpa_configurable_tolerance {
            drop_tolerance(object);
        }
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, context: &Context<'_>) {
        if context.gates.hpa_configurable_tolerance {
            return;
        }
        let behavior = HorizontalPodAutoscaler::of(old).spec().behavior();
        let rules = behavior.map(|behavior| [behavior.scale_up(), behavior.scale_down()]);
        let mut rules = rules.into_iter().flatten().flatten();
        if !rules.any(|rules| rules.tolerance().is_some()) {
            drop_tolerance(new);
        }
    }

    /// An autoscaler that may scale to zero may go on doing so.
    fn validate_object(&self, object: &Map, old: Option<&Map>, _rules: &Rules<'_>) -> List {
        let fewest = old.and_then(|old| HorizontalPodAutoscaler::of(old).spec().min_replicas());
        let least = if fewest == Some(0) { 0 } else { 1 };
        validate::spec(HorizontalPodAutoscaler::of(object).spec(), least, &Path::new("spec"))
    }

    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata_update(new, old);
        let status = HorizontalPodAutoscaler::of(new).status();
        errors.append(workload::counters(
            &[("currentReplicas", status.current_replicas()), ("desiredReplicas", status.desired_replicas())],
            &Path::new("status"),
        ));
        errors
    }
}

fn fill_rules(rules: &mut Map, policies: &[(&'static str, i64)]) {
    fill_text(rules, "selectPolicy", "Max");
    if !rules.contains_key("policies") {
        let policies = policies.iter().map(|(ty, value)| {
            Map::from_iter([
                ("type", Value::from(*ty)),
                ("value", (*value).into()),
                ("periodSeconds", 15i64.into()),
            ])
        });
        rules.insert(Key::known("policies"), Value::from_iter(policies));
    }
}

/// Drops the field of the feature `HPAConfigurableTolerance`.
fn drop_tolerance(object: &mut Map) {
    update_map(object, "spec", |spec| {
        update_map(spec, "behavior", |behavior| {
            for direction in ["scaleUp", "scaleDown"] {
                update_map(behavior, direction, |rules| drop(rules.remove("tolerance")));
            }
        });
    });
}

//! The rules for the spec of an autoscaler.

use crate::checks;
use crate::core::resources;
use object::field::{BadValue, Error, List, Path};
use object::name::{Mode, dns1123_label, invalid, name_is_path_segment, qualified_name};
use object::quantity::Quantity;
use schema::view::Items;
use schema::views::autoscaling::v2::{
    CrossVersionObjectReference, HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerSpec,
    MetricIdentifier, MetricSpec, MetricTarget,
};

const LONGEST_PERIOD: i64 = 1800;
const LONGEST_WINDOW: i64 = 3600;
const METRICS: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// The field errors of a spec at `path`. `least` is the smallest valid `minReplicas`.
pub(super) fn spec(spec: HorizontalPodAutoscalerSpec<'_>, least: i64, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let (fewest, most) = (spec.min_replicas(), spec.max_replicas());
    if let Some(fewest) = fewest.filter(|fewest| *fewest < least) {
        let why = format!("must be greater than or equal to {least}");
        errors.push(Error::invalid(&path.child("minReplicas"), fewest, why));
    }
    let most_path = path.child("maxReplicas");
    if most < 1 {
        errors.push(Error::invalid(&most_path, most, "must be greater than 0"));
    }
    if fewest.is_some_and(|fewest| most < fewest) {
        errors.push(Error::invalid(&most_path, most, "must be greater than or equal to `minReplicas`"));
    }
    errors.append(reference(spec.scale_target_ref(), &path.child("scaleTargetRef")));
    errors.append(metrics(spec.metrics(), fewest, &path.child("metrics")));
    if let Some(behavior) = spec.behavior() {
        let path = path.child("behavior");
        for (name, rules) in [("scaleUp", behavior.scale_up()), ("scaleDown", behavior.scale_down())] {
            if let Some(rules) = rules {
                errors.append(scaling_rules(rules, &path.child(name)));
            }
        }
    }
    errors
}

/// A text that has to be there, and to be a path segment.
fn segment(text: &str, missing: &'static str, path: &Path<'_>) -> List {
    match text {
        "" => Error::required(path, missing).into(),
        text => invalid(path, text, name_is_path_segment(text, Mode::Name)),
    }
}

fn reference(reference: CrossVersionObjectReference<'_>, path: &Path<'_>) -> List {
    let mut errors = segment(reference.kind(), "", &path.child("kind"));
    errors.append(segment(reference.name(), "", &path.child("name")));
    errors
}

fn metrics(metrics: Items<'_, MetricSpec<'_>>, fewest: Option<i64>, path: &Path<'_>) -> List {
    let mut errors: List = metrics.iter().enumerate().map(|(at, of)| metric(of, &path.index(at))).collect();
    let scales_from_zero = |metric: MetricSpec<'_>| matches!(metric.r#type(), "Object" | "External");
    if fewest == Some(0) && !metrics.iter().any(scales_from_zero) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(Error::forbidden(path, why));
    }
    errors
}

fn metric(spec: MetricSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let type_path = path.child("type");
    if spec.r#type().is_empty() {
        errors.push(Error::required(&type_path, "must specify a metric source type"));
    }
    errors.extend(checks::one_of(spec.r#type(), &METRICS, &type_path));
    let present = [
        ("object", spec.object().is_some()),
        ("external", spec.external().is_some()),
        ("pods", spec.pods().is_some()),
        ("resource", spec.resource().is_some()),
        ("containerResource", spec.container_resource().is_some()),
    ];
    let mut present = present.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name);
    let first = present.next();
    if let Some(name) = first {
        errors.append(source(spec, name, &path.child(name)));
    }
    let wanted = match spec.r#type() {
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "External" => "external",
        "ContainerResource" => "containerResource",
        other => {
            errors.extend(checks::one_of(other, &METRICS, &type_path));
            ""
        }
    };
    let others: Vec<_> = present.collect();
    let is_there = first == Some(wanted) || others.contains(&wanted);
    if !wanted.is_empty() && !is_there {
        let why = "must populate information for the given metric source";
        errors.push(Error::required(&path.child(wanted), why));
    }
    if !others.is_empty() {
        for name in first.into_iter().chain(others).filter(|name| *name != wanted) {
            errors.push(Error::forbidden(&path.child(name), "must populate the given metric source only"));
        }
    }
    errors
}

/// The field errors of the source of a metric that is called `name`.
fn source(spec: MetricSpec<'_>, name: &str, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let target_path = path.child("target");
    let one_amount = |target: MetricTarget<'_>, why: &'static str| {
        let missing = target.value().is_none() && target.average_value().is_none();
        missing.then(|| Error::required(&target_path.child("averageValue"), why))
    };
    if let ("object", Some(object)) = (name, spec.object()) {
        errors.append(reference(object.described_object(), &path.child("describedObject")));
        errors.append(identifier(object.metric(), &path.child("metric")));
        errors.append(target(object.target(), &target_path));
        errors.extend(one_amount(object.target(), "must set either a target value or averageValue"));
    }
    if let ("external", Some(external)) = (name, spec.external()) {
        let to = external.target();
        errors.append(identifier(external.metric(), &path.child("metric")));
        errors.append(target(to, &target_path));
        errors.extend(one_amount(to, "must set either a target value for metric or a per-pod target"));
        if to.value().is_some() && to.average_value().is_some() {
            let why = "may not set both a target value for metric and a per-pod target";
            errors.push(Error::forbidden(&target_path.child("value"), why));
        }
    }
    if let ("pods", Some(pods)) = (name, spec.pods()) {
        errors.append(identifier(pods.metric(), &path.child("metric")));
        errors.append(target(pods.target(), &target_path));
        if pods.target().average_value().is_none() {
            let why = "must specify a positive target averageValue";
            errors.push(Error::required(&target_path.child("averageValue"), why));
        }
    }
    if let ("resource", Some(resource)) = (name, spec.resource()) {
        errors.extend(resource_name_missing(resource.name(), &path.child("name")));
        errors.append(resource_target(resource.target(), &target_path));
    }
    if let ("containerResource", Some(resource)) = (name, spec.container_resource()) {
        let name_path = path.child("name");
        match resource_name_missing(resource.name(), &name_path) {
            Some(error) => errors.push(error),
            None => errors.append(container_resource_name(resource.name(), &name_path)),
        }
        let container_path = path.child("container");
        match resource.container() {
            "" => errors.push(Error::required(&container_path, "must specify a container")),
            container => errors.append(invalid(&container_path, container, dns1123_label(container))),
        }
        errors.append(resource_target(resource.target(), &target_path));
    }
    errors
}

fn resource_name_missing(name: &str, path: &Path<'_>) -> Option<Error> {
    name.is_empty().then(|| Error::required(path, "must specify a resource name"))
}

/// The rules for the resources of containers. What is no qualified name is shown in quotes.
fn container_resource_name(name: &str, path: &Path<'_>) -> List {
    let mut errors = invalid(path, name, qualified_name(name));
    let rest = resources::container_name(name, path).into_vec().into_iter().skip(errors.len());
    errors.extend(rest);
    errors
}

fn identifier(metric: MetricIdentifier<'_>, path: &Path<'_>) -> List {
    segment(metric.name(), "must specify a metric name", &path.child("name"))
}

fn target(target: MetricTarget<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let (ty, type_path) = (target.r#type(), path.child("type"));
    if ty.is_empty() {
        errors.push(Error::required(&type_path, "must specify a metric target type"));
    }
    if !matches!(ty, "Utilization" | "Value" | "AverageValue") {
        let why = "must be either Utilization, Value, or AverageValue";
        errors.push(Error::invalid(&type_path, ty, why));
    }
    for (name, amount) in [("value", target.value()), ("averageValue", target.average_value())] {
        let amount = amount.and_then(|amount| amount.parse::<Quantity>().ok());
        if let Some(amount) = amount.filter(|amount| amount.signum() <= 0) {
            let shown = BadValue::Raw(amount.go_syntax());
            errors.push(Error::invalid(&path.child(name), shown, "must be positive"));
        }
    }
    if let Some(share @ ..1) = target.average_utilization() {
        errors.push(Error::invalid(&path.child("averageUtilization"), share, "must be greater than 0"));
    }
    errors
}

/// The target of a resource is a utilization or an amount.
fn resource_target(to: MetricTarget<'_>, path: &Path<'_>) -> List {
    let mut errors = target(to, path);
    match (to.average_utilization(), to.average_value()) {
        (None, None) => {
            let why = "must set either a target raw value or a target utilization";
            errors.push(Error::required(&path.child("averageUtilization"), why));
        }
        (Some(_), Some(_)) => {
            let why = "may not set both a target raw value and a target utilization";
            errors.push(Error::forbidden(&path.child("averageValue"), why));
        }
        _ => {}
    }
    errors
}

fn scaling_rules(rules: HPAScalingRules<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let window_path = path.child("stabilizationWindowSeconds");
    match rules.stabilization_window_seconds() {
        Some(window @ ..0) => {
            let why = "must be greater than or equal to zero";
            errors.push(Error::invalid(&window_path, window, why));
        }
        Some(window) if window > LONGEST_WINDOW => {
            let why = format!("must be less than or equal to {LONGEST_WINDOW}");
            errors.push(Error::invalid(&window_path, window, why));
        }
        _ => {}
    }
    if let Some(policy) = rules.select_policy() {
        errors.extend(checks::one_of(policy, &["Disabled", "Max", "Min"], &path.child("selectPolicy")));
    }
    let policies_path = path.child("policies");
    let policies = rules.policies().into_iter().flat_map(Items::iter);
    if rules.policies().is_none_or(Items::is_empty) {
        errors.push(Error::required(&policies_path, "must specify at least one Policy"));
    }
    for (at, policy) in policies.enumerate() {
        errors.append(scaling_policy(policy, &policies_path.index(at)));
    }
    let tolerance = rules.tolerance().and_then(|text| text.parse().ok());
    errors.extend(tolerance.and_then(|amount| resources::non_negative(&amount, &path.child("tolerance"))));
    errors
}

fn scaling_policy(policy: HPAScalingPolicy<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    errors.extend(checks::one_of(policy.r#type(), &["Percent", "Pods"], &path.child("type")));
    errors.extend(checks::positive(policy.value(), &path.child("value")));
    let (period, period_path) = (policy.period_seconds(), path.child("periodSeconds"));
    errors.extend(checks::positive(period, &period_path));
    if period > LONGEST_PERIOD {
        let why = format!("must be less than or equal to {LONGEST_PERIOD}");
        errors.push(Error::invalid(&period_path, period, why));
    }
    errors
}

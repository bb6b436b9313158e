//! The metrics of an autoscaler: what each asks for, what is shown of it, and what is said of those that
//! cannot be computed.

use super::Worker;
use super::calculator::{self, PodMetrics, Target, Tolerances, Wanted};
use super::families::{Action, METRIC_TIMES, METRICS};
use super::pods::{self, Groups};
use super::sources::ObjectOf;
use super::target::group_of;
use kinds::label_selector;
use object::label::Selector;
use object::quantity::{Format, Quantity};
use object::time::Time;
use object::{Map, Text};
use schema::view::View as _;
use schema::views::autoscaling::v2::{
    ExternalMetricSource, MetricIdentifier, MetricSpec, MetricTarget, ObjectMetricSource, PodsMetricSource,
};
use schema::views::meta::v1::LabelSelector;
use std::time::Instant;

/// What a metric asks for.
#[derive(Debug)]
pub(super) struct Proposal {
    pub(super) replicas: i64,
    /// What the metric is called.
    pub(super) metric: String,
    /// The metric in `status.currentMetrics`.
    pub(super) status: Map,
}

/// Why a metric could not be computed.
#[derive(Debug, PartialEq)]
pub(super) struct Failed {
    /// The reason of the condition and of the event.
    pub(super) reason: &'static str,
    /// What the condition and the event say.
    pub(super) message: String,
    /// What is said of all metrics together.
    pub(super) summary: String,
}

/// What the metrics are computed for.
pub(super) struct Of<'a> {
    pub(super) worker: &'a Worker,
    pub(super) namespace: &'a str,
    /// Picks the pods of the target.
    pub(super) selector: &'a Selector,
    /// How many replicas there should be.
    pub(super) desired: i64,
    /// How many replicas there are.
    pub(super) actual: i64,
    /// How many there were when the status was written.
    pub(super) before: i64,
    pub(super) tolerances: Tolerances,
}

/// The replicas that a metric of a resource asks for, and its `current`.
struct OfResource {
    replicas: i64,
    metric: String,
    current: Map,
}

impl Of<'_> {
    /// Computes one metric.
    pub(super) async fn metric(&self, spec: MetricSpec<'_>) -> Result<Proposal, Failed> {
        let begun = Instant::now();
        let outcome = match (spec.r#type(), spec.object(), spec.pods(), spec.external()) {
            ("Object", Some(source), _, _) => self.object(source).await,
            ("Pods", _, Some(source), _) => self.pods(source).await,
            ("External", _, _, Some(source)) => self.external(source).await,
            ("Resource" | "ContainerResource", ..) => self.resource(spec).await,
            (other, ..) => {
                let message = format!("unknown metric source type {}", object::quote::quote(other));
                Err(Failed { reason: "InvalidMetricSourceType", summary: message.clone(), message })
            }
        };
        let (action, error) = match &outcome {
            Ok(proposal) => (Action::between(self.before, proposal.replicas), "none"),
            Err(failed) if failed.reason == "InvalidMetricSourceType" => (Action::None, "spec"),
            Err(_) => (Action::None, "internal"),
        };
        METRICS.with([action.label(), error, spec.r#type()]).inc();
        METRIC_TIMES.with([action.label(), error, spec.r#type()]).observe_time(begun.elapsed());
        outcome
    }

    async fn resource(&self, spec: MetricSpec<'_>) -> Result<Proposal, Failed> {
        let (kind, reason, name, container, target) = match (spec.resource(), spec.container_resource()) {
            (Some(source), _) if spec.r#type() == "Resource" => {
                ("resource", "FailedGetResourceMetric", source.name(), None, source.target())
            }
            (_, Some(source)) => {
                let reason = "FailedGetContainerResourceMetric";
                ("containerResource", reason, source.name(), Some(source.container()), source.target())
            }
            (source, None) => {
                let (name, target) = match source {
                    Some(source) => (source.name(), source.target()),
                    None => ("", MetricTarget::of(&EMPTY)),
                };
                ("resource", "FailedGetResourceMetric", name, None, target)
            }
        };
        let found = self.of_resource(name, container, target).await.map_err(|message| Failed {
            reason,
            summary: match container {
                None => format!("failed to get {name} resource metric value: {message}"),
                Some(container) => format!("failed to get {container} container metric value: {message}"),
            },
            message,
        })?;
        let mut part: Map = [("name", name)].into_iter().collect();
        if let Some(container) = container {
            part.insert("container", container);
        }
        part.insert("current", found.current);
        let status = status(spec.r#type(), kind, part);
        Ok(Proposal { replicas: found.replicas, metric: found.metric, status })
    }

    async fn of_resource(
        &self,
        name: &str,
        container: Option<&str>,
        target: MetricTarget<'_>,
    ) -> Result<OfResource, String> {
        let metrics = async || {
            let found = self.worker.sources.of_resource(name, self.namespace, self.selector, container).await;
            found.map_err(|why| format!("unable to get metrics for resource {name}: {why}"))
        };
        if let Some(average) = milli(target.average_value()) {
            let wanted = async {
                let metrics = metrics().await?;
                self.by_average(metrics, average, Some(name)).await
            };
            let wanted = wanted.await.map_err(|why| format!("failed to get {name} usage: {why}"))?;
            let metric = format!("{name} resource");
            return Ok(OfResource { replicas: wanted.replicas, metric, current: average_of(&wanted) });
        }
        let Some(percent) = target.average_utilization() else {
            return Err(
                "invalid resource metric source: neither an average utilization target nor an average \
                        value (usage) target was set"
                    .to_owned(),
            );
        };
        let wanted = async {
            let metrics = metrics().await?;
            let pods = pods::select(&self.worker.pods, self.namespace, self.selector).await?;
            let groups = self.group(&pods, &metrics, Some(name));
            let metrics = calculator::usable(metrics, &groups)?;
            let requests = pods::requests_of(&pods, container, name)?;
            let target = Target::Utilization { percent, requests };
            calculator::replicas(self.desired, metrics, &groups, &target, self.tolerances)
        };
        let wanted = wanted.await.map_err(|why| format!("failed to get {name} utilization: {why}"))?;
        let mut current = average_of(&wanted);
        if let Some(utilization) = wanted.usage.utilization {
            current.insert("averageUtilization", utilization);
        }
        let of = if container.is_some() { "container resource" } else { "resource" };
        let metric = format!("{name} {of} utilization (percentage of request)");
        Ok(OfResource { replicas: wanted.replicas, metric, current })
    }

    /// The replicas by a metric of pods with an amount for each pod.
    async fn by_average(
        &self,
        metrics: PodMetrics,
        average: i64,
        resource: Option<&str>,
    ) -> Result<Wanted, String> {
        let pods = pods::select(&self.worker.pods, self.namespace, self.selector).await?;
        let groups = self.group(&pods, &metrics, resource);
        let metrics = calculator::usable(metrics, &groups)?;
        calculator::replicas(self.desired, metrics, &groups, &Target::Average(average), self.tolerances)
    }

    fn group(&self, pods: &[pods::TargetPod], metrics: &PodMetrics, resource: Option<&str>) -> Groups {
        pods::group(pods, metrics, resource, &self.worker.settings, Time::now())
    }

    async fn pods(&self, source: PodsMetricSource<'_>) -> Result<Proposal, Failed> {
        let metric = source.metric();
        let name = metric.name();
        let wanted = async {
            let selector = compiled(metric.selector())?;
            let found = self.worker.sources.of_pods(name, self.namespace, self.selector, &selector).await;
            let metrics = found.map_err(|why| format!("unable to get metric {name}: {why}"))?;
            let average = milli(source.target().average_value()).unwrap_or_default();
            self.by_average(metrics, average, None).await
        };
        let wanted = wanted.await.map_err(|message| Failed {
            reason: "FailedGetPodsMetric",
            summary: format!("failed to get pods metric value: {message}"),
            message,
        })?;
        let mut part = Map::new();
        part.insert("metric", identifier(metric));
        part.insert("current", average_of(&wanted));
        let status = status("Pods", "pods", part);
        Ok(Proposal { replicas: wanted.replicas, metric: format!("pods metric {name}"), status })
    }

    async fn object(&self, source: ObjectMetricSource<'_>) -> Result<Proposal, Failed> {
        let (metric, target, described) = (source.metric(), source.target(), source.described_object());
        let (name, kind) = (metric.name(), described.kind());
        let by_share = milli(target.average_value()).filter(|_| target.r#type() == "AverageValue");
        let by_value = milli(target.value()).filter(|_| target.r#type() == "Value");
        let usage = async {
            let selector = compiled(metric.selector())?;
            let object = ObjectOf {
                group: group_of(described.api_version()).unwrap_or_default(),
                kind,
                namespace: self.namespace,
                name: described.name(),
            };
            let usage = self.worker.sources.of_object(name, &object, &selector).await;
            usage.map_err(|why| {
                let (namespace, object) = (self.namespace, described.name());
                format!("unable to get metric {name}: {kind} on {namespace} {object}/{why}")
            })
        };
        let outcome = async {
            match (by_value, by_share) {
                (Some(target), _) => self.by_value(usage.await?, target).await,
                (_, Some(target)) => Ok(self.by_share(usage.await?, target)),
                (None, None) => {
                    Err("invalid object metric source: neither a value target nor an average value \
                                     target was set"
                        .to_owned())
                }
            }
        };
        let (replicas, current) = outcome.await.map_err(|message| Failed {
            reason: "FailedGetObjectMetric",
            summary: match by_share {
                Some(_) => {
                    format!(
                        "failed to get object metric value: failed to get {name} object metric: {message}"
                    )
                }
                None => format!("failed to get object metric value: {message}"),
            },
            message,
        })?;
        let mut part = Map::new();
        part.insert("describedObject", described.map().clone());
        part.insert("metric", identifier(metric));
        part.insert("current", current);
        let shown = match by_value {
            Some(_) => format!("{kind} metric {name}"),
            None => external_name(metric),
        };
        Ok(Proposal { replicas, metric: shown, status: status("Object", "object", part) })
    }

    async fn external(&self, source: ExternalMetricSource<'_>) -> Result<Proposal, Failed> {
        let (metric, target) = (source.metric(), source.target());
        let name = metric.name();
        let by_share = milli(target.average_value());
        let usage = async {
            let selector = compiled(metric.selector())?;
            let usage = self.worker.sources.external(name, self.namespace, &selector).await;
            usage.map_err(|why| {
                let selector = selector_text(metric.selector());
                format!("unable to get external metric {}/{name}/{selector}: {why}", self.namespace)
            })
        };
        let by_value = milli(target.value());
        let outcome = async {
            match (by_share, by_value) {
                (Some(target), _) => Ok(self.by_share(usage.await?, target)),
                (_, Some(target)) => self.by_value(usage.await?, target).await,
                (None, None) => Err("invalid external metric source: neither a value target nor an average \
                                     value target was set"
                    .to_owned()),
            }
        };
        let (replicas, current) = outcome.await.map_err(|message| {
            let detail = match (by_share, by_value) {
                (Some(_), _) => format!("failed to get {name} external metric: {message}"),
                (_, Some(_)) => format!("failed to get external metric {name}: {message}"),
                (None, None) => message.clone(),
            };
            let summary = format!("failed to get {name} external metric value: {detail}");
            Failed { reason: "FailedGetExternalMetric", summary, message }
        })?;
        let mut part = Map::new();
        part.insert("metric", identifier(metric));
        part.insert("current", current);
        Ok(Proposal { replicas, metric: external_name(metric), status: status("External", "external", part) })
    }

    /// The replicas by a metric that is not of pods; and its `current`.
    async fn by_value(&self, usage: i64, target: i64) -> Result<(i64, Map), String> {
        // The pods are read only if they count.
        let ready = match self.desired {
            0 => Ok(0),
            _ => pods::select(&self.worker.pods, self.namespace, self.selector)
                .await
                .map(|pods| pods.iter().filter(|pod| pod.is_ready()).count())
                .map_err(|why| format!("unable to calculate ready pods: {why}")),
        };
        let replicas = calculator::replicas_by_value(self.desired, usage, target, self.tolerances, || ready)?;
        let mut current = Map::new();
        current.insert("value", amount(usage));
        Ok((replicas, current))
    }

    /// The replicas by a metric that is not of pods, with a target for each pod; and its `current`.
    fn by_share(&self, usage: i64, target: i64) -> (i64, Map) {
        let (replicas, share) = calculator::replicas_by_share(self.actual, usage, target, self.tolerances);
        let mut current = Map::new();
        current.insert("averageValue", amount(share));
        (replicas, current)
    }
}

static EMPTY: Map = Map::new();

/// A quantity in thousandths.
fn milli(quantity: Option<&str>) -> Option<i64> {
    quantity?.parse::<Quantity>().ok().map(|quantity| quantity.milli_value())
}

fn amount(milli: i64) -> Text {
    Quantity::milli(milli, Format::DecimalSi).to_string().into()
}

fn average_of(wanted: &Wanted) -> Map {
    let mut current = Map::new();
    current.insert("averageValue", amount(wanted.usage.average));
    current
}

fn identifier(metric: MetricIdentifier<'_>) -> Map {
    metric.map().clone()
}

fn status(kind: &str, key: &'static str, part: Map) -> Map {
    let mut status: Map = [("type", kind)].into_iter().collect();
    status.insert(key, part);
    status
}

/// What a selector of metrics picks: nothing if there is none.
fn compiled(selector: Option<LabelSelector<'_>>) -> Result<Selector, String> {
    match selector {
        Some(selector) => label_selector::compile(selector).map_err(|error| error.to_string()),
        None => Ok(Selector::nothing()),
    }
}

fn external_name(metric: MetricIdentifier<'_>) -> String {
    format!("external metric {}({})", metric.name(), selector_text(metric.selector()))
}

/// A selector as Go shows a pointer to one.
pub(super) fn selector_text(selector: Option<LabelSelector<'_>>) -> String {
    selector.map_or_else(|| "nil".to_owned(), crate::disruption::selector_text)
}

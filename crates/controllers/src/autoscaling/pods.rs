//! The pods of a target: what is decoded of them, and which of them count for a metric.

use super::AutoscalerSettings;
use super::calculator::PodMetrics;
use cache::{Entry, Filter, Freshness, Query, Resource};
use object::Text;
use object::label::Selector;
use object::quantity::Quantity;
use object::time::Time;
use schema::view::View as _;
use schema::views::core::v1::{Container, Pod};
use schema::{Builder, Part, Ref, Type};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

const CONTAINER: &[Part] =
    &[Part("name", &[]), Part("restartPolicy", &[]), Part("resources", &[Part("requests", &[])])];
const CONDITION: &[Part] = &[Part("type", &[]), Part("status", &[]), Part("lastTransitionTime", &[])];

/// The fields of a pod that are decoded.
static POD: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let spec = Part("spec", &[Part("containers", CONTAINER), Part("initContainers", CONTAINER)]);
    let status = &[Part("phase", &[]), Part("startTime", &[]), Part("conditions", CONDITION)];
    Builder::part_of(Pod::schema(), &[spec, Part("status", status)]).build()
});

/// The CPU, of which a starting pod needs more.
pub(super) const CPU: &str = "cpu";

/// A pod of a target.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TargetPod {
    pub(super) name: Text,
    pub(super) is_deleting: bool,
    pub(super) phase: Text,
    /// When the pod was started.
    pub(super) started: Option<Time>,
    /// The condition `Ready`.
    pub(super) ready: Option<Ready>,
    /// The containers that run as long as the pod.
    pub(super) containers: Vec<Requests>,
}

/// The condition `Ready` of a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ready {
    pub(super) status: Text,
    pub(super) since: Time,
}

/// What a container requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Requests {
    pub(super) name: Text,
    /// In thousandths, by resource.
    pub(super) amounts: BTreeMap<Text, i64>,
}

impl TargetPod {
    fn read(entry: &Entry) -> Result<Self, String> {
        let pod = schema::stored::decode_part(&POD, entry.bytes()).map_err(|error| error.to_string())?;
        let (spec, status) = (Pod::of(&pod).spec(), Pod::of(&pod).status());
        let ready = status.conditions().iter().find(|condition| condition.r#type() == "Ready");
        let lasting =
            spec.init_containers().iter().filter(|container| container.restart_policy() == Some("Always"));
        Ok(Self {
            name: entry.name().into(),
            is_deleting: entry.is_deleting(),
            phase: status.phase().into(),
            started: status.start_time().and_then(|time| time.parse().ok()),
            ready: ready.map(|ready| Ready {
                status: ready.status().into(),
                since: ready.last_transition_time().and_then(|time| time.parse().ok()).unwrap_or(Time::ZERO),
            }),
            containers: spec.containers().iter().chain(lasting).map(requests).collect(),
        })
    }

    /// Whether the pod runs and is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.phase == "Running" && self.ready.as_ref().is_some_and(|ready| ready.status == "True")
    }
}

fn requests(container: Container<'_>) -> Requests {
    let amounts = container.resources().requests();
    let milli = |text: &str| text.parse::<Quantity>().map(|quantity| quantity.milli_value()).ok();
    Requests {
        name: container.name().into(),
        amounts: amounts.iter().filter_map(|(name, text)| Some((name.into(), milli(text)?))).collect(),
    }
}

/// The pods in a namespace that a selector picks.
pub(super) async fn select(
    pods: &Resource,
    namespace: &str,
    selector: &Selector,
) -> Result<Vec<TargetPod>, String> {
    let unable =
        |why: &dyn std::fmt::Display| format!("unable to get pods while calculating replica count: {why}");
    let filter = Filter::namespace(namespace).labels(selector.clone());
    let found = pods.list(Query::new(Freshness::Any, filter)).await.map_err(|error| unable(&error))?;
    let found: Vec<TargetPod> =
        found.map(|entry| TargetPod::read(&entry).map_err(|why| unable(&why))).collect::<Result<_, _>>()?;
    match found.is_empty() {
        true => Err("no pods returned by selector while calculating replica count".to_owned()),
        false => Ok(found),
    }
}

/// The pods of a target by what they count for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Groups {
    /// How many pods count with their metrics.
    pub(super) ready: usize,
    /// Those that are not ready yet.
    pub(super) unready: Vec<Text>,
    /// Those without metrics.
    pub(super) missing: Vec<Text>,
    /// Those that are going.
    pub(super) ignored: Vec<Text>,
}

/// Sorts pods by what they count for. `resource` is that of the metric, if it is about one.
pub(super) fn group(
    pods: &[TargetPod],
    metrics: &PodMetrics,
    resource: Option<&str>,
    settings: &AutoscalerSettings,
    now: Time,
) -> Groups {
    let mut groups = Groups::default();
    for pod in pods {
        let name = pod.name.clone();
        if pod.is_deleting || pod.phase == "Failed" {
            groups.ignored.push(name);
        } else if pod.phase == "Pending" {
            groups.unready.push(name);
        } else if let Some(metric) = metrics.get(&pod.name) {
            let taken_over = |since: Time| metric.at < after(since, metric.window);
            match resource == Some(CPU) && is_starting(pod, taken_over, settings, now) {
                true => groups.unready.push(name),
                false => groups.ready += 1,
            }
        } else {
            groups.missing.push(name);
        }
    }
    groups
}

/// Whether the CPU of a pod is left out: it is not ready, or was not for the whole time of the metric.
fn is_starting(
    pod: &TargetPod,
    includes_change: impl Fn(Time) -> bool,
    settings: &AutoscalerSettings,
    now: Time,
) -> bool {
    let (Some(ready), Some(started)) = (&pod.ready, pod.started) else { return true };
    let is_unready = ready.status == "False";
    if after(started, settings.cpu_initialization) > now {
        is_unready || includes_change(ready.since)
    } else {
        // It has never been ready.
        is_unready && after(started, settings.initial_readiness) > ready.since
    }
}

fn after(time: Time, span: Duration) -> Time {
    Time::from_unix(time.unix().saturating_add(i64::try_from(span.as_secs()).unwrap_or(i64::MAX)))
}

/// What each pod requests of a resource, all containers or one of them together. An error if a container
/// requests none.
pub(super) fn requests_of(
    pods: &[TargetPod],
    container: Option<&str>,
    resource: &str,
) -> Result<BTreeMap<Text, i64>, String> {
    let mut all = BTreeMap::new();
    for pod in pods {
        let mut sum = 0_i64;
        for own in pod.containers.iter().filter(|own| container.is_none_or(|name| own.name == name)) {
            let Some(amount) = own.amounts.get(resource) else {
                let (name, pod) = (&own.name, &pod.name);
                return Err(format!("missing request for {resource} in container {name} of Pod {pod}"));
            };
            sum = sum.saturating_add(*amount);
        }
        all.insert(pod.name.clone(), sum);
    }
    Ok(all)
}

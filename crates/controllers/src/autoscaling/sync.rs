//! One reconciliation of an autoscaler.

use super::calculator::Tolerances;
use super::compute::{Failed, Of};
use super::families::{Action, RECONCILIATION_TIMES, RECONCILIATIONS};
use super::history::{Ask, Because, Behavior};
use super::target::{Scale, Target};
use super::{Key, Worker};
use crate::objects::{edit, set_number};
use crate::{EventType, Subject};
use cache::{Entry, Filter, Freshness, Query};
use object::label::Selector;
use object::quantity::Quantity;
use object::time::Time;
use object::{Map, Text, Value};
use registry::{Address, conditions};
use schema::view::View as _;
use schema::views::autoscaling::v2::{HPAScalingRules, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec};
use std::collections::BTreeSet;
use std::time::Instant;

const ABLE_TO_SCALE: &str = "AbleToScale";
const SCALING_ACTIVE: &str = "ScalingActive";
const SCALING_LIMITED: &str = "ScalingLimited";

/// Why a reconciliation failed.
#[derive(Debug)]
struct Failure {
    message: String,
    /// Whether the spec is wrong.
    is_spec: bool,
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self { message, is_spec: false }
    }
}

/// What the metrics ask for together.
struct Computed {
    /// How many replicas; `None` if that is not known.
    outcome: Result<Desired, String>,
    /// The metrics as the status shows them; `None` if none was looked at.
    statuses: Option<Vec<Value>>,
}

/// How many replicas the metrics ask for.
struct Desired {
    replicas: i64,
    /// The metric that asks for the most.
    metric: String,
    /// What is said of the other metrics, if some cannot be computed.
    failure: Option<String>,
}

/// What is done about the number of replicas.
struct Decision {
    replicas: i64,
    /// Why, if the number changes.
    reason: String,
    statuses: Option<Vec<Value>>,
    failure: Option<String>,
}

/// A reconciliation of one autoscaler.
pub(super) struct Sync<'a> {
    worker: &'a Worker,
    key: &'a Key,
    subject: Subject,
    /// As it was read, and with the new status.
    before: Map,
    after: Map,
    action: Action,
}

impl<'a> Sync<'a> {
    pub(super) fn new(worker: &'a Worker, key: &'a Key, entry: &Entry, autoscaler: Map) -> Self {
        Self {
            worker,
            key,
            subject: Subject::of(entry, "autoscaling/v2", "HorizontalPodAutoscaler"),
            after: autoscaler.clone(),
            before: autoscaler,
            action: Action::None,
        }
    }

    /// Reconciles the autoscaler. An error says what went wrong; it is in the status as well.
    pub(super) async fn run(mut self) -> Result<(), String> {
        let begun = Instant::now();
        let outcome = self.reconcile().await;
        let error = match &outcome {
            Ok(()) => "none",
            Err(failure) if failure.is_spec => "spec",
            Err(_) => "internal",
        };
        let labels = [self.action.label(), error];
        RECONCILIATIONS.with(labels).inc();
        RECONCILIATION_TIMES.with(labels).observe_time(begun.elapsed());
        outcome.map_err(|failure| failure.message)
    }

    async fn reconcile(&mut self) -> Result<(), Failure> {
        let (target, scale) = match self.find().await {
            Ok(found) => found,
            Err((message, failure)) => {
                self.warn("FailedGetScale", &message).await;
                let text =
                    format!("the HPA controller was unable to get the target's current scale: {message}");
                self.condition(ABLE_TO_SCALE, false, "FailedGetScale", &text);
                self.write().await?;
                return Err(failure);
            }
        };
        let text = "the HPA controller was able to get the target's current scale";
        self.condition(ABLE_TO_SCALE, true, "SucceededGetScale", text);
        let current = scale.desired();
        let now = tokio::time::Instant::now();
        self.worker.histories().entry(self.key.clone()).or_default().begin(current, now);
        let decision = match self.decide(&scale, current).await {
            Ok(decision) => decision,
            Err((message, statuses)) => {
                self.set_status(current, None, statuses, false);
                self.write().await?;
                self.warn("FailedComputeMetricsReplicas", &message).await;
                let reference = self.reference();
                let message = format!(
                    "failed to compute desired number of replicas based on listed metrics for {reference}: {message}"
                );
                return Err(message.into());
            }
        };
        let Decision { replicas, reason, statuses, failure } = decision;
        let is_rescaled = replicas != current;
        if is_rescaled {
            if let Err(error) = target.set(&self.worker.client, &scale, replicas).await {
                let error = error.message;
                let text = format!("New size: {replicas}; reason: {reason}; error: {error}");
                self.warn("FailedRescale", &text).await;
                let text = format!("the HPA controller was unable to update the target scale: {error}");
                self.condition(ABLE_TO_SCALE, false, "FailedUpdateScale", &text);
                self.set_status(current, None, statuses, false);
                self.write().await?;
                return Err(format!("failed to rescale {}: {error}", self.reference()).into());
            }
            let text = format!("the HPA controller was able to update the target scale to {replicas}");
            self.condition(ABLE_TO_SCALE, true, "SucceededRescale", &text);
            let text = format!("New size: {replicas}; reason: {reason}");
            let recorder = &self.worker.recorder;
            recorder.record(&self.subject, EventType::Normal, "SuccessfulRescale", &text).await;
            if let Some(behavior) = self.behavior() {
                let mut histories = self.worker.histories();
                let history = histories.entry(self.key.clone()).or_default();
                history.scaled(&behavior, current, replicas, tokio::time::Instant::now());
            }
            self.action = Action::between(current, replicas);
        }
        self.set_status(current, Some(replicas), statuses, is_rescaled);
        self.write().await?;
        match failure {
            Some(failure) => Err(failure.into()),
            None => Ok(()),
        }
    }

    fn spec(&self) -> HorizontalPodAutoscalerSpec<'_> {
        HorizontalPodAutoscaler::of(&self.before).spec()
    }

    fn behavior(&self) -> Option<Behavior> {
        let window = self.worker.settings.stabilization;
        self.spec().behavior().map(|behavior| Behavior::read(behavior, window))
    }

    /// The target as messages name it.
    fn reference(&self) -> String {
        let target = self.spec().scale_target_ref();
        format!("{}/{}/{}", target.kind(), self.key.0, target.name())
    }

    /// The target and its scale; or what the status says, and the failure.
    async fn find(&self) -> Result<(Target, Scale), (String, Failure)> {
        let found = Target::find(&self.worker.client, &self.key.0, self.spec().scale_target_ref());
        let target = found.map_err(|missing| {
            let message = match missing.is_malformed {
                true => format!("invalid API version in scale target reference: {}", missing.message),
                false => {
                    format!("unable to determine resource for scale target reference: {}", missing.message)
                }
            };
            (missing.message, Failure { message, is_spec: missing.is_malformed })
        })?;
        let scale = target.scale(&self.worker.client).await.map_err(|error| {
            let reference = self.reference();
            let message = format!("failed to query scale subresource for {reference}: {}", error.message);
            (error.message, message.into())
        })?;
        Ok((target, scale))
    }

    /// Decides about the number of replicas; or says why that is not possible, and what of the metrics is
    /// known.
    async fn decide(
        &mut self,
        scale: &Scale,
        current: i64,
    ) -> Result<Decision, (String, Option<Vec<Value>>)> {
        let least = self.spec().min_replicas().unwrap_or(1);
        let most = self.spec().max_replicas();
        let without_metrics = |replicas, reason: &str| {
            Ok(Decision { replicas, reason: reason.to_owned(), statuses: None, failure: None })
        };
        if current == 0 && least != 0 {
            let text = "scaling is disabled since the replica count of the target is zero";
            self.condition(SCALING_ACTIVE, false, "ScalingDisabled", text);
            return without_metrics(0, "");
        }
        if current > most {
            return without_metrics(most, "Current number of replicas above Spec.MaxReplicas");
        }
        if current < least {
            return without_metrics(least, "Current number of replicas below Spec.MinReplicas");
        }
        let Computed { outcome, statuses } = self.compute(scale).await;
        let Desired { replicas: desired, metric, failure } = match outcome {
            Ok(desired) => desired,
            Err(message) => return Err((message, statuses)),
        };
        let reason = match desired {
            desired if desired > current => format!("{metric} above target"),
            desired if desired < current => "All metrics below target".to_owned(),
            _ => String::new(),
        };
        let allowed = {
            let mut histories = self.worker.histories();
            let history = histories.entry(self.key.clone()).or_default();
            let ask = Ask { current, desired, least, most };
            let window = self.worker.settings.stabilization;
            history.allow(ask, self.behavior().as_ref(), window, tokio::time::Instant::now())
        };
        let Because { reason: able, message } = allowed.able;
        self.condition(ABLE_TO_SCALE, true, able, message);
        let Because { reason: limited, message } = allowed.limited;
        self.condition(SCALING_LIMITED, allowed.is_limited, limited, message);
        Ok(Decision { replicas: allowed.replicas, reason, statuses, failure })
    }

    /// Computes all metrics. What asks for the most counts. One that cannot be computed does not hold those
    /// that ask for more replicas.
    async fn compute(&mut self, scale: &Scale) -> Computed {
        let selector = match self.selector(scale.selector()).await {
            Ok(selector) => selector,
            Err(message) => return Computed { outcome: Err(message), statuses: None },
        };
        let before = self.before.clone();
        let autoscaler = HorizontalPodAutoscaler::of(&before);
        let of = Of {
            worker: self.worker,
            namespace: &self.key.0,
            selector: &selector,
            desired: scale.desired(),
            actual: scale.actual(),
            before: autoscaler.status().current_replicas(),
            tolerances: self.tolerances(),
        };
        let specs = autoscaler.spec().metrics();
        let mut statuses = Vec::new();
        let mut most: Option<(i64, String)> = None;
        let mut first: Option<Failed> = None;
        let mut failures = 0;
        for spec in specs.iter() {
            match of.metric(spec).await {
                Ok(proposal) => {
                    if most
                        .as_ref()
                        .is_none_or(|(replicas, _)| *replicas == 0 || proposal.replicas > *replicas)
                    {
                        most = Some((proposal.replicas, proposal.metric));
                    }
                    statuses.push(proposal.status.into());
                }
                Err(failed) => {
                    self.warn(failed.reason, &failed.message).await;
                    failures += 1;
                    first.get_or_insert(failed);
                    statuses.push(Map::new().into());
                }
            }
        }
        let (replicas, metric) = most.unwrap_or_default();
        let failure = first.as_ref().map(|first| {
            format!(
                "invalid metrics ({failures} invalid out of {}), first error is: {}",
                specs.len(),
                first.summary
            )
        });
        let outcome = match (first, failure) {
            (Some(first), Some(failure)) if failures >= specs.len() || replicas < scale.desired() => {
                let text = format!("the HPA was unable to compute the replica count: {}", first.message);
                self.condition(SCALING_ACTIVE, false, first.reason, &text);
                Err(failure)
            }
            (_, failure) => {
                let text =
                    format!("the HPA was able to successfully calculate a replica count from {metric}");
                self.condition(SCALING_ACTIVE, true, "ValidMetricFound", &text);
                Ok(Desired { replicas, metric, failure })
            }
        };
        Computed { outcome, statuses: Some(statuses) }
    }

    /// The selector of the pods, which no other autoscaler may select.
    async fn selector(&mut self, text: &str) -> Result<Selector, String> {
        if text.is_empty() {
            self.warn("SelectorRequired", "selector is required").await;
            let missing = "the HPA target's scale is missing a selector";
            self.condition(SCALING_ACTIVE, false, "InvalidSelector", missing);
            return Err("selector is required".to_owned());
        }
        let selector = match Selector::parse(text) {
            Ok(selector) => selector,
            Err(error) => {
                let text = format!(
                    "couldn't convert selector into a corresponding internal selector object: {error}"
                );
                self.warn("InvalidSelector", &text).await;
                self.condition(SCALING_ACTIVE, false, "InvalidSelector", &text);
                return Err(text);
            }
        };
        self.worker.selectors.set(self.key, Some(selector.clone()));
        let filter = Filter::namespace(self.key.0.as_str()).labels(selector.clone());
        let pods = self.worker.pods.list(Query::new(Freshness::Any, filter)).await;
        let selecting: BTreeSet<(Text, Text)> = pods
            .map_err(|error| error.to_string())?
            .flat_map(|pod| self.worker.selectors.matching(&pod))
            .collect();
        if selecting.len() > 1 {
            let names: Vec<String> =
                selecting.iter().map(|(space, name)| format!("{space}/{name}")).collect();
            let all = names.join(" ");
            let text = format!("pods by selector {text} are controlled by multiple HPAs: [{all}]");
            self.warn("AmbiguousSelector", &text).await;
            self.condition(SCALING_ACTIVE, false, "AmbiguousSelector", &text);
            return Err(text);
        }
        Ok(selector)
    }

    fn tolerances(&self) -> Tolerances {
        let usual = self.worker.settings.tolerance;
        let behavior = self.spec().behavior().filter(|_| self.worker.has_own_tolerance);
        let own = |rules: Option<HPAScalingRules<'_>>| {
            let text = rules.and_then(|rules| rules.tolerance());
            text.and_then(|text| text.parse::<Quantity>().ok()).map_or(usual, |own| own.approximate_f64())
        };
        Tolerances {
            down: own(behavior.and_then(|behavior| behavior.scale_down())),
            up: own(behavior.and_then(|behavior| behavior.scale_up())),
        }
    }

    async fn warn(&self, reason: &str, message: &str) {
        self.worker.recorder.record(&self.subject, EventType::Warning, reason, message).await;
    }

    fn condition(&mut self, kind: &str, is_true: bool, reason: &str, message: &str) {
        let status = if is_true { "True" } else { "False" };
        let fields = [("type", kind), ("status", status), ("reason", reason), ("message", message)];
        edit(&mut self.after, "status", |status| conditions::set(status, fields.into_iter().collect()));
    }

    /// Makes the status anew. Without a desired number that of the old status stays.
    fn set_status(
        &mut self,
        current: i64,
        desired: Option<i64>,
        metrics: Option<Vec<Value>>,
        is_rescaled: bool,
    ) {
        edit(&mut self.after, "status", |status| {
            status.remove("observedGeneration");
            set_number(status, "currentReplicas", current);
            if let Some(desired) = desired {
                set_number(status, "desiredReplicas", desired);
            }
            match metrics {
                Some(metrics) => drop(status.insert("currentMetrics", metrics)),
                None => drop(status.remove("currentMetrics")),
            }
            if is_rescaled {
                status.insert("lastScaleTime", Time::now().text());
            }
        });
    }

    /// Writes the status if it has changed.
    async fn write(&self) -> Result<(), Failure> {
        if self.after == self.before {
            return Ok(());
        }
        let (namespace, name) = (&self.key.0, &self.key.1);
        let address =
            Address { version: "v2", ..Address::v1("autoscaling", "horizontalpodautoscalers", namespace) };
        let written =
            self.worker.client.update(address.named(name).subresource("status"), self.after.clone().into());
        match written.await {
            Ok(_) => Ok(()),
            Err(error) => {
                self.warn("FailedUpdateStatus", &error.message).await;
                Err(format!("failed to update status for {name}: {}", error.message).into())
            }
        }
    }
}

//! The controller `horizontal-pod-autoscaler-controller`: sets the number of replicas of what has a scale, by
//! metrics.
//!
//! An autoscaler is reconciled once in a period, whether something has changed or not: metrics change without
//! notice. Without autoscalers there is no timer.
//!
//! | module | what |
//! |---|---|
//! | `target` | the scale of what an autoscaler scales |
//! | `sources` | metrics of the APIs `metrics.k8s.io`, `custom.metrics.k8s.io`, `external.metrics.k8s.io` |
//! | `pods` | which pods count: ready ones, those that are not ready, those without metrics |
//! | `calculator` | the number of replicas that one metric asks for |
//! | `compute` | the metrics of an autoscaler: numbers, status, failures |
//! | `history` | what was recommended and done before, and the limits that follow |
//! | `sync` | one reconciliation |

mod calculator;
mod compute;
mod families;
mod history;
mod pods;
mod sources;
mod sync;
mod target;
#[cfg(test)]
mod tests;

use crate::follow::{StartFrom, follow};
use crate::objects::decode;
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::selectors::Selectors;
use crate::{Context, Controller, Recorder};
use cache::{Resource, Update};
use history::History;
use object::Text;
use object::label::Selector;
use registry::Client;
use schema::Status;
use schema::view::View as _;
use schema::views::autoscaling::v2::HorizontalPodAutoscaler;
use sources::Sources;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) use families::FAMILIES;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "horizontal-pod-autoscaler-controller",
    alias: "horizontalpodautoscaling",
    account: "horizontal-pod-autoscaler",
    stores: crate::Stores::Own,
    run: |context| Box::pin(run(context)),
};

/// The component of events.
const COMPONENT: &str = "horizontal-pod-autoscaler";
/// How many autoscalers are reconciled at the same time.
const AT_ONCE: usize = 5;

/// The settings of horizontal autoscaling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AutoscalerSettings {
    /// How often an autoscaler is reconciled (`--horizontal-pod-autoscaler-sync-period`).
    pub period: Duration,
    /// How long a higher recommendation holds the number of replicas
    /// (`--horizontal-pod-autoscaler-downscale-stabilization`).
    pub stabilization: Duration,
    /// The change of a metric that is too small to scale (`--horizontal-pod-autoscaler-tolerance`).
    pub tolerance: f64,
    /// How long after its start the CPU of a pod may be left out
    /// (`--horizontal-pod-autoscaler-cpu-initialization-period`).
    pub cpu_initialization: Duration,
    /// How long after its start a pod may become ready for the first time
    /// (`--horizontal-pod-autoscaler-initial-readiness-delay`).
    pub initial_readiness: Duration,
}

impl AutoscalerSettings {
    /// The settings of a server without flags about them.
    pub const DEFAULT: Self = Self {
        period: Duration::from_secs(15),
        stabilization: Duration::from_secs(300),
        tolerance: 0.1,
        cpu_initialization: Duration::from_secs(300),
        initial_readiness: Duration::from_secs(30),
    };
}

impl Default for AutoscalerSettings {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// An autoscaler, by its namespace and name.
type Key = (Text, Text);

async fn run(context: Context) {
    let (Some(autoscalers), Some(pods)) =
        (context.resource("horizontalpodautoscalers.autoscaling"), context.resource("pods"))
    else {
        return;
    };
    let period = context.settings.autoscaling.period;
    let (queue, selectors) = (Arc::<Queue<Key>>::default(), Arc::<Selectors>::default());
    let _autoscalers = follow(autoscalers.clone(), StartFrom::State, {
        let (queue, selectors) = (queue.clone(), selectors.clone());
        move |update| {
            let Update::Change { before, after } = update else { return };
            let Some(autoscaler) = after.or(before) else { return };
            let key = (autoscaler.namespace().into(), autoscaler.name().into());
            match (before, after) {
                // What the autoscaler selects is known once its target was read.
                (None, Some(_)) => selectors.set(&key, Some(Selector::nothing())),
                (_, None) => selectors.set(&key, None),
                _ => {}
            }
            // A key that waits already keeps its time.
            queue.add_after(key, period);
        }
    });
    let worker = Worker {
        client: context.client.clone(),
        recorder: Recorder::new(context.client.clone(), COMPONENT),
        sources: Sources::new(&context),
        settings: context.settings.autoscaling,
        has_own_tolerance: context.settings.gates.hpa_configurable_tolerance,
        autoscalers,
        pods,
        selectors,
        histories: Mutex::default(),
    };
    queue.work(&context, AT_ONCE, Arc::new(worker)).await;
}

struct Worker {
    client: Client,
    recorder: Recorder,
    sources: Sources,
    settings: AutoscalerSettings,
    /// Whether an autoscaler may say its tolerance: the gate `HPAConfigurableTolerance`.
    has_own_tolerance: bool,
    autoscalers: Arc<Resource>,
    pods: Arc<Resource>,
    /// What the autoscalers select, as far as it is known.
    selectors: Arc<Selectors>,
    /// By autoscaler.
    histories: Mutex<HashMap<Key, History>>,
}

impl Worker {
    fn histories(&self) -> MutexGuard<'_, HashMap<Key, History>> {
        self.histories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reconcile for Worker {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<RequeueAfter, Status> {
        let Some(entry) = self.autoscalers.lookup(&key.0, &key.1).map_err(registry::status)? else {
            self.histories().remove(key);
            return Ok(None);
        };
        let autoscaler = decode(HorizontalPodAutoscaler::schema(), &entry)?;
        if let Err(error) = sync::Sync::new(self, key, &entry, autoscaler).run().await {
            // The next round comes with the next period: metrics that are missing are no reason to hurry.
            log::debug!(namespace = key.0.as_str(), name = key.1.as_str(), error:%; "an autoscaler could not be reconciled");
        }
        Ok(Some(self.settings.period))
    }
}

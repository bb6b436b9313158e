//! The controller `disruption-controller`: keeps the status of disruption budgets, which evictions go by, and
//! takes back the condition `DisruptionTarget` of pods that were not deleted in time.

mod scale;
mod status;

use crate::follow::{StartFrom, follow};
use crate::objects::{decode, edit, unless_changed};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::selectors::Selectors;
use crate::{Context, Controller, EventType, Recorder, Subject};
use cache::{Entry, Filter, Freshness, Query, Resource, Update};
use kinds::label_selector;
use object::label::Selector;
use object::time::Time;
use object::{Map, Text, Value};
use registry::{Address, Client};
use scale::Scales;
use schema::status::Reason;
use schema::view::View as _;
use schema::views::core::v1::{Pod, PodCondition};
use schema::views::meta::v1::LabelSelector;
use schema::views::policy::v1::PodDisruptionBudget;
use schema::{Builder, Part, Ref, Status, Type, stored};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "disruption-controller",
    alias: "disruption",
    account: "disruption-controller",
    stores: crate::Stores::Own,
    run: |context| Box::pin(run(context)),
};

/// The component of events.
const COMPONENT: &str = "controllermanager";
/// The time in which a pod is marked as deleted after its eviction was allowed, or the eviction is forgotten.
const DELETION_TIMEOUT: i64 = 120;
/// The time in which a pod with the condition `DisruptionTarget` is marked as deleted, or the condition ends.
const STALE_AFTER: i64 = 120;

/// The fields of a pod that are decoded.
static POD: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let metadata = Part("metadata", &[Part("ownerReferences", &[])]);
    let status = Part("status", &[Part("phase", &[]), Part("conditions", &[])]);
    Builder::part_of(Pod::schema(), &[metadata, status]).build()
});

/// A key of the work queue, by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Item {
    Budget(Text, Text),
    /// A pod whose condition `DisruptionTarget` may be stale.
    Pod(Text, Text),
}

async fn run(context: Context) {
    let (Some(budgets), Some(pods)) =
        (context.resource("poddisruptionbudgets.policy"), context.resource("pods"))
    else {
        return;
    };
    let (queue, selectors) = (Arc::<Queue<Item>>::default(), Arc::<Selectors>::default());
    let _pods = follow(pods.clone(), StartFrom::State, {
        let (queue, selectors) = (queue.clone(), selectors.clone());
        move |update| match update {
            Update::Reset => {
                queue.extend(selectors.all().into_iter().map(|(space, name)| Item::Budget(space, name)))
            }
            Update::Change { before, after } => {
                for pod in before.into_iter().chain(after) {
                    let matching = selectors.matching(pod);
                    queue.extend(matching.into_iter().map(|(space, name)| Item::Budget(space, name)));
                }
                if let Some(pod) = after.filter(|pod| may_be_stale(pod)) {
                    queue.add(Item::Pod(pod.namespace().into(), pod.name().into()));
                }
            }
        }
    });
    let _budgets = follow(budgets.clone(), StartFrom::State, {
        let (queue, selectors) = (queue.clone(), selectors.clone());
        move |update| match update {
            Update::Reset => selectors.clear(),
            Update::Change { before, after } => {
                let Some(budget) = after.or(before) else { return };
                let key = (budget.namespace().into(), budget.name().into());
                selectors.set(&key, after.and_then(|budget| selector_of(budget)));
                queue.add(Item::Budget(key.0, key.1));
            }
        }
    });
    let worker = Worker {
        scales: Scales::new(&context),
        client: context.client.clone(),
        recorder: Recorder::new(context.client.clone(), COMPONENT),
        budgets,
        pods,
    };
    queue.work(&context, 2, Arc::new(worker)).await;
}

/// Whether a pod has a condition that may have to be taken back, by its bytes.
fn may_be_stale(pod: &Entry) -> bool {
    !pod.is_deleting() && crate::objects::mentions(pod, r#""DisruptionTarget""#)
}

fn selector_of(budget: &Entry) -> Option<Selector> {
    let budget = decode(PodDisruptionBudget::schema(), budget).ok()?;
    let selector = PodDisruptionBudget::of(&budget).spec().selector()?;
    label_selector::compile(selector).ok()
}

/// A selector as Go shows it, for messages.
pub(crate) fn selector_text(selector: LabelSelector<'_>) -> String {
    let mut labels: Vec<(&str, &str)> = selector.match_labels().iter().collect();
    labels.sort_unstable();
    let labels: String = labels.into_iter().map(|(key, value)| format!("{key}: {value},")).collect();
    let expressions = selector.match_expressions().iter().map(|one| {
        let values: Vec<&str> = one.values().iter().collect();
        let (key, operator, values) = (one.key(), one.operator(), values.join(" "));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    });
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{}}},}}",
        expressions.collect::<String>()
    )
}

struct Worker {
    client: Client,
    recorder: Recorder,
    scales: Scales,
    budgets: Arc<Resource>,
    pods: Arc<Resource>,
}

/// A pod that a budget selects.
struct Member {
    entry: Arc<Entry>,
    pod: Map,
}

impl Member {
    fn condition(&self, kind: &str) -> Option<PodCondition<'_>> {
        Pod::of(&self.pod).status().conditions().iter().find(|condition| condition.r#type() == kind)
    }
}

impl Reconcile for Worker {
    type Key = Item;

    async fn reconcile(&self, item: &Item) -> Result<RequeueAfter, Status> {
        match item {
            Item::Budget(namespace, name) => self.sync(namespace, name).await,
            Item::Pod(namespace, name) => self.end_stale_condition(namespace, name).await,
        }
    }
}

impl Worker {
    async fn sync(&self, namespace: &str, name: &str) -> Result<RequeueAfter, Status> {
        let Some(entry) = self.budgets.lookup(namespace, name).map_err(registry::status)? else {
            return Ok(None);
        };
        let budget = decode(PodDisruptionBudget::schema(), &entry)?;
        match self.try_sync(&entry, &budget).await {
            Err(error) if error.reason != Reason::Conflict => {
                // Evictions are refused while the status cannot be computed.
                let mut failed = budget.clone();
                edit(&mut failed, "status", |status| status::fail(status, &error.message));
                self.write(&entry, &budget, failed).await.map(|()| None)
            }
            outcome => outcome,
        }
    }

    async fn try_sync(&self, entry: &Arc<Entry>, budget: &Map) -> Result<RequeueAfter, Status> {
        let subject = Subject::of(entry, "policy/v1", "PodDisruptionBudget");
        let pods = self.members(entry, budget).await?;
        if pods.is_empty() {
            self.recorder.record(&subject, EventType::Normal, "NoPods", "No matching pods found").await;
        }
        let expected = match self.scales.expected(budget, &pods).await {
            Ok(expected) => expected,
            Err(error) => {
                let why = format!("Failed to calculate the number of expected pods: {}", error.message);
                let reason = "CalculateExpectedPodCountFailed";
                self.recorder.record(&subject, EventType::Warning, reason, &why).await;
                return Err(error);
            }
        };
        if expected.has_unmanaged {
            let text = format!(
                "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.",
                PodDisruptionBudget::of(budget)
                    .spec()
                    .selector()
                    .map_or_else(|| "nil".to_owned(), selector_text)
            );
            self.recorder.record(&subject, EventType::Warning, "UnmanagedPods", &text).await;
        }
        let now = Time::now();
        let disrupted = status::disrupted_pods(budget, &pods, now);
        for pod in &disrupted.not_deleted {
            // The namespace stands in the place of the name, as in the events of the reference.
            let namespace = entry.namespace();
            let text = format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
            let subject = Subject::of(pod, "v1", "Pod");
            self.recorder.record(&subject, EventType::Warning, "NotDeleted", &text).await;
        }
        let mut changed = budget.clone();
        status::update(&mut changed, &expected, &pods, &disrupted);
        self.write(entry, budget, changed).await?;
        let again = disrupted.recheck.map(|at| {
            // A second more, because times are whole seconds.
            Duration::from_secs(u64::try_from(at.unix() - now.unix() + 1).unwrap_or_default())
        });
        Ok(again)
    }

    async fn members(&self, entry: &Entry, budget: &Map) -> Result<Vec<Member>, Status> {
        let selector = PodDisruptionBudget::of(budget).spec().selector().map(label_selector::compile);
        let Some(selector) = selector else { return Ok(Vec::new()) };
        let selector = selector.map_err(|error| Status::internal_error(&error.to_string()))?;
        let filter = Filter::namespace(entry.namespace()).labels(selector);
        let list = self.pods.list(Query::new(Freshness::Any, filter)).await.map_err(registry::status)?;
        list.map(|entry| {
            let pod = stored::decode_part(&POD, entry.bytes());
            Ok(Member { pod: pod.map_err(|error| Status::internal_error(&error.to_string()))?, entry })
        })
        .collect()
    }

    /// Writes the status if it changed.
    async fn write(&self, entry: &Entry, before: &Map, after: Map) -> Result<(), Status> {
        if after == *before {
            return Ok(());
        }
        let address = Address::v1("policy", "poddisruptionbudgets", entry.namespace()).named(entry.name());
        match self.client.update(address.subresource("status"), after.into()).await {
            Err(error) if error.reason == Reason::NotFound => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Takes back the condition `DisruptionTarget` of a pod that is not deleted in time.
    async fn end_stale_condition(&self, namespace: &str, name: &str) -> Result<RequeueAfter, Status> {
        let Some(entry) = self.pods.lookup(namespace, name).map_err(registry::status)? else {
            return Ok(None);
        };
        let mut pod = decode(Pod::schema(), &entry)?;
        let Some(since) = disruption_target(&entry, &pod) else { return Ok(None) };
        let left = since.unix().saturating_add(STALE_AFTER).saturating_sub(Time::now().unix());
        if let Some(left) = u64::try_from(left).ok().filter(|left| *left > 0) {
            return Ok(Some(Duration::from_secs(left)));
        }
        edit(&mut pod, "status", |status| {
            let conditions = status.get_mut("conditions").and_then(Value::as_list_mut);
            for condition in conditions.into_iter().flat_map(|list| list.iter_mut()) {
                if condition.get("type").and_then(Value::as_str) == Some("DisruptionTarget") {
                    let fields = [
                        ("type", Text::known("DisruptionTarget")),
                        ("status", Text::known("False")),
                        ("lastTransitionTime", Time::now().text()),
                    ];
                    *condition = fields.into_iter().collect::<Map>().into();
                }
            }
        });
        let address = Address::core("pods", namespace).named(name).subresource("status");
        unless_changed(self.client.update(address, pod.into()).await).map(|()| None)
    }
}

/// Since when a pod that is not being deleted has the condition `DisruptionTarget`. That of a kubelet, and
/// that of a pod that has ended, are not stale.
fn disruption_target(entry: &Entry, pod: &Map) -> Option<Time> {
    let status = Pod::of(pod).status();
    if entry.is_deleting() || matches!(status.phase(), "Succeeded" | "Failed") {
        return None;
    }
    let condition = status.conditions().iter().find(|condition| condition.r#type() == "DisruptionTarget")?;
    let counts = condition.status() == "True" && condition.reason() != "TerminationByKubelet";
    counts.then(|| condition.last_transition_time().and_then(|time| time.parse().ok()).unwrap_or(Time::ZERO))
}

#[cfg(test)]
mod tests;

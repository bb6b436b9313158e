//! Writes that no node was found for a pod, and has other pods make way for it.

use crate::diagnosis::note;
use crate::events::{Event, EventKind};
use crate::filter::Filters;
use crate::pod::{PREEMPTION, Pod, SCHEDULER_NAME};
use crate::preempt::Victims;
use crate::work::Writer;
use cache::Entry;
use clock::Instant;
use object::Text;
use object::time::Time;
use registry::{Address, DeleteOptions, Patch};
use schema::status::Reason;
use schema::view::View as _;
use schema::views::core::v1;
use schema::{Status, json, stored};
use std::fmt::Write as _;
use std::sync::Arc;

/// A pod for which there is no node now.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) pod: Arc<Pod>,
    pub(crate) message: String,
    /// What the pod waits for: a change that one of these filters cares about; after an error, a pause.
    pub(crate) cause: Cause,
    /// The node on which others make way for the pod; empty if it is to wait for none any more.
    pub(crate) nomination: Option<Text>,
    pub(crate) victims: Option<Victims>,
    /// Pods that do not wait any more for others to make way on that node.
    pub(crate) outranked: Vec<Arc<Pod>>,
}

/// Why there is no node for a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cause {
    /// These filters have rejected all nodes.
    Rejected(Filters),
    /// Something has failed.
    Error,
}

impl Failure {
    /// No node passed the filters.
    pub(crate) fn rejected(pod: &Arc<Pod>, message: String, filters: Filters) -> Self {
        let nomination = Some(Text::default());
        let cause = Cause::Rejected(filters);
        Self { pod: pod.clone(), message, cause, nomination, victims: None, outranked: Vec::new() }
    }

    /// Something has failed.
    pub(crate) fn error(pod: &Arc<Pod>, message: String) -> Self {
        Self { cause: Cause::Error, ..Self::rejected(pod, message, Filters::default()) }
    }
}

/// Tells people, and lets the pod wait.
pub(crate) async fn fail(writer: Writer, failure: Failure) {
    let Failure { pod, message, cause, nomination, victims, outranked } = failure;
    let event = Event {
        pod: pod.entry.clone(),
        related: None,
        kind: EventKind::FailedScheduling,
        note: note(&message),
    };
    writer.recorder.record(event);
    let reason = match cause {
        Cause::Rejected(_) => "Unschedulable",
        Cause::Error => "SchedulerError",
    };
    let written = write_condition(&writer, &pod.entry, reason, &message, nomination.as_deref()).await;
    if let Err(error) = written.as_ref().map_err(|error| &error.message) {
        log::warn!(pod = pod.key(), error:%; "the condition of a pod could not be written");
    }
    for other in outranked {
        let cleared = patch(&writer, &other.entry, r#"{"status":{"nominatedNodeName":null}}"#).await;
        log_failure(&other.entry, cleared);
    }
    // The pod waits only when all of them go: a deletion before that counts as a change since it was taken.
    if let Some(victims) = victims {
        for victim in &victims.pods {
            log_failure(&victim.entry, remove(&writer, &pod, victim, &victims.node).await);
        }
    }
    wait(&writer, &pod, cause);
    writer.shared.changed.notify_one();
}

fn wait(writer: &Writer, pod: &Pod, cause: Cause) {
    let (mut state, key) = (writer.shared.lock(), Text::from(pod.key()));
    match cause {
        Cause::Rejected(filters) => state.queue.wait(&key, filters, Instant::now()),
        Cause::Error => state.queue.retry(&key, Instant::now()),
    }
}

fn log_failure(pod: &Entry, outcome: Result<(), Status>) {
    match outcome {
        Err(error) if error.reason != Reason::NotFound => {
            log::warn!(pod = pod.key(), error:% = error.message; "a pod could not be made to make way");
        }
        _ => {}
    }
}

async fn patch(writer: &Writer, pod: &Entry, patch: &str) -> Result<(), Status> {
    let address = Address::core("pods", pod.namespace()).named(pod.name()).subresource("status");
    match writer.client.patch(address, Patch::Strategic, patch.as_bytes()).await {
        Err(error) if error.reason == Reason::NotFound => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Sets the condition `PodScheduled` and the node that the pod waits for, unless both are so already.
async fn write_condition(
    writer: &Writer,
    pod: &Arc<Entry>,
    reason: &str,
    message: &str,
    nomination: Option<&str>,
) -> Result<(), Status> {
    let (condition, nominated) = {
        let Some(map) = stored::logged(pod, stored::decode(v1::Pod::schema(), pod.bytes())) else {
            return Ok(());
        };
        let status = v1::Pod::of(&map).status();
        let wanted = Condition { r#type: "PodScheduled", status: "False", reason, message };
        let nominated = nomination.filter(|node| *node != status.nominated_node_name()).map(str::to_owned);
        (wanted.change(status), nominated)
    };
    if condition.is_none() && nominated.is_none() {
        return Ok(());
    }
    let mut text = String::from(r#"{"status":{"#);
    if let Some(condition) = &condition {
        let _ = write!(text, r#""conditions":[{condition}]"#);
    }
    if let Some(node) = nominated {
        let comma = if condition.is_some() { "," } else { "" };
        let node = if node.is_empty() { "null".to_owned() } else { json::string(&node).to_string() };
        let _ = write!(text, r#"{comma}"nominatedNodeName":{node}"#);
    }
    text.push_str("}}");
    patch(writer, pod, &text).await
}

/// A condition of a pod.
struct Condition<'a> {
    r#type: &'a str,
    status: &'a str,
    reason: &'a str,
    message: &'a str,
}

impl Condition<'_> {
    /// The condition as JSON, unless the pod has it so; the time of its last transition stays if its status
    /// does.
    fn change(&self, status: v1::PodStatus<'_>) -> Option<String> {
        let known = status.conditions().iter().find(|known| known.r#type() == self.r#type);
        let same_status = known.filter(|known| known.status() == self.status);
        if same_status.is_some_and(|known| known.reason() == self.reason && known.message() == self.message) {
            return None;
        }
        let since = same_status.and_then(|known| known.last_transition_time()).map(str::to_owned);
        Some(format!(
            r#"{{"type":{},"status":{},"lastProbeTime":null,"lastTransitionTime":{},"reason":{},"message":{}}}"#,
            json::string(self.r#type),
            json::string(self.status),
            json::string(&since.unwrap_or_else(|| Time::now().text().to_string())),
            json::string(self.reason),
            json::string(self.message),
        ))
    }
}

/// Deletes a pod that makes way, after its condition says so.
async fn remove(writer: &Writer, pod: &Pod, victim: &Pod, node: &str) -> Result<(), Status> {
    let entry = &victim.entry;
    let condition = {
        let Some(map) = stored::logged(entry, stored::decode(v1::Pod::schema(), entry.bytes())) else {
            return Ok(());
        };
        let message = format!("{SCHEDULER_NAME}: preempting to accommodate a higher priority pod");
        let condition =
            Condition { r#type: "DisruptionTarget", status: "True", reason: PREEMPTION, message: &message };
        condition.change(v1::Pod::of(&map).status())
    };
    if let Some(condition) = condition {
        patch(writer, entry, &format!(r#"{{"status":{{"conditions":[{condition}]}}}}"#)).await?;
    }
    let options = DeleteOptions { uid: Some(entry.uid().to_owned()), ..DeleteOptions::default() };
    let address = Address::core("pods", entry.namespace()).named(entry.name());
    match writer.client.delete(address, &options).await {
        // Another pod of the name may be there by now.
        Err(error) if matches!(error.reason, Reason::NotFound | Reason::Conflict) => return Ok(()),
        outcome => outcome?,
    }
    let note = format!("Preempted by pod {} on node {node}", pod.uid());
    let related = Some(pod.entry.clone());
    let event = Event { pod: entry.clone(), related, kind: EventKind::Preempted, note };
    writer.recorder.record(event);
    Ok(())
}

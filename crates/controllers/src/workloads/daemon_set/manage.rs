//! One pod on every node that fits, and none elsewhere.

use super::super::pod;
use super::super::pods::{is_namespace_ending, pod_of_template};
use super::super::slow_start::{FIRST_BATCH, at_once, slow_start};
use super::{Daemon, Fit, NodeFacts, Step, template};
use crate::EventType;
use crate::queue::RequeueAfter;
use object::label::Labels as _;
use schema::Status;
use schema::status::Reason;
use schema::view::View as _;
use schema::views::apps::v1::DaemonSet;
use std::sync::Arc;
use std::time::Duration;

/// The most pods that one step creates or deletes.
const BURST: usize = 250;
/// The most pods that one step deletes at the same time.
const DELETES_AT_ONCE: usize = 64;

/// What has to be done.
#[derive(Default)]
pub(super) struct Changes {
    /// The nodes that need a pod.
    pub(super) create: Vec<String>,
    /// The pods that have to go.
    pub(super) delete: Vec<String>,
    /// When a failed pod may be replaced that cannot be yet.
    pub(super) again: Option<Duration>,
}

impl Step<'_> {
    pub(super) async fn manage(&self) -> Result<RequeueAfter, Status> {
        let by_node = self.by_node().await?;
        let mut changes = Changes::default();
        for node in &self.nodes {
            let daemons = by_node.get(node.name()).map(Vec::as_slice);
            self.judge(node, daemons, &mut changes);
        }
        // Pods that wait for a node that is gone.
        let absent = by_node.iter().filter(|(node, _)| self.node(node).is_none());
        let waiting = absent.flat_map(|(_, daemons)| daemons).map(|daemon| &daemon.pod);
        let waiting = waiting.filter(|pod| pod::node(&pod.entry).is_empty());
        changes.delete.extend(waiting.map(|pod| pod.name().to_owned()));
        let again = changes.again;
        self.apply(changes).await?;
        Ok(again)
    }

    /// What has to be done on a node.
    fn judge(&self, node: &NodeFacts, daemons: Option<&[Daemon]>, changes: &mut Changes) {
        let fit = self.fit(node);
        let Some(daemons) = daemons else {
            if fit == Fit::Run {
                changes.create.push(node.name().to_owned());
            }
            return;
        };
        let live = daemons.iter().filter(|daemon| !daemon.is_terminating());
        if fit == Fit::Leave {
            changes.delete.extend(live.map(|daemon| daemon.pod.name().to_owned()));
            return;
        }
        let running: Vec<_> = live.filter(|daemon| !self.ends(node, daemon, changes)).collect();
        if !self.allows_surge() {
            changes.delete.extend(running.iter().skip(1).map(|daemon| daemon.pod.name().to_owned()));
        } else if running.is_empty() {
            if fit == Fit::Run {
                changes.create.push(node.name().to_owned());
            }
        } else if running.len() > 1 {
            self.judge_surge(&running, changes);
        }
    }

    /// Whether a pod has ended, and is to be replaced: at once, or after a pause if it failed.
    fn ends(&self, node: &NodeFacts, daemon: &Daemon, changes: &mut Changes) -> bool {
        let (namespace, name) = (self.owner.namespace(), daemon.pod.name());
        let report = |event_type, reason, message| {
            self.controller.reporter.report(&self.owner.subject(), event_type, reason, message);
        };
        match pod::phase(&daemon.pod.entry) {
            "Failed" => {
                let observed = DaemonSet::of(&self.object).status().observed_generation();
                let key = (self.owner.uid().into(), observed, node.name().into());
                if let Some(pause) = self.controller.backoff.begin(key) {
                    changes.again = Some(changes.again.map_or(pause, |again| again.min(pause)));
                    return true;
                }
                let node = node.name();
                let message =
                    format!("Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it");
                report(EventType::Warning, "FailedDaemonPod", message);
            }
            "Succeeded" => {
                let message = format!(
                    "Found succeeded daemon pod {namespace}/{name} on node {}, will try to delete it",
                    node.name()
                );
                report(EventType::Normal, "SucceededDaemonPod", message);
            }
            _ => return false,
        }
        changes.delete.push(name.to_owned());
        true
    }

    /// Of the pods of a node, the oldest of the new revision and the oldest of the old ones stay, the latter
    /// until the new one is available.
    fn judge_surge(&self, running: &[&Daemon], changes: &mut Changes) {
        let is_new =
            |daemon: &&&Daemon| daemon.pod.entry.label(super::REVISION_LABEL) == Some(self.hash.as_str());
        let (new, old): (Vec<&Daemon>, Vec<&Daemon>) = running.iter().copied().partition(|it| is_new(&it));
        let surplus = new.iter().skip(1).chain(old.iter().skip(1));
        changes.delete.extend(surplus.map(|daemon| daemon.pod.name().to_owned()));
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!old.pod.is_ready() || self.is_available(&new.pod))
        {
            changes.delete.push(old.pod.name().to_owned());
        }
    }

    /// Creates and deletes pods.
    pub(super) async fn apply(&self, changes: Changes) -> Result<(), Status> {
        let nodes = Arc::new(changes.create);
        let template = pod_of_template(&self.template, &self.owner);
        let started = slow_start(nodes.len().min(BURST), FIRST_BATCH, |at| {
            let (pods, owner, mut pod) = (self.controller.pods.clone(), self.owner.clone(), template.clone());
            let node = nodes.get(at).cloned();
            async move {
                let Some(node) = node else { return Ok(()) };
                template::bind(&mut pod, &node);
                match pods.create(&owner, pod).await {
                    // No other create can succeed either.
                    Err(error) if is_namespace_ending(&error) => Ok(()),
                    created => created.map(drop),
                }
            }
        });
        let created = started.await.error.map_or(Ok(()), Err);
        let deletes = changes.delete.into_iter().take(BURST).map(|name| {
            let (pods, owner) = (self.controller.pods.clone(), self.owner.clone());
            async move {
                match pods.delete(&owner, &name).await {
                    Err(error) if error.reason == Reason::NotFound => Ok(()),
                    outcome => outcome,
                }
            }
        });
        let deleted = at_once(DELETES_AT_ONCE, deletes).await;
        created.and(deleted)
    }
}

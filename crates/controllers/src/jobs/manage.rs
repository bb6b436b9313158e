//! The pods that a job needs: those that are missing are made, those that are too many are deleted.

use super::TRACKING;
use super::orphans::untrack;
use super::pod::{FAILURES, IGNORED_FAILURES, INDEX, JobPod};
use super::policy::{self, Verdict};
use super::sync::{Look, count};
use super::{is_indexed, is_suspended};
use crate::objects::{add_finalizer, annotate, edit};
use crate::workloads::dependents::Dependent;
use crate::workloads::owner::Owner;
use crate::workloads::pods::{is_namespace_ending, pod_of_template};
use crate::workloads::ranking;
use crate::workloads::slow_start::{FIRST_BATCH, at_once, slow_start};
use object::{List, Map, Value};
use schema::Status;
use schema::status::Reason;
use schema::view::View as _;
use schema::views::batch::v1::Job;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The most pods that one look makes or deletes.
const BURST: usize = 500;
/// The most pods that are deleted at the same time.
const DELETES_AT_ONCE: usize = 64;
/// The variable with the index of a pod.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// The most bytes of a name before its random end.
const MOST_PREFIX: usize = 58;

/// Whether a pod keeps its finalizer when it is deleted, because the job still counts it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tracking {
    Kept,
    Removed,
}

impl Look<'_> {
    /// Deletes all active pods: the job is ending.
    pub(super) async fn delete_active(&mut self) -> Result<(), Status> {
        let active = self.active_pods();
        self.delete(active, Tracking::Kept).await
    }

    fn active_pods(&self) -> Vec<JobPod> {
        self.pods.iter().filter(|pod| pod.is_active()).cloned().collect()
    }

    /// Makes or deletes pods, so that the job has as many as it needs.
    pub(super) async fn manage(&mut self) -> Result<(), Status> {
        if is_suspended(&self.job) {
            let active = self.active_pods();
            return self.delete(active, Tracking::Removed).await;
        }
        let spec = Job::of(&self.job).spec();
        let parallelism = spec.parallelism().unwrap_or_default();
        let wanted = match spec.completions() {
            None if self.succeeded > 0 => self.active,
            None => parallelism,
            Some(completions) => (completions - self.succeeded).min(parallelism).max(0),
        };
        let surplus = usize::try_from(self.active - wanted).unwrap_or_default();
        let mut surplus = self.surplus(surplus);
        surplus.truncate(BURST);
        if !surplus.is_empty() {
            return self.delete(surplus, Tracking::Removed).await;
        }
        let ending = if policy::replaces_only_failed(&self.job) { self.terminating } else { 0 };
        match usize::try_from(wanted - ending - self.active) {
            Ok(missing @ 1..) => self.create(missing.min(BURST)).await,
            _ => Ok(()),
        }
    }

    /// The active pods that are too many: at least so many, and those whose index is taken or is none of the
    /// job.
    fn surplus(&self, at_least: usize) -> Vec<JobPod> {
        let (mut surplus, mut left) = (Vec::new(), Vec::new());
        if is_indexed(&self.job) {
            let mut by_index: BTreeMap<i64, Vec<JobPod>> = BTreeMap::new();
            for pod in self.active_pods() {
                match pod.index.filter(|_| pod.is_in_range(&self.job)) {
                    Some(index) => by_index.entry(index).or_default().push(pod),
                    None => surplus.push(pod),
                }
            }
            for pods in by_index.into_values() {
                let repeated = pods.len() - 1;
                let (first, rest) = self.ranked(pods, repeated);
                surplus.extend(first);
                left.extend(rest);
            }
        } else {
            left = self.active_pods();
        }
        let more = at_least.saturating_sub(surplus.len());
        surplus.extend(self.ranked(left, more).0);
        surplus
    }

    /// The pods that go first, so many of them, and the others.
    fn ranked(&self, pods: Vec<JobPod>, count: usize) -> (Vec<JobPod>, Vec<JobPod>) {
        if count == 0 {
            return (Vec::new(), pods);
        }
        let dependents: Vec<Dependent> = pods.iter().map(|pod| pod.dependent.clone()).collect();
        let first = ranking::to_delete(dependents, &[], count, self.now);
        let uids: HashSet<String> = first.iter().map(|pod| pod.entry.uid().to_owned()).collect();
        pods.into_iter().partition(|pod| uids.contains(pod.uid()))
    }

    /// Deletes pods, and counts those that are being deleted from now on.
    async fn delete(&mut self, pods: Vec<JobPod>, tracking: Tracking) -> Result<(), Status> {
        let (all, ready) = (Arc::new(AtomicI64::new(0)), count(pods.iter().filter(|pod| pod.is_ready())));
        let deletes = pods.into_iter().map(|pod| {
            let (client, own) = (self.worker.client.clone(), self.worker.pods.clone());
            let (owner, all) = (self.owner.clone(), all.clone());
            async move {
                if tracking == Tracking::Removed && pod.is_tracked {
                    untrack(&client, &pod.dependent.entry).await?;
                }
                match own.delete(&owner, pod.name()).await {
                    Err(error) if error.reason != Reason::NotFound => return Err(error),
                    _ => {}
                }
                all.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        });
        let outcome = at_once(DELETES_AT_ONCE, deletes).await;
        let deleted = all.load(Ordering::Relaxed);
        self.active -= deleted;
        self.terminating += deleted;
        self.ready -= ready;
        outcome
    }

    /// Makes pods, unless the job has to wait after failures.
    async fn create(&mut self, missing: usize) -> Result<(), Status> {
        let pauses = self.worker.pauses;
        if !self.is_per_index() {
            let left = pauses.left(self.record.failures, self.record.last, self.now);
            if !left.is_zero() {
                self.look_again(left);
                self.active = 0;
                return Ok(());
            }
        }
        let mut pods = Vec::new();
        if is_indexed(&self.job) {
            let indexes = self.pending(missing);
            let mut shortest = None;
            for index in indexes {
                let left = self.delayed.get(&index).map(|failed| {
                    let failures = i64::from(failed.failures().total()) + 1;
                    pauses.left(failures, Some(failed.finished_at()), self.now)
                });
                match left.filter(|left| !left.is_zero() && self.is_per_index()) {
                    Some(left) => {
                        shortest = Some(shortest.map_or(left, |known: std::time::Duration| known.min(left)))
                    }
                    None => pods.push(self.indexed_pod(index)),
                }
            }
            if let Some(shortest) = shortest {
                self.look_again(shortest);
                if pods.is_empty() {
                    self.active = 0;
                    return Ok(());
                }
            }
        } else {
            pods = vec![self.pod(); missing];
        }
        let pods = Arc::new(pods);
        let started = slow_start(pods.len(), FIRST_BATCH, |place| {
            let (own, owner, pods) = (self.worker.pods.clone(), self.owner.clone(), pods.clone());
            async move { create(&own, &owner, pods.get(place).cloned().unwrap_or_default()).await }
        });
        let started = started.await;
        self.active += i64::try_from(started.successes).unwrap_or_default();
        started.error.map_or(Ok(()), Err)
    }

    /// The first indexes, so many of them, that have not ended and that no pod works on.
    fn pending(&self, count: usize) -> Vec<i64> {
        let is_busy = |pod: &&JobPod| {
            pod.is_active() || policy::replaces_only_failed(&self.job) && pod.is_terminating()
        };
        let busy = self.pods.iter().filter(is_busy).filter_map(|pod| pod.index).collect();
        let mut taken = self.succeeded_indexes.merge(&busy);
        if let Some(failed) = &self.failed_indexes {
            taken = taken.merge(failed);
        }
        taken.first_missing(count, self.completions())
    }

    /// A pod of the template, with the finalizer of pods that are not counted.
    fn pod(&self) -> Map {
        let template = Job::of(&self.job).spec().template().map().clone();
        let mut pod = pod_of_template(&template, &self.owner);
        add_finalizer(&mut pod, TRACKING);
        pod
    }

    /// The pod of an index.
    fn indexed_pod(&self, index: i64) -> Map {
        let mut pod = self.pod();
        let text = index.to_string();
        annotate(&mut pod, INDEX, &text);
        if self.is_per_index() {
            let failures = self.delayed.get(&index).map(|failed| {
                let mut failures = failed.failures();
                match policy::verdict(&self.job, failed) {
                    Verdict::Ignored => failures.ignored += 1,
                    _ => failures.counted += 1,
                }
                failures
            });
            let failures = failures.unwrap_or_default();
            annotate(&mut pod, FAILURES, &failures.counted.to_string());
            if failures.ignored > 0 {
                annotate(&mut pod, IGNORED_FAILURES, &failures.ignored.to_string());
            }
        }
        let name = self.owner.name();
        edit(&mut pod, "metadata", |metadata| {
            edit(metadata, "labels", |labels| labels.insert(INDEX, text.as_str()));
            let end = format!("-{index}-");
            let room = MOST_PREFIX.saturating_sub(end.len());
            let start = name.get(..room).unwrap_or(name);
            metadata.insert("generateName", format!("{start}{end}"));
        });
        edit(&mut pod, "spec", |spec| {
            spec.insert("hostname", format!("{name}-{index}"));
            for list in ["initContainers", "containers"] {
                let containers = spec.get_mut(list).and_then(Value::as_list_mut);
                for container in containers.into_iter().flat_map(|list| list.iter_mut()) {
                    if let Some(container) = container.as_map_mut() {
                        add_index_variable(container);
                    }
                }
            }
        });
        pod
    }
}

/// Tells a container its index, unless it has a variable of that name.
fn add_index_variable(container: &mut Map) {
    let variables = container.get_or_insert_with("env", || List::new().into());
    let Some(variables) = variables.as_list_mut() else { return };
    if variables.iter().any(|one| one.get("name").and_then(Value::as_str) == Some(INDEX_VARIABLE)) {
        return;
    }
    let field: Map = [("fieldPath", format!("metadata.labels['{INDEX}']"))].into_iter().collect();
    let source: Map = [("fieldRef", field)].into_iter().collect();
    let mut variable: Map = [("name", INDEX_VARIABLE)].into_iter().collect();
    variable.insert("valueFrom", source);
    variables.push(variable.into());
}

async fn create(pods: &crate::workloads::pods::Pods, owner: &Owner, pod: Map) -> Result<(), Status> {
    match pods.create(owner, pod).await {
        // No other create can succeed either.
        Err(error) if is_namespace_ending(&error) => Ok(()),
        created => created.map(drop),
    }
}

//! The pods that have ended are counted: their uids go into the status, their finalizers are removed, the
//! numbers grow, and the uids go.

use super::intervals::Intervals;
use super::is_indexed;
use super::orphans::untrack;
use super::pod::JobPod;
use super::policy;
use super::sync::{Finish, Look, ensure, put};
use crate::EventType;
use crate::objects::{edit, set_number, set_text};
use crate::workloads::slow_start::at_once;
use object::time::Time;
use object::{List, Map, Value};
use registry::Address;
use schema::Status;
use schema::status::Reason;
use schema::view::View as _;
use schema::views::batch::v1::Job;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The most uids in a status: the rest is for the next look.
const MOST_UNCOUNTED: usize = 500;
/// The most finalizers that are removed at the same time.
const AT_ONCE: usize = 64;

/// The lists of uids that are not counted yet.
const LISTS: [&str; 2] = ["succeeded", "failed"];

impl Look<'_> {
    /// Counts pods, and writes the status if it changed or `needs_flush`.
    pub(super) async fn track(&mut self, mut needs_flush: bool) -> Result<(), Status> {
        if is_indexed(&self.job) {
            self.pods.sort_by_key(|pod| pod.index);
        }
        let mut tracked: HashSet<String> =
            self.pods.iter().filter(|pod| pod.is_tracked).map(|pod| pod.uid().to_owned()).collect();
        edit(&mut self.job, "status", |status| {
            status.get_or_insert_with("uncountedTerminatedPods", || Map::new().into());
        });
        needs_flush |= self.count_untracked(&tracked);
        let (ended, is_full, is_changed) = self.collect_ended();
        needs_flush |= is_changed;
        needs_flush |= self.announce_finish();
        if needs_flush {
            self.write().await.map_err(|error| prefixed(error, "adding uncounted pods to status"))?;
            self.worker.records.set(self.key, self.record);
            needs_flush = false;
        }
        let removed = self.untrack_all(ended, &mut tracked).await;
        needs_flush |= self.count_untracked(&tracked);
        if let Err(error) = removed {
            if needs_flush {
                self.write().await.map_err(|error| prefixed(error, "removing uncounted pods from status"))?;
            }
            return Err(error);
        }
        let finished = if is_full { None } else { self.enact_finish() };
        if needs_flush || finished.is_some() {
            self.write().await.map_err(|error| prefixed(error, "removing uncounted pods from status"))?;
        }
        if let Some(finish) = finished {
            self.report_finish(&finish);
        }
        Ok(())
    }

    /// Counts the pods in the lists of uids that have no finalizer any more. True if there are some.
    fn count_untracked(&mut self, tracked: &HashSet<String>) -> bool {
        edit(&mut self.job, "status", |status| {
            let mut is_changed = false;
            for key in LISTS {
                let counted = edit(status, "uncountedTerminatedPods", |uncounted| {
                    let Some(list) = uncounted.get_mut(key).and_then(Value::as_list_mut) else { return 0 };
                    let before = list.len();
                    list.retain(|uid| uid.as_str().is_some_and(|uid| tracked.contains(uid)));
                    let counted = before - list.len();
                    if list.is_empty() {
                        uncounted.remove(key);
                    }
                    counted
                });
                // The lists stay, also when they are empty.
                status.get_or_insert_with("uncountedTerminatedPods", || Map::new().into());
                if counted > 0 {
                    let known = status.get(key).and_then(Value::as_i64).unwrap_or_default();
                    set_number(status, key, known + i64::try_from(counted).unwrap_or_default());
                    is_changed = true;
                }
            }
            is_changed
        })
    }

    /// Notes the pods that have ended in the status. Returns those that can lose their finalizers, whether
    /// there are more of them than one look handles, and whether the status changed.
    fn collect_ended(&mut self) -> (Vec<JobPod>, bool, bool) {
        let (mut ended, mut new_indexes) = (Vec::new(), Vec::new());
        let (mut succeeded, mut failed) = (Vec::new(), Vec::new());
        let is_indexed = is_indexed(&self.job);
        let is_failing = self.finish.as_ref().is_some_and(|finish| finish.kind != "SuccessCriteriaMet");
        let known = self.uncounted_in_status();
        let (mut is_full, mut is_changed) = (false, false);
        for pod in self.pods.iter().filter(|pod| pod.is_tracked) {
            let has_failed = pod.has_failed(&self.job);
            if !self.can_be_untracked(pod, has_failed) {
                continue;
            }
            ended.push(pod.clone());
            let uid = pod.uid();
            let is_known_failed = self.uncounted_failed.contains(uid);
            if pod.has_succeeded() && !is_known_failed {
                match pod.index.filter(|_| pod.is_in_range(&self.job)) {
                    Some(index) if is_indexed && !self.previous_indexes.has(index) => {
                        new_indexes.push(index);
                        is_changed = true;
                    }
                    _ if !is_indexed && !self.uncounted_succeeded.contains(uid) => {
                        succeeded.push(uid.to_owned());
                        is_changed = true;
                    }
                    _ => {}
                }
            } else if (has_failed || is_failing)
                && !is_known_failed
                && pod.is_in_range(&self.job)
                && policy::verdict(&self.job, pod).is_counted()
            {
                failed.push(uid.to_owned());
                is_changed = true;
            }
            if known + new_indexes.len() + succeeded.len() + failed.len() >= MOST_UNCOUNTED {
                is_full = true;
                break;
            }
        }
        self.add_uncounted("succeeded", succeeded);
        self.add_uncounted("failed", failed);
        if is_indexed {
            is_changed |= self.write_indexes(new_indexes);
        }
        (ended, is_full, is_changed)
    }

    fn uncounted_in_status(&self) -> usize {
        let uncounted = Job::of(&self.job).status().uncounted_terminated_pods();
        uncounted.map_or(0, |uncounted| uncounted.succeeded().len() + uncounted.failed().len())
    }

    fn add_uncounted(&mut self, key: &'static str, uids: Vec<String>) {
        if uids.is_empty() {
            return;
        }
        edit(&mut self.job, "status", |status| {
            edit(status, "uncountedTerminatedPods", |uncounted| {
                let list = uncounted.get_or_insert_with(key, || List::new().into());
                if let Some(list) = list.as_list_mut() {
                    list.extend(uids.into_iter().map(Value::from));
                }
            });
        });
    }

    /// Writes the indexes that have succeeded and failed into the status. True if that changes anything.
    fn write_indexes(&mut self, new: Vec<i64>) -> bool {
        let new: Intervals = new.into_iter().collect();
        self.succeeded_indexes = self.succeeded_indexes.merge(&new);
        let (succeeded, total) = (self.succeeded_indexes.to_string(), self.succeeded_indexes.total());
        let failed = self.failed_indexes.as_ref().map(ToString::to_string);
        let status = Job::of(&self.job).status();
        let is_changed =
            status.completed_indexes() != succeeded || status.failed_indexes() != failed.as_deref();
        edit(&mut self.job, "status", |status| {
            set_number(status, "succeeded", total);
            set_text(status, "completedIndexes", &succeeded);
            match failed {
                Some(failed) => drop(status.insert("failedIndexes", failed)),
                None => drop(status.remove("failedIndexes")),
            }
        });
        is_changed
    }

    /// Whether a pod can lose its finalizer: it has ended, or the job ends. A failed pod whose index is tried
    /// again stays until then.
    fn can_be_untracked(&self, pod: &JobPod, has_failed: bool) -> bool {
        if self.owner.is_deleting() || self.finish.is_some() || pod.has_succeeded() {
            return true;
        }
        let is_delayed = || {
            let known = pod.index.and_then(|index| self.delayed.get(&index));
            self.is_per_index() && known.is_some_and(|known| known.uid() == pod.uid())
        };
        has_failed && !is_delayed()
    }

    /// Says in the status how the job is going to end. True if that was not said before.
    fn announce_finish(&mut self) -> bool {
        let Some(finish) = self.finish.clone() else { return false };
        let last = match finish.kind {
            "FailureTarget" => "Failed",
            "SuccessCriteriaMet" => "Complete",
            _ => return false,
        };
        let is_known = Job::of(&self.job)
            .status()
            .conditions()
            .iter()
            .any(|known| known.r#type() == finish.kind && known.status() == "True");
        if !is_known {
            edit(&mut self.job, "status", |status| put(status, &finish, "True"));
        }
        self.finish = Some(Finish { kind: last, ..finish });
        !is_known
    }

    /// Removes finalizers. Pods that have lost it are no longer in `tracked`.
    async fn untrack_all(&self, pods: Vec<JobPod>, tracked: &mut HashSet<String>) -> Result<(), Status> {
        let done = Arc::new(Mutex::new(Vec::new()));
        let steps = pods.into_iter().map(|pod| {
            let (client, done) = (self.worker.client.clone(), done.clone());
            async move {
                untrack(&client, &pod.dependent.entry).await?;
                done.lock().unwrap_or_else(PoisonError::into_inner).push(pod.uid().to_owned());
                Ok(())
            }
        });
        let outcome = at_once(AT_ONCE, steps).await;
        for uid in done.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            tracked.remove(uid);
        }
        outcome
    }

    /// Ends the job, if no pod is left to be counted or to end.
    fn enact_finish(&mut self) -> Option<Finish> {
        let finish = self.finish.clone()?;
        if self.uncounted_in_status() > 0 || self.terminating > 0 {
            return None;
        }
        edit(&mut self.job, "status", |status| {
            ensure(status, &finish, "True");
            if finish.kind == "Complete" {
                status.insert("completionTime", Time::now().text());
            }
        });
        Some(finish)
    }

    fn report_finish(&self, finish: &Finish) {
        if finish.kind == "Complete" {
            let succeeded = Job::of(&self.job).status().succeeded();
            if Job::of(&self.job).spec().completions().is_some_and(|wanted| succeeded > wanted) {
                let text = "Too many succeeded pods running after completion count reached";
                self.report(EventType::Warning, "TooManySucceededPods", text);
            }
            return self.report(EventType::Normal, "Completed", "Job completed");
        }
        // The reasons are those of this controller, but for a condition that somebody else wrote.
        let reasons = [
            "BackoffLimitExceeded",
            "DeadlineExceeded",
            "PodFailurePolicy",
            "MaxFailedIndexesExceeded",
            "FailedIndexes",
        ];
        let reason = reasons.into_iter().find(|reason| *reason == finish.reason).unwrap_or("Failed");
        self.report(EventType::Warning, reason, finish.message.clone());
    }

    /// Writes the status. What another client changed of the job meanwhile is a conflict.
    async fn write(&mut self) -> Result<(), Status> {
        let address: Address<'_> = self.owner.address().subresource("status");
        let written = self.worker.client.update(address, self.job.clone().into()).await;
        match written {
            Err(error) if error.reason == Reason::NotFound => Ok(()),
            written => {
                self.job = written?.as_map().cloned().unwrap_or_default();
                Ok(())
            }
        }
    }
}

fn prefixed(mut error: Status, with: &str) -> Status {
    error.message = format!("{with}: {}", error.message);
    error
}

//! A pod of a job.

use super::TRACKING;
use super::policy;
use crate::objects::annotation;
use crate::workloads::dependents::Dependent;
use crate::workloads::pod;
use kinds::object_meta;
use object::Map;
use object::time::Time;
use schema::view::{Items, View as _};
use schema::views::batch::v1::Job;
use schema::views::core::v1::{ContainerStatus, Pod};
use schema::{Builder, Part, Ref, Status, Type};
use std::sync::LazyLock;

pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
pub(super) const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The fields of a pod that are decoded.
static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let metadata = Part(
        "metadata",
        &[
            Part("annotations", &[]),
            Part("creationTimestamp", &[]),
            Part("deletionTimestamp", &[]),
            Part("deletionGracePeriodSeconds", &[]),
            Part("finalizers", &[]),
        ],
    );
    const CONTAINER: &[Part] =
        &[Part("name", &[]), Part("restartCount", &[]), Part("state", &[Part("terminated", &[])])];
    let spec = Part("spec", &[Part("initContainers", &[Part("name", &[]), Part("restartPolicy", &[])])]);
    let status = Part(
        "status",
        &[
            Part("conditions", &[]),
            Part("containerStatuses", CONTAINER),
            Part("initContainerStatuses", CONTAINER),
        ],
    );
    Builder::part_of(Pod::schema(), &[metadata, spec, status]).build()
});

/// A pod of a job.
#[derive(Clone, Debug)]
pub(super) struct JobPod {
    pub(super) dependent: Dependent,
    pod: Map,
    /// The index that the pod works on; `None` if it has none that can be read.
    pub(super) index: Option<i64>,
    /// Whether the job still has to count the pod.
    pub(super) is_tracked: bool,
}

impl JobPod {
    pub(super) fn read(dependent: Dependent) -> Result<Self, Status> {
        let pod = crate::objects::decode_part(&PART, &dependent.entry)?;
        let index = annotation(&pod, INDEX).parse().ok().filter(|index| *index >= 0);
        let is_tracked = object_meta::finalizers(&pod).contains(&TRACKING);
        Ok(Self { dependent, pod, index, is_tracked })
    }

    pub(super) fn uid(&self) -> &str {
        self.dependent.entry.uid()
    }

    pub(super) fn name(&self) -> &str {
        self.dependent.entry.name()
    }

    pub(super) fn namespace(&self) -> &str {
        self.dependent.entry.namespace()
    }

    pub(super) fn view(&self) -> Pod<'_> {
        Pod::of(&self.pod)
    }

    pub(super) fn phase(&self) -> &str {
        pod::phase(&self.dependent.entry)
    }

    pub(super) fn has_succeeded(&self) -> bool {
        self.phase() == "Succeeded"
    }

    pub(super) fn is_active(&self) -> bool {
        pod::is_active(&self.dependent.entry)
    }

    pub(super) fn is_terminating(&self) -> bool {
        pod::is_terminating(&self.dependent.entry)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.dependent.is_ready()
    }

    /// Whether the pod counts as failed. One that is being deleted does, unless the job waits for its end
    /// before it replaces the pod.
    pub(super) fn has_failed(&self, job: &Map) -> bool {
        match self.phase() {
            "Failed" => true,
            "Succeeded" => false,
            _ => !policy::replaces_only_failed(job) && self.dependent.entry.is_deleting(),
        }
    }

    /// Whether the index of the pod is one of the job. Pods of a job without indexes have none.
    pub(super) fn is_in_range(&self, job: &Map) -> bool {
        let spec = Job::of(job).spec();
        if spec.completion_mode() != Some("Indexed") {
            return true;
        }
        self.index.is_some_and(|index| index < spec.completions().unwrap_or_default())
    }

    /// How often pods of the index of this pod failed before it.
    pub(super) fn failures(&self) -> Failures {
        let read = |key: &str| annotation(&self.pod, key).parse::<i32>().ok().filter(|count| *count >= 0);
        Failures {
            counted: read(FAILURES).unwrap_or_default(),
            ignored: read(IGNORED_FAILURES).unwrap_or_default(),
        }
    }

    /// How often the containers were restarted.
    pub(super) fn restarts(&self) -> i64 {
        let status = self.view().status();
        let all = status.init_container_statuses().iter().chain(status.container_statuses().iter());
        all.map(|container| container.restart_count()).sum()
    }

    /// When the pod ended: by its containers, otherwise by its condition, its deletion or its creation.
    pub(super) fn finished_at(&self) -> Time {
        let metadata = self.view().metadata();
        let parse = |time: Option<&str>| time.and_then(|time| time.parse::<Time>().ok());
        let unready = self
            .view()
            .status()
            .conditions()
            .iter()
            .find(|condition| condition.r#type() == "Ready" && condition.status() == "False");
        let deleted = || {
            let grace = metadata.deletion_grace_period_seconds().unwrap_or_default();
            Some(Time::from_unix(parse(metadata.deletion_timestamp())?.unix().saturating_sub(grace)))
        };
        self.containers_finished_at()
            .or_else(|| parse(unready.and_then(|condition| condition.last_transition_time())))
            .or_else(deleted)
            .or_else(|| parse(metadata.creation_timestamp()))
            .unwrap_or(Time::ZERO)
    }

    /// When the last container ended, if all have ended.
    fn containers_finished_at(&self) -> Option<Time> {
        let pod = self.view();
        let is_sidecar = |name: &str| {
            let mut containers = pod.spec().init_containers().iter();
            containers.any(|one| one.name() == name && one.restart_policy() == Some("Always"))
        };
        let statuses: Items<'_, ContainerStatus<'_>> = pod.status().container_statuses();
        let sidecars = pod.status().init_container_statuses().iter().filter(|one| is_sidecar(one.name()));
        let mut latest = None;
        for status in statuses.iter().chain(sidecars) {
            let at: Time = status.state().terminated()?.finished_at()?.parse().ok()?;
            latest = latest.max(Some(at));
        }
        latest
    }
}

/// How often pods of an index failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    /// Those that count.
    pub(super) counted: i32,
    /// Those that the failure policy ignores.
    pub(super) ignored: i32,
}

impl Failures {
    pub(super) fn total(self) -> i32 {
        self.counted.saturating_add(self.ignored)
    }
}

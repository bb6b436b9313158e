//! The pods of a stateful set, those included that are yet to be created.

use super::super::dependents::Dependent;
use super::super::history::REVISION_LABEL;
use super::super::pod;
use super::super::pods::pod_of_template;
use super::{Step, claims, ordinal};
use cache::Entry;
use object::label::Labels as _;
use object::{Map, Value};
use std::time::SystemTime;

/// The label with the name of the pod.
pub(super) const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// The label with the ordinal of the pod.
pub(super) const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// A pod of the set, or the place of one.
#[derive(Clone, Debug)]
pub(super) struct Replica {
    pub(super) ordinal: i64,
    pub(super) name: String,
    pub(super) state: State,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    /// The pod as it is.
    There(Dependent),
    /// The pod as it is to be created.
    Missing(Map),
}

impl Replica {
    /// A pod that is there.
    pub(super) fn of(pod: Dependent) -> Option<Self> {
        let ordinal = ordinal::ordinal(pod.name())?;
        Some(Self { ordinal, name: pod.name().to_owned(), state: State::There(pod) })
    }

    /// A pod that is yet to be created. Pods below the partition have the current revision.
    pub(super) fn missing(step: &Step, ordinal: i64) -> Self {
        let strategy = step.spec().update_strategy();
        let first_updated = match strategy.rolling_update() {
            Some(rolling) => rolling.partition().unwrap_or_default(),
            None if step.is_rolling() => super::number(&status_of(step), "currentReplicas"),
            None => 0,
        };
        let is_current = ordinal < step.start() + first_updated;
        let (revision, template) = match is_current {
            true => (step.current.name(), &step.current_template),
            false => (step.update.name(), &super::template(&step.object)),
        };
        let name = format!("{}-{ordinal}", step.owner.name());
        let mut pod = pod_of_template(template, &step.owner);
        if let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_map_mut) {
            metadata.insert("name", name.as_str());
            metadata.insert("namespace", step.owner.namespace());
        }
        identify(&mut pod, &name, ordinal);
        label(&mut pod, REVISION_LABEL, revision);
        if let Some(spec) = pod.get_mut("spec").and_then(Value::as_map_mut) {
            spec.insert("hostname", name.as_str());
            spec.insert("subdomain", step.spec().service_name());
        }
        claims::mount(step, &mut pod, ordinal);
        Self { ordinal, name, state: State::Missing(pod) }
    }

    /// The pod, if it is there.
    pub(super) fn pod(&self) -> Option<&Dependent> {
        match &self.state {
            State::There(pod) => Some(pod),
            State::Missing(_) => None,
        }
    }

    /// The uid of the pod; empty if it is not there.
    pub(super) fn uid(&self) -> &str {
        self.pod().map_or("", |pod| pod.entry.uid())
    }

    fn phase(&self) -> &str {
        self.pod().map_or("", |pod| pod::phase(&pod.entry))
    }

    pub(super) fn is_pending(&self) -> bool {
        self.phase() == "Pending"
    }

    pub(super) fn is_finished(&self) -> bool {
        self.pod().is_some_and(|pod| pod::is_finished(&pod.entry))
    }

    pub(super) fn is_terminating(&self) -> bool {
        self.pod().is_some_and(|pod| pod.entry.is_deleting())
    }

    pub(super) fn is_ready(&self) -> bool {
        self.phase() == "Running" && self.pod().is_some_and(Dependent::is_ready)
    }

    pub(super) fn is_available(&self, min_ready: i64, now: SystemTime) -> bool {
        self.pod().is_some_and(|pod| pod.is_available(min_ready, now))
    }

    /// Whether the pod is ready and stays.
    pub(super) fn is_healthy(&self) -> bool {
        self.is_ready() && !self.is_terminating()
    }

    /// The revision of the pod.
    pub(super) fn revision(&self) -> &str {
        match &self.state {
            State::There(pod) => revision_of(&pod.entry),
            State::Missing(pod) => {
                let labels = pod.get("metadata").and_then(|metadata| metadata.get("labels"));
                labels.and_then(|labels| labels.get(REVISION_LABEL)?.as_str()).unwrap_or_default()
            }
        }
    }
}

fn status_of(step: &Step) -> Map {
    step.object.get("status").and_then(Value::as_map).cloned().unwrap_or_default()
}

/// The revision of a pod, by its label.
pub(super) fn revision_of(pod: &Entry) -> &str {
    pod.label(REVISION_LABEL).unwrap_or_default()
}

/// Gives a pod the labels of its name and ordinal.
pub(super) fn identify(pod: &mut Map, name: &str, ordinal: i64) {
    label(pod, NAME_LABEL, name);
    label(pod, INDEX_LABEL, &ordinal.to_string());
}

fn label(pod: &mut Map, key: &'static str, value: &str) {
    let metadata = pod.get_or_insert_with("metadata", || Map::new().into()).as_map_mut();
    let labels = metadata.map(|metadata| metadata.get_or_insert_with("labels", || Map::new().into()));
    if let Some(labels) = labels.and_then(Value::as_map_mut) {
        labels.insert(key, value);
    }
}

/// The counts in the status of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) replicas: i64,
    pub(super) ready: i64,
    pub(super) available: i64,
    /// The pods of the current revision.
    pub(super) current: i64,
    /// The pods of the newest revision.
    pub(super) updated: i64,
}

impl Counts {
    pub(super) fn of<'a>(step: &Step, replicas: impl IntoIterator<Item = &'a Replica>) -> Self {
        let (min_ready, now) = (step.spec().min_ready_seconds(), clock::now());
        let mut counts = Self::default();
        for replica in replicas.into_iter().filter(|replica| replica.pod().is_some()) {
            let stays = !replica.is_terminating();
            let revision = replica.revision();
            counts.replicas += 1;
            counts.ready += i64::from(replica.is_ready());
            counts.available += i64::from(replica.is_ready() && replica.is_available(min_ready, now));
            counts.current += i64::from(stays && revision == step.current.name());
            counts.updated += i64::from(stays && revision == step.update.name());
        }
        counts
    }
}

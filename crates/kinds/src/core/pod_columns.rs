//! The columns of pods, with a summary of their containers.

use crate::{About, Cell, Column, Columns, Condition, columns};
use schema::view::{Items, View};
use schema::views::core::v1::{
    ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus,
};
use std::collections::{HashMap, HashSet};

/// The columns of pods.
pub(super) const COLUMNS: Columns = columns!(|object| {
    let pod = Pod::of(object);
    let (spec, status) = (pod.spec(), pod.status());
    let summary = Summary::of(spec, status);
    let deleted = pod.metadata().deletion_timestamp().is_some();
    let reason = match status.phase() {
        _ if deleted && status.reason() == "NodeLost" => "Unknown".into(),
        "Failed" | "Succeeded" => summary.reason,
        _ if deleted => "Terminating".into(),
        _ => summary.reason,
    };
    let address = match (status.pod_ip(), status.pod_ips().get(0)) {
        ("", Some(first)) => first.ip(),
        (address, _) => address,
    };
} [
    Column::NAME => Cell::name(object),
    Column::text("Ready", About::Text("The aggregate readiness state of this pod for accepting traffic."))
        => Cell::Text(format!("{}/{}", summary.ready, summary.total)),
    Column::text("Status", About::Text("The aggregate status of the containers in this pod."))
        => Cell::Text(reason),
    Column::text(
        "Restarts",
        About::Text(
            "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
        ),
    ) => summary.restarts.cell(),
    Column::AGE => Cell::age(object),
    Column::text("IP", About::Field("core.v1.PodStatus", "podIP")).wide()
        => Cell::text_or(address, "<none>"),
    Column::text("Node", About::Field("core.v1.PodSpec", "nodeName")).wide()
        => Cell::text_or(spec.node_name(), "<none>"),
    Column::text("Nominated Node", About::Field("core.v1.PodStatus", "nominatedNodeName")).wide()
        => Cell::text_or(status.nominated_node_name(), "<none>"),
    Column::text("Readiness Gates", About::Field("core.v1.PodSpec", "readinessGates")).wide()
        => Cell::Text(readiness_gates(spec, status)),
] conditions: match status.phase() {
    "Succeeded" => vec![SUCCEEDED],
    "Failed" => vec![FAILED],
    _ => Vec::new(),
});

const SUCCEEDED: Condition = Condition {
    ty: "Completed",
    status: "True",
    reason: "Succeeded",
    message: "The pod has completed successfully.",
};
const FAILED: Condition =
    Condition { ty: "Completed", status: "True", reason: "Failed", message: "The pod failed." };

/// The summary of the containers of a pod.
struct Summary<'a> {
    reason: String,
    ready: usize,
    total: usize,
    restarts: Restarts<'a>,
}

/// The number of restarts, and the time of the last one.
#[derive(Clone, Copy, Default)]
struct Restarts<'a> {
    count: i64,
    last: Option<&'a str>,
}

impl<'a> Restarts<'a> {
    fn add(&mut self, container: ContainerStatus<'a>) {
        self.count = self.count.saturating_add(container.restart_count());
        self.last = self.last.max(container.last_state().terminated().and_then(|state| state.finished_at()));
    }

    fn cell(self) -> Cell {
        match self.last {
            Some(time) if self.count != 0 => Cell::Since {
                before: format!("{} (", self.count).into(),
                time: Some(time.to_owned()),
                after: " ago)",
            },
            _ => Cell::Text(self.count.to_string()),
        }
    }
}

impl<'a> Summary<'a> {
    fn of(spec: PodSpec<'a>, status: PodStatus<'a>) -> Self {
        let sidecars = sidecars(spec);
        let mut this = Self {
            reason: first_reason(status).into(),
            ready: 0,
            total: spec.containers().len() + sidecars.count,
            restarts: Restarts::default(),
        };
        let mut restarts_of_sidecars = Restarts::default();
        let mut initializing = false;
        for (at, container) in status.init_container_statuses().iter().enumerate() {
            this.restarts.add(container);
            let is_sidecar = sidecars.names.contains(container.name());
            if is_sidecar {
                restarts_of_sidecars.add(container);
            }
            let state = container.state();
            let waiting = state.waiting().map(|waiting| waiting.reason()).filter(|reason| !reason.is_empty());
            this.reason = match (state.terminated(), waiting) {
                (Some(terminated), _) if terminated.exit_code() == 0 => continue,
                _ if is_sidecar && container.started() == Some(true) => {
                    this.ready += usize::from(container.ready());
                    continue;
                }
                (Some(terminated), _) => format!("Init:{}", end(terminated)),
                (None, Some(reason)) if reason != "PodInitializing" => format!("Init:{reason}"),
                _ => format!("Init:{at}/{}", spec.init_containers().len()),
            };
            initializing = true;
            break;
        }
        if !initializing || is_initialized(status) {
            this.restarts = restarts_of_sidecars;
            this.add_main(status);
        }
        this
    }

    /// Adds the main containers to the summary of the init containers: the first container with a reason
    /// counts.
    fn add_main(&mut self, status: PodStatus<'a>) {
        let mut reason = None;
        let mut running = false;
        for container in status.container_statuses().iter() {
            self.restarts.add(container);
            let state = container.state();
            let waiting = state.waiting().map(|waiting| waiting.reason()).filter(|reason| !reason.is_empty());
            match (waiting, state.terminated()) {
                (Some(waiting), _) => drop(reason.get_or_insert_with(|| waiting.to_owned())),
                (None, Some(terminated)) => drop(reason.get_or_insert_with(|| end(terminated))),
                (None, None) if container.ready() && state.running().is_some() => {
                    running = true;
                    self.ready += 1;
                }
                (None, None) => {}
            }
        }
        if let Some(reason) = reason {
            self.reason = reason;
        }
        if running && self.reason == "Completed" {
            let ready =
                |condition: PodCondition<'_>| condition.r#type() == "Ready" && condition.status() == "True";
            self.reason = if status.conditions().iter().any(ready) { "Running" } else { "NotReady" }.into();
        }
    }
}

/// The sidecars: init containers that keep running.
struct Sidecars<'a> {
    names: HashSet<&'a str>,
    count: usize,
}

fn sidecars<'a>(spec: PodSpec<'a>) -> Sidecars<'a> {
    let mut sidecars = Sidecars { names: HashSet::new(), count: 0 };
    for container in spec.init_containers().iter() {
        if container.restart_policy() == Some("Always") {
            sidecars.names.insert(container.name());
            sidecars.count += 1;
        } else {
            sidecars.names.remove(container.name());
        }
    }
    sidecars
}

/// The reason of the pod as a whole.
fn first_reason<'a>(status: PodStatus<'a>) -> &'a str {
    let gated = |condition: PodCondition<'_>| {
        condition.r#type() == "PodScheduled" && condition.reason() == "SchedulingGated"
    };
    match status.reason() {
        _ if status.conditions().iter().any(gated) => "SchedulingGated",
        "" => status.phase(),
        reason => reason,
    }
}

/// Why a container ended.
fn end(state: ContainerStateTerminated<'_>) -> String {
    match (state.reason(), state.signal()) {
        ("", 0) => format!("ExitCode:{}", state.exit_code()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn is_initialized(status: PodStatus<'_>) -> bool {
    let condition = status.conditions().iter().find(|condition| condition.r#type() == "Initialized");
    condition.is_some_and(|condition| condition.status() == "True")
}

fn readiness_gates(spec: PodSpec<'_>, status: PodStatus<'_>) -> String {
    let gates = spec.readiness_gates();
    if gates.is_empty() {
        return "<none>".into();
    }
    let conditions = first_by_type(status.conditions());
    let open = gates.iter().filter(|gate| conditions.get(gate.condition_type()) == Some(&"True")).count();
    format!("{open}/{}", gates.len())
}

fn first_by_type<'a>(conditions: Items<'a, PodCondition<'a>>) -> HashMap<&'a str, &'a str> {
    let mut first = HashMap::new();
    for condition in conditions.iter() {
        first.entry(condition.r#type()).or_insert(condition.status());
    }
    first
}

//! The life of a pod on a node that exists on paper: what is next for it, by its newest state.

use crate::annotation;
use crate::node_status::hex;
use crate::pod_end::{self, Ending};
use object::time::Time;
use object::{Map, Value};
use schema::view::View as _;
use schema::views::core::v1;
use std::net::Ipv4Addr;
use std::time::Duration;

const READY_DELAY: &str = "pod-ready.stage.kwok.x-k8s.io/delay";

/// The addresses of a pod and of its node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) host: Ipv4Addr,
    pub(crate) pod: Ipv4Addr,
}

/// What is next for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing, until the pod changes.
    Nothing,
    /// The status that was set is to be written.
    Write,
    /// Something, after a time.
    After(Duration),
    /// The pod is to be removed.
    Remove,
}

/// A delay that an annotation asks for.
pub(crate) fn delay(pod: &Map, key: &str) -> Option<Duration> {
    let delay: object::duration::Duration = annotation(pod, key)?.parse().ok()?;
    u64::try_from(delay.as_nanos()).ok().map(Duration::from_nanos)
}

/// The time that is left of a delay which began at a time; `None` if it is over.
pub(crate) fn left(since: Option<Time>, delay: Duration) -> Option<Duration> {
    let since = since.unwrap_or_else(Time::now);
    // Times of objects have whole seconds.
    let passed = u64::try_from(Time::now().since(since).as_nanos()).unwrap_or_default();
    delay.checked_sub(Duration::from_nanos(passed)).filter(|left| !left.is_zero())
}

/// Brings the status of a pod to its next state.
pub(crate) fn advance(pod: &mut Map, place: Place) -> Next {
    let view = v1::Pod::of(pod);
    let (status, metadata) = (view.status(), view.metadata());
    if metadata.deletion_timestamp().is_some() {
        return pod_end::advance_deletion(pod);
    }
    if matches!(status.phase(), "Succeeded" | "Failed") {
        return Next::Nothing;
    }
    let started: Option<Time> = status.start_time().and_then(|time| time.parse().ok());
    if status.phase() != "Running" {
        let delay = delay(pod, READY_DELAY).unwrap_or_default();
        if started.is_none() && !delay.is_zero() {
            set(pod, place, Containers::Creating);
            return Next::Write;
        }
        if let Some(left) = left(started, delay) {
            return Next::After(left);
        }
        set(pod, place, Containers::Running);
        return Next::Write;
    }
    if is_behind(view) {
        set(pod, place, Containers::Running);
        return Next::Write;
    }
    match pod_end::ending(pod) {
        Ending::Never => Next::Nothing,
        Ending::After(left) => Next::After(left),
        Ending::Now { code } => {
            pod_end::end(pod, code);
            Next::Write
        }
    }
}

/// Whether the specification or the readiness gates of a pod that runs have changed since its status was
/// written.
fn is_behind(pod: v1::Pod<'_>) -> bool {
    let (spec, status) = (pod.spec(), pod.status());
    let statuses = status.container_statuses();
    let is_resized = spec.containers().iter().any(|container| {
        let known = statuses.iter().find(|status| status.name() == container.name());
        let resources = known.and_then(|known| known.resources());
        let wanted = container.resources().map();
        resources.map_or(!wanted.is_empty(), |known| known.map() != wanted)
    });
    let has_debuggers = spec.ephemeral_containers().len() != status.ephemeral_container_statuses().len();
    let ready = condition(pod, "Ready").is_some_and(|ready| ready.status() == "True");
    is_resized || has_debuggers || ready != gate_failures(pod).is_empty()
}

fn condition<'a>(pod: v1::Pod<'a>, r#type: &str) -> Option<v1::PodCondition<'a>> {
    pod.status().conditions().iter().find(|condition| condition.r#type() == r#type)
}

/// Why the readiness gates of a pod keep it from being ready. A condition that nobody has set counts as true:
/// what would set it may not know this node.
fn gate_failures(pod: v1::Pod<'_>) -> Vec<String> {
    let gates = pod.spec().readiness_gates().iter().map(|gate| gate.condition_type());
    let failure = |gate: &str| {
        let status = condition(pod, gate)?;
        (status.status() != "True").then(|| {
            format!("the status of pod readiness gate \"{gate}\" is not \"True\", but {}", status.status())
        })
    };
    gates.filter_map(failure).collect()
}

/// The state of the containers of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Containers {
    Creating,
    Running,
}

fn set(pod: &mut Map, place: Place, containers: Containers) {
    let now = Time::now().text().to_string();
    let view = v1::Pod::of(pod);
    let is_running = containers == Containers::Running;
    let spec = view.spec();
    let pod_address = if spec.host_network() { place.host } else { place.pod };
    let mut status = view.status().map().clone();
    let failures = gate_failures(view);
    let mut conditions = Conditions { all: conditions(view), now: now.clone() };
    let names = |containers: schema::view::Items<'_, v1::Container<'_>>| {
        let names: Vec<&str> = containers.iter().map(|container| container.name()).collect();
        names.join(" ")
    };
    conditions.set("PodReadyToStartContainers", "True", "", "");
    if is_running || spec.init_containers().is_empty() {
        conditions.set("Initialized", "True", "", "");
    } else {
        let message = format!("containers with incomplete status: [{}]", names(spec.init_containers()));
        conditions.set("Initialized", "False", "ContainersNotInitialized", &message);
    }
    if is_running {
        for gate in spec.readiness_gates().iter().map(|gate| gate.condition_type()) {
            if condition(view, gate).is_none() {
                conditions.set(gate, "True", "", "");
            }
        }
        match failures.is_empty() {
            true => conditions.set("Ready", "True", "", ""),
            false => conditions.set("Ready", "False", "ReadinessGatesNotReady", &failures.join(", ")),
        }
        conditions.set("ContainersReady", "True", "", "");
    } else {
        let message = format!("containers with unready status: [{}]", names(spec.containers()));
        conditions.set("Ready", "False", "ContainersNotReady", &message);
        conditions.set("ContainersReady", "False", "ContainersNotReady", &message);
    }
    conditions.set("PodScheduled", "True", "", "");
    status.insert("conditions", conditions.all);
    status.insert("phase", if is_running { "Running" } else { "Pending" });
    let uid = view.metadata().uid();
    let each = |key: &str, role: Role, list: schema::view::Items<'_, v1::Container<'_>>| -> Value {
        let of = |container: v1::Container<'_>| {
            let known = known(view, key, container.name());
            container_status(uid, container, role, containers, known, &now)
        };
        list.iter().map(of).collect()
    };
    if !spec.init_containers().is_empty() {
        let role = Role::Init;
        status.insert("initContainerStatuses", each("initContainerStatuses", role, spec.init_containers()));
    }
    let role = match spec.init_containers().is_empty() {
        true => Role::Main { waits_for: "ContainerCreating" },
        false => Role::Main { waits_for: "PodInitializing" },
    };
    status.insert("containerStatuses", each("containerStatuses", role, spec.containers()));
    if !spec.ephemeral_containers().is_empty() {
        let debuggers = spec.ephemeral_containers().values().iter().filter_map(Value::as_map);
        let of = |map: &Map| {
            let container = v1::Container::of(map);
            let known = known(view, "ephemeralContainerStatuses", container.name());
            container_status(uid, container, Role::Debugger, containers, known, &now)
        };
        status.insert("ephemeralContainerStatuses", debuggers.map(of).collect::<Value>());
    }
    let (host, address) = (place.host.to_string(), pod_address.to_string());
    status.insert("hostIPs", Value::from_iter([Map::from_iter([("ip", host.as_str())])]));
    status.insert("podIPs", Value::from_iter([Map::from_iter([("ip", address.as_str())])]));
    status.insert("hostIP", host);
    status.insert("podIP", address);
    if !status.contains_key("startTime") {
        status.insert("startTime", now.as_str());
    }
    pod.insert("status", status);
}

fn conditions(pod: v1::Pod<'_>) -> Vec<Value> {
    pod.status().conditions().values().to_vec()
}

/// The conditions of a pod while they are changed.
pub(crate) struct Conditions {
    all: Vec<Value>,
    now: String,
}

impl Conditions {
    /// The conditions that a pod has.
    pub(crate) fn of(pod: v1::Pod<'_>) -> Self {
        Self { all: conditions(pod), now: Time::now().text().to_string() }
    }

    /// The conditions as they are now.
    pub(crate) fn into_value(self) -> Value {
        self.all.into()
    }

    /// Sets a condition; one whose status stays keeps the time of its last transition.
    pub(crate) fn set(&mut self, r#type: &str, status: &str, reason: &str, message: &str) {
        let text =
            |condition: &Value, key: &str| condition.get(key).and_then(Value::as_str).map(str::to_owned);
        let at = self.all.iter().position(|known| text(known, "type").as_deref() == Some(r#type));
        let known = at.and_then(|at| self.all.get(at));
        let same = known.filter(|known| text(known, "status").as_deref() == Some(status));
        let since = same.and_then(|same| text(same, "lastTransitionTime"));
        let mut condition = Map::new();
        condition.insert("type", r#type);
        condition.insert("status", status);
        condition.insert("lastProbeTime", Value::Null);
        condition.insert("lastTransitionTime", since.unwrap_or_else(|| self.now.clone()));
        for (key, text) in [("reason", reason), ("message", message)] {
            if !text.is_empty() {
                condition.insert(key, text);
            }
        }
        match at.and_then(|at| self.all.get_mut(at)) {
            Some(known) => *known = condition.into(),
            None => self.all.push(condition.into()),
        }
    }
}

/// What a container is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Main { waits_for: &'static str },
    Init,
    Debugger,
}

fn known<'a>(pod: v1::Pod<'a>, key: &str, name: &str) -> Option<v1::ContainerStatus<'a>> {
    let list = pod.status().map().get(key)?.as_list()?;
    let statuses = list.iter().filter_map(Value::as_map).map(v1::ContainerStatus::of);
    statuses.into_iter().find(|status| status.name() == name)
}

fn container_status(
    pod: &str,
    container: v1::Container<'_>,
    role: Role,
    containers: Containers,
    known: Option<v1::ContainerStatus<'_>>,
    now: &str,
) -> Map {
    let is_running = containers == Containers::Running;
    let is_sidecar = role == Role::Init && container.restart_policy() == Some("Always");
    let is_done = is_running && role == Role::Init && !is_sidecar;
    let restarts = known.map_or(0, |known| known.restart_count());
    let id = container_id(pod, container.name(), restarts);
    let state = match is_running {
        true if is_done => terminated(0, &id, now, now),
        true => match known.filter(|known| known.state().running().is_some()) {
            Some(known) => known.state().map().clone(),
            None => nested("running", Map::from_iter([("startedAt", now)])),
        },
        false => {
            let reason = match role {
                Role::Main { waits_for } => waits_for,
                Role::Init | Role::Debugger => "PodInitializing",
            };
            nested("waiting", Map::from_iter([("reason", reason)]))
        }
    };
    let mut status = Map::new();
    status.insert("name", container.name());
    status.insert("state", state);
    status.insert("lastState", known.map_or_else(Map::new, |known| known.last_state().map().clone()));
    status.insert("ready", is_running && role != Role::Debugger);
    status.insert("restartCount", restarts);
    status.insert("image", container.image());
    status.insert("imageID", if is_running { image_id(container.image()) } else { String::new() });
    if is_running {
        status.insert("containerID", id);
    }
    status.insert("started", is_running && !is_done);
    let resources = container.resources().map();
    if !resources.is_empty() {
        status.insert("resources", resources.clone());
        if let Some(requests) = resources.get("requests") {
            status.insert("allocatedResources", requests.clone());
        }
    }
    let mounts = container.volume_mounts().iter().map(|mount| {
        let mut map = Map::from_iter([("name", mount.name()), ("mountPath", mount.mount_path())]);
        if mount.read_only() {
            map.insert("readOnly", true);
            map.insert("recursiveReadOnly", "Disabled");
        }
        map
    });
    let mounts: Value = mounts.collect();
    if mounts.as_list().is_some_and(|mounts| !mounts.is_empty()) {
        status.insert("volumeMounts", mounts);
    }
    status
}

/// The identity of a container of a pod after some restarts.
pub(crate) fn container_id(pod: &str, name: &str, restarts: i64) -> String {
    format!("keelson://{}", hex(&[pod, name, &restarts.to_string()], 64))
}

fn image_id(image: &str) -> String {
    let name = image.split('@').next().unwrap_or_default();
    let name = match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => name,
    };
    format!("{name}@sha256:{}", hex(&[image], 64))
}

/// The state of a container that has ended.
pub(crate) fn terminated(code: i64, id: &str, started: &str, finished: &str) -> Map {
    let mut ended = Map::new();
    ended.insert("exitCode", code);
    ended.insert("reason", if code == 0 { "Completed" } else { "Error" });
    ended.insert("startedAt", started);
    ended.insert("finishedAt", finished);
    ended.insert("containerID", id);
    nested("terminated", ended)
}

/// A map with one field.
pub(crate) fn nested(key: &'static str, map: Map) -> Map {
    let mut outer = Map::new();
    outer.insert(key, map);
    outer
}

#[cfg(test)]
mod tests;

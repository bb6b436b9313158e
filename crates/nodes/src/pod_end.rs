//! The end of a pod: by itself, or because it is deleted.

use crate::annotation;
use crate::pod_status::{Conditions, Next, container_id, delay, left, nested, terminated};
use object::time::Time;
use object::{Map, Value};
use schema::view::View as _;
use schema::views::core::v1;
use std::time::Duration;

const COMPLETE_DELAY: &str = "pod-complete.stage.kwok.x-k8s.io/delay";
const DELETE_DELAY: &str = "pod-delete.stage.kwok.x-k8s.io/delay";
/// The annotation that says with which code the containers of a pod end.
const EXIT_CODE: &str = "keelson.io/exit-code";
/// The code of a container that was told to end.
const TOLD_TO_END: i64 = 143;
/// The pause before a container that failed is started again, the first time; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// When a pod that runs ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Never,
    After(Duration),
    /// With this code of its containers.
    Now {
        code: i64,
    },
}

/// When a pod that runs ends by itself: pods of jobs do, and those that say so.
pub(crate) fn ending(pod: &Map) -> Ending {
    let view = v1::Pod::of(pod);
    let code = annotation(pod, EXIT_CODE).and_then(|code| code.parse::<u8>().ok()).map(i64::from);
    let is_job = view.metadata().owner_references().iter().any(|owner| owner.kind() == "Job");
    let code = match (code, view.spec().restart_policy()) {
        (Some(code), _) => code,
        (None, "Never" | "OnFailure") if is_job || annotation(pod, COMPLETE_DELAY).is_some() => 0,
        _ => return Ending::Never,
    };
    let statuses = view.status().container_statuses();
    let running = statuses.iter().filter_map(|status| status.state().running());
    let started = running.filter_map(|running| running.started_at()?.parse::<Time>().ok()).max();
    let restarts = statuses.iter().map(|status| status.restart_count()).max().unwrap_or_default();
    let pause = match restarts {
        0 => Duration::ZERO,
        restarts => {
            let doublings = u32::try_from(restarts - 1).unwrap_or_default().min(8);
            FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE)
        }
    };
    match left(started, delay(pod, COMPLETE_DELAY).unwrap_or_default() + pause) {
        Some(left) => Ending::After(left),
        None => Ending::Now { code },
    }
}

/// Ends the containers of a pod with a code: they are started again if the pod wants that.
pub(crate) fn end(pod: &mut Map, code: i64) {
    let policy = v1::Pod::of(pod).spec().restart_policy().to_owned();
    match policy.as_str() {
        "Always" => restart(pod, code),
        "OnFailure" if code != 0 => restart(pod, code),
        _ => finish(pod, code),
    }
}

fn restart(pod: &mut Map, code: i64) {
    let now = Time::now().text().to_string();
    let uid = v1::Pod::of(pod).metadata().uid().to_owned();
    each_container(pod, |status| {
        let view = v1::ContainerStatus::of(status);
        let restarts = view.restart_count() + 1;
        let (id, name) = (view.container_id().to_owned(), view.name().to_owned());
        let started =
            view.state().running().and_then(|running| running.started_at()).unwrap_or(&now).to_owned();
        status.insert("lastState", terminated(code, &id, &started, &now));
        status.insert("state", nested("running", Map::from_iter([("startedAt", now.as_str())])));
        status.insert("restartCount", restarts);
        status.insert("containerID", container_id(&uid, &name, restarts));
    });
}

fn finish(pod: &mut Map, code: i64) {
    let now = Time::now().text().to_string();
    let view = v1::Pod::of(pod);
    let mut conditions = Conditions::of(view);
    let reason = if code == 0 { "PodCompleted" } else { "PodFailed" };
    conditions.set("PodReadyToStartContainers", "False", "", "");
    conditions.set("Initialized", "True", if code == 0 { reason } else { "" }, "");
    conditions.set("Ready", "False", reason, "");
    conditions.set("ContainersReady", "False", reason, "");
    let mut status = view.status().map().clone();
    status.insert("conditions", conditions.into_value());
    status.insert("phase", if code == 0 { "Succeeded" } else { "Failed" });
    pod.insert("status", status);
    each_container(pod, |status| {
        let view = v1::ContainerStatus::of(status);
        let id = view.container_id().to_owned();
        let started =
            view.state().running().and_then(|running| running.started_at()).unwrap_or(&now).to_owned();
        status.insert("state", terminated(code, &id, &started, &now));
        status.insert("ready", false);
        status.insert("started", false);
    });
}

fn each_container(pod: &mut Map, mut change: impl FnMut(&mut Map)) {
    let status = pod.get_mut("status").and_then(Value::as_map_mut);
    let statuses = status.and_then(|status| status.get_mut("containerStatuses")?.as_list_mut());
    for status in statuses.into_iter().flatten() {
        if let Some(status) = status.as_map_mut() {
            change(status);
        }
    }
}

/// What is next for a pod that is being deleted: it goes after the delay that it asks for, at most its grace
/// period. A pod that something keeps says first that it has ended.
pub(crate) fn advance_deletion(pod: &mut Map) -> Next {
    let view = v1::Pod::of(pod);
    let metadata = view.metadata();
    let end: Option<Time> = metadata.deletion_timestamp().and_then(|time| time.parse().ok());
    let grace = metadata.deletion_grace_period_seconds().unwrap_or_default();
    if let Some(delay) = delay(pod, DELETE_DELAY)
        && let Some(end) = end
    {
        let grace = Duration::from_secs(u64::try_from(grace).unwrap_or_default());
        let begin =
            Time::from_unix(end.unix().saturating_sub(i64::try_from(grace.as_secs()).unwrap_or_default()));
        if let Some(left) = left(Some(begin), delay.min(grace)) {
            return Next::After(left);
        }
    }
    let is_over = matches!(view.status().phase(), "Succeeded" | "Failed");
    let is_kept = !metadata.finalizers().is_empty();
    match (is_over, is_kept) {
        (false, true) => {
            finish(pod, TOLD_TO_END);
            Next::Write
        }
        // Whoever keeps the pod removes it.
        (true, true) if grace == 0 => Next::Nothing,
        _ => Next::Remove,
    }
}

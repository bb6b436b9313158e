//! The rules for what is done in or to a container while it runs: probes and lifecycle hooks.

use crate::checks;
use object::field::{Error, List, Path};
use object::name::{http_header_name, invalid};
use schema::views::core::v1::{
    Container, ExecAction, GRPCAction, HTTPGetAction, Lifecycle, LifecycleHandler, Probe, SleepAction,
    TCPSocketAction,
};

/// The field errors of the lifecycle hooks and the probes of a container. `grace` is the grace period of the
/// pod.
pub(super) fn validate(container: Container<'_>, grace: Option<i64>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if let Some(of) = container.lifecycle() {
        errors.append(lifecycle(of, grace, &path.child("lifecycle")));
    }
    if let Some(of) = container.liveness_probe() {
        let path = path.child("livenessProbe");
        errors.append(probe(of, &path));
        errors.extend(succeeds_at_once(of, &path));
    }
    if let Some(of) = container.readiness_probe() {
        let path = path.child("readinessProbe");
        errors.append(probe(of, &path));
        if let Some(seconds) = of.termination_grace_period_seconds() {
            let path = path.child("terminationGracePeriodSeconds");
            errors.push(Error::invalid(&path, seconds, "must not be set for readinessProbes"));
        }
    }
    if let Some(of) = container.startup_probe() {
        let path = path.child("startupProbe");
        errors.append(probe(of, &path));
        errors.extend(succeeds_at_once(of, &path));
    }
    errors
}

/// The fields that containers without probes and hooks may not have.
pub(super) fn forbidden(container: Container<'_>, path: &Path<'_>) -> List {
    let fields = [
        (container.lifecycle().is_some(), "lifecycle"),
        (container.liveness_probe().is_some(), "livenessProbe"),
        (container.readiness_probe().is_some(), "readinessProbe"),
        (container.startup_probe().is_some(), "startupProbe"),
    ];
    let why = "may not be set for init containers without restartPolicy=Always";
    let set = fields.into_iter().filter(|(is_set, _)| *is_set);
    set.map(|(_, field)| Error::forbidden(&path.child(field), why)).collect()
}

fn lifecycle(lifecycle: Lifecycle<'_>, grace: Option<i64>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if let Some(hook) = lifecycle.post_start() {
        errors.append(handler(Handler::of_hook(hook), grace, &path.child("postStart")));
    }
    if let Some(hook) = lifecycle.pre_stop() {
        errors.append(handler(Handler::of_hook(hook), grace, &path.child("preStop")));
    }
    errors
}

fn probe(probe: Probe<'_>, path: &Path<'_>) -> List {
    let mut errors = handler(Handler::of_probe(probe), None, path);
    let numbers = [
        (probe.initial_delay_seconds(), "initialDelaySeconds"),
        (probe.timeout_seconds(), "timeoutSeconds"),
        (probe.period_seconds(), "periodSeconds"),
        (probe.success_threshold(), "successThreshold"),
        (probe.failure_threshold(), "failureThreshold"),
    ];
    for (number, field) in numbers {
        errors.extend(checks::non_negative(number, &path.child(field)));
    }
    if let Some(seconds) = probe.termination_grace_period_seconds()
        && seconds <= 0
    {
        let path = path.child("terminationGracePeriodSeconds");
        errors.push(Error::invalid(&path, seconds, "must be greater than 0"));
    }
    errors
}

fn succeeds_at_once(probe: Probe<'_>, path: &Path<'_>) -> Option<Error> {
    let threshold = probe.success_threshold();
    (threshold != 1).then(|| Error::invalid(&path.child("successThreshold"), threshold, "must be 1"))
}

/// What a probe or a hook does: one of these.
struct Handler<'a> {
    exec: Option<ExecAction<'a>>,
    http_get: Option<HTTPGetAction<'a>>,
    tcp_socket: Option<TCPSocketAction<'a>>,
    grpc: Option<GRPCAction<'a>>,
    sleep: Option<SleepAction<'a>>,
}

impl<'a> Handler<'a> {
    fn of_probe(probe: Probe<'a>) -> Self {
        Self {
            exec: probe.exec(),
            http_get: probe.http_get(),
            tcp_socket: probe.tcp_socket(),
            grpc: probe.grpc(),
            sleep: None,
        }
    }

    fn of_hook(hook: LifecycleHandler<'a>) -> Self {
        Self {
            exec: hook.exec(),
            http_get: hook.http_get(),
            tcp_socket: hook.tcp_socket(),
            grpc: None,
            sleep: hook.sleep(),
        }
    }
}

/// The first action is checked; each further one is an error.
fn handler(handler: Handler<'_>, grace: Option<i64>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut actions = 0;
    let mut is_first = |field: &'static str, errors: &mut List| {
        actions += 1;
        if actions > 1 {
            errors.push(Error::forbidden(&path.child(field), "may not specify more than 1 handler type"));
        }
        actions == 1
    };
    if let Some(action) = handler.exec
        && is_first("exec", &mut errors)
        && action.command().is_empty()
    {
        errors.push(Error::required(&path.child("exec").child("command"), ""));
    }
    if let Some(action) = handler.http_get
        && is_first("httpGet", &mut errors)
    {
        errors.append(http_get(action, &path.child("httpGet")));
    }
    if let Some(action) = handler.tcp_socket
        && is_first("tcpSocket", &mut errors)
    {
        errors.append(checks::port(action.port(), &path.child("tcpSocket").child("port")));
    }
    if let Some(action) = handler.grpc
        && is_first("grpc", &mut errors)
    {
        errors.append(checks::port_number(action.port(), &path.child("grpc").child("port")));
    }
    if let Some(action) = handler.sleep
        && is_first("sleep", &mut errors)
    {
        errors.extend(sleep(action.seconds(), grace, &path.child("sleep")));
    }
    if actions == 0 {
        errors.push(Error::required(path, "must specify a handler type"));
    }
    errors
}

fn http_get(action: HTTPGetAction<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    errors.extend(checks::required(action.path(), &path.child("path")));
    errors.append(checks::port(action.port(), &path.child("port")));
    errors.extend(checks::one_of(action.scheme(), &["HTTP", "HTTPS"], &path.child("scheme")));
    for header in action.http_headers().iter() {
        let messages = http_header_name(header.name());
        errors.append(invalid(&path.child("httpHeaders"), header.name(), messages));
    }
    errors
}

/// A sleep ends within the grace period. A missing grace period is an error of its own.
fn sleep(seconds: i64, grace: Option<i64>, path: &Path<'_>) -> Option<Error> {
    let grace = grace.filter(|grace| !(0..=*grace).contains(&seconds))?;
    let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
    Some(Error::invalid(path, seconds, why))
}

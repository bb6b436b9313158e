//! The line of a request that took long, with its steps and their times.
//!
//! The time that counts is that of the verb: from the moment at which the request was authorized to the
//! last byte of the response. Watches and connections to pods last as their clients want, and have no such
//! line.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use observe::{Field, Step, StepKind};

use super::{Arrival, line, protocol, text};
use crate::Request;
use crate::request_info::RequestInfo;

/// The time from which a request took long.
pub(super) const THRESHOLD: Duration = Duration::from_millis(500);
/// The longest user agent that is said.
const LONGEST_AGENT: usize = 1024;

pub(super) fn log(arrival: &Arrival) {
    let steps = arrival.observation.steps();
    let Some((name, begin, end)) = verb(&steps) else { return };
    let took = end.saturating_duration_since(begin);
    if took < THRESHOLD {
        return;
    }
    let Some(info) = arrival.info() else { return };
    let words = words(&steps, begin);
    let (total, steps) = (took.as_millis(), words.as_str());
    let total = u64::try_from(total).unwrap_or(u64::MAX);
    let (accept, agent) = (text(arrival.headers.accept.as_ref()), shortened(arrival.user_agent()));
    let (client, id) = (arrival.peer.ip(), arrival.observation.audit_id());
    let verb = line::verb(arrival, Some(&info));
    log::info!(
        accept, "audit-id" = id, client:%, "api-group" = info.api_group, "api-version" = info.api_version,
        name:% = info.name, subresource = info.subresource, namespace = info.namespace.unwrap_or_default(),
        protocol = protocol(arrival.version), resource = info.resource, scope = scope(&info), url = info.path,
        "user-agent" = agent, verb = verb.as_str(), total_ms = total, steps;
        "slow request: {name}"
    );
}

/// The fields of the span of a verb.
pub(crate) fn fields(request: &Request, info: &RequestInfo<'_>) -> Vec<Field> {
    let arrival = Arrival::of(request);
    vec![
        ("accept", text(arrival.headers.accept.as_ref()).into()),
        ("audit-id", arrival.observation.audit_id().into()),
        ("client", arrival.peer.ip().to_string().into()),
        ("api-group", info.api_group.into()),
        ("api-version", info.api_version.into()),
        ("name", (&*info.name).into()),
        ("subresource", info.subresource.into()),
        ("namespace", info.namespace.unwrap_or_default().into()),
        ("protocol", protocol(arrival.version).into()),
        ("resource", info.resource.into()),
        ("scope", scope(info).into()),
        ("url", info.path.into()),
        ("user-agent", shortened(arrival.user_agent()).into()),
        ("verb", line::verb(&arrival, Some(info)).into()),
    ]
}

/// What a request is about: one object, those of a namespace, or those of the cluster.
fn scope(info: &RequestInfo<'_>) -> &'static str {
    if !info.name.is_empty() || info.verb.as_str() == "create" {
        "resource"
    } else if info.namespace.is_some_and(|namespace| !namespace.is_empty()) {
        "namespace"
    } else {
        "cluster"
    }
}

fn shortened(agent: &str) -> &str {
    let end = agent.floor_char_boundary(LONGEST_AGENT);
    agent.get(..end).unwrap_or(agent)
}

/// The span of the verb, when it has ended: its name, begin and end.
fn verb(steps: &[Step]) -> Option<(&'static str, Instant, Instant)> {
    let begin = steps.iter().find(|step| step.kind == StepKind::Begin { parent: None })?;
    let end = steps.iter().rfind(|step| step.kind == StepKind::End { span: 0 })?;
    Some((begin.text, begin.done, end.done))
}

/// The steps with the time that each took; those of an inner span in brackets after its name.
fn words(steps: &[Step], begin: Instant) -> String {
    let mut out = String::new();
    let mut before = begin;
    let mut names = Vec::new();
    for step in steps.iter().filter(|step| step.done >= begin) {
        let took = step.done.saturating_duration_since(before).as_millis();
        let separator = if out.is_empty() || out.ends_with('[') { "" } else { ", " };
        match step.kind {
            StepKind::Begin { parent } => {
                names.push(step.text);
                if parent.is_some() {
                    let _ = write!(out, "{separator}{} [", step.text);
                }
            }
            StepKind::Done { .. } => {
                let _ = write!(out, "{separator}{}", step.text);
                if let Some((field, number)) = step.number {
                    let _ = write!(out, " {field}:{number}");
                }
                let _ = write!(out, " {took}ms");
            }
            StepKind::End { span: 0 } => {}
            StepKind::End { .. } => {
                let _ = write!(out, "{separator}end {took}ms]");
            }
        }
        before = step.done;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_their_times_and_inner_ones_brackets() {
        let begin = Instant::now();
        let at = |text, kind, after, number| Step {
            text,
            done: begin + Duration::from_millis(after),
            kind,
            number,
        };
        let steps = [
            at("Get", StepKind::Begin { parent: None }, 0, None),
            at("read", StepKind::Done { span: Some(0) }, 10, Some(("len", 3))),
            at("cacher.Get", StepKind::Begin { parent: Some(0) }, 10, None),
            at("", StepKind::End { span: 1 }, 600, None),
            at("done", StepKind::Done { span: Some(0) }, 601, None),
            at("", StepKind::End { span: 0 }, 601, None),
        ];
        assert_eq!(words(&steps, begin), "read len:3 10ms, cacher.Get [end 590ms], done 1ms");
        let (name, from, to) = verb(&steps).unwrap();
        assert_eq!((name, to - from), ("Get", Duration::from_millis(601)));
        assert!(verb(&steps[..4]).is_none());
    }
}

//! The events of one request, from the first to the last.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use auth::User;
use observe::{AuditLevel, Observation, Part, Times};

use crate::backend::{Backends, Failure};
use crate::event::{Annotations, Encoded, Event, Facts, Impersonated, ResponseStatus, State};
use crate::metrics;
use crate::options::{Error, Options};
use crate::policy::{Attributes, Decision, Policy, Stage};

/// A request that takes longer says in its last event what took so long.
const SLOW: Duration = Duration::from_millis(500);
/// A request that had its turn sooner did not wait for it.
const WAITED: Duration = Duration::from_millis(1);

/// Decides what is recorded, and has it recorded.
#[derive(Debug)]
pub struct Auditor {
    policy: Policy,
    backends: Backends,
}

/// What happened to a response, for its events.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// It has a status code; with it may come the `Status` that it contains, as JSON.
    Code(u16, Option<&'a [u8]>),
    /// The client was gone before there was one.
    Abandoned,
    /// The deadline of the request was over before there was one.
    TimedOut,
    /// The handler panicked, and why.
    Panicked(&'a str),
}

/// The events of one request.
#[derive(Debug)]
pub struct Trail {
    auditor: Arc<Auditor>,
    observation: Observation,
    decision: Decision,
    /// Whether the last event of a slow request says what took so long. A watch takes as long as it is
    /// asked to.
    has_latency: bool,
    encoded: Encoded,
    changing: Mutex<Changing>,
}

#[derive(Debug, Default)]
struct Changing {
    impersonated: Option<Impersonated>,
    status: Option<ResponseStatus>,
}

impl Auditor {
    /// Reads the policy and opens the backends. `None` without a policy, and with no backend. Needs a
    /// runtime.
    pub fn open(options: &Options) -> Result<Option<Arc<Self>>, Error> {
        options.validate()?;
        let Some(file) = &options.policy_file else { return Ok(None) };
        let policy = Policy::read(file)?;
        if options.log.path.is_none() && options.webhook.config_file.is_none() {
            return Ok(None);
        }
        let backends = Backends::open(options)?;
        Ok(Some(Arc::new(Self { policy, backends })))
    }

    /// Decides about a request, and begins its trail. `None` if nothing is recorded.
    pub fn begin(self: &Arc<Self>, observation: &Observation, facts: &Facts<'_>) -> Option<Trail> {
        let attributes = Attributes { user: facts.user, verb: facts.verb, target: facts.target };
        let decision = self.policy.decide(&attributes);
        metrics::LEVELS.with([decision.level.as_str()]).inc();
        observation.set_audit_level(decision.level);
        if decision.level == AuditLevel::None {
            return None;
        }
        let received = observation.arrived_at().unwrap_or_else(clock::system);
        let (level, has_line) = (decision.level, self.backends.has_lines());
        let encoded = Encoded::new(facts, level, observation.audit_id(), received, has_line);
        Some(Trail {
            auditor: self.clone(),
            observation: observation.clone(),
            decision,
            has_latency: facts.verb != "watch",
            encoded,
            changing: Mutex::default(),
        })
    }

    /// What is wrong with the backends now.
    pub fn failures(&self) -> Vec<Failure> {
        self.backends.failures()
    }

    /// Sends what is buffered. What is not sent within this time is lost.
    pub async fn close(&self, within: Duration) {
        self.backends.close(within).await;
    }
}

impl Trail {
    /// How much is recorded.
    pub fn level(&self) -> AuditLevel {
        self.decision.level
    }

    /// Notes that the request is made as another user.
    pub fn impersonates(&self, user: &User) {
        self.changing().impersonated = Some(Impersonated::new(user));
    }

    /// Notes how the request came out. What was noted first stays, but for its code.
    pub fn responded(&self, outcome: Outcome<'_>) {
        let status = match outcome {
            Outcome::Code(code, None) => {
                let kept = self.observation.kept().status;
                kept.map_or_else(
                    || ResponseStatus { code, members: Vec::new() },
                    |status| ResponseStatus::of(&status, code),
                )
            }
            Outcome::Code(code, Some(status)) => ResponseStatus::of(status, code),
            Outcome::Abandoned => self.timed_out("canceled"),
            Outcome::TimedOut => self.timed_out("deadline exceeded"),
            Outcome::Panicked(why) => {
                let message = format!("APIServer panic'd: {why}");
                ResponseStatus::made("Failure", &message, "InternalError", 500)
            }
        };
        self.changing().status = Some(status);
    }

    /// Records a stage, and waits for the backends that the request waits for. False if the request has to be
    /// refused.
    pub async fn record(&self, stage: Stage) -> bool {
        let Some((event, annotations)) = self.event(stage) else { return true };
        self.auditor.backends.process(&event, &annotations).await
    }

    /// Records a stage of a request that has ended.
    pub fn record_late(&self, stage: Stage) {
        if let Some((event, annotations)) = self.event(stage) {
            self.auditor.backends.process_late(&event, &annotations);
        }
    }

    /// Counts the request as refused because its event could not be recorded.
    pub fn reject(&self) {
        metrics::REJECTED.with([]).inc();
    }

    /// The status of a request whose time was over, as what handles requests says it in the reference.
    fn timed_out(&self, why: &str) -> ResponseStatus {
        let text = format!(
            r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"Timeout: request did not complete within requested timeout - context {why}","reason":"Timeout","details":{{}},"code":504}}"#
        );
        self.observation.keep(|kept| kept.response = Some(text.as_bytes().into()));
        ResponseStatus::of(text.as_bytes(), 504)
    }

    fn changing(&self) -> std::sync::MutexGuard<'_, Changing> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The event of a stage; `None` if the policy leaves the stage out.
    fn event(&self, stage: Stage) -> Option<(Event, Annotations)> {
        if self.decision.omitted.has(stage) {
            return None;
        }
        let received = self.observation.arrived_at().unwrap_or_else(clock::system);
        let at = match stage {
            Stage::RequestReceived => received,
            _ => clock::system(),
        };
        if stage == Stage::ResponseComplete
            && self.has_latency
            && let Some(times) = self.observation.times()
            && let Some(took) = self.observation.arrived().map(|arrived| arrived.elapsed())
            && took > SLOW
        {
            self.annotate_latency(times, took);
        }
        metrics::EVENTS.with([]).inc();
        let changing = self.changing();
        let annotations = self.observation.annotations();
        let state = State {
            status: changing.status.as_ref(),
            impersonated: changing.impersonated.as_ref(),
            kept: self.observation.kept(),
            omits_managed_fields: self.decision.omits_managed_fields,
            annotations: &annotations,
        };
        let event = self.encoded.event(stage, at, &state);
        Some((event, annotations))
    }

    fn annotate_latency(&self, times: &Times, took: Duration) {
        let parts = [
            (Part::MutatingWebhooks, "mutating-webhook"),
            (Part::ValidatingWebhooks, "validating-webhook"),
            (Part::Store, "etcd"),
            (Part::Transform, "transform-response-object"),
            (Part::Encode, "serialize-response-object"),
            (Part::Send, "response-write"),
            (Part::Queue, "apf-queue-wait"),
            (Part::Authorization, "authorization"),
        ];
        let spent = parts.map(|(part, name)| (times.of(part), name));
        let is_known = |(time, name): &(Duration, &str)| match *name {
            "apf-queue-wait" => *time >= WAITED,
            _ => !time.is_zero(),
        };
        let mut known = spent.into_iter().filter(is_known).peekable();
        if known.peek().is_none() {
            return;
        }
        for (time, name) in known {
            self.annotate_time(name, time);
        }
        self.annotate_time("total", took);
    }

    fn annotate_time(&self, name: &str, time: Duration) {
        let time = object::duration::Duration::from(time);
        self.observation.annotate(&format!("apiserver.latency.k8s.io/{name}"), &time.to_string());
    }
}

#[cfg(test)]
mod tests;

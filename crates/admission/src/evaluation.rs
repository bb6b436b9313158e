//! Expressions over a write: what they see, and their evaluation with an authorizer.

use crate::Attributes;
use crate::matching::{Matched, namespace};
use crate::versioned::Versioned;
use auth::{Authorizer, Selectors, Target, User};
use cel::library::authz::{self, Check, RequestResource, Target as CheckTarget};
use cel::{Failure, Halt, Value as CelValue};
use expressions::admission::{Batch, Limits, Seen, Stopped};
use object::Value;
use schema::json;
use schema::views::admission::v1::AdmissionRequest;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// What a batch may cost before it is evaluated in a section that may block: some milliseconds.
const INLINE: u64 = 50_000;

/// What expressions see of a write through one resource, apart from parameters.
pub(crate) struct Input {
    object: Value,
    old: Value,
    request: Value,
    /// The request as match conditions see it: always of the requested resource.
    condition_request: Option<Value>,
    namespace: Value,
}

impl Input {
    /// The input of a write, whose object is in `namespace`.
    pub(crate) fn new(
        attributes: &Attributes<'_>,
        versioned: &Versioned,
        matched: &Matched,
        namespace: Option<Value>,
    ) -> Self {
        let plain = |object: &Option<Value>| {
            let mut object = object.clone().unwrap_or_default();
            json::make_plain(&versioned.ty, &mut object);
            object
        };
        let mut request = versioned.request.clone();
        request.insert(AdmissionRequest::UID, "");
        request.insert(AdmissionRequest::OBJECT, Value::Null);
        request.insert(AdmissionRequest::OLD_OBJECT, Value::Null);
        request.insert(AdmissionRequest::OPTIONS, attributes.request.options(attributes.operation));
        let condition_request = matches!(matched, Matched::Equivalent(_)).then(|| {
            let mut request = request.clone();
            let requested = request.get("requestResource").cloned().unwrap_or_default();
            request.insert(AdmissionRequest::RESOURCE, requested);
            Value::from(request)
        });
        Self {
            object: plain(&versioned.object),
            old: plain(&versioned.old),
            request: request.into(),
            condition_request,
            namespace: namespace.unwrap_or_default(),
        }
    }

    /// What expressions see.
    pub(crate) fn seen<'a>(&'a self, params: &'a Value, authorizer: Option<[CelValue<'a>; 2]>) -> Seen<'a> {
        Seen {
            object: CelValue::plain(&self.object),
            old_object: CelValue::plain(&self.old),
            namespace: CelValue::plain(&self.namespace),
            request: CelValue::plain(&self.request),
            params: CelValue::plain(params),
            authorizer,
        }
    }

    /// What match conditions see: no namespace.
    pub(crate) fn seen_by_conditions<'a>(
        &'a self,
        params: &'a Value,
        authorizer: Option<[CelValue<'a>; 2]>,
    ) -> Seen<'a> {
        let request = self.condition_request.as_ref().unwrap_or(&self.request);
        Seen { namespace: CelValue::Null, request: CelValue::plain(request), ..self.seen(params, authorizer) }
    }
}

/// The authorization checks of the expressions of one request, each answered once.
pub(crate) struct Checks {
    authorizer: Authorizer,
    user: User,
    answers: Mutex<Vec<Answer>>,
}

struct Answer {
    /// Who is asked about, if not the caller: namespace and name of a service account.
    service_account: Option<(String, String)>,
    attributes: auth::Attributes,
    decision: Option<authz::Decision>,
}

impl Checks {
    /// Checks for a caller.
    pub(crate) fn new(authorizer: &Authorizer, user: &User) -> Arc<Self> {
        Arc::new(Self { authorizer: authorizer.clone(), user: user.clone(), answers: Mutex::default() })
    }

    /// The values of `authorizer` and `authorizer.requestResource`.
    pub(crate) fn values<'a>(self: &Arc<Self>, attributes: &Attributes<'_>) -> [CelValue<'a>; 2] {
        let request = RequestResource {
            group: &attributes.resource.group,
            resource: &attributes.resource.resource,
            subresource: attributes.subresource,
            namespace: namespace(attributes),
            name: attributes.name,
        };
        [authz::authorizer(self.clone()), authz::request_resource(self.clone(), &request)]
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Answer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the answers that expressions wait for.
    async fn answer(&self) {
        loop {
            let next = self.lock().iter().position(|answer| answer.decision.is_none());
            let Some(place) = next else { return };
            let asked = self.lock().get(place).map(|of| (of.service_account.clone(), of.attributes.clone()));
            let Some((service_account, attributes)) = asked else { return };
            let account = service_account.map(|(namespace, name)| User::service_account(&namespace, &name));
            let verdict = self.authorizer.decide(account.as_ref().unwrap_or(&self.user), &attributes).await;
            if let Some(answer) = self.lock().get_mut(place) {
                answer.decision = Some(decision(verdict));
            }
        }
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Checks")
    }
}

impl authz::Authorizer for Checks {
    fn authorize(&self, check: &Check<'_>) -> Result<authz::Decision, Failure> {
        let attributes = attributes(check);
        let service_account =
            check.service_account.map(|account| (account.namespace.to_owned(), account.name.to_owned()));
        let mut answers = self.lock();
        let known = answers
            .iter()
            .find(|known| known.attributes == attributes && known.service_account == service_account);
        if let Some(known) = known {
            return known.decision.clone().ok_or(Failure::Halt(Halt::Waiting));
        }
        let account =
            check.service_account.map(|account| User::service_account(account.namespace, account.name));
        let verdict = self.authorizer.decide_now(account.as_ref().unwrap_or(&self.user), &attributes);
        let decision = verdict.map(decision);
        answers.push(Answer { service_account, attributes, decision: decision.clone() });
        decision.ok_or(Failure::Halt(Halt::Waiting))
    }
}

fn decision(verdict: auth::Verdict) -> authz::Decision {
    authz::Decision {
        allowed: verdict.decision == auth::Decision::Allow,
        reason: verdict.reason.to_string(),
        error: verdict.error,
    }
}

fn attributes(check: &Check<'_>) -> auth::Attributes {
    let verb = check.verb.to_owned();
    match &check.target {
        CheckTarget::Path(path) => auth::Attributes::path(verb, *path),
        CheckTarget::Resource { group, resource, subresource, namespace, name, fields, labels } => {
            let target = Target::Resource {
                group: (*group).to_owned(),
                version: "*".to_owned(),
                resource: (*resource).to_owned(),
                subresource: (*subresource).to_owned(),
                namespace: (*namespace).to_owned(),
                name: (*name).to_owned(),
            };
            let mut selectors = Selectors::default();
            match fields {
                Some(Ok(selector)) => selectors.fields = selector.requirements().unwrap_or_default().to_vec(),
                Some(Err(why)) => selectors.fields_error = Some(why.to_string()),
                None => {}
            }
            match labels {
                Some(Ok(selector)) => selectors.labels = selector.requirements().unwrap_or_default().to_vec(),
                Some(Err(why)) => selectors.labels_error = Some(why.to_string()),
                None => {}
            }
            let has_selectors = fields.is_some() || labels.is_some();
            auth::Attributes {
                selectors: has_selectors.then(|| Box::new(selectors)),
                ..auth::Attributes::new(verb, target)
            }
        }
    }
}

/// The budget of a batch is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfBudget;

/// Evaluates a batch within what is left of a budget, waiting for the answers of authorizers.
pub(crate) async fn evaluate<T: Send>(
    batch: &Batch<'_>,
    checks: &Checks,
    left: &mut u64,
    deadline: Option<Instant>,
    each: impl Fn(Result<CelValue<'_>, String>) -> T + Send + Sync,
) -> Result<Vec<Option<T>>, OutOfBudget> {
    let interrupted = move || deadline.is_some_and(|deadline| deadline <= Instant::now());
    let mut inline = INLINE;
    loop {
        let mut limits = Limits { left: *left, inline, interrupted: Some(&interrupted) };
        let outcome = match inline {
            INLINE => batch.evaluate(&mut limits, &each),
            _ => tasks::off_worker(|| batch.evaluate(&mut limits, &each)),
        };
        match outcome {
            Ok(results) => {
                *left = limits.left;
                return Ok(results);
            }
            Err(Stopped::OutOfBudget) => return Err(OutOfBudget),
            Err(Stopped::Long) => inline = u64::MAX,
            Err(Stopped::Waiting) => checks.answer().await,
        }
    }
}

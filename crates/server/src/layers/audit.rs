//! Audit: makes a trail of events for each request that the policy asks for.
//!
//! | stage | when |
//! |---|---|
//! | `RequestReceived` | before the request is handled; the request is refused if a backend in strict mode fails |
//! | `ResponseStarted` | for requests that take long, with the head of the response; for refusals before the user is known |
//! | `ResponseComplete` | before a whole response is sent; otherwise when its body was sent, or its client is gone |
//! | `Panic` | when the handler panicked |

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use audit::{Auditor, Facts, Outcome, ResourceTarget, Stage, Target, Trail};
use auth::Authenticated;

use crate::at_end::at_end;
use crate::count::{self, Filter};
use crate::error::SentStatus;
use crate::handler::{Handler, Layer};
use crate::request_info::RequestInfo;
use crate::{Body, Error, Request, Response, Status, deadline};

/// Makes the audit events of requests.
#[derive(Debug, Clone)]
pub struct Audit(Arc<Auditor>);

impl Audit {
    /// Records with this auditor.
    pub fn new(auditor: Arc<Auditor>) -> Self {
        Self(auditor)
    }

    /// Begins the trail of a request. The paths that cannot be parsed are refused without one.
    fn begin(&self, request: &Request) -> Option<(Trail, bool)> {
        let path = request.context.path.as_deref()?;
        let info = RequestInfo::parse(request.method(), path, request.query()).ok()?;
        let target = match info.is_resource_request {
            true => Target::Resource(ResourceTarget {
                group: info.api_group,
                version: info.api_version,
                resource: info.resource,
                subresource: info.subresource,
                namespace: info.namespace.unwrap_or_default(),
                name: &info.name,
            }),
            false => Target::Path(info.path),
        };
        let caller: Option<&Authenticated> = request.head.extensions.get();
        let facts = Facts {
            uri: request.whole_uri().path_and_query().map_or("/", |written| written.as_str()),
            verb: info.verb.as_str(),
            user: caller.map(|caller| &**caller.user()),
            headers: request.headers(),
            remote: request.peer.address,
            target,
        };
        let trail = self.0.begin(&request.context.observation, &facts)?;
        Some((trail, deadline::is_long_running(&info)))
    }

    /// Records that a request has no valid credentials.
    pub(crate) async fn unauthenticated(&self, request: &Request) {
        self.refused(request, &Status::unauthorized()).await;
    }

    /// Records that a request is refused before its user is known.
    pub(crate) async fn refused(&self, request: &Request, status: &Status) {
        if let Some((trail, _)) = self.begin(request) {
            let text = status.to_json();
            request.context.observation.keep(|kept| kept.response = Some(text.as_bytes().into()));
            trail.responded(Outcome::Code(status.code, Some(text.as_bytes())));
            trail.record(Stage::ResponseStarted).await;
        }
    }
}

impl Layer for Option<Audit> {
    async fn around<H: Handler>(&self, mut request: Request, next: &H) -> Result<Response, Error> {
        let begin = Instant::now();
        let begun = self.as_ref().and_then(|audit| audit.begin(&request));
        let Some((trail, is_long_running)) = begun else {
            count::filtered(Filter::Audit, begin.elapsed());
            return next.handle(request).await;
        };
        let trail = Arc::new(trail);
        if !trail.record(Stage::RequestReceived).await {
            trail.reject();
            return Err(Error::internal(request.uri(), "failed to store audit event"));
        }
        count::filtered(Filter::Audit, begin.elapsed());
        request.context.trail = Some(trail.clone());
        let (observation, format) = (request.context.observation.clone(), request.context.error_format);
        let mut last = LastEvent { trail: Some(trail.clone()), is_answered: false };
        let outcome = match unwinding(next, request).await {
            Ok(outcome) => outcome,
            Err(panic) => {
                last.trail = None;
                trail.responded(Outcome::Panicked(message(&*panic)));
                trail.record(Stage::Panic).await;
                resume_unwind(panic)
            }
        };
        let mut response = match outcome {
            Err(Error::TimedOut) => {
                trail.responded(Outcome::TimedOut);
                Error::TimedOut.into_response(format)
            }
            other => {
                let response = other.unwrap_or_else(|error| error.into_response(format));
                let sent = response.extensions().get::<SentStatus>().map(|sent| sent.0.to_json());
                if let Some(text) = &sent {
                    observation.keep(|kept| kept.response = Some(text.as_bytes().into()));
                }
                let sent = sent.as_ref().map(String::as_bytes);
                trail.responded(Outcome::Code(response.status().as_u16(), sent));
                response
            }
        };
        last.is_answered = true;
        if is_long_running {
            trail.record(Stage::ResponseStarted).await;
        }
        let is_whole = !matches!(response.body(), Body::Stream(_));
        if is_whole && response.status() != http::StatusCode::SWITCHING_PROTOCOLS {
            last.trail = None;
            trail.record(Stage::ResponseComplete).await;
        } else {
            at_end(&mut response, move |_| drop(last));
        }
        Ok(response)
    }
}

/// Records the end of a request when it is dropped, in whichever way that comes about.
struct LastEvent {
    trail: Option<Arc<Trail>>,
    is_answered: bool,
}

impl Drop for LastEvent {
    fn drop(&mut self) {
        let Some(trail) = self.trail.take() else { return };
        if !self.is_answered {
            trail.responded(Outcome::Abandoned);
        }
        trail.record_late(Stage::ResponseComplete);
    }
}

/// Answers a request; an error is the panic of its handler.
async fn unwinding<H: Handler>(
    next: &H,
    request: Request,
) -> Result<Result<Response, Error>, Box<dyn Any + Send>> {
    let mut answer = pin!(next.handle(request));
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown")
}

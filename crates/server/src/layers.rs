//! The layers around the API; [`crate::stack`] has their order and the reasons for it.

mod audit;
mod browsers;
mod leaving;

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use auth::{Attributes, Authenticated, Authenticators, Authorizer, Credentials, ImpersonationError};
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, HeaderName};
use http::{HeaderValue, Method};
use http_body::Body as _;
use observe::{AuditLevel, Part};

use crate::count::{self, Counted, Filter};
use crate::handler::{Handler, Layer};
use crate::health::{Audience, Checks, HealthRequest};
use crate::request::AUDIT_ID;
use crate::request_info::non_resource_verb;
use crate::version::Info;
use crate::{Body, Error, Request, Response, Status};

pub use audit::Audit;
pub use browsers::{Cors, TransportSecurity};
pub use leaving::{Goaway, RetryAfter};

const WARNING: HeaderName = HeaderName::from_static("warning");

/// The handler that serves nothing: every path is 404.
#[derive(Debug, Clone, Copy)]
pub struct Unserved;

impl Handler for Unserved {
    async fn handle(&self, _request: Request) -> Result<Response, Error> {
        Err(Error::UnknownPath)
    }
}

/// Turns a panic of the handler into an error. The connection and the server continue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CatchPanics;

impl Layer for CatchPanics {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let method = request.method().clone();
        let uri = request.uri().clone();
        let mut answer = pin!(next.handle(request));
        let outcome = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Some),
            Err(_) => Poll::Ready(None),
        });
        outcome.await.unwrap_or_else(|| {
            log::error!(method:%, path = uri.path(); "a handler panicked");
            Err(Error::Panicked)
        })
    }
}

/// Turns errors into responses: the layers outside of this one see responses only.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorsToResponses;

impl Layer for ErrorsToResponses {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let format = request.context.error_format;
        Ok(next.handle(request).await.unwrap_or_else(|error| error.into_response(format)))
    }
}

/// Answers HEAD with the head of the response to GET, without its body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadHasNoBody;

impl Layer for HeadHasNoBody {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let head = request.method() == Method::HEAD;
        let mut response = next.handle(request).await?;
        if head {
            // A proxied response may have its `Content-Length` already.
            if let Some(length) = response.body().size_hint().exact() {
                response.headers_mut().entry(CONTENT_LENGTH).or_insert(HeaderValue::from(length));
            }
            *response.body_mut() = Body::Empty;
        }
        Ok(response)
    }
}

/// Marks a response without `Cache-Control`: the reference answers it before it sets that header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoCacheControl;

/// Sets `Cache-Control` so that nothing is cached, unless the handler has set it, and the headers that flags
/// ask for.
#[derive(Debug, Clone)]
pub(crate) struct ResponseHeaders {
    pub(crate) transport_security: Option<TransportSecurity>,
    pub(crate) goaway: Option<Goaway>,
}

impl Layer for ResponseHeaders {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let is_last = self.goaway.is_some_and(|goaway| goaway.is_due(&request));
        let mut response = next.handle(request).await?;
        if is_last {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(security) = &self.transport_security {
            security.set(response.headers_mut());
        }
        if response.extensions().get::<NoCacheControl>().is_none() {
            response
                .headers_mut()
                .entry(CACHE_CONTROL)
                .or_insert(HeaderValue::from_static("no-cache, private"));
        }
        Ok(response)
    }
}

/// Answers `/livez`, `/readyz`, `/healthz` and the single checks under them.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    pub(crate) checks: Arc<Checks>,
    pub(crate) authorizer: Authorizer,
}

impl Layer for Health {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let Some(checks) = self.checks.find(request.raw_path()) else { return next.handle(request).await };
        permit(&self.authorizer, &request).await?;
        let is_known = caller(&request)?.is_known();
        let audience = if is_known { Audience::Known } else { Audience::Stranger };
        let HealthRequest::Summary(endpoint) = checks else {
            return self.checks.answer(checks, request.query(), audience).await;
        };
        let counted = Counted::path(&request, endpoint.path(), "");
        let format = request.context.error_format;
        let outcome = self.checks.answer(checks, request.query(), audience).await;
        let mut response = outcome.unwrap_or_else(|error| error.into_response(format));
        counted.answered(&mut response);
        Ok(response)
    }
}

/// Answers `/version`.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) info: Arc<Info>,
    pub(crate) authorizer: Authorizer,
}

impl Layer for Version {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        if request.raw_path().trim_end_matches('/') != "/version" {
            return next.handle(request).await;
        }
        permit(&self.authorizer, &request).await?;
        self.info.answer(&request)
    }
}

/// The user of a request, after [`Authentication`].
pub(crate) fn caller(request: &Request) -> Result<&Authenticated, Error> {
    request.head.extensions.get().ok_or_else(|| Status::unauthorized().into())
}

/// Authorizes a non-resource request.
pub(crate) async fn permit(authorizer: &Authorizer, request: &Request) -> Result<(), Error> {
    let caller = caller(request)?;
    let attributes = Attributes::path(non_resource_verb(request.method()), request.raw_path());
    let checked = authorizer.check_request(caller, &attributes).await;
    checked.map_err(|denied| Error::denied(request.uri(), denied))?;
    count::authorized(caller.observation());
    Ok(())
}

/// Authenticates the user, stores it as an extension of the request, and removes the credentials: requests
/// are handed on to other servers. A request with invalid credentials is refused on every path; one without
/// credentials is that of the anonymous user, where that is allowed.
#[derive(Debug, Clone)]
pub(crate) struct Authentication {
    pub(crate) authenticators: Arc<Authenticators>,
    pub(crate) audit: Option<Audit>,
}

impl Layer for Authentication {
    async fn around<H: Handler>(&self, mut request: Request, next: &H) -> Result<Response, Error> {
        let certified = request.peer.certify(&self.authenticators);
        if self.audit.is_some() {
            // Until the policy has decided, which it does by the user.
            request.context.observation.set_audit_level(AuditLevel::Metadata);
        }
        let credentials = Credentials {
            headers: request.headers(),
            path: request.context.path.as_deref().unwrap_or_default(),
            certified: certified.as_deref(),
        };
        let begin = Instant::now();
        let outcome = self.authenticators.authenticate(&credentials).await;
        let took = begin.elapsed();
        count::filtered(Filter::Authentication, took);
        if let Some(times) = request.context.observation.times() {
            times.add(Part::Authentication, took);
        }
        let Ok(caller) = outcome else {
            if let Some(audit) = &self.audit {
                audit.unauthenticated(&request).await;
            }
            return Err(Status::unauthorized().into());
        };
        if caller.is_known() {
            request.peer.set_authenticated();
        }
        let warning = match auth::has_extra_space(request.headers()) {
            true => Some(
                "the provided Authorization header contains extra space before the bearer token, and is ignored",
            ),
            false => caller.warning(),
        };
        let caller = caller.observed(request.context.observation.clone());
        request.head.extensions.insert(caller);
        self.authenticators.remove_credentials(&mut request.head.headers);
        let format = request.context.error_format;
        let outcome = next.handle(request).await;
        match warning {
            Some(text) => {
                let response = outcome.unwrap_or_else(|error| error.into_response(format));
                Ok(warned(response, &[text.to_owned()]))
            }
            None => outcome,
        }
    }
}

/// Replaces the user by the one that the headers for impersonation name.
#[derive(Debug, Clone)]
pub(crate) struct Impersonation(pub(crate) Authorizer);

impl Layer for Impersonation {
    async fn around<H: Handler>(&self, mut request: Request, next: &H) -> Result<Response, Error> {
        let caller = caller(&request)?.clone();
        let own = caller.user().clone();
        let begin = Instant::now();
        let outcome = auth::impersonate(caller, request.headers(), &self.0).await;
        count::filtered(Filter::Impersonation, begin.elapsed());
        match outcome {
            Ok(user) => {
                if let Some(trail) =
                    request.context.trail.as_ref().filter(|_| !Arc::ptr_eq(user.user(), &own))
                {
                    trail.impersonates(user.user());
                }
                request.head.extensions.insert(user);
                auth::remove_impersonation(&mut request.head.headers);
                next.handle(request).await
            }
            Err(ImpersonationError::Forbidden(status)) => Err(status.into()),
            Err(ImpersonationError::WithoutUser(why)) => Err(Error::internal(request.uri(), why)),
        }
    }
}

/// Sets `Audit-ID` on every response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AuditId;

impl Layer for AuditId {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let id = HeaderValue::from_str(request.context.observation.audit_id()).ok();
        let mut response = next.handle(request).await?;
        if let Some(id) = id {
            response.headers_mut().insert(AUDIT_ID, id);
        }
        Ok(response)
    }
}

/// Reads the part of a request's body that the handlers did not read, so that the client receives the
/// response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnwantedBody;

impl Layer for UnwantedBody {
    async fn around<H: Handler>(&self, mut request: Request, next: &H) -> Result<Response, Error> {
        let lent = request.body.lend();
        let outcome = next.handle(request).await;
        if let Some(mut lent) = lent
            && let Ok(rest) = lent.try_recv()
        {
            crate::body::discard_unwanted(rest).await;
        }
        outcome
    }
}

/// Adds a header for each warning, in quotes; within them, quotes and backslashes are escaped and nothing
/// else.
pub(crate) fn warned(mut response: Response, warnings: &[String]) -> Response {
    for warning in warnings {
        let text = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{text}\"").as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}

//! What is said of a request when its response has been sent: a line in the log, the steps of a slow request,
//! and the spans of one that is traced.

mod line;
mod shown;
mod slow;
mod traced;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version};
use observe::Observation;
use spans::Tracer;

use crate::at_end::{Sent, at_end};
use crate::handler::{Handler, Layer};
use crate::request_info::RequestInfo;
use crate::{Error, Query, Request, Response};

pub(crate) use slow::fields;
pub(crate) use traced::Tracing;

/// Says what is to be said of a request when its response has been sent, or when its client has gone.
#[derive(Debug, Clone)]
pub(crate) struct Observed(pub(crate) Option<Arc<Tracer>>);

impl Layer for Observed {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let mut unanswered =
            Unanswered(Some(Ended { arrival: Arrival::of(&request), tracer: self.0.clone() }));
        let mut response = next.handle(request).await?;
        if let Some(ended) = unanswered.0.take() {
            let status = response.status();
            at_end(&mut response, move |sent| ended.say(Some(status), sent));
        }
        Ok(response)
    }
}

/// A request whose client goes before there is a response is said when this is dropped.
struct Unanswered(Option<Ended>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(ended) = self.0.take() {
            ended.say(None, Sent::default());
        }
    }
}

/// The head of a request, as it arrived.
pub(crate) struct Arrival {
    observation: Observation,
    path: Option<Arc<str>>,
    method: Method,
    uri: Uri,
    version: Version,
    peer: SocketAddr,
    headers: ShownHeaders,
}

/// The headers that are said of a request; none of them has credentials.
struct ShownHeaders {
    accept: Option<HeaderValue>,
    content_type: Option<HeaderValue>,
    host: Option<HeaderValue>,
    user_agent: Option<HeaderValue>,
}

impl ShownHeaders {
    fn of(headers: &HeaderMap) -> Self {
        let header = |name: HeaderName| headers.get(name).cloned();
        Self {
            accept: header(ACCEPT),
            content_type: header(CONTENT_TYPE),
            host: header(HOST),
            user_agent: header(USER_AGENT),
        }
    }
}

impl Arrival {
    fn of(request: &Request) -> Self {
        Self {
            observation: request.context.observation.clone(),
            path: request.context.path.clone(),
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.head.version,
            peer: request.peer.address,
            headers: ShownHeaders::of(request.headers()),
        }
    }

    fn query(&self) -> Query<'_> {
        Query::new(self.uri.query().unwrap_or_default())
    }

    /// The resource and verb of the request.
    fn info(&self) -> Option<RequestInfo<'_>> {
        RequestInfo::parse(&self.method, self.path.as_deref()?, self.query()).ok()
    }

    fn user_agent(&self) -> &str {
        text(self.headers.user_agent.as_ref())
    }
}

fn text(header: Option<&HeaderValue>) -> &str {
    header.and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The protocol of a request, as Go writes it.
pub(crate) fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}

/// A request whose response has been sent.
struct Ended {
    arrival: Arrival,
    tracer: Option<Arc<Tracer>>,
}

impl Ended {
    fn say(self, status: Option<StatusCode>, sent: Sent) {
        let now = Instant::now();
        let arrival = &self.arrival;
        let took = arrival.observation.arrived().map(|arrived| now.saturating_duration_since(arrived));
        let took = took.unwrap_or_default();
        line::log(arrival, status, took);
        if took >= slow::THRESHOLD {
            slow::log(arrival);
        }
        if let Some(tracer) = &self.tracer
            && arrival.observation.trace().is_some_and(observe::Trace::is_recorded)
        {
            tracer.ended(traced::request(arrival, status, sent, now), &arrival.observation);
        }
    }
}

//! Which requests are traced, and the span of a request.

use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, StatusCode, Version};
use observe::{Field, SpanContext};
use spans::{Caller, Incoming, Sampler, Tracer};

use super::{Arrival, protocol, shown, text};
use crate::at_end::Sent;
use crate::handler::{Handler, Layer};
use crate::layers;
use crate::request_info::RequestInfo;
use crate::{Error, Request, Response};

/// The groups of users whose decision about a trace counts.
const TRUSTED: [&str; 2] = ["system:masters", "system:monitoring"];
/// The longest header about a trace that is handed on.
const LONGEST: usize = 8192;

/// Puts requests in traces. The user is known here: what strangers say of a trace does not count.
#[derive(Debug, Clone)]
pub(crate) struct Tracing(pub(crate) Option<Arc<Tracer>>);

impl Layer for Tracing {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let incoming = incoming(request.headers());
        if self.0.is_some() || incoming.parent.is_some() || incoming.baggage.is_some() {
            let is_trusted = layers::caller(&request)
                .is_ok_and(|caller| TRUSTED.iter().any(|group| caller.user().is_in(group)));
            let caller = if is_trusted { Caller::Trusted } else { Caller::Public };
            let sampler = self.0.as_ref().map_or(Sampler::Off, |tracer| tracer.sampler());
            request.context.observation.set_trace(sampler.trace(incoming, caller));
        }
        next.handle(request).await
    }
}

/// What the headers of a request say of its trace.
fn incoming(headers: &HeaderMap) -> Incoming {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bounded = |name| header(name).filter(|text| !text.is_empty() && text.len() <= LONGEST);
    let parent = header("traceparent").and_then(SpanContext::parse);
    let state = parent.and_then(|_| bounded("tracestate")).map(Box::from);
    Incoming { parent, state, baggage: bounded("baggage").map(Box::from) }
}

/// The span of a request whose response has been sent.
pub(super) fn request(
    arrival: &Arrival,
    status: Option<StatusCode>,
    sent: Sent,
    ended: Instant,
) -> spans::Request {
    let info = arrival.info().filter(|info| info.is_resource_request);
    let method = arrival.method.as_str();
    let mut attributes: Vec<Field> = vec![("http.method", method.into()), ("http.scheme", "https".into())];
    let authority = arrival.uri.authority().map(|authority| authority.as_str());
    let host = authority.unwrap_or_else(|| text(arrival.headers.host.as_ref()));
    let (name, port) = host_and_port(host);
    attributes.push(("net.host.name", name.into()));
    attributes.extend(port.map(|port| ("net.host.port", u64::from(port).into())));
    attributes.push(("net.sock.peer.addr", arrival.peer.ip().to_string().into()));
    attributes.push(("net.sock.peer.port", u64::from(arrival.peer.port()).into()));
    let agent = arrival.user_agent();
    if !agent.is_empty() {
        attributes.push(("user_agent.original", agent.into()));
    }
    attributes.push(("http.target", shown::uri(&arrival.uri).into()));
    let version = if arrival.version == Version::HTTP_2 {
        "2.0"
    } else {
        protocol(arrival.version).trim_start_matches("HTTP/")
    };
    attributes.push(("net.protocol.version", version.into()));
    if let Some(status) = status {
        attributes.push(("http.status_code", u64::from(status.as_u16()).into()));
    }
    if sent.bytes > 0 {
        attributes.push(("http.response_content_length", sent.bytes.into()));
    }
    spans::Request {
        name: info.map_or_else(|| method.to_owned(), |info| format!("{method} {}", route(&info))),
        attributes,
        has_failed: status.is_some_and(|status| status.is_server_error()),
        ended,
    }
}

/// The path of a resource, without names.
fn route(info: &RequestInfo<'_>) -> String {
    let mut route =
        if info.api_group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", info.api_group) };
    let mut push = |segment: &str| {
        route.push('/');
        route.push_str(segment);
    };
    push(info.api_version);
    if info.namespace.is_some_and(|namespace| !namespace.is_empty()) {
        push("namespaces/{:namespace}");
    }
    push(info.resource);
    if !info.name.is_empty() {
        push("{:name}");
    }
    if !info.subresource.is_empty() {
        push(info.subresource);
    }
    route
}

/// The host and the port of an authority, without a user and password.
fn host_and_port(authority: &str) -> (&str, Option<u16>) {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => {
            (name.trim_start_matches('[').trim_end_matches(']'), port.parse().ok())
        }
        _ => (host, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Query;
    use http::Method;

    #[test]
    fn routes_have_no_names() {
        for (path, expected) in [
            ("/api/v1/namespaces/a/pods/b/status", "/api/v1/namespaces/{:namespace}/pods/{:name}/status"),
            ("/apis/apps/v1/deployments", "/apis/apps/v1/deployments"),
            ("/api/v1/namespaces/a", "/api/v1/namespaces/{:namespace}/namespaces/{:name}"),
        ] {
            let info = RequestInfo::parse(&Method::GET, path, Query::new("")).unwrap();
            assert_eq!(route(&info), expected);
        }
    }

    #[test]
    fn hosts_have_no_passwords() {
        for (authority, expected) in [
            ("a.example:6443", ("a.example", Some(6443))),
            ("user:secret@a.example", ("a.example", None)),
            ("user:secret@[::1]:6443", ("::1", Some(6443))),
            ("user:12@", ("", None)),
        ] {
            assert_eq!(host_and_port(authority), expected);
        }
    }

    #[test]
    fn state_counts_with_a_valid_parent_only() {
        let headers = |pairs: &[(&'static str, &'static str)]| {
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
        };
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let valid = incoming(&headers(&[("traceparent", parent), ("tracestate", "a=1"), ("baggage", "k=v")]));
        assert_eq!((valid.state.as_deref(), valid.baggage.as_deref()), (Some("a=1"), Some("k=v")));
        let invalid = incoming(&headers(&[("traceparent", "x"), ("tracestate", "a=1")]));
        assert!(invalid.parent.is_none() && invalid.state.is_none());
    }
}

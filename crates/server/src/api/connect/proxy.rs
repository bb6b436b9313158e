//! HTTP through a proxy: the request is forwarded to its target, and the response to the client, both without
//! hop-by-hop headers. Links to the target are rewritten to lead through the proxy.

use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST,
    HeaderName, LOCATION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body::Frame;
use hyper::body::Incoming;
use registry::Location;
use streams::websocket;

use super::rewrite::{Html, Links};
use super::{Place, escaped, handed_on, switched_unasked, uri};
use crate::api::Api;
use crate::body::StreamError;
use crate::sending::{MayPause, SendBy};
use crate::{Body, Error, Lifecycle, Phase, Request, RequestBody, Response, Status};

pub(super) const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");

/// Hop-by-hop headers.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

impl Api {
    /// Forwards a request. `path` is the decoded path of the request.
    pub(super) async fn proxy(
        &self,
        request: &mut Request,
        location: &Location,
        path: &str,
        place: Place,
    ) -> Result<Response, Error> {
        if websocket::is_upgrade(request.headers()) {
            return self.upgrade(request, location, place, self.config.stream_bytes_per_second).await;
        }
        let query = request.uri().query().unwrap_or_default().to_owned();
        if location.path.is_empty() && matches!(*request.method(), Method::GET | Method::HEAD) {
            return Ok(redirect_to_root(path, &query));
        }
        let links = Links::new(request, location, path);
        let uri = uri(location, &query)?;
        let mut handed = http::Request::new(());
        *handed.method_mut() = request.method().clone();
        *handed.uri_mut() = uri;
        *handed.headers_mut() = forwarded_headers(request);
        let forwarded = links.forwarded_path(&escaped(&location.path));
        let headers = handed.headers_mut();
        if let Ok(value) = HeaderValue::try_from(forwarded) {
            headers.insert(FORWARDED_URI, value);
        }
        let body = std::mem::replace(&mut request.body, RequestBody::Whole(None));
        let handed = handed.map(|()| handed_on(body));
        let answer =
            self.backends.send(location, handed, place).await.map_err(|why| {
                Status::service_unavailable(format!("error trying to reach service: {why}"))
            })?;
        // The forwarded request asks for no upgrade: those headers are hop-by-hop, and were removed.
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(switched_unasked(&HeaderMap::new(), answer.headers()).into());
        }
        Ok(self.proxied(answer, links))
    }

    /// The response of a target, for the client.
    fn proxied(&self, answer: http::Response<Incoming>, links: Links) -> Response {
        let (head, body) = answer.into_parts();
        let mut headers = head.headers;
        remove_answered_headers(&mut headers);
        let redirect = headers.get(LOCATION).and_then(|value| value.to_str().ok());
        let rewritten = redirect.map(|to| HeaderValue::try_from(links.rewrite(to)));
        let mut html = None;
        match rewritten {
            Some(Ok(to)) => drop(headers.insert(LOCATION, to)),
            Some(Err(_)) => {}
            None if is_html(&headers) && !headers.contains_key(CONTENT_ENCODING) => {
                headers.remove(CONTENT_LENGTH);
                html = Some(Html::new(links));
            }
            None => {}
        }
        let mut response = self.streamed_with(body, html);
        *response.status_mut() = head.status;
        *response.headers_mut() = headers;
        response
    }

    /// A response whose body is streamed from a backend, until this server stops.
    pub(in crate::api) fn streamed(&self, body: Incoming) -> Response {
        self.streamed_with(body, None)
    }

    fn streamed_with(&self, body: Incoming, html: Option<Html>) -> Response {
        let body =
            Streamed { body, html, stop: Box::pin(stopping(self.lifecycle.clone())), has_ended: false };
        let mut response = Response::new(Body::Stream(Box::pin(body)));
        response.extensions_mut().insert(SendBy::never());
        response.extensions_mut().insert(MayPause);
        response
    }
}

async fn stopping(lifecycle: Lifecycle) {
    lifecycle.reached(Phase::Draining).await;
}

/// Redirects a request for the root of a target without a slash to the path with the slash, so that relative
/// links work.
fn redirect_to_root(path: &str, query: &str) -> Response {
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    let to: String =
        format!("{path}/{query}").chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(to) = HeaderValue::try_from(to) {
        response.headers_mut().insert(LOCATION, to);
    }
    response
}

/// The headers of a request for its target.
pub(in crate::api) fn forwarded_headers(request: &Request) -> HeaderMap {
    let mut headers = request.headers().clone();
    let trailers = headers.get_all(TE).iter().any(|value| value.as_bytes() == b"trailers");
    remove_hop_by_hop(&mut headers);
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    // hyper sets the length from the body.
    headers.remove(CONTENT_LENGTH);
    // hyper answers `Expect: 100-continue` itself when the body is first read.
    headers.remove(EXPECT);
    if !headers.contains_key(HOST)
        && let Some(authority) = request.uri().authority()
        && let Ok(host) = HeaderValue::try_from(authority.as_str())
    {
        headers.insert(HOST, host);
    }
    add_forwarded_for(&mut headers, request.peer.address.ip());
    headers
}

/// Adds the address of the client to those of the proxies before.
pub(in crate::api) fn add_forwarded_for(headers: &mut HeaderMap, client: IpAddr) {
    let before = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
    let mut all: Vec<String> = before.map(str::to_owned).collect();
    all.push(client.to_canonical().to_string());
    if let Ok(value) = HeaderValue::try_from(all.join(", ")) {
        headers.insert(FORWARDED_FOR, value);
    }
}

/// Removes the headers of an answer that are about its connection, or that let browsers read it.
pub(in crate::api) fn remove_answered_headers(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
    for name in [
        ACCESS_CONTROL_ALLOW_CREDENTIALS,
        ACCESS_CONTROL_ALLOW_HEADERS,
        ACCESS_CONTROL_ALLOW_METHODS,
        ACCESS_CONTROL_ALLOW_ORIGIN,
    ] {
        headers.remove(name);
    }
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.into_iter().chain(HOP_BY_HOP) {
        headers.remove(name);
    }
}

fn is_html(headers: &HeaderMap) -> bool {
    let written = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    written.split(';').next().unwrap_or_default().trim() == "text/html"
}

/// A body that is streamed from a backend.
struct Streamed {
    body: Incoming,
    /// Changes the links of a page.
    html: Option<Html>,
    /// Ends when the server stops.
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
    has_ended: bool,
}

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        let this = self.get_mut();
        if this.has_ended {
            return Poll::Ready(None);
        }
        if this.stop.as_mut().poll(cx).is_ready() {
            this.has_ended = true;
            return Poll::Ready(Some(Err("the server is stopping".into())));
        }
        loop {
            let frame = match Pin::new(&mut this.body).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(Some(Err(error))) => {
                    this.has_ended = true;
                    return Poll::Ready(Some(Err(error.into())));
                }
                Poll::Ready(None) => {
                    this.has_ended = true;
                    let rest = this.html.as_mut().map(Html::finish).filter(|rest| !rest.is_empty());
                    return Poll::Ready(rest.map(|rest| Ok(Frame::data(rest.into()))));
                }
            };
            let Some(html) = &mut this.html else { return Poll::Ready(Some(Ok(frame))) };
            match frame.into_data() {
                Ok(data) => {
                    let changed = html.push(&data);
                    if !changed.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(changed.into()))));
                    }
                }
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || (self.html.is_none() && self.body.is_end_stream())
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self.html {
            Some(_) => http_body::SizeHint::default(),
            None => self.body.size_hint(),
        }
    }
}

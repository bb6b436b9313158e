//! Requests for the group versions of other API servers: authorized here, and then handed on as they are,
//! with headers that say who the user is.

use std::pin::pin;
use std::time::Duration;

use aggregation::{Aggregation, Refusal, Remote, Use};
use auth::{Authenticated, User};
use http::header::{CONTENT_LENGTH, HeaderName, LOCATION, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use kinds::Verb as KindVerb;
use streams::websocket;
use tokio::time::timeout;

use super::connect::{
    Place, add_forwarded_for, empty, escaped, forwarded_headers, handed_on, opened, remove_answered_headers,
    switched_unasked,
};
use super::{Api, audited};
use crate::error::plain_text;
use crate::fairness::WatchSeats;
use crate::request::AUDIT_ID;
use crate::request_info::{RequestInfo, Verb};
use crate::sending::SendBy;
use crate::{Error, Query, Request, RequestBody, Response, deadline};

const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// How long a server may take for a document of discovery, so that one that hangs does not hold up clients,
/// which ask all.
const DISCOVERY: Duration = Duration::from_secs(5);

impl Api {
    /// Answers a request for a group version of another server.
    pub(super) async fn aggregated(
        &self,
        mut request: Request,
        caller: Authenticated,
        info: RequestInfo<'_>,
        remote: &Remote,
    ) -> Result<Response, Error> {
        let Some(aggregation) = &self.aggregation else { return Err(Error::UnknownPath) };
        let timeout = match deadline::is_long_running(&info) {
            true => None,
            false => Some(self.timeout(&request)?),
        };
        let received = request.context.received;
        let deadline = timeout.map(|timeout| received + timeout);
        let user = caller.user().clone();
        deadline::enforce(deadline, pin!(self.permission(caller, &info, request.uri()))).await?;
        if info.verb == Verb::Resource(KindVerb::Watch)
            && let Some(seats) = request.head.extensions.get::<WatchSeats>()
        {
            // The other server decides about its beginning.
            seats.free();
        }
        let observation = request.context.observation.clone();
        let forwarding = Forwarding { aggregation, remote, user: &user, path: info.path };
        let work = async {
            match websocket::is_upgrade(request.headers()) {
                true => self.upgrade_aggregated(&request, &forwarding).await,
                false => {
                    let is_discovery =
                        !info.is_resource_request && info.path.trim_matches('/').split('/').count() == 3;
                    let within = is_discovery.then_some(DISCOVERY);
                    self.forward_aggregated(&mut request, &forwarding, within).await
                }
            }
        };
        let mut response = deadline::enforce(deadline, pin!(work)).await?;
        if let Some(timeout) = timeout {
            response.extensions_mut().insert(SendBy::request(received, timeout));
        }
        audited::document(&observation, info.path, &response);
        Ok(response)
    }

    /// Answers a request outside of the resources of a group version by another server, for which the user
    /// has the permission already.
    pub(super) async fn aggregated_document(
        &self,
        mut request: Request,
        user: &User,
        path: &str,
        remote: &Remote,
    ) -> Result<Response, Error> {
        let Some(aggregation) = &self.aggregation else { return Err(Error::UnknownPath) };
        let (received, timeout) = (request.context.received, self.timeout(&request)?);
        let forwarding = Forwarding { aggregation, remote, user, path };
        let work = pin!(self.forward_aggregated(&mut request, &forwarding, None));
        let mut response = deadline::enforce(Some(received + timeout), work).await?;
        response.extensions_mut().insert(SendBy::request(received, timeout));
        Ok(response)
    }

    /// Hands a request on, and the answer back.
    async fn forward_aggregated(
        &self,
        request: &mut Request,
        to: &Forwarding<'_>,
        within: Option<Duration>,
    ) -> Result<Response, Error> {
        let address = to.remote.address().map_err(refused)?;
        let place = Place::of(request)?;
        let path = escaped(to.path);
        let mut headers = forwarded_headers(request);
        to.describe(&mut headers, &address, &path, request);
        let mut handed = http::Request::new(());
        *handed.method_mut() = request.method().clone();
        *handed.uri_mut() = uri(&path, request.query())?;
        *handed.headers_mut() = headers;
        let body = std::mem::replace(&mut request.body, RequestBody::Whole(None));
        let handed = handed.map(|()| handed_on(body));
        let Forwarding { aggregation, remote, user, .. } = to;
        let sending = remote.send(&address, handed, user, aggregation.tells_uids(), Use::Request, place.0);
        let answer = match within {
            None => sending.await,
            Some(within) => timeout(within, sending)
                .await
                .unwrap_or_else(|_| Err(Refusal::Unreachable("context deadline exceeded".to_owned()))),
        };
        let (head, body) = answer.map_err(refused)?.into_parts();
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            // The request asks for no upgrade: those headers were removed.
            let text = switched_unasked(&HeaderMap::new(), &head.headers).message;
            return Err(Error::Backend { code: 503, text });
        }
        if head.status.is_redirection()
            && head.headers.get(LOCATION).is_some_and(|to| !to.is_empty())
            && aggregation.refuses_redirects()
        {
            let why = "the backend attempted to redirect this request, which is not permitted";
            let mut response = plain_text(StatusCode::BAD_GATEWAY, why);
            response.headers_mut().remove(http::header::X_CONTENT_TYPE_OPTIONS);
            return Ok(response);
        }
        let mut headers = head.headers;
        remove_answered_headers(&mut headers);
        let mut response = self.streamed(body);
        *response.status_mut() = head.status;
        *response.headers_mut() = headers;
        Ok(response)
    }

    /// Hands an upgrade on, and bytes in both directions afterwards.
    async fn upgrade_aggregated(&self, request: &Request, to: &Forwarding<'_>) -> Result<Response, Error> {
        let address = to.remote.address().map_err(refused)?;
        let place = Place::of(request)?;
        let mut headers = request.headers().clone();
        add_forwarded_for(&mut headers, request.peer.address.ip());
        set(&mut headers, AUDIT_ID, request.context.observation.audit_id());
        headers.remove(CONTENT_LENGTH);
        headers.remove(TRANSFER_ENCODING);
        let mut asked = http::Request::new(empty());
        *asked.method_mut() = request.method().clone();
        *asked.uri_mut() = uri(&escaped(to.path), request.query())?;
        *asked.headers_mut() = headers;
        let Forwarding { aggregation, remote, user, .. } = to;
        let sending = async {
            let uids = aggregation.tells_uids();
            match remote.send(&address, asked, user, uids, Use::Upgrade, place.0).await {
                Err(Refusal::Unreachable(why)) => Err(why),
                outcome => outcome.map_err(|refusal| refusal.to_string()),
            }
        };
        let unanswered = |status: crate::Status| Error::Backend { code: 503, text: status.message };
        self.switched(request, opened(sending).await.map_err(unanswered)?, None)
    }
}

/// What is handed on, and where.
struct Forwarding<'a> {
    aggregation: &'a Aggregation,
    remote: &'a Remote,
    user: &'a User,
    /// The decoded path.
    path: &'a str,
}

impl Forwarding<'_> {
    /// Sets the headers that say where a request comes from.
    fn describe(&self, headers: &mut HeaderMap, address: &str, path: &str, request: &Request) {
        set(headers, FORWARDED_URI, path);
        set(headers, FORWARDED_HOST, address);
        headers.insert(FORWARDED_PROTO, HeaderValue::from_static("https"));
        set(headers, AUDIT_ID, request.context.observation.audit_id());
    }
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}

fn refused(refusal: Refusal) -> Error {
    Error::Backend { code: refusal.code(), text: refusal.to_string() }
}

/// A path with a query, whose parameters are sorted by their names as in the reference.
fn uri(path: &str, query: Query<'_>) -> Result<Uri, Error> {
    let mut pairs: Vec<_> = query.pairs().collect();
    pairs.sort_by(|one, other| one.name.cmp(&other.name));
    let mut out = path.to_owned();
    for (at, pair) in pairs.iter().enumerate() {
        out.push(if at == 0 { '?' } else { '&' });
        encode(&pair.name, &mut out);
        out.push('=');
        encode(&pair.value, &mut out);
    }
    out.parse().map_err(|error| Error::Backend { code: 503, text: format!("{error}") })
}

/// Encodes a name or value of a query.
fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_is_sorted_and_encoded() {
        let uri = |query| uri("/apis/g/v1/a%20b", Query::new(query)).unwrap().to_string();
        assert_eq!(uri(""), "/apis/g/v1/a%20b");
        assert_eq!(
            uri("watch=1&labelSelector=a%3Db,c+in+(d)&bare&watch=2&bad=%zz"),
            "/apis/g/v1/a%20b?bare=&labelSelector=a%3Db%2Cc+in+%28d%29&watch=1&watch=2"
        );
    }
}

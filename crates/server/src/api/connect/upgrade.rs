//! Upgrades: the connection of a client that stops being HTTP, and its connection to the backend.

use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use kinds::Connect;
use object::Value;
use outbound::ForwardError;
use registry::Location;
use schema::status::{Cause, Details, Reason};
use schema::view::View as _;
use schema::views::meta::v1::Status as StatusView;
use streams::remote_command::{self, Session, Streams};
use streams::{Throttled, spdy, websocket};
use tokio::time::timeout;

use super::proxy::add_forwarded_for;
use super::{Backends, OPENING, Place, empty, failed, switched_unasked, uri};
use crate::api::Api;
use crate::families::{STREAM_TRANSLATIONS, STREAM_TUNNELS};
use crate::takeover::{Taken, Takeover};
use crate::{Body, Error, Request, Response, Status};
use std::num::NonZeroU64;
use std::sync::Arc;

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// The start of the name of a WebSocket protocol that carries SPDY, and the end of the protocols of the API.
const TUNNEL_PREFIX: &str = "SPDY/3.1+";
const OWN_SUFFIX: &str = ".k8s.io";

/// The most bytes of an error of a backend that are read.
const MOST_ERROR: usize = 64 << 10;

impl Api {
    /// Answers exec, attach and port-forward requests.
    pub(super) async fn stream(
        &self,
        request: &mut Request,
        location: Location,
        connect: Connect,
        place: Place,
    ) -> Result<Response, Error> {
        let headers = request.headers();
        let is_websocket = websocket::is_request(headers);
        let offers =
            |is_wanted: fn(&str) -> bool| is_websocket && websocket::protocols(headers).any(is_wanted);
        if connect == Connect::PortForward && offers(is_tunnel) {
            let answer = self.tunnel(request, &location, place).await;
            STREAM_TUNNELS.with([code(&answer).as_str()]).inc();
            return answer;
        }
        if connect != Connect::PortForward && offers(|protocol| protocol == remote_command::PROTOCOL) {
            let (backends, limit) = (self.backends.clone(), self.config.stream_bytes_per_second);
            let answer = translate(headers, backends, location, place, limit);
            STREAM_TRANSLATIONS.with([code(&answer).as_str()]).inc();
            return answer;
        }
        if !websocket::is_upgrade(headers) {
            return Err(Status::bad_request("Upgrade request required").into());
        }
        self.upgrade(request, &location, place, self.config.stream_bytes_per_second).await
    }

    /// Forwards an upgrade to the backend, and then copies bytes in both directions, at most `limit` per
    /// second in each of them.
    pub(super) async fn upgrade(
        &self,
        request: &Request,
        location: &Location,
        place: Place,
        limit: Option<NonZeroU64>,
    ) -> Result<Response, Error> {
        let mut headers = request.headers().clone();
        add_forwarded_for(&mut headers, request.peer.address.ip());
        let answer = ask(&self.backends, location, request.method().clone(), headers, place).await?;
        self.switched(request, answer, limit)
    }

    /// The response for the answer of a backend to an upgrade: bytes are copied in both directions
    /// afterwards, at most `limit` per second in each of them.
    pub(in crate::api) fn switched(
        &self,
        request: &Request,
        answer: UpgradeResponse,
        limit: Option<NonZeroU64>,
    ) -> Result<Response, Error> {
        let UpgradeResponse { response, upgrade } = answer;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return refused(self, response);
        }
        if !is_asked_for(request.headers(), response.headers()) {
            return Err(switched_unasked(request.headers(), response.headers()).into());
        }
        let mut switched = Response::new(Body::Empty);
        *switched.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *switched.headers_mut() = response.into_parts().0.headers;
        switched.extensions_mut().insert(Takeover::new(move |client| copy(client, upgrade, limit)));
        Ok(switched)
    }

    /// Carries SPDY in the messages of a WebSocket.
    async fn tunnel(&self, request: &Request, location: &Location, place: Place) -> Result<Response, Error> {
        let mut headers = request.headers().clone();
        let offered: Vec<String> = websocket::protocols(request.headers())
            .filter(|protocol| is_tunnel(protocol))
            .filter_map(|protocol| protocol.strip_prefix(TUNNEL_PREFIX))
            .map(str::to_owned)
            .collect();
        for name in
            [SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, PROTOCOL_VERSION, UPGRADE]
        {
            headers.remove(name);
        }
        headers.insert(UPGRADE, HeaderValue::from_static(spdy::PROTOCOL));
        for protocol in &offered {
            if let Ok(value) = HeaderValue::try_from(protocol) {
                headers.append(PROTOCOL_VERSION, value);
            }
        }
        add_forwarded_for(&mut headers, request.peer.address.ip());
        let UpgradeResponse { response, upgrade } =
            ask(&self.backends, location, Method::POST, headers, place).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return refused(self, response);
        }
        if !is_spdy(response.headers()) {
            return Err(Error::MissingUpgradeHeaders);
        }
        let chosen = match text(response.headers(), &PROTOCOL_VERSION).trim() {
            "" => String::new(),
            chosen => format!("{TUNNEL_PREFIX}{chosen}"),
        };
        let mut switched = accepted(request.headers(), &chosen)?;
        let limit = self.config.stream_bytes_per_second;
        switched.extensions_mut().insert(Takeover::new(move |client| async move {
            let Some(backend) = upgraded(upgrade).await else { return };
            if let Err(error) = streams::tunnel::run(client, Throttled::new(backend, limit)).await {
                log::debug!(error:%; "a tunnel ended in the middle");
            }
        }));
        Ok(switched)
    }
}

/// The code that a stream is counted with.
fn code(answer: &Result<Response, Error>) -> StatusCode {
    match answer {
        // As in the reference: the stream was begun.
        Ok(response) if response.status() == StatusCode::SWITCHING_PROTOCOLS => StatusCode::OK,
        Ok(response) => response.status(),
        Err(Error::BadHandshake) => StatusCode::BAD_REQUEST,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The response of a backend to an upgrade request.
pub(in crate::api) struct UpgradeResponse {
    response: http::Response<Incoming>,
    upgrade: OnUpgrade,
}

/// Sends an upgrade request to a backend.
async fn ask(
    backends: &Backends,
    location: &Location,
    method: Method,
    mut headers: HeaderMap,
    place: Place,
) -> Result<UpgradeResponse, Status> {
    headers.remove(CONTENT_LENGTH);
    headers.remove(TRANSFER_ENCODING);
    let mut asked = http::Request::new(empty());
    *asked.method_mut() = method;
    *asked.uri_mut() = uri(location, &location.query)?;
    *asked.headers_mut() = headers;
    opened(backends.send(location, asked, place)).await
}

/// The answer to an upgrade request that is sent. A status code below 400 other than 101 is an error.
pub(in crate::api) async fn opened<E: std::fmt::Display>(
    sending: impl Future<Output = Result<http::Response<Incoming>, E>>,
) -> Result<UpgradeResponse, Status> {
    let answer = timeout(OPENING, sending).await;
    let answer = answer.map_err(|_| unanswered("error dialing backend"))?;
    let mut response = answer.map_err(|why| failed(&format!("error dialing backend: {why}")))?;
    let status = response.status();
    if status != StatusCode::SWITCHING_PROTOCOLS && status.as_u16() < 400 {
        return Err(failed(&format!("invalid upgrade response: status code {}", status.as_u16())));
    }
    let upgrade = hyper::upgrade::on(&mut response);
    Ok(UpgradeResponse { response, upgrade })
}

/// 504 for a backend that does not agree to an upgrade in time.
fn unanswered(what: &str) -> Status {
    let message = format!("{what}: no answer within {} s", OPENING.as_secs());
    Status { code: 504, reason: Reason::Timeout, ..failed(&message) }
}

/// Whether a backend switches to a requested protocol.
fn is_asked_for(asked: &HeaderMap, answered: &HeaderMap) -> bool {
    let chosen = text(answered, &UPGRADE).trim();
    let offered = asked.get_all(UPGRADE).iter().filter_map(|value| value.to_str().ok());
    let mut offered = offered.flat_map(|value| value.split(',')).map(str::trim);
    websocket::is_upgrade(answered)
        && !chosen.is_empty()
        && offered.any(|one| one.eq_ignore_ascii_case(chosen))
}

/// The response for a backend that refused the upgrade: the backend's own. The client's connection is closed.
fn refused(api: &Api, answer: http::Response<Incoming>) -> Result<Response, Error> {
    let (head, body) = answer.into_parts();
    let mut response = api.streamed(body);
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    response.headers_mut().remove(TRANSFER_ENCODING);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(response)
}

async fn upgraded(upgrade: OnUpgrade) -> Option<Taken> {
    match upgrade.await {
        Ok(upgraded) => Some(TokioIo::new(upgraded)),
        Err(error) => {
            log::debug!(error:%; "a backend did not hand its connection over");
            None
        }
    }
}

async fn copy(client: Taken, upgrade: OnUpgrade, limit: Option<NonZeroU64>) {
    let Some(backend) = upgraded(upgrade).await else { return };
    if let Err(error) = streams::copy::both(client, Throttled::new(backend, limit)).await {
        log::debug!(error:%; "a stream ended in the middle");
    }
}

/// The response that accepts a WebSocket with a protocol, which may be empty.
pub(super) fn accepted(headers: &HeaderMap, protocol: &str) -> Result<Response, Error> {
    let accept = websocket::accept(headers).ok_or(Error::BadHandshake)?;
    let protocol = match protocol {
        "" => None,
        protocol => Some(HeaderValue::try_from(protocol).map_err(|_| Error::BadHandshake)?),
    };
    Ok(switching(accept, protocol))
}

/// The response 101 of a WebSocket.
pub(in crate::api) fn switching(accept: HeaderValue, protocol: Option<HeaderValue>) -> Response {
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answered = response.headers_mut();
    answered.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    answered.insert(UPGRADE, HeaderValue::from_static("websocket"));
    answered.insert(SEC_WEBSOCKET_ACCEPT, accept);
    if let Some(protocol) = protocol {
        answered.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    response
}

fn is_tunnel(protocol: &str) -> bool {
    protocol.starts_with(TUNNEL_PREFIX) && protocol.ends_with(OWN_SUFFIX)
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Whether a response hands its connection over to SPDY.
fn is_spdy(headers: &HeaderMap) -> bool {
    let protocol = text(headers, &UPGRADE).to_ascii_lowercase();
    websocket::is_upgrade(headers) && protocol.contains(&spdy::PROTOCOL.to_ascii_lowercase())
}

/// Accepts a WebSocket with channels, and translates it to SPDY.
fn translate(
    headers: &HeaderMap,
    backends: Arc<Backends>,
    location: Location,
    place: Place,
    limit: Option<NonZeroU64>,
) -> Result<Response, Error> {
    let mut response = accepted(headers, remote_command::PROTOCOL)?;
    response.extensions_mut().insert(Takeover::new(move |client| async move {
        let streams = location.command.unwrap_or_default();
        let streams = Streams {
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr,
            tty: streams.tty,
        };
        let mut session = Session::new(client, streams);
        let opening = timeout(OPENING, open(&backends, &location, place));
        let Some(opened) = session.while_opening(opening).await else { return };
        let outcome = match opened.unwrap_or_else(|_| Err(unanswered("error sending request"))) {
            Ok((backend, protocol)) => {
                let backend = Throttled::new(backend, limit);
                session.run(backend, &protocol, |said| ending(&protocol, said)).await
            }
            Err(status) => session.refuse(in_stream(&status).as_bytes()).await,
        };
        if let Err(error) = outcome {
            log::debug!(error:%; "a command ended in the middle");
        }
    }));
    Ok(response)
}

/// Opens a SPDY connection for a command; returns it with the protocol that the backend chose.
async fn open(backends: &Backends, location: &Location, place: Place) -> Result<(Taken, String), Status> {
    let internal = |why: String| Status::internal_error(&why);
    let mut asked = http::Request::new(empty());
    *asked.method_mut() = Method::POST;
    *asked.uri_mut() = uri(location, &location.query)?;
    let headers = asked.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(spdy::PROTOCOL));
    for protocol in remote_command::BACKEND_PROTOCOLS {
        headers.append(PROTOCOL_VERSION, HeaderValue::from_static(protocol));
    }
    if let Ok(host) = HeaderValue::try_from(location.authority()) {
        headers.insert(HOST, host);
    }
    let shown = asked.uri().to_string();
    let sent = backends.send(location, asked, place).await;
    let mut response = sent.map_err(|why: ForwardError| {
        internal(format!("error sending request: Post {}: {why}", object::quote::Quoted(&shown)))
    })?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS || !is_spdy(response.headers()) {
        return Err(refusal(&shown, response).await);
    }
    let protocol = text(response.headers(), &PROTOCOL_VERSION).to_owned();
    match upgraded(hyper::upgrade::on(&mut response)).await {
        Some(backend) => Ok((backend, protocol)),
        None => Err(internal("unable to upgrade connection".to_owned())),
    }
}

/// The status for a backend that did not switch to SPDY.
async fn refusal(url: &str, response: http::Response<Incoming>) -> Status {
    let status = response.status();
    if status.is_redirection() && response.headers().contains_key(http::header::LOCATION) {
        let to = text(response.headers(), &http::header::LOCATION);
        let why = format!("error sending request: Post {}: redirect not allowed", object::quote::Quoted(to));
        return Status::internal_error(&why);
    }
    let body = match Limited::new(response.into_body(), MOST_ERROR).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => {
            log::debug!(url, error:%; "the error of a backend could not be read");
            let why = "unable to upgrade connection: unable to read error from server response";
            return Status::internal_error(why);
        }
    };
    match read_status(&body) {
        Some(status) => status,
        None => {
            let text = String::from_utf8_lossy(&body);
            Status::internal_error(&format!("unable to upgrade connection: {}", text.trim()))
        }
    }
}

/// A status that a backend sent.
fn read_status(bytes: &[u8]) -> Option<Status> {
    let read = parse(bytes)?;
    let status = StatusView::of(read.as_map()?);
    if status.kind() != "Status" {
        return None;
    }
    Some(Status {
        code: u16::try_from(status.code()).unwrap_or_default(),
        reason: Reason::Other(status.reason().into()),
        message: status.message().to_owned(),
        details: None,
        token: String::new(),
    })
}

fn parse(bytes: &[u8]) -> Option<Value> {
    let decoded = schema::json::decode(StatusView::schema(), bytes, &schema::Limits::default());
    decoded.ok().map(|decoded| decoded.value)
}

/// The last message to the client of a command, from the error stream of the backend.
pub(super) fn ending(protocol: &str, said: &[u8]) -> Vec<u8> {
    const SUCCESS: &[u8] = br#"{"metadata":{},"status":"Success"}"#;
    if said.is_empty() {
        return SUCCESS.to_vec();
    }
    let text = String::from_utf8_lossy(said);
    let failure = if !matches!(protocol, remote_command::PROTOCOL | "v4.channel.k8s.io") {
        Status::internal_error(&format!("error executing remote command: {text}"))
    } else {
        match outcome(said, &text) {
            Outcome::Success => return SUCCESS.to_vec(),
            Outcome::Exit(code) => return exit_status(code).into_bytes(),
            Outcome::Failure(why) => Status::internal_error(&why),
        }
    };
    in_stream(&failure).into_bytes()
}

/// A status as it is sent in a stream: without its kind, and without a code that it does not have.
fn in_stream(status: &Status) -> String {
    let json = status.to_json();
    let json = json.trim_end();
    let rest = json.strip_prefix(r#"{"kind":"Status","apiVersion":"v1","#).unwrap_or(json);
    match rest.strip_suffix(r#","code":0}"#) {
        Some(rest) => format!("{{{rest}}}"),
        None => format!("{{{rest}"),
    }
}

/// The outcome of a command.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Success,
    Exit(u8),
    Failure(String),
}

fn outcome(said: &[u8], text: &str) -> Outcome {
    let wrong = |why: &str| Outcome::Failure(format!("error stream protocol error: {why}"));
    let Some(read) = parse(said) else {
        return wrong(&format!("invalid status in {}", object::quote::Quoted(text)));
    };
    let Some(status) = read.as_map().map(StatusView::of) else { return wrong("unknown error") };
    match (status.status(), status.reason()) {
        ("Success", _) => Outcome::Success,
        ("Failure", "NonZeroExitCode") => {
            let Some(details) = status.details() else { return wrong("details must be set") };
            let mut causes = details.causes().iter();
            match causes.find(|cause| cause.reason() == "ExitCode").map(|cause| cause.message()) {
                None => wrong("no ExitCode cause given"),
                Some(code) => match code.parse() {
                    Ok(code) => Outcome::Exit(code),
                    Err(_) => wrong(&format!("invalid exit code value {}", object::quote::Quoted(code))),
                },
            }
        }
        ("Failure", _) => Outcome::Failure(status.message().to_owned()),
        _ => wrong("unknown error"),
    }
}

/// The status of a command that ended with a code.
fn exit_status(code: u8) -> String {
    let message =
        format!("command terminated with non-zero exit code: command terminated with exit code {code}");
    let cause = Cause { reason: "ExitCode".into(), message: code.to_string(), field: String::new() };
    let status = Status {
        code: 0,
        reason: Reason::Other("NonZeroExitCode".into()),
        message,
        details: Some(Details { causes: vec![cause], ..Details::default() }.into()),
        token: String::new(),
    };
    in_stream(&status)
}

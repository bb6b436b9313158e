//! The log of a container, streamed from the kubelet.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use object::quote::Quoted;
use registry::Location;
use schema::status::{Details, Reason};
use streams::websocket::{self, Opcode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, split};
use tokio::time::timeout;

use super::upgrade::accepted;
use super::{OPENING, Place, empty, failed, switched_unasked, uri};
use crate::api::Api;
use crate::takeover::{Taken, Takeover};
use crate::{Error, Request, Response, Status};

/// The most bytes of an error of a kubelet that are read.
const MOST_ERROR: usize = 50_000;

/// The protocols for logs over a WebSocket, and whether the data is encoded in them.
const PROTOCOLS: [(&str, bool); 3] = [("", false), ("binary.k8s.io", false), ("base64.binary.k8s.io", true)];

impl Api {
    /// Answers with the log.
    pub(super) async fn log(
        &self,
        request: &Request,
        location: &Location,
        pod: &str,
        place: Place,
    ) -> Result<Response, Error> {
        let uri = uri(location, &location.query)?;
        let get = http::Request::get(&uri).body(empty()).map_err(|error| failed(&error.to_string()))?;
        let answer = self.backends.send(location, get, place).await;
        let answer = answer.map_err(|why| failed(&format!("Get {}: {why}", Quoted(&uri.to_string()))))?;
        let (status, redirect) = (answer.status(), answer.headers().get(LOCATION));
        if let Some(to) = redirect.filter(|_| matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)) {
            let to = String::from_utf8_lossy(to.as_bytes()).into_owned();
            return Err(failed(&format!("Get {}: redirects forbidden", Quoted(&to))).into());
        }
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(switched_unasked(&HeaderMap::new(), answer.headers()).into());
        }
        if !(200..=206).contains(&status.as_u16()) {
            return Err(refusal(status, answer.into_body(), pod).await.into());
        }
        if websocket::is_request(request.headers()) {
            return over_websocket(request, answer.into_body());
        }
        let mut response = self.streamed(answer.into_body());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        Ok(response)
    }
}

/// The status for an error of a kubelet.
async fn refusal(status: StatusCode, body: Incoming, pod: &str) -> Status {
    let text = match timeout(OPENING, Limited::new(body, MOST_ERROR).collect()).await {
        Ok(Ok(body)) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        Ok(Err(error)) => return Status::internal_error(&error.to_string()),
        Err(_) => return Status::internal_error("the error of the kubelet has no end"),
    };
    let (reason, message) = match status.as_u16() {
        500 => return Status::internal_error(&text),
        400 => return Status::bad_request(text),
        401 => {
            let message = "the server has asked for the client to provide credentials";
            (Reason::Unauthorized, message.to_owned())
        }
        403 => (Reason::Forbidden, text),
        404 => (Reason::NotFound, "the server could not find the requested resource".to_owned()),
        405 => {
            let message = "the server does not allow this method on the requested resource";
            (Reason::MethodNotAllowed, message.to_owned())
        }
        429 => {
            let message = "the server has received too many requests and has asked us to try again later";
            (Reason::TooManyRequests, message.to_owned())
        }
        503 => {
            let message = "the server is currently unable to handle the request";
            (Reason::ServiceUnavailable, message.to_owned())
        }
        501.. => {
            let text = Quoted(&text);
            let message =
                format!("an error on the server ({text}) has prevented the request from succeeding");
            (Reason::InternalError, message)
        }
        _ => (Reason::Unknown, "unknown".to_owned()),
    };
    Status {
        code: status.as_u16(),
        reason,
        message: format!("{message} ( pods/log {pod})"),
        details: Some(Details::of("", "pods/log", pod).into()),
        token: String::new(),
    }
}

/// Sends the log as messages of a WebSocket.
fn over_websocket(request: &Request, log: Incoming) -> Result<Response, Error> {
    let mut offered = websocket::protocols(request.headers()).peekable();
    let known = |protocol: &str| PROTOCOLS.into_iter().find(|(name, _)| *name == protocol);
    let chosen = match offered.peek() {
        None => known(""),
        Some(_) => offered.find_map(known),
    };
    let Some((protocol, is_encoded)) = chosen else {
        return Err(Error::UnsupportedProtocol);
    };
    let mut response = accepted(request.headers(), protocol)?;
    response.extensions_mut().insert(Takeover::new(move |client| async move {
        if let Err(error) = send_messages(client, log, is_encoded).await {
            ::log::debug!(error:%; "a log over a WebSocket ended in the middle");
        }
    }));
    Ok(response)
}

async fn send_messages(client: Taken, mut log: Incoming, is_encoded: bool) -> Result<(), Error> {
    let (mut from, mut to) = split(client);
    let message = |data: &[u8]| match is_encoded {
        true => websocket::frame(Opcode::Text, &[STANDARD.encode(data).as_bytes()]),
        false => websocket::frame(Opcode::Binary, &[data]),
    };
    let send = async {
        to.write_all(&message(&[])).await?;
        to.flush().await?;
        while let Some(Ok(frame)) = log.frame().await {
            if let Ok(data) = frame.into_data() {
                to.write_all(&message(&data)).await?;
                to.flush().await?;
            }
        }
        to.write_all(&websocket::normal_close()).await?;
        to.shutdown().await
    };
    // Data from the client is ignored; the end of its stream ends the log.
    let gone = async {
        let mut ignored = [0; 1 << 10];
        while from.read(&mut ignored).await.is_ok_and(|read| read > 0) {}
    };
    tokio::select! {
        outcome = send => outcome.map_err(|error| Error::Internal(error.to_string())),
        () = gone => Ok(()),
    }
}

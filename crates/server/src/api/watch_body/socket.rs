//! Watches over WebSocket, as browsers ask for them: each event is a message, of text where its format is.
//!
//! 1. The handshake has the answers of the reference: an origin is demanded, whichever it is, and at most one
//!    protocol is offered, which is accepted. (The protocol that carries a token is gone by then.)
//! 2. What the client sends is ignored, but for pings and the end.
//! 3. A client that does not read is cut off shortly after the timeout of the watch.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::header::{
    CONNECTION, HeaderName, ORIGIN, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::BodyExt as _;
use streams::websocket::{self, Opcode, Piece, Reader};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, split};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::WatchBody;
use crate::api::connect::switching;
use crate::negotiate::Format;
use crate::takeover::Takeover;
use crate::{Body, Response};

const VERSION: &str = "13";

/// How an event becomes a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// As text.
    Text,
    /// As bytes.
    Binary,
    /// As bytes, without the length before them, which is the frame of other watches.
    WithoutLength,
}

impl Framing {
    pub(super) fn of(format: Format) -> Self {
        match format {
            Format::Json | Format::Pretty | Format::Yaml => Self::Text,
            Format::Cbor => Self::Binary,
            Format::Protobuf => Self::WithoutLength,
        }
    }

    fn message(self, event: &[u8]) -> Vec<u8> {
        const LENGTH: usize = 4;
        match self {
            Self::Text => websocket::frame(Opcode::Text, &[event]),
            Self::Binary => websocket::frame(Opcode::Binary, &[event]),
            Self::WithoutLength => {
                websocket::frame(Opcode::Binary, &[event.get(LENGTH..).unwrap_or_default()])
            }
        }
    }
}

/// The answer to a request for a WebSocket: 101, after which the events are sent, or why there is none. What
/// is not read `until` then is not sent.
pub(super) fn respond(headers: &HeaderMap, body: WatchBody, framing: Framing, until: Instant) -> Response {
    let mut response = handshake(headers);
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        response.extensions_mut().insert(Takeover::new(move |client| async move {
            if timeout_at(until, run(client, body, framing)).await.is_err() {
                log::debug!("a watch over a WebSocket was not read until its end");
            }
        }));
    }
    response
}

/// 101, or a refusal.
fn handshake(headers: &HeaderMap) -> Response {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let bad = |why: &'static str| refusal(StatusCode::BAD_REQUEST, why);
    let key = text(SEC_WEBSOCKET_KEY);
    if key.is_empty() {
        return bad("mismatch challenge/response");
    }
    if text(SEC_WEBSOCKET_VERSION) != VERSION {
        let mut refusal = bad("missing or bad WebSocket Version");
        refusal.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static(VERSION));
        return refusal;
    }
    if !is_origin(text(ORIGIN)) {
        return refusal(StatusCode::FORBIDDEN, "");
    }
    let protocol = text(SEC_WEBSOCKET_PROTOCOL).trim();
    let accept = websocket::answer_to(key).filter(|_| !protocol.contains(','));
    let Some(accept) = accept else { return bad("") };
    switching(accept, headers.get(SEC_WEBSOCKET_PROTOCOL).filter(|_| !protocol.is_empty()).cloned())
}

/// Whether a text is the beginning of a URL, or a path: what the reference takes for an origin.
fn is_origin(text: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|each| each.is_ascii_alphanumeric() || "+-.".contains(each))
    };
    text == "*"
        || text.starts_with('/')
        || text.split_once(':').is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty())
}

fn refusal(status: StatusCode, why: &'static str) -> Response {
    let mut response = Response::new(Body::from(Bytes::from_static(why.as_bytes())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The bytes of the last ping that is not answered yet.
#[derive(Default)]
struct Pings {
    last: Mutex<Option<Vec<u8>>>,
    came: Notify,
}

impl Pings {
    fn put(&self, data: Vec<u8>) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(data);
        self.came.notify_one();
    }

    fn take(&self) -> Option<Vec<u8>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

async fn run(client: impl AsyncRead + AsyncWrite + Unpin, body: WatchBody, framing: Framing) {
    let (from, mut to) = split(client);
    let pings = Pings::default();
    let outcome = tokio::select! {
        outcome = send(&mut to, body, framing, &pings) => outcome,
        () = receive(from, &pings) => Ok(()),
    };
    let ended = match outcome {
        Ok(()) => to.write_all(&websocket::normal_close()).await,
        Err(error) => Err(error),
    };
    if let Err(error) = ended {
        log::debug!(error:%; "a watch over a WebSocket ended in the middle");
    }
    to.shutdown().await.ok();
}

/// Sends events until there are no more.
async fn send(
    to: &mut (impl AsyncWrite + Unpin),
    mut body: WatchBody,
    framing: Framing,
    pings: &Pings,
) -> std::io::Result<()> {
    loop {
        let message = tokio::select! {
            frame = body.frame() => match frame {
                Some(Ok(frame)) => framing.message(frame.data_ref().map_or(&[], |data| &data[..])),
                Some(Err(_)) | None => return Ok(()),
            },
            () = pings.came.notified() => match pings.take() {
                Some(data) => websocket::frame(Opcode::Pong, &[&data]),
                None => continue,
            },
        };
        to.write_all(&message).await?;
        to.flush().await?;
    }
}

/// Reads until the client has closed the connection, or broken the protocol.
async fn receive(from: impl AsyncRead + Unpin, pings: &Pings) {
    let mut reader = Reader::new(from);
    loop {
        match reader.next().await {
            Ok(Some(Piece::Ping(data))) => pings.put(data),
            Ok(Some(Piece::Data { .. } | Piece::Pong)) => {}
            Ok(Some(Piece::Close) | None) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::SEC_WEBSOCKET_ACCEPT;

    fn request(changes: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let usual = [
            (SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ=="),
            (SEC_WEBSOCKET_VERSION, VERSION),
            (ORIGIN, "https://example.com"),
        ];
        for (name, value) in usual.iter().chain(changes) {
            headers.insert(name.clone(), HeaderValue::from_static(value));
        }
        headers
    }

    fn answer(changes: &[(HeaderName, &'static str)]) -> (u16, HeaderMap) {
        let (head, _) = handshake(&request(changes)).into_parts();
        (head.status.as_u16(), head.headers)
    }

    #[test]
    fn a_handshake_has_a_key_a_version_an_origin_and_at_most_one_protocol() {
        let (status, headers) = answer(&[(SEC_WEBSOCKET_PROTOCOL, "base64.binary.k8s.io")]);
        assert_eq!(status, 101);
        // The example of RFC 6455.
        assert_eq!(headers[SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(headers[SEC_WEBSOCKET_PROTOCOL], "base64.binary.k8s.io");
        assert!(answer(&[]).1.get(SEC_WEBSOCKET_PROTOCOL).is_none());
        for (name, value, wanted) in [
            (SEC_WEBSOCKET_KEY, "", 400),
            (SEC_WEBSOCKET_VERSION, "8", 400),
            (ORIGIN, "", 403),
            (ORIGIN, "null", 403),
            (ORIGIN, "file://", 101),
            (SEC_WEBSOCKET_PROTOCOL, "a, b", 400),
        ] {
            assert_eq!(answer(&[(name.clone(), value)]).0, wanted, "{name}: {value}");
        }
        assert_eq!(answer(&[(SEC_WEBSOCKET_VERSION, "8")]).1[SEC_WEBSOCKET_VERSION], VERSION);
    }

    #[test]
    fn protobuf_has_no_length_before_it() {
        assert_eq!(Framing::WithoutLength.message(&[0, 0, 0, 2, 7, 8]), [0x82, 2, 7, 8]);
        assert_eq!(Framing::Text.message(b"{}\n"), *b"\x81\x03{}\n");
        assert_eq!(Framing::Binary.message(&[9]), [0x82, 1, 9]);
    }
}

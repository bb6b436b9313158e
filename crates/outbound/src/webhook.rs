//! Reviews by another server: an object is sent, and comes back with an answer in it.

use crate::Error;
use crate::backoff::Backoff;
use crate::client::{Answer, Bounds};
use crate::endpoint::Endpoint;
use crate::secret::withhold;
use bytes::Bytes;
use object::excerpt::shorten_to;
use object::quote::Quoted;
use object::{Value, duration};
use schema::view::View as _;
use schema::views::meta::v1::Status;
use schema::{Limits, Shape, Type, json};
use std::borrow::Cow;
use std::time::Duration;
use tokio::time::Instant;

/// The most bytes of an answer.
pub(crate) const MOST_BYTES: usize = Limits::REQUEST.bytes;

/// How often a request is repeated for a server that sends `Retry-After`.
const RETRIES: usize = 10;

/// The most bytes of a text of the server within an error.
const MOST_TEXT: usize = 1 << 10;

/// A server that answers reviews.
#[derive(Debug)]
pub struct Webhook {
    endpoint: Endpoint,
    backoff: Backoff,
    timeout: Duration,
}

impl Webhook {
    /// A server that has this time to answer a review, all attempts together.
    pub fn new(endpoint: Endpoint, backoff: Backoff, timeout: Duration) -> Self {
        Self { endpoint, backoff, timeout }
    }

    /// Sends an object of a built-in kind, and returns what comes back: an object of the same kind. What the
    /// server says to people, there and in errors, comes without the credentials that were sent, and without
    /// `secret`, which the object may have.
    pub async fn review(
        &self,
        ty: &'static Type,
        object: &Value,
        secret: Option<&str>,
    ) -> Result<Value, Error> {
        let mut body = Vec::new();
        json::encode(ty, object, &mut body);
        let body = Bytes::from(body);
        let bounds = Bounds::within(self.timeout, MOST_BYTES);
        let query = format!("timeout={}", duration::Duration::from(self.timeout));
        let version = ty.kind.as_ref().map(|kind| kind.api_version().to_string()).unwrap_or_default();
        let attempt = || async {
            let (answer, shown) = self.endpoint.post_json(&query, body.clone(), bounds).await?;
            let secrets = [secret, shown.token()].map(Option::unwrap_or_default);
            read_review(ty, &version, answer, MOST_BYTES, secrets)
        };
        self.backoff.retry(bounds.deadline, attempt).await
    }
}

impl Endpoint {
    /// Sends a review to a path of the server, and returns what comes back: an object of a built-in kind in
    /// this version. A server that sends `Retry-After` is asked again after that time. Its texts in errors
    /// come without the credentials that were sent.
    pub async fn review(
        &self,
        path: &str,
        body: Bytes,
        bounds: Bounds,
        (ty, version): (&'static Type, &str),
    ) -> Result<Value, Error> {
        let left = bounds.deadline.duration_since(Instant::now());
        let left = Duration::from_secs(left.as_millis().div_ceil(1000) as u64);
        let query = match left.is_zero() {
            true => String::new(),
            false => format!("timeout={}", duration::Duration::from(left)),
        };
        let ask = async |body: Bytes| {
            let (answer, shown) = self.post_json_to(path, &query, body, bounds).await?;
            let secrets = [shown.token().unwrap_or_default(), ""];
            read_review(ty, version, answer, bounds.most_bytes, secrets)
        };
        for _ in 0..RETRIES {
            let error = match ask(body.clone()).await {
                Err(error @ Error::Status { code: 429 | 500.., retry_after: Some(_), .. }) => error,
                outcome => return outcome,
            };
            let next = error.retry_after().and_then(|wait| Instant::now().checked_add(wait));
            let Some(next) = next.filter(|next| *next < bounds.deadline) else { return Err(error) };
            tokio::time::sleep_until(next).await;
        }
        ask(body).await
    }
}

/// Whether the server has taken what it was sent.
pub(crate) fn check_status(answer: &Answer, secrets: [&str; 2]) -> Result<(), Error> {
    let code = answer.status.as_u16();
    if (200..=206).contains(&code) {
        return Ok(());
    }
    let short = |text: &str| shorten_to(MOST_TEXT, withhold_all(text, secrets));
    let message =
        said(&answer.body).map_or_else(|| usual(code, &answer.body, short), |message| short(&message));
    Err(Error::Status { code, message, retry_after: answer.retry_after })
}

/// The object in an answer, which is of a built-in kind in this version or does not say what it is.
fn read_review(
    ty: &'static Type,
    version: &str,
    answer: Answer,
    most_bytes: usize,
    secrets: [&str; 2],
) -> Result<Value, Error> {
    check_status(&answer, secrets)?;
    let Answer { status, content_type, body, .. } = answer;
    let short = |text: &str| shorten_to(MOST_TEXT, withhold_all(text, secrets));
    if body.is_empty() {
        let code = status.as_u16();
        return Err(Error::Answer(format!(
            "0-length response with status code: {code} and content type: {}",
            short(&content_type)
        )));
    }
    let kind = ty.kind.as_ref().map(|kind| kind.kind.as_str()).unwrap_or_default();
    let why = match json::decode(ty, &body, &Limits { bytes: most_bytes, ..Limits::REQUEST }) {
        Ok(mut decoded) => {
            let text = |key: &str| decoded.value.get(key).and_then(Value::as_str).unwrap_or_default();
            let (own_kind, own_version) = (text("kind"), text("apiVersion"));
            // An answer without `kind` or `apiVersion` is taken for the requested review.
            if ["", kind].contains(&own_kind) && ["", version].contains(&own_version) {
                withhold_in_status(&mut decoded.value, secrets);
                return Ok(decoded.value);
            }
            format!(
                "the answer is a {} in version {}, not a {} in version {}",
                Quoted(&short(own_kind)),
                Quoted(&short(own_version)),
                Quoted(kind),
                Quoted(version)
            )
        }
        // What is no JSON at all has the words of the reference.
        Err(error) => match json::decode_shape(&Shape::Any, &body, &Limits::REQUEST) {
            Err(error) => {
                format!("couldn't get version/kind; json parse error: {}", short(&error.to_string()))
            }
            Ok(_) => format!("the answer is not a {kind}: {}", short(&error.to_string())),
        },
    };
    Err(Error::Answer(said(&body).map_or(why, |message| short(&message))))
}

fn withhold_all<'a>(text: &'a str, secrets: [&str; 2]) -> Cow<'a, str> {
    secrets.iter().fold(text.into(), |text, secret| match withhold(&text, secret) {
        Cow::Owned(shorter) => shorter.into(),
        Cow::Borrowed(_) => text,
    })
}

/// Takes secrets out of the texts of a review that are for people.
fn withhold_in_status(review: &mut Value, secrets: [&str; 2]) {
    let status = review.as_map_mut().and_then(|review| review.get_mut("status")?.as_map_mut());
    let Some(status) = status else { return };
    for field in ["error", "reason", "evaluationError"] {
        if let Some(value) = status.get_mut(field)
            && let Cow::Owned(text) = withhold_all(value.as_str().unwrap_or_default(), secrets)
        {
            *value = text.into();
        }
    }
}

/// The message of a `Status` with a failure.
fn said(body: &[u8]) -> Option<String> {
    let decoded = json::decode(Status::schema(), body, &Limits::REQUEST).ok()?.value;
    let status = Status::of(decoded.as_map()?);
    let is_failure = decoded.get("kind")?.as_str() == Some("Status") && status.status() != "Success";
    (is_failure && !status.message().is_empty()).then(|| status.message().to_owned())
}

/// The text for a status code without more information.
fn usual(code: u16, body: &[u8], short: impl Fn(&str) -> String) -> String {
    let said = || short(String::from_utf8_lossy(body).trim());
    match code {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        // For these codes the body has the reason.
        403 | 415 => said(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        406 if said().is_empty() => {
            "the server was unable to respond with a content type that the client supports".to_owned()
        }
        406 => said(),
        409 => "the server reported a conflict".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the request"
            .to_owned(),
        500.. => {
            format!("an error on the server ({}) has prevented the request from succeeding", Quoted(&said()))
        }
        _ => format!("the server responded with the status code {code} but did not return more information"),
    }
}

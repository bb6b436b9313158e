//! The first look at a request's media types, which belongs to the choice of a route: bare names, no parameters, no ranges
//! but `*/*`.

use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Method};
use schema::Status;
use schema::status::Details;

use super::{PatchType, Settings, text};

/// What a route can answer with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Produces {
    /// Objects.
    Objects,
    /// Objects, and streams of them: collections, and the old watch paths.
    ObjectsAndStreams,
    /// Plain text, and objects: the log of a pod.
    TextAndObjects,
    /// Whatever there is at the other end: connections to pods, services and nodes.
    Anything,
}

/// Whether a route that produces these may answer a request with these headers: 406 or 415 if not. Comes after 404 and
/// 405, and before anything that the verb finds wrong.
pub(crate) fn check(
    method: &Method,
    headers: &HeaderMap,
    produces: Produces,
    settings: Settings,
) -> Result<(), Status> {
    let content_length = text(headers, CONTENT_LENGTH);
    let takes_body = *method != Method::PATCH
        || produces == Produces::Anything
        || is_consumed(&text(headers, CONTENT_TYPE), settings);
    if !takes_body && content_length.parse::<u64>().is_ok_and(|length| length > 0) {
        return Err(refusal(415, "415: Unsupported Media Type".to_owned()));
    }
    // A route that cannot take the body is out, but the request is refused for what it accepts.
    let available = if takes_body { produced(produces, settings) } else { Vec::new() };
    let accept = text(headers, ACCEPT);
    if takes_body && is_accepted(&accept, &available) {
        return Ok(());
    }
    let representations = format!("Available representations: {}", available.join(", "));
    let writes = matches!(*method, Method::POST | Method::PUT | Method::PATCH);
    Err(if writes && content_length.is_empty() {
        refusal(415, format!("415: Unsupported Media Type\n\n{representations}"))
    } else {
        refusal(406, format!("406: Not Acceptable\n\n{representations}"))
    })
}

/// Whether a path that knows nothing but JSON may answer: 406 if not.
pub(crate) fn check_json(headers: &HeaderMap) -> Result<(), Status> {
    if is_accepted(&text(headers, ACCEPT), &[super::JSON]) {
        return Ok(());
    }
    Err(refusal(406, format!("406: Not Acceptable\n\nAvailable representations: {}", super::JSON)))
}

fn produced(produces: Produces, settings: Settings) -> Vec<&'static str> {
    match produces {
        Produces::Objects => settings.media_types().collect(),
        Produces::ObjectsAndStreams => settings.media_types().chain(settings.stream_media_types()).collect(),
        Produces::TextAndObjects => std::iter::once("text/plain").chain(settings.media_types()).collect(),
        Produces::Anything => vec!["*/*"],
    }
}

fn is_accepted(accept: &str, available: &[&str]) -> bool {
    accept.is_empty()
        || bare(accept).any(|ty| ty == "*/*" || available.iter().any(|known| *known == "*/*" || *known == ty))
}

/// Whether a PATCH with this content type is one of the known kinds; no type at all is none of them.
fn is_consumed(content_type: &str, settings: Settings) -> bool {
    bare(content_type).any(|ty| settings.patch_types().map(PatchType::media_type).any(|known| known == ty))
}

/// The media types of a header without their parameters.
fn bare(header: &str) -> impl Iterator<Item = &str> {
    header.split(',').map(|part| part.split(';').next().unwrap_or_default().trim_matches(' '))
}

fn refusal(code: u16, message: String) -> Status {
    let status = match code {
        415 => Status::unsupported_media_type(message),
        _ => Status::not_acceptable(message),
    };
    Status { details: Some(Details::default().into()), ..status }
}

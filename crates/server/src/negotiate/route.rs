//! The check of media types when a route is chosen: without parameters, and with no range but `*/*`.

use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Method};
use schema::Status;
use schema::status::Details;

use super::{Negotiator, PatchType, text};

/// The responses of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Produces {
    /// Objects.
    Objects,
    /// Objects, and streams of them: collections, and the deprecated watch paths.
    ObjectsAndStreams,
    /// Plain text, and objects: the log of a pod.
    TextAndObjects,
    /// Any media type: connections to pods, services and nodes.
    Anything,
}

/// Checks whether a route may answer a request with these headers: 406 or 415 if not. Runs after the checks
/// for 404 and 405, and before the verb.
pub(crate) fn check(
    method: &Method,
    headers: &HeaderMap,
    produces: Produces,
    negotiator: Negotiator,
) -> Result<(), Status> {
    let content_length = text(headers, CONTENT_LENGTH);
    let takes_body = *method != Method::PATCH
        || produces == Produces::Anything
        || is_consumed(&text(headers, CONTENT_TYPE), negotiator);
    if !takes_body && content_length.parse::<u64>().is_ok_and(|length| length > 0) {
        return Err(refusal(415, "415: Unsupported Media Type".to_owned()));
    }
    // The reference drops a route that does not accept the body, and then refuses the request by its
    // `Accept`.
    let available = if takes_body { produced(produces, negotiator) } else { Vec::new() };
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

/// Checks a route whose responses are JSON only: 406 if the client does not accept that.
pub(crate) fn check_json(headers: &HeaderMap) -> Result<(), Status> {
    check_only(headers, super::JSON)
}

/// Checks a route whose responses are of one media type only.
pub(crate) fn check_only(headers: &HeaderMap, media_type: &str) -> Result<(), Status> {
    if is_accepted(&text(headers, ACCEPT), &[media_type]) {
        return Ok(());
    }
    Err(refusal(406, format!("406: Not Acceptable\n\nAvailable representations: {media_type}")))
}

fn produced(produces: Produces, negotiator: Negotiator) -> Vec<&'static str> {
    match produces {
        Produces::Objects => negotiator.media_types().collect(),
        Produces::ObjectsAndStreams => {
            negotiator.media_types().chain(negotiator.stream_media_types()).collect()
        }
        Produces::TextAndObjects => std::iter::once("text/plain").chain(negotiator.media_types()).collect(),
        Produces::Anything => vec!["*/*"],
    }
}

fn is_accepted(accept: &str, available: &[&str]) -> bool {
    accept.is_empty()
        || bare(accept).any(|ty| ty == "*/*" || available.iter().any(|known| *known == "*/*" || *known == ty))
}

/// Whether a PATCH with this content type is one of the known kinds; no type at all is none of them.
fn is_consumed(content_type: &str, negotiator: Negotiator) -> bool {
    bare(content_type).any(|ty| negotiator.patch_types().map(PatchType::media_type).any(|known| known == ty))
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

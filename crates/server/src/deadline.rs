//! The query parameter `timeout`, which every request may have that is not long-running.

use std::sync::LazyLock;
use std::time::Duration;

use crate::api::path::{Path, Verb, decode};
use crate::handler::{Handler, Layer};
use crate::{Error, Query, Request, Response, Status};
use kinds::Verb as KindVerb;

/// The names of long-running subresources. The reference goes by their names too, before it knows whether the resource exists.
static SUBRESOURCES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let all = kinds::all().flat_map(|kind| kind.subresources);
    all.filter(|subresource| subresource.traffic.is_long_running())
        .map(|subresource| subresource.name)
        .collect()
});

/// Refuses a `timeout` that is not a duration, whatever the path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeoutIsDuration;

impl Layer for TimeoutIsDuration {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        match requested(request.query()) {
            Err(status) if has_deadline(&request) => Ok(crate::api::refusal(&request, &status)),
            _ => next.handle(request).await,
        }
    }
}

/// The timeout that a request asks for, if it does. One that is not positive is none.
pub(crate) fn requested(query: Query<'_>) -> Result<Option<Duration>, Status> {
    let Some(text) = query.values("timeout").next().filter(|text| !text.is_empty()) else { return Ok(None) };
    let duration: object::duration::Duration = text.parse().map_err(|error: object::duration::Error| {
        Status::bad_request(format!("invalid timeout specified in the request URL - {error}"))
    })?;
    Ok(u64::try_from(duration.as_nanos()).ok().filter(|nanos| *nanos > 0).map(Duration::from_nanos))
}

/// Whether a request for a resource is a stream or a conversation, without a deadline.
pub(crate) fn is_long_running(verb: Verb, subresource: &str) -> bool {
    matches!(verb, Verb::Proxy | Verb::Kind(KindVerb::Watch)) || SUBRESOURCES.contains(&subresource)
}

fn has_deadline(request: &Request) -> bool {
    // A path that cannot be decoded is refused as such.
    let Some(path) = decode(request.path()) else { return false };
    match Path::parse(&path) {
        Path::Resource(resource) => {
            let asked = resource.asked(request.method(), request.query());
            !is_long_running(asked.verb, resource.subresource)
        }
        Path::Incomplete => false,
        Path::NonResource(path) => !path.starts_with("/debug/pprof/"),
    }
}

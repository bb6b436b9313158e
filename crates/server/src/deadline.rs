//! The query parameter `timeout` of requests that are not long-running, and the deadline that follows.

use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;
use std::time::Duration;

use crate::handler::{Handler, Layer};
use crate::layers::Audit;
use crate::request_info::{IncompletePath, RequestInfo, Verb};
use crate::{Error, Query, Request, Response, Status};
use kinds::Verb as KindVerb;
use tokio::time::{Instant, timeout_at};

/// The names of long-running subresources. The reference also goes by the name alone, before it
/// knows whether the resource exists.
static SUBRESOURCES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let all = kinds::all().flat_map(|kind| kind.subresources);
    all.filter(|subresource| subresource.traffic.is_long_running())
        .map(|subresource| subresource.name)
        .collect()
});

/// Refuses a `timeout` that is not a duration, on every path but those of long-running requests.
#[derive(Debug, Clone)]
pub(crate) struct TimeoutIsDuration(pub(crate) Option<Audit>);

impl Layer for TimeoutIsDuration {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        match &request.context.timeout {
            Err(status) if has_deadline(&request) => {
                if let Some(audit) = &self.0 {
                    audit.refused(&request, status).await;
                }
                Err(Error::Status(status.clone()))
            }
            _ => next.handle(request).await,
        }
    }
}

/// The timeout that a request asks for. A timeout that is not positive counts as none.
pub(crate) fn requested(query: Query<'_>) -> Result<Option<Duration>, Status> {
    let Some(text) = query.values("timeout").next().filter(|text| !text.is_empty()) else { return Ok(None) };
    let duration: object::duration::Duration = text.parse().map_err(|error: object::duration::Error| {
        Status::bad_request(format!("invalid timeout specified in the request URL - {error}"))
    })?;
    Ok(u64::try_from(duration.as_nanos()).ok().filter(|nanos| *nanos > 0).map(Duration::from_nanos))
}

/// Whether a request is long-running, as the reference defines it: it has no deadline.
pub(crate) fn is_long_running(info: &RequestInfo<'_>) -> bool {
    if !info.is_resource_request {
        return info.path.starts_with("/debug/pprof/");
    }
    matches!(info.verb, Verb::Proxy | Verb::Resource(KindVerb::Watch))
        || SUBRESOURCES.contains(&info.subresource)
}

/// Does a part of a request with this deadline. At the deadline the request ends with [`Error::TimedOut`],
/// also if the part fails then because its own waits end at the deadline. What was done is not undone.
///
/// The part is pinned by the caller: moved in here, it would be twice in the future of each request.
pub(crate) async fn enforce<T>(
    deadline: Option<Instant>,
    part: Pin<&mut impl Future<Output = Result<T, Error>>>,
) -> Result<T, Error> {
    let Some(deadline) = deadline else { return part.await };
    match timeout_at(deadline, part).await {
        Ok(Err(_)) if deadline <= Instant::now() => Err(Error::TimedOut),
        Ok(outcome) => outcome,
        Err(_) => Err(Error::TimedOut),
    }
}

fn has_deadline(request: &Request) -> bool {
    // The API refuses a path that cannot be decoded.
    let Some(path) = &request.context.path else { return false };
    match RequestInfo::parse(request.method(), path, request.query()) {
        Ok(info) => !is_long_running(&info),
        Err(IncompletePath) => false,
    }
}

//! The trace that a request to another server belongs to.

use std::future::Future;

use http::{HeaderName, HeaderValue};

tokio::task_local! {
    static HEADERS: Vec<(HeaderName, HeaderValue)>;
}

/// Runs `exchange`; requests that it sends have these headers too: those by which servers know that requests
/// belong together. A header that is not valid is left out.
pub async fn within_trace<T>(headers: Vec<(&'static str, String)>, exchange: impl Future<Output = T>) -> T {
    if headers.is_empty() {
        return exchange.await;
    }
    let headers = headers.into_iter().filter_map(|(name, value)| {
        Some((HeaderName::from_static(name), HeaderValue::try_from(value).ok()?))
    });
    HEADERS.scope(headers.collect(), exchange).await
}

/// Adds the headers of the trace that the caller works in.
pub(crate) fn add(request: http::request::Builder) -> http::request::Builder {
    let headers = HEADERS.try_with(Clone::clone).unwrap_or_default();
    headers.into_iter().fold(request, |request, (name, value)| request.header(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_within_a_trace_have_its_headers() {
        let sent = || add(http::Request::get("/")).body(()).unwrap();
        assert!(sent().headers().is_empty());
        let headers = vec![("traceparent", "00-a-b-01".to_owned()), ("baggage", "bad\n".to_owned())];
        let request = within_trace(headers, async { sent() }).await;
        assert_eq!(request.headers()["traceparent"], "00-a-b-01");
        assert_eq!(request.headers().len(), 1);
    }
}

//! Headers for browsers: which pages of other origins may use the API (CORS), and that it is to be used over
//! HTTPS only (HSTS).

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ORIGIN, STRICT_TRANSPORT_SECURITY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use pattern::Pattern;

use crate::handler::{Handler, Layer};
use crate::{Error, Request, Response};

/// The headers of every response to an allowed origin, but for the origin itself.
const ANSWERED: [(http::HeaderName, &str); 4] = [
    (ACCESS_CONTROL_ALLOW_METHODS, "POST, GET, OPTIONS, PUT, DELETE, PATCH"),
    (
        ACCESS_CONTROL_ALLOW_HEADERS,
        "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
    ),
    (ACCESS_CONTROL_EXPOSE_HEADERS, "Date"),
    (ACCESS_CONTROL_ALLOW_CREDENTIALS, "true"),
];

/// Tells browsers that pages of some origins may use the API, and answers their preflight requests. A request
/// of another origin, or of none, is served without these headers.
#[derive(Debug, Clone)]
pub struct Cors(Vec<Pattern>);

impl Cors {
    /// The origins of `--cors-allowed-origins`, as regular expressions that fix the start and the end of the
    /// host. The error is that of the reference, without its advice.
    pub fn new(origins: &[String]) -> Result<Self, String> {
        let compile = |origin: &String| {
            if origin.is_empty() {
                return Err("empty value in --cors-allowed-origins".to_owned());
            }
            let pattern = Pattern::new(origin);
            let is_pinned = |ways: [&str; 2]| ways.iter().any(|way| origin.contains(way));
            let pinned = match is_pinned(["^", "//"]) && is_pinned(["$", ":"]) {
                true => Ok(()),
                false => Err("regular expression does not pin to start/end of host in the origin header"),
            };
            let invalid =
                |why: String| format!("--cors-allowed-origins has an invalid regular expression: {why}");
            let pattern = pattern.map_err(invalid)?;
            pinned.map_err(|why| invalid(why.to_owned())).map(|()| pattern)
        };
        let compiled: Vec<_> = origins.iter().map(compile).collect();
        aggregate(compiled).map(Self)
    }

    fn allows(&self, origin: &HeaderValue) -> bool {
        let origin = String::from_utf8_lossy(origin.as_bytes());
        self.0.iter().any(|pattern| pattern.is_match(&origin))
    }
}

impl Layer for Option<Cors> {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let is_allowed = |origin: &&HeaderValue| {
            !origin.is_empty() && self.as_ref().is_some_and(|cors| cors.allows(origin))
        };
        let origin = request.headers().get(ORIGIN).filter(is_allowed).cloned();
        if origin.is_some() && *request.method() == Method::OPTIONS {
            let mut preflight = Response::default();
            *preflight.status_mut() = StatusCode::NO_CONTENT;
            return Ok(answered(preflight, origin));
        }
        let format = request.context.error_format;
        let outcome = next.handle(request).await;
        match origin.is_some() {
            true => Ok(answered(outcome.unwrap_or_else(|error| error.into_response(format)), origin)),
            false => outcome,
        }
    }
}

/// Adds the headers for an allowed origin.
fn answered(mut response: Response, origin: Option<HeaderValue>) -> Response {
    let headers = response.headers_mut();
    headers.extend(origin.map(|origin| (ACCESS_CONTROL_ALLOW_ORIGIN, origin)));
    headers.extend(ANSWERED.map(|(name, value)| (name, HeaderValue::from_static(value))));
    response
}

/// The value of `Strict-Transport-Security`, which every response has.
#[derive(Debug, Clone)]
pub struct TransportSecurity(HeaderValue);

impl TransportSecurity {
    /// The directives of `--strict-transport-security-directives`. The error is that of the reference.
    pub fn new(directives: &[String]) -> Result<Self, String> {
        let check = |directive: &String| {
            if directive.trim().is_empty() {
                return Err("empty value in strict-transport-security-directives".to_owned());
            }
            let is_age = || {
                let mut parts = directive.split('=');
                parts.next() == Some("max-age") && parts.count() == 1
            };
            match directive == "includeSubDomains" || directive == "preload" || is_age() {
                true => Ok(()),
                false => Err(
                    "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, \
                     preload. see https://tools.ietf.org/html/rfc6797#section-6.1 for more information"
                        .to_owned(),
                ),
            }
        };
        aggregate(directives.iter().map(check).collect())?;
        let value = HeaderValue::try_from(directives.join("; "));
        value
            .map(Self)
            .map_err(|_| "--strict-transport-security-directives cannot be part of a header".to_owned())
    }

    /// Sets the header, unless it is there.
    pub(super) fn set(&self, headers: &mut HeaderMap) {
        headers.entry(STRICT_TRANSPORT_SECURITY).or_insert_with(|| self.0.clone());
    }
}

/// All values, or all errors in one text, each once, as the reference joins them.
fn aggregate<T>(outcomes: Vec<Result<T, String>>) -> Result<Vec<T>, String> {
    let mut values = Vec::new();
    let mut errors: Vec<String> = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(value) => values.push(value),
            Err(error) if errors.contains(&error) => {}
            Err(error) => errors.push(error),
        }
    }
    match errors.as_slice() {
        [] => Ok(values),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn origins_fix_the_start_and_the_end_of_the_host() {
        let error = |texts: &[&str]| Cors::new(&words(texts)).unwrap_err();
        let unpinned = "--cors-allowed-origins has an invalid regular expression: regular expression does not pin to \
                        start/end of host in the origin header";
        assert_eq!(error(&["example.com"]), unpinned);
        assert_eq!(error(&["^example.com", "x$"]), unpinned, "each error once");
        assert_eq!(
            error(&["a(", ""]),
            "[--cors-allowed-origins has an invalid regular expression: error parsing regexp: missing closing ): `a(`, \
             empty value in --cors-allowed-origins]"
        );
        let cors = Cors::new(&words(&[r"//example\.com(:|$)", "^http://localhost$"])).unwrap();
        for (origin, allowed) in [
            ("https://example.com", true),
            ("https://example.com:8443", true),
            ("https://example.com.evil.org", false),
            ("http://localhost", true),
            ("http://localhost:1", false),
        ] {
            assert_eq!(cors.allows(&HeaderValue::from_static(origin)), allowed, "{origin}");
        }
    }

    #[test]
    fn directives_are_those_of_the_standard() {
        let security = |texts: &[&str]| TransportSecurity::new(&words(texts));
        let value = security(&["max-age=31536000", "includeSubDomains", "preload"]).unwrap().0;
        assert_eq!(value, "max-age=31536000; includeSubDomains; preload");
        for wrong in ["maxage=1", "max-age", "max-age=1=2", "Preload"] {
            assert!(
                security(&[wrong]).unwrap_err().contains("allowed values: max-age=expireTime"),
                "{wrong}"
            );
        }
        assert_eq!(
            security(&["preload", " "]).unwrap_err(),
            "empty value in strict-transport-security-directives"
        );
    }
}

//! The endpoints by which people look into a running server: profiles, flags, the state of the process, log
//! files.
//!
//! They are answered only to users who may get these paths, as in the reference, and at the Unix socket of
//! `--debug-socket-path`, whose file has the permissions of its owner.

mod accept;
mod flags;
mod logs;
mod profile;
mod socket;
mod status;

use std::sync::Arc;

use auth::Authorizer;
use http::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use http::{Method, StatusCode};
use object::time::Time;

use crate::error::plain_text;
use crate::handler::{Handler, Layer};
use crate::layers::permit;
use crate::{Body, Error, Request, Response};

pub use socket::serve;

/// Which endpoints there are.
#[derive(Debug, Clone, Default)]
pub struct DebugEndpoints {
    /// `/debug/pprof/` and `/debug/flags/v`: `--profiling`.
    pub profiling: bool,
    /// `/flagz`: all flags with their values.
    pub flags: Option<Arc<[(&'static str, String)]>>,
    /// `/statusz`.
    pub status: Option<ProcessStatus>,
    /// `/logs`: `--enable-logs-handler`.
    pub logs: bool,
}

/// What `/statusz` says beside the time.
#[derive(Debug, Clone)]
pub struct ProcessStatus {
    /// When the process was started.
    pub started: Time,
    /// The version of the API.
    pub binary_version: String,
    /// The version that is emulated.
    pub emulation_version: String,
}

impl DebugEndpoints {
    /// The paths that the list at `/` has.
    pub fn listed(&self) -> Vec<&'static str> {
        let all =
            [("/flagz", self.flags.is_some()), ("/logs", self.logs), ("/statusz", self.status.is_some())];
        all.into_iter().filter(|(_, is_there)| *is_there).map(|(path, _)| path).collect()
    }

    fn find<'p>(&self, path: &'p str) -> Option<Endpoint<'p>> {
        if let Some(rest) = path.strip_prefix("/debug/").filter(|_| self.profiling) {
            return Endpoint::debugging(rest);
        }
        match path {
            "/flagz" if self.flags.is_some() => Some(Endpoint::Flags),
            "/statusz" if self.status.is_some() => Some(Endpoint::Status),
            _ if self.logs && path.starts_with("/logs") => match path.get("/logs".len()..) {
                Some("") => Some(Endpoint::Redirect("logs/", StatusCode::MOVED_PERMANENTLY)),
                Some(rest) => rest.strip_prefix('/').map(Endpoint::Log),
                None => None,
            },
            _ => None,
        }
    }

    async fn answer(&self, endpoint: Endpoint<'_>, request: &mut Request) -> Result<Response, Error> {
        Ok(match endpoint {
            Endpoint::Redirect(to, status) => redirect(to, status),
            Endpoint::Profile(name) => profile::answer(name, request).await?,
            Endpoint::Verbosity => flags::set_verbosity(request).await?,
            Endpoint::ChangeableFlags => flags::index(),
            Endpoint::Flags => flags::all(request, self.flags.as_deref().unwrap_or_default()),
            Endpoint::Status => status::answer(request, self.status.as_ref()),
            Endpoint::Log(path) => logs::answer(path, request).await?,
        })
    }
}

/// One of the endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endpoint<'p> {
    Redirect(&'static str, StatusCode),
    /// The name of a profile; empty for the page that lists them.
    Profile(&'p str),
    Verbosity,
    ChangeableFlags,
    Flags,
    Status,
    /// The path of a file below the folder of logs.
    Log(&'p str),
}

impl<'p> Endpoint<'p> {
    /// The endpoint of a path below `/debug/`.
    fn debugging(path: &'p str) -> Option<Self> {
        match path {
            "pprof" => Some(Self::Redirect("/debug/pprof/", StatusCode::FOUND)),
            "flags/v" => Some(Self::Verbosity),
            "flags" => Some(Self::ChangeableFlags),
            _ if path.starts_with("flags/") => Some(Self::ChangeableFlags),
            _ => path.strip_prefix("pprof/").map(Self::Profile),
        }
    }
}

/// Answers the requests for these endpoints.
#[derive(Debug, Clone)]
pub(crate) struct Debug {
    pub(crate) endpoints: DebugEndpoints,
    pub(crate) authorizer: Authorizer,
}

impl Layer for Debug {
    async fn around<H: Handler>(&self, mut request: Request, next: &H) -> Result<Response, Error> {
        let path = request.head.uri.clone();
        let Some(endpoint) = self.endpoints.find(path.path()) else { return next.handle(request).await };
        permit(&self.authorizer, &request).await?;
        self.endpoints.answer(endpoint, &mut request).await
    }
}

fn redirect(to: &'static str, status: StatusCode) -> Response {
    let mut response = match status {
        StatusCode::FOUND => html(format!("<a href=\"{to}\">Found</a>.\n\n")),
        _ => Response::new(Body::Empty),
    };
    *response.status_mut() = status;
    response.headers_mut().insert(LOCATION, HeaderValue::from_static(to));
    response
}

fn html(text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response
}

/// Text without `X-Content-Type-Options`.
fn text(text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// The first value of a query parameter, as Go's `FormValue`.
fn parameter(request: &Request, name: &str) -> String {
    request.query().values(name).next().map(std::borrow::Cow::into_owned).unwrap_or_default()
}

fn not_found() -> Response {
    plain_text(StatusCode::NOT_FOUND, "404 page not found\n")
}

fn is_read(request: &Request) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_there_by_their_flags() {
        let none = DebugEndpoints::default();
        for path in ["/debug/pprof/", "/debug/flags/v", "/flagz", "/statusz", "/logs/"] {
            assert_eq!(none.find(path), None, "{path}");
        }
        assert!(none.listed().is_empty());
        let status = ProcessStatus {
            started: Time::now(),
            binary_version: String::new(),
            emulation_version: String::new(),
        };
        let all =
            DebugEndpoints { profiling: true, flags: Some(Arc::default()), status: Some(status), logs: true };
        for (path, endpoint) in [
            ("/debug/pprof", Endpoint::Redirect("/debug/pprof/", StatusCode::FOUND)),
            ("/debug/pprof/", Endpoint::Profile("")),
            ("/debug/pprof/heap", Endpoint::Profile("heap")),
            ("/debug/flags", Endpoint::ChangeableFlags),
            ("/debug/flags/x", Endpoint::ChangeableFlags),
            ("/debug/flags/v", Endpoint::Verbosity),
            ("/flagz", Endpoint::Flags),
            ("/statusz", Endpoint::Status),
            ("/logs", Endpoint::Redirect("logs/", StatusCode::MOVED_PERMANENTLY)),
            ("/logs/a/b", Endpoint::Log("a/b")),
        ] {
            assert_eq!(all.find(path), Some(endpoint), "{path}");
        }
        for path in ["/debug", "/debug/", "/flagz/", "/statusz/", "/logsx"] {
            assert_eq!(all.find(path), None, "{path}");
        }
        assert_eq!(all.listed(), ["/flagz", "/logs", "/statusz"]);
    }
}

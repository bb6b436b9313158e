//! `/debug/pprof/`: profiles that `go tool pprof` reads.
//!
//! | name | what it is here |
//! |---|---|
//! | `profile` | the stacks that use CPU time, for as many seconds as asked for |
//! | `heap`, `allocs` | samples of the memory that is in use, or that was allocated |
//! | `goroutine`, `threadcreate` | the threads of the process, by their names |
//! | `block`, `mutex` | nothing: Rust keeps no record of contended locks |
//! | `trace` | 501: there is no counterpart of Go's execution traces |
//! | `symbol` | the names of functions at addresses |

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Method, StatusCode};
use profiles::{MemoryView, Unencoded};
use sampling::cpu::Recording;
use tokio::time::{Instant, sleep};

use super::{html, parameter};
use crate::error::plain_text;
use crate::sending::SendBy;
use crate::{Body, Error, Request, Response, body};

/// The profiles, and what the page says of them.
const PROFILES: [(&str, &str); 10] = [
    ("allocs", "A sampling of all past memory allocations"),
    ("block", "Nothing: waits for locks are not recorded"),
    ("cmdline", "The command line of this program, at the socket of --debug-socket-path"),
    ("goroutine", "The threads of this process"),
    ("heap", "A sampling of memory allocations of live objects"),
    ("mutex", "Nothing: contended locks are not recorded"),
    ("profile", "CPU profile. The query parameter seconds says how long it takes. go tool pprof shows it."),
    (
        "symbol",
        "The names of functions at the addresses of the query or the body of a POST, with + between them",
    ),
    ("threadcreate", "The threads of this process"),
    ("trace", "Not there: it is a trace of the runtime of Go"),
];
/// How long a CPU profile takes if nothing is asked for.
const DEFAULT_SECONDS: u64 = 30;
/// The time that a client has to take a profile.
const SENDING: Duration = Duration::from_secs(60);
/// The longest profile.
const MOST_SECONDS: u64 = 600;

pub(super) async fn answer(name: &str, request: &mut Request) -> Result<Response, Error> {
    Ok(match name {
        "" => nosniff(index()),
        "profile" => cpu(request).await?,
        "heap" => memory(request, name, MemoryView::InUse).await?,
        "allocs" => memory(request, name, MemoryView::Allocated).await?,
        "goroutine" | "threadcreate" => {
            shown(request, name, || profiles::counts(&[("threads", "count")], profiles::threads())).await?
        }
        "block" | "mutex" => {
            const TYPES: &[(&str, &str)] = &[("contentions", "count"), ("delay", "nanoseconds")];
            shown(request, name, || profiles::counts(TYPES, HashMap::new())).await?
        }
        "symbol" => symbols(request).await?,
        "trace" => {
            refused(StatusCode::NOT_IMPLEMENTED, "there is no runtime of Go whose execution could be traced")
        }
        _ => refused(StatusCode::NOT_FOUND, "Unknown profile"),
    })
}

/// The command line, for the socket.
pub(super) fn command_line() -> Response {
    let arguments: Vec<String> = std::env::args().collect();
    nosniff(super::text(arguments.join("\0")))
}

fn index() -> Response {
    let mut out = String::from(
        "<html>\n<head>\n<title>/debug/pprof/</title>\n</head>\n<body>\n/debug/pprof/\n<br>\n\
         <p>Set debug=1 as a query parameter to export in text format</p>\n<ul>\n",
    );
    for (name, about) in PROFILES {
        let _ = writeln!(out, "<li><a href='{name}?debug=1'>{name}</a>: {about}</li>");
    }
    out.push_str("</ul>\n</body>\n</html>\n");
    html(out)
}

async fn cpu(request: &Request) -> Result<Response, Error> {
    let seconds = match parameter(request, "seconds").parse() {
        Ok(seconds) if seconds > 0 => seconds,
        _ => DEFAULT_SECONDS,
    };
    let mut recording = match Recording::begin() {
        Ok(recording) => recording,
        Err(error) => {
            let why = format!("Could not enable CPU profiling: {error}");
            return Ok(refused(StatusCode::INTERNAL_SERVER_ERROR, &why));
        }
    };
    let end = Instant::now() + Duration::from_secs(seconds.min(MOST_SECONDS));
    while let rest = end.saturating_duration_since(Instant::now())
        && !rest.is_zero()
    {
        sleep(rest.min(Recording::COLLECT_EVERY)).await;
        recording.collect();
    }
    let recorded = recording.end();
    if recorded.lost > 0 {
        log::warn!(samples = recorded.lost; "samples of a CPU profile were lost");
    }
    let bytes = blocking(|| profiles::cpu(recorded).encode()).await?;
    Ok(attachment("profile", bytes))
}

async fn memory(request: &Request, name: &str, view: MemoryView) -> Result<Response, Error> {
    let seconds = parameter(request, "seconds");
    if seconds.is_empty() {
        return shown(request, name, move || profiles::memory(view)).await;
    }
    let seconds = match seconds.parse::<u64>() {
        Ok(seconds) if seconds > 0 => seconds.min(MOST_SECONDS),
        _ => {
            let why = "invalid value for \"seconds\" - must be a positive integer";
            return Ok(refused(StatusCode::BAD_REQUEST, why));
        }
    };
    let before = profiles::memory_now();
    sleep(Duration::from_secs(seconds)).await;
    shown(request, name, move || profiles::memory_since(view, before)).await
}

/// A profile, as text if the query says so.
async fn shown(
    request: &Request,
    name: &str,
    profile: impl FnOnce() -> Unencoded + Send + 'static,
) -> Result<Response, Error> {
    let as_text = parameter(request, "debug").parse::<i64>().is_ok_and(|level| level != 0);
    if as_text {
        let owned = name.to_owned();
        let text = blocking(move || profile().to_text(&owned)).await?;
        return Ok(nosniff(super::text(text)));
    }
    Ok(attachment(name, blocking(|| profile().encode()).await?))
}

/// The functions at the addresses of the query, or of the body of a POST.
async fn symbols(request: &mut Request) -> Result<Response, Error> {
    let asked = match *request.method() {
        Method::POST => {
            let bytes = body::read(&mut request.body, body::Limit::OBJECT).await?;
            String::from_utf8_lossy(&bytes).into_owned()
        }
        _ => request.uri().query().unwrap_or_default().to_owned(),
    };
    let said = blocking(move || {
        let mut out = String::from("num_symbols: 1\n");
        for word in asked.split('+').take(MOST_SYMBOLS) {
            let digits = word.trim().trim_start_matches("0x");
            let Ok(address) = usize::from_str_radix(digits, 16) else { continue };
            if let Some(name) = profiles::function_at(address) {
                let _ = writeln!(out, "{address:#x} {name}");
            }
        }
        out
    });
    Ok(nosniff(super::text(said.await?)))
}

/// The most addresses in one request for names.
const MOST_SYMBOLS: usize = 10_000;

/// Looking up names takes a while.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Panicked)
}

fn attachment(name: &str, bytes: Vec<u8>) -> Response {
    let mut response = nosniff(Response::new(Body::Whole(bytes.into())));
    // The time for sending begins when the profile is there, however long it took.
    response.extensions_mut().insert(SendBy::request(Instant::now(), SENDING));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    if let Ok(disposition) = HeaderValue::try_from(format!("attachment; filename=\"{name}\"")) {
        headers.insert(CONTENT_DISPOSITION, disposition);
    }
    response
}

/// An error, with the header by which `go tool pprof` knows it.
fn refused(status: StatusCode, why: &str) -> Response {
    let mut response = plain_text(status, format!("{why}\n"));
    response.headers_mut().insert(HeaderName::from_static("x-go-pprof"), HeaderValue::from_static("1"));
    response
}

fn nosniff(mut response: Response) -> Response {
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

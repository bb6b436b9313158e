//! `/flagz`, and the flags that can be changed while the server runs: `/debug/flags/v`.

use std::fmt::Write as _;

use http::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Method, StatusCode};
use object::quote::quote;

use super::{accept, html, text};
use crate::{Body, Error, Request, Response, body};

/// The heading of `/flagz` and `/statusz`: as in the reference, whose name of the component is in it.
pub(super) fn heading(of: &str) -> String {
    format!(
        "\nkube-apiserver {of}\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
         guarantees and is for debugging purposes only.\n"
    )
}

/// All flags, sorted by their names.
pub(super) fn all(request: &Request, flags: &[(&'static str, String)]) -> Response {
    if let Some(refused) = accept::refusal(request) {
        return refused;
    }
    let mut out = heading("flags");
    out.push('\n');
    for (name, value) in flags {
        let _ = writeln!(out, "{name}={value}");
    }
    text(out)
}

/// The page of the flags that can be changed.
pub(super) fn index() -> Response {
    html(
        "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\nflags:<br>\n<table>\n\n<tr>v<br>\n\n\
         </table>\n<br>\nfull flags configurable<br>\n</body>\n</html>\n"
            .into(),
    )
}

/// Changes the verbosity of the log to the number in the body.
pub(super) async fn set_verbosity(request: &mut Request) -> Result<Response, Error> {
    if *request.method() != Method::PUT {
        return Ok(plain(StatusCode::NOT_ACCEPTABLE, "unsupported http method"));
    }
    let given = body::read(&mut request.body, body::Limit::OBJECT).await?;
    let given = String::from_utf8_lossy(&given);
    Ok(match verbosity(&given) {
        Ok(verbosity) => {
            logging::set_verbosity(verbosity);
            log::info!(verbosity; "the verbosity of the log was changed");
            plain(StatusCode::OK, &format!("successfully set klog.logging.verbosity to {given}"))
        }
        Err(why) => plain(StatusCode::BAD_REQUEST, &why),
    })
}

/// Parses a verbosity, with the errors of the reference.
fn verbosity(text: &str) -> Result<u32, String> {
    let quoted = quote(object::excerpt::shorten(text).as_ref());
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("strconv.ParseUint: parsing {quoted}: invalid syntax"));
    }
    let verbosity: u32 =
        text.parse().map_err(|_| format!("strconv.ParseUint: parsing {quoted}: value out of range"))?;
    match i32::try_from(verbosity) {
        Ok(_) => Ok(verbosity),
        Err(_) => Err(format!(
            "failed set klog.logging.verbosity {text}: strconv.ParseInt: parsing {quoted}: value out of range"
        )),
    }
}

fn plain(status: StatusCode, text: &str) -> Response {
    let mut response = Response::new(Body::from(format!("{text}\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbosity_is_a_number_with_the_errors_of_the_reference() {
        assert_eq!(verbosity("4"), Ok(4));
        for (text, why) in [
            ("x", "strconv.ParseUint: parsing \"x\": invalid syntax"),
            ("", "strconv.ParseUint: parsing \"\": invalid syntax"),
            ("99999999999", "strconv.ParseUint: parsing \"99999999999\": value out of range"),
            (
                "4294967295",
                "failed set klog.logging.verbosity 4294967295: strconv.ParseInt: parsing \"4294967295\": value out of range",
            ),
        ] {
            assert_eq!(verbosity(text), Err(why.into()));
        }
    }
}

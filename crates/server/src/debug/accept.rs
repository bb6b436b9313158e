//! What `/flagz` and `/statusz` can be asked for: plain text in UTF-8, and nothing else.

use http::StatusCode;
use http::header::ACCEPT;

use crate::error::plain_text;
use crate::{Request, Response};

/// The 406 for a request that does not accept plain text; `None` for one that does.
pub(super) fn refusal(request: &Request) -> Option<Response> {
    let is_accepted = accepts_text(request.header(ACCEPT));
    let why = "media type not acceptable, must be: text/plain\n";
    (!is_accepted).then(|| plain_text(StatusCode::NOT_ACCEPTABLE, why))
}

/// Without the header, nothing is accepted.
fn accepts_text(accept: &str) -> bool {
    accept.split(',').any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let Some((kind, subkind)) = parts.next().and_then(|media| media.split_once('/')) else {
            return false;
        };
        // The quality is no parameter of the media type.
        let mut parameters = parts.filter(|parameter| !parameter.starts_with("q="));
        let is_utf8 = |parameter: &str| {
            let (name, value) = parameter.split_once('=').unwrap_or_default();
            name == "charset" && value.eq_ignore_ascii_case("utf-8")
        };
        matches!(kind, "text" | "*")
            && matches!(subkind, "plain" | "*")
            && parameters.next().is_none_or(is_utf8)
            && parameters.next().is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_in_utf8_is_accepted() {
        for accept in
            ["text/plain", "*/*", "text/*;q=0.5", "text/plain;charset=UTF-8", "application/json, text/plain"]
        {
            assert!(accepts_text(accept), "{accept}");
        }
        for accept in
            ["", "application/json", "text/plain;charset=ascii", "text/plain;charset=utf-8;x=y", "text"]
        {
            assert!(!accepts_text(accept), "{accept}");
        }
    }
}

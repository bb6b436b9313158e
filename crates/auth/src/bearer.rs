//! The bearer token of a request: from its header `Authorization`, or from the protocols of a WebSocket.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{AUTHORIZATION, CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use std::borrow::Cow;

/// The start of a WebSocket protocol that is a token.
const PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// The bearer token of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Bearer<'a> {
    /// The request has no bearer token.
    None,
    /// The token.
    Token(Cow<'a, str>),
    /// A token that cannot be read.
    Malformed,
}

/// The bearer token of a request.
pub(crate) fn of(headers: &HeaderMap) -> Bearer<'_> {
    let written = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match parts(written) {
        Some((token, _)) if !token.is_empty() => Bearer::Token(Cow::Borrowed(token)),
        _ => of_protocols(headers),
    }
}

/// Removes the bearer token of a request.
pub(crate) fn remove(headers: &mut HeaderMap) {
    headers.remove(AUTHORIZATION);
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let protocols: Vec<&str> = values.flat_map(|value| value.split(',')).map(str::trim).collect();
    let is_token = |protocol: &&str| protocol.starts_with(PROTOCOL);
    if !protocols.iter().any(is_token) {
        return;
    }
    let others: Vec<&str> = protocols.into_iter().filter(|protocol| !is_token(protocol)).collect();
    match http::HeaderValue::try_from(others.join(",")) {
        Ok(others) if !others.is_empty() => drop(headers.insert(SEC_WEBSOCKET_PROTOCOL, others)),
        _ => drop(headers.remove(SEC_WEBSOCKET_PROTOCOL)),
    }
}

/// Whether the header `Authorization` has a second space before its token. Such a header has no token, and
/// the client is warned.
pub fn has_extra_space(headers: &HeaderMap) -> bool {
    let written = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    matches!(parts(written), Some(("", Some(_))))
}

/// The token of `Bearer <token>`, and the text after it. The case of the scheme does not count.
fn parts(written: &str) -> Option<(&str, Option<&str>)> {
    let mut parts = written.trim().splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    scheme.eq_ignore_ascii_case("bearer").then(|| (token, parts.next()))
}

/// The token among the protocols of a WebSocket. Another protocol is needed, for the server to answer with.
fn of_protocols(headers: &HeaderMap) -> Bearer<'_> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_upgrade = text(CONNECTION).to_ascii_lowercase().contains("upgrade");
    if !text(UPGRADE).eq_ignore_ascii_case("websocket") || !is_upgrade {
        return Bearer::None;
    }
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let protocols = values.flat_map(|value| value.split(',')).map(str::trim);
    let (tokens, others): (Vec<&str>, Vec<&str>) =
        protocols.partition(|protocol| protocol.starts_with(PROTOCOL));
    let [token] = tokens.as_slice() else {
        return if tokens.is_empty() { Bearer::None } else { Bearer::Malformed };
    };
    let encoded = token.strip_prefix(PROTOCOL).unwrap_or_default();
    let decoded = URL_SAFE_NO_PAD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    match decoded {
        Some(token) if token.is_empty() => Bearer::None,
        Some(token) if !others.is_empty() => Bearer::Token(Cow::Owned(token)),
        _ => Bearer::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(written: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in written {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn scheme_is_read_in_any_case_and_text_after_the_token_is_ignored() {
        for good in ["Bearer s3cret", "bearer s3cret", "  BEARER s3cret and more"] {
            assert_eq!(of(&headers(&[("authorization", good)])), Bearer::Token("s3cret".into()), "{good}");
        }
        for bad in ["Bearer", "Bearer ", "Bearer  s3cret", "Basic s3cret", "s3cret", ""] {
            assert_eq!(of(&headers(&[("authorization", bad)])), Bearer::None, "{bad:?}");
        }
        assert!(has_extra_space(&headers(&[("authorization", "Bearer  s3cret")])));
        assert!(!has_extra_space(&headers(&[("authorization", "Bearer ")])));
    }

    #[test]
    fn websocket_protocol_with_a_token_needs_another_protocol() {
        let upgrade = [("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket")];
        let with =
            |protocols: &str| headers(&[upgrade[0], upgrade[1], ("sec-websocket-protocol", protocols)]);
        let token = format!("{PROTOCOL}czNjcmV0");
        assert_eq!(of(&with(&format!("v5.channel.k8s.io, {token}"))), Bearer::Token("s3cret".into()));
        assert_eq!(of(&with(&token)), Bearer::Malformed);
        assert_eq!(of(&with(&format!("a,{token},{token}"))), Bearer::Malformed);
        assert_eq!(of(&with(&format!("a,{PROTOCOL}***"))), Bearer::Malformed);
        assert_eq!(of(&with("v5.channel.k8s.io")), Bearer::None);
        assert_eq!(of(&headers(&[("sec-websocket-protocol", &format!("a,{token}"))])), Bearer::None);
    }

    #[test]
    fn removed_token_leaves_the_other_protocols() {
        let token = format!("{PROTOCOL}czNjcmV0");
        let protocols = format!("{token}, v5.channel.k8s.io");
        let mut all = headers(&[("authorization", "Bearer s3cret"), ("sec-websocket-protocol", &protocols)]);
        remove(&mut all);
        assert_eq!(all, headers(&[("sec-websocket-protocol", "v5.channel.k8s.io")]));
    }
}

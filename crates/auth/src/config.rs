//! The configuration files of authentication and authorization.

pub mod authentication;
pub mod authorization;

use object::quote::quote;

/// Why a text is not a URL, with the message of Go.
pub fn url_fault(text: &str) -> Option<String> {
    let fault = |why: &str| Some(format!("parse {}: {why}", quote(text)));
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return fault("net/url: invalid control character in URL");
    }
    if text.starts_with(':') {
        return fault("missing protocol scheme");
    }
    let first = text.split(['/', '?', '#']).next().unwrap_or_default();
    let (scheme, _) = first.split_once(':')?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    if is_scheme { None } else { fault("first path segment in URL cannot contain colon") }
}

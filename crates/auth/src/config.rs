//! The configuration files of authentication and authorization.

pub mod authentication;
pub mod authorization;

use expressions::Fault;
use expressions::configuration::Expression;
use object::field::{Error, List, Path};
use object::quote::quote;

/// An expression that was compiled, unless something is wrong with it.
fn compiled(
    outcome: Result<Expression, Fault>,
    text: &str,
    path: &Path<'_>,
    errors: &mut List,
) -> Option<Expression> {
    outcome
        .map_err(|fault| match fault {
            Fault::Invalid(detail) => errors.push(Error::invalid(path, text, detail)),
            Fault::Internal(detail) => errors.push(Error::internal(path, detail)),
        })
        .ok()
}

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

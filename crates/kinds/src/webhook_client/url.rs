//! The rules for the address of a webhook.

use object::field::{Error, List, Path};
use object::url;

const FORM: &str = "; desired format: https://host[/path]";

/// The field errors of an address.
pub(super) fn validate(text: &str, path: &Path<'_>) -> List {
    let url = match url::parse(text) {
        Ok(url) => url,
        Err(why) => return Error::required(path, format!("url must be a valid URL: {why}{FORM}")).into(),
    };
    let mut errors = List::new();
    if url.scheme() != "https" {
        let why = format!("'https' is the only allowed URL scheme{FORM}");
        errors.push(Error::invalid(path, url.scheme(), why));
    }
    if url.host().is_empty() {
        errors.push(Error::invalid(path, "", format!("host must be specified{FORM}")));
    }
    if let Some(user) = url.user() {
        errors.push(Error::invalid(path, user.as_str(), "user information is not permitted in the URL"));
    }
    if !url.fragment().is_empty() {
        errors.push(Error::invalid(path, &*url.fragment(), "fragments are not permitted in the URL"));
    }
    if !url.raw_query().is_empty() {
        errors.push(Error::invalid(path, url.raw_query(), "query parameters are not permitted in the URL"));
    }
    errors
}

/// Whether a text is an address with a scheme and a host, as in the line of a request.
pub(super) fn has_scheme_and_host(text: &str) -> bool {
    url::parse_request(text).is_ok_and(|url| !url.scheme().is_empty() && !url.host().is_empty())
}

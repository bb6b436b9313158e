//! Rules about domain names whose messages name a part of the value.

use super::{Messages, dns1123_label, dns1123_subdomain, pattern};
use crate::field::{Error, List, Path};

const HTTP_PATH_MESSAGE: &str =
    r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";

/// A domain of at least three labels.
///
/// ```
/// use object::{field::Path, name::domain::fully_qualified_name};
/// assert!(fully_qualified_name(&Path::new("name"), "a.example.com").is_empty());
/// ```
pub fn fully_qualified_name(path: &Path<'_>, name: &str) -> List {
    let wrong = if name.is_empty() {
        Error::required(path, "")
    } else if let messages = dns1123_subdomain(name)
        && !messages.is_empty()
    {
        Error::invalid(path, name, messages.join(","))
    } else if name.split('.').count() < 3 {
        Error::invalid(path, name, "should be a domain with at least three segments separated by dots")
    } else {
        return List::new();
    };
    wrong.into()
}

/// A domain of at least two labels, which may end in a dot.
pub fn fully_qualified_domain_name(path: &Path<'_>, name: &str) -> List {
    if name.is_empty() {
        return Error::required(path, "").into();
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let messages = dns1123_subdomain(name);
    if !messages.is_empty() {
        return Error::invalid(path, name, messages.join(",")).into();
    }
    if name.split('.').count() < 2 {
        let detail = "should be a domain with at least two segments separated by dots";
        return Error::invalid(path, name, detail).into();
    }
    for label in name.split('.') {
        let messages = dns1123_label(label);
        if !messages.is_empty() {
            return Error::invalid(path, label, messages.join(",")).into();
        }
    }
    List::new()
}

/// A domain, a slash and a path, such as the names of controllers: `example.com/ingress`.
///
/// ```
/// use object::{field::Path, name::domain::domain_prefixed_path};
/// assert!(domain_prefixed_path(&Path::new("controller"), "example.com/a/b").is_empty());
/// ```
pub fn domain_prefixed_path(path: &Path<'_>, value: &str) -> List {
    if value.is_empty() {
        return Error::required(path, "").into();
    }
    let (host, rest) = match value.split_once('/') {
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => (host, rest),
        _ => {
            let detail = r#"must be a domain-prefixed path (such as "acme.io/foo")"#;
            return Error::invalid(path, value, detail).into();
        }
    };
    let mut errors = super::invalid(path, host, dns1123_subdomain(host));
    errors.append(super::invalid(path, rest, http_path(rest)));
    errors
}

/// The characters that the path of a URL may hold.
pub fn http_path(value: &str) -> Messages {
    super::matching(pattern::http_path(value.as_bytes()), HTTP_PATH_MESSAGE)
}

//! The rules for how a webhook is reached, which admission and conversion share.

mod url;

use crate::checks;
use object::field::{Error, List, Path};
use object::name::{dns1035_label, dns1123_subdomain, invalid, port_number};
use schema::view::Items;
use std::collections::HashSet;

/// The versions of reviews that the server speaks.
pub(crate) const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// The service that a webhook is behind.
#[derive(Clone, Copy)]
pub(crate) struct Service<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    pub path: Option<&'a str>,
    pub port: i64,
}

/// Whether the server has to speak one of the versions.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Recognized {
    Required,
    Optional,
}

/// The errors of an address or a service, of which there is one.
pub(crate) fn validate(address: Option<&str>, service: Option<Service<'_>>, path: &Path<'_>) -> List {
    match (address, service) {
        (Some(address), None) => url::validate(address, &path.child("url")),
        (None, Some(service)) => validate_service(service, &path.child("service")),
        _ => Error::required(path, "exactly one of url or service is required").into(),
    }
}

/// Whether a text is an address with a scheme and a host.
pub(crate) fn is_address(text: &str) -> bool {
    url::has_scheme_and_host(text)
}

fn validate_service(service: Service<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    // The reference takes the one for the other.
    if service.namespace.is_empty() {
        errors.push(Error::required(&path.child("name"), "service name is required"));
    }
    if service.name.is_empty() {
        errors.push(Error::required(&path.child("namespace"), "service namespace is required"));
    }
    let wrong = port_number(service.port);
    if !wrong.is_empty() {
        let why = format!("port is not valid: {}", wrong.join(", "));
        errors.push(Error::invalid(&path.child("port"), service.port, why));
    }
    if let Some(of_service) = service.path {
        errors.append(service_path(of_service, &path.child("path")));
    }
    errors
}

fn service_path(text: &str, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if matches!(text, "" | "/") {
        return errors;
    }
    if text == "//" {
        return Error::invalid(path, text, "segment[0] may not be empty").into();
    }
    if !text.starts_with('/') {
        errors.push(Error::invalid(path, text, "must start with a '/'"));
    }
    // The reference looks past the first byte, whatever it is.
    let mut rest = text.chars();
    rest.next();
    let rest = rest.as_str();
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    for (at, step) in rest.split('/').enumerate() {
        if step.is_empty() {
            errors.push_with(|| Error::invalid(path, text, format!("segment[{at}] may not be empty")));
            continue;
        }
        for why in dns1123_subdomain(step) {
            errors.push_with(|| Error::invalid(path, text, format!("segment[{at}]: {why}")));
        }
    }
    errors
}

/// Whether the server speaks one of the versions, or none is named.
pub(crate) fn recognizes_any(versions: Items<'_, &str>) -> bool {
    versions.is_empty() || versions.iter().any(|version| REVIEW_VERSIONS.contains(&version))
}

/// The errors of the versions of reviews that a webhook names.
pub(crate) fn review_versions(versions: Items<'_, &str>, recognized: Recognized, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut seen = HashSet::new();
    for (at, version) in versions.iter().enumerate() {
        if !seen.insert(version) {
            errors.push_with(|| Error::invalid(&path.index(at), version, "duplicate version"));
            continue;
        }
        errors.append(invalid(&path.index(at), version, dns1035_label(version)));
    }
    if recognized == Recognized::Required && !recognizes_any(versions) {
        let why = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(Error::invalid(path, checks::shown_texts("string", versions), why));
    }
    errors
}

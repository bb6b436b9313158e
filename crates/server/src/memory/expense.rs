//! Which requests are expensive, and how much memory each may take.
//!
//! A list takes little for each byte that it sends: chunks are encoded while they are sent. What it takes are
//! its chunks and buffers, pointers to its objects, and what a webhook converts for it. A write takes its
//! body, the tree of its object, and the encodings of that.

use http_body::Body as _;
use kinds::Verb as KindVerb;
use object::field_selector;
use registry::Registry;

use crate::Request;
use crate::request_info::{RequestInfo, Verb, is_true};

/// Lists of fewer bytes of objects are cheap.
const CHEAP_LIST: u64 = 1 << 20;
/// Writes with smaller bodies are cheap.
const CHEAP_BODY: u64 = 64 << 10;
/// What any expensive request takes: chunks, buffers of its connection, an object that is decoded.
const BASE: u64 = 1 << 20;
/// What a list takes for each of its objects: a pointer in each of the states of its encoding.
const OBJECT: u64 = 32;
/// The most that a list holds of what a webhook converts.
const MOST_CONVERTED: u64 = 64 << 20;
/// What a write takes for each byte of its body: the bytes, the tree, the tree before, their encodings.
const TREE: u64 = 8;
/// The most that a body may have.
const MOST_BODY: u64 = 3 << 20;
/// The OpenAPI v2 document of the built-in types: made as a whole, in JSON and in the asked form.
const DOCUMENT: u64 = 24 << 20;
/// What an OpenAPI document takes for each byte of the definitions in it, while it is made.
const DEFINITION: u64 = 8;

/// How many bytes an expensive request may take; `None` for one that is not expensive. Health, metrics, gets,
/// deletes of one object, small writes and leases are not.
pub(super) fn of(registry: &Registry, request: &Request, info: &RequestInfo<'_>) -> Option<u64> {
    match info.verb {
        Verb::Resource(KindVerb::List | KindVerb::DeleteCollection) => list(registry, request, info),
        Verb::Resource(KindVerb::Watch) if begins_with_objects(request) => list(registry, request, info),
        Verb::Resource(KindVerb::Create | KindVerb::Update | KindVerb::Patch) => write(request, info),
        Verb::NonResource("get") => document(registry, info.path),
        _ => None,
    }
}

/// Whether a watch begins with the objects that there are.
fn begins_with_objects(request: &Request) -> bool {
    let query = request.query();
    let first = |name| query.values(name).next();
    match first("sendInitialEvents") {
        Some(value) => is_true(&value),
        None => first("resourceVersion").is_none_or(|version| version.is_empty() || version == "0"),
    }
}

fn list(registry: &Registry, request: &Request, info: &RequestInfo<'_>) -> Option<u64> {
    // It is about one object.
    if !info.name.is_empty() {
        return None;
    }
    let catalog = registry.catalog();
    let served = catalog.find(info.api_group, info.api_version, info.resource)?;
    let resource = &served.stored.as_ref()?.resource;
    let (all, bytes) = resource.size();
    if bytes < CHEAP_LIST {
        return None;
    }
    let query = request.query();
    let mut filter = match info.namespace {
        Some(namespace) if !namespace.is_empty() => cache::Filter::namespace(namespace),
        _ => cache::Filter::all(),
    };
    let fields = query.values("fieldSelector").next();
    if let Some(Ok(selector)) = fields.map(|text| field_selector::Selector::parse(&text)) {
        filter = filter.fields(selector);
    }
    let mut objects = resource.looked_at(filter) as u64;
    if let Some(limit) = query.values("limit").next().and_then(|text| text.parse().ok()).filter(|n| *n > 0) {
        objects = objects.min(limit);
    }
    let bytes = part(bytes, objects, all as u64);
    if bytes < CHEAP_LIST {
        return None;
    }
    let converted = if served.read_waits() { bytes.min(MOST_CONVERTED) } else { 0 };
    Some(BASE + objects * OBJECT + converted)
}

/// The bytes of some of the objects.
fn part(bytes: u64, objects: u64, all: u64) -> u64 {
    let part = u128::from(bytes) * u128::from(objects) / u128::from(all.max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// An OpenAPI document: that of all types, or that of a group with custom kinds.
fn document(registry: &Registry, path: &str) -> Option<u64> {
    let group = match path {
        "/openapi/v2" => None,
        _ => Some(path.strip_prefix("/openapi/v3/apis/")?.split('/').next()?),
    };
    let catalog = registry.catalog();
    let custom = || catalog.served().filter(|served| served.is_custom());
    let all = custom().count() as u64;
    let definitions = catalog
        .find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        .and_then(|served| served.stored.as_ref())
        .map_or(0, |stored| stored.resource.size().1);
    let bytes = definitions.saturating_mul(DEFINITION);
    match group {
        None => Some(DOCUMENT.saturating_add(bytes)),
        Some(group) => {
            let own = custom().filter(|served| served.group == group).count() as u64;
            Some(part(bytes, own, all)).filter(|bytes| *bytes >= CHEAP_LIST)
        }
    }
}

fn write(request: &Request, info: &RequestInfo<'_>) -> Option<u64> {
    if info.resource == "leases" {
        return None;
    }
    let size = request.body.size_hint();
    match size.upper() {
        Some(bytes) if bytes <= CHEAP_BODY => None,
        Some(bytes) => Some(BASE + bytes.min(MOST_BODY) * TREE),
        // Its length is not known: it may be a whole body, and is seldom more than a small one.
        None => Some(MOST_BODY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_objects_has_its_part_of_the_bytes() {
        assert_eq!(part(1000, 5, 10), 500);
        assert_eq!(part(1000, 0, 0), 0);
        assert_eq!(part(u64::MAX, u64::MAX, u64::MAX), u64::MAX);
    }
}

//! How much work a request is expected to be, by what the cache knows of the objects that it is about.

use std::sync::Arc;

use flowcontrol::estimate::{self, Listed};
use flowcontrol::{Classified, Digest, Watches, WorkEstimate};
use kinds::Verb as KindVerb;
use registry::Registry;

use super::Waiting;
use crate::Request;
use crate::request_info::{RequestInfo, Verb, is_true};

/// The estimate for a request.
pub(super) fn estimate(
    registry: &Arc<Registry>,
    watches: &Watches,
    request: &Request,
    info: &RequestInfo<'_>,
    digest: &Digest<'_>,
    class: &Classified<Waiting>,
) -> WorkEstimate {
    match info.verb {
        Verb::Resource(KindVerb::List) => list(registry, request, info, class.most_seats()),
        Verb::Resource(KindVerb::Watch) => {
            let begins_with_all = request.query().values("sendInitialEvents").next();
            match begins_with_all.is_some_and(|value| is_true(&value)) {
                true => list(registry, request, info, class.most_seats()),
                false => WorkEstimate::LEAST,
            }
        }
        Verb::Resource(KindVerb::Create | KindVerb::Update | KindVerb::Patch | KindVerb::Delete) => {
            // A token is nothing that watches see.
            if info.resource == "serviceaccounts" && info.subresource == "token" {
                return WorkEstimate::LEAST;
            }
            let watches = watches.interested(digest);
            class.note_watches(watches);
            estimate::write(watches, class.most_seats())
        }
        _ => WorkEstimate::LEAST,
    }
}

/// The estimate for a list. Every list is read from memory, whatever its revision.
fn list(registry: &Arc<Registry>, request: &Request, info: &RequestInfo<'_>, most: u32) -> WorkEstimate {
    // It is a get of one object.
    if !info.name.is_empty() {
        return WorkEstimate::LEAST;
    }
    let query = request.query();
    let limit = match query.values("limit").next().map(|text| text.parse::<u64>()) {
        None => 0,
        Some(Ok(limit)) => limit,
        // It will be refused.
        Some(Err(_)) => return estimate::unknown(most),
    };
    let catalog = registry.catalog();
    let served = catalog.find(info.api_group, info.api_version, info.resource);
    let Some(stored) = served.and_then(|served| served.stored.as_ref()) else { return WorkEstimate::LEAST };
    let (objects, bytes) = stored.resource.size();
    let has = |name| query.values(name).next().is_some_and(|text| !text.is_empty());
    let listed = Listed {
        objects: objects as u64,
        bytes,
        limit,
        selects: has("labelSelector") || has("fieldSelector"),
        // A list with a limit goes through no more than it returns, wherever it begins.
        from_cache: limit == 0,
    };
    estimate::list(listed, most)
}

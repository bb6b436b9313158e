//! Which paths exist, and which methods they have: derived from the rows of the kinds.

use std::sync::Arc;

use http::Method;
use kinds::{Body, Subresource, Verb as KindVerb};
use registry::{Registry, Served};

use super::negotiate::route::Produces;
use super::path::{Prefix, Resource};
use crate::{Error, Status};

/// A path that exists, with a method that it has.
pub(crate) struct Route<'a> {
    /// The kind.
    pub(crate) served: &'a Arc<Served>,
    /// What stands below the object.
    pub(crate) subresource: Option<&'static Subresource>,
    /// What it can answer with.
    pub(crate) produces: Produces,
}

/// The route of a path and a method: 404 if the path does not exist, 405 if it does not have the method.
pub(crate) fn find<'a>(
    registry: &'a Registry,
    path: &Resource<'_>,
    method: &Method,
) -> Result<Route<'a>, Error> {
    let unknown = || Error::from(Status::unknown_resource());
    if path.displaced || !serves_group(registry, path.group) {
        return Err(Error::UnknownPath);
    }
    if path.prefix == Prefix::Proxy {
        return Err(unknown());
    }
    let served = registry.find(path.group, path.version, path.resource).ok_or_else(unknown)?;
    if !fits_scope(served, path) {
        return Err(unknown());
    }
    let subresource = match path.subresource {
        "" => None,
        _ if path.prefix == Prefix::Watch => return Err(unknown()),
        name => Some(served.subresource(name).ok_or_else(unknown)?),
    };
    if path.rest.is_some() && !subresource.is_some_and(takes_path) {
        return Err(unknown());
    }
    let verbs = verbs(served, subresource, path);
    if verbs.is_empty() {
        return Err(unknown());
    }
    if !verbs.iter().any(|verb| has_method(*verb, method)) {
        return Err(Status::method_not_allowed().into());
    }
    let produces = match subresource {
        Some(subresource) if matches!(subresource.body, Body::Options(_)) => Produces::Anything,
        Some(subresource) if subresource.name == "log" => Produces::TextAndObjects,
        None if path.name.is_empty() || path.prefix == Prefix::Watch => Produces::ObjectsAndStreams,
        _ => Produces::Objects,
    };
    Ok(Route { served, subresource, produces })
}

/// Whether anything of a group is served; the core group always is.
pub(crate) fn serves_group(registry: &Registry, group: &str) -> bool {
    group.is_empty() || registry.served().iter().any(|served| served.kind.group == group)
}

/// Whether a path goes through a namespace where the kind's does, and only there.
fn fits_scope(served: &Served, path: &Resource<'_>) -> bool {
    match path.namespace {
        Some("") => false,
        Some(namespace) if served.kind.is_namespaced() => !namespace.is_empty(),
        // A namespace is in itself.
        Some(namespace) => {
            served.kind.group.is_empty() && served.kind.resource == "namespaces" && path.name == namespace
        }
        None => !served.kind.is_namespaced() || path.name.is_empty(),
    }
}

/// Whether what stands below a subresource is for whoever is at the other end.
fn takes_path(subresource: &'static Subresource) -> bool {
    subresource.name == "proxy"
}

/// What can be done at a path.
fn verbs(served: &Served, subresource: Option<&'static Subresource>, path: &Resource<'_>) -> Vec<KindVerb> {
    use KindVerb::{Create, Delete, DeleteCollection, Get, List, Patch, Update, Watch};
    if let Some(subresource) = subresource {
        return subresource.verbs.to_vec();
    }
    let here: &[KindVerb] = if path.prefix == Prefix::Watch {
        &[Watch]
    } else if !path.name.is_empty() {
        &[Get, Update, Patch, Delete]
    } else if served.kind.is_namespaced() && path.namespace.is_none() {
        &[List]
    } else {
        &[List, Create, DeleteCollection]
    };
    here.iter().filter(|verb| served.kind.verbs.contains(verb)).copied().collect()
}

fn has_method(verb: KindVerb, method: &Method) -> bool {
    *method
        == match verb {
            KindVerb::Create => Method::POST,
            KindVerb::Get | KindVerb::List | KindVerb::Watch => Method::GET,
            KindVerb::Update => Method::PUT,
            KindVerb::Patch => Method::PATCH,
            KindVerb::Delete | KindVerb::DeleteCollection => Method::DELETE,
        }
}

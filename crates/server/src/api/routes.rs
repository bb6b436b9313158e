//! Which paths exist, and which methods they have: derived from the rows of the kinds.

use std::sync::Arc;

use http::Method;
use kinds::{BodyType, SubresourceType, Traffic, Verb as KindVerb};
use registry::{Catalog, Served};

use super::negotiate::route::Produces;
use super::path::{Prefix, Resource};
use crate::{Error, Status};

/// A path that exists, with a method that it has.
pub(crate) struct Route<'a> {
    /// The kind.
    pub(crate) served: &'a Arc<Served>,
    /// What stands below the object.
    pub(crate) subresource: Option<&'a SubresourceType>,
    /// What it can answer with.
    pub(crate) produces: Produces,
}

/// The route of a path and a method: 404 if the path does not exist, 405 if it does not have the method.
pub(crate) fn find<'a>(
    catalog: &'a Catalog,
    path: &Resource<'_>,
    method: &Method,
) -> Result<Route<'a>, Error> {
    let unknown = || Error::from(Status::unknown_resource());
    if path.displaced || !catalog.serves_group(path.group) {
        return Err(Error::UnknownPath);
    }
    if path.prefix == Prefix::Proxy {
        return Err(unknown());
    }
    let served = catalog.find(path.group, path.version, path.resource).ok_or_else(unknown)?;
    if !fits_scope(served, path) {
        return Err(unknown());
    }
    let subresource = match path.subresource {
        "" => None,
        _ if path.prefix == Prefix::Watch => return Err(unknown()),
        name => Some(served.subresource(name).ok_or_else(unknown)?),
    };
    if path.rest.is_some() && subresource.is_none_or(|subresource| subresource.traffic != Traffic::Proxy) {
        return Err(unknown());
    }
    let verbs = verbs(served, subresource, path);
    if verbs.is_empty() {
        return Err(unknown());
    }
    if !verbs.iter().any(|verb| has_method(*verb, method)) {
        return Err(Status::method_not_allowed().into());
    }
    // Without this, `nodes//status` would read as the collection.
    if subresource.is_some() && path.name.is_empty() {
        return Err(Status::bad_request("name must be provided").into());
    }
    if served.is_namespaced() && path.namespace == Some("") && !path.name.is_empty() {
        return Err(Status::bad_request("Namespace parameter required.").into());
    }
    let produces = match subresource {
        Some(subresource) if matches!(subresource.body, BodyType::Options(_)) => Produces::Anything,
        Some(subresource) if subresource.traffic == Traffic::Log => Produces::TextAndObjects,
        None if *method == Method::GET && (path.name.is_empty() || path.prefix == Prefix::Watch) => {
            Produces::ObjectsAndStreams
        }
        _ => Produces::Objects,
    };
    Ok(Route { served, subresource, produces })
}

/// Whether a path goes through a namespace where the kind's does, and only there.
fn fits_scope(served: &Served, path: &Resource<'_>) -> bool {
    match path.namespace {
        Some(_) if served.is_namespaced() => true,
        // A namespace is in itself.
        Some(namespace) => {
            served.group.is_empty() && served.resource == "namespaces" && path.name == namespace
        }
        None => !served.is_namespaced() || path.name.is_empty(),
    }
}

/// What can be done at a path.
fn verbs(served: &Served, subresource: Option<&SubresourceType>, path: &Resource<'_>) -> Vec<KindVerb> {
    use KindVerb::{Create, Delete, DeleteCollection, Get, List, Patch, Update, Watch};
    if let Some(subresource) = subresource {
        return subresource.verbs.clone();
    }
    let here: &[KindVerb] = if path.prefix == Prefix::Watch {
        &[Watch]
    } else if !path.name.is_empty() {
        &[Get, Update, Patch, Delete]
    } else if served.is_namespaced() && path.namespace.is_none() {
        &[List]
    } else {
        &[List, Create, DeleteCollection]
    };
    here.iter().filter(|verb| served.verbs.contains(verb)).copied().collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::path::Path;
    use crate::api::testing::Fixture;

    async fn code(method: Method, path: &str) -> u16 {
        let fixture = Fixture::new().await;
        let Path::Resource(resource) = Path::parse(path) else { panic!("{path} is no resource") };
        match find(&fixture.registry.catalog(), &resource, &method) {
            Ok(_) => 200,
            Err(error) => error.into_response().status().as_u16(),
        }
    }

    #[tokio::test]
    async fn a_subresource_of_nothing_is_not_the_collection() {
        for path in ["/api/v1/nodes//status", "/api/v1/namespaces/n/pods//status"] {
            assert_eq!(code(Method::GET, path).await, 400, "{path}");
        }
        assert_eq!(code(Method::GET, "/api/v1/nodes/a/status").await, 200);
    }

    #[tokio::test]
    async fn an_empty_namespace_is_all_of_them_and_has_no_objects() {
        for (method, path, wanted) in [
            (Method::GET, "/api/v1/namespaces//pods", 200),
            (Method::GET, "/api/v1/watch/namespaces//pods", 200),
            (Method::DELETE, "/api/v1/namespaces//pods", 200),
            (Method::GET, "/api/v1/namespaces//pods/a", 400),
            (Method::PUT, "/api/v1/namespaces//pods/a/status", 400),
            (Method::GET, "/api/v1/namespaces//nodes", 404),
            (Method::GET, "/api/v1/namespaces//finalize", 405),
            (Method::PUT, "/api/v1/namespaces//finalize", 400),
        ] {
            assert_eq!(code(method.clone(), path).await, wanted, "{method} {path}");
        }
    }

    #[tokio::test]
    async fn a_path_exists_where_the_kind_lives() {
        for (path, wanted) in [
            ("/api/v1/namespaces/n/pods", 200),
            ("/api/v1/pods", 200),
            ("/api/v1/pods/a", 404),
            ("/api/v1/namespaces/n/nodes", 404),
            ("/api/v1/namespaces/n", 200),
            ("/api/v1/namespaces/n/namespaces", 404),
            ("/api/v1/watch/namespaces/n/pods/a", 200),
            ("/api/v1/namespaces/n/pods/a/nothing", 404),
            ("/apis/apps/v9/deployments", 404),
        ] {
            assert_eq!(code(Method::GET, path).await, wanted, "{path}");
        }
    }

    #[tokio::test]
    async fn a_path_has_the_methods_of_its_verbs() {
        for (method, path, wanted) in [
            (Method::POST, "/api/v1/pods", 405),
            (Method::DELETE, "/api/v1/pods", 405),
            (Method::DELETE, "/api/v1/namespaces/n/pods", 200),
            (Method::HEAD, "/api/v1/namespaces/n/pods", 405),
            (Method::DELETE, "/api/v1/namespaces/n/pods/a/status", 405),
            (Method::POST, "/api/v1/watch/pods", 405),
        ] {
            assert_eq!(code(method.clone(), path).await, wanted, "{method} {path}");
        }
    }
}

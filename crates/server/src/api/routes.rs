//! Finds the route of a request: the kind and subresource of its path, if they have its method.
//!
//! The reference has a table of routes for built-in kinds, and none for custom kinds: there the verb of the
//! request decides, whatever else is in the path. So a PUT of a collection is refused for its missing name, a
//! POST to an object's path creates the object in its body, a HEAD is a GET, and the path after a subresource
//! is ignored.

use std::sync::Arc;

use http::Method;
use kinds::{Subresource, SubresourceBody, Traffic, Verb as KindVerb};
use registry::{Catalog, Served};

use crate::negotiate::route::Produces;
use crate::request_info::{Prefix, RequestInfo, Verb};
use crate::{Error, Status};

/// The route of a resource request.
pub(crate) struct Route<'a> {
    /// The kind.
    pub(crate) served: &'a Arc<Served>,
    /// The subresource; `None` for the object or collection itself.
    pub(crate) subresource: Option<&'a Subresource>,
    /// The media types of its responses.
    pub(crate) produces: Produces,
    /// Why the kind itself refuses the request, in the format that the client accepts.
    pub(crate) refused: Option<Status>,
}

/// The route of a path and a method: 404 if the path does not exist, 405 if it does not have the method.
pub(crate) fn find<'a>(
    catalog: &'a Catalog,
    info: &RequestInfo<'_>,
    method: &Method,
) -> Result<Route<'a>, Error> {
    let unknown = || Error::from(Status::unknown_resource());
    if info.is_unroutable || !catalog.serves_group(info.api_group) {
        return Err(Error::UnknownPath);
    }
    let missing = || unknown_in(info.api_group);
    let served = catalog.find(info.api_group, info.api_version, info.resource);
    if let Some(served) = served.filter(|served| served.is_custom()) {
        return custom(served, info);
    }
    if info.prefix == Prefix::Proxy {
        return Err(missing());
    }
    let served = served.ok_or_else(missing)?;
    if !fits_scope(served, info) {
        return Err(missing());
    }
    let subresource = match info.subresource {
        "" => None,
        _ if info.prefix == Prefix::Watch => return Err(unknown()),
        name => Some(served.subresource(name).ok_or_else(unknown)?),
    };
    if info.path_rest.is_some() && subresource.is_none_or(|subresource| subresource.traffic != Traffic::Proxy)
    {
        return Err(unknown());
    }
    let verbs = verbs(served, subresource, info);
    if verbs.is_empty() {
        return Err(unknown());
    }
    let is_proxied = subresource.is_some_and(|subresource| subresource.traffic == Traffic::Proxy)
        && matches!(*method, Method::HEAD | Method::OPTIONS);
    if !is_proxied && !verbs.iter().any(|verb| has_method(*verb, method)) {
        return Err(Status::method_not_allowed().into());
    }
    // Without this check, `nodes//status` would be the collection.
    if subresource.is_some() && info.path_name.is_empty() {
        return Err(Status::bad_request("name must be provided").into());
    }
    if served.is_namespaced() && info.namespace == Some("") && !info.path_name.is_empty() {
        return Err(Status::bad_request("Namespace parameter required.").into());
    }
    let produces = match subresource {
        Some(subresource) if matches!(subresource.body, SubresourceBody::Options(_)) => Produces::Anything,
        Some(subresource) if subresource.traffic == Traffic::Log => Produces::TextAndObjects,
        None if *method == Method::GET && (info.path_name.is_empty() || info.prefix == Prefix::Watch) => {
            Produces::ObjectsAndStreams
        }
        _ => Produces::Objects,
    };
    Ok(Route { served, subresource, produces, refused: None })
}

/// The 404 of a version or resource that a served group does not have: a `Status` in a built-in group, plain
/// text in any other group.
pub(crate) fn unknown_in(group: &str) -> Error {
    match kinds::all().any(|kind| kind.group == group) {
        true => Status::unknown_resource().into(),
        false => Error::UnknownPath,
    }
}

/// The route of a custom kind, by the verb of the request.
fn custom<'a>(served: &'a Arc<Served>, info: &RequestInfo<'_>) -> Result<Route<'a>, Error> {
    let has_namespace = info.namespace.is_some_and(|namespace| !namespace.is_empty());
    let is_across_namespaces = matches!(info.verb, Verb::Resource(KindVerb::List | KindVerb::Watch));
    if has_namespace != served.is_namespaced() && !(served.is_namespaced() && is_across_namespaces) {
        return Err(Error::UnknownPath);
    }
    let (group, resource) = (&served.group, &served.resource);
    let subresource = served.subresource(info.subresource);
    let refused = match (info.verb, subresource) {
        (_, None) if !info.subresource.is_empty() => Some(Status::not_found(group, resource, &info.name)),
        (Verb::Resource(KindVerb::Create), None) if served.is_terminating => {
            Some(Status::definition_is_terminating(group, resource))
        }
        (Verb::Resource(_), None) => None,
        (Verb::Resource(verb), Some(subresource)) if subresource.verbs.contains(&verb) => None,
        (verb, _) => Some(Status::verb_not_supported(group, resource, verb.as_str())),
    };
    Ok(Route { served, subresource, produces: Produces::Objects, refused })
}

/// Whether the path has a namespace exactly if the kind is namespaced. A collection of all namespaces has
/// none.
fn fits_scope(served: &Served, info: &RequestInfo<'_>) -> bool {
    match info.namespace {
        Some(_) if served.is_namespaced() => true,
        // The path of a namespace object contains its own name as the namespace.
        Some(namespace) => {
            served.group.is_empty() && served.resource == "namespaces" && info.path_name == namespace
        }
        None => !served.is_namespaced() || info.path_name.is_empty(),
    }
}

/// The verbs that a path has.
fn verbs(served: &Served, subresource: Option<&Subresource>, info: &RequestInfo<'_>) -> Vec<KindVerb> {
    use KindVerb::{Create, Delete, DeleteCollection, Get, List, Patch, Update, Watch};
    if let Some(subresource) = subresource {
        return subresource.verbs.to_vec();
    }
    let here: &[KindVerb] = if info.prefix == Prefix::Watch {
        &[Watch]
    } else if !info.path_name.is_empty() {
        &[Get, Update, Patch, Delete]
    } else if served.is_namespaced() && info.namespace.is_none() {
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
    use crate::Query;
    use crate::api::testing::Fixture;
    use crate::negotiate::ErrorFormat;

    async fn code(method: Method, path: &str) -> u16 {
        let fixture = Fixture::new().await;
        let info = RequestInfo::parse(&method, path, Query::new("")).unwrap();
        assert!(info.is_resource_request, "{path}");
        match find(&fixture.registry.catalog(), &info, &method) {
            Ok(_) => 200,
            Err(error) => error.into_response(ErrorFormat::JSON).status().as_u16(),
        }
    }

    #[tokio::test]
    async fn subresource_without_a_name_is_400() {
        for path in ["/api/v1/nodes//status", "/api/v1/namespaces/n/pods//status"] {
            assert_eq!(code(Method::GET, path).await, 400, "{path}");
        }
        assert_eq!(code(Method::GET, "/api/v1/nodes/a/status").await, 200);
    }

    #[tokio::test]
    async fn empty_namespace_means_all_namespaces_for_collections_and_is_400_for_objects() {
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
    async fn path_exists_only_in_the_scope_of_its_kind() {
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
    async fn method_without_a_verb_is_405() {
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

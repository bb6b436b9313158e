use super::*;

/// A resource request for nothing; its verb and path are those of no request.
const EMPTY: RequestInfo<'static> = RequestInfo {
    is_resource_request: true,
    path: "",
    verb: Verb::None,
    api_group: "",
    api_version: "v1",
    namespace: None,
    resource: "",
    subresource: "",
    name: Cow::Borrowed(""),
    path_name: "",
    path_rest: None,
    prefix: Prefix::None,
    is_unroutable: false,
    selectors: None,
};

fn parse(path: &str) -> Result<RequestInfo<'_>, IncompletePath> {
    RequestInfo::parse(&Method::GET, path, Query::new(""))
}

/// What the path alone says: without `path` and `verb`.
fn resource(path: &str) -> RequestInfo<'_> {
    let info = parse(path).unwrap();
    assert!(info.is_resource_request, "{path}");
    assert_eq!(info.name, info.path_name, "{path}");
    RequestInfo { path: "", verb: Verb::None, name: "".into(), ..info }
}

fn verb_and_name(method: Method, path: &str, query: &str) -> (&'static str, String) {
    let info = RequestInfo::parse(&method, path, Query::new(query)).unwrap();
    (info.verb.as_str(), info.name.into_owned())
}

#[test]
fn core_and_named_groups_are_parsed() {
    assert_eq!(resource("/api/v1/nodes"), RequestInfo { resource: "nodes", ..EMPTY });
    assert_eq!(
        resource("/apis/apps/v1/namespaces/n/deployments/d/scale"),
        RequestInfo {
            api_group: "apps",
            namespace: Some("n"),
            resource: "deployments",
            path_name: "d",
            subresource: "scale",
            ..EMPTY
        }
    );
}

#[test]
fn namespace_object_is_in_its_own_namespace() {
    let namespace = RequestInfo { resource: "namespaces", ..EMPTY };
    assert_eq!(resource("/api/v1/namespaces"), namespace);
    let named = RequestInfo { namespace: Some("n"), path_name: "n", ..namespace.clone() };
    assert_eq!(resource("/api/v1/namespaces/n"), named);
    for subresource in ["status", "finalize"] {
        let path = format!("/api/v1/namespaces/n/{subresource}");
        assert_eq!(resource(&path), RequestInfo { subresource, ..named.clone() });
    }
    assert_eq!(
        resource("/api/v1/namespaces/n/namespaces"),
        RequestInfo { namespace: Some("n"), ..namespace.clone() },
        "a resource of its own, which is not there"
    );
}

#[test]
fn path_below_a_subresource_is_kept_verbatim() {
    let proxy =
        RequestInfo { namespace: Some("n"), resource: "pods", path_name: "p", subresource: "proxy", ..EMPTY };
    assert_eq!(resource("/api/v1/namespaces/n/pods/p/proxy"), proxy);
    assert_eq!(
        resource("/api/v1/namespaces/n/pods/p/proxy//a//b"),
        RequestInfo { path_rest: Some("/a//b"), ..proxy.clone() }
    );
    assert_eq!(resource("/api/v1/namespaces/n/pods/p/status/y").path_rest, Some("y"));
}

#[test]
fn watch_and_proxy_prefixes_are_parsed() {
    let watched = RequestInfo { prefix: Prefix::Watch, resource: "pods", ..EMPTY };
    assert_eq!(resource("/api/v1/watch/pods"), watched);
    let in_namespace = RequestInfo { namespace: Some("n"), path_name: "p", ..watched.clone() };
    assert_eq!(resource("/api/v1/watch/namespaces/n/pods/p"), in_namespace);
    assert_eq!(resource("/api/v1/watch/namespaces/n/pods/p/log").subresource, "log");
    let proxied = resource("/api/v1/proxy/nodes/x/y/z");
    assert_eq!((proxied.prefix, proxied.path_name, proxied.subresource), (Prefix::Proxy, "x", ""));
    assert_eq!(proxied.path_rest, Some("y/z"));
    for path in ["/api/v1/watch", "/apis/apps/v1/watch", "/api/v1/proxy"] {
        assert_eq!(parse(path), Err(IncompletePath));
    }
    let uri = http::Uri::from_static("/api/v1/watc%68?x=%zz&y=1");
    assert_eq!(
        crate::Error::incomplete_path(&uri).to_string(),
        "Internal Server Error: \"/api/v1/watc%68?x=%zz&amp;y=1\": failed to create RequestInfo: unable to determine kind and \
         namespace from url, /api/v1/watc%68?x=%zz&amp;y=1\n"
    );
}

#[test]
fn slashes_at_the_ends_are_ignored_and_doubled_slashes_are_not() {
    let pods = RequestInfo { resource: "pods", ..EMPTY };
    assert_eq!(resource("/api/v1/pods/"), pods);
    assert_eq!(resource("/api/v1/pods///"), pods);
    assert_eq!(resource("//api/v1/pods"), RequestInfo { is_unroutable: true, ..pods.clone() });
    assert_eq!(
        resource("/apis//v1/pods"),
        RequestInfo { is_unroutable: true, ..pods.clone() },
        "not the core group"
    );
    assert_eq!(resource("/api/v1//namespaces").resource, "");
    assert_eq!(resource("/api/v1/namespaces//configmaps").namespace, Some(""));
    let broken = resource("/api/v1/namespaces/n/configmaps//a");
    assert_eq!((broken.path_name, broken.subresource), ("", "a"));
    let broken = resource("/api/v1/namespaces/n//configmaps");
    assert_eq!((broken.resource, broken.path_name), ("", "configmaps"));
}

#[test]
fn other_paths_are_non_resource_requests() {
    for path in [
        "",
        "/",
        "*",
        "/api",
        "/api/",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1/",
        "/apis//apps",
        "/API/v1/pods",
        "/healthz/a/b",
    ] {
        let info = parse(path).unwrap();
        assert!(!info.is_resource_request && info.path == path && info.verb.as_str() == "get", "{path}");
    }
}

#[test]
fn path_is_decoded_before_it_is_split() {
    let path = decode("/api/v1/namespaces/n/configmaps/a%2Fb").unwrap();
    let found = resource(&path);
    assert_eq!((found.path_name, found.subresource), ("a", "b"));
    assert_eq!(decode("/a%20b+c%25"), Some("/a b+c%".into()));
    assert_eq!(decode("/%ff"), Some("/\u{fffd}".into()));
    assert!(matches!(decode("/plain"), Some(Cow::Borrowed("/plain"))));
    for broken in ["/%", "/%4", "/%zz", "/%4g"] {
        assert_eq!(decode(broken), None, "{broken}");
    }
}

#[test]
fn methods_map_to_verbs() {
    let (collection, object) = ("/api/v1/namespaces/n/pods", "/api/v1/namespaces/n/pods/p");
    for (method, on_collection, on_object) in [
        (Method::POST, "create", "create"),
        (Method::GET, "list", "get"),
        (Method::HEAD, "list", "get"),
        (Method::PUT, "update", "update"),
        (Method::PATCH, "patch", "patch"),
        (Method::DELETE, "deletecollection", "delete"),
        (Method::OPTIONS, "", ""),
        (Method::from_bytes(b"FETCH").unwrap(), "", ""),
    ] {
        assert_eq!(verb_and_name(method.clone(), collection, "").0, on_collection, "{method}");
        assert_eq!(verb_and_name(method.clone(), object, "watch=1").0, on_object, "{method}");
    }
    assert_eq!(verb_and_name(Method::DELETE, "/api/v1/watch/pods", "").0, "watch");
    assert_eq!(verb_and_name(Method::GET, "/api/v1/watch/pods/p", "watch=false"), ("watch", "p".into()));
    assert_eq!(verb_and_name(Method::GET, "/api/v1/proxy/nodes/x", "").0, "proxy");
}

#[test]
fn watch_parameter_is_true_unless_false_or_0() {
    for (query, verb) in [
        ("", "list"),
        ("watch=0", "list"),
        ("watch=false", "list"),
        ("watch=FALSE", "list"),
        ("watch=0&watch=1", "list"),
        ("watch=1", "watch"),
        ("watch=yes", "watch"),
        ("watch", "watch"),
        ("watch=", "watch"),
        ("watch=true&limit=x", "watch"),
    ] {
        assert_eq!(verb_and_name(Method::GET, "/api/v1/pods", query).0, verb, "{query}");
    }
}

#[test]
fn list_with_a_name_field_selector_is_authorized_for_that_name() {
    for (query, name) in [
        ("fieldSelector=metadata.name%3Dx", "x"),
        ("fieldSelector=metadata.name%3D%3Dx,spec.nodeName%3Dy&watch=1", "x"),
        ("fieldSelector=metadata.name!%3Dx", ""),
        ("fieldSelector=metadata.name%3D..", ""),
        ("fieldSelector=metadata.name%3Da/b", ""),
        ("fieldSelector=nonsense", ""),
        ("fieldSelector=metadata.name%3Dx&limit=many", ""),
        ("fieldSelector=metadata.name%3Dx&labelSelector=!!", ""),
        ("fieldSelector=metadata.name%3Dx&limit=5&labelSelector=a%3Db", "x"),
    ] {
        assert_eq!(verb_and_name(Method::GET, "/api/v1/pods", query).1, name, "{query}");
    }
    assert_eq!(verb_and_name(Method::DELETE, "/api/v1/pods", "fieldSelector=metadata.name%3Dx").1, "");
}

#[test]
fn attributes_are_those_of_the_request() {
    let path = "/apis/apps/v1/namespaces/n/deployments/d/scale";
    let info = RequestInfo::parse(&Method::PUT, path, Query::new("")).unwrap();
    assert_eq!(
        info.attributes(),
        auth::Attributes::new(
            "update",
            auth::Target::Resource {
                group: "apps".into(),
                version: "v1".into(),
                resource: "deployments".into(),
                subresource: "scale".into(),
                namespace: "n".into(),
                name: "d".into(),
            },
        )
    );
    let attributes = RequestInfo::parse(&Method::OPTIONS, "/healthz", Query::new("")).unwrap().attributes();
    assert_eq!(attributes.verb, "options");
    assert_eq!(attributes.target, auth::Target::Path("/healthz".into()));
}

#[test]
fn attributes_have_the_requirements_of_selectors_and_what_is_wrong_with_them() {
    let selectors = |method, path, query| {
        RequestInfo::parse(&method, path, Query::new(query)).unwrap().attributes().selectors
    };
    let query = "fieldSelector=spec.nodeName%3Da&labelSelector=x%20in%20(1,2)";
    for method in [Method::GET, Method::DELETE] {
        let found = selectors(method, "/api/v1/pods", query).unwrap();
        let [field] = found.fields.as_slice() else { panic!("{found:?}") };
        assert_eq!((field.field.as_str(), field.value.as_str()), ("spec.nodeName", "a"));
        assert_eq!((found.labels.len(), &found.fields_error, &found.labels_error), (1, &None, &None));
    }
    assert_eq!(selectors(Method::GET, "/api/v1/namespaces/n/pods/p", query), None);
    assert_eq!(selectors(Method::GET, "/api/v1/pods", "limit=1"), None);
    let broken = selectors(Method::GET, "/api/v1/pods", "fieldSelector=a&labelSelector=(").unwrap();
    assert!(broken.fields_error.is_some() && broken.labels_error.is_some(), "{broken:?}");
}

/// The segments of a request info are those of the path that it was parsed from.
#[test]
fn random_paths_do_not_panic_and_keep_their_segments() {
    const PIECES: &[&str] =
        &["/", "//", "api", "apis", "v1", "namespaces", "watch", "proxy", "status", "%2F", "%", "ü", ".."];
    let mut random = fastrand::Rng::with_seed(33);
    for _ in 0..50_000 {
        let raw: String = (0..random.usize(..14))
            .map(|_| PIECES[random.usize(..PIECES.len())])
            .collect::<Vec<_>>()
            .concat();
        let Some(path) = decode(&raw) else { continue };
        let Ok(found) = RequestInfo::parse(&Method::GET, &path, Query::new(&raw)) else { continue };
        if !found.is_resource_request {
            continue;
        }
        let mut again = if path.trim_start_matches('/').starts_with("apis") {
            format!("apis/{}/{}", found.api_group, found.api_version)
        } else {
            format!("api/{}", found.api_version)
        };
        let itself = found.resource == "namespaces" && found.namespace == Some(found.path_name);
        match found.prefix {
            Prefix::None => {}
            Prefix::Watch => again.push_str("/watch"),
            Prefix::Proxy => again.push_str("/proxy"),
        }
        if let Some(namespace) = found.namespace.filter(|_| !itself) {
            again.extend(["/namespaces/", namespace]);
        }
        again.extend(["/", found.resource, "/", found.path_name, "/", found.subresource]);
        if let Some(rest) = found.path_rest {
            again.extend(["/", rest]);
        }
        let written: Vec<_> = again.split('/').filter(|s| !s.is_empty()).collect();
        let read: Vec<_> = path.split('/').filter(|s| !s.is_empty()).collect();
        assert_eq!(written, read, "{path}");
    }
}

use super::*;

const NOTHING: Resource<'static> = Resource {
    group: "",
    version: "v1",
    namespace: None,
    resource: "",
    name: "",
    subresource: "",
    rest: None,
    prefix: Prefix::None,
    displaced: false,
};

fn resource(path: &str) -> Resource<'_> {
    match Path::parse(path) {
        Path::Resource(resource) => resource,
        other => panic!("{path}: {other:?}"),
    }
}

fn asked(method: Method, path: &str, query: &str) -> (&'static str, String) {
    let asked = resource(path).asked(&method, Query::new(query));
    (asked.verb.as_str(), asked.name.into_owned())
}

#[test]
fn resources_of_the_core_group_and_of_others() {
    assert_eq!(resource("/api/v1/nodes"), Resource { resource: "nodes", ..NOTHING });
    assert_eq!(
        resource("/apis/apps/v1/namespaces/n/deployments/d/scale"),
        Resource {
            group: "apps",
            namespace: Some("n"),
            resource: "deployments",
            name: "d",
            subresource: "scale",
            ..NOTHING
        }
    );
}

#[test]
fn a_namespace_is_in_itself() {
    let namespace = Resource { resource: "namespaces", ..NOTHING };
    assert_eq!(resource("/api/v1/namespaces"), namespace);
    let named = Resource { namespace: Some("n"), name: "n", ..namespace };
    assert_eq!(resource("/api/v1/namespaces/n"), named);
    for subresource in ["status", "finalize"] {
        let path = format!("/api/v1/namespaces/n/{subresource}");
        assert_eq!(resource(&path), Resource { subresource, ..named });
    }
    assert_eq!(
        resource("/api/v1/namespaces/n/namespaces"),
        Resource { namespace: Some("n"), ..namespace },
        "a resource of its own, which is not there"
    );
}

#[test]
fn what_is_below_a_subresource_stays_as_it_is() {
    let proxy =
        Resource { namespace: Some("n"), resource: "pods", name: "p", subresource: "proxy", ..NOTHING };
    assert_eq!(resource("/api/v1/namespaces/n/pods/p/proxy"), proxy);
    assert_eq!(
        resource("/api/v1/namespaces/n/pods/p/proxy//a//b"),
        Resource { rest: Some("/a//b"), ..proxy }
    );
    assert_eq!(resource("/api/v1/namespaces/n/pods/p/status/y").rest, Some("y"));
}

#[test]
fn old_prefixes_stand_before_the_resource() {
    let watched = Resource { prefix: Prefix::Watch, resource: "pods", ..NOTHING };
    assert_eq!(resource("/api/v1/watch/pods"), watched);
    let in_namespace = Resource { namespace: Some("n"), name: "p", ..watched };
    assert_eq!(resource("/api/v1/watch/namespaces/n/pods/p"), in_namespace);
    assert_eq!(resource("/api/v1/watch/namespaces/n/pods/p/log").subresource, "log");
    let proxied = resource("/api/v1/proxy/nodes/x/y/z");
    assert_eq!((proxied.prefix, proxied.name, proxied.subresource), (Prefix::Proxy, "x", ""));
    assert_eq!(proxied.rest, Some("y/z"));
    for path in ["/api/v1/watch", "/apis/apps/v1/watch", "/api/v1/proxy"] {
        assert_eq!(Path::parse(path), Path::Incomplete);
    }
    assert_eq!(
        incomplete_message("/api/v1/watc%68?x=%zz&y=1"),
        "Internal Server Error: \"/api/v1/watc%68?x=%zz&amp;y=1\": failed to create RequestInfo: unable to determine kind and \
         namespace from url, /api/v1/watc%68?x=%zz&amp;y=1\n"
    );
}

#[test]
fn slashes_at_the_ends_do_not_count_and_doubled_ones_do() {
    let pods = Resource { resource: "pods", ..NOTHING };
    assert_eq!(resource("/api/v1/pods/"), pods);
    assert_eq!(resource("/api/v1/pods///"), pods);
    assert_eq!(resource("//api/v1/pods"), Resource { displaced: true, ..pods });
    assert_eq!(resource("/apis//v1/pods"), Resource { displaced: true, ..pods }, "not the core group");
    assert_eq!(resource("/api/v1//namespaces").resource, "");
    assert_eq!(resource("/api/v1/namespaces//configmaps").namespace, Some(""));
    let broken = resource("/api/v1/namespaces/n/configmaps//a");
    assert_eq!((broken.name, broken.subresource), ("", "a"));
    let broken = resource("/api/v1/namespaces/n//configmaps");
    assert_eq!((broken.resource, broken.name), ("", "configmaps"));
}

#[test]
fn everything_else_is_no_resource() {
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
        assert_eq!(Path::parse(path), Path::NonResource(path));
    }
}

#[test]
fn escapes_are_undone_before_the_path_is_split() {
    let path = decode("/api/v1/namespaces/n/configmaps/a%2Fb").unwrap();
    let found = resource(&path);
    assert_eq!((found.name, found.subresource), ("a", "b"));
    assert_eq!(decode("/a%20b+c%25"), Some("/a b+c%".into()));
    assert_eq!(decode("/%ff"), Some("/\u{fffd}".into()));
    assert!(matches!(decode("/plain"), Some(Cow::Borrowed("/plain"))));
    for broken in ["/%", "/%4", "/%zz", "/%4g"] {
        assert_eq!(decode(broken), None, "{broken}");
    }
}

#[test]
fn methods_become_verbs() {
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
        assert_eq!(asked(method.clone(), collection, "").0, on_collection, "{method}");
        assert_eq!(asked(method.clone(), object, "watch=1").0, on_object, "{method}");
    }
    assert_eq!(asked(Method::DELETE, "/api/v1/watch/pods", "").0, "watch");
    assert_eq!(asked(Method::GET, "/api/v1/watch/pods/p", "watch=false"), ("watch", "p".into()));
    assert_eq!(asked(Method::GET, "/api/v1/proxy/nodes/x", "").0, "proxy");
}

#[test]
fn values_of_watch() {
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
        assert_eq!(asked(Method::GET, "/api/v1/pods", query).0, verb, "{query}");
    }
}

#[test]
fn a_list_by_name_asks_for_that_name() {
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
        assert_eq!(asked(Method::GET, "/api/v1/pods", query).1, name, "{query}");
    }
    assert_eq!(asked(Method::DELETE, "/api/v1/pods", "fieldSelector=metadata.name%3Dx").1, "");
}

#[test]
fn authorization_is_asked_in_its_own_words() {
    let found = resource("/apis/apps/v1/namespaces/n/deployments/d/scale");
    let attributes = found.attributes(&found.asked(&Method::PUT, Query::new("")));
    assert_eq!(
        attributes,
        auth::Attributes {
            verb: "update",
            target: auth::Target::Resource {
                group: "apps".into(),
                version: "v1".into(),
                resource: "deployments".into(),
                subresource: "scale".into(),
                namespace: "n".into(),
                name: "d".into(),
            },
        }
    );
    let attributes = path_attributes(&Method::OPTIONS, "/healthz");
    assert_eq!(attributes.verb, "options");
    assert_eq!(attributes.target, auth::Target::Path("/healthz".into()));
}

/// A path that is written again from what was read leads to the same place.
#[test]
fn no_path_panics_and_none_loses_a_segment() {
    const PIECES: &[&str] =
        &["/", "//", "api", "apis", "v1", "namespaces", "watch", "proxy", "status", "%2F", "%", "ü", ".."];
    let mut random = fastrand::Rng::with_seed(33);
    for _ in 0..50_000 {
        let raw: String = (0..random.usize(..14))
            .map(|_| PIECES[random.usize(..PIECES.len())])
            .collect::<Vec<_>>()
            .concat();
        let Some(path) = decode(&raw) else { continue };
        let Path::Resource(found) = Path::parse(&path) else { continue };
        found.asked(&Method::GET, Query::new(&raw));
        let mut again = if path.trim_start_matches('/').starts_with("apis") {
            format!("apis/{}/{}", found.group, found.version)
        } else {
            format!("api/{}", found.version)
        };
        let itself = found.resource == "namespaces" && found.namespace == Some(found.name);
        match found.prefix {
            Prefix::None => {}
            Prefix::Watch => again.push_str("/watch"),
            Prefix::Proxy => again.push_str("/proxy"),
        }
        if let Some(namespace) = found.namespace.filter(|_| !itself) {
            again.extend(["/namespaces/", namespace]);
        }
        again.extend(["/", found.resource, "/", found.name, "/", found.subresource]);
        if let Some(rest) = found.rest {
            again.extend(["/", rest]);
        }
        let written: Vec<_> = again.split('/').filter(|s| !s.is_empty()).collect();
        let read: Vec<_> = path.split('/').filter(|s| !s.is_empty()).collect();
        assert_eq!(written, read, "{path}");
    }
}

use super::Server;
use http::header::{ACCEPT, ACCEPT_ENCODING, HOST, IF_NONE_MATCH, RANGE};

const AGGREGATED: &str = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[tokio::test]
async fn aggregated_discovery_has_every_format() {
    let server = Server::start().await;
    for (path, group) in [("/api", "pods"), ("/apis", "deployments")] {
        for (format, head) in [
            ("application/json", r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2""#),
            ("application/yaml", "apiVersion: apidiscovery.k8s.io/v2\nitems:\n"),
            (
                "application/vnd.kubernetes.protobuf",
                "k8s\0\n/\n\x16apidiscovery.k8s.io/v2\x12\x15APIGroupDiscoveryList\x12",
            ),
        ] {
            let wanted = format!("{format}{AGGREGATED}");
            let answer = server.get_as(path, &wanted).await;
            assert_eq!((answer.code, answer.header("content-type")), (200, vec![&*wanted]));
            assert!(answer.text().starts_with(head), "{}", answer.text());
            assert!(answer.text().contains(group), "{path} in {format}");
            assert_eq!(answer.header("vary"), ["Accept"]);
        }
    }
}

#[tokio::test]
async fn irrelevant_accept_parameters_do_not_prevent_aggregated_discovery() {
    let server = Server::start().await;
    for (more, code) in
        [(";profile=x", 200), (";stream=watch", 200), (";q=0.5", 200), (";sv=v1", 406), (";stream=x", 406)]
    {
        let answer = server.get_as("/apis", &format!("application/json{AGGREGATED}{more}")).await;
        assert_eq!(answer.code, code, "{more}");
    }
    let indented = server.get_as("/apis?pretty=1", &format!("application/json{AGGREGATED}")).await;
    assert!(indented.text().starts_with("{\n  \"kind\""));
    // With a slash at its end, the path has no aggregated discovery.
    assert_eq!(server.get_as("/apis/", &format!("application/json{AGGREGATED}")).await.code, 406);
    assert_eq!(server.send("POST", "/api", "").await.code, 405);
}

#[tokio::test]
async fn etag_of_aggregated_discovery_is_compared_exactly() {
    let server = Server::start().await;
    let accept = format!("application/json{AGGREGATED}");
    let tag = server.get_as("/api", &accept).await.header("etag")[0].to_owned();
    for (given, code) in
        [(tag.clone(), 304), (format!("W/{tag}"), 200), (tag.trim_matches('"').to_owned(), 200)]
    {
        let answer = server.get_with("/api", &[(ACCEPT, &accept), (IF_NONE_MATCH, &given)]).await;
        assert_eq!((answer.code, answer.header("cache-control")), (code, vec!["public"]), "{given}");
    }
}

#[tokio::test]
async fn discovery_routes_check_media_types_first() {
    let server = Server::start().await;
    for path in ["/api", "/api/v1", "/apis/apps/v1", "/apis/apiregistration.k8s.io"] {
        let answer = server.get_as(path, "text/html").await;
        answer.says(
            406,
            "406: Not Acceptable\\n\\nAvailable representations: application/json, application/yaml",
        );
        assert_eq!(server.get_as(path, "application/*").await.code, 406, "{path}");
        let plain = server.get_as(path, "application/json").await;
        assert_eq!((plain.code, plain.header("vary").len()), (200, 0), "{path}");
        assert_eq!(server.send("POST", path, "{}").await.code, 405, "{path}");
    }
    for path in ["/apis", "/apis/apps"] {
        assert_eq!(server.get_as(path, "application/*").await.code, 200, "{path}");
        server.get_as(path, "text/html").await.says(406, "only the following media types are accepted");
    }
}

#[tokio::test]
async fn only_resources_of_builtin_group_versions_are_in_cbor() {
    let mut server = Server::start().await;
    server.0.config.cbor = true;
    server.0.registry.install(super::custom_kinds::widgets()).await.unwrap();
    let both = "application/cbor,application/json";
    for path in ["/api/v1", "/apis/apps/v1", "/apis/apiregistration.k8s.io/v1"] {
        let answer = server.get_as(path, both).await;
        assert_eq!((answer.code, answer.header("content-type")), (200, vec!["application/cbor"]), "{path}");
    }
    let others =
        ["/api", "/apis", "/apis/", "/apis/apps", "/apis/apiregistration.k8s.io", "/apis/example.com/v1"];
    for path in others {
        let answer = server.get_as(path, both).await;
        assert_eq!((answer.code, answer.header("content-type")), (200, vec!["application/json"]), "{path}");
        assert_eq!(server.get_as(path, "application/cbor").await.code, 406, "{path}");
    }
    for path in ["/api", "/apis"] {
        let accept = format!("application/cbor{AGGREGATED},application/json{AGGREGATED}");
        let answer = server.get_as(path, &accept).await;
        assert_eq!(answer.header("content-type"), [format!("application/json{AGGREGATED}")], "{path}");
    }
}

#[tokio::test]
async fn resources_of_a_custom_group_version_are_served_with_every_method() {
    let server = Server::start().await;
    server.0.registry.install(super::custom_kinds::widgets()).await.unwrap();
    let path = "/apis/example.com/v1";
    for method in ["GET", "POST", "PUT", "DELETE"] {
        server.send(method, path, "").await.says(200, r#""name":"widgets""#);
    }
    assert_eq!(server.get_as(path, "application/*").await.code, 200);
    server.get_as(path, "text/html").await.says(406, "only the following media types are accepted");
}

#[tokio::test]
async fn slashes_at_the_end_of_discovery_paths_are_ignored() {
    let server = Server::start().await;
    for (path, code) in [
        ("/api//", 200),
        ("/api/v1//", 200),
        ("/apis/apps//", 200),
        ("/apis/apps/v1///", 200),
        ("/apis//", 404),
        ("//apis", 404),
        ("/openapi/v2/", 404),
        ("/openapi/v3/", 404),
    ] {
        assert_eq!(server.get(path).await.code, code, "{path}");
    }
    server.get("/version/x").await.says(404, "the server could not find the requested resource");
}

#[tokio::test]
async fn openapi_v3_is_not_compressed_and_has_an_etag() {
    let server = Server::start().await;
    let path = "/openapi/v3/apis/node.k8s.io/v1";
    let whole = server.get_with(path, &[(ACCEPT_ENCODING, "gzip")]).await;
    assert_eq!((whole.code, whole.header("content-encoding").len()), (200, 0));
    assert_eq!((whole.header("vary"), whole.header("accept-ranges")), (vec!["Accept"], vec!["bytes"]));
    let tag = whole.header("etag")[0];
    let hash = tag.trim_matches('"');
    let known = server.get(&format!("{path}?hash={hash}")).await;
    assert_eq!(known.header("cache-control"), ["public, immutable"]);
    assert!(known.header("expires")[0].ends_with(" UTC"));
    let old = server.get(&format!("{path}?hash=0")).await;
    assert_eq!((old.code, old.header("etag")), (301, vec![tag]));
    assert_eq!(old.header("location"), [format!("{path}?hash={hash}")]);
    let same = server.get_with(path, &[(IF_NONE_MATCH, tag)]).await;
    assert_eq!((same.code, same.header("content-type").len(), same.header("vary").len()), (304, 0, 1));
    let refused = server.get_as(path, "text/html").await;
    assert_eq!((refused.code, refused.header("vary"), refused.body.len()), (406, vec!["Accept"], 0));
}

#[tokio::test]
async fn openapi_v2_encodings_share_an_etag_and_support_ranges() {
    let server = Server::start().await;
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let [json, protobuf] = [server.get("/openapi/v2").await, server.get_as("/openapi/v2", protobuf).await];
    assert_eq!(json.header("etag"), protobuf.header("etag"));
    assert_ne!(json.body, protobuf.body);
    assert_eq!(json.header("vary"), ["Accept-Encoding", "Accept"]);
    for coding in ["gzip", "GZIP", "gzip;q=1.0"] {
        let packed = server.get_with("/openapi/v2", &[(ACCEPT_ENCODING, coding)]).await;
        assert_eq!(packed.header("content-encoding"), ["gzip"], "{coding}");
    }
    let part = server.get_with("/openapi/v2", &[(RANGE, "bytes=0-9"), (ACCEPT_ENCODING, "gzip")]).await;
    assert_eq!((part.code, part.text()), (206, "{\"swagger\"".to_owned()));
    assert_eq!(part.header("content-range"), [format!("bytes 0-9/{}", json.body.len())]);
    let refused = server.get_as("/openapi/v2", "text/html").await;
    assert_eq!(
        (refused.code, refused.header("content-type").len(), refused.header("vary").len()),
        (406, 0, 2)
    );
}

#[tokio::test]
async fn core_versions_name_the_external_address_or_the_one_that_was_asked_for() {
    let server = Box::pin(Server::start_at(Some("api.example:6443"), |_| {})).await;
    server.get("/api").await.says(200, r#""serverAddress":"api.example:6443""#);
    let server = Server::start().await;
    server.get_with("/api", &[(HOST, "other:7")]).await.says(200, r#""serverAddress":"other:7""#);
}

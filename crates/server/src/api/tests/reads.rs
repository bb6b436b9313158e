use super::Server;

const MAPS: &str = "/api/v1/namespaces/n/configmaps";

#[tokio::test]
async fn export_parameter_is_400() {
    let server = Server::start().await;
    server.send("POST", MAPS, r#"{"metadata":{"name":"a"}}"#).await;
    for (query, code) in
        [("export", 400), ("export=x", 400), ("export=true", 400), ("export=false", 200), ("export=0", 200)]
    {
        assert_eq!(server.get(&format!("{MAPS}/a?{query}")).await.code, code, "{query}");
        assert_eq!(server.get(&format!("{MAPS}?{query}")).await.code, 200, "{query}");
    }
}

#[tokio::test]
async fn only_get_of_a_collection_offers_streams() {
    let server = Server::start().await;
    for (method, path, streams) in [("GET", MAPS, true), ("POST", MAPS, false), ("DELETE", MAPS, false)] {
        let request = http::Request::builder().method(method).uri(path).header("accept", "text/html");
        let answer = server.ask(request, "{}").await;
        assert_eq!((answer.code, answer.text().contains("stream=watch")), (406, streams), "{method}");
    }
}

const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

#[tokio::test]
async fn rows_of_an_empty_table_are_null_if_the_kind_has_only_default_columns() {
    let server = Server::start().await;
    for (path, rows) in [
        (MAPS, r#""rows":[]}"#),
        ("/api/v1/namespaces/n/limitranges", r#""rows":null}"#),
        ("/apis/rbac.authorization.k8s.io/v1/namespaces/n/roles", r#""rows":null}"#),
    ] {
        server.get_as(path, TABLE).await.says(200, rows);
    }
}

#[tokio::test]
async fn flow_schema_tables_are_sorted_by_matching_precedence() {
    let server = Server::start().await;
    let path = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
    for (name, precedence) in [("a", 900), ("b", 100), ("c", 900), ("d", 500)] {
        let spec =
            format!(r#"{{"priorityLevelConfiguration":{{"name":"x"}},"matchingPrecedence":{precedence}}}"#);
        let object = format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{spec}}}"#);
        assert_eq!(server.send("POST", path, &object).await.code, 201);
    }
    let order = |text: String| -> String {
        let cells = text.split(r#"{"cells":[""#).skip(1);
        cells.filter_map(|row| row.chars().next()).collect()
    };
    assert_eq!(order(server.get_as(path, TABLE).await.text()), "bdac");
    let listed = server.get(path).await.text();
    let names: Vec<_> = listed.split(r#""metadata":{"name":""#).skip(1).map(|rest| &rest[..1]).collect();
    assert_eq!(names, ["a", "b", "c", "d"], "a list stays as it is");
}

#[tokio::test]
async fn partial_metadata_omits_annotations_that_hold_fields() {
    let server = Server::start().await;
    let path = "/apis/apps/v1/namespaces/n/daemonsets";
    let template = r#"{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let object = format!(
        r#"{{"metadata":{{"name":"a","annotations":{{"kept":"x"}}}},"spec":{{"selector":{{"matchLabels":{{"a":"b"}}}},"template":{template}}}}}"#
    );
    server.send("POST", path, &object).await.says(201, "deprecated.daemonset.template.generation");
    let meta = "PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let metas = "PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    for (path, transform) in [
        (path.to_owned(), "Table;g=meta.k8s.io;v=v1"),
        (format!("{path}/a"), "Table;g=meta.k8s.io;v=v1"),
        (format!("{path}/a"), meta),
        (path.to_owned(), metas),
        (format!("{path}?watch=1&timeoutSeconds=1"), meta),
        (format!("{path}?watch=1&timeoutSeconds=1"), "Table;g=meta.k8s.io;v=v1"),
    ] {
        for format in ["application/json", "application/vnd.kubernetes.protobuf"] {
            let answer = server.get_as(&path, &format!("{format};as={transform}")).await;
            if answer.code == 406 && transform.starts_with("Table") {
                continue;
            }
            let text = answer.text();
            assert!(answer.code == 200 && text.contains("kept"), "{path} as {transform}: {text}");
            // The managed fields contain the annotation.
            let text = text.replace("f:deprecated.daemonset.template.generation", "");
            assert!(!text.contains("template.generation"), "{path} as {transform}: {text}");
        }
    }
}

#[tokio::test]
async fn list_at_a_future_revision_is_refused() {
    let server = Server::start().await;
    for (version, code, says) in [
        ("9223372036854775807", 500, "required revision is a future revision"),
        ("9223372036854775808", 504, "Timeout: Too large resource version: 9223372036854775808, current: "),
    ] {
        let query = format!("{MAPS}?resourceVersionMatch=Exact&resourceVersion={version}");
        server.get(&query).await.says(code, says);
    }
}

use super::Server;

const MAPS: &str = "/api/v1/namespaces/n/configmaps";

#[tokio::test]
async fn refused_writes_have_warnings_too() {
    let server = Server::start().await;
    let unknown = r#"{"metadata":{"name":"a"},"foo":1}"#;
    let warning = ["299 - \"unknown field \\\"foo\\\"\""];
    let made = server.send("POST", MAPS, unknown).await;
    assert_eq!((made.code, made.header("warning")), (201, warning.to_vec()));
    let exists = server.send("POST", MAPS, unknown).await;
    assert_eq!((exists.code, exists.header("warning")), (409, warning.to_vec()));
    let misnamed = server.send("PUT", &format!("{MAPS}/b"), unknown).await;
    assert_eq!((misnamed.code, misnamed.header("warning")), (400, warning.to_vec()));
    let invalid =
        server.send("PATCH", &format!("{MAPS}/a"), r#"{"foo":1,"metadata":{"labels":{"/":""}}}"#).await;
    assert_eq!((invalid.code, invalid.header("warning")), (422, warning.to_vec()));
}

#[tokio::test]
async fn duplicate_owners_are_warned_of_even_if_the_write_fails() {
    let server = Server::start().await;
    let owner = r#"{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}"#;
    let object = format!(r#"{{"metadata":{{"name":"a","ownerReferences":[{owner},{owner}]}}}}"#);
    for code in [201, 409] {
        let answer = server.send("POST", MAPS, &object).await;
        assert_eq!((answer.code, answer.header("warning").len()), (code, 1), "{}", answer.text());
    }
}

#[tokio::test]
async fn orphan_warning_of_job_deletion_is_sent_even_on_404() {
    let server = Server::start().await;
    let answer = server.send("DELETE", "/apis/batch/v1/namespaces/n/jobs/none", "").await;
    assert_eq!((answer.code, answer.header("warning").len()), (404, 1));
}

#[tokio::test]
async fn terminating_namespace_error_names_the_generate_name_prefix() {
    let server = Server::start().await;
    assert_eq!(server.send("DELETE", "/api/v1/namespaces/n", "").await.code, 200);
    let answer = server.send("POST", MAPS, r#"{"metadata":{"generateName":"begin-"}}"#).await;
    answer.says(403, r#"configmaps \"begin-\" is forbidden: unable to create new content in namespace n"#);
}

const JOBS: &str = "/apis/batch/v1/namespaces/n/jobs";

#[tokio::test]
async fn status_update_defaults_labels_of_the_object() {
    let server = Server::start().await;
    let spec = r#"{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}"#;
    let object = format!(r#"{{"metadata":{{"name":"a"}},"spec":{spec}}}"#);
    server.send("POST", JOBS, &object).await.says(201, r#""labels":{"batch.kubernetes.io/controller-uid""#);
    // The body has no labels, neither of its own nor in its template.
    let answer = server.send("PUT", &format!("{JOBS}/a/status"), &object).await;
    let metadata = answer.text().split(r#""spec""#).next().unwrap().to_owned();
    assert!(
        answer.code == 200 && metadata.contains(r#""labels":{"batch.kubernetes.io/controller-uid""#),
        "{metadata}"
    );
}

#[tokio::test]
async fn status_put_creates_the_object_if_the_kind_allows_create_on_update() {
    let server = Server::start().await;
    let service = r#"{"metadata":{"name":"s"},"spec":{"type":"ExternalName","externalName":"a.b"}}"#;
    server.send("PUT", "/api/v1/namespaces/n/services/s/status", service).await.says(201, r#""name":"s""#);
    let job = format!("{JOBS}/none/status");
    assert_eq!(server.send("PUT", &job, r#"{"metadata":{"name":"none"}}"#).await.code, 404);
}

#[tokio::test]
async fn scale_put_with_another_namespace_is_400() {
    let server = Server::start().await;
    let scale = r#"{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d","namespace":"x"}}"#;
    let answer = server.send("PUT", "/apis/apps/v1/namespaces/n/deployments/e/scale", scale).await;
    answer.says(400, "the namespace of the provided object does not match the namespace sent on the request");
}

#[tokio::test]
async fn dry_run_conflict_names_the_key_without_the_registry_prefix() {
    let server = Server::start().await;
    server.send("POST", MAPS, r#"{"metadata":{"name":"a"}}"#).await;
    let other = r#"{"metadata":{"name":"a","uid":"other"}}"#;
    for (query, key) in [("", "Key: /registry/configmaps/n/a,"), ("?dryRun=All", "Key: /configmaps/n/a,")] {
        server.send("PUT", &format!("{MAPS}/a{query}"), other).await.says(409, key);
    }
}

#[tokio::test]
async fn delete_collection_lists_at_the_given_resource_version() {
    let server = Server::start().await;
    for (version, code) in [("0", 200), ("1", 200), ("999999", 500)] {
        let answer = server.send("DELETE", &format!("{MAPS}?resourceVersion={version}"), "").await;
        assert_eq!(answer.code, code, "{version}: {}", answer.text());
    }
}

#[tokio::test]
async fn scale_patch_of_namespace_or_uid_is_refused() {
    let server = Server::start().await;
    let path = "/apis/apps/v1/namespaces/n/deployments";
    let template = r#"{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let spec = format!(r#"{{"selector":{{"matchLabels":{{"a":"b"}}}},"template":{template}}}"#);
    let made = server.send("POST", path, &format!(r#"{{"metadata":{{"name":"d"}},"spec":{spec}}}"#)).await;
    assert_eq!(made.code, 201, "{}", made.text());
    let patch = async |patch: &str| server.send("PATCH", &format!("{path}/d/scale"), patch).await;
    patch(r#"{"metadata":{"namespace":"x"}}"#)
        .await
        .says(400, "the namespace of the provided object does not match");
    let other = patch(r#"{"metadata":{"uid":"x"}}"#).await;
    other.says(
        409,
        r#"on deployments/scale.apps \"d\": Precondition failed: UID in precondition: x, UID in object"#,
    );
    patch(r#"{"spec":{"replicas":3}}"#).await.says(200, r#""spec":{"replicas":3}"#);
}

#[tokio::test]
async fn delete_collection_in_the_empty_namespace_is_400_unless_it_is_empty() {
    let server = Server::start().await;
    let path = "/api/v1/namespaces//configmaps";
    assert_eq!(server.send("DELETE", path, "").await.code, 200);
    server.send("POST", MAPS, r#"{"metadata":{"name":"a"}}"#).await;
    server.send("DELETE", path, "").await.says(400, "Namespace parameter required.");
}

#[tokio::test]
async fn partial_object_metadata_is_refused_as_a_body() {
    let server = Server::start().await;
    let object = r#"{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{"name":"a"}}"#;
    let words = r#"no kind \"PartialObjectMetadata\" is registered for version \"meta.k8s.io/v1\" in scheme"#;
    server.send("POST", MAPS, object).await.says(400, words);
}

#[tokio::test]
async fn dry_run_needs_the_value_all() {
    let server = Server::start().await;
    let object = r#"{"metadata":{"name":"a"}}"#;
    for query in ["dryRun=", "dryRun=all", "dryRun=All&dryRun="] {
        server.send("POST", &format!("{MAPS}?{query}"), object).await.says(422, "Unsupported value");
    }
    assert_eq!(server.send("POST", &format!("{MAPS}?dryRun=All"), object).await.code, 201);
    assert_eq!(server.send("POST", &format!("{MAPS}?dryRun&pretty=true"), object).await.code, 201);
    assert_eq!(server.get(&format!("{MAPS}/a")).await.code, 200);
}

#[tokio::test]
async fn empty_managed_fields_reset_them_and_null_does_not() {
    let server = Server::start().await;
    let path = format!("{MAPS}/a");
    let object = |fields: &str| format!(r#"{{"metadata":{{"name":"a"{fields}}},"data":{{"x":"1"}}}}"#);
    for (fields, is_kept) in [("null", true), ("[]", false), ("[{}]", false)] {
        let fields = format!(r#","managedFields":{fields}"#);
        for (method, body) in
            [("PATCH", format!(r#"{{"metadata":{{"x":1{fields}}}}}"#)), ("PUT", object(&fields))]
        {
            server.send("POST", MAPS, &object("")).await.says(201, "managedFields");
            let answer = server.send(method, &path, &body).await;
            assert_eq!(answer.code, 200, "{}", answer.text());
            assert_eq!(
                answer.text().contains("managedFields"),
                is_kept,
                "{method} {body}: {}",
                answer.text()
            );
            assert_eq!(server.send("DELETE", &path, "").await.code, 200);
        }
    }
}

#[tokio::test]
async fn rollback_of_a_deployment_is_to_a_number() {
    let server = Server::start().await;
    let path = "/apis/apps/v1/namespaces/n/deployments";
    let object = |revision: &str| {
        format!(
            r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"a","annotations":{{"deprecated.deployment.rollback.to":"{revision}"}}}},
            "spec":{{"selector":{{"matchLabels":{{"a":"b"}}}},"template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}}}}}"#
        )
    };
    let why = |revision: &str, why: &str| {
        format!(
            r#"failed to parse annotation[deprecated.deployment.rollback.to]={revision} as int64: strconv.ParseInt: parsing \"{revision}\": {why}"#
        )
    };
    let syntax = why("x", "invalid syntax");
    for (revision, why) in
        [("x", &syntax), ("9223372036854775808", &why("9223372036854775808", "value out of range"))]
    {
        let refused = server.send("POST", path, &object(revision)).await;
        refused
            .says(400, &format!(r#"Deployment in version \"v1\" cannot be handled as a Deployment: {why}""#));
    }
    assert_eq!(server.send("POST", path, &object("+3")).await.code, 201);
    let path = &format!("{path}/a");
    server.send("PUT", path, &object("x")).await.says(400, &syntax);
    let patch = r#"{"metadata":{"annotations":{"deprecated.deployment.rollback.to":"x"}}}"#;
    server.send("PATCH", path, patch).await.says(422, r#" \"\" is invalid: patch: Invalid value: "#);
    for (kind, message) in [
        ("strategic-merge-patch+json", format!(r#""message":"{syntax}","code":500"#)),
        (
            "apply-patch+yaml",
            format!("failed to convert to unversioned (n/a; apps/v1, Kind=Deployment): {syntax}"),
        ),
    ] {
        let (query, body) = match kind.starts_with("apply") {
            true => ("fieldManager=m&force=true", object("x")),
            false => ("fieldManager=m", patch.to_owned()),
        };
        let request = http::Request::patch(format!("{path}?{query}"))
            .header("content-type", format!("application/{kind}"));
        server.ask(request, &body).await.says(500, &message);
    }
    let kept = server.get(path).await;
    kept.says(200, r#""deprecated.deployment.rollback.to":"3""#);
}

#[tokio::test]
async fn privileged_containers_are_refused_if_the_server_says_so() {
    let server = Server::start_with(|config| config.objects.privileged = kinds::Privileged::Refused).await;
    let container = r#"{"name":"c","image":"i","securityContext":{"privileged":true}}"#;
    let pod = format!(r#"{{"metadata":{{"name":"a"}},"spec":{{"containers":[{container}]}}}}"#);
    let refused = server.send("POST", "/api/v1/namespaces/n/pods", &pod).await;
    refused
        .says(422, "spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy");
    let template = r#"{"template":{"spec":{"restartPolicy":"Never","containers":[CONTAINER]}}}"#;
    let job = format!(r#"{{"metadata":{{"name":"a"}},"spec":{}}}"#, template.replace("CONTAINER", container));
    let refused = server.send("POST", JOBS, &job).await;
    refused.says(422, "spec.template.spec.containers[0].securityContext.privileged: Forbidden: disallowed");
    let server = Server::start().await;
    assert_eq!(server.send("POST", "/api/v1/namespaces/n/pods", &pod).await.code, 201);
    assert_eq!(server.send("POST", JOBS, &job).await.code, 201);
}

//! DELETE of objects and collections: options, propagation, answers.

use serde_json::Value;

use super::{Answer, Server};

const MAPS: &str = "/api/v1/namespaces/n/configmaps";
const PODS: &str = "/api/v1/namespaces/n/pods";

fn json(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap()
}

/// Makes a config map; what is added to its metadata begins with a comma.
async fn make_map(server: &Server, name: &str, metadata: &str) {
    let map = format!(r#"{{"metadata":{{"name":"{name}"{metadata}}}}}"#);
    server.send("POST", MAPS, &map).await.says(201, name);
}

async fn with_map(metadata: &str) -> Server {
    let server = Server::start().await;
    make_map(&server, "a", metadata).await;
    server
}

/// A server with a running pod on a node.
async fn with_pod(metadata: &str) -> Server {
    let server = Server::start().await;
    let pod = format!(
        r#"{{"metadata":{{"name":"p"{metadata}}},"spec":{{"nodeName":"a","containers":[{{"name":"c","image":"i"}}]}}}}"#
    );
    server.send("POST", PODS, &pod).await.says(201, "");
    server
}

#[tokio::test]
async fn options_are_those_of_the_body_if_there_is_one() {
    let server = with_map("").await;
    let path = format!("{MAPS}/a?dryRun=All&propagationPolicy=Wrong&uid=x");
    server.send("DELETE", &path, "{}").await.says(200, r#""status":"Success""#);
    server.get(&format!("{MAPS}/a")).await.says(404, "NotFound");
}

#[tokio::test]
async fn options_that_cannot_be_read_or_make_no_sense_are_refused() {
    let server = with_map("").await;
    let number = r#"strconv.ParseInt: parsing \"x\": invalid syntax"#;
    let both = r#"propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set"#;
    let policy = r#"propagationPolicy: Unsupported value: \"Wrong\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""#;
    let dry = r#"dryRun: Unsupported value: []string{\"Some\"}: supported values: \"All\""#;
    for (query, body, code, words) in [
        ("?gracePeriodSeconds=x", "", 400, number),
        ("?orphanDependents=true&propagationPolicy=Orphan", "", 422, both),
        ("", r#"{"orphanDependents":false,"propagationPolicy":"Orphan"}"#, 422, both),
        ("?propagationPolicy=Wrong", "", 422, policy),
        ("?propagationPolicy=", "", 422, r#"propagationPolicy: Unsupported value: \"\""#),
        ("?dryRun=Some", "", 422, dry),
        ("", r#"{"dryRun":["Some"]}"#, 422, dry),
        (
            "",
            r#"{"kind":"Pod","apiVersion":"v1"}"#,
            500,
            r#"no kind \"Pod\" is registered for version \"v1\""#,
        ),
        ("", r#"{"gracePeriodSeconds":"x"}"#, 500, "DeleteOptions.gracePeriodSeconds"),
        ("", "x", 500, "couldn't get version/kind; json parse error"),
    ] {
        let answer = server.send("DELETE", &format!("{MAPS}/a{query}"), body).await;
        answer.says(code, words);
        if code == 422 {
            answer.says(422, r#"DeleteOptions.meta.k8s.io \"\" is invalid"#);
        }
    }
    server.get(&format!("{MAPS}/a")).await.says(200, "");
}

#[tokio::test]
async fn options_of_other_groups_and_unknown_fields_are_taken() {
    for body in [
        r#"{"kind":"DeleteOptions","apiVersion":"apps/v1"}"#,
        r#"{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1","x":1}"#,
    ] {
        let server = with_map("").await;
        server.send("DELETE", &format!("{MAPS}/a"), body).await.says(200, "Success");
    }
}

#[tokio::test]
async fn preconditions_are_checked_and_empty_ones_of_the_query_are_none() {
    let server = with_map("").await;
    let path = format!("{MAPS}/a");
    let object = json(&server.get(&path).await);
    let (uid, version) = (
        object["metadata"]["uid"].as_str().unwrap().to_owned(),
        object["metadata"]["resourceVersion"].as_str().unwrap().to_owned(),
    );
    let conflict = format!(
        r#"Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (x) does not match the UID in record ({uid}). The object might have been deleted and then recreated"#
    );
    server.send("DELETE", &format!("{path}?uid=x"), "").await.says(409, &conflict);
    server.send("DELETE", &path, r#"{"preconditions":{"uid":"x"}}"#).await.says(409, &conflict);
    let conflict = format!(
        "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({version}). The object might have been modified"
    );
    server.send("DELETE", &format!("{path}?resourceVersion=1"), "").await.says(409, &conflict);
    server.send("DELETE", &path, r#"{"preconditions":{"uid":""}}"#).await.says(409, "precondition ()");
    server.send("DELETE", &format!("{path}?dryRun=All&uid=&resourceVersion="), "").await.says(200, "Success");
    let held = format!("{path}?uid={uid}&resourceVersion={version}");
    server.send("DELETE", &held, "").await.says(200, "Success");
}

#[tokio::test]
async fn propagation_is_a_finalizer_and_202_only_without_orphans() {
    for (query, code, finalizers) in [
        ("", 200, r#"["x/y"]"#),
        ("?propagationPolicy=Background", 200, r#"["x/y"]"#),
        ("?propagationPolicy=Foreground", 200, r#"["x/y","foregroundDeletion"]"#),
        ("?propagationPolicy=Orphan", 200, r#"["x/y","orphan"]"#),
        ("?orphanDependents=true", 200, r#"["x/y","orphan"]"#),
        ("?orphanDependents=false", 202, r#"["x/y"]"#),
    ] {
        let server = with_map(r#","finalizers":["x/y"]"#).await;
        let answer = server.send("DELETE", &format!("{MAPS}/a{query}"), "").await;
        answer.says(code, &format!(r#""finalizers":{finalizers}"#));
        answer.says(code, r#""deletionGracePeriodSeconds":0"#);
        // Once more, which changes nothing.
        let version = json(&answer)["metadata"]["resourceVersion"].clone();
        let again = server.send("DELETE", &format!("{MAPS}/a{query}"), "").await;
        assert_eq!((again.code, &json(&again)["metadata"]["resourceVersion"]), (code, &version), "{query}");
    }
}

#[tokio::test]
async fn without_a_garbage_collector_no_finalizers_wait_for_one() {
    for policy in ["Foreground", "Orphan", "Background"] {
        let off = registry::GarbageCollection::Off;
        let server = Server::start_with(|config| config.garbage_collection = off).await;
        make_map(&server, "a", "").await;
        let path = format!("{MAPS}/a?propagationPolicy={policy}");
        server.send("DELETE", &path, "").await.says(200, r#""status":"Success""#);
    }
}

#[tokio::test]
async fn repeated_delete_changes_the_propagation() {
    let server = with_map("").await;
    let path = format!("{MAPS}/a");
    let delete = async |policy: &str| {
        server.send("DELETE", &path, &format!(r#"{{"propagationPolicy":"{policy}"}}"#)).await
    };
    delete("Foreground").await.says(200, r#""finalizers":["foregroundDeletion"]"#);
    // Without a policy, the finalizer says what is wanted.
    server.send("DELETE", &path, "").await.says(200, r#""finalizers":["foregroundDeletion"]"#);
    delete("Orphan").await.says(200, r#""finalizers":["orphan"]"#);
    delete("Background").await.says(200, r#""status":"Success""#);
    server.get(&path).await.says(404, "");
}

#[tokio::test]
async fn dry_run_shows_the_object_where_finalizers_would_change_and_keeps_it() {
    let server = with_map(r#","finalizers":["orphan"]"#).await;
    let path = format!("{MAPS}/a");
    let shown = server.send("DELETE", &format!("{path}?dryRun=All&propagationPolicy=Background"), "").await;
    shown.says(200, r#""kind":"ConfigMap""#);
    assert_eq!(json(&shown)["metadata"].get("finalizers"), None);
    let shown = server.send("DELETE", &format!("{path}?dryRun=All"), "").await;
    shown.says(200, r#""deletionTimestamp""#);
    let kept = server.get(&path).await;
    kept.says(200, r#""finalizers":["orphan"]"#);
    assert!(!kept.text().contains("deletionTimestamp"), "{}", kept.text());
    make_map(&server, "b", "").await;
    server.send("DELETE", &format!("{MAPS}/b?dryRun=All"), "").await.says(200, r#""kind":"Status""#);
    server.get(&format!("{MAPS}/b")).await.says(200, "");
}

#[tokio::test]
async fn grace_period_of_a_pod_only_becomes_shorter() {
    let server = with_pod("").await;
    let path = format!("{PODS}/p");
    server.send("DELETE", &path, "").await.says(200, r#""deletionGracePeriodSeconds":30"#);
    let delete =
        async |seconds: i64| server.send("DELETE", &format!("{path}?gracePeriodSeconds={seconds}"), "").await;
    delete(40).await.says(200, r#""deletionGracePeriodSeconds":30"#);
    delete(20).await.says(200, r#""deletionGracePeriodSeconds":20"#);
    delete(-5).await.says(200, r#""deletionGracePeriodSeconds":1,"#);
    delete(0).await.says(200, r#""kind":"Pod""#);
    server.get(&path).await.says(404, "");
}

#[tokio::test]
async fn pod_with_a_finalizer_waits_for_it_after_its_grace_period() {
    let server = with_pod(r#","finalizers":["x/y"]"#).await;
    let path = format!("{PODS}/p");
    server
        .send("DELETE", &format!("{path}?gracePeriodSeconds=0"), "")
        .await
        .says(200, r#""deletionGracePeriodSeconds":0"#);
    server.send("PATCH", &path, r#"{"metadata":{"finalizers":null}}"#).await.says(200, "");
    server.get(&path).await.says(404, "");
}

#[tokio::test]
async fn object_that_is_being_deleted_gets_no_new_finalizers() {
    let server = with_map(r#","finalizers":["x/y","x/z"]"#).await;
    let path = format!("{MAPS}/a");
    server.send("DELETE", &path, "").await.says(200, "deletionTimestamp");
    let more = server.send("PATCH", &path, r#"{"metadata":{"finalizers":["x/y","x/z","x/w"]}}"#).await;
    more.says(
        422,
        r#"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"x/w\"}"#,
    );
    server
        .send("PATCH", &path, r#"{"metadata":{"deletionTimestamp":null}}"#)
        .await
        .says(200, "deletionTimestamp");
    server
        .send("PATCH", &path, r#"{"metadata":{"finalizers":["x/z"]},"data":{"k":"v"}}"#)
        .await
        .says(200, "x/z");
    server.send("POST", MAPS, r#"{"metadata":{"name":"a"}}"#).await.says(409, "object is being deleted: ");
    let last = server.send("PATCH", &path, r#"{"metadata":{"finalizers":[]}}"#).await;
    last.says(200, r#""kind":"ConfigMap""#);
    server.get(&path).await.says(404, "");
}

#[tokio::test]
async fn namespace_is_marked_first_and_has_finalizers_of_its_own_rules() {
    for (query, code, finalizers) in [
        ("", 200, None),
        ("?propagationPolicy=Background", 200, None),
        ("?propagationPolicy=Foreground", 200, Some(r#""finalizers":["foregroundDeletion"]"#)),
        ("?orphanDependents=true", 200, Some(r#""finalizers":["orphan"]"#)),
        ("?orphanDependents=false", 202, Some(r#""finalizers":["foregroundDeletion"]"#)),
    ] {
        let server = Server::start().await;
        let answer = server.send("DELETE", &format!("/api/v1/namespaces/n{query}"), "").await;
        answer.says(code, r#""phase":"Terminating""#);
        let metadata = json(&answer)["metadata"].to_string();
        match finalizers {
            Some(finalizers) => assert!(metadata.contains(finalizers), "{query}: {metadata}"),
            None => assert!(!metadata.contains("finalizers"), "{query}: {metadata}"),
        }
        assert!(!metadata.contains("deletionGracePeriodSeconds"), "{metadata}");
        // It has its content to wait for.
        server.send("DELETE", "/api/v1/namespaces/n", "").await.says(200, r#""phase":"Terminating""#);
    }
    let server = Server::start().await;
    let refused = server.send("DELETE", "/api/v1/namespaces/n?uid=x", "").await;
    refused
        .says(409, r#"namespaces \"n\": Precondition failed: UID in precondition: x, UID in object meta: "#);
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[tokio::test]
async fn definition_is_marked_first_and_propagates_from_the_second_delete_on() {
    let server = Server::start().await;
    let crd = r#"{"metadata":{"name":"as.g.io"},"spec":{"group":"g.io","scope":"Namespaced","names":{"plural":"as","kind":"A"},
        "versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}"#;
    server.send("POST", CRDS, crd).await.says(201, "");
    let path = format!("{CRDS}/as.g.io");
    let refused = server.send("DELETE", &format!("{path}?resourceVersion=1"), "").await;
    refused.says(409, r#"customresourcedefinitions.apiextensions.k8s.io \"as.g.io\": Precondition failed: ResourceVersion in precondition: 1, "#);
    let marked = server.send("DELETE", &format!("{path}?propagationPolicy=Foreground"), "").await;
    marked.says(200, r#""finalizers":["customresourcecleanup.apiextensions.k8s.io"]"#);
    marked.says(200, "InstanceDeletionPending");
    assert!(!marked.text().contains("deletionGracePeriodSeconds"), "{}", marked.text());
    let again = server.send("DELETE", &format!("{path}?propagationPolicy=Foreground"), "").await;
    again.says(200, r#""finalizers":["customresourcecleanup.apiextensions.k8s.io","foregroundDeletion"]"#);
    again.says(200, r#""deletionGracePeriodSeconds":0"#);
    server.send("PATCH", &path, r#"{"metadata":{"finalizers":null}}"#).await.says(200, "");
    server.get(&path).await.says(404, "");
}

#[tokio::test]
async fn system_priority_class_is_not_deleted_by_its_name() {
    let server = Server::start().await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let refused = server.send("DELETE", &format!("{classes}/system-node-critical"), "").await;
    refused.says(
        403,
        r#"priorityclasses.scheduling.k8s.io \"system-node-critical\" is forbidden: this is a system priority class and cannot be deleted"#,
    );
    server.send("DELETE", &format!("{classes}/other"), "").await.says(404, "");
}

#[tokio::test]
async fn collection_is_deleted_by_selectors_and_in_chunks() {
    let server = Server::start().await;
    for name in ["a", "b", "c", "d"] {
        make_map(&server, name, if name == "d" { "" } else { r#","labels":{"x":"y"}"# }).await;
    }
    let names = |answer: &Answer| -> Vec<String> {
        let list = json(answer);
        assert_eq!(answer.code, 200, "{list}");
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let dry = server.send("DELETE", &format!("{MAPS}?dryRun=All"), "").await;
    assert_eq!(names(&dry), ["a", "b", "c", "d"]);
    server.send("DELETE", &format!("{MAPS}?limit=x"), "").await.says(400, "ParseInt");
    server
        .send("DELETE", &format!("{MAPS}?resourceVersionMatch=Exact"), "")
        .await
        .says(422, "ListOptions.meta.k8s.io");
    server.send("DELETE", &format!("{MAPS}?fieldSelector=x%3Dy"), "").await.says(400, "");
    let chunk = server.send("DELETE", &format!("{MAPS}?labelSelector=x%3Dy&limit=2"), "").await;
    assert_eq!(names(&chunk), ["a", "b"]);
    let token = json(&chunk)["metadata"]["continue"].as_str().unwrap().to_owned();
    let rest =
        server.send("DELETE", &format!("{MAPS}?labelSelector=x%3Dy&limit=2&continue={token}"), "").await;
    assert_eq!(names(&rest), ["c"]);
    assert_eq!(json(&rest)["metadata"].get("continue"), None);
    assert_eq!(names(&server.get(MAPS).await), ["d"]);
    let one = server.send("DELETE", &format!("{MAPS}?fieldSelector=metadata.name%3Dd"), "").await;
    assert_eq!(names(&one), ["d"]);
    assert_eq!(names(&server.get(MAPS).await), [""; 0]);
}

#[tokio::test]
async fn collection_of_a_resource_version_is_that_state() {
    let server = with_map("").await;
    let version = json(&server.get(MAPS).await)["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    make_map(&server, "b", "").await;
    server.send("DELETE", &format!("{MAPS}/a"), "").await.says(200, "");
    let answer = server.send("DELETE", &format!("{MAPS}?resourceVersion={version}"), "{}").await;
    answer.says(200, r#""name":"a""#);
    server.get(MAPS).await.says(200, r#""name":"b""#);
}

use super::Server;

const PODS: &str = "/api/v1/namespaces/n/pods";

async fn with_pod(spec: &str) -> Server {
    let server = Server::start().await;
    let pod = format!(
        r#"{{"metadata":{{"name":"p","annotations":{{"own":"1"}}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]{spec}}}}}"#
    );
    let made = server.send("POST", PODS, &pod).await;
    assert_eq!(made.code, 201, "{}", made.text());
    server
}

fn binding(metadata: &str, target: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Binding","metadata":{{"name":"p"{metadata}}},"target":{{{target}}}}}"#
    )
}

const NODE: &str = r#""kind":"Node","name":"a""#;

#[tokio::test]
async fn binding_assigns_the_pod_to_the_node() {
    let server = with_pod("").await;
    let path = format!("{PODS}/p/binding");
    let bound = binding(r#","annotations":{"brought":"2"}"#, NODE);
    server
        .send("POST", &format!("{path}?dryRun=All"), &bound)
        .await
        .says(201, r#""status":"Success","code":201"#);
    assert!(!server.get(&format!("{PODS}/p")).await.text().contains("nodeName"));
    let table = http::Request::post(format!("{path}?dryRun=All"))
        .header("content-type", "application/json")
        .header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1");
    assert_eq!(server.ask(table, &bound).await.code, 406);
    server.send("POST", &path, &bound).await.says(201, r#""status":"Success","code":201"#);
    let pod = server.get(&format!("{PODS}/p")).await;
    pod.says(200, r#""nodeName":"a""#);
    pod.says(200, r#""annotations":{"brought":"2","own":"1"}"#);
    pod.says(200, r#""conditions":[{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2"#);
    server
        .send("POST", &path, &bound)
        .await
        .says(409, r#"on pods/binding \"p\": pod p is already assigned to node \"a\""#);
}

#[tokio::test]
async fn binding_replaces_the_pod_scheduled_condition() {
    let server = with_pod("").await;
    let said = r#"{"status":{"conditions":[
        {"type":"PodScheduled","status":"False","reason":"Unschedulable","lastTransitionTime":"2020-01-01T00:00:00Z"},
        {"type":"Ready","status":"False"}]}}"#;
    assert_eq!(server.send("PATCH", &format!("{PODS}/p/status"), said).await.code, 200);
    assert_eq!(server.send("POST", &format!("{PODS}/p/binding"), &binding("", NODE)).await.code, 201);
    let text = server.get(&format!("{PODS}/p")).await.text();
    assert!(!text.contains("Unschedulable") && !text.contains("2020-01-01"), "{text}");
    assert!(text.contains(r#""type":"Ready""#), "{text}");
}

#[tokio::test]
async fn invalid_bindings_have_the_errors_of_the_reference() {
    let server = with_pod("").await;
    for (metadata, target, code, words) in [
        ("", r#""kind":"Node""#, 500, "target.name: Required value"),
        (
            "",
            r#""kind":"Pod","name":"x""#,
            500,
            r#"target.kind: Unsupported value: \"Pod\": supported values: \"Node\""#,
        ),
        (r#","namespace":"x""#, NODE, 400, "the namespace of the provided object does not match"),
        (r#","uid":"x""#, NODE, 409, "UID in precondition: x, UID in object meta: "),
        (
            r#","resourceVersion":"1""#,
            NODE,
            409,
            "ResourceVersion in precondition: 1, ResourceVersion in object meta: ",
        ),
    ] {
        server.send("POST", &format!("{PODS}/p/binding"), &binding(metadata, target)).await.says(code, words);
    }
    let path = format!("{PODS}/other/binding");
    server
        .send("POST", &path, &binding("", NODE))
        .await
        .says(400, "name in URL does not match name in Binding object");
    let other = binding("", NODE).replace(r#""name":"p""#, r#""name":"other""#);
    server.send("POST", &path, &other).await.says(404, r#"pods \"other\" not found"#);
}

#[tokio::test]
async fn pod_with_scheduling_gates_is_not_bound() {
    let server = with_pod(r#","schedulingGates":[{"name":"x.io/y"}]"#).await;
    let answer = server.send("POST", &format!("{PODS}/p/binding"), &binding("", NODE)).await;
    answer.says(409, "pod p has non-empty .spec.schedulingGates");
}

#[tokio::test]
async fn binding_by_name_is_no_table_and_its_uid_is_no_precondition() {
    let server = with_pod("").await;
    let path = PODS.replace("pods", "bindings");
    let bound = binding(r#","uid":"x""#, NODE);
    let table = http::Request::post(&path)
        .header("content-type", "application/json")
        .header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1");
    assert_eq!(server.ask(table, &bound).await.code, 406);
    server.send("POST", &path, &bound).await.says(201, r#""status":"Success","code":201"#);
    server.get(&format!("{PODS}/p")).await.says(200, r#""nodeName":"a""#);
}

#[tokio::test]
async fn repeated_owners_of_a_binding_are_warned_of() {
    let server = with_pod("").await;
    let owner = r#"{"apiVersion":"v1","kind":"K","name":"o","uid":"u"}"#;
    let bound = binding(&format!(r#","ownerReferences":[{owner},{owner}]"#), NODE);
    let answer = server.send("POST", &format!("{PODS}/p/binding"), &bound).await;
    answer.says(201, "Success");
    let warnings = answer.header("warning");
    assert!(warnings.iter().any(|warning| warning.contains("duplicate UID(s) observed: u")), "{warnings:?}");
}

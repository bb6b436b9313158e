use super::Server;

const PODS: &str = "/api/v1/namespaces/n/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/n/poddisruptionbudgets";
const EVICTION: &str = r#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}"#;

/// A server with a pod on a node, in a phase.
async fn with_pod(status: &str) -> Server {
    let server = Server::start().await;
    let pod = r#"{"metadata":{"name":"p","labels":{"app":"x"}},"spec":{"nodeName":"a","containers":[{"name":"c","image":"i"}]}}"#;
    let made = server.send("POST", PODS, pod).await;
    assert_eq!(made.code, 201, "{}", made.text());
    let status = format!(r#"{{"status":{status}}}"#);
    assert_eq!(server.send("PATCH", &format!("{PODS}/p/status"), &status).await.code, 200);
    server
}

const READY: &str = r#"{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}"#;

/// Makes a budget for the pod, with a status.
async fn budget(server: &Server, name: &str, spec: &str, status: &str) {
    let budget = format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"minAvailable":1,"selector":{{"matchLabels":{{"app":"x"}}}}{spec}}}}}"#
    );
    let made = server.send("POST", BUDGETS, &budget).await;
    assert_eq!(made.code, 201, "{}", made.text());
    let status = format!(r#"{{"status":{status}}}"#);
    assert_eq!(server.send("PATCH", &format!("{BUDGETS}/{name}/status"), &status).await.code, 200);
}

async fn evict(server: &Server, query: &str, eviction: &str) -> super::Answer {
    server.send("POST", &format!("{PODS}/p/eviction{query}"), eviction).await
}

#[tokio::test]
async fn running_pod_without_a_budget_is_marked_and_deleted_with_the_options_of_the_eviction() {
    let server = with_pod(READY).await;
    evict(&server, "?dryRun=All", EVICTION).await.says(201, r#""status":"Success","code":201"#);
    assert!(!server.get(&format!("{PODS}/p")).await.text().contains("deletionTimestamp"));
    let eviction = r#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"},"deleteOptions":{"gracePeriodSeconds":7}}"#;
    evict(&server, "", eviction).await.says(201, r#""status":"Success","code":201"#);
    let pod = server.get(&format!("{PODS}/p")).await;
    pod.says(200, r#""deletionGracePeriodSeconds":7"#);
    pod.says(200, r#""type":"DisruptionTarget","status":"True""#);
    pod.says(200, r#""reason":"EvictionByEvictionAPI","message":"Eviction API: evicting""#);
}

#[tokio::test]
async fn finished_and_deleting_pods_go_whatever_the_budget() {
    for phase in ["Succeeded", "Failed", "Pending"] {
        let server = with_pod(&format!(r#"{{"phase":"{phase}"}}"#)).await;
        budget(&server, "b", "", "{}").await;
        evict(&server, "", EVICTION).await.says(201, "Success");
        let pod = server.get(&format!("{PODS}/p")).await;
        assert!(pod.code == 404 || pod.text().contains("deletionTimestamp"), "{phase}: {}", pod.text());
        let again = evict(&server, "", EVICTION).await;
        assert!(matches!(again.code, 201 | 404), "{phase}: {}", again.text());
    }
}

#[tokio::test]
async fn budget_is_asked_and_pays() {
    let server = with_pod(READY).await;
    budget(&server, "b", "", "{}").await;
    evict(&server, "", EVICTION).await.says(
        429,
        r#""causes":[{"reason":"DisruptionBudget","message":"The disruption budget b is still being processed by the server."}],"retryAfterSeconds":10"#,
    );
    let status = |text: &str| format!(r#"{{"status":{text}}}"#);
    let path = format!("{BUDGETS}/b/status");
    server
        .send("PATCH", &path, &status(r#"{"observedGeneration":1,"desiredHealthy":1,"currentHealthy":1}"#))
        .await;
    evict(&server, "", EVICTION)
        .await
        .says(429, "The disruption budget b needs 1 healthy pods and has 1 currently");
    server.send("PATCH", &path, &status(r#"{"disruptionsAllowed":2,"currentHealthy":3}"#)).await;
    evict(&server, "?dryRun=All", EVICTION).await.says(201, "Success");
    server.get(&format!("{BUDGETS}/b")).await.says(200, r#""disruptionsAllowed":2"#);
    evict(&server, "", EVICTION).await.says(201, "Success");
    let paid = server.get(&format!("{BUDGETS}/b")).await;
    paid.says(200, r#""disruptionsAllowed":1"#);
    paid.says(200, r#""disruptedPods":{"p":"2"#);
    assert!(!paid.text().contains("InsufficientPods"));
    paid.says(200, r#""manager":"kube-apiserver""#);
}

#[tokio::test]
async fn last_disruption_of_a_budget_sets_its_condition() {
    let server = with_pod(READY).await;
    let one_left = r#"{"observedGeneration":1,"disruptionsAllowed":1,"desiredHealthy":1,"currentHealthy":2}"#;
    budget(&server, "b", "", one_left).await;
    evict(&server, "", EVICTION).await.says(201, "Success");
    let paid = server.get(&format!("{BUDGETS}/b")).await;
    paid.says(200, r#""disruptionsAllowed":0"#);
    paid.says(200, r#""type":"DisruptionAllowed","status":"False","observedGeneration":1"#);
    paid.says(200, r#""reason":"InsufficientPods""#);
}

#[tokio::test]
async fn overfull_budgets_refuse_and_two_are_an_error() {
    let server = with_pod(READY).await;
    budget(&server, "b", "", r#"{"observedGeneration":1,"disruptionsAllowed":1}"#).await;
    let pods: Vec<String> = (0..2001).map(|n| format!(r#""q{n}":"2020-01-01T00:00:00Z""#)).collect();
    let full = format!(r#"{{"status":{{"disruptionsAllowed":1,"disruptedPods":{{{}}}}}}}"#, pods.join(","));
    server.send("PATCH", &format!("{BUDGETS}/b/status"), &full).await;
    evict(&server, "", EVICTION).await.says(403, "DisruptedPods map too big");
    budget(&server, "c", "", "{}").await;
    evict(&server, "", EVICTION).await.says(500, "This pod has more than one PodDisruptionBudget");
    server.get(&format!("{PODS}/p")).await.says(200, r#""phase":"Running""#);
}

#[tokio::test]
async fn unready_pod_goes_as_the_policy_of_its_budget_says() {
    let running = r#"{"phase":"Running","conditions":[{"type":"Ready","status":"False"}]}"#;
    // The policy, the status of the budget, and whether the pod goes.
    let cases = [
        ("", r#"{"observedGeneration":1,"desiredHealthy":1,"currentHealthy":0}"#, false),
        ("", r#"{"observedGeneration":1,"desiredHealthy":1,"currentHealthy":1}"#, true),
        ("", r#"{"observedGeneration":1,"desiredHealthy":0,"currentHealthy":1}"#, false),
        (r#","unhealthyPodEvictionPolicy":"AlwaysAllow""#, "{}", true),
    ];
    for (policy, status, goes) in cases {
        let server = with_pod(running).await;
        budget(&server, "b", policy, status).await;
        let answer = evict(&server, "", EVICTION).await;
        assert_eq!(answer.code, if goes { 201 } else { 429 }, "{policy} {status}: {}", answer.text());
        let pod = server.get(&format!("{PODS}/p")).await.text();
        assert_eq!(pod.contains("deletionTimestamp"), goes, "{policy} {status}");
        let paid = server.get(&format!("{BUDGETS}/b")).await.text();
        assert!(!paid.contains("disruptedPods"), "{paid}");
    }
}

#[tokio::test]
async fn eviction_checks_its_name_options_and_preconditions() {
    let server = with_pod(READY).await;
    let with = |rest: &str| {
        format!(
            r#"{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"p"}},"deleteOptions":{{{rest}}}}}"#
        )
    };
    let other = r#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"other"}}"#;
    evict(&server, "", other).await.says(400, "name in URL does not match name in Eviction object");
    evict(&server, "?dryRun=All", &EVICTION.replace("policy/v1", "policy/v1beta1"))
        .await
        .says(201, "Success");
    let absent = format!("{PODS}/absent/eviction");
    let eviction = EVICTION.replace("\"p\"", "\"absent\"");
    server.send("POST", &absent, &eviction).await.says(404, r#"pods \"absent\" not found"#);
    evict(&server, "?dryRun=All", &with(r#""propagationPolicy":"x""#)).await.says(422, "Unsupported value");
    evict(&server, "?dryRun=All", &with(r#""dryRun":["Bad"]"#))
        .await
        .says(500, "Non-matching dry-run options in request and content: [All] and [Bad]");
    evict(&server, "", &with(r#""ignoreStoreReadErrorWithClusterBreakingPotential":true"#)).await.says(
        422,
        r#"Eviction.policy \"p\" is invalid: deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true"#,
    );
    evict(&server, "", &with(r#""preconditions":{"uid":"u"}"#))
        .await
        .says(409, r#"Operation cannot be fulfilled on Pod \"p\": the UID in the precondition (u)"#);
    evict(&server, "", &with(r#""preconditions":{"resourceVersion":"1"}"#))
        .await
        .says(409, "the ResourceVersion in the precondition (1)");
    let pod = server.get(&format!("{PODS}/p")).await.text();
    assert!(!pod.contains("DisruptionTarget"), "{pod}");
}

//! Reviews: questions that are answered and not stored.

use super::Server;

const ACCESS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const LOCAL: &str = "/apis/authorization.k8s.io/v1/namespaces/n/localsubjectaccessreviews";
const SELF: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const RULES: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
const TOKEN: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

#[tokio::test]
async fn self_subject_review_shows_the_caller_and_nothing_of_the_body() {
    let server = Server::start().await;
    let made =
        server.send("POST", WHO, r#"{"metadata":{"name":"x"},"status":{"userInfo":{"username":"y"}}}"#).await;
    made.says(201, r#""status":{"userInfo":{"username":"admin","groups":["system:authenticated"]}}"#);
    made.says(201, r#""kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1""#);
    assert!(!made.text().contains(r#""name":"x""#), "{}", made.text());
}

#[tokio::test]
async fn token_review_of_an_unknown_token_says_so() {
    let server = Server::start().await;
    let made = server.send("POST", TOKEN, r#"{"spec":{"token":"t"},"status":{"authenticated":true}}"#).await;
    made.says(201, r#""status":{"user":{},"error":"invalid bearer token"}"#);
    server.send("POST", TOKEN, "{}").await.says(400, "token is required for TokenReview in authentication");
    server.send("GET", TOKEN, "").await.says(405, "MethodNotAllowed");
}

#[tokio::test]
async fn access_review_is_answered_with_its_spec_and_managed_fields() {
    let server = Server::start().await;
    let body = r#"{"spec":{"user":"a","resourceAttributes":{"verb":"get","resource":"pods"}}}"#;
    let made = server.send("POST", ACCESS, body).await;
    made.says(201, r#""spec":{"resourceAttributes":{"verb":"get","resource":"pods"},"user":"a"},"status":{"allowed":true}"#);
    made.says(201, r#""managedFields":[{"#);
    let own = r#"{"spec":{"nonResourceAttributes":{"path":"/x","verb":"get"}}}"#;
    server.send("POST", SELF, own).await.says(201, r#""status":{"allowed":true}"#);
}

#[tokio::test]
async fn access_review_that_cannot_be_answered_is_422_without_a_kind() {
    let server = Server::start().await;
    let both =
        r#"{"spec":{"user":"a","resourceAttributes":{},"nonResourceAttributes":{"path":"/","verb":"get"}}}"#;
    for (path, body, says) in [
        (ACCESS, "{}", r#"exactly one of nonResourceAttributes or resourceAttributes must be specified"#),
        (ACCESS, "{}", r#"spec.user: Invalid value: \"\": at least one of user or group must be specified"#),
        (
            ACCESS,
            both,
            r#"Invalid value: authorization.NonResourceAttributes{Path:\"/\", Verb:\"get\"}: cannot be specified"#,
        ),
        (ACCESS, r#"{"metadata":{"name":"x"},"spec":{"user":"a","resourceAttributes":{}}}"#, "must be empty"),
        (
            LOCAL,
            r#"{"spec":{"user":"a","resourceAttributes":{"namespace":"x"}}}"#,
            r#"spec.resourceAttributes.namespace: Invalid value: \"x\": must match metadata.namespace"#,
        ),
        (LOCAL, r#"{"spec":{"user":"a","nonResourceAttributes":{}}}"#, "disallowed on this kind of request"),
        (
            SELF,
            r#"{"spec":{"resourceAttributes":{"fieldSelector":{}}}}"#,
            "spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required",
        ),
        (
            SELF,
            r#"{"spec":{"resourceAttributes":{"labelSelector":{"requirements":[{"key":"a","operator":"In"}]}}}}"#,
            "spec.resourceAttributes.labelSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
    ] {
        let refused = server.send("POST", path, body).await;
        refused.says(422, says);
        refused.says(422, r#""message":".authorization.k8s.io \"\" is invalid: "#);
    }
}

#[tokio::test]
async fn fields_that_only_the_server_sets_are_not_counted_as_metadata_of_a_review() {
    let server = Server::start().await;
    let body = r#"{"metadata":{"uid":"u","selfLink":"/x","creationTimestamp":"2030-01-01T00:00:00Z","deletionTimestamp":"2030-01-01T00:00:00Z",
        "deletionGracePeriodSeconds":1},"spec":{"nonResourceAttributes":{"path":"/x","verb":"get"}}}"#;
    server.send("POST", SELF, body).await.says(201, r#""status":{"allowed":true}"#);
}

#[tokio::test]
async fn reviews_are_no_tables() {
    let server = Server::start().await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let body = r#"{"spec":{"nonResourceAttributes":{"path":"/x","verb":"get"}}}"#;
    let ask = |accept: String| {
        http::Request::post(SELF).header("content-type", "application/json").header("accept", accept)
    };
    server.ask(ask(table.to_owned()), body).await.says(406, "only the following media types are accepted");
    let either = ask(format!("{table},application/json"));
    server.ask(either, body).await.says(201, r#""kind":"SelfSubjectAccessReview""#);
}

#[tokio::test]
async fn selector_that_cannot_be_read_is_reported_and_does_not_narrow_the_question() {
    let server = Server::start().await;
    let body = r#"{"spec":{"resourceAttributes":{"verb":"list","resource":"pods","fieldSelector":{"rawSelector":"!!"},
        "labelSelector":{"requirements":[{"key":"a","operator":"Exists"},{"key":"b","operator":"Near"}]}}}}"#;
    server.send("POST", SELF, body).await.says(
        201,
        "spec.resourceAttributes.fieldSelector ignored due to parse error; spec.resourceAttributes.labelSelector partially ignored due to parse error",
    );
}

#[tokio::test]
async fn access_reviews_lose_their_selectors_where_authorization_has_none() {
    let without = |config: &mut registry::Config| {
        config.authorizer = config.authorizer.clone().without_selectors();
    };
    let server = Server::start_with(without).await;
    // Neither is checked, nor parsed, nor shown.
    let selectors = r#""fieldSelector":{},"labelSelector":{"rawSelector":"!!","requirements":[{"key":"a"}]}"#;
    for (path, user) in [(ACCESS, r#""user":"a","#), (SELF, ""), (LOCAL, r#""user":"a","#)] {
        let namespace = if path == LOCAL { r#","namespace":"n""# } else { "" };
        let attributes = format!(r#""verb":"list","resource":"pods"{namespace}"#);
        let body = format!(r#"{{"spec":{{{user}"resourceAttributes":{{{attributes},{selectors}}}}}}}"#);
        let made = server.send("POST", path, &body).await;
        made.says(201, r#""status":{"allowed":true}"#);
        made.says(201, r#""resource":"pods""#);
        // Managed fields have what the client sent.
        assert!(!made.text().contains(r#""fieldSelector":"#), "{}", made.text());
        assert!(!made.text().contains(r#""labelSelector":"#), "{}", made.text());
    }
}

#[tokio::test]
async fn rules_review_lists_rules_and_needs_a_namespace() {
    let server = Server::start().await;
    server.send("POST", RULES, "{}").await.says(400, "no namespace on request");
    server.send("POST", RULES, r#"{"spec":{"namespace":"n"}}"#).await.says(
        201,
        r#""spec":{},"status":{"resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}],"nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["*"]}],"incomplete":false}"#,
    );
}

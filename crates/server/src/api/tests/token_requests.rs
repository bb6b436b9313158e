use super::{Answer, Server};
use auth::jwt::{Algorithm, KeySet, SigningKey, Unverified};
use auth::service_account::{Discovery, Issuer, Published, TokenIssuer};
use object::Value;
use registry::TokenIssuing;
use std::sync::Arc;

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
const ACCOUNTS: &str = "/api/v1/namespaces/n/serviceaccounts";

fn issuing() -> TokenIssuing {
    let key = SigningKey::from_pem(SigningKey::generate().unwrap().as_bytes()).unwrap();
    let keys = KeySet::new(vec![key.public().clone()]);
    TokenIssuing {
        issuer: TokenIssuer::Own(Issuer { name: ISSUER.into(), key }),
        audiences: vec![ISSUER.into()],
        longest: None,
        extends: true,
        discovery: Some(Published::Fixed(Arc::new(
            Discovery::new(ISSUER, None, "127.0.0.1:6443", &keys).unwrap(),
        ))),
        longest_extended: TokenIssuing::EXTENDED_LIFETIME,
    }
}

/// A server with the service account `a`.
async fn start(change: impl FnOnce(&mut TokenIssuing)) -> Server {
    let mut issuing = issuing();
    change(&mut issuing);
    let server = Server::start_with(|config| config.tokens = Some(issuing)).await;
    server.send("POST", ACCOUNTS, r#"{"metadata":{"name":"a"}}"#).await.says(201, "");
    server
}

async fn request(server: &Server, spec: &str) -> Answer {
    server.send("POST", &format!("{ACCOUNTS}/a/token"), &format!(r#"{{"spec":{spec}}}"#)).await
}

/// The claims of the token of an answer, whose signature is that of the server.
async fn claims(server: &Server, answer: &Answer) -> Value {
    let keys = server.get("/openid/v1/jwks").await;
    let keys = KeySet::from_jwks(&keys.body).unwrap();
    let text = answer.text();
    let (_, token) = text.split_once(r#""token":""#).unwrap();
    let (token, _) = token.split_once('"').unwrap();
    let claims = Unverified::parse(token).unwrap().verify(keys.keys(), &Algorithm::ALL).unwrap();
    claims.all().clone().into()
}

fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('/').try_fold(value, |value, key| value.get(key))
}

#[tokio::test]
async fn request_is_answered_with_its_defaults_and_a_token() {
    let server = start(|_| {}).await;
    let answer = server.send("POST", &format!("{ACCOUNTS}/a/token"), r#"{"status":{"token":"mine"}}"#).await;
    answer.says(201, r#"{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{"#);
    answer.says(201, r#""name":"a","namespace":"n","creationTimestamp":"20"#);
    let spec =
        format!(r#""spec":{{"audiences":["{ISSUER}"],"expirationSeconds":3600,"boundObjectRef":null}}"#);
    answer.says(201, &spec);
    answer.says(201, r#""subresource":"token""#);
    answer.says(201, r#""f:spec":{"f:expirationSeconds":{}}"#);
    let claims = claims(&server, &answer).await;
    let account = server.get(&format!("{ACCOUNTS}/a")).await.text();
    let uid = at(&claims, "kubernetes.io/serviceaccount/uid").and_then(Value::as_str).unwrap();
    assert!(account.contains(&format!(r#""uid":"{uid}""#)), "{account}");
    assert_eq!(at(&claims, "sub").and_then(Value::as_str), Some("system:serviceaccount:n:a"));
    let time = |key: &str| at(&claims, key).and_then(Value::as_i64).unwrap();
    assert_eq!(time("exp") - time("iat"), 3600);
    assert_eq!(at(&claims, "jti").and_then(Value::as_str).map(str::len), Some(36));
}

#[tokio::test]
async fn server_without_an_issuer_does_not_serve_tokens() {
    let server = Server::start().await;
    server.send("POST", ACCOUNTS, r#"{"metadata":{"name":"a"}}"#).await.says(201, "");
    request(&server, "{}").await.says(404, "the server could not find the requested resource");
    assert_eq!(server.get("/openid/v1/jwks").await.code, 404);
    assert!(!server.get("/").await.text().contains("openid"));
}

#[tokio::test]
async fn lifetime_has_bounds() {
    let server = start(|_| {}).await;
    let asked = async |seconds: i64| request(&server, &format!(r#"{{"expirationSeconds":{seconds}}}"#)).await;
    asked(599).await.says(
        422,
        r#"TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"#,
    );
    asked(600).await.says(201, r#""expirationSeconds":600"#);
    asked(1 << 32).await.says(201, r#""expirationSeconds":4294967296"#);
    asked((1 << 32) + 1).await.says(422, "may not specify a duration larger than 2^32 seconds");
}

#[tokio::test]
async fn lifetime_is_shortened_to_the_longest_with_a_warning() {
    let server = start(|issuing| issuing.longest = Some(7200)).await;
    let answer = request(&server, r#"{"expirationSeconds":9000}"#).await;
    answer.says(201, r#""expirationSeconds":7200"#);
    assert_eq!(
        answer.header("warning"),
        [r#"299 - "requested expiration of 9000 seconds shortened to 7200 seconds""#]
    );
    let claims = claims(&server, &answer).await;
    let time = |key: &str| at(&claims, key).and_then(Value::as_i64).unwrap();
    assert_eq!(time("exp") - time("iat"), 7200);
    assert!(request(&server, r#"{"expirationSeconds":7200}"#).await.header("warning").is_empty());
}

#[tokio::test]
async fn names_have_to_be_those_of_the_path() {
    let server = start(|_| {}).await;
    let path = format!("{ACCOUNTS}/a/token");
    server.send("POST", &path, r#"{"metadata":{"name":"b"}}"#).await.says(
        422,
        r#"TokenRequest.authentication.k8s.io \"a\" is invalid: metadata.name: Invalid value: \"b\": must match the service account name if specified"#,
    );
    server
        .send("POST", &path, r#"{"metadata":{"namespace":"m"}}"#)
        .await
        .says(400, "does not match the namespace");
    server
        .send("POST", &format!("{ACCOUNTS}/b/token"), "{}")
        .await
        .says(404, r#"serviceaccounts \"b\" not found"#);
}

/// Makes a pod of an account, on a node.
async fn pod(server: &Server, account: &str) {
    let pod = format!(
        r#"{{"metadata":{{"name":"p"}},"spec":{{"serviceAccountName":"{account}","nodeName":"x","containers":[{{"name":"c","image":"i"}}]}}}}"#
    );
    server.send("POST", "/api/v1/namespaces/n/pods", &pod).await.says(201, "");
}

#[tokio::test]
async fn token_is_bound_to_the_object_that_the_request_names() {
    let server = start(|_| {}).await;
    pod(&server, "a").await;
    let answer = request(&server, r#"{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p"}}"#).await;
    let token = claims(&server, &answer).await;
    assert_eq!(at(&token, "kubernetes.io/pod/name").and_then(Value::as_str), Some("p"));
    assert_eq!(
        at(&token, "kubernetes.io/node/name").and_then(Value::as_str),
        Some("x"),
        "though it is not there"
    );
    assert_eq!(at(&token, "kubernetes.io/node/uid"), None);
    server.send("POST", "/api/v1/nodes", r#"{"metadata":{"name":"x"}}"#).await.says(201, "");
    let answer = request(&server, r#"{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p"}}"#).await;
    assert!(at(&claims(&server, &answer).await, "kubernetes.io/node/uid").is_some());
    let answer = request(&server, r#"{"boundObjectRef":{"kind":"Node","name":"x"}}"#).await;
    let token = claims(&server, &answer).await;
    assert!(at(&token, "kubernetes.io/node/uid").is_some() && at(&token, "kubernetes.io/pod").is_none());
    server.send("POST", "/api/v1/namespaces/n/secrets", r#"{"metadata":{"name":"s"}}"#).await.says(201, "");
    let answer = request(&server, r#"{"boundObjectRef":{"kind":"Secret","name":"s"}}"#).await;
    assert_eq!(
        at(&claims(&server, &answer).await, "kubernetes.io/secret/name").and_then(Value::as_str),
        Some("s")
    );
}

#[tokio::test]
async fn object_that_a_token_cannot_be_bound_to_is_refused() {
    let server = start(|_| {}).await;
    pod(&server, "default").await;
    let bound =
        async |reference: &str| request(&server, &format!(r#"{{"boundObjectRef":{{{reference}}}}}"#)).await;
    bound(r#""kind":"Pod","name":"p""#).await.says(
        400,
        r#"cannot bind token for serviceaccount \"a\" to pod running with different serviceaccount name."#,
    );
    bound(r#""kind":"Pod","name":"q""#).await.says(404, r#"pods \"q\" not found"#);
    bound(r#""kind":"Secret","name":"s""#).await.says(404, r#"secrets \"s\" not found"#);
    bound(r#""kind":"Node","name":"y""#).await.says(404, r#"nodes \"y\" not found"#);
    bound(r#""kind":"ConfigMap","apiVersion":"v1""#)
        .await
        .says(400, "cannot bind token to object of type /v1, Kind=ConfigMap");
    bound(r#""kind":"Pod","apiVersion":"apps/v1""#)
        .await
        .says(400, "cannot bind token to object of type apps/v1, Kind=Pod");
    bound("").await.says(400, "cannot bind token to object of type /, Kind=");
    server.send("POST", "/api/v1/namespaces/n/secrets", r#"{"metadata":{"name":"s"}}"#).await.says(201, "");
    bound(r#""kind":"Secret","name":"s","uid":"wrong""#).await.says(
        409,
        r#"Operation cannot be fulfilled on Secret \"s\": the UID in the bound object reference (wrong) does not match the UID in record. The object might have been deleted and then recreated"#,
    );
}

#[tokio::test]
async fn token_of_a_pod_is_extended_if_it_is_that_of_every_pod() {
    let extended = async |server: &Server, spec: &str| {
        let claims = claims(server, &request(server, spec).await).await;
        let time = |key: &str| at(&claims, key).and_then(Value::as_i64);
        let lifetime = time("exp").unwrap() - time("iat").unwrap();
        (lifetime, time("kubernetes.io/warnafter").map(|warn| warn - time("iat").unwrap()))
    };
    let server = start(|issuing| issuing.longest = Some(7200)).await;
    pod(&server, "a").await;
    let bound = r#""boundObjectRef":{"kind":"Pod","name":"p"}"#;
    assert_eq!(
        extended(&server, &format!(r#"{{"expirationSeconds":3607,{bound}}}"#)).await,
        (365 * 24 * 3600, Some(3607))
    );
    for spec in [
        r#"{"expirationSeconds":3607}"#.to_owned(),
        format!(r#"{{"expirationSeconds":3608,{bound}}}"#),
        format!(r#"{{"expirationSeconds":3607,"audiences":["vault"],{bound}}}"#),
    ] {
        let (lifetime, warns) = extended(&server, &spec).await;
        assert!(lifetime < 4000 && warns.is_none(), "{spec}");
    }
    let server = start(|issuing| issuing.extends = false).await;
    pod(&server, "a").await;
    assert_eq!(extended(&server, &format!(r#"{{"expirationSeconds":3607,{bound}}}"#)).await, (3607, None));
}

#[tokio::test]
async fn documents_of_the_issuer_are_served() {
    let server = start(|_| {}).await;
    let configuration = server.get("/.well-known/openid-configuration").await;
    configuration
        .says(200, &format!(r#"{{"issuer":"{ISSUER}","jwks_uri":"https://127.0.0.1:6443/openid/v1/jwks","#));
    assert_eq!(configuration.header("content-type"), ["application/json"]);
    assert_eq!(configuration.header("cache-control"), ["public, max-age=3600"]);
    let keys = server.get_as("/openid/v1/jwks", "application/jwk-set+json").await;
    keys.says(200, r#"{"keys":[{"use":"sig","kty":"EC","#);
    assert_eq!(keys.header("content-type"), ["application/jwk-set+json"]);
    server.get_as("/openid/v1/jwks", "application/json").await.says(406, "application/jwk-set+json");
    server.send("POST", "/openid/v1/jwks", "{}").await.says(405, "does not allow this method");
    server.get("/").await.says(200, "\"/.well-known/openid-configuration\"");
}

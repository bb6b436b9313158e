//! Stored objects that do not decode, and the unsafe delete.

use std::sync::Arc;

use auth::{Attributes, Authorize, Authorizer, Reason, Rules, User, Verdict};
use cache::Change;
use http::header::ACCEPT;
use tasks::Deferred;

use super::super::testing::{PARTIAL_LIST, TABLE};
use super::Server;

const MAPS: &str = "/api/v1/namespaces/n/configmaps";
const BAD: &str = "/api/v1/namespaces/n/configmaps/bad";
const OPTION: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// A server with the config maps `a` and `bad`, whose data is a list.
async fn with_bad(change: impl FnOnce(&mut registry::Config)) -> Server {
    let server = Server::start_with(change).await;
    server.send("POST", MAPS, r#"{"metadata":{"name":"a"}}"#).await.says(201, "");
    store_bad(&server, "bad").await;
    server
}

async fn store_bad(server: &Server, name: &str) {
    let json = format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"n","uid":"u","labels":{{"x":"y"}},"finalizers":["x/y"]}},"data":["k"]}}"#
    );
    let cache = server.0.registry.cache();
    let maps = cache.resource("configmaps").unwrap();
    cache.commit(Change::put(&maps, "n", name, json)).await.unwrap();
}

fn with_gate(config: &mut registry::Config) {
    config.unsafe_delete = true;
}

/// What is said of the object.
const SAID: &str = "Internal error occurred: StorageError: corrupt object, Code: 7, Key: /configmaps/n/bad, ResourceVersion: 0, AdditionalErrorMsg: object not decodable revision=";

#[tokio::test]
async fn object_that_does_not_decode_is_named_and_the_others_are_served() {
    let server = with_bad(|_| {}).await;
    server.get_as(BAD, &format!("application/json{TABLE}")).await.says(500, SAID);
    server.get_as(BAD, "application/vnd.kubernetes.protobuf").await.says(500, "k8s");
    server.send("PATCH", BAD, r#"{"data":{"k":"v"}}"#).await.says(500, SAID);
    let accepted = [
        format!("application/json{TABLE}"),
        "application/vnd.kubernetes.protobuf,application/json;q=0".into(),
    ];
    for accept in accepted {
        let list = server.get_as(MAPS, &accept).await;
        list.says(500, "failed to read one or more configmaps from the storage");
        list.says(500, "/registry/configmaps/n/bad");
        list.says(500, "StorageReadError");
    }
    let list = server.get_as(MAPS, &format!("application/json{TABLE}")).await;
    let status: serde_json::Value = serde_json::from_slice(&list.body).unwrap();
    let details = &status["details"];
    assert_eq!((&details["name"], &details["kind"]), (&"list".into(), &"configmaps".into()));
    let cause = &details["causes"][0];
    assert_eq!(
        (&cause["reason"], &cause["field"]),
        (&"UnexpectedServerResponse".into(), &"/registry/configmaps/n/bad".into())
    );
    let said = "StorageError: corrupt object, Code: 7, Key: /registry/configmaps/n/bad, ResourceVersion: 0, \
                AdditionalErrorMsg: object not decodable revision=";
    assert!(cause["message"].as_str().unwrap().starts_with(said), "{cause}");
    // A page without it, another namespace, and what need not be decoded.
    let page = server.get_as(&format!("{MAPS}?limit=1"), &format!("application/json{TABLE}")).await;
    page.says(200, r#""name":"a""#);
    server.get_as(&format!("{MAPS}/a"), &format!("application/json{TABLE}")).await.says(200, "");
    server.get_as("/api/v1/namespaces/m/configmaps", &format!("application/json{TABLE}")).await.says(200, "");
    server.get_as(MAPS, &format!("application/json{PARTIAL_LIST}")).await.says(200, r#""name":"bad""#);
    server.get_with(MAPS, &[(ACCEPT, "application/json")]).await.says(200, r#""name":"bad""#);
    let watch = format!("{MAPS}?watch=true&timeoutSeconds=1");
    let events = server.get_as(&watch, &format!("application/json{TABLE}")).await;
    events.says(200, r#""type":"ERROR""#);
    events.says(200, "Key: /configmaps/n/bad, ");
}

#[tokio::test]
async fn list_names_all_that_do_not_decode_up_to_a_hundred() {
    let server = Server::start().await;
    for number in 0..101 {
        store_bad(&server, &format!("bad-{number:03}")).await;
    }
    let list = server.get_as(MAPS, &format!("application/json{TABLE}")).await;
    let status: serde_json::Value = serde_json::from_slice(&list.body).unwrap();
    let causes = status["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 101);
    assert_eq!(causes[99]["field"], "/registry/configmaps/n/bad-099");
    assert_eq!(causes[100]["reason"], "FieldValueTooMany");
    assert_eq!(causes[100]["message"], "too many errors, the list is truncated");
}

#[tokio::test]
async fn plain_delete_of_what_does_not_decode_fails_and_so_does_one_of_its_collection() {
    for gate in [false, true] {
        let server = with_bad(|config| config.unsafe_delete = gate).await;
        server.send("DELETE", BAD, "").await.says(500, SAID);
        server.send("DELETE", &format!("{BAD}?dryRun=All"), "").await.says(500, SAID);
        let all = server.send("DELETE", MAPS, "").await;
        all.says(500, "failed to read one or more configmaps from the storage");
        server.get(&format!("{MAPS}/a")).await.says(200, "");
        server.send("DELETE", &format!("{MAPS}?labelSelector=%21x"), "").await.says(200, r#""name":"a""#);
        server.get(BAD).await.says(200, "");
    }
}

#[tokio::test]
async fn put_takes_the_place_of_what_does_not_decode() {
    let server = with_bad(|_| {}).await;
    let object = r#"{"metadata":{"name":"bad"},"data":{"k":"v"}}"#;
    server.send("POST", MAPS, object).await.says(409, "AlreadyExists");
    server.send("PUT", &format!("{BAD}?dryRun=All"), object).await.says(201, r#""data":{"k":"v"}"#);
    server.get(BAD).await.says(200, r#""data":["k"]"#);
    server.send("PUT", BAD, object).await.says(201, r#""data":{"k":"v"}"#);
    server.send("DELETE", BAD, "").await.says(200, "Success");
}

#[tokio::test]
async fn unsafe_delete_has_no_effect_without_its_gate() {
    let server = with_bad(|_| {}).await;
    server.send("DELETE", &format!("{BAD}?{OPTION}=true"), "").await.says(500, SAID);
    let others = format!(r#"{{"{OPTION}":true,"gracePeriodSeconds":0}}"#);
    server.send("DELETE", BAD, &others).await.says(500, SAID);
    server.send("DELETE", &format!("{MAPS}/a"), &others).await.says(200, "Success");
    let labels = format!("{MAPS}?labelSelector=%21x");
    server.send("DELETE", &labels, &others).await.says(200, r#""items":[]"#);
}

#[tokio::test]
async fn unsafe_delete_removes_what_cannot_be_read() {
    for (query, body) in
        [(format!("?{OPTION}=true"), String::new()), (String::new(), format!(r#"{{"{OPTION}":true}}"#))]
    {
        let server = with_bad(with_gate).await;
        let answer = server.send("DELETE", &format!("{BAD}{query}"), &body).await;
        assert_eq!(
            (answer.code, answer.text().trim()),
            (
                200,
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"bad","kind":"ConfigMap"},"code":200}"#
            )
        );
        server.get(BAD).await.says(404, "");
        server.get_as(MAPS, &format!("application/json{TABLE}")).await.says(200, r#""name":"a""#);
    }
}

#[tokio::test]
async fn unsafe_delete_is_refused_for_what_can_be_read_or_is_not_there() {
    let server = with_bad(with_gate).await;
    for name in ["a", "none"] {
        let answer = server.send("DELETE", &format!("{MAPS}/{name}?{OPTION}=1"), "").await;
        answer.says(
            422,
            &format!(r#"configmaps \"{name}\" is invalid: {OPTION}: Invalid value: true: is exclusively used to delete corrupt object(s), try again by removing this option"#),
        );
    }
    server.get(&format!("{MAPS}/a")).await.says(200, "");
    let namespace = server.send("DELETE", &format!("/api/v1/namespaces/n?{OPTION}=true"), "").await;
    namespace
        .says(500, &format!("Internal error occurred: no unsafe deleter provided, can not honor {OPTION}"));
    let off = server.send("DELETE", &format!("{MAPS}/a?{OPTION}=false&gracePeriodSeconds=0"), "").await;
    off.says(200, "Success");
}

#[tokio::test]
async fn unsafe_delete_is_refused_with_other_options_and_for_collections() {
    let server = with_bad(with_gate).await;
    let with = |others: &str| format!(r#"{{"{OPTION}":true{others}}}"#);
    for (option, value) in [
        ("dryRun", r#"["All"]"#),
        ("propagationPolicy", r#""Orphan""#),
        ("orphanDependents", "false"),
        ("gracePeriodSeconds", "0"),
        ("preconditions", "{}"),
    ] {
        let answer = server.send("DELETE", BAD, &with(&format!(r#","{option}":{value}"#))).await;
        answer.says(
            422,
            &format!(r#"DeleteOptions.meta.k8s.io \"\" is invalid: {OPTION}: Invalid value: true: cannot be set together with .{option}""#),
        );
    }
    let query = format!("{BAD}?{OPTION}=true&uid=u&dryRun=All");
    let answer = server.send("DELETE", &query, "").await;
    answer.says(422, "cannot be set together with .dryRun, ");
    answer.says(422, "cannot be set together with .preconditions]");
    let all = server.send("DELETE", MAPS, &with("")).await;
    all.says(
        422,
        &format!(r#"DeleteOptions.meta.k8s.io \"\" is invalid: {OPTION}: Invalid value: true: is not allowed with DELETECOLLECTION, try again after removing the option"#),
    );
    server.get(BAD).await.says(200, "");
}

/// Allows everything but one verb.
struct AllBut(&'static str);

impl Authorize for AllBut {
    fn decide<'a>(&'a self, _user: &'a User, attributes: &'a Attributes) -> Deferred<'a, Verdict> {
        Deferred::Now(match &*attributes.verb == self.0 {
            true => Verdict::no_opinion("because"),
            false => Verdict::allow(Reason::NONE),
        })
    }

    fn rules(&self, _user: &User, _namespace: &str) -> Rules {
        Rules::default()
    }
}

#[tokio::test]
async fn unsafe_delete_takes_a_permission_of_its_own() {
    let server = with_bad(|config| {
        with_gate(config);
        config.authorizer =
            Authorizer::new([Arc::new(AllBut("unsafe-delete-ignore-read-errors")) as Arc<dyn Authorize>]);
    })
    .await;
    let refused = server.send("DELETE", &format!("{BAD}?{OPTION}=true"), "").await;
    refused.says(
        403,
        r#"configmaps \"bad\" is forbidden: not permitted to do \"unsafe-delete-ignore-read-errors\", reason: because"#,
    );
    server.get(BAD).await.says(200, "");
    server.send("DELETE", &format!("{MAPS}/a"), "").await.says(200, "Success");
}

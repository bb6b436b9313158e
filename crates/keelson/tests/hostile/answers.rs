//! Answers that would be larger than what was asked: long lists of errors, indented and YAML forms, warnings.

use serde_json::{Value, json};

use super::{
    APPLY, Answer, CREATE, Caller, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Write, megabytes, resident,
    start,
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The most bytes of an error, whatever was sent.
const LARGEST_ERROR: usize = 1_000_000;

fn config_map(metadata: Value) -> Vec<u8> {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata }).to_string().into_bytes()
}

fn owners(count: usize) -> Vec<u8> {
    let owner = |at: usize| json!({ "apiVersion": "v1", "kind": "Pod", "name": format!("p{at}"), "uid": format!("{at}"), "controller": true });
    config_map(json!({ "name": "owned", "ownerReferences": (0..count).map(owner).collect::<Vec<_>>() }))
}

fn print(what: &str, sent: usize, answer: &Answer) {
    println!(
        "{what}: {sent} bytes sent, {} with {} bytes after {:?}",
        answer.status,
        answer.body.len(),
        answer.took
    );
}

#[test]
fn errors_are_bounded_however_many_there_are() {
    let server = start(&[]);
    let mut caller = Caller::new(&server);
    let before = resident(&server);
    let labels: serde_json::Map<String, Value> =
        (0..100_000).map(|at| (format!("bad key {at}"), json!("!"))).collect();
    let finalizers: Vec<String> = (0..100_000).map(|at| format!("no {at}")).collect();
    for (what, body) in [
        ("1,000 controllers", owners(1_000)),
        ("8,000 controllers", owners(8_000)),
        ("100,000 bad labels", config_map(json!({ "name": "a", "labels": labels }))),
        ("100,000 bad finalizers", config_map(json!({ "name": "a", "finalizers": finalizers }))),
        ("a name of 2 MB", config_map(json!({ "name": "A".repeat(2_000_000) }))),
        ("a label of 2 MB", config_map(json!({ "name": "a", "labels": { "a": "!".repeat(2_000_000) } }))),
    ] {
        let answer = caller.ask("POST", MAPS, &body);
        print(what, body.len(), &answer);
        assert_eq!(answer.status, 422, "{}", answer.text());
        assert!(answer.body.len() < LARGEST_ERROR, "{what}: {}", answer.body.len());
        let status = answer.json();
        assert!(
            status["message"].as_str().unwrap().contains(" more "),
            "{what} does not say what it leaves out"
        );
        if body.len() < 2_000_000 && what != "a name of 2 MB" {
            let causes = status["details"]["causes"].as_array().unwrap();
            assert!(causes.last().unwrap()["message"].as_str().unwrap().ends_with("more errors"), "{what}");
        }
    }
    let after = resident(&server);
    println!("memory: {} before, {} after", megabytes(before), megabytes(after));
    assert!(after < before + 300_000_000);
}

#[test]
fn errors_of_ordinary_length_are_whole() {
    let server = start(&[]);
    let mut caller = Caller::new(&server);
    let labels: serde_json::Map<String, Value> =
        (0..200).map(|at| (format!("bad key {at}"), json!("x"))).collect();
    let answer = caller.ask("POST", MAPS, &config_map(json!({ "name": "a", "labels": labels })));
    let status = answer.json();
    assert_eq!(answer.status, 422);
    assert_eq!(status["details"]["causes"].as_array().unwrap().len(), 200);
    assert!(!answer.text().contains(" more "));
    let owned = caller.ask("POST", MAPS, &owners(3)).json();
    let shown = owned["details"]["causes"][0]["message"].as_str().unwrap();
    assert!(
        shown.contains("v1.OwnerReference{APIVersion:\"v1\"") && shown.contains("Name:\"p2\""),
        "{shown}"
    );
}

#[test]
fn warnings_are_cut_as_in_the_reference() {
    let server = start(&[]);
    let mut caller = Caller::new(&server);
    let with = |fields: &[String]| {
        let mut body =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "generateName": "a-" } });
        fields.iter().for_each(|name| body[name.as_str()] = json!(1));
        body.to_string().into_bytes()
    };
    let long = caller.ask("POST", MAPS, &with(&["x".repeat(60_000)]));
    let warnings: Vec<&str> = long.all("warning").collect();
    println!("one unknown field of 60,000 bytes: {} with {warnings:?}", long.status);
    assert_eq!((long.status, warnings.len()), (201, 1));
    assert_eq!(warnings[0], format!("299 - \"unknown field \\\"{}\"", "x".repeat(256 - 15)));
    let many: Vec<String> = (0..5_000).map(|at| format!("unknown-{at:0>60}")).collect();
    let many = caller.ask("POST", MAPS, &with(&many));
    let bytes: usize = many.all("warning").map(str::len).sum();
    println!(
        "5,000 unknown fields: {} with {} warnings of {bytes} bytes",
        many.status,
        many.all("warning").count()
    );
    assert!(many.status == 201 && bytes < 8_000);
    let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u".repeat(1000) });
    let repeated = config_map(json!({ "name": "b", "ownerReferences": vec![owner; 1000] }));
    let repeated = caller.ask("POST", MAPS, &repeated);
    assert_eq!(repeated.status, 201);
    assert!(repeated.all("warning").all(|warning| warning.len() < 300));
}

#[test]
fn refused_fields_and_patches_show_a_part_of_what_was_sent() {
    let server = start(&[]);
    let mut caller = Caller::new(&server);
    let data: serde_json::Map<String, Value> =
        (0..1_000).map(|at| (format!("k{at}"), json!("v".repeat(1000)))).collect();
    let whole = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data });
    assert_eq!(caller.ask("POST", MAPS, whole.to_string().as_bytes()).status, 201);
    let key = "k".repeat(1_000_000);
    let unknown: serde_json::Map<String, Value> = (0..100).map(|at| (format!("u{at}"), json!(1))).collect();
    let strict = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "a", key.as_str(): 1 },
        "spec": { "template": { "spec": { "volumes": [unknown] } } } });
    let name = format!("{MAPS}/a");
    let mut refused = |what: &str, write: Write, path: &str, body: &str, wanted: u16| {
        let answer = caller.write(write, path, body.as_bytes());
        print(what, body.len(), &answer);
        assert_eq!(answer.status, wanted, "{what}: {}", answer.text());
        assert!(answer.body.len() < LARGEST_ERROR, "{what}: {}", answer.body.len());
    };
    let deployments = "/apis/apps/v1/namespaces/default/deployments?fieldValidation=Strict";
    refused("strict unknown fields", CREATE, deployments, &strict.to_string(), 400);
    let number = r#"[{"op":"add","path":"/data/k0","value":1}]"#;
    refused("json patch", JSON_PATCH, &name, number, 422);
    refused("merge patch", MERGE_PATCH, &name, r#"{"data":{"k0":1}}"#, 422);
    let long = json!({ "data": { "k0": 1, "z": "z".repeat(2_000_000) } }).to_string();
    refused("strategic patch", STRATEGIC_PATCH, &name, &long, 422);
    let kind = json!({ "apiVersion": "v1", "kind": "K".repeat(2_000_000) }).to_string();
    refused("a kind of 2 MB", CREATE, MAPS, &kind, 400);
    let unversioned =
        json!({ "apiVersion": "x/", "kind": "ConfigMap", "data": { "a": "a".repeat(2_000_000) } });
    refused("no version", CREATE, MAPS, &unversioned.to_string(), 400);
    let numbers: serde_json::Map<String, Value> =
        (0..100_000).map(|at| (format!("k{at}"), json!(at))).collect();
    let numbers = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": numbers }).to_string();
    refused("apply", APPLY, &format!("{name}?fieldManager=m"), &numbers, 500);
}

#[test]
fn conflicts_of_an_apply_are_counted() {
    let server = start(&[]);
    let mut caller = Caller::new(&server);
    let config = |value: &str| {
        let data: serde_json::Map<String, Value> =
            (0..50_000).map(|at| (format!("k{at}"), json!(value))).collect();
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data })
            .to_string()
            .into_bytes()
    };
    let mut apply = |manager: &str, value: &str| {
        let path = format!("{MAPS}/a?fieldManager={manager}");
        caller.ask_as("PATCH", &path, "application/json", "application/apply-patch+yaml", &config(value))
    };
    assert_eq!(apply("one", "1").status, 201);
    let refused = apply("two", "2");
    print("50,000 conflicts", config("2").len(), &refused);
    assert_eq!(refused.status, 409);
    assert!(refused.body.len() < LARGEST_ERROR);
    let status = refused.json();
    let message = status["message"].as_str().unwrap();
    assert!(
        message.starts_with("Apply failed with 50000 conflicts: conflicts with \"one\":"),
        "{}",
        refused.text()
    );
    assert!(message.ends_with("\nand 49000 more"));
    let causes = status["details"]["causes"].as_array().unwrap();
    assert_eq!((causes.len(), &causes[1000]["message"]), (1001, &json!("49000 more errors")));
}

#[test]
fn an_object_that_grows_past_its_limit_is_413() {
    let server = start(&[]);
    let mut caller = Caller::new(&server);
    let half = "x".repeat(1_600_000);
    // The texts of an event have no limit of their own.
    let events = "/api/v1/namespaces/default/events";
    let about = json!({ "namespace": "default" });
    let first = json!({ "metadata": { "name": "a" }, "involvedObject": about, "message": half }).to_string();
    assert_eq!(caller.ask("POST", events, first.as_bytes()).status, 201);
    let name = format!("{events}/a");
    let more = json!({ "reason": half });
    let config = json!({ "apiVersion": "v1", "kind": "Event", "reason": half });
    for (write, body) in [
        (MERGE_PATCH, more.clone()),
        (STRATEGIC_PATCH, more),
        (JSON_PATCH, json!([{ "op": "add", "path": "/reason", "value": half }])),
        (JSON_PATCH, json!([{ "op": "copy", "from": "/message", "path": "/reason" }])),
        (APPLY, config),
    ] {
        let body = body.to_string();
        let answer = caller.write(write, &format!("{name}?fieldManager=m"), body.as_bytes());
        print(write.content, body.len(), &answer);
        let status = answer.json();
        assert_eq!(answer.status, 413, "{}", answer.text());
        assert_eq!(status["reason"], "RequestEntityTooLarge");
        assert_eq!(status["message"], "Request entity too large: limit is 3145728");
    }
    // Managed fields that do not fit are dropped, as the reference does it.
    let data: serde_json::Map<String, Value> =
        (0..60_000).map(|at| (format!("key-{at:0>30}"), json!("v"))).collect();
    let large = json!({ "metadata": { "name": "b" }, "data": data }).to_string();
    let made = caller.ask("POST", MAPS, large.as_bytes());
    assert_eq!(made.status, 201, "{}", made.text());
    println!("{} bytes sent, {} stored", large.len(), made.body.len());
    assert!(made.json()["metadata"].get("managedFields").is_none());
    assert_eq!(caller.ask("DELETE", &name, b"").status, 200);
    drop(caller);
    let log = server.terminate().unwrap().unwrap().log;
    assert!(!log.contains("the store failed") && !log.contains("could not be carried out"), "{log}");
}

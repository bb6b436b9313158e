//! Public definitions of well-known operators, with the binary and kubectl: they install, their sample
//! objects are accepted, and broken variants of objects are refused where they are broken.
//!
//! The definitions come from packages that `cargo xtask tools` fetches: Argo CD, Argo Workflows,
//! cert-manager, Cluster API, Gateway API, Istio, Linkerd, OpenShift's agents and the Prometheus operator
//! (`kopium`), Calico, and the Dask operator.
//!
//! What is expected is what the reference does. To compare the two answer by answer, run the tests with
//! `KEELSON_TEST_SERVER` set and without it, each time with `KEELSON_TEST_TRANSCRIPT` naming a file for the
//! answers to all variants.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

mod operators;

use std::collections::BTreeSet;
use std::path::PathBuf;

use operators::{Api, CRDS, WORKFLOWS, definition_files, sample_files};
use serde_json::{Value, json};
use testkit::{Cli, Server};

fn start() -> (Server, Cli) {
    let binary = testkit::server_binary(env!("CARGO_BIN_EXE_keelson"));
    let server = Server::start(&binary, &[]).unwrap();
    let kubectl = Cli::new(testkit::tool("kubectl").unwrap(), &server);
    (server, kubectl)
}

fn text(path: PathBuf) -> String {
    path.into_os_string().into_string().unwrap()
}

/// A server with all definitions.
fn with_definitions() -> (Server, Cli) {
    let (server, kubectl) = start();
    for file in definition_files() {
        let said = kubectl.run(&["create", "--save-config=false", "-f", &text(file)]).unwrap();
        // A server that is used again has them from the run before.
        let others = said.err.lines().filter(|line| !line.contains("AlreadyExists"));
        assert_eq!(others.collect::<Vec<_>>(), Vec::<&str>::new());
    }
    kubectl.ok(&["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"]).unwrap();
    (server, kubectl)
}

#[test]
fn definitions_are_established_listed_and_explained() {
    let (server, kubectl) = with_definitions();
    let definitions = Api::new(&server).definitions();
    assert!(definitions.len() >= 40, "there are {} definitions", definitions.len());
    let listed = kubectl.ok(&["api-resources", "--output=name"]).unwrap();
    let listed: BTreeSet<&str> = listed.lines().collect();
    for definition in &definitions {
        let name = definition["metadata"]["name"].as_str().unwrap();
        assert!(listed.contains(name), "{name} is not listed");
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
        let said = kubectl.ok(&["explain", name, "--recursive"]).unwrap();
        assert!(said.contains(&format!("KIND:       {kind}\n")), "{said}");
        assert!(said.contains("apiVersion\t<string>"), "{name}: {said}");
        // Of several versions, the one is explained that clients prefer.
        let version = said.lines().find_map(|line| line.strip_prefix("VERSION:")).unwrap().trim();
        let versions = definition["spec"]["versions"].as_array().unwrap();
        let version = versions.iter().find(|other| other["name"] == version).unwrap();
        let spec = version.pointer("/schema/openAPIV3Schema/properties/spec/properties");
        for field in spec.and_then(Value::as_object).into_iter().flatten().map(|(field, _)| field) {
            assert!(said.contains(&format!("  {field}\t<")), "{name} has no {field}: {said}");
        }
    }
}

#[test]
fn definitions_are_taken_over_by_server_side_apply() {
    let (server, kubectl) = with_definitions();
    let before = Api::new(&server).definitions();
    let mut applied = 0;
    for file in definition_files() {
        let said = kubectl
            .ok(&[
                "apply",
                "--server-side",
                "--force-conflicts",
                "--field-manager=installer",
                "-f",
                &text(file),
            ])
            .unwrap();
        applied += said.lines().filter(|line| line.starts_with("customresourcedefinition")).count();
    }
    assert_eq!(applied, before.len());
    let after = Api::new(&server).definitions();
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before["spec"], after["spec"]);
        assert_eq!(before["metadata"]["generation"], after["metadata"]["generation"]);
        let managers = after["metadata"]["managedFields"].as_array().unwrap();
        assert!(
            managers.iter().any(|entry| entry["manager"] == "installer" && entry["operation"] == "Apply")
        );
    }
}

/// The 900 kB of this definition have four places without a type. The repaired definition is as large.
#[test]
fn workflow_templates_are_refused_until_their_schema_is_structural() {
    let (server, kubectl) = start();
    let file = text(testkit::tool("kopium").unwrap().with_file_name(WORKFLOWS));
    let refused = kubectl.fails(&["create", "-f", &file]).unwrap();
    let mut api = Api::new(&server);
    let source = kubectl.ok(&["create", "--dry-run=client", "--output=json", "-f", &file]).unwrap();
    let mut definition: Value = serde_json::from_str(&source).unwrap();
    let (status, answer) = api.call("POST", CRDS, &definition);
    assert_eq!((status, answer["reason"].as_str()), (422, Some("Invalid")));
    assert_eq!(
        refused.trim_end(),
        format!("The CustomResourceDefinition {}", {
            let message = answer["message"].as_str().unwrap();
            // kubectl says the kind and the name in its own way, and lists the causes.
            let name = definition["metadata"]["name"].as_str().unwrap();
            let causes = answer["details"]["causes"].as_array().unwrap();
            assert!(message.starts_with(&format!(
                "CustomResourceDefinition.apiextensions.k8s.io \"{name}\" is invalid: "
            )));
            let lines = causes.iter().map(|cause| {
                format!("\n* {}: {}", cause["field"].as_str().unwrap(), cause["message"].as_str().unwrap())
            });
            format!("\"{name}\" is invalid: {}", lines.collect::<String>())
        })
    );
    let schema = "spec.validation.openAPIV3Schema.properties[spec].properties";
    let places = [
        format!("{schema}[templateDefaults].properties[dag].properties[tasks].items.properties[inline].type"),
        format!("{schema}[templateDefaults].properties[steps].items.items"),
        format!("{schema}[templates].items.properties[dag].properties[tasks].items.properties[inline].type"),
        format!("{schema}[templates].items.properties[steps].items.items"),
    ];
    let causes = answer["details"]["causes"].as_array().unwrap();
    let fields: Vec<&str> = causes.iter().map(|cause| cause["field"].as_str().unwrap()).collect();
    assert_eq!(fields, places);
    assert!(causes.iter().all(|cause| cause["reason"] == "FieldValueRequired"), "{causes:?}");

    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    for template in ["templateDefaults", "templates/items"] {
        let at = |rest: &str| format!("{spec}/{template}/properties/{rest}");
        let inline = definition.pointer_mut(&at("dag/properties/tasks/items/properties/inline")).unwrap();
        *inline = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let steps = definition.pointer_mut(&at("steps/items")).unwrap();
        steps["items"] = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    }
    let (status, answer) = api.call("POST", CRDS, &definition);
    assert_eq!(status, 201, "{}", answer["message"]);
    let said = kubectl.ok(&["explain", "clusterworkflowtemplates.spec.templates.container"]).unwrap();
    assert!(said.contains("FIELD: container <Object>"), "{said}");
}

#[test]
fn sample_objects_are_accepted_and_read_back_as_they_were_written() {
    let (_server, kubectl) = with_definitions();
    let mut count = 0;
    for file in sample_files() {
        let file = text(file);
        let source = kubectl.ok(&["create", "--dry-run=client", "--output=json", "-f", &file]).unwrap();
        let mut sample: Value = serde_json::from_str(&source).unwrap();
        let said = kubectl.run(&["create", "--validate=strict", "-f", &file]).unwrap();
        assert!(said.code == Some(0) || said.err.contains("AlreadyExists"), "{file}: {}", said.err);
        let read = kubectl.ok(&["get", "--output=json", "-f", &file]).unwrap();
        let read: Value = serde_json::from_str(&read).unwrap();
        sample.as_object_mut().unwrap().remove("status");
        assert_contains(&read, &sample, &file);
        count += 1;
    }
    assert_eq!(count, sample_files().len());
    assert!(count >= 13, "there are {count} samples");
}

/// That a value has everything of another one; it may have more fields, which are defaults.
fn assert_contains(value: &Value, part: &Value, at: &str) {
    match (value, part) {
        (Value::Object(map), Value::Object(part)) => {
            for (key, part) in part {
                assert_contains(map.get(key).unwrap_or(&Value::Null), part, &format!("{at} {key}"));
            }
        }
        (Value::Array(list), Value::Array(parts)) => {
            assert_eq!(list.len(), parts.len(), "{at}");
            for (value, part) in list.iter().zip(parts) {
                assert_contains(value, part, at);
            }
        }
        (value, part) => assert_eq!(value, part, "{at}"),
    }
}

#[test]
fn broken_variants_are_refused_where_they_are_broken() {
    let (server, _kubectl) = with_definitions();
    let tally = operators::check_variants(&mut Api::new(&server));
    println!("{tally:?}");
    assert!(tally.objects >= 100, "{tally:?}");
    assert!(tally.passed_over * 5 < tally.objects, "{tally:?}");
    assert!(tally.variants >= 1200, "{tally:?}");
}

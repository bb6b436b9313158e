use crate::testing::create;
use std::time::{Duration, Instant};

/// The errors of a definition whose field `x` has a schema.
fn errors(schema: &str) -> Vec<String> {
    create(&format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
            "metadata":{{"name":"widgets.example.com"}},
            "spec":{{"group":"example.com","scope":"Cluster","names":{{"plural":"widgets","kind":"Widget"}},
            "versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":
            {{"type":"object","properties":{{"x":{schema}}}}}}}}}]}}}}"#
    ))
}

#[test]
fn schemas_nest_at_most_256_deep() {
    let nested = |depth: usize| {
        let (open, close) = (r#"{"type":"array","items":"#.repeat(depth), "}".repeat(depth));
        errors(&format!(r#"{open}{{"type":"string"}}{close}"#))
    };
    assert_eq!(nested(250), Vec::<String>::new());
    let refused = "spec.validation.openAPIV3Schema: Forbidden: schemas may nest at most 256 deep";
    assert_eq!(nested(400), [refused]);
}

#[test]
fn definitions_have_at_most_128_versions() {
    let with = |count: usize| {
        let versions = (0..count).map(|number| {
            let storage = number == 0;
            format!(
                r#"{{"name":"v{number}","served":true,"storage":{storage},"schema":{{"openAPIV3Schema":{{"type":"object"}}}}}}"#
            )
        });
        create(&format!(
            r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
                "metadata":{{"name":"widgets.example.com"}},"spec":{{"group":"example.com","scope":"Cluster",
                "names":{{"plural":"widgets","kind":"Widget"}},"versions":[{}]}}}}"#,
            versions.collect::<Vec<_>>().join(",")
        ))
    };
    assert_eq!(with(128), Vec::<String>::new());
    assert_eq!(with(129), ["spec.versions: Too many: 129: must have at most 128 items"]);
}

#[test]
fn defaults_that_take_too_long_to_check_are_refused() {
    let numbers = (0..50_000).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
    let started = Instant::now();
    let found = errors(&format!(
        r#"{{"type":"array","items":{{"type":"integer","enum":[{numbers}]}},"default":[{numbers}]}}"#
    ));
    let refused = "spec.validation.openAPIV3Schema.properties[x].default: Forbidden: defaults and their schemas are too large to be checked";
    assert_eq!(found, [refused]);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn definitions_with_many_faults_are_answered_in_time() {
    let started = Instant::now();
    let rules = vec![r#"{"rule":"true","fieldPath":".nope"}"#; 2_000].join(",");
    let fields: String = (0..2_000).map(|at| format!(r#","f{at}":{{"pattern":"(","$ref":"x"}}"#)).collect();
    let found = errors(&format!(
        r#"{{"type":"object","properties":{{"a":{{}}{fields}}},"x-kubernetes-validations":[{rules}]}}"#
    ));
    assert!(found.len() > 500 && found.len() <= object::field::MOST_ERRORS, "{}", found.len());
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

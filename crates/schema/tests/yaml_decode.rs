//! YAML decoding compared with the reference: `yaml/decode.jsonl` holds documents and the results of the
//! reference.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests say what is wrong by panicking"
)]

mod common;
mod generate;

use common::{any_json, hard_text, lines, unhex};
use generate::{Random, seed};
use schema::{Decoded, Error, Limits, Shape, Strict, builtin, json, yaml};
use serde_json::Value as Line;
use std::time::{Duration, Instant};

fn documents() -> Vec<(Vec<u8>, Line)> {
    let document = |line: Line| match line["hex"].as_str() {
        Some(hex) => (unhex(hex), line),
        None => (line["yaml"].as_str().expect("a document").as_bytes().to_vec(), line),
    };
    lines(include_str!("yaml/decode.jsonl")).map(document).collect()
}

fn lenient() -> Limits {
    Limits { values: 10_000_000, ..Limits::REQUEST }
}

#[test]
fn yaml_decoding_matches_the_reference() {
    let documents = documents();
    assert!(documents.len() > 500);
    for (input, line) in documents {
        let wanted = |key: &str| line[key].as_str().map(str::to_string);
        let (json, error, strict) = match yaml::to_json(&input, &lenient()) {
            Ok(json) => (Some(json.text), None, json.strict.first().map(Strict::to_string)),
            Err(error) => (None, Some(error.to_string()), None),
        };
        assert_eq!(json, wanted("json"), "{line}");
        assert_eq!(error, wanted("error"), "{line}");
        assert_eq!(strict, wanted("strict"), "{line}");
    }
}

#[test]
fn json_fast_path_gives_the_same_result_as_the_yaml_parser() {
    let seed = seed();
    let mut random = Random::new(seed);
    for _ in 0..3000 {
        let json =
            serde_json::json!({ "a": any_json(&mut random, 3), "b": any_json(&mut random, 3) }).to_string();
        let Ok(converted) = yaml::to_json(json.as_bytes(), &Limits::REQUEST) else { continue };
        let long = json::decode_shape(&Shape::Any, converted.text.as_bytes(), &Limits::REQUEST).unwrap();
        let short = yaml::decode_shape(&Shape::Any, json.as_bytes(), &Limits::REQUEST).unwrap();
        assert_eq!(short.value, long.value, "KEELSON_SEED={seed}: {json}");
    }
}

#[test]
fn damaged_yaml_never_panics() {
    let seed = seed();
    let mut random = Random::new(seed);
    let documents = documents();
    for _ in 0..20_000 {
        let mut input = documents[random.below(documents.len())].0.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(input.len() + 1);
            match random.below(3) {
                0 => input.truncate(at),
                1 => input.insert(at, random.below(256) as u8),
                _ => input.splice(at..at, hard_text(&mut random).into_bytes()).for_each(drop),
            }
        }
        if let Ok(json) = yaml::to_json(&input, &Limits::REQUEST) {
            serde_json::from_str::<Line>(&json.text)
                .unwrap_or_else(|error| panic!("KEELSON_SEED={seed}: {error}: {input:?}"));
        }
    }
}

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: &labels {app: web, tier: \"1\"}
  annotations:
    <<: *labels
    on: \"off\"
spec:
  containers:
  - name: c
    ports:
    - containerPort: 0x50
    resources:
      limits: {cpu: 1.50, memory: 1Gi}
    args:
    - |
      one
      two
";

fn pod(yaml: &str) -> Result<Decoded, Error> {
    yaml::decode(builtin::by_kind("", "v1", "Pod").unwrap(), yaml.as_bytes(), &Limits::REQUEST)
}

#[test]
fn yaml_object_decodes_by_its_type() {
    let decoded = pod(POD).unwrap();
    assert_eq!(decoded.strict, []);
    let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"app":"web","tier":"1"},
        "annotations":{"app":"web","tier":"1","true":"off"}},"spec":{"containers":[{"name":"c",
        "ports":[{"containerPort":80}],"resources":{"limits":{"cpu":"1.5","memory":"1Gi"}},"args":["one\ntwo\n"]}]}}"#;
    let pod = builtin::by_kind("", "v1", "Pod").unwrap();
    assert_eq!(decoded.value, json::decode(pod, json.as_bytes(), &Limits::REQUEST).unwrap().value);
}

#[test]
fn duplicate_keys_are_reported_before_unknown_fields() {
    let decoded =
        pod("kind: Pod\nmetadata:\n  name: a\n  name: b\n  nope: 1\nspec: {zzz: 1, aaa: 2}\n").unwrap();
    let strict: Vec<String> = decoded.strict.iter().map(Strict::to_string).collect();
    assert_eq!(
        strict,
        [
            "yaml: unmarshal errors:\n  line 4: key \"name\" already set in map",
            "unknown field \"metadata.nope\"",
            "unknown field \"spec.aaa\"",
            "unknown field \"spec.zzz\"",
        ]
    );
    assert_eq!(decoded.value.get("metadata").and_then(|meta| meta.get("name")).unwrap().as_str(), Some("b"));
}

#[test]
fn json_sent_as_yaml_reports_duplicate_keys_as_yaml_does() {
    let decoded = pod("{\"kind\": \"Pod\",\n \"kind\": \"Pod\"}").unwrap();
    let strict: Vec<String> = decoded.strict.iter().map(Strict::to_string).collect();
    assert_eq!(strict, ["yaml: unmarshal errors:\n  line 2: key \"kind\" already set in map"]);
}

#[test]
fn type_errors_are_the_same_as_for_json() {
    let error = pod("spec: {containers: [{name: [1]}]}\n").unwrap_err().to_string();
    assert_eq!(
        error,
        "json: cannot unmarshal array into Go struct field Container.spec.containers.name of type string"
    );
}

#[test]
fn empty_stream_decodes_to_an_empty_object() {
    for yaml in ["", "---\n", "# nothing\n", "~"] {
        assert_eq!(pod(yaml).unwrap().value, object::Map::new().into(), "{yaml:?}");
    }
}

#[test]
fn nesting_depth_is_limited() {
    let limits = Limits { depth: 50, ..Limits::REQUEST };
    let deep = format!("{}1{}", "{a: [".repeat(256), "]}".repeat(256));
    yaml::to_json(deep.as_bytes(), &Limits::REQUEST).expect("just deep enough");
    for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", "")] {
        let nested = |depth| format!("{}1{}", open.repeat(depth), close.repeat(depth));
        let answer = yaml::to_json(nested(51).as_bytes(), &limits);
        assert_eq!(answer.map_err(|error| error.to_string()), Err("exceeded max depth".into()), "{open}");
        if open != "? " {
            yaml::to_json(nested(50).as_bytes(), &limits).expect("just deep enough");
        }
        let _ = yaml::to_json(nested(200_000).as_bytes(), &Limits::REQUEST).expect_err("too deep");
    }
}

#[test]
fn alias_expansion_is_limited() {
    let started = Instant::now();
    let mut laughs = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        laughs += &format!("a{level}: &a{level} [{aliases}]\n");
    }
    let error = yaml::to_json(laughs.as_bytes(), &lenient()).unwrap_err().to_string();
    assert_eq!(error, "yaml: document contains excessive aliasing");
    let error = yaml::to_json(laughs.as_bytes(), &Limits { values: 1000, ..Limits::REQUEST }).unwrap_err();
    assert_eq!(error, Error::TooMany(1000));

    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 2000].join(", "));
    let error = yaml::to_json(long.as_bytes(), &Limits::REQUEST).unwrap_err().to_string();
    assert_eq!(error, "yaml: document contains excessive aliasing");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn size_and_count_are_limited() {
    let limits = Limits { bytes: 100, ..Limits::REQUEST };
    assert_eq!(yaml::to_json(&[b' '; 101], &limits), Err(Error::TooLarge(100)));
    let limits = Limits { values: 100, ..Limits::REQUEST };
    assert_eq!(
        yaml::to_json(format!("[{}]", "a,".repeat(101)).as_bytes(), &limits),
        Err(Error::TooMany(100))
    );
}

#[test]
fn hostile_documents_take_linear_time() {
    let size = 1 << 18;
    let started = Instant::now();
    for part in [
        "{", "[", "- ", "? ", "a: ", "a: |\n", "'", "\"\\", "&a ", "*a ", "!a ", "# ", "\n", "%", "a,",
        "[a: ", "{a: b}, ", "- a\n", "a:\n",
    ] {
        let _ = yaml::to_json(part.repeat(size / part.len()).as_bytes(), &Limits::REQUEST);
    }
    let tags: String = (0..size / 16).map(|number| format!("%TAG !t{number}! x:\n")).collect();
    assert_eq!(
        yaml::to_json(format!("{tags}---\n!t7!a b\n").as_bytes(), &Limits::REQUEST).unwrap().text,
        "\"b\""
    );
    let prefix = "x".repeat(size);
    let tagged = format!("%TAG !e! {prefix}\n---\n{}", "- !e!a 1\n".repeat(size / 16));
    assert!(yaml::to_json(tagged.as_bytes(), &Limits::REQUEST).unwrap().text.starts_with("[\"1\",\"1\","));
    assert!(started.elapsed() < Duration::from_secs(30));
}

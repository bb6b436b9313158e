//! YAML encoding compared with the reference: `yaml/encode.jsonl` holds JSON and the YAML of the reference.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests say what is wrong by panicking"
)]

mod common;
mod generate;

use common::{any_json, lines};
use generate::{Random, seed};
use schema::{Error, Limits, Shape, builtin, json, yaml};

#[test]
fn yaml_encoding_matches_the_reference() {
    let mut count = 0;
    for line in lines(include_str!("yaml/encode.jsonl")) {
        let mut out = Vec::new();
        yaml::from_json(line["json"].as_str().unwrap(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), line["yaml"].as_str().unwrap(), "{line}");
        count += 1;
    }
    assert!(count > 150);
}

#[test]
fn encoded_yaml_decodes_to_the_same_json() {
    for line in lines(include_str!("yaml/encode.jsonl")) {
        let json = line["json"].as_str().unwrap();
        let mut written = Vec::new();
        yaml::from_json(json, &mut written).unwrap();
        let read = yaml::to_json(&written, &Limits::REQUEST).unwrap();
        assert_eq!(read.strict, []);
        let again = yaml::to_json(json.as_bytes(), &Limits::REQUEST).unwrap();
        assert_eq!(read.text, again.text);
    }
}

#[test]
fn random_json_round_trips_through_yaml() {
    let seed = seed();
    let mut random = Random::new(seed);
    for round in 0..3000 {
        let json = any_json(&mut random, 4).to_string();
        // A large number with an exponent is written without one, and is whole from then on.
        let any = |json: &[u8]| json::decode_shape(&Shape::Any, json, &Limits::REQUEST).unwrap().value;
        let mut plain = Vec::new();
        json::encode_shape(&Shape::Any, &any(json.as_bytes()), &mut plain);
        let direct = any(&plain);
        let mut text = Vec::new();
        yaml::from_json(&json, &mut text).unwrap();
        let through = yaml::decode_shape(&Shape::Any, &text, &Limits::REQUEST).unwrap();
        assert_eq!(
            through.value,
            direct,
            "KEELSON_SEED={seed} round {round}: {json}\n{}",
            String::from_utf8_lossy(&text)
        );
        assert_eq!(through.strict, []);
    }
}

#[test]
fn object_is_encoded_with_sorted_keys() {
    let pod = builtin::by_kind("", "v1", "Pod").unwrap();
    let json =
        r#"{"kind":"Pod","apiVersion":"v1","spec":{"nodeName":"1","containers":[{"name":"c","image":"i"}]}}"#;
    let decoded = json::decode(pod, json.as_bytes(), &Limits::REQUEST).unwrap();
    let mut out = Vec::new();
    yaml::encode(pod, &decoded.value, &mut out).unwrap();
    let wanted = "\
apiVersion: v1
kind: Pod
metadata:
  creationTimestamp: null
spec:
  containers:
  - image: i
    name: c
    resources: {}
  nodeName: \"1\"
status: {}
";
    assert_eq!(String::from_utf8(out).unwrap(), wanted);
}

#[test]
fn invalid_json_is_not_encoded_as_yaml() {
    let mut out = Vec::new();
    let error = yaml::from_json("{\"a\": }", &mut out).unwrap_err().to_string();
    assert_eq!(error, "invalid character '}' looking for beginning of value");
    assert_eq!(yaml::from_json(&"[".repeat(5000), &mut out), Err(Error::TooDeep));
    assert!(out.is_empty());
}

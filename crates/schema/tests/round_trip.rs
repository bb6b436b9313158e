//! Every built-in type, thousands of random instances: what one encoding writes another reads as the same object.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

mod generate;

use generate::{Random, instance, seed};
use object::Value;
use schema::{Limits, Type, builtin, cbor, json, protobuf, yaml};

/// Instances of each type in a run.
const EACH: u64 = 20;

fn to_json(ty: &Type, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    json::encode(ty, value, &mut out);
    out
}

fn from_json(ty: &'static Type, text: &[u8]) -> Value {
    let decoded = json::decode(ty, text, &Limits::default());
    let decoded =
        decoded.unwrap_or_else(|error| panic!("{}: {error}: {}", ty.name, String::from_utf8_lossy(text)));
    assert_eq!(decoded.strict, [], "{}", ty.name);
    decoded.value
}

/// Calls `check` with instances of every type; a failure names the seed.
fn each(check: impl Fn(&'static Type, &Value) + std::panic::RefUnwindSafe) {
    let seed = seed();
    for (number, ty) in builtin::types().iter().enumerate() {
        for round in 0..EACH {
            let value = instance(ty, &mut Random::new(seed.wrapping_add(number as u64 * EACH + round)));
            if let Err(panic) = std::panic::catch_unwind(|| check(ty, &value)) {
                eprintln!("KEELSON_SEED={seed} replays this: {} {value:?}", ty.name);
                std::panic::resume_unwind(panic);
            }
        }
    }
}

#[test]
fn json_gives_the_same_tree_and_the_same_text() {
    each(|ty, value| {
        let text = to_json(ty, value);
        let read = from_json(ty, &text);
        assert_eq!(&read, value);
        assert_eq!(String::from_utf8_lossy(&to_json(ty, &read)), String::from_utf8_lossy(&text));
    });
}

#[test]
fn pretty_json_reads_as_the_same_tree() {
    each(|ty, value| {
        let mut pretty = Vec::new();
        json::indent(&to_json(ty, value), &mut pretty);
        assert_eq!(&from_json(ty, &pretty), value);
    });
}

#[test]
fn cbor_gives_the_same_tree() {
    each(|ty, value| {
        let mut bytes = Vec::new();
        cbor::encode(ty, value, &mut bytes);
        let read = cbor::decode(ty, &bytes, &Limits::default()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read.strict, []);
        assert_eq!(&read.value, value);
    });
}

#[test]
fn yaml_gives_the_same_tree() {
    each(|ty, value| {
        let mut text = Vec::new();
        yaml::encode(ty, value, &mut text).expect("a tree that can be written");
        let read = yaml::decode(ty, &text, &Limits::default());
        let read = read.unwrap_or_else(|error| panic!("{error}:\n{}", String::from_utf8_lossy(&text)));
        assert_eq!(read.strict, []);
        assert_eq!(&read.value, value);
    });
}

#[test]
fn json_reads_as_yaml_with_the_same_tree() {
    each(|ty, value| {
        let read = yaml::decode(ty, &to_json(ty, value), &Limits::default()).expect("JSON is YAML");
        assert_eq!(read.strict, []);
        assert_eq!(&read.value, value);
    });
}

#[test]
fn protobuf_gives_the_same_tree() {
    each(|ty, value| {
        if ty.fields.iter().any(|field| field.number == 0 && !matches!(&*field.name, "kind" | "apiVersion")) {
            return; // A type that exists in JSON only.
        }
        let mut bytes = Vec::new();
        protobuf::encode(ty, value, &mut bytes);
        let read = protobuf::decode(ty, &bytes, &Limits::default()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(&read, value);
        assert_eq!(
            String::from_utf8_lossy(&to_json(ty, &read)),
            String::from_utf8_lossy(&to_json(ty, value))
        );
    });
}

//! CBOR decoding and encoding compared with the reference.
//!
//! `reference/cbor.txt`: `GROUP|VERSION|KIND|CBOR`, the objects of `reference/objects.txt` in base64.
//! `reference/cbor_decode.txt`: `GROUP|VERSION|KIND|CBOR|OUTCOME`, the outcome as JSON: `error`, or `json`
//! with the object and `strict` with whether there were fields that the type does not have.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

mod generate;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use generate::{Random, instance, seed};
use schema::{Error, Limits, Shape, Type, builtin, cbor, json};
use std::collections::HashMap;

fn kind(line: &str) -> (&'static Type, &str) {
    let mut words = line.splitn(4, '|');
    let mut word = || words.next().expect("four words a line");
    let (group, version, kind, rest) = (word(), word(), word(), word());
    let ty = builtin::by_kind(group, version, kind).unwrap_or_else(|| panic!("{group}/{version} {kind}"));
    (ty, rest)
}

fn json_of(ty: &Type, value: &object::Value) -> String {
    let mut out = Vec::new();
    json::encode(ty, value, &mut out);
    String::from_utf8(out).expect("text")
}

#[test]
fn encoded_objects_match_the_bytes_of_the_reference() {
    let objects: HashMap<_, _> = include_str!("reference/objects.txt")
        .lines()
        .map(|line| {
            let (ty, rest) = kind(line);
            (&ty.name, rest.rsplit_once('|').expect("five words a line").0)
        })
        .collect();
    let mut count = 0;
    for (ty, bytes) in include_str!("reference/cbor.txt").lines().map(kind) {
        let object = objects.get(&ty.name).unwrap_or_else(|| panic!("no {}", ty.name));
        let value = json::decode(ty, object.as_bytes(), &Limits::default()).expect("a valid object").value;
        let mut written = Vec::new();
        cbor::encode(ty, &value, &mut written);
        assert_eq!(STANDARD.encode(&written), bytes, "{object}");
        let read = cbor::decode(ty, &written, &Limits::default()).expect("what was written");
        assert_eq!(read.value, value, "{object}");
        assert_eq!(read.strict, []);
        count += 1;
    }
    assert!(count > 200);
}

#[test]
fn cbor_decoding_matches_the_reference() {
    let mut count = 0;
    for (ty, rest) in include_str!("reference/cbor_decode.txt").lines().map(kind) {
        let (bytes, outcome) = rest.split_once('|').expect("five words a line");
        let wanted: serde_json::Value = serde_json::from_str(outcome).expect("an outcome");
        let found = match cbor::decode(ty, &STANDARD.decode(bytes).expect("base64"), &Limits::default()) {
            Err(error) => serde_json::json!({ "error": error.to_string() }),
            Ok(decoded) => {
                let strict = !decoded.strict.is_empty();
                serde_json::json!({ "json": json_of(ty, &decoded.value), "strict": strict })
            }
        };
        assert_eq!(found, wanted, "{} {bytes}", ty.name);
        count += 1;
    }
    assert!(count > 200);
}

#[test]
fn damaged_cbor_never_panics() {
    let seed = seed();
    let mut random = Random::new(seed);
    for round in 0..4000 {
        let ty = *random.pick(&builtin::kinds().iter().collect::<Vec<_>>());
        let mut bytes = Vec::new();
        cbor::encode(ty, &instance(ty, &mut random), &mut bytes);
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => bytes.truncate(at + 1),
                1 => bytes.insert(at, random.next() as u8),
                2 => drop(bytes.remove(at)),
                _ => bytes[at] = random.next() as u8,
            }
            if bytes.is_empty() {
                break;
            }
        }
        let Ok(decoded) = cbor::decode(ty, &bytes, &Limits::default()) else { continue };
        let text = json_of(ty, &decoded.value);
        let read = serde_json::from_str::<serde_json::Value>(&text);
        assert!(read.is_ok(), "KEELSON_SEED={seed} round {round}: {text}");
    }
}

fn any(bytes: &[u8]) -> Result<String, String> {
    let decoded =
        cbor::decode_shape(&Shape::Any, bytes, &Limits::default()).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    json::encode_shape(&Shape::Any, &decoded.value, &mut out);
    Ok(String::from_utf8(out).expect("text"))
}

#[test]
fn false_lengths_and_deep_nesting_fail_fast() {
    let refused = |bytes: &[u8]| any(bytes).expect_err("refused");
    assert_eq!(refused(&[0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), "unexpected EOF");
    assert_eq!(refused(&[0x5b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), "unexpected EOF");
    assert_eq!(
        refused(&[0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        "cbor: map length 18446744073709551615 is too large, it would cause integer overflow"
    );
    assert_eq!(refused(&[0x81; 1_000_000]), "cbor: exceeded max nested level 64");
    assert_eq!(refused(&[0x9f; 1_000_000]), "cbor: exceeded max nested level 64");
    assert_eq!(refused(&[0xc6; 1_000_000]), "cbor: exceeded max nested level 64");
    assert_eq!(refused(&[0xbf; 1_000_000]), "cbor: exceeded max nested level 64");
}

#[test]
fn size_depth_and_count_are_limited() {
    let limited =
        |bytes: &[u8], limits| cbor::decode_shape(&Shape::Any, bytes, &limits).expect_err("refused");
    let limits = Limits { bytes: 100, depth: 10, values: 50, ..Limits::REQUEST };
    assert_eq!(limited(&[0; 101], limits), Error::TooLarge(100));
    assert_eq!(limited(&[[0x81; 11].as_slice(), &[0]].concat(), limits), Error::TooDeep);
    assert_eq!(limited(&[[0x98, 60].as_slice(), &[0; 60]].concat(), limits), Error::TooMany(50));
    let map = [[0xb8, 40].as_slice(), &(0..40).flat_map(|key| [0x41, key, 0]).collect::<Vec<_>>()].concat();
    let limits = Limits { bytes: 1000, ..limits };
    cbor::decode_shape(&Shape::Any, &map, &limits).expect("keys are not counted");
}

#[test]
fn arrays_larger_than_the_reference_limit_are_read() {
    let list = [[0x99, 0x08, 0x00].as_slice(), &[0xf4; 2048]].concat();
    assert_eq!(any(&list).map(|json| json.len()), Ok(2048 * 6 + 1));
}

#[test]
fn unknown_fields_are_reported_with_their_field_path() {
    let pod = builtin::by_kind("", "v1", "Pod").expect("a pod");
    // {"spec": {"containers": [{"nope": 1}], 7: null}}
    let bytes = b"\xa1\x44spec\xa2\x4acontainers\x81\xa1\x44nope\x01\x07\xf6";
    let decoded = cbor::decode(pod, bytes, &Limits::default()).expect("a pod");
    let strict: Vec<_> = decoded.strict.iter().map(ToString::to_string).collect();
    assert_eq!(strict, [r#"unknown field "spec.containers[0].nope""#, r#"unknown field "spec.7""#]);
}

#[test]
fn sequence_ends_at_the_first_malformed_item() {
    let bytes = [&cbor::PREFIX[..], &[0x01, 0x82, 0x02]].concat();
    let items: Vec<_> = cbor::Sequence::new(&bytes, Limits::default()).collect();
    assert_eq!(items, [Ok(&bytes[..4]), Err(Error::Syntax("unexpected EOF".into()))]);
    assert_eq!(cbor::Sequence::new(&[], Limits::default()).count(), 0);
}

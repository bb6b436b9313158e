//! Outputs of the reference decoder and encoders for recorded inputs, one per line.
//!
//! `reference/decode.txt`: `GROUP|VERSION|KIND|INPUT|OUTCOME`, input as a JSON string, outcome as JSON:
//! `error`, or `json` with the object as it is written again and `strict` with the fields that were dropped.
//! `reference/objects.txt`: `GROUP|VERSION|KIND|JSON|PROTOBUF`, the latter in base64.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schema::{Limits, Type, builtin, json, protobuf};

struct Line<'l> {
    ty: &'static Type,
    input: &'l str,
    outcome: &'l str,
}

fn lines(file: &str) -> impl Iterator<Item = Line<'_>> {
    file.lines().map(|line| {
        let mut words = line.splitn(4, '|');
        let mut word = || words.next().expect("five words a line");
        let (group, version, kind, rest) = (word(), word(), word(), word());
        let (input, outcome) = rest.rsplit_once('|').expect("five words a line");
        let ty = builtin::by_kind(group, version, kind).unwrap_or_else(|| panic!("{group}/{version} {kind}"));
        Line { ty, input, outcome }
    })
}

#[test]
fn json_decoding_matches_the_reference() {
    let mut wrong = vec![];
    for Line { ty, input, outcome } in lines(include_str!("reference/decode.txt")) {
        let input: String = serde_json::from_str(input).expect("a JSON string");
        let expected: serde_json::Value = serde_json::from_str(outcome).expect("an outcome");
        let found = match json::decode(ty, input.as_bytes(), &Limits::default()) {
            Err(error) => serde_json::json!({ "error": error.to_string() }),
            Ok(decoded) => {
                let mut out = Vec::new();
                json::encode(ty, &decoded.value, &mut out);
                let strict: Vec<_> = decoded.strict.iter().map(ToString::to_string).collect();
                serde_json::json!({ "json": String::from_utf8(out).expect("text"), "strict": strict })
            }
        };
        if found != expected {
            wrong.push(format!("{input}\n  expected {expected}\n  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn encoded_objects_match_the_bytes_of_the_reference() {
    for Line { ty, input, outcome } in lines(include_str!("reference/objects.txt")) {
        let value = json::decode(ty, input.as_bytes(), &Limits::default()).expect("a valid object").value;
        let mut text = Vec::new();
        json::encode(ty, &value, &mut text);
        assert_eq!(String::from_utf8_lossy(&text), input);
        let mut bytes = Vec::new();
        protobuf::encode(ty, &value, &mut bytes);
        assert_eq!(STANDARD.encode(&bytes), outcome, "{input}");
        assert_eq!(protobuf::decode(ty, &bytes, &Limits::default()), Ok(value), "{input}");
    }
}

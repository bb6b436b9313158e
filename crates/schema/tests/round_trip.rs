//! Round trips of random instances of every built-in type through every encoding.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

mod generate;

use generate::{Random, instance, seed};
use object::Value;
use schema::{Limits, MessageField, Shape, Type, builtin, cbor, json, protobuf, yaml};

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
fn objects_round_trip_through_json() {
    each(|ty, value| {
        let text = to_json(ty, value);
        let read = from_json(ty, &text);
        assert_eq!(&read, value);
        assert_eq!(String::from_utf8_lossy(&to_json(ty, &read)), String::from_utf8_lossy(&text));
    });
}

#[test]
fn objects_round_trip_through_pretty_json() {
    each(|ty, value| {
        let mut pretty = Vec::new();
        json::indent(&to_json(ty, value), &mut pretty);
        assert_eq!(&from_json(ty, &pretty), value);
    });
}

#[test]
fn objects_round_trip_through_cbor() {
    each(|ty, value| {
        let mut bytes = Vec::new();
        cbor::encode(ty, value, &mut bytes);
        let read = cbor::decode(ty, &bytes, &Limits::default()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read.strict, []);
        assert_eq!(&read.value, value);
    });
}

#[test]
fn objects_round_trip_through_yaml() {
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
fn json_decoded_as_yaml_gives_the_same_object() {
    each(|ty, value| {
        let read = yaml::decode(ty, &to_json(ty, value), &Limits::default()).expect("JSON is YAML");
        assert_eq!(read.strict, []);
        assert_eq!(&read.value, value);
    });
}

#[test]
fn objects_round_trip_through_protobuf() {
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

#[test]
fn protobuf_fields_may_be_reordered_and_repeated() {
    each(|ty, value| {
        if ty.fields.iter().any(|field| field.number == 0 && !matches!(&*field.name, "kind" | "apiVersion")) {
            return; // A type that exists in JSON only.
        }
        let mut bytes = Vec::new();
        protobuf::encode_message(ty, value, &mut bytes);
        let expected = protobuf::decode_message(ty, &bytes, &Limits::default()).unwrap();
        let mut fields = fields_of(&bytes);
        fields.sort_by_key(|field| std::cmp::Reverse(field.number));
        let backwards: Vec<u8> = fields.iter().flat_map(|field| field.bytes).copied().collect();
        assert_eq!(protobuf::decode_message(ty, &backwards, &Limits::default()), Ok(expected.clone()));
        // A repeated text replaces the earlier one.
        let texts = fields.iter().filter(|field| {
            ty.wire.iter().any(|message_field| match message_field {
                MessageField::Field { number, index } if *number == field.number => {
                    matches!(ty.fields[usize::from(*index)].shape, Shape::String)
                }
                _ => false,
            })
        });
        let again = texts.flat_map(|field| field.bytes).chain(&bytes).copied().collect::<Vec<u8>>();
        assert_eq!(protobuf::decode_message(ty, &again, &Limits::default()), Ok(expected));
    });
}

struct Record<'b> {
    number: u32,
    /// With its tag.
    bytes: &'b [u8],
}

/// The fields of a message, outermost level.
fn fields_of(mut message: &[u8]) -> Vec<Record<'_>> {
    fn varint(bytes: &[u8]) -> (u64, usize) {
        let length = bytes.iter().position(|byte| *byte < 0x80).unwrap() + 1;
        (bytes[..length].iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f)), length)
    }
    let mut fields = Vec::new();
    while !message.is_empty() {
        let (tag, mut end) = varint(message);
        match tag & 7 {
            0 => end += varint(&message[end..]).1,
            1 => end += 8,
            2 => {
                let (length, size) = varint(&message[end..]);
                end += size + length as usize;
            }
            other => panic!("wire type {other}"),
        }
        let (bytes, rest) = message.split_at(end);
        fields.push(Record { number: (tag >> 3) as u32, bytes });
        message = rest;
    }
    fields
}

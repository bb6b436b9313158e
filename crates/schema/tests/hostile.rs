//! Hostile input: for a minute, every decoder gets mutated and random input, and input that is expensive to
//! decode.
//!
//! No decoder may panic, take long, or use more than 64 MB. Every encoder must encode the objects that a
//! decoder accepts, and they must decode to the same object. A failure prints the seed: `KEELSON_SEED`
//! replays it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

mod generate;

use generate::{Random, instance, seed};
use object::Value;
use peak_alloc::PeakAlloc;
use schema::{Error, Limits, Type, builtin, cbor, json, protobuf, yaml};
use std::time::{Duration, Instant};

const RUN: Duration = Duration::from_secs(60);
/// Far above the time of the largest input: a decoder that reaches it hangs.
const HANG: Duration = Duration::from_secs(20);
const MEMORY: usize = 64 * 1024 * 1024;

/// Counts allocated bytes, which the decoders determine; resident memory depends on the allocator.
#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

#[derive(Clone, Copy, Debug)]
enum Encoding {
    Json,
    Yaml,
    Protobuf,
    Cbor,
}

const ENCODINGS: [Encoding; 4] = [Encoding::Json, Encoding::Yaml, Encoding::Protobuf, Encoding::Cbor];

fn encode(encoding: Encoding, ty: &Type, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match encoding {
        Encoding::Json => json::encode(ty, value, &mut out),
        Encoding::Yaml => yaml::encode(ty, value, &mut out).expect("YAML can be written"),
        Encoding::Protobuf => protobuf::encode(ty, value, &mut out),
        Encoding::Cbor => cbor::encode(ty, value, &mut out),
    }
    out
}

fn decode(encoding: Encoding, ty: &'static Type, input: &[u8]) -> Result<Value, Error> {
    let limits = Limits::default();
    match encoding {
        Encoding::Json => json::decode(ty, input, &limits).map(|decoded| decoded.value),
        Encoding::Yaml => yaml::decode(ty, input, &limits).map(|decoded| decoded.value),
        Encoding::Protobuf => protobuf::decode(ty, input, &limits),
        Encoding::Cbor => cbor::decode(ty, input, &limits).map(|decoded| decoded.value),
    }
}

/// Decodes, within the time limit.
fn feed(encoding: Encoding, ty: &'static Type, input: &[u8]) -> Result<Value, Error> {
    let start = Instant::now();
    let outcome = decode(encoding, ty, input);
    assert!(start.elapsed() < HANG, "{encoding:?} {} took {:?}", ty.name, start.elapsed());
    outcome
}

#[test]
fn slow_mutated_input_never_panics_and_stays_within_limits() {
    let seed = seed();
    let started = Instant::now();
    let (mut fed, mut accepted) = (0u64, 0u64);
    for round in 0.. {
        if started.elapsed() > RUN {
            break;
        }
        let random = &mut Random::new(seed.wrapping_add(round));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let types = builtin::kinds();
            let ty = types[random.below(types.len())];
            for encoding in ENCODINGS {
                let mut input = match random.below(8) {
                    0 => (0..random.below(300)).map(|_| random.next() as u8).collect(),
                    _ => encode(encoding, ty, &instance(ty, random)),
                };
                for _ in 0..random.below(6) {
                    mutate(&mut input, encoding, random);
                }
                fed += 1;
                if let Ok(value) = feed(encoding, ty, &input) {
                    accepted += 1;
                    check_accepted(encoding, ty, &value);
                }
            }
        }));
        if let Err(panic) = outcome {
            eprintln!("KEELSON_SEED={} replays this in the first round", seed.wrapping_add(round));
            std::panic::resume_unwind(panic);
        }
    }
    let peak = HEAP.peak_usage();
    println!("{fed} inputs, {accepted} accepted, {} MB at the most", peak >> 20);
    assert!(fed > 1000 && accepted > 100, "{fed} inputs, {accepted} accepted");
    assert!(peak < MEMORY, "{peak} bytes of memory");
}

/// An accepted object round-trips in its own encoding and in JSON.
fn check_accepted(encoding: Encoding, ty: &'static Type, value: &Value) {
    // An envelope always has kind and API version.
    let mut named = value.clone();
    if let (Some(kind), Some(map)) = (&ty.kind, named.as_map_mut()) {
        map.get_or_insert_with("kind", || kind.kind.clone().into());
        map.get_or_insert_with("apiVersion", || kind.api_version().into());
    }
    for other in [encoding, Encoding::Json] {
        let text = encode(other, ty, &named);
        let read = decode(other, ty, &text).map(|read| encode(Encoding::Json, ty, &read));
        assert_eq!(read, Ok(encode(Encoding::Json, ty, &named)), "{encoding:?} -> {other:?} {named:?}");
    }
}

const SNIPPETS: [&[u8]; 24] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"\"",
    b"\\u00",
    b"null",
    b"-",
    b"1e999",
    b"99999999999999999999",
    b"\xff\xfe",
    b"&a ",
    b"*a ",
    b"<<: ",
    b"\n  - ",
    b"---\n",
    b"!!binary ",
    b"\x0a\xff\xff\xff\xff\x0f",
    b"\x9f",
    b"\xbf",
    b"\xfb\x7f\xf0\0\0\0\0\0\0",
    b"\xd9\xd9\xf7",
];

fn mutate(input: &mut Vec<u8>, encoding: Encoding, random: &mut Random) {
    if input.is_empty() {
        input.extend_from_slice(random.pick(&SNIPPETS));
        return;
    }
    let at = random.below(input.len());
    match random.below(7) {
        0 => input[at] ^= 1 << random.below(8),
        1 => input[at] = random.next() as u8,
        2 => input.truncate(at),
        3 => {
            let end = (at + random.below(40)).min(input.len());
            input.drain(at..end);
        }
        4 => {
            let end = (at + random.below(60)).min(input.len());
            let copy = input[at..end].to_vec();
            let to = random.below(input.len());
            input.splice(to..to, copy);
        }
        5 => {
            let snippet = random.pick(&SNIPPETS).to_vec();
            input.splice(at..at, snippet);
        }
        _ => {
            let types = builtin::types();
            let ty = types[random.below(types.len())];
            let other = encode(encoding, ty, &instance(ty, random));
            let from = random.below(other.len().max(1)).min(other.len());
            let to = (from + random.below(80)).min(other.len());
            input.splice(at..at, other[from..to].iter().copied());
        }
    }
}

#[test]
fn slow_expensive_input_is_refused_or_read_within_limits() {
    let pod = builtin::by_kind("", "v1", "Pod").expect("pods are built in");
    let revision = builtin::by_kind("apps", "v1", "ControllerRevision").expect("built in");
    for (number, expensive) in EXPENSIVE.iter().enumerate() {
        let input = expensive();
        for encoding in ENCODINGS {
            for ty in [pod, revision] {
                let start = Instant::now();
                let outcome = feed(encoding, ty, &input).map(|_| "accepted");
                let peak = HEAP.peak_usage();
                let took = start.elapsed();
                assert!(
                    peak < MEMORY,
                    "{} MB after {encoding:?} of input {number}: {outcome:?}, {took:?}",
                    peak >> 20
                );
            }
        }
    }
    println!("{} MB at the most", HEAP.peak_usage() >> 20);
}

const MOST: usize = Limits::REQUEST.bytes;

/// As many copies of `each` as fit into a request.
fn many(head: &str, each: &str, tail: &str) -> Vec<u8> {
    let times = (MOST - head.len() - tail.len()) / each.len();
    [head, &each.repeat(times), tail].concat().into_bytes()
}

fn deep(open: &str, close: &str) -> Vec<u8> {
    let times = MOST / (open.len() + close.len());
    [open.repeat(times), close.repeat(times)].concat().into_bytes()
}

/// Aliases of lists of aliases, forty levels of nine.
fn laughs() -> Vec<u8> {
    let mut text = String::from("a0: &a0 [lol,lol,lol,lol,lol,lol,lol,lol,lol]\n");
    for level in 1..40 {
        let all = vec![format!("*a{}", level - 1); 9].join(",");
        text.push_str(&format!("a{level}: &a{level} [{all}]\n"));
    }
    text.into_bytes()
}

fn filled(head: &[u8], each: &[u8]) -> Vec<u8> {
    [head.to_vec(), each.repeat((MOST - head.len()) / each.len())].concat()
}

/// One field again and again, each time with another key.
fn repeats() -> Vec<u8> {
    let metadata: Vec<String> =
        (0..30_000).map(|at| format!(r#""metadata":{{"labels":{{"k{at}":""}}}}"#)).collect();
    format!("{{{}}}", metadata.join(",")).into_bytes()
}

/// A message of Protobuf in which the entries of two maps, labels and annotations, take turns.
fn turns() -> Vec<u8> {
    let field = |tag: u8, bytes: &[u8]| {
        let mut length = bytes.len();
        let mut out = vec![tag];
        while length > 0x7f {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        [out, bytes.to_vec()].concat()
    };
    let entry = |at: usize| field(0x0a, format!("k{at}").as_bytes());
    let entries = (0..60_000).flat_map(|at| field(if at % 2 == 0 { 0x5a } else { 0x62 }, &entry(at)));
    let metadata: Vec<u8> = entries.collect();
    [b"k8s\0".to_vec(), field(0x12, &field(0x0a, &metadata))].concat()
}

/// One at a time, so that the memory in use is the decoder's and one input's.
const EXPENSIVE: &[fn() -> Vec<u8>] = &[
    || deep("[", "]"),
    || deep("{\"a\":", "}"),
    || many("{\"metadata\":{\"labels\":{\"a\":\"b\"", ",\"a\":\"b\"", "}}}"),
    || many("{\"spec\":{\"containers\":[{}", ",{}", "]}}"),
    || many("{\"metadata\":{\"finalizers\":[\"\"", ",\"\"", "]}}"),
    || many("{\"unknown\":[0", ",0", "]}"),
    || many("{\"a\":1", ",\"a\":1", "}"),
    || many("{\"metadata\":{\"name\":\"", "\\u0041", "\"}}"),
    || many("{\"metadata\":{\"generation\":1", "0", "}}"),
    || many("{\"spec\":{\"overhead\":{\"cpu\":\"1", "0", "\"}}}"),
    || many("{\"spec\":{\"overhead\":{\"cpu\":\"1e-", "9", "\"}}}"),
    || many("{\"data\":[[]", ",[]", "]}"),
    || many("{\"data\":{\"a\":{}", ",\"a\":{}", "}}"),
    || many("a:\n", " - b\n", ""),
    || many("", "- ", "a"),
    || many("", "? ", "a"),
    || many("a: \"", "\\x41", "\""),
    || many("", "a: &a b\n", ""),
    || many("[", "a: b,", "]"),
    laughs,
    repeats,
    turns,
    // Protobuf: nested messages, lists of empty messages, false lengths.
    || filled(b"k8s\0\x12\x80\x80\x80\x01", &[0x12]),
    || filled(b"k8s\0\x12\xf7\xff\xbf\x01\x12\xf2\xff\xbf\x01", &[0x12, 0]),
    || b"k8s\0\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01".to_vec(),
    || b"k8s\0\x12\x05\x0a\xff\xff\xff\x7f".to_vec(),
    // CBOR: lists and maps without end, and of announced sizes.
    || filled(b"\xd9\xd9\xf7", &[0x81]),
    || filled(b"\xd9\xd9\xf7", &[0x9f]),
    || b"\xd9\xd9\xf7\x9b\x7f\xff\xff\xff\xff\xff\xff\xff".to_vec(),
    || b"\xd9\xd9\xf7\xbb\x00\x00\x00\xff\xff\xff\xff\xff".to_vec(),
    || b"\xd9\xd9\xf7\x5b\x7f\xff\xff\xff\xff\xff\xff\xff".to_vec(),
    || filled(b"\xd9\xd9\xf7\x9a\x00\x10\x00\x00", &[0xa0]),
    || filled(b"\xd9\xd9\xf7\xa1\x44data\x9f", &[0x80]),
];

/// What is out of order is found out before parts are written: a deep object takes as long as it is large.
#[test]
fn deep_objects_out_of_order_are_written_once() {
    let ty = builtin::by_name("apiextensions.v1.JSONSchemaProps").unwrap();
    let deep = (0..150).fold(r#"{"type":"string"}"#.to_owned(), |inner, _| {
        format!(r#"{{"properties":{{"a":{inner}}},"type":"object"}}"#)
    });
    let value = json::decode(ty, deep.as_bytes(), &Limits::default()).unwrap().value;
    let mut out = Vec::new();
    json::encode(ty, &value, &mut out);
    let written = String::from_utf8(out).unwrap();
    assert!(written.starts_with(r#"{"type":"object","properties":{"a":{"type":"object""#), "{written}");
    assert_eq!(json::decode(ty, written.as_bytes(), &Limits::default()).unwrap().value, value);
}

//! Structural schemas of random, hostile and real-world size: what pruning and defaulting promise, and what
//! they cost.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

mod generate;

use generate::{Random, seed};
use object::{Map, Value};
use peak_alloc::PeakAlloc;
use schema::structural::Defaulted;
use schema::view::View;
use schema::views::apiextensions::v1::JSONSchemaProps;
use schema::{Limits, Shape, Structural, json};
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

fn compile(schema: &str) -> Arc<Structural> {
    let decoded = json::decode(JSONSchemaProps::schema(), schema.as_bytes(), &Limits::STORED).unwrap();
    Structural::compile(JSONSchemaProps::of(decoded.value.as_map().unwrap())).unwrap()
}

fn tree(text: &str) -> Value {
    json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::STORED).unwrap().value
}

const NAMES: [&str; 6] = ["a", "b", "c", "spec", "k.1", "zz"];

fn random_tree(depth: usize, random: &mut Random) -> Value {
    match random.below(if depth == 0 { 5 } else { 9 }) {
        0 => Value::Null,
        1 => Value::Bool(random.one_in(2)),
        2 => Value::Int(random.below(3) as i64),
        3 => Value::Float(1.5),
        4 => Value::from(random.pick(&NAMES)),
        5 | 6 => (0..random.below(4)).map(|_| random_tree(depth - 1, random)).collect(),
        _ => {
            let names = ["kind", "apiVersion", "metadata"];
            let name = |random: &mut Random| match random.one_in(6) {
                true => random.pick(&names),
                false => random.pick(&NAMES),
            };
            (0..random.below(6))
                .map(|_| (name(random), random_tree(depth - 1, random)))
                .collect::<Map>()
                .into()
        }
    }
}

fn json_text(value: &Value) -> String {
    let mut out = Vec::new();
    json::encode_shape(&Shape::Any, value, &mut out);
    String::from_utf8(out).unwrap()
}

fn random_schema(depth: usize, random: &mut Random) -> String {
    let mut facts = Vec::new();
    if random.one_in(4) {
        facts.push(r#""nullable":true"#.to_owned());
    }
    if random.one_in(3) {
        facts.push(format!(r#""default":{}"#, json_text(&random_tree(2, random))));
    }
    if random.one_in(5) {
        facts.push(r#""x-kubernetes-preserve-unknown-fields":true"#.to_owned());
    }
    match random.below(if depth == 0 { 1 } else { 5 }) {
        0 => facts.push(r#""type":"string""#.to_owned()),
        1 => facts.push(format!(r#""type":"array","items":{}"#, random_schema(depth - 1, random))),
        2 if random.one_in(4) => facts.push(r#""type":"object","additionalProperties":true"#.to_owned()),
        2 => facts
            .push(format!(r#""type":"object","additionalProperties":{}"#, random_schema(depth - 1, random))),
        _ => {
            let names = NAMES.iter().filter(|_| random.one_in(2)).copied().collect::<Vec<_>>();
            let fields = names.iter().map(|name| format!("{name:?}:{}", random_schema(depth - 1, random)));
            facts.push(format!(
                r#""type":"object","properties":{{{}}}"#,
                fields.collect::<Vec<_>>().join(",")
            ));
            if random.one_in(4) {
                facts.push(r#""x-kubernetes-embedded-resource":true"#.to_owned());
            }
        }
    }
    format!("{{{}}}", facts.join(","))
}

#[test]
fn pruning_and_defaulting_twice_is_the_same_as_once() {
    let seed = seed();
    for round in 0..3_000 {
        let mut random = Random::new(seed.wrapping_add(round));
        let text = random_schema(4, &mut random);
        let schema = compile(&text);
        for _ in 0..5 {
            let original = random_tree(5, &mut random);
            let context = || format!("seed {} schema {text} tree {original:?}", seed.wrapping_add(round));
            let (mut value, mut strict) = (original.clone(), Vec::new());
            let pruned = schema.prune(&mut value, &mut strict);
            assert_eq!(pruned.changed, value != original, "{}", context());
            let mut again = value.clone();
            let second = schema.prune(&mut again, &mut strict);
            // Metadata of which nothing can be read stays as it is.
            assert!(!second.changed && again == value, "{}", context());
            let before = value.clone();
            assert_eq!(schema.default(&mut value) == Defaulted::Changed, value != before, "{}", context());
            let mut again = value.clone();
            assert!(schema.default(&mut again) == Defaulted::Unchanged && again == value, "{}", context());
            let third = schema.prune(&mut again, &mut Vec::new());
            assert!(!third.changed && again == value, "{} {value:?} {again:?}", context());
        }
    }
}

#[test]
fn hostile_trees_cost_no_more_than_their_size() {
    let deep_lists = format!("{}{{\"x\":1}}{}", "[".repeat(500), "]".repeat(500));
    let deep_maps = format!("{}1{}", "{\"m\":".repeat(500), "}".repeat(500));
    let wide = |entry: &dyn Fn(usize) -> String| (0..250_000).map(entry).collect::<Vec<_>>().join(",");
    let schema = compile(
        r#"{"type":"object","properties":{
            "any":{"type":"object","additionalProperties":true},
            "open":{"x-kubernetes-preserve-unknown-fields":true},
            "list":{"type":"array","items":{"type":"object","properties":{"d":{"type":"string","default":"x"}}}},
            "set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
            "by":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a","b"],"items":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}},
            "map":{"type":"object","additionalProperties":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}}"#,
    );
    let objects = [
        format!(r#"{{"any":{{"a":{deep_lists}}}}}"#),
        format!(r#"{{"open":{deep_maps},"any":{{"a":{deep_maps}}},"x":{deep_maps}}}"#),
        format!("{{{}}}", wide(&|at| format!(r#""unknown{at}":0"#))),
        format!(r#"{{"any":{{{}}}}}"#, wide(&|at| format!(r#""{at}":{{"a":1}}"#))),
        format!(r#"{{"list":[{}]}}"#, wide(&|_| "{}".into())),
        format!(r#"{{"list":[{}]}}"#, wide(&|_| r#"{"d":null,"e":0}"#.into())),
        format!(r#"{{"set":[{}]}}"#, wide(&|at| format!(r#""{}""#, at / 2))),
        format!(r#"{{"set":[{}]}}"#, wide(&|_| "{}".into())),
        format!(r#"{{"by":[{}]}}"#, wide(&|at| format!(r#"{{"a":"{}"}}"#, at / 2))),
        format!(r#"{{"map":{{{}}}}}"#, wide(&|at| format!(r#""{at}":{{"metadata":{{"q":1}}}}"#))),
        format!(r#"{{"any":{{"{}":{{{}}}}}}}"#, "k".repeat(1 << 20), wide(&|at| format!(r#""{at}":0"#))),
    ];
    for object in &objects {
        let mut value = tree(object);
        let begin = Instant::now();
        let mut strict = Vec::new();
        schema.prune(&mut value, &mut strict);
        schema.default(&mut value);
        let map = value.as_map().unwrap();
        let errors =
            schema.validate_lists(map).len() + schema.validate_embedded(map, |_| Default::default()).len();
        let taken = begin.elapsed();
        assert!(strict.len() <= schema::Decoded::MOST_STRICT, "{}", strict.len());
        println!(
            "{taken:?} {} bytes, {} unknown, {errors} errors: {}...",
            object.len(),
            strict.len(),
            &object[..40]
        );
        assert!(taken < Duration::from_secs(30), "{taken:?}");
    }
}

#[test]
fn a_tree_that_has_nothing_to_prune_is_not_copied() {
    let schema = compile(
        r#"{"type":"object","properties":{"list":{"type":"array","items":{"type":"string"}},"gone":{"type":"string"}}}"#,
    );
    let original = tree(r#"{"list":["a","b"],"gone":"x"}"#);
    let mut value = original.clone();
    assert!(!schema.prune(&mut value, &mut Vec::new()).changed);
    let place = |value: &Value| value.as_map().unwrap().entries().as_ptr();
    assert_eq!(place(&value), place(&original));
    let mut other = tree(r#"{"list":["a","b"],"gone":null}"#);
    let list = |value: &Value| value.get("list").unwrap().as_list().unwrap().as_ptr();
    let before = list(&other);
    assert!(schema.prune(&mut other, &mut Vec::new()).changed);
    assert_eq!(list(&other), before);
}

/// A schema as controllers have them: some hundred fields with long descriptions.
fn real_world(random: &mut Random) -> String {
    const WORDS: [&str; 12] = [
        "container",
        "Template",
        "policy",
        "Reference",
        "volume",
        "Claim",
        "timeout",
        "Seconds",
        "match",
        "Label",
        "Selector",
        "target",
    ];
    fn field(depth: usize, count: &mut usize, random: &mut Random) -> String {
        *count += 1;
        let about = "What this field is for, said at some length as the generators do.";
        let kind = if depth == 0 { random.below(7) } else { random.below(10) };
        let facts = match kind {
            0..3 => r#""type":"string""#.into(),
            3 => r#""type":"integer","format":"int32","minimum":0"#.into(),
            4 => r#""type":"boolean""#.into(),
            5 => format!(r#""type":"string","enum":["Always","Never","{}"]"#, random.pick(&WORDS)),
            6 => r#""type":"object","additionalProperties":{"type":"string"}"#.into(),
            7 => format!(r#""type":"array","items":{{{}}}"#, fields(depth - 1, count, random)),
            _ => fields(depth - 1, count, random),
        };
        format!(r#"{{"description":"{about}",{facts}}}"#)
    }
    fn fields(depth: usize, count: &mut usize, random: &mut Random) -> String {
        let mut text = String::new();
        let mut names = std::collections::BTreeSet::new();
        for _ in 0..10 {
            names.insert(format!("{}{}", random.pick(&WORDS), random.pick(&WORDS)));
        }
        for (at, name) in names.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let _ = write!(text, r#"{comma}"{name}":{}"#, field(depth, count, random));
        }
        let required = names.first().unwrap();
        format!(r#""type":"object","required":["{required}"],"properties":{{{text}}}"#)
    }
    loop {
        let mut count = 0;
        let text = format!("{{{}}}", fields(3, &mut count, random));
        if (300..450).contains(&count) {
            return text;
        }
    }
}

#[test]
fn a_real_world_schema_takes_less_memory_than_its_text() {
    let mut random = Random::new(7);
    let texts: Vec<String> = (0..50).map(|_| real_world(&mut random)).collect();
    let size = texts.iter().map(String::len).sum::<usize>() / texts.len();
    drop(compile(texts.first().unwrap()));
    let before = HEAP.current_usage();
    let mut compiled: Vec<Arc<Structural>> = Vec::with_capacity(texts.len());
    let first = {
        compiled.push(compile(texts.first().unwrap()));
        HEAP.current_usage() - before
    };
    compiled.extend(texts.iter().skip(1).map(|text| compile(text)));
    let each = (HEAP.current_usage() - before) / compiled.len();
    println!(
        "{size} bytes of text; compiled: the first {first} bytes, each of {} {each} bytes",
        compiled.len()
    );
    assert!(size > 25_000 && each < 30_000, "{size} {each}");
    let same = compile(texts.first().unwrap());
    assert!(Arc::ptr_eq(&same, compiled.first().unwrap()));
}

//! Definitions that are meant to cost more than they should, and objects of them: each is served or refused,
//! within a time and an amount of memory.
//!
//! A schema is as long as a body may be, and so is an object; what multiplies the two is what most cases are
//! about.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use testkit::Server;

use super::{Caller, cpu_time, megabytes, resident, start};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The most CPU time of one request.
const MOST_CPU: Duration = Duration::from_secs(30);
/// The most memory that one request adds while it runs.
const MOST_MEMORY: u64 = 600_000_000;

/// A definition, and what becomes of it and of an object.
struct Case {
    what: &'static str,
    definition: Value,
    wanted: u16,
    /// The `spec` of an object, and the answer to it.
    object: Option<(Value, u16)>,
}

impl Case {
    /// A definition with this schema for `spec`.
    fn new(what: &'static str, schema: Value, wanted: u16) -> Self {
        let plural: String = what.chars().filter(char::is_ascii_lowercase).collect();
        let definition = json!({
            "metadata": {"name": format!("{plural}.hostile.example.com")},
            "spec": {"group": "hostile.example.com", "scope": "Cluster", "names": {"plural": plural, "kind": kind_of(&plural)},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}}}]}
        });
        Self { what, definition, wanted, object: None }
    }

    fn object(mut self, spec: Value, wanted: u16) -> Self {
        self.object = Some((spec, wanted));
        self
    }

    fn version(mut self, key: &str, value: Value) -> Self {
        self.definition["spec"]["versions"][0][key] = value;
        self
    }
}

/// Each definition has a kind of its own, so that none waits for the end of another.
fn kind_of(plural: &str) -> String {
    let (first, rest) = plural.split_at(1);
    first.to_uppercase() + rest
}

fn nested(levels: usize, inner: Value, wrap: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(inner, |inner, _| wrap(inner))
}

fn fields(count: usize, value: impl Fn(usize) -> Value) -> Value {
    Value::Object((0..count).map(|at| (format!("f{at:06}"), value(at))).collect::<Map<_, _>>())
}

fn list(count: usize, value: impl Fn(usize) -> Value) -> Value {
    (0..count).map(value).collect()
}

/// Items of a list that a schema is made for.
fn items(schema: Value) -> Value {
    json!({"type": "array", "items": schema})
}

/// Deep, wide and long definitions. The reference serves them too, but for the depth.
fn shapes() -> Vec<Case> {
    let object = |inner: Value| json!({"type": "object", "properties": {"a": inner}});
    let text = || json!({"type": "string"});
    let deep = nested(120, text(), object);
    let deep_object = nested(120, json!("x"), |inner| json!({"a": inner}));
    let too_deep = nested(400, text(), items);
    let keys: Vec<String> = (0..2_000).map(|at| format!("k{at}")).collect();
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
        "items": {"type": "object", "required": keys, "properties": fields_of(&keys)}});
    let keyed_items =
        list(40, |at| Value::Object(keys.iter().map(|key| (key.clone(), json!(at.to_string()))).collect()));
    let column =
        |at: usize| json!({"name": format!("c{at}"), "type": "string", "jsonPath": ".spec[*][*][*]"});
    let cubes = list(50, |_| list(60, |_| list(60, |at| json!(at))));
    vec![
        Case::new("deep", deep, 201).object(deep_object, 201),
        Case::new("too deep", too_deep, 422),
        Case::new("deep lists", nested(100, text(), items), 201).object(nested(100, json!("x"), |inner| json!([inner])), 201),
        Case::new("wide", json!({"type": "object", "properties": fields(45_000, |_| text())}), 201)
            .object(fields(45_000, |_| json!(5)), 422),
        Case::new("long description", json!({"type": "string", "description": "x".repeat(2_900_000)}), 201)
            .object(json!("x"), 201),
        Case::new("many keys", keyed, 201).object(keyed_items, 201),
        Case::new("many columns", items(items(items(json!({"type": "integer"})))), 201)
            .version("additionalPrinterColumns", list(2_000, column))
            .object(cubes, 201),
        Case::new("many selectable", json!({"type": "object", "properties": fields(5_000, |_| text())}), 422)
            .version("selectableFields", list(5_000, |at| json!({"jsonPath": format!(".spec.f{at:06}")}))),
        Case::new("embedded", items(json!({"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true})), 201)
            .object(list(30_000, |_| json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "X_", "labels": {"a b": "c"}}})), 422),
        Case::new("pruned", items(json!({"type": "object", "properties": {}})), 201)
            .object(list(120_000, |at| json!({format!("u{at}"): 1})), 201),
        Case::new("unknown fields in expressions", json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-validations": list(20_000, |at| json!({"rule": format!("has(self.a{at})")}))}), 422),
        Case::new("expressions", json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "integer"}},
            "x-kubernetes-validations": list(2_000, |at| json!({"rule": format!("!has(self.a) || self.a >= {at}")}))}}}), 201)
            .object(json!({"a": 5_000}), 201),
    ]
}

fn fields_of(keys: &[String]) -> Value {
    Value::Object(keys.iter().map(|key| (key.clone(), json!({"type": "string"}))).collect())
}

/// What a schema says of each item, times the items.
fn products() -> Vec<Case> {
    let combined = |keyword: &str, schemas: Value| {
        let mut item = json!({"type": "string"});
        item[keyword] = schemas;
        items(item)
    };
    let texts = |count: usize| list(count, |_| json!("a"));
    let towers = |keyword: &'static str| {
        nested(14, json!({"minLength": 3}), |inner| json!({keyword: [inner.clone(), inner]}))
    };
    let tower = |keyword: &'static str| {
        let mut item = towers(keyword);
        item["type"] = json!("string");
        items(item)
    };
    let nots = nested(200, json!({"minLength": 3}), |inner| json!({"not": inner}));
    let required: Vec<String> = (0..150_000).map(|at| format!("r{at:05}")).collect();
    vec![
        Case::new("any of many", combined("anyOf", list(90_000, |at| json!({"minLength": at + 5}))), 201)
            .object(texts(200_000), 422),
        Case::new("all of tower", tower("allOf"), 201).object(texts(100_000), 422),
        Case::new("any of tower", tower("anyOf"), 201).object(texts(100_000), 422),
        Case::new("one of tower", tower("oneOf"), 201).object(texts(100_000), 422),
        Case::new("not tower", combined("not", nots), 201).object(texts(240_000), 422),
        Case::new(
            "lengths of a long text",
            json!({"type": "string", "anyOf": list(90_000, |at| json!({"minLength": 9_000_000 + at}))}),
            201,
        )
        .object(json!("x".repeat(2_000_000)), 422),
        Case::new(
            "huge enum",
            items(json!({"type": "string", "enum": list(150_000, |at| json!(format!("value-{at:07}")))})),
            201,
        )
        .object(texts(240_000), 422),
        Case::new(
            "huge enum of objects",
            items(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "enum": list(150_000, |at| json!({"a": at}))})),
            201,
        )
        .object(list(100_000, |_| json!({"a": -1})), 422),
        Case::new("many required", items(json!({"type": "object", "required": required})), 201)
            .object(list(200_000, |_| json!({})), 422),
    ]
}

/// Patterns that are large, many or slow.
fn patterns() -> Vec<Case> {
    let of = |count: usize, pattern: &dyn Fn(usize) -> String| json!({"type": "object", "properties": fields(count, |at| json!({"type": "string", "pattern": pattern(at)}))});
    let pattern = |text: &str| json!({"type": "string", "pattern": text});
    vec![
        Case::new("slow pattern", pattern("^(a?){1000}b$"), 201).object(json!("a".repeat(2_500_000)), 422),
        Case::new("slow pattern and many texts", items(pattern("^(a?){1000}b$")), 201)
            .object(list(2_500, |_| json!("a".repeat(1_000))), 422),
        Case::new("large pattern", pattern("^([\\pL\\pN]{1,300}x){1,1}$"), 201).object(json!("é".repeat(1_000_000)), 422),
        Case::new("too large pattern", pattern("((\\pL\\pM\\pN\\pS){100}){10}"), 422),
        Case::new("many patterns", of(30_000, &|at| format!("^([a-z{at}]?){{300}}b$")), 201)
            .object(fields(30_000, |_| json!("a".repeat(60))), 422),
        Case::new("many large patterns", of(20_000, &|at| format!("^(\\pL{at}?){{600}}b$")), 422),
        Case::new("any of many patterns", json!({"type": "string", "anyOf": list(50_000, |at| json!({"pattern": format!("^(a|b{at})*c{{{}}}$", at % 500 + 1)}))}), 201)
            .object(json!("a".repeat(1_000_000)), 422),
    ]
}

/// Defaults that make much of little.
fn defaults() -> Vec<Case> {
    let field = |text: &str| json!({"type": "string", "default": text});
    let empty = |count: usize| list(count, |_| json!({}));
    let inner = json!({"type": "object", "properties": {"x": field("y")}});
    let multiplied = nested(
        6,
        inner,
        |inner| json!({"type": "object", "properties": {"l": {"type": "array", "default": list(30, |_| json!({})), "items": inner}}}),
    );
    let many = |count: usize| json!({"type": "object", "properties": fields(count, |_| field("x"))});
    let mut wide = many(30_000);
    wide["default"] = json!({});
    let mut repeated = items(many(4_000));
    repeated["default"] = empty(100_000);
    let part = || json!({"type": "array", "default": empty(600), "items": many(80)});
    vec![
        Case::new("wide defaults", wide, 201).object(json!({}), 201),
        Case::new("defaults of items", items(many(2_000)), 201).object(empty(240_000), 413),
        Case::new(
            "long default of items",
            items(json!({"type": "object", "properties": {"a": field(&"x".repeat(1_000_000))}})),
            201,
        )
        .object(empty(240_000), 413),
        Case::new("defaults that multiply", multiplied, 422),
        Case::new("default of many items", repeated, 422),
        Case::new(
            "many defaults of items",
            json!({"type": "object", "properties": fields(400, |_| part())}),
            422,
        ),
    ]
}

fn run(cases: Vec<Case>) {
    let server = start(&[]);
    let mut caller = Caller::new(&server);
    let mut wrong = Vec::new();
    for case in cases {
        let name = case.definition["metadata"]["name"].as_str().unwrap();
        let body = case.definition.to_string();
        wrong.extend(step(&server, &mut caller, case.what, "definition", CRDS, &body, case.wanted));
        if let Some((spec, wanted)) = &case.object {
            let plural = name.split('.').next().unwrap();
            let path = format!("/apis/hostile.example.com/v1/{plural}");
            let body = json!({"apiVersion": "hostile.example.com/v1", "kind": kind_of(plural), "metadata": {"name": "x"}, "spec": spec});
            wrong.extend(step(&server, &mut caller, case.what, "object", &path, &body.to_string(), *wanted));
            let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
            let before = cpu_time(&server);
            assert_eq!(caller.ask_as("GET", &path, table, "application/json", b"").status, 200);
            if cpu_time(&server) - before > MOST_CPU {
                wrong.push(format!("{}: a table took {:?}", case.what, cpu_time(&server) - before));
            }
        }
        caller.ask("DELETE", &format!("{CRDS}/{name}"), b"");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// One write, with what it took; what is wrong with that.
fn step(
    server: &Server,
    caller: &mut Caller,
    what: &str,
    which: &str,
    path: &str,
    body: &str,
    wanted: u16,
) -> Option<String> {
    let (memory, cpu) = (resident(server), cpu_time(server));
    let (peak, done) = (AtomicU64::new(memory), AtomicBool::new(false));
    let answer = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                peak.fetch_max(resident(server), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let answer = caller.ask("POST", path, body.as_bytes());
        done.store(true, Ordering::Relaxed);
        answer
    });
    let (cost, more) = (cpu_time(server) - cpu, peak.into_inner() - memory);
    let message = if answer.status < 300 { String::new() } else { answer.text().chars().take(200).collect() };
    let line = format!(
        "{what}, {which} of {} bytes: {} after {:?}, {cost:?} of CPU time, {} more memory {message}",
        body.len(),
        answer.status,
        answer.took,
        megabytes(more)
    );
    println!("{line}");
    (answer.status != wanted || cost > MOST_CPU || more > MOST_MEMORY).then_some(line)
}

#[test]
fn definitions_of_extreme_shapes_are_served_or_refused_in_time() {
    run(shapes());
}

#[test]
fn schemas_and_objects_that_multiply_are_refused_in_time() {
    run(products());
}

#[test]
fn large_and_many_patterns_are_served_or_refused_in_time() {
    run(patterns());
}

#[test]
fn defaults_that_multiply_are_refused_in_time() {
    run(defaults());
}

//! Hostile patches: no panic, no deep recursion, no work out of proportion.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

use merge::{Error, FieldValidation, Patch, Patched};
use object::Value;
use schema::{Limits, Ref, Shape, Type, builtin, json};
use std::time::{Duration, Instant};

const FORMATS: [Patch; 3] = [Patch::Json, Patch::Merge, Patch::Strategic];
const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","creationTimestamp":null,"labels":{"a":"b"},"finalizers":["x","y"]},"spec":{"containers":[{"name":"a","image":"i","args":["x"],"ports":[{"containerPort":80}],"env":[{"name":"E","value":"1"}],"resources":{"limits":{"cpu":"1"}}},{"name":"b","resources":{}}],"tolerations":[{"key":"k"}]},"status":{}}"#;
const CONFIG_MAP: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","creationTimestamp":null},"data":{"x":"1"}}"#;

struct Object {
    ty: Ref<Type>,
    value: Value,
}

impl Object {
    fn new(kind: &str, text: &str) -> Self {
        let ty = Ref::Static(builtin::by_kind("", "v1", kind).expect("built in"));
        let decoded = json::decode_shape(&Shape::Struct(ty.clone()), text.as_bytes(), &Limits::default());
        Self { ty, value: decoded.expect("an object").value }
    }

    fn apply(&self, format: Patch, patch: &str, validation: FieldValidation) -> Result<Patched, Error> {
        merge::apply(format, &self.ty, &self.value, patch.as_bytes(), validation, &Limits::default())
    }

    /// Applies it, in a time that is generous for a build without optimisation.
    fn soon(&self, format: Patch, patch: &str) -> Result<Patched, Error> {
        let start = Instant::now();
        let outcome = self.apply(format, patch, FieldValidation::Warn);
        assert!(start.elapsed() < Duration::from_secs(20), "{format:?} took {:?}", start.elapsed());
        outcome
    }
}

/// A small seeded source of random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn pick<'t>(&mut self, choices: &[&'t str]) -> &'t str {
        choices[self.below(choices.len())]
    }
}

const KEYS: &[&str] = &[
    "metadata",
    "labels",
    "spec",
    "containers",
    "name",
    "image",
    "env",
    "ports",
    "containerPort",
    "args",
    "finalizers",
    "tolerations",
    "resources",
    "limits",
    "cpu",
    "status",
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "$setElementOrder/finalizers",
    "$deleteFromPrimitiveList/finalizers",
    "$setElementOrder/tolerations",
    "$deleteFromPrimitiveList",
    "$setElementOrder",
    "kind",
    "apiVersion",
    "bogus",
    "",
    "$setElementOrder/env",
    "$deleteFromPrimitiveList/args",
    "creationTimestamp",
    "managedFields",
    "fieldsV1",
];
const SCALARS: &[&str] = &[
    "null",
    "true",
    "0",
    "80",
    "-1",
    "1.5",
    "1e2",
    "12345678901234567890",
    r#""a""#,
    r#""b""#,
    r#""x""#,
    r#""delete""#,
    r#""replace""#,
    r#""merge""#,
    r#""""#,
    r#""E""#,
    r#""Pod""#,
    r#""v1""#,
    r#""apps/v1""#,
];

fn any(random: &mut Random, depth: usize) -> String {
    match random.below(if depth == 0 { 1 } else { 5 }) {
        0 => random.pick(SCALARS).into(),
        1 | 2 => {
            let items: Vec<String> = (0..random.below(4)).map(|_| any(random, depth - 1)).collect();
            format!("[{}]", items.join(","))
        }
        _ => object(random, depth - 1),
    }
}

fn object(random: &mut Random, depth: usize) -> String {
    let entries = (0..1 + random.below(4)).map(|_| {
        let key = random.pick(KEYS);
        format!("{}:{}", json::string(key), any(random, depth))
    });
    format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
}

fn operations(random: &mut Random) -> String {
    const KINDS: &[&str] = &["add", "remove", "replace", "move", "copy", "test"];
    const TOKENS: &[&str] = &["0", "1", "-1", "-", "9", "x~1y", "~", "01", "999999999999999999999"];
    let path = |random: &mut Random| {
        let tokens = (0..random.below(6))
            .map(|_| if random.below(3) == 0 { random.pick(TOKENS) } else { random.pick(KEYS) });
        tokens.map(|token| format!("/{}", token.replace('/', "~1"))).collect::<String>()
    };
    let each = (0..1 + random.below(5)).map(|_| {
        let (kind, at, from) = (random.pick(KINDS), path(random), path(random));
        let value = any(random, 3);
        format!(r#"{{"op":"{kind}","path":"{at}","from":"{from}","value":{value}}}"#)
    });
    format!("[{}]", each.collect::<Vec<_>>().join(","))
}

#[test]
fn random_patches_never_panic_and_leave_an_object_that_reads_back() {
    let mut random = Random(7);
    let pod = Object::new("Pod", POD);
    let mut applied = 0;
    for round in 0..6000 {
        let format = FORMATS[round % 3];
        let patch = if format == Patch::Json { operations(&mut random) } else { object(&mut random, 5) };
        let validation =
            [FieldValidation::Ignore, FieldValidation::Warn, FieldValidation::Strict][random.below(3)];
        let Ok(patched) = pod.apply(format, &patch, validation) else { continue };
        applied += 1;
        let mut text = Vec::new();
        json::encode(&patched.ty, &patched.value, &mut text);
        let again = json::decode_shape(&Shape::Struct(patched.ty.clone()), &text, &Limits::default());
        let again = again.unwrap_or_else(|error| panic!("{patch}: {error}"));
        assert_eq!(again.value, patched.value, "{patch}");
    }
    assert!(applied > 500, "only {applied} patches applied");
}

#[test]
fn cut_off_and_garbled_patches_are_refused() {
    let pod = Object::new("Pod", POD);
    let whole = r#"{"metadata":{"labels":{"x":"é\n"}},"spec":{"containers":[{"name":"a","ports":null}]}}"#;
    for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
        for format in FORMATS {
            assert!(pod.apply(format, &whole[..end], FieldValidation::Warn).is_err());
        }
    }
    for format in FORMATS {
        let outcome = merge::apply(
            format,
            &pod.ty,
            &pod.value,
            b"\xff\xfe\x00{",
            FieldValidation::Ignore,
            &Limits::default(),
        );
        assert!(matches!(outcome, Err(Error::BadRequest(_))), "{outcome:?}");
    }
}

#[test]
fn deep_patches_are_refused() {
    let map = Object::new("ConfigMap", CONFIG_MAP);
    let deep = format!("{}1{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
    for format in [Patch::Merge, Patch::Strategic] {
        let error = map.soon(format, &deep).unwrap_err();
        assert!(error.to_string().ends_with("exceeded max depth"), "{error}");
    }
    let patch = format!(r#"[{{"op":"add","path":"/a","value":{deep}}}]"#);
    assert!(map.soon(Patch::Json, &patch).is_err());
}

#[test]
fn operations_cannot_build_depth_step_by_step() {
    let map = Object::new("ConfigMap", CONFIG_MAP);
    let level = r#"{"a":"#.repeat(400) + "{}" + &"}".repeat(400);
    let mut steps = vec![format!(r#"{{"op":"add","path":"/x","value":{level}}}"#)];
    for _ in 0..50 {
        let path = "/a".repeat(399);
        steps.push(r#"{"op":"add","path":"/y","value":{"a":1}}"#.to_string());
        steps.push(r#"{"op":"move","from":"/x","path":"/y/a"}"#.to_string());
        steps.push(format!(r#"{{"op":"add","path":"/x","value":{level}}}"#));
        steps.push(format!(r#"{{"op":"move","from":"/y","path":"/x{path}/y"}}"#));
    }
    let patch = format!("[{}]", steps.join(","));
    assert_eq!(map.soon(Patch::Json, &patch).unwrap_err(), Error::Unprocessable("exceeded max depth".into()));
}

#[test]
fn copies_are_bounded() {
    let map = Object::new("ConfigMap", CONFIG_MAP);
    let copy = r#",{"op":"copy","from":"/x","path":"/x/-"}"#;
    let patch = format!(r#"[{{"op":"add","path":"/x","value":["{}"]}}{}]"#, "y".repeat(100), copy.repeat(60));
    let Err(Error::Unprocessable(reason)) = map.soon(Patch::Json, &patch) else { panic!("copied") };
    assert!(reason.starts_with("Unable to complete the copy, the accumulated size increase of copy is "));
    assert!(reason.ends_with(", exceeding the limit 3145728"), "{reason}");
}

#[test]
fn shifting_a_long_list_again_and_again_is_refused() {
    let map = Object::new("ConfigMap", CONFIG_MAP);
    let long = format!("[{}0]", "0,".repeat(200_000));
    let step = r#",{"op":"add","path":"/x/0","value":1}"#;
    let patch = format!(r#"[{{"op":"add","path":"/x","value":{long}}}{}]"#, step.repeat(9_000));
    let error = map.soon(Patch::Json, &patch).unwrap_err();
    assert_eq!(error, Error::Unprocessable("the patch moves too many list items".into()));
}

#[test]
fn long_lists_are_merged_in_a_time_that_fits_their_length() {
    let pod = Object::new("Pod", POD);
    let names: Vec<String> = (0..30_000).map(|at| format!(r#"{{"name":"c{at}"}}"#)).collect();
    let list = names.join(",");
    let order = names.iter().rev().cloned().collect::<Vec<_>>().join(",");
    let added = pod.soon(Patch::Strategic, &format!(r#"{{"spec":{{"containers":[{list}]}}}}"#)).unwrap();
    let many = Object { ty: pod.ty.clone(), value: added.value };
    let count =
        |value: &Value| value.get("spec").and_then(|spec| spec.get("containers")?.as_list()).map(<[_]>::len);
    assert_eq!(count(&many.value), Some(30_002));
    let patch = format!(r#"{{"spec":{{"$setElementOrder/containers":[{order}],"containers":[]}}}}"#);
    let ordered = many.soon(Patch::Strategic, &patch).unwrap();
    assert_eq!(count(&ordered.value), Some(30_002));
    let texts: Vec<String> = (0..60_000).map(|at| format!(r#""f{at}""#)).collect();
    let patch = format!(r#"{{"metadata":{{"finalizers":[{0},{0}]}}}}"#, texts.join(","));
    let set = pod.soon(Patch::Strategic, &patch).unwrap();
    let finalizers = set.value.get("metadata").and_then(|meta| meta.get("finalizers")?.as_list());
    assert_eq!(finalizers.map(<[_]>::len), Some(60_002));
}

#[test]
fn a_deep_schema_is_merged() {
    let ty = Ref::Static(builtin::by_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap());
    let depth = 160;
    let nested = |leaf: &str| {
        let open = r#"{"properties":{"a":"#.repeat(depth);
        format!("{open}{leaf}{}", "}}".repeat(depth))
    };
    let crd = |schema: &str| {
        format!(
            r#"{{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","spec":{{"versions":[{{"name":"v1","schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#
        )
    };
    let text = crd(&nested(r#"{"type":"string"}"#));
    let decoded =
        json::decode_shape(&Shape::Struct(ty.clone()), text.as_bytes(), &Limits::default()).unwrap();
    let object = Object { ty, value: decoded.value };
    let schema = nested(r#"{"type":"integer"}"#);
    let patch =
        format!(r#"{{"spec":{{"versions":[{{"name":"v1","schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#);
    for format in [Patch::Merge, Patch::Strategic] {
        assert!(object.soon(format, &patch).is_ok());
    }
}

//! The kinds of the core group beside answers of the reference.
//!
//! Each line of `reference/core/*.tsv` is an operation, its inputs and the reference's answer, apart by tabs:
//!
//! - `default`, object, object with all defaults as a client would read it back.

use object::Value;
use schema::{Limits, Type, json};

fn lines() -> impl Iterator<Item = Vec<&'static str>> {
    [include_str!("reference/core/defaults.tsv")]
        .into_iter()
        .flat_map(str::lines)
        .map(|line| line.split('\t').collect())
}

fn object(text: &str) -> (&'static kinds::Kind, &'static Type, Value) {
    let any = json::decode_shape(&schema::Shape::Any, text.as_bytes(), &Limits::default()).unwrap().value;
    let word = |key: &str| any.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (word("apiVersion"), word("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let row = kinds::all().find(|row| row.group == group && row.kind == kind).unwrap();
    let ty = schema::builtin::by_kind(group, version, &kind).unwrap();
    (row, ty, json::decode(ty, text.as_bytes(), &Limits::default()).unwrap().value)
}

fn defaulted(text: &str) -> (&'static kinds::Kind, &'static Type, Value) {
    let (row, ty, mut value) = object(text);
    schema::default(ty, &mut value);
    row.strategy.default(value.as_map_mut().unwrap());
    (row, ty, value)
}

fn written(ty: &'static Type, value: &Value) -> String {
    let mut out = Vec::new();
    json::encode(ty, value, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn defaults_are_those_of_the_reference() {
    let mut checked = 0;
    for line in lines().filter(|line| line[0] == "default") {
        let (_, ty, value) = defaulted(line[1]);
        let (_, _, wanted) = object(line[2]);
        assert_eq!(written(ty, &value), written(ty, &wanted), "{}", line[1]);
        assert_eq!(value, wanted, "the tree holds what its type cannot tell from nothing: {}", line[1]);
        checked += 1;
    }
    assert!(checked > 0);
}

//! The errors of expressions, compared with those of the reference.

use crate::testing::{create, update};
use object::Value;
use schema::{Limits, Shape, json};

/// New objects, some with the objects that they replace, and their errors.
const REFERENCE: &str = include_str!("../../tests/reference/policies/expressions.json");

#[test]
fn expressions_have_the_errors_of_the_reference() {
    let reference = json::decode_shape(&Shape::Any, REFERENCE.as_bytes(), &Limits::default()).unwrap().value;
    let text = |value: &Value| {
        let mut out = Vec::new();
        json::encode_shape(&Shape::Any, value, &mut out);
        String::from_utf8(out).unwrap()
    };
    let cases = reference.as_list().unwrap();
    let mut wrong = Vec::new();
    for case in cases.iter() {
        let of = |key: &str| case.get(key).unwrap();
        let new = text(of("new"));
        let found = case.get("old").map_or_else(|| create(&new), |old| update(&new, &text(old)));
        let wanted: Vec<&str> = of("errors").as_list().unwrap().iter().filter_map(Value::as_str).collect();
        if found != wanted {
            wrong.push(format!("{:?}\n  wanted {wanted:#?}\n  found {found:#?}", of("name")));
        }
    }
    assert!(cases.len() >= 50, "{} cases", cases.len());
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

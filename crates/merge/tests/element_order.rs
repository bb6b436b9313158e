//! The order of merged lists, against facts recorded from the reference implementation.
//!
//! `reference/element_order.tsv` has one case per line, its columns split by tabs: the list that is patched
//! (`env` of a container, or `finalizers`); the names of its elements; the patch; the names of the elements
//! that came of it, those with the patch's value with a `*`, or `!` and the error.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

use merge::{FieldValidation, Patch};
use object::Value;
use schema::{Limits, Ref, Shape, builtin, json};

#[test]
fn merged_lists_have_the_order_of_the_reference() {
    let (mut seen, mut wrong) = (0, vec![]);
    for line in include_str!("reference/element_order.tsv").lines() {
        let [list, names, patch, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("four columns: {line}")
        };
        let found = patched(list, names, patch);
        if found != expected.replace("\\n", "\n") {
            wrong.push(format!("{names} {patch}\n  expected {expected}\n  found    {found}"));
        }
        seen += 1;
    }
    assert!(seen > 1000, "the facts are lost");
    let shown = wrong.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {seen} differ:\n{shown}", wrong.len());
}

fn patched(list: &str, names: &str, patch: &str) -> String {
    let names = names.split(',').filter(|name| !name.is_empty());
    let (object, patch) = if list == "env" {
        let elements: Vec<String> = names.map(|name| format!(r#"{{"name":"{name}"}}"#)).collect();
        let env = elements.join(",");
        let patch = patch.replacen('{', r#"{"name":"c","#, 1).replace(",}", "}");
        (
            format!(r#"{{"spec":{{"containers":[{{"name":"c","env":[{env}]}}]}}}}"#),
            format!(r#"{{"spec":{{"containers":[{patch}]}}}}"#),
        )
    } else {
        let finalizers = names.map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(",");
        (format!(r#"{{"metadata":{{"finalizers":[{finalizers}]}}}}"#), format!(r#"{{"metadata":{patch}}}"#))
    };
    let ty = Ref::Static(builtin::by_kind("", "v1", "Pod").unwrap());
    let limits = Limits::default();
    let object = json::decode_shape(&Shape::Struct(ty.clone()), object.as_bytes(), &limits).unwrap().value;
    let merged =
        merge::apply(Patch::Strategic, &ty, &object, patch.as_bytes(), FieldValidation::Ignore, &limits);
    let merged = match merged {
        Ok(merged) => merged.value,
        Err(error) => return format!("! {error}"),
    };
    let container =
        |value: &Value| value.get("spec")?.get("containers")?.as_list()?.first()?.get("env").cloned();
    let finalizers = |value: &Value| value.get("metadata")?.get("finalizers").cloned();
    let elements = if list == "env" { container(&merged) } else { finalizers(&merged) };
    let elements = elements.unwrap_or_default();
    elements.as_list().unwrap_or_default().iter().map(show).collect::<Vec<_>>().join(",")
}

fn show(element: &Value) -> String {
    match element.as_str() {
        Some(name) => name.to_owned(),
        None => {
            let name = element.get("name").and_then(Value::as_str).unwrap_or_default();
            format!("{name}{}", if element.get("value").is_some() { "*" } else { "" })
        }
    }
}

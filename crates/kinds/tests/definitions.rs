//! The rules for custom resource definitions, compared with those of the reference.
//!
//! `reference/definitions/bases.tsv` has definitions by name. `answers.tsv` has in each line, separated by
//! tabs: what is done (create, update, status), the name of a definition, edits that make the new state of
//! it, edits that make the old state, whether the errors have an order, and the errors. An edit is a JSON
//! pointer with a value, or without one, which removes what it points to. Places in memory, which the
//! reference shows, are one and the same.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "this is test code")]

use kinds::{Caller, Context, Gates, ResourceType, Rules, WrittenPart};
use object::field::List;
use object::{Map, Value};
use schema::{Limits, Shape, json};

const BASES: &str = include_str!("reference/definitions/bases.tsv");
const ANSWERS: &str = include_str!("reference/definitions/answers.tsv");
const CONTEXT: Context<'static> = Context {
    now: "2030-01-02T03:04:05Z",
    caller: Caller { name: "", uid: "", groups: &[], extra: &[] },
    gates: Gates::DEFAULT,
};

fn any(text: &str) -> Value {
    json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::default()).unwrap().value
}

/// A definition after edits.
fn edited(base: &str, edits: &str) -> Value {
    let text = BASES.lines().find_map(|line| line.strip_prefix(base)?.strip_prefix('\t')).unwrap();
    let mut value = any(text);
    for edit in any(edits).as_list().unwrap() {
        let edit = edit.as_list().unwrap();
        let steps: Vec<String> =
            edit[0].as_str().unwrap().split('/').skip(1).map(|step| step.replace("~1", "/")).collect();
        apply(&mut value, &steps, edit.get(1));
    }
    value
}

fn apply(value: &mut Value, steps: &[String], to: Option<&Value>) {
    if value.is_null() {
        *value = Map::new().into();
    }
    let (step, rest) = steps.split_first().unwrap();
    let below = match value {
        Value::List(list) => {
            let at: usize = step.parse().unwrap();
            if rest.is_empty() && to.is_none() {
                let rest = list.iter().enumerate().filter(|(other, _)| *other != at);
                *value = rest.map(|(_, item)| item.clone()).collect();
                return;
            }
            list.get_mut(at).unwrap()
        }
        value => {
            let map = value.as_map_mut().unwrap();
            if rest.is_empty() && to.is_none() {
                map.remove(step);
                return;
            }
            map.get_or_insert_with(step.as_str(), || Value::Null)
        }
    };
    match to {
        Some(to) if rest.is_empty() => *below = to.clone(),
        to => apply(below, rest, to),
    }
}

/// A definition as it is decoded, with defaults.
fn decoded(served: &ResourceType, value: &Value) -> Map {
    let mut text = Vec::new();
    json::encode_shape(&Shape::Any, value, &mut text);
    let mut object = json::decode(&served.ty, &text, &Limits::default()).unwrap().value;
    schema::default(&served.ty, &mut object);
    served.strategy.default(object.as_map_mut().unwrap());
    object.as_map().unwrap().clone()
}

fn errors(served: &ResourceType, what: &str, new: &Value, old: &Value) -> List {
    let rules = Rules::new(served, &served.ty);
    let mut new = decoded(served, new);
    let mut old = decoded(served, old);
    for object in [&mut new, &mut old] {
        let metadata = kinds::map_at(object, "metadata").unwrap();
        metadata.insert("resourceVersion", "1");
    }
    match what {
        "create" => {
            served.prepare_create(&mut new, &CONTEXT);
            served.strategy.validate_create(&new, &rules)
        }
        "update" => {
            served.prepare_update(None, &mut new, &old, &CONTEXT);
            served.strategy.validate_update(&new, &old, &rules)
        }
        _ => {
            served.prepare_update(Some(WrittenPart::Status), &mut new, &old, &CONTEXT);
            served.strategy.validate_status(&new, &old, &rules)
        }
    }
}

#[test]
fn definitions_have_the_errors_of_the_reference() {
    let kind = kinds::all().find(|kind| kind.kind == "CustomResourceDefinition").unwrap();
    let served = ResourceType::builtin(kind, kind.version("v1").unwrap()).unwrap();
    let (mut count, mut wrong) = (0, Vec::new());
    for line in ANSWERS.lines() {
        let [what, base, new, old, order, wanted] = line.split('\t').collect::<Vec<_>>()[..] else {
            unreachable!("a line has six columns: {line}")
        };
        let wanted = any(wanted);
        let mut wanted: Vec<String> =
            wanted.as_list().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect();
        let found = errors(&served, what, &edited(base, new), &edited(base, old));
        let mut found: Vec<String> = found.iter().map(ToString::to_string).collect();
        if order == "any" {
            wanted.sort();
            found.sort();
        }
        if found != wanted {
            wrong.push(format!("{what} {base} {new} after {old}\n  wanted {wanted:#?}\n  found {found:#?}"));
        }
        count += 1;
    }
    assert!(count > 2000, "{count} lines");
    assert!(wrong.is_empty(), "{} of {count} differ\n{}", wrong.len(), wrong.join("\n"));
}

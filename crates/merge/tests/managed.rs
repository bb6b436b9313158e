//! Managed fields against facts recorded from the reference implementation.
//!
//! Each line of a file is a history: a kind, which fields each subresource resets (as `fieldsV1`), and steps.
//! A step is an update to the object `new` or an apply of `config`, by the manager `m`, through the
//! subresource `s`, in the version `v`, forced or not; and what came of it: the object, or code, message and
//! causes. The clock of step `n` is `n` seconds past the start of 2024.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

use merge::managed::{Error, Force, Ownership, Scale, Typed, Versions, Writer};
use object::path_set::Set;
use object::{Text, Value};
use schema::view::View;
use schema::views::apiextensions::v1::JSONSchemaProps;
use schema::{Builder, GroupVersionKind, Limits, Ref, Shape, Structural, Type, builtin, json, yaml};
use std::sync::Arc;

#[test]
fn random_histories_match_the_reference() {
    replay(include_str!("reference/histories.jsonl"), 90);
}

#[test]
fn written_histories_match_the_reference() {
    replay(include_str!("reference/written.jsonl"), 70);
}

/// The number at `schema` is that of a schema in `custom_schemas.json`, which both versions of the kind have.
#[test]
fn histories_of_a_custom_kind_match_the_reference() {
    replay(include_str!("reference/custom.jsonl"), 150);
}

/// Each line has the entries of an object (`parent`), those of its scale (`sub`), those of the scale after a
/// change (`scale`), and those of the object that come of it (`back`).
#[test]
fn managed_fields_of_scales_match_the_reference() {
    let ty = Ref::Static(builtin::by_kind("apps", "v1", "Deployment").unwrap());
    let versions = ["apps/v1".to_owned()];
    let scale =
        Scale { replicas: &["spec".into(), "replicas".into()], api_version: "apps/v1", versions: &versions };
    let mut seen = 0;
    for line in include_str!("reference/scales.jsonl").lines() {
        let facts = any(line);
        let part = |key: &str| facts.get(key).filter(|value| !value.is_null()).map_or("[]".into(), text_of);
        let object = |entries: &str| decode(&ty, &format!(r#"{{"metadata":{{"managedFields":{entries}}}}}"#));
        let mut parent = object(&part("parent"));
        assert_eq!(shown_entries(&scale.entries(&parent)), entries(&object(&part("sub"))), "{line}");
        let changed = object(&part("scale"));
        scale.put_back(&mut parent, entries_of(&changed));
        assert_eq!(entries(&parent), entries(&object(&part("back"))), "{line}");
        seen += 1;
    }
    assert!(seen >= 40, "the facts are lost");
}

/// Entries as texts; those that are equal by all sort keys are in any order.
fn shown_entries(entries: &[Value]) -> Vec<String> {
    let shown = entries.iter().map(|entry| {
        let mut entry = entry.as_map().unwrap().clone();
        entry.sort_keys();
        format!("{entry:?}")
    });
    let mut shown: Vec<_> = shown.collect();
    shown.sort();
    shown
}

fn entries(object: &Value) -> Vec<String> {
    shown_entries(entries_of(object))
}

fn entries_of(object: &Value) -> &[Value] {
    let entries = object.get("metadata").and_then(|metadata| metadata.get("managedFields"));
    entries.and_then(Value::as_list).unwrap_or_default()
}

fn replay(text: &str, at_least: usize) {
    let (mut seen, mut wrong) = (0, Vec::new());
    for line in text.lines() {
        let history = any(line);
        seen += 1;
        if let Err(why) = run(&history) {
            wrong.push(format!("{}: {why}", word(&history, "kind")));
        }
    }
    assert!(seen >= at_least, "the facts are lost");
    let shown = wrong.iter().take(12).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {seen} differ:\n{shown}", wrong.len());
}

/// A custom object as the server decodes it: a creation time that is null is taken out there, before its
/// fields are managed.
fn without_null_creation(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.as_map_mut().and_then(|map| map.get_mut("metadata")?.as_map_mut())
        && metadata.get("creationTimestamp").is_some_and(Value::is_null)
    {
        metadata.remove("creationTimestamp");
    }
    object
}

fn run(history: &Value) -> Result<(), String> {
    let (version, kind) = word(history, "kind").split_once('|').unwrap();
    let schema = history.get("schema").and_then(Value::as_i64).map(|number| custom_schema(number as usize));
    let mut live: Option<Typed> = None;
    for (at, step) in history.get("steps").and_then(Value::as_list).unwrap().iter().enumerate() {
        let version = Some(word(step, "v")).filter(|v| !v.is_empty()).unwrap_or(version);
        let versions = Kind::new(kind, version, history.get("reset"), word(step, "s"), schema.as_ref());
        let ty = versions.ty(version).ok_or("no such type")?;
        if let Some(typed) = &mut live {
            let from = typed.ty.kind.as_ref().unwrap().api_version();
            *typed = versions.convert(typed.value.clone(), &from, version).unwrap();
        }
        let ownership =
            Ownership { ty: &ty, api_version: version, subresource: word(step, "s"), versions: &versions };
        let now = Text::from(format!("2024-01-01T00:00:{:02}Z", at + 1));
        let writer = Writer { name: word(step, "m"), now: &now, empty: &[] };
        let current = live.as_ref().map(|typed| &typed.value);
        let (found, next) = if word(step, "op") == "update" {
            let mut new = decode(&ty, &text_of(step.get("new").unwrap()));
            ownership.update(current, &mut new, writer);
            (encode(&ty, &new), Some(new))
        } else {
            let force = if step.get("f").is_some() { Force::Yes } else { Force::No };
            let config = yaml::decode_shape(&Shape::Any, word(step, "config").as_bytes(), &Limits::default());
            match ownership.apply(current, &config.unwrap().value, writer, force) {
                // The facts were taken after what the server refuses, nulls where none is allowed, was
                // pruned.
                Ok(new) if schema.is_some() => {
                    let new = decode(&ty, &encode(&ty, &new));
                    (encode(&ty, &new), Some(new))
                }
                Ok(new) => (encode(&ty, &new), Some(new)),
                Err(error) => (shown(&error), None),
            }
        };
        let expected = match step.get("result") {
            Some(result) if schema.is_some() => text_of(&without_null_creation(result)),
            Some(result) => text_of(result),
            None => {
                let causes = step.get("causes").and_then(Value::as_list).unwrap_or_default();
                let causes: Vec<_> = causes.iter().map(|cause| cause.as_str().unwrap().to_owned()).collect();
                let code = step.get("code").and_then(Value::as_i64).unwrap_or(500);
                sorted_lines(format!("{code} {} {causes:?}", word(step, "error")))
            }
        };
        if found != expected && (!found.starts_with('{') || any(&found) != any(&expected)) {
            let found = if found.starts_with('{') { text_of(&any(&found)) } else { found };
            let step = (
                word(step, "op"),
                word(step, "m"),
                word(step, "s"),
                word(step, "config"),
                step.get("f"),
                step.get("new").map(text_of),
            );
            return Err(format!(
                "step {at} {step:?}\n  live     {}\n  expected {expected}\n  found    {found}",
                live.map(|l| encode(&l.ty, &l.value)).unwrap_or_default()
            ));
        }
        if let Some(mut value) = next {
            let object = value.as_map_mut().unwrap();
            let metadata = object.get_or_insert_with("metadata", || object::Map::new().into());
            metadata.as_map_mut().unwrap().insert("uid", "u");
            let text = encode(&ty, &value);
            live = Some(Typed { value: decode(&ty, &text), ty });
        }
    }
    Ok(())
}

fn shown(error: &Error) -> String {
    let (code, mut causes) = match error {
        Error::BadRequest(_) => (400, vec![]),
        Error::Failed(_) => (500, vec![]),
        Error::Conflict(conflicts) => {
            let cause =
                |path: &object::path::Path, message: String| format!("FieldManagerConflict|{path}|{message}");
            (409, conflicts.iter().map(|one| cause(&one.path, one.message())).collect::<Vec<_>>())
        }
    };
    causes.sort();
    sorted_lines(format!("{code} {error} {causes:?}"))
}

/// The reference lists several faults in any order.
fn sorted_lines(text: String) -> String {
    let Some((head, faults)) = text.split_once(" errors:\n") else { return text };
    let mut faults: Vec<_> = faults.trim_end_matches(" []").split('\n').collect();
    faults.sort_unstable();
    format!("{head} {faults:?}")
}

/// A schema of a custom kind.
fn custom_schema(number: usize) -> Arc<Structural> {
    let schemas = any(include_str!("reference/custom_schemas.json"));
    let schema = text_of(schemas.as_list().unwrap().get(number).unwrap());
    let decoded = json::decode(JSONSchemaProps::schema(), schema.as_bytes(), &Limits::default()).unwrap();
    Structural::compile(JSONSchemaProps::of(decoded.value.as_map().unwrap())).unwrap()
}

/// A kind whose versions differ in nothing but their names.
struct Kind {
    kind: String,
    version: String,
    resets: Option<Set>,
    schema: Option<Arc<Structural>>,
}

impl Kind {
    fn new(
        kind: &str,
        version: &str,
        reset: Option<&Value>,
        subresource: &str,
        schema: Option<&Arc<Structural>>,
    ) -> Self {
        let resets = reset.and_then(|reset| reset.get(subresource)).and_then(Value::as_str);
        let resets = resets.map(|text| Set::from_json(text).unwrap());
        Self { kind: kind.into(), version: version.into(), resets, schema: schema.cloned() }
    }
}

impl Versions for Kind {
    fn ty(&self, version: &str) -> Option<Ref<Type>> {
        let (group, name) = version.split_once('/').unwrap_or(("", version));
        let Some(schema) = &self.schema else {
            return builtin::by_kind(group, name, &self.kind).map(Ref::Static);
        };
        let kind =
            GroupVersionKind { group: group.into(), version: name.into(), kind: self.kind.as_str().into() };
        Some(Builder::new("example").kind(kind).object().custom(schema.clone()).build())
    }

    fn convert(&self, mut object: Value, from: &str, to: &str) -> Option<Typed> {
        let ty = self.ty(to)?;
        object.as_map_mut()?.insert("apiVersion", to);
        let before = self.ty(from)?;
        let text = encode(&before, &object);
        Some(Typed { value: decode(&ty, &text), ty })
    }

    fn unowned(&self, version: &str) -> Option<&Set> {
        self.resets.as_ref().filter(|_| version == self.version)
    }
}

fn any(text: &str) -> Value {
    json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::STORED).unwrap().value
}

fn text_of(value: &Value) -> String {
    let mut out = Vec::new();
    json::encode_shape(&Shape::Any, value, &mut out);
    String::from_utf8(out).unwrap()
}

fn decode(ty: &Ref<Type>, text: &str) -> Value {
    json::decode_shape(&Shape::Struct(ty.clone()), text.as_bytes(), &Limits::default()).unwrap().value
}

fn encode(ty: &Type, value: &Value) -> String {
    let mut out = Vec::new();
    json::encode(ty, value, &mut out);
    String::from_utf8(out).unwrap()
}

fn word<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

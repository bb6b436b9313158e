//! What the reference's own packages make of the expressions of a `MutatingAdmissionPolicy`, a line of
//! `reference/mutations.jsonl` each: what the expression costs, and the object that comes of it, or why there
//! is none. Lines before them have
//! the definitions of custom kinds, and the objects by their names.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

use cel::kubernetes::{COST_OF_AN_OBJECT, EnvSet, Release};
use cel::{Budget, Env, Type, Value};
use expressions::patches::PatchType;
use merge::mutation::{Error, apply};
use schema::view::View;
use schema::views::apiextensions::v1::JSONSchemaProps;
use schema::{Builder, GroupVersionKind, Limits, Ref, Shape, Structural, builtin, json};
use serde_json::{Value as Json, json};
use std::collections::HashMap;

/// Expressions for which the reference has another answer, and why.
const DIFFERENCES: [(&str, &str); 18] = [
    ("Object{spec: Object.spec{replicas: 5000000000}}", "there, the number loses its upper bits"),
    ("Object{spec: Object.spec{replicas: 0.0/0.0}}", "trees have finite numbers"),
    ("Object{spec: Object.spec{replicas: 1.0/0.0}}", "trees have finite numbers"),
    (r#"Object{spec: "50%"}"#, "there, the error is formatted twice"),
    (r#"Object{metadata: Object.metadata{generateName: semver("1.2.3")}}"#, SOURCE),
    (r#"[JSONPatch{op: "replace", path: "/kind", value: "ReplicaSet"}]"#, OTHER_KIND),
    (r#"[JSONPatch{op: "replace", path: "/apiVersion", value: "apps/v1beta1"}]"#, OTHER_KIND),
    (r#"[JSONPatch{op: "remove", path: "/kind"}]"#, CUSTOM),
    (r#"[JSONPatch{op: "replace", path: "/apiVersion", value: "example.com/v2"}]"#, CUSTOM),
    (r#"[JSONPatch{op: "add", path: "/spec/nope", value: 1}]"#, CUSTOM),
    (r#"[JSONPatch{op: "add", path: "/nope", value: 1}]"#, CUSTOM),
    (r#"[JSONPatch{op: "add", path: "/metadata/bogus", value: 1}]"#, CUSTOM),
    (r#"[JSONPatch{op: "replace", path: "/metadata", value: 1}]"#, CUSTOM),
    (r#"[JSONPatch{op: "replace", path: "/metadata/labels", value: {"a": 1}}]"#, CUSTOM),
    (
        r#"[JSONPatch{op: "add", path: "/metadata/labels", value: JSONPatch{op: "a"}.bogus}]"#,
        "found out when it is evaluated",
    ),
    (
        r#"[JSONPatch{op: "add", path: "/metadata/labels", value: dyn(JSONPatch{op: "a"})[1]}]"#,
        "the text of an index that is no name",
    ),
    (
        r#"Object{spec: Object.spec{replicas: Object{a: [quantity("1")]}.a[0].asInteger()}}"#,
        "values of libraries stay what they are within lists",
    ),
    (
        r#"Object{spec: Object.spec{replicas: Object{a: quantity("1")} == Object{a: quantity("1.0")} ? 1 : 2}}"#,
        "quantities that are equal are the same",
    ),
];
const SOURCE: &str = "what Go's syntax of a value of a library is";
const OTHER_KIND: &str = "an object that becomes one of another kind or version";
const CUSTOM: &str = "a custom object has the form of its kind at once, not when it is stored";

struct Kinds {
    custom: HashMap<String, Ref<schema::Type>>,
    objects: HashMap<String, Json>,
    env: Env,
}

impl Kinds {
    fn define(&mut self, definition: &Json) {
        let spec = &definition["spec"];
        let text = |value: &Json| value.as_str().unwrap().to_owned();
        let version = &spec["versions"][0];
        let schema = version["schema"]["openAPIV3Schema"].to_string();
        let schema = json::decode(JSONSchemaProps::schema(), schema.as_bytes(), &Limits::default()).unwrap();
        let schema = Structural::compile(JSONSchemaProps::of(schema.value.as_map().unwrap())).unwrap();
        let kind = text(&spec["names"]["kind"]);
        let named = GroupVersionKind {
            group: text(&spec["group"]).into(),
            version: text(&version["name"]).into(),
            kind: kind.as_str().into(),
        };
        let ty = Builder::new("example").kind(named).object().custom(schema).build();
        self.custom.insert(kind, ty);
    }

    fn ty(&self, object: &Json) -> Ref<schema::Type> {
        let (version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let custom = self.custom.get(kind).cloned();
        custom.unwrap_or_else(|| Ref::Static(builtin::by_kind(group, version, kind).unwrap()))
    }

    /// The answer to a line, in the form of the lines.
    fn answer(&self, line: &Json) -> Json {
        let mut answer = line.clone();
        for key in ["v", "compile", "cost", "error", "code"] {
            answer.as_object_mut().unwrap().remove(key);
        }
        let object = &self.objects[line["on"].as_str().unwrap()];
        let ty = self.ty(object);
        let patch_type = match line["patch"].as_str().unwrap() {
            "json" => PatchType::JsonPatch,
            _ => PatchType::ApplyConfiguration,
        };
        let expression = line["e"].as_str().unwrap();
        let compiled = match patch_type.compile(&self.env, expression) {
            Ok(compiled) => compiled,
            Err(fault) => {
                answer["compile"] = json!(fault.to_string());
                return answer;
            }
        };
        let shape = Shape::Struct(ty.clone());
        let tree =
            json::decode_shape(&shape, object.to_string().as_bytes(), &Limits::default()).unwrap().value;
        let plain =
            json::decode_shape(&Shape::Any, &encode(&shape, &tree), &Limits::default()).unwrap().value;
        let slots = [Value::plain(&plain), Value::Null, Value::Null];
        let mut budget = Budget { limit: COST_OF_AN_OBJECT, spent: 0, interrupted: None };
        let outcome = compiled.evaluate(&slots, &mut budget);
        answer["cost"] = json!(budget.spent);
        let value = match outcome {
            Ok(value) => value,
            Err(failure) => {
                answer["error"] = json!(format!("expression '{expression}' resulted in error: {failure}"));
                return answer;
            }
        };
        let outcome = patch_type.mutation(&value).map_err(Error::Failed);
        match outcome.and_then(|mutation| apply(&ty, &tree, mutation)) {
            Ok(mutated) => {
                answer["v"] = serde_json::from_slice(&encode(&shape, &mutated)).unwrap();
            }
            Err(Error::Failed(why)) => answer["error"] = json!(why),
            Err(Error::Internal(why)) => {
                answer["error"] = json!(format!("Internal error occurred: {why}"));
                answer["code"] = json!(500);
            }
        }
        answer
    }
}

fn encode(shape: &Shape, value: &object::Value) -> Vec<u8> {
    let mut out = Vec::new();
    json::encode_shape(shape, value, &mut out);
    out
}

/// An answer whose faults have the order of their texts: the reference lists them in any.
fn sorted(mut answer: Json) -> Json {
    if let Some(error) = answer["error"].as_str() {
        for (head, between) in
            [("errors:\n", "\n"), ("may not mutate atomic arrays, maps or structs: ", ", ")]
        {
            if let Some((before, list)) = error.split_once(head) {
                let mut list: Vec<_> = list.split(between).collect();
                list.sort_unstable();
                answer["error"] = json!(format!("{before}{head}{}", list.join(between)));
                break;
            }
        }
    }
    answer
}

#[test]
fn mutations_give_the_objects_and_errors_of_the_reference() {
    let set = EnvSet::base(Release(32), true).with_patches().extend(|builder| {
        let builder = builder.variable("object", Type::Dyn).variable("oldObject", Type::Dyn);
        builder.variable("namespaceObject", Type::Dyn)
    });
    let mut kinds = Kinds { custom: HashMap::new(), objects: HashMap::new(), env: set.stored };
    let lines = match std::env::var("CEL_MUTATIONS") {
        Ok(path) => std::fs::read_to_string(path).expect("the lines"),
        Err(_) => include_str!("reference/mutations.jsonl").to_owned(),
    };
    let (mut cases, mut wrong) = (0, vec![]);
    for line in lines.lines() {
        let line: Json = serde_json::from_str(line).expect("a line");
        if let Some(definition) = line.get("crd") {
            kinds.define(definition);
        } else if let Some(name) = line["name"].as_str() {
            kinds.objects.insert(name.to_owned(), line["object"].clone());
        } else {
            cases += 1;
            let (found, expected) = (sorted(kinds.answer(&line)), sorted(line));
            let is_custom = expected["on"] == "widget";
            let known =
                DIFFERENCES.iter().any(|(e, why)| expected["e"] == *e && (is_custom == (*why == CUSTOM)));
            if (found != expected) != known {
                wrong.push(format!("  expected {expected}\n  found    {found}"));
            }
        }
    }
    let shown = wrong.len().min(std::env::var("CEL_SHOW").map_or(20, |most| most.parse().unwrap()));
    assert!(wrong.is_empty(), "{} of {cases} differ:\n{}", wrong.len(), wrong[..shown].join("\n"));
    assert!(cases > 600, "{cases}");
}

//! Definitions of custom resources, and objects of them.

use super::GROUP;
use serde_json::{Map, Value, json};

fn plural(number: usize) -> String {
    format!("sample{number}s")
}

pub(crate) fn collection(number: usize, namespace: &str) -> String {
    format!("/apis/{GROUP}/v1/namespaces/{namespace}/{}", plural(number))
}

/// An object of a definition, with the fields of a pod.
pub(crate) fn object(number: usize, pod: &Value, name: &str) -> Value {
    let mut object = pod.clone();
    if let Some(object) = object.as_object_mut() {
        object.insert("apiVersion".into(), format!("{GROUP}/v1").into());
        object.insert("kind".into(), format!("Sample{number}").into());
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("name".into(), name.into());
        metadata.remove("ownerReferences");
    }
    object
}

/// A definition whose objects have the fields of a pod, and others that only it has, up to a number of bytes.
/// Its spec has so many validation rules.
pub(crate) fn definition(number: usize, pod: &Value, bytes: usize, rules: usize) -> Value {
    let kind = format!("Sample{number}");
    let mut spec = schema(pod.get("spec").unwrap_or(&Value::Null));
    let mut definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{GROUP}", plural(number))},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural(number), "singular": format!("sample{number}"), "kind": kind},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Node", "type": "string", "jsonPath": ".spec.nodeName"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {}}},
            }],
        },
    });
    if rules > 0
        && let Some(spec) = spec.as_object_mut()
    {
        let rules: Value = (0..rules).map(|at| json!({"rule": rule(number, at)})).collect();
        spec.insert("x-kubernetes-validations".into(), rules);
    }
    let used = definition.to_string().len() + spec.to_string().len();
    if let Some(properties) = spec.get_mut("properties").and_then(Value::as_object_mut) {
        let mut left = bytes.saturating_sub(used);
        let mut at = 0;
        while left > 0 {
            let (name, property) = (format!("field{number}x{at}"), extra(number, at));
            left = left.saturating_sub(name.len() + property.to_string().len() + 4);
            properties.insert(name, property);
            at += 1;
        }
    }
    let properties = json!({
        "spec": spec,
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    });
    if let Some(place) = definition.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties") {
        *place = properties;
    }
    definition
}

/// A field that only one definition has, as long as those of real ones are.
fn extra(number: usize, at: usize) -> Value {
    let words =
        "What an operator does with this setting, when it takes effect, and what happens without it. ";
    let property =
        |name: &str| json!({"type": "string", "description": format!("{name} of {number}. {words}")});
    json!({
        "type": "object",
        "description": format!("Setting {at} of definition {number}. {words}{words}"),
        "properties": {
            format!("name{at}"): property("The name"),
            format!("mode{at}"): {"type": "string", "enum": ["Always", "Never"], "default": "Always"},
            format!("limit{number}"): {"type": "integer", "format": "int32", "minimum": 0, "maximum": at + 10},
        },
        "required": [format!("name{at}")],
    })
}

/// A validation rule that objects with the fields of a pod pass, as operators write them.
fn rule(number: usize, at: usize) -> String {
    match at % 10 {
        0 => format!("self.containers.all(c, c.image.startsWith('registry.') && c.name != 'x{at}')"),
        1 => format!("self.containers.exists(c, c.name == 'web' || c.name == 'web{at}')"),
        2 => format!("self.containers.map(c, c.name).all(n, n.matches('^[a-z0-9-]{{1,{}}}$'))", 60 + at),
        3 => format!("size(self.containers) <= {}", 10 + at),
        4 => format!("self.containers.all(c, !has(c.env) || c.env.all(e, e.name != 'x{at}'))"),
        5 => format!("!has(self.volumes) || self.volumes.all(v, v.name != 'x{at}')"),
        6 => format!("!has(self.schedulerName) || self.schedulerName.size() < {}", 254 + at),
        7 => format!("!has(self.restartPolicy) || self.restartPolicy in ['Always', 'Never', 'x{at}']"),
        8 => format!("self.containers.all(c, !has(c.ports) || c.ports.all(p, p.containerPort > {at}))"),
        _ => format!("!has(self.field{number}x0) || self.field{number}x0.limit{number} < {}", 100 + at),
    }
}

/// The schema of which a value is an example.
fn schema(example: &Value) -> Value {
    match example {
        Value::Object(fields) => {
            let properties: Map<String, Value> =
                fields.iter().map(|(name, value)| (name.clone(), schema(value))).collect();
            json!({"type": "object", "properties": properties})
        }
        Value::Array(items) => {
            // Items of a list can have different fields.
            let merged = items.iter().map(schema).reduce(merge).unwrap_or_else(|| json!({"type": "string"}));
            json!({"type": "array", "maxItems": 64, "items": merged})
        }
        Value::String(_) | Value::Null => json!({"type": "string", "maxLength": 512}),
        Value::Bool(_) => json!({"type": "boolean"}),
        Value::Number(_) => json!({"type": "integer"}),
    }
}

fn merge(mut one: Value, other: Value) -> Value {
    let fields = other.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(properties) = one.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, value) in fields {
            let merged = match properties.remove(&name) {
                Some(known) => merge(known, value),
                None => value,
            };
            properties.insert(name, merged);
        }
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::plan::Plan;
    use crate::load::settings::Size;
    use expressions::declared::Declaration;
    use expressions::{Change, OBJECT_BUDGET, Validator};
    use object::field::Path;
    use schema::structural::Structural;
    use schema::view::View;
    use schema::views::apiextensions::v1::JSONSchemaProps;
    use schema::{Limits, Shape, json as reader};

    fn sample() -> Value {
        let size = Size { pods: 10, fill: 0, connections: 1, watchers: 1, work: 1.0 };
        serde_json::from_str(&Plan::new("n", size).unwrap().pod(0)).unwrap()
    }

    #[test]
    fn definitions_have_the_bytes_that_were_asked_for_and_differ() {
        let (one, other) = (definition(1, &sample(), 30_000, 0), definition(2, &sample(), 30_000, 0));
        let bytes = one.to_string().len();
        assert!((29_000..33_000).contains(&bytes), "{bytes}");
        let fields = |definition: &Value| {
            let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
            definition.pointer(path).and_then(Value::as_object).unwrap().clone()
        };
        let (one, other) = (fields(&one), fields(&other));
        let shared = one.keys().filter(|name| other.contains_key(*name)).count();
        assert!(shared * 2 < one.len() + shared, "{shared} of {}", one.len());
    }

    #[test]
    fn objects_pass_the_rules() {
        let sample = sample();
        let definition = definition(0, &sample, 30_000, 20);
        let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap().to_string();
        let decoded =
            reader::decode(JSONSchemaProps::schema(), schema.as_bytes(), &Limits::REQUEST).unwrap().value;
        let schema = Structural::compile(JSONSchemaProps::of(decoded.as_map().unwrap())).unwrap();
        let validator = Validator::compile(schema.root(), Declaration::Resource).unwrap();
        let text = object(0, &sample, "a").to_string();
        let object = reader::decode_shape(&Shape::Any, text.as_bytes(), &Limits::REQUEST).unwrap().value;
        let change = Change { new: &object, old: None, ratchets: false };
        let outcome = validator.validate(change, OBJECT_BUDGET, &Path::UNSET, &|work| work());
        let errors: Vec<_> = outcome.errors.iter().map(ToString::to_string).collect();
        assert!(errors.is_empty(), "{errors:?}");
        assert!(outcome.left < OBJECT_BUDGET);
    }

    #[test]
    fn objects_have_only_fields_of_their_definition() {
        let sample = sample();
        let schema = definition(0, &sample, 30_000, 0);
        let known =
            schema.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties").unwrap();
        let object = object(0, &sample, "a");
        let fields = object.get("spec").and_then(Value::as_object).unwrap();
        assert!(!fields.is_empty() && fields.keys().all(|name| known.get(name).is_some()));
        assert_eq!(object.pointer("/metadata/name").and_then(Value::as_str), Some("a"));
    }
}

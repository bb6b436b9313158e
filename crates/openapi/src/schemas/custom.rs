//! The schemas of custom kinds, from their definitions.
//!
//! OpenAPI v3 has all that a structural schema says. OpenAPI v2 has no word for some of it: alternatives and
//! conditions are left out, and so is the type where a value can be null or anything, because clients take
//! what they find as all that there is.

use super::{Model, OpenApiVersion, STATUS_NAME, Schemas};
use crate::tree::{Object, texts};
use kinds::ResourceType;
use object::{Map, Text, Value};
use schema::{Limits, Shape, builtin::by_name};
use std::collections::BTreeMap;

const EMBEDDED_API_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const LISTS: &str =
    "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
/// The descriptions of `metadata`.
const OBJECT_META: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const LIST_META: &str = "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// The keys of a validation rule in the order of the reference.
const RULE: &[&str] = &["rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf"];

/// Where a part of a schema is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// The schema describes a value.
    Structural,
    /// The schema is below `allOf`, `anyOf`, `oneOf` or `not`, and only adds conditions for a value.
    Nested,
}

impl<'a> Schemas<'a, '_> {
    /// `com.example.v1.Widget`. A name that a built-in type has gets another one in the document of all
    /// kinds.
    pub(super) fn custom_name(&self, resource: &ResourceType, kind: &str) -> Text {
        let domain: Vec<&str> = resource.group.rsplit('.').collect();
        let name = format!("{}.{}.{kind}", domain.join("."), resource.version);
        let is_builtin = || schema::builtin::types().iter().any(|ty| ty.openapi == name.as_str());
        if self.version == OpenApiVersion::V2 && name.starts_with("io.k8s.") && is_builtin() {
            return format!("{name}_v2").into();
        }
        name.into()
    }

    /// The schema of the objects of a custom kind. Without a schema in its definition they are just objects:
    /// clients would take properties that are named as the only ones.
    pub(super) fn of_custom(&mut self, resource: &ResourceType) -> Value {
        let defined = resource.definition.as_ref().and_then(|definition| definition());
        let defined = defined.as_ref().and_then(Value::as_map);
        let known = defined.filter(|defined| self.version == OpenApiVersion::V3 || !flag(defined, PRESERVE));
        let (mut schema, mut extensions) = match known {
            Some(defined) => {
                let mut properties = BTreeMap::new();
                self.put_type_meta(&mut properties);
                self.put_metadata(&mut properties, OBJECT_META, "meta.v1.ObjectMeta");
                self.node(defined, Level::Structural, properties)
            }
            None => (Object::new().with("type", "object"), BTreeMap::new()),
        };
        self.put_identity(resource, &resource.kind, &mut extensions);
        schema.extend(sorted_object(extensions));
        schema.into()
    }

    /// The schema of the lists of a custom kind.
    pub(super) fn of_custom_list(&mut self, resource: &'a ResourceType) -> Value {
        let mut properties = BTreeMap::new();
        self.put_type_meta(&mut properties);
        let items = Object::new().with("$ref", self.reference(Model::Custom(resource)));
        let items = Object::new()
            .with("description", format!("List of {}. {LISTS}", resource.resource))
            .with("type", "array")
            .with("items", items);
        properties.insert("items".to_owned(), items.into());
        self.put_metadata(&mut properties, LIST_META, "meta.v1.ListMeta");
        let mut extensions = BTreeMap::new();
        self.put_identity(resource, &resource.list_kind, &mut extensions);
        let mut schema = Object::new()
            .with("description", format!("{} is a list of {}", resource.list_kind, resource.kind))
            .with("type", "object")
            .with("required", texts(["items"]))
            .with("properties", sorted_object(properties));
        schema.extend(sorted_object(extensions));
        schema.into()
    }

    /// The kind, and the fields that selectors accept.
    fn put_identity(&self, resource: &ResourceType, kind: &str, extensions: &mut BTreeMap<String, Value>) {
        let kind = Object::new()
            .with("group", resource.group.clone())
            .with("kind", kind)
            .with("version", resource.version.clone());
        extensions.insert("x-kubernetes-group-version-kind".to_owned(), vec![kind.into()].into());
        if !resource.fields.is_empty() {
            let fields = resource.fields.iter();
            let fields: Vec<Value> =
                fields.map(|field| Object::new().with("fieldPath", field.name.clone()).into()).collect();
            extensions.insert("x-kubernetes-selectable-fields".to_owned(), fields.into());
        }
    }

    fn put_type_meta(&mut self, properties: &mut BTreeMap<String, Value>) {
        for field in ["apiVersion", "kind"] {
            let property = Object::new().with_some("description", self.descriptions.text(STATUS_NAME, field));
            properties.insert(field.to_owned(), property.with("type", "string").into());
        }
    }

    fn put_metadata(&mut self, properties: &mut BTreeMap<String, Value>, description: &str, ty: &str) {
        if let Some(ty) = by_name(ty) {
            let described = Object::new().with("description", description);
            let metadata = self.around(Model::Type(ty), described, None);
            properties.insert("metadata".to_owned(), metadata.into());
        }
    }

    /// A part of a schema, and its extensions; `fixed` are properties that it has in any case.
    fn node(
        &mut self,
        node: &Map,
        level: Level,
        fixed: BTreeMap<String, Value>,
    ) -> (Object, BTreeMap<String, Value>) {
        let is_v3 = self.version == OpenApiVersion::V3;
        let (nullable, preserves) = (flag(node, "nullable"), flag(node, PRESERVE));
        let is_left_open = !is_v3 && (nullable || preserves);
        let items = node.get("items").and_then(Value::as_map).filter(|_| !is_left_open);
        let properties = node.get("properties").and_then(Value::as_map).filter(|_| !is_left_open);
        let ty = text(node, "type").filter(|ty| {
            is_v3 || !(nullable || (*ty == "array" && items.is_none()) || (*ty == "object" && preserves))
        });
        let mut required: Vec<&str> = list(node, "required").iter().filter_map(Value::as_str).collect();
        let additional = node.get("additionalProperties").filter(|_| level == Level::Structural);
        if !is_v3 {
            let is_nullable =
                |name: &str| properties.and_then(|known| known.get(name)?.as_map()).is_some_and(nullable_in);
            required.retain(|name| !is_nullable(name));
            if additional.and_then(Value::as_map).is_some_and(nullable_in) {
                required.clear();
            }
        }
        let mut schema = Object::new()
            .with_some("description", text(node, "description"))
            .with_some("type", ty)
            .with_some("nullable", (is_v3 && nullable).then_some(true))
            .with_some("format", text(node, "format"))
            .with_some("title", text(node, "title"));
        if is_v3 && let Some(default) = node.get("default").map(plain).filter(|default| !default.is_null()) {
            schema.put("default", default);
        }
        for (key, kind) in LIMITS {
            let value = node.get(key).and_then(|value| match kind {
                Limit::Number => value.as_f64().map(Value::Float),
                Limit::Count => value.as_i64().map(Value::Int),
                Limit::Flag => (value.as_bool() == Some(true)).then_some(Value::Bool(true)),
                Limit::Text => text(node, key).map(Value::from),
                Limit::Values => {
                    let values = list(node, key).iter().map(plain).collect::<Vec<_>>();
                    (!values.is_empty()).then(|| values.into())
                }
            });
            schema = schema.with_some(key, value);
        }
        let is_embedded = level == Level::Structural && flag(node, EMBEDDED) && (is_v3 || !preserves);
        if is_embedded {
            for name in ["kind", "apiVersion"] {
                if !required.contains(&name) {
                    required.push(name);
                }
            }
        }
        if !required.is_empty() {
            schema.put("required", texts(required));
        }
        if let Some(items) = items {
            schema.put("items", self.below(items, level));
        }
        if is_v3 {
            self.put_conditions(node, level, &mut schema);
        }
        let mut all = BTreeMap::new();
        for (name, property) in properties.into_iter().flat_map(Map::iter) {
            if let Some(property) = property.as_map().filter(|_| !fixed.contains_key(name.as_str())) {
                all.insert(name.to_string(), self.below(property, level));
            }
        }
        all.extend(fixed);
        if is_embedded {
            for (name, description) in [("apiVersion", EMBEDDED_API_VERSION), ("kind", EMBEDDED_KIND)] {
                let property = Object::new().with("description", description).with("type", "string");
                all.insert(name.to_owned(), property.into());
            }
            self.put_metadata(&mut all, OBJECT_META, "meta.v1.ObjectMeta");
        }
        if !all.is_empty() {
            schema.put("properties", sorted_object(all));
        }
        match additional {
            Some(Value::Map(element)) => schema.put("additionalProperties", self.below(element, level)),
            Some(Value::Bool(allowed)) => schema.put("additionalProperties", *allowed),
            _ => {}
        }
        (schema, self.extensions(node))
    }

    fn below(&mut self, node: &Map, level: Level) -> Value {
        let (mut schema, extensions) = self.node(node, level, BTreeMap::new());
        schema.extend(sorted_object(extensions));
        schema.into()
    }

    /// `allOf`, `oneOf`, `anyOf` and `not`. That a value is an integer or a string is said with them.
    fn put_conditions(&mut self, node: &Map, level: Level, schema: &mut Object) {
        let mut nested = |key: &str| -> Vec<Value> {
            let conditions = list(node, key).iter().filter_map(Value::as_map);
            conditions.map(|condition| self.below(condition, Level::Nested)).collect()
        };
        let (mut all, one, mut any) = (nested("allOf"), nested("oneOf"), nested("anyOf"));
        if level == Level::Structural && flag(node, INT_OR_STRING) {
            let alternatives: Vec<Value> =
                ["integer", "string"].map(|ty| Object::new().with("type", ty).into()).into();
            let first = all.first().and_then(|first| first.get("anyOf")?.as_list());
            if any != alternatives && first != Some(alternatives.as_slice()) {
                if any.is_empty() {
                    any = alternatives;
                } else {
                    all.insert(0, Object::new().with("anyOf", alternatives).into());
                }
            }
        }
        for (key, conditions) in [("allOf", all), ("oneOf", one), ("anyOf", any)] {
            if !conditions.is_empty() {
                schema.put(key, conditions);
            }
        }
        if let Some(not) = node.get("not").and_then(Value::as_map) {
            schema.put("not", self.below(not, Level::Nested));
        }
    }

    fn extensions(&self, node: &Map) -> BTreeMap<String, Value> {
        let mut extensions = BTreeMap::new();
        for key in [EMBEDDED, INT_OR_STRING, PRESERVE] {
            if flag(node, key) {
                extensions.insert(key.to_owned(), true.into());
            }
        }
        for key in ["x-kubernetes-list-type", "x-kubernetes-map-type"] {
            if let Some(value) = text(node, key) {
                extensions.insert(key.to_owned(), value.into());
            }
        }
        let keys = list(node, "x-kubernetes-list-map-keys");
        if !keys.is_empty() {
            extensions.insert("x-kubernetes-list-map-keys".to_owned(), keys.to_vec().into());
        }
        let rules = list(node, "x-kubernetes-validations").iter().filter_map(Value::as_map);
        let rules: Vec<Value> = rules.map(|rule| self.rule(rule)).collect();
        if !rules.is_empty() {
            extensions.insert("x-kubernetes-validations".to_owned(), rules.into());
        }
        extensions
    }

    /// A validation rule. The document of all kinds has keys in the order of their names.
    fn rule(&self, rule: &Map) -> Value {
        let mut keys = RULE.to_vec();
        if self.version == OpenApiVersion::V2 {
            keys.sort_unstable();
        }
        let mut object = Object::new();
        for key in keys {
            let is_set = |value: &&Value| !value.is_null() && value.as_str() != Some("");
            if let Some(value) = rule.get(key).filter(is_set) {
                object.put(key, value.clone());
            }
        }
        object.into()
    }
}

/// What a limit is.
#[derive(Clone, Copy)]
enum Limit {
    Number,
    Count,
    Flag,
    Text,
    Values,
}

/// The limits of values in the order of a document.
const LIMITS: [(&str, Limit); 14] = [
    ("maximum", Limit::Number),
    ("exclusiveMaximum", Limit::Flag),
    ("minimum", Limit::Number),
    ("exclusiveMinimum", Limit::Flag),
    ("maxLength", Limit::Count),
    ("minLength", Limit::Count),
    ("pattern", Limit::Text),
    ("maxItems", Limit::Count),
    ("minItems", Limit::Count),
    ("uniqueItems", Limit::Flag),
    ("multipleOf", Limit::Number),
    ("enum", Limit::Values),
    ("maxProperties", Limit::Count),
    ("minProperties", Limit::Count),
];

fn flag(node: &Map, key: &str) -> bool {
    node.get(key).and_then(Value::as_bool) == Some(true)
}

fn nullable_in(node: &Map) -> bool {
    flag(node, "nullable")
}

fn text<'n>(node: &'n Map, key: &str) -> Option<&'n str> {
    node.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn list<'n>(node: &'n Map, key: &str) -> &'n [Value] {
    node.get(key).and_then(Value::as_list).unwrap_or_default()
}

fn sorted_object(entries: BTreeMap<String, Value>) -> Object {
    let mut object = Object::new();
    for (key, value) in entries {
        object.put(key, value);
    }
    object
}

/// A value that is in a schema, such as a default, with keys in the order of their names.
fn plain(value: &Value) -> Value {
    match value {
        Value::Raw(raw) => {
            let decoded = schema::json::decode_shape(&Shape::Any, raw.as_str().as_bytes(), &Limits::STORED);
            decoded.map(|decoded| plain(&decoded.value)).unwrap_or_default()
        }
        Value::List(list) => list.iter().map(plain).collect::<Vec<_>>().into(),
        Value::Map(map) => {
            let mut map: Map = map.iter().map(|(key, value)| (key.clone(), plain(value))).collect();
            map.sort_keys();
            map.into()
        }
        scalar => scalar.clone(),
    }
}

//! Schemas of custom resources, read from OpenAPI, as what expressions see of them: the shape of values
//! ([`Shape`]) and the declared types and sizes ([`Declared`]).

use cel::declared::{Declared, DeclaredField};
use object::shape::{Form, ListForm, Shape};
use object::{Text, Value};
use std::sync::Arc;

/// A node of a schema.
#[derive(Debug, Default)]
pub struct Schema {
    ty: String,
    format: String,
    int_or_string: bool,
    preserves: bool,
    embedded: bool,
    nullable: bool,
    properties: Option<Vec<(String, Schema)>>,
    values: Option<Box<Schema>>,
    items: Option<Box<Schema>>,
    list_type: String,
    list_keys: Vec<Text>,
    required: Vec<String>,
    has_default: bool,
    enumeration: Vec<Value>,
    max_length: Option<i64>,
    max_items: Option<i64>,
    max_properties: Option<i64>,
}

impl Schema {
    /// The schema of an OpenAPI document; as the root of a resource it has the properties of one.
    pub fn read(json: &Value, root: bool) -> Self {
        let mut schema = Self::node(json);
        if root || schema.embedded {
            schema.add_resource_properties();
        }
        schema
    }

    fn node(json: &Value) -> Self {
        let text = |name: &str| json.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let flag = |name: &str| json.get(name).and_then(Value::as_bool).unwrap_or_default();
        let number = |name: &str| json.get(name).and_then(Value::as_i64);
        let list = |name: &str| json.get(name).and_then(Value::as_list).unwrap_or_default();
        let part = |name: &str| {
            json.get(name)
                .filter(|part| part.as_map().is_some())
                .map(|part| Box::new(Self::read(part, false)))
        };
        Self {
            ty: text("type"),
            format: text("format"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            preserves: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            nullable: flag("nullable"),
            properties: json.get("properties").and_then(Value::as_map).map(|properties| {
                properties.iter().map(|(name, part)| (name.to_string(), Self::read(part, false))).collect()
            }),
            values: part("additionalProperties"),
            items: part("items"),
            list_type: text("x-kubernetes-list-type"),
            list_keys: texts(list("x-kubernetes-list-map-keys")).map(Text::from).collect(),
            required: texts(list("required")).map(str::to_owned).collect(),
            has_default: json.get("default").is_some(),
            enumeration: list("enum").to_vec(),
            max_length: number("maxLength"),
            max_items: number("maxItems"),
            max_properties: number("maxProperties"),
        }
    }

    fn add_resource_properties(&mut self) {
        let string = || Self { ty: "string".into(), ..Self::default() };
        let metadata = Self {
            ty: "object".into(),
            properties: Some(vec![("generateName".into(), string()), ("name".into(), string())]),
            ..Self::default()
        };
        let properties = self.properties.get_or_insert_default();
        let complete = [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")]
            .into_iter()
            .all(|(name, ty)| properties.iter().any(|(there, part)| there == name && part.ty == ty))
            && properties.iter().any(|(there, part)| {
                there == "metadata"
                    && ["name", "generateName"]
                        .into_iter()
                        .all(|name| part.property(name).is_some_and(|part| part.ty == "string"))
            });
        if complete {
            return;
        }
        properties.retain(|(name, _)| !["kind", "apiVersion", "metadata"].contains(&name.as_str()));
        properties.extend([
            ("kind".into(), string()),
            ("apiVersion".into(), string()),
            ("metadata".into(), metadata),
        ]);
    }

    fn property(&self, name: &str) -> Option<&Self> {
        self.properties.iter().flatten().find(|(there, _)| there == name).map(|(_, part)| part)
    }

    /// The declared type; `None` if expressions do not see values of this schema.
    pub fn declared(&self) -> Option<Arc<Declared>> {
        Some(Arc::new(match self.ty.as_str() {
            _ if self.int_or_string => Declared::int_or_string(),
            "array" => Declared::list(self.items.as_ref()?.declared()?, self.max_items),
            "object" => match &self.values {
                Some(values) => Declared::map(values.declared()?, self.max_properties),
                None => Declared::object(self.declared_fields()),
            },
            "string" => match self.format.as_str() {
                "byte" => Declared::bytes(self.max_length),
                "duration" => Declared::duration(),
                "date" => Declared::date(),
                "date-time" => Declared::date_time(),
                _ => {
                    let longest = self.enumeration.iter().filter_map(Value::as_str).map(str::len).max();
                    Declared::string(self.max_length, longest)
                }
            },
            "boolean" => Declared::boolean(),
            "number" => Declared::number(),
            "integer" => Declared::integer(),
            _ => return None,
        }))
    }

    fn declared_fields(&self) -> Vec<DeclaredField> {
        let properties = self.properties.iter().flatten();
        properties
            .filter_map(|(name, part)| {
                Some(DeclaredField {
                    name: name.as_str().into(),
                    escaped: cel::escape::escape(name).map(Box::from),
                    declared: part.declared()?,
                    is_required: self.required.contains(name),
                    has_default: part.has_default,
                })
            })
            .collect()
    }
}

fn texts(list: &[Value]) -> impl Iterator<Item = &str> {
    list.iter().filter_map(Value::as_str)
}

impl Shape for Schema {
    fn form(&self) -> Form<'_> {
        match self.ty.as_str() {
            _ if self.int_or_string => Form::IntOrString,
            "object" if self.properties.is_some() => Form::Object,
            "object" => Form::Map,
            "array" => Form::List(match self.list_type.as_str() {
                "set" => ListForm::Set,
                "map" => ListForm::Map(&self.list_keys),
                _ => ListForm::Atomic,
            }),
            "string" => match self.format.as_str() {
                "byte" => Form::Bytes,
                "duration" => Form::Duration,
                "date" => Form::Date,
                "date-time" => Form::DateTime,
                _ => Form::String,
            },
            "boolean" => Form::Boolean,
            "number" => Form::Number,
            "integer" => Form::Integer,
            _ if self.preserves => Form::Preserved,
            _ => Form::Unknown,
        }
    }

    fn is_nullable(&self) -> bool {
        self.nullable
    }

    fn field(&self, key: &str) -> Option<&dyn Shape> {
        if self.properties.is_some() {
            return self.property(key).map(|part| part as &dyn Shape);
        }
        self.values.as_deref().map(|part| part as &dyn Shape)
    }

    fn items(&self) -> Option<&dyn Shape> {
        self.items.as_deref().map(|part| part as &dyn Shape)
    }
}

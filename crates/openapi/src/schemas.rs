//! Types as OpenAPI schemas.

mod custom;
mod overrides;

use crate::descriptions::Descriptions;
use crate::tree::{Object, texts};
use kinds::ResourceType;
use object::{Text, Value};
use schema::{Alternative, Field, FieldOptions, Patch, Raw, Shape, Topology, Type};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Parts of a document by name, ascending.
pub(crate) type Entries = Vec<(String, Value)>;

/// The OpenAPI version of a document.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenApiVersion {
    /// Swagger 2.0: a `$ref` may have a description beside it, and there are no defaults.
    V2,
    /// OpenAPI 3.0: a `$ref` with siblings is wrapped in `allOf`.
    V3,
}

/// The model of a body or a field.
#[derive(Clone, Copy)]
pub(crate) enum Model<'a> {
    /// A type of the schema.
    Type(&'a Type),
    /// The objects of a custom kind.
    Custom(&'a ResourceType),
    /// The lists of a custom kind.
    CustomList(&'a ResourceType),
    /// A type without fields in `schema`.
    SpecialType(&'static SpecialType),
    /// Text.
    Text,
}

/// A type with a hand-written OpenAPI schema.
pub(crate) struct SpecialType {
    name: &'static str,
    schema: fn(OpenApiVersion) -> Object,
}

/// The body of a patch.
pub(crate) const PATCH: SpecialType =
    SpecialType { name: "io.k8s.apimachinery.pkg.apis.meta.v1.Patch", schema: any_object };
/// The response of `/version`.
pub(crate) const VERSION_INFO: SpecialType =
    SpecialType { name: VERSION_INFO_NAME, schema: |_| of_type("object") };
const VERSION_INFO_NAME: &str = "io.k8s.apimachinery.pkg.version.Info";
const STATUS_NAME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const TIME: SpecialType =
    SpecialType { name: "io.k8s.apimachinery.pkg.apis.meta.v1.Time", schema: date_time };
const MICRO_TIME: SpecialType =
    SpecialType { name: "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", schema: date_time };
const DURATION: SpecialType =
    SpecialType { name: "io.k8s.apimachinery.pkg.apis.meta.v1.Duration", schema: |_| of_type("string") };
const QUANTITY: SpecialType =
    SpecialType { name: "io.k8s.apimachinery.pkg.api.resource.Quantity", schema: quantity };
const INT_OR_STRING: SpecialType =
    SpecialType { name: "io.k8s.apimachinery.pkg.util.intstr.IntOrString", schema: int_or_string };
const RAW_EXTENSION: SpecialType =
    SpecialType { name: "io.k8s.apimachinery.pkg.runtime.RawExtension", schema: any_object };
const FIELDS_V1: SpecialType =
    SpecialType { name: "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", schema: any_object };
const JSON: SpecialType = SpecialType {
    name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
    schema: |_| Object::new(),
};
const SCHEMA_OR_BOOL: SpecialType = SpecialType {
    name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
    schema: |_| Object::new(),
};
const SCHEMA_OR_ARRAY: SpecialType = SpecialType {
    name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
    schema: |_| Object::new(),
};
const SCHEMA_OR_STRINGS: SpecialType = SpecialType {
    name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
    schema: |_| Object::new(),
};

/// The fields of [`VERSION_INFO`]: the name, and whether it is required.
const VERSION_FIELDS: &[(&str, bool)] = &[
    ("major", true),
    ("minor", true),
    ("emulationMajor", false),
    ("emulationMinor", false),
    ("minCompatibilityMajor", false),
    ("minCompatibilityMinor", false),
    ("gitVersion", true),
    ("gitCommit", true),
    ("gitTreeState", true),
    ("buildDate", true),
    ("goVersion", true),
    ("compiler", true),
    ("platform", true),
];

/// The schemas of a document: those that it refers to, directly or indirectly.
pub(crate) struct Schemas<'a, 'd> {
    version: OpenApiVersion,
    pub(crate) descriptions: &'d mut Descriptions,
    /// Whether options are described as kinds of those groups alone that clients know: so the reference does
    /// for custom kinds.
    pub(crate) groups_of_clients: bool,
    found: BTreeMap<Text, Option<Value>>,
    pending: Vec<Model<'a>>,
}

impl<'a, 'd> Schemas<'a, 'd> {
    pub(crate) fn new(version: OpenApiVersion, descriptions: &'d mut Descriptions) -> Self {
        let (found, pending) = (BTreeMap::new(), Vec::new());
        Self { version, descriptions, groups_of_clients: false, found, pending }
    }

    /// The schema of a body.
    pub(crate) fn body(&mut self, model: Model<'a>) -> Object {
        match model {
            Model::Text => of_type("string"),
            model => Object::new().with("$ref", self.reference(model)),
        }
    }

    /// The schemas by name.
    pub(crate) fn finish(mut self) -> Entries {
        while let Some(model) = self.pending.pop() {
            let schema = match model {
                Model::Type(ty) => self.of(ty),
                Model::Custom(resource) => self.of_custom(resource),
                Model::CustomList(resource) => self.of_custom_list(resource),
                Model::SpecialType(special) => self.of_special_type(special),
                Model::Text => continue,
            };
            let name = self.name(model);
            self.found.insert(name, Some(schema));
        }
        let schemas = self.found.into_iter();
        schemas.map(|(name, schema)| (name.to_string(), schema.unwrap_or_default())).collect()
    }

    /// The schemas of the custom kinds by name, without those that they refer to.
    pub(crate) fn finish_custom(mut self) -> Entries {
        self.pending.retain(|model| matches!(model, Model::Custom(_) | Model::CustomList(_)));
        let own: Vec<_> = self.pending.iter().map(|model| self.name(*model)).collect();
        let mut entries = Vec::new();
        for (name, model) in own.into_iter().zip(std::mem::take(&mut self.pending)) {
            let schema = match model {
                Model::Custom(resource) => self.of_custom(resource),
                Model::CustomList(resource) => self.of_custom_list(resource),
                _ => continue,
            };
            entries.push((name.to_string(), schema));
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        entries
    }

    /// The name of the schema of a type.
    fn name(&self, model: Model<'a>) -> Text {
        match model {
            Model::Type(ty) => ty.openapi.clone(),
            Model::SpecialType(special) => Text::known(special.name),
            Model::Custom(resource) => self.custom_name(resource, &resource.kind),
            Model::CustomList(resource) => self.custom_name(resource, &resource.list_kind),
            Model::Text => Text::default(),
        }
    }

    /// The `$ref` of a type; adds its schema to the document.
    pub(crate) fn reference(&mut self, model: Model<'a>) -> String {
        let name = self.name(model);
        let place = match self.version {
            OpenApiVersion::V2 => format!("#/definitions/{name}"),
            OpenApiVersion::V3 => format!("#/components/schemas/{name}"),
        };
        if let Entry::Vacant(free) = self.found.entry(name) {
            free.insert(None);
            self.pending.push(model);
        }
        place
    }

    fn of_special_type(&mut self, special: &'static SpecialType) -> Value {
        let mut schema = Object::new().with_some("description", self.descriptions.text(special.name, ""));
        schema.extend((special.schema)(self.version));
        if special.name == VERSION_INFO_NAME {
            let required = VERSION_FIELDS.iter().filter(|(_, always)| *always).map(|(name, _)| *name);
            schema.put("required", texts(required));
            let mut fields = VERSION_FIELDS.to_vec();
            fields.sort_unstable();
            let mut properties = Object::new();
            for (name, always) in fields {
                let default = always && self.version == OpenApiVersion::V3;
                let property = Object::new()
                    .with_some("description", self.descriptions.text(special.name, name))
                    .with("type", "string")
                    .with_some("default", default.then_some(""));
                properties.put(name, property);
            }
            schema.put("properties", properties);
        }
        schema.into()
    }

    fn of(&mut self, ty: &'a Type) -> Value {
        let mut schema = Object::new()
            .with_some("description", self.descriptions.text(&ty.openapi, ""))
            .with("type", "object");
        let required: Vec<&str> = ty
            .fields
            .iter()
            .filter(|field| field.options.required)
            .map(|field| field.name.as_str())
            .collect();
        if !required.is_empty() {
            schema.put("required", texts(required));
        }
        let mut fields: Vec<&'a Field> = ty.fields.iter().collect();
        fields.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
        let mut properties = Object::new();
        for field in fields {
            let property = self.property(ty, field);
            properties.put(field.name.clone(), property);
        }
        if !properties.is_empty() {
            schema.put("properties", properties);
        }
        let kinds = self.kinds_of(ty);
        if !kinds.is_empty() {
            schema.put("x-kubernetes-group-version-kind", kinds);
        }
        if ty.atomic {
            schema.put("x-kubernetes-map-type", "atomic");
        }
        if let Some(union) = &ty.union {
            let mut members: Vec<_> = union.members.iter().collect();
            members.sort_by(|a, b| a.field.cmp(&b.field));
            let mut fields = Object::new();
            for member in members {
                fields.put(member.field.clone(), member.value.clone());
            }
            let union = Object::new()
                .with("discriminator", union.discriminator.clone())
                .with("fields-to-discriminateBy", fields);
            schema.put("x-kubernetes-unions", vec![union.into()]);
        }
        schema.into()
    }

    /// The group version kinds of a type. Types such as `DeleteOptions` are registered in every group
    /// version.
    fn kinds_of(&self, ty: &Type) -> Vec<Value> {
        let kind_of = |group: &str, version: &str, kind: &str| {
            Object::new().with("group", group).with("kind", kind).with("version", version).into()
        };
        match ty.name.as_str() {
            "meta.v1.DeleteOptions" | "meta.v1.WatchEvent" => overrides::GROUP_VERSIONS
                .iter()
                .filter(|(group, _)| !self.groups_of_clients || !overrides::GROUPS_OF_SERVERS.contains(group))
                .flat_map(|(group, versions)| {
                    versions.iter().map(|version| kind_of(group, version, &ty.struct_name))
                })
                .collect(),
            "meta.v1.APIGroup"
            | "meta.v1.APIGroupList"
            | "meta.v1.APIResourceList"
            | "meta.v1.APIVersions"
            | "meta.v1.Status" => vec![kind_of("", "v1", &ty.struct_name)],
            _ => ty.kind.iter().map(|kind| kind_of(&kind.group, &kind.version, &kind.kind)).collect(),
        }
    }

    fn property(&mut self, ty: &Type, field: &'a Field) -> Value {
        let options: &FieldOptions = &field.options;
        let mut description = self.descriptions.text(&ty.openapi, &field.name).map(str::to_owned);
        if description.is_none() && matches!(field.name.as_str(), "apiVersion" | "kind") {
            // The descriptions are the same for every object, and some sources omit them.
            description = self.descriptions.text(STATUS_NAME, &field.name).map(str::to_owned);
        }
        let values = overrides::values(ty, field);
        if !values.is_empty() {
            let text = description.get_or_insert_default();
            text.push_str(if text.is_empty() {
                "Possible enum values:"
            } else {
                "\n\nPossible enum values:"
            });
            for value in &values {
                text.push_str(&format!("\n - `\"{value}\"`"));
            }
        }
        let default = options.default.clone().or_else(|| overrides::default(ty, field)).or_else(|| {
            let applies = !field.optional && (field.always || matches!(field.shape, Shape::Struct(_)));
            if applies { zero(&field.shape) } else { None }
        });
        let mut property = self.place(&field.shape, description, default, &values);
        let is_list =
            matches!(field.shape, Shape::List(_) | Shape::Bytes) || overrides::counts_as_list(ty, field);
        match &options.topology {
            Topology::Natural => {}
            Topology::Granular => property.put("x-kubernetes-map-type", "granular"),
            Topology::Atomic if !is_list => property.put("x-kubernetes-map-type", "atomic"),
            Topology::Atomic => property.put("x-kubernetes-list-type", "atomic"),
            Topology::Set => property.put("x-kubernetes-list-type", "set"),
            Topology::Keyed(keys) => {
                property.put("x-kubernetes-list-map-keys", texts(keys.iter().map(Text::as_str)));
                property.put("x-kubernetes-list-type", "map");
            }
        }
        if !options.patch.key.is_empty() {
            property.put("x-kubernetes-patch-merge-key", options.patch.key.clone());
        }
        if let Some(strategy) = strategy(&options.patch) {
            property.put("x-kubernetes-patch-strategy", strategy);
        }
        property.into()
    }

    /// The schema of a shape.
    fn place(
        &mut self,
        shape: &'a Shape,
        description: Option<String>,
        default: Option<Value>,
        values: &[&str],
    ) -> Object {
        let default = default.filter(|_| self.version == OpenApiVersion::V3);
        let described = Object::new().with_some("description", description);
        if let Some(model) = self.model(shape) {
            return self.around(model, described, default);
        }
        match shape {
            Shape::List(element) => {
                let element = self.place(element, None, zero(element), values);
                described.with("type", "array").with_some("default", default).with("items", element)
            }
            Shape::Map(element) => {
                let element = self.place(element, None, zero(element), values);
                let schema = described.with("type", "object").with_some("default", default);
                schema.with("additionalProperties", element)
            }
            scalar => {
                let (ty, format) = type_and_format(scalar);
                let values = (!values.is_empty()).then(|| texts(values.iter().copied()));
                let schema = described.with("type", ty).with_some("format", format);
                schema.with_some("default", default).with_some("enum", values)
            }
        }
    }

    /// The type that a shape refers to, if it does.
    fn model(&mut self, shape: &'a Shape) -> Option<Model<'a>> {
        let special = match shape {
            Shape::Struct(ty) => return Some(Model::Type(ty)),
            Shape::SchemaOr(alternative, ty) => {
                self.reference(Model::Type(ty));
                match alternative {
                    Alternative::Bool => &SCHEMA_OR_BOOL,
                    Alternative::Schemas => &SCHEMA_OR_ARRAY,
                    Alternative::Strings => &SCHEMA_OR_STRINGS,
                }
            }
            Shape::Time => &TIME,
            Shape::MicroTime => &MICRO_TIME,
            Shape::Duration => &DURATION,
            Shape::Quantity => &QUANTITY,
            Shape::IntOrString => &INT_OR_STRING,
            Shape::Raw(Raw::Extension) => &RAW_EXTENSION,
            Shape::Raw(Raw::Json) => &JSON,
            Shape::Raw(Raw::Fields) => &FIELDS_V1,
            _ => return None,
        };
        Some(Model::SpecialType(special))
    }

    /// A reference with its siblings; in OpenAPI 3.0 it is wrapped in `allOf`.
    fn around(&mut self, model: Model<'a>, beside: Object, default: Option<Value>) -> Object {
        let schema = beside.with_some("default", default);
        let reference = self.reference(model);
        if self.version == OpenApiVersion::V2 || schema.is_empty() {
            return schema.with("$ref", reference);
        }
        schema.with("allOf", vec![Object::new().with("$ref", reference).into()])
    }
}

/// The empty value of a shape, if it is not null.
fn zero(shape: &Shape) -> Option<Value> {
    Some(match shape {
        Shape::Bool => false.into(),
        Shape::Int32 | Shape::Int64 | Shape::Float64 => Value::Int(0),
        Shape::String => "".into(),
        Shape::Struct(_) => Object::new().into(),
        _ => return None,
    })
}

fn type_and_format(shape: &Shape) -> (&'static str, Option<&'static str>) {
    match shape {
        Shape::Bool => ("boolean", None),
        Shape::Int32 => ("integer", Some("int32")),
        Shape::Int64 => ("integer", Some("int64")),
        Shape::Float64 => ("number", Some("double")),
        Shape::String => ("string", None),
        Shape::Bytes => ("string", Some("byte")),
        _ => ("object", None),
    }
}

fn strategy(patch: &Patch) -> Option<String> {
    let words = [(patch.merge, "merge"), (patch.replace, "replace"), (patch.retain_keys, "retainKeys")];
    let words: Vec<_> = words.iter().filter(|(set, _)| *set).map(|(_, word)| *word).collect();
    (!words.is_empty()).then(|| words.join(","))
}

fn of_type(ty: &'static str) -> Object {
    Object::new().with("type", ty)
}

fn any_object(_: OpenApiVersion) -> Object {
    of_type("object")
}

fn date_time(_: OpenApiVersion) -> Object {
    of_type("string").with("format", "date-time")
}

fn quantity(version: OpenApiVersion) -> Object {
    match version {
        OpenApiVersion::V2 => of_type("string"),
        OpenApiVersion::V3 => {
            Object::new().with("oneOf", vec![of_type("string").into(), of_type("number").into()])
        }
    }
}

fn int_or_string(version: OpenApiVersion) -> Object {
    match version {
        OpenApiVersion::V2 => of_type("string").with("format", "int-or-string"),
        OpenApiVersion::V3 => Object::new()
            .with("format", "int-or-string")
            .with("oneOf", vec![of_type("integer").into(), of_type("string").into()]),
    }
}

//! Values as the Go types of the reference print. Errors repeat no more than the beginning, so no more is
//! written.

use super::spec::Version;
use super::walk::{several, sorted};
use ::schema::view::{Items, View};
use ::schema::views::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinitionVersion, JSONSchemaProps, ValidationRule,
};
use object::excerpt::excerpt;
use object::quote::Quoted;
use object::{RawJson, Value};
use std::fmt::{self, Display, Formatter};

/// A field of a schema.
pub(super) struct Field {
    /// Its name in Go.
    pub name: &'static str,
    /// Its key.
    pub key: &'static str,
    shape: Shape,
}

/// How a field prints.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Bool,
    Pointer(&'static str),
    Texts,
    Constants,
    Schemas,
    Map(&'static str),
    Rules,
}

const fn field(name: &'static str, key: &'static str, shape: Shape) -> Field {
    Field { name, key, shape }
}

/// The fields of a schema, in the order of the Go type.
pub(super) const SCHEMA_FIELDS: [Field; 44] = {
    use Shape::*;
    [
        field("ID", "id", Text),
        field("Schema", "$schema", Text),
        field("Ref", "$ref", Pointer("string")),
        field("Description", "description", Text),
        field("Type", "type", Text),
        field("Nullable", "nullable", Bool),
        field("Format", "format", Text),
        field("Title", "title", Text),
        field("Default", "default", Pointer("apiextensions.JSON")),
        field("Maximum", "maximum", Pointer("float64")),
        field("ExclusiveMaximum", "exclusiveMaximum", Bool),
        field("Minimum", "minimum", Pointer("float64")),
        field("ExclusiveMinimum", "exclusiveMinimum", Bool),
        field("MaxLength", "maxLength", Pointer("int64")),
        field("MinLength", "minLength", Pointer("int64")),
        field("Pattern", "pattern", Text),
        field("MaxItems", "maxItems", Pointer("int64")),
        field("MinItems", "minItems", Pointer("int64")),
        field("UniqueItems", "uniqueItems", Bool),
        field("MultipleOf", "multipleOf", Pointer("float64")),
        field("Enum", "enum", Constants),
        field("MaxProperties", "maxProperties", Pointer("int64")),
        field("MinProperties", "minProperties", Pointer("int64")),
        field("Required", "required", Texts),
        field("Items", "items", Pointer("apiextensions.JSONSchemaPropsOrArray")),
        field("AllOf", "allOf", Schemas),
        field("OneOf", "oneOf", Schemas),
        field("AnyOf", "anyOf", Schemas),
        field("Not", "not", Pointer("apiextensions.JSONSchemaProps")),
        field("Properties", "properties", Map("map[string]apiextensions.JSONSchemaProps")),
        field("AdditionalProperties", "additionalProperties", Pointer("apiextensions.JSONSchemaPropsOrBool")),
        field("PatternProperties", "patternProperties", Map("map[string]apiextensions.JSONSchemaProps")),
        field("Dependencies", "dependencies", Map("apiextensions.JSONSchemaDependencies")),
        field("AdditionalItems", "additionalItems", Pointer("apiextensions.JSONSchemaPropsOrBool")),
        field("Definitions", "definitions", Map("apiextensions.JSONSchemaDefinitions")),
        field("ExternalDocs", "externalDocs", Pointer("apiextensions.ExternalDocumentation")),
        field("Example", "example", Pointer("apiextensions.JSON")),
        field("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Pointer("bool")),
        field("XEmbeddedResource", "x-kubernetes-embedded-resource", Bool),
        field("XIntOrString", "x-kubernetes-int-or-string", Bool),
        field("XListMapKeys", "x-kubernetes-list-map-keys", Texts),
        field("XListType", "x-kubernetes-list-type", Pointer("string")),
        field("XMapType", "x-kubernetes-map-type", Pointer("string")),
        field("XValidations", "x-kubernetes-validations", Rules),
    ]
};

/// The place in memory that the reference would show.
const ADDRESS: &str = "0xc000000000";

/// Versions without what they have in common.
pub(super) fn versions(versions: &[Version<'_>]) -> String {
    excerpt(&Shown(|f: &mut Formatter<'_>| {
        list(f, "[]apiextensions.CustomResourceDefinitionVersion", versions.len(), |f| {
            each(f, versions, version)
        })
    }))
}

/// A schema.
pub(super) fn schema(schema: JSONSchemaProps<'_>) -> String {
    excerpt(&Shown(|f: &mut Formatter<'_>| write_schema(f, schema)))
}

/// A rule.
pub(super) fn rule(rule: ValidationRule<'_>) -> String {
    excerpt(&Shown(|f: &mut Formatter<'_>| write_rule(f, &rule)))
}

/// What `items` can hold, where it is no single schema.
pub(super) fn schemas(items: &Value) -> String {
    let (of, schemas): (_, Vec<_>) = ("[]apiextensions.JSONSchemaProps", several(Some(items)).collect());
    excerpt(&Shown(|f: &mut Formatter<'_>| {
        f.write_str(
            "apiextensions.JSONSchemaPropsOrArray{Schema:(*apiextensions.JSONSchemaProps)(nil), JSONSchemas:",
        )?;
        list(f, of, schemas.len(), |f| each(f, &schemas, |f, schema| write_schema(f, *schema)))?;
        f.write_str("}")
    }))
}

/// Bytes.
pub(super) fn bytes(bytes: &[u8]) -> String {
    excerpt(&Shown(|f: &mut Formatter<'_>| {
        f.write_str("[]byte{")?;
        each(f, bytes, |f, byte| write!(f, "{byte:#x}"))?;
        f.write_str("}")
    }))
}

struct Shown<F>(F);

impl<F: Fn(&mut Formatter<'_>) -> fmt::Result> Display for Shown<F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0(f)
    }
}

fn each<T>(
    f: &mut Formatter<'_>,
    items: &[T],
    write: impl Fn(&mut Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (at, item) in items.iter().enumerate() {
        f.write_str(if at > 0 { ", " } else { "" })?;
        write(f, item)?;
    }
    Ok(())
}

fn list(
    f: &mut Formatter<'_>,
    ty: &str,
    len: usize,
    items: impl Fn(&mut Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    if len == 0 {
        return write!(f, "{ty}(nil)");
    }
    write!(f, "{ty}{{")?;
    items(f)?;
    f.write_str("}")
}

fn pointer(f: &mut Formatter<'_>, ty: &str, is_set: bool) -> fmt::Result {
    write!(f, "(*{ty})({})", if is_set { ADDRESS } else { "nil" })
}

fn version(f: &mut Formatter<'_>, version: &Version<'_>) -> fmt::Result {
    let (view, parts) = (version.view, &version.parts);
    f.write_str("apiextensions.CustomResourceDefinitionVersion{")?;
    flags(f, view)?;
    f.write_str(", DeprecationWarning:")?;
    pointer(f, "string", view.deprecation_warning().is_some())?;
    f.write_str(", Schema:")?;
    pointer(f, "apiextensions.CustomResourceValidation", parts.schema.is_some())?;
    f.write_str(", Subresources:")?;
    pointer(f, "apiextensions.CustomResourceSubresources", parts.subresources.is_some())?;
    f.write_str(", AdditionalPrinterColumns:")?;
    columns(f, parts.columns)?;
    f.write_str(", SelectableFields:")?;
    let fields: Vec<_> = parts.selectable.iter().collect();
    list(f, "[]apiextensions.SelectableField", fields.len(), |f| {
        each(f, &fields, |f, field| {
            write!(f, "apiextensions.SelectableField{{JSONPath:{}}}", Quoted(field.json_path()))
        })
    })?;
    f.write_str("}")
}

fn flags(f: &mut Formatter<'_>, view: CustomResourceDefinitionVersion<'_>) -> fmt::Result {
    let (name, served, storage) = (Quoted(view.name()), view.served(), view.storage());
    write!(f, "Name:{name}, Served:{served}, Storage:{storage}, Deprecated:{}", view.deprecated())
}

fn columns(f: &mut Formatter<'_>, columns: Items<'_, CustomResourceColumnDefinition<'_>>) -> fmt::Result {
    let columns: Vec<_> = columns.iter().collect();
    list(f, "[]apiextensions.CustomResourceColumnDefinition", columns.len(), |f| {
        each(f, &columns, |f, column| {
            write!(
                f,
                "apiextensions.CustomResourceColumnDefinition{{Name:{}, Type:{}, Format:{}, Description:{}, Priority:{}, JSONPath:{}}}",
                Quoted(column.name()),
                Quoted(column.r#type()),
                Quoted(column.format()),
                Quoted(column.description()),
                column.priority(),
                Quoted(column.json_path()),
            )
        })
    })
}

fn write_schema(f: &mut Formatter<'_>, schema: JSONSchemaProps<'_>) -> fmt::Result {
    f.write_str("apiextensions.JSONSchemaProps{")?;
    each(f, &SCHEMA_FIELDS, |f, field| {
        write!(f, "{}:", field.name)?;
        let value = schema.map().get(field.key);
        match field.shape {
            Shape::Text => write!(f, "{}", Quoted(value.and_then(Value::as_str).unwrap_or_default())),
            Shape::Bool => write!(f, "{}", value.and_then(Value::as_bool).unwrap_or_default()),
            Shape::Pointer(ty) => pointer(f, ty, value.is_some()),
            Shape::Texts => {
                let texts = value.and_then(Value::as_list).unwrap_or_default();
                list(f, "[]string", texts.len(), |f| {
                    each(f, texts, |f, text| write!(f, "{}", Quoted(text.as_str().unwrap_or_default())))
                })
            }
            Shape::Constants => {
                let constants = value.and_then(Value::as_list).unwrap_or_default();
                list(f, "[]apiextensions.JSON", constants.len(), |f| each(f, constants, write_constant))
            }
            Shape::Schemas => {
                let schemas: Vec<_> = several(value).collect();
                list(f, "[]apiextensions.JSONSchemaProps", schemas.len(), |f| {
                    each(f, &schemas, |f, schema| write_schema(f, *schema))
                })
            }
            Shape::Map(ty) => {
                let entries = match field.key {
                    "properties" => sorted(schema.properties()),
                    "patternProperties" => sorted(schema.pattern_properties()),
                    "definitions" => sorted(schema.definitions()),
                    _ => Vec::new(),
                };
                list(f, ty, entries.len(), |f| {
                    each(f, &entries, |f, (name, schema)| {
                        write!(f, "{}:", Quoted(name))?;
                        write_schema(f, *schema)
                    })
                })
            }
            Shape::Rules => {
                let rules: Vec<_> = schema.x_kubernetes_validations().iter().collect();
                list(f, "apiextensions.ValidationRules", rules.len(), |f| each(f, &rules, write_rule))
            }
        }
    })?;
    f.write_str("}")
}

fn write_rule(f: &mut Formatter<'_>, rule: &ValidationRule<'_>) -> fmt::Result {
    write!(
        f,
        "apiextensions.ValidationRule{{Rule:{}, Message:{}, MessageExpression:{}, Reason:",
        Quoted(rule.rule()),
        Quoted(rule.message()),
        Quoted(rule.message_expression()),
    )?;
    pointer(f, "apiextensions.FieldValueErrorReason", rule.reason().is_some())?;
    write!(f, ", FieldPath:{}, OptionalOldSelf:", Quoted(rule.field_path()))?;
    pointer(f, "bool", rule.optional_old_self().is_some())?;
    f.write_str("}")
}

/// The value of a constant. One that is no JSON reads as nothing.
pub(super) fn decoded(raw: &RawJson) -> Value {
    let (shape, limits) = (::schema::Shape::Any, ::schema::Limits::STORED);
    let decoded = ::schema::json::decode_shape(&shape, raw.as_str().as_bytes(), &limits);
    decoded.map_or(Value::Null, |decoded| decoded.value)
}

fn write_constant(f: &mut Formatter<'_>, constant: &Value) -> fmt::Result {
    match constant {
        Value::Raw(raw) => match decoded(raw) {
            Value::Null => f.write_str("interface {}(nil)"),
            value => write!(f, "{}", ::schema::go_value(&value)),
        },
        other => write!(f, "{}", ::schema::go_value(other)),
    }
}

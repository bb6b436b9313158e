//! Writes the static types.

use crate::parse::{Field, MessageField, Schema, Shape};
use std::collections::HashMap;
use std::fmt::Write;

include!("../src/lookup/layout.rs");

/// The type of the JSON schema in `SchemaOr` shapes.
const JSON_SCHEMA: &str = "apiextensions.v1.JSONSchemaProps";

pub(crate) fn types(schema: &Schema) -> String {
    let mut statics = Statics::default();
    let mut out = String::new();
    let defaults = schema.reaching(|field| field.has("default"));
    let rules = schema.reaching(|field| !rules(field).is_empty());
    for name in schema.types.keys() {
        let package = schema.package_of(name);
        let ty = schema.ty(name);
        let (fields, message_fields) = schema.flatten(name);
        let kind = if ty.is_kind {
            let version = package.name.rsplit('.').next().unwrap();
            format!(
                "Some(GroupVersionKind {{ group: text({:?}), version: text({version:?}), kind: text({:?}) }})",
                package.group, ty.name
            )
        } else {
            "None".into()
        };
        let union = ty.union.as_ref().map_or("None".into(), |(discriminator, members)| {
            let members: String = members
                .iter()
                .map(|(value, field)| {
                    format!("Member {{ value: text({value:?}), field: text({field:?}) }}, ")
                })
                .collect();
            format!(
                "Some(Union {{ discriminator: text({discriminator:?}), members: Ref::Static(&[{members}]), checked: false }})"
            )
        });
        let slots = layout(fields.iter().map(|field| field.name.as_str()));
        let always: String = fields
            .iter()
            .enumerate()
            .filter(|(_, f)| is_always(f))
            .map(|(at, _)| format!("{at}, "))
            .collect();
        let names: String = fields.iter().map(|field| statics.name(&field.name) + ", ").collect();
        let fields_text: String = fields.iter().map(|field| field_text(field, &mut statics)).collect();
        writeln!(
            out,
            "pub(crate) static {ident}: Type = Type {{ name: text({name:?}), openapi: text({openapi:?}), struct_name: text({:?}), kind: {kind}, \
             fields: Ref::Static(&[{fields_text}]), wire: Ref::Static(&[{}]), atomic: {}, union: {union}, preserve_unknown_fields: false, custom: None, \
             has_defaults: {}, has_rules: {}, lookup: Lookup {{ slots: Ref::Static(&{slots:?}) }}, always: Ref::Static(&[{always}]), names: &[{names}] }};",
            ty.name,
            message_fields_text(&fields, &message_fields),
            ty.atomic,
            defaults.contains_key(name.as_str()),
            rules.contains_key(name.as_str()),
            ident = ident(name),
            openapi = format!("{}.{}", package.openapi, ty.name),
        )
        .unwrap();
    }
    let all: String = schema.types.keys().map(|name| format!("&{}, ", ident(name))).collect();
    let mut kinds: Vec<_> = schema.types.keys().filter(|name| schema.ty(name).is_kind).collect();
    let sort_key = |name: &str| {
        let package = schema.package_of(name);
        (
            package.group.clone(),
            package.name.rsplit('.').next().unwrap().to_string(),
            schema.ty(name).name.clone(),
        )
    };
    kinds.sort_by_key(|name| sort_key(name));
    let kinds: String = kinds.iter().map(|name| format!("&{}, ", ident(name))).collect();
    writeln!(out, "pub(crate) static ALL: &[&Type] = &[{all}];").unwrap();
    writeln!(out, "pub(crate) static KINDS: &[&Type] = &[{kinds}];").unwrap();
    out + &statics.text
}

/// The name of the static of a type. It keeps the case: upper case would give `PodIP` and `PodIp` the same
/// name.
pub(crate) fn ident(name: &str) -> String {
    format!("T_{}", name.replace('.', "_"))
}

/// Statics that many fields share.
#[derive(Default)]
struct Statics {
    text: String,
    names: HashMap<String, String>,
}

impl Statics {
    /// A name as a constant, so that a field's key and its type's list of names share one text.
    fn name(&mut self, name: &str) -> String {
        let next = self.names.len();
        let Self { text, names } = self;
        names
            .entry(name.to_string())
            .or_insert_with(|| {
                writeln!(text, "const N{next}: &str = {name:?};").unwrap();
                format!("N{next}")
            })
            .clone()
    }

    fn share(&mut self, kind: &str, value: String) -> String {
        let next = self.names.len();
        let Self { text, names } = self;
        names
            .entry(value)
            .or_insert_with_key(|value| {
                let name = format!("S{next}");
                writeln!(text, "static {name}: {kind} = {value};").unwrap();
                name
            })
            .clone()
    }
}

fn field_text(field: &Field, statics: &mut Statics) -> String {
    let optional = field.has("ptr");
    let options = field_options(field);
    let options = statics.share("FieldOptions", options);
    let shape = shape_text(&field.shape, statics);
    let quoted = format!(",{:?}:", field.name);
    format!(
        "Field {{ name: Key::known({}), quoted: Ref::Static({:?}), quoted_length: {}, number: {}, optional: {optional}, boxed: {}, always: {}, shape: {shape}, options: Ref::Static(&{options}) }},\n",
        statics.name(&field.name),
        format!("{quoted:32}"),
        quoted.len(),
        field.number,
        field.option("wire") == Some("message"),
        is_always(field),
    )
}

/// Whether an absent field is written: in the reference `omitempty` has no effect on a struct that is no
/// pointer.
fn is_always(field: &Field) -> bool {
    !(field.has("omit") && (field.has("ptr") || !is_struct_like(&field.shape)))
}

fn is_struct_like(shape: &Shape) -> bool {
    match shape {
        Shape::Word(word) => {
            !matches!(*word, "Bool" | "Int32" | "Int64" | "Float64" | "String" | "Bytes" | "Any")
        }
        Shape::Struct(_) | Shape::SchemaOr(_) => true,
        Shape::List(_) | Shape::Map(_) => false,
    }
}

fn shape_text(shape: &Shape, statics: &mut Statics) -> String {
    match shape {
        Shape::Word(word) => format!("Shape::{word}"),
        Shape::SchemaOr(alternative) => {
            format!("Shape::SchemaOr(Alternative::{alternative}, Ref::Static(&{}))", ident(JSON_SCHEMA))
        }
        Shape::Struct(name) => format!("Shape::Struct(Ref::Static(&{}))", ident(name)),
        Shape::List(inner) | Shape::Map(inner) => {
            let inner = shape_text(inner, statics);
            let inner = statics.share("Shape", inner);
            let outer = if matches!(shape, Shape::List(_)) { "List" } else { "Map" };
            format!("Shape::{outer}(Ref::Static(&{inner}))")
        }
    }
}

fn message_fields_text(fields: &[Field], message_fields: &[MessageField]) -> String {
    message_fields
        .iter()
        .map(|field| match field {
            MessageField::Field(at) => {
                format!("MessageField::Field {{ number: {}, index: {at} }}, ", fields[*at].number)
            }
            MessageField::Inline(number, inner) => {
                format!(
                    "MessageField::Inline {{ number: {number}, fields: Ref::Static(&[{}]) }}, ",
                    message_fields_text(fields, inner)
                )
            }
        })
        .collect()
}

fn texts<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: String = words.map(|word| format!("text({word:?}), ")).collect();
    format!("Ref::Static(&[{words}])")
}

fn field_options(field: &Field) -> String {
    let go = field.option("go").map_or_else(|| go_name(&field.shape), str::to_string);
    let values = texts(field.option("enum").into_iter().flat_map(|text| text.split('|')));
    let default = field.option("default").map_or("None".into(), |text| match text.strip_prefix('"') {
        Some(rest) => format!("Some(Value::String(text({:?})))", rest.strip_suffix('"').unwrap()),
        None => match text {
            "true" | "false" => format!("Some(Value::Bool({text}))"),
            _ => format!("Some(Value::Int({}))", text.parse::<i64>().unwrap()),
        },
    });
    let topology = match (field.option("list"), field.option("map")) {
        (Some("atomic"), _) | (_, Some("atomic")) => "Topology::Atomic".into(),
        (Some("set"), _) => "Topology::Set".into(),
        (Some(keys), _) => {
            let keys = keys.strip_prefix("map(").unwrap().strip_suffix(')').unwrap();
            format!("Topology::Keyed({})", texts(keys.split(',')))
        }
        (None, Some("granular")) => "Topology::Granular".into(),
        (None, _) => "Topology::Natural".into(),
    };
    let patch = field.option("patch").unwrap_or("");
    let (strategies, key) =
        patch.strip_suffix(')').and_then(|text| text.split_once('(')).unwrap_or((patch, ""));
    let strategy = |name: &str| strategies.split(',').any(|word| word == name);
    let rules: String = rules(field).iter().map(|rule| format!("{rule}, ")).collect();
    format!(
        "FieldOptions {{ go: text({go:?}), required: {}, values: {values}, default: {default}, topology: {topology}, \
         patch: Patch {{ merge: {}, key: text({key:?}), retain_keys: {}, replace: {} }}, rules: Ref::Static(&[{rules}]) }}",
        field.has("req"),
        strategy("merge"),
        strategy("retainKeys"),
        strategy("replace"),
    )
}

/// The Go type of a field, from its shape.
fn go_name(shape: &Shape) -> String {
    match shape {
        Shape::Word(word) => match *word {
            "Bytes" => "[]uint8",
            "Time" => "v1.Time",
            "MicroTime" => "v1.MicroTime",
            "Duration" => "v1.Duration",
            "Quantity" => "resource.Quantity",
            "IntOrString" => "intstr.IntOrString",
            "Raw(Raw::Extension)" => "runtime.RawExtension",
            "Raw(Raw::Json)" => "v1.JSON",
            "Raw(Raw::Fields)" => "v1.FieldsV1",
            "Any" => "interface {}",
            scalar => return scalar.to_lowercase(),
        }
        .into(),
        Shape::SchemaOr("Bool") => "v1.JSONSchemaPropsOrBool".into(),
        Shape::SchemaOr("Schemas") => "v1.JSONSchemaPropsOrArray".into(),
        Shape::SchemaOr(_) => "v1.JSONSchemaPropsOrStringArray".into(),
        Shape::Struct(name) => {
            let mut words = name.rsplit('.');
            let (last, version) = (words.next().unwrap(), words.next().unwrap());
            format!("{version}.{last}")
        }
        Shape::List(inner) => format!("[]{}", go_name(inner)),
        Shape::Map(inner) => format!("map[string]{}", go_name(inner)),
    }
}

fn rules(field: &Field) -> Vec<String> {
    field
        .options
        .iter()
        .filter_map(|(name, value)| {
            Some(match name.as_str() {
                "must" => "Rule::Required".into(),
                "listed" => "Rule::Listed".into(),
                "min" => format!("Rule::Min({value})"),
                "max" => format!("Rule::Max({value})"),
                "between" => format!("Rule::Between({})", value.replace("..", ", ")),
                "maxlen" => format!("Rule::MaxLength({value})"),
                "maxitems" => format!("Rule::MaxItems({value})"),
                "minitems" => format!("Rule::MinItems({value})"),
                "is" => format!("Rule::Format(Format::{})", format_name(value)),
                "immutable" => "Rule::Immutable".into(),
                "unique" if value.is_empty() => "Rule::Unique(None)".into(),
                "unique" => format!("Rule::Unique(Some(text({value:?})))"),
                _ => return None,
            })
        })
        .collect()
}

fn format_name(value: &str) -> &'static str {
    match value {
        "dns1123-label" => "Dns1123Label",
        "dns1123-subdomain" => "Dns1123Subdomain",
        "dns1035-label" => "Dns1035Label",
        "qualified-name" => "QualifiedName",
        "label-value" => "LabelValue",
        "path-segment" => "PathSegment",
        "config-map-key" => "ConfigMapKey",
        "env-var-name" => "EnvVarName",
        "port-name" => "PortName",
        "ip" => "Ip",
        other => panic!("unknown form {other}"),
    }
}

//! Definitions of custom kinds: the reference keeps them in `v1beta1`, which says once what all versions have
//! in common.
//!
//! | `v1` | `v1beta1` |
//! |---|---|
//! | the name of the first of `spec.versions` | also in `spec.version` |
//! | `schema`, `subresources`, `additionalPrinterColumns` and `selectableFields` of each version | in `spec`, the schema as `validation`, if they are the same for all versions |
//! | `jsonPath` of a column | `JSONPath` |
//! | `spec.conversion.webhook` with `clientConfig` and `conversionReviewVersions` | `webhookClientConfig` and `conversionReviewVersions`, in `spec.conversion` |
//! | no `preserveUnknownFields` | `false`, because without one it is `true` |

use kinds::Kind;
use object::{Map, Value};
use schema::{Builder, FieldBuilder, Ref, Shape, Type, builtin, unstructured};
use std::sync::{Arc, LazyLock};

pub(crate) const GROUP: &str = "apiextensions.k8s.io";
const NEW: &str = "apiextensions.k8s.io/v1";
const OLD: &str = "apiextensions.k8s.io/v1beta1";

/// The fields that a version has in `v1`, and their names in the spec of `v1beta1`.
const SHARED: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

pub(crate) fn is_one(kind: &Kind) -> bool {
    kind.group == GROUP
}

/// The type of definitions of `v1beta1`, with its fields in the order in which the reference writes them.
pub(crate) fn stored_type() -> &'static Ref<Type> {
    static TYPE: LazyLock<Option<Ref<Type>>> = LazyLock::new(build_stored_type);
    TYPE.as_ref().unwrap_or_else(|| unstructured())
}

fn build_stored_type() -> Option<Ref<Type>> {
    let new = |name: &str| builtin::by_name(&format!("apiextensions.v1.{name}"));
    let old = |name: &str| Builder::new(format!("apiextensions.v1beta1.{name}"));
    let list_of = |ty: &Ref<Type>| {
        FieldBuilder::new(Shape::List(Ref::Shared(Arc::new(Shape::Struct(ty.clone()))))).plain()
    };
    let mut column = old("CustomResourceColumnDefinition");
    for field in new("CustomResourceColumnDefinition")?.fields.iter() {
        let name = if field.name == "jsonPath" { "JSONPath" } else { field.name.as_str() };
        column = column.field(name, like(field));
    }
    let columns = column.build();
    let version = new("CustomResourceDefinitionVersion")?;
    let mut versions = old("CustomResourceDefinitionVersion");
    for field in version.fields.iter() {
        let is_columns = field.name == "additionalPrinterColumns";
        versions = versions.field(&field.name, if is_columns { list_of(&columns) } else { like(field) });
    }
    let copy = |ty: &Type, name: &str| ty.fields.iter().find(|field| field.name == name).map(like);
    let texts = FieldBuilder::new(Shape::List(Ref::Static(&Shape::String))).plain();
    let conversion = old("CustomResourceConversion")
        .field("strategy", copy(new("CustomResourceConversion")?, "strategy")?)
        .field("webhookClientConfig", copy(new("WebhookConversion")?, "clientConfig")?)
        .field("conversionReviewVersions", texts);
    let (definition, spec) = (new("CustomResourceDefinition")?, new("CustomResourceDefinitionSpec")?);
    let spec = old("CustomResourceDefinitionSpec")
        .field("group", copy(spec, "group")?)
        .field("version", FieldBuilder::new(Shape::String).plain())
        .field("names", copy(spec, "names")?)
        .field("scope", copy(spec, "scope")?)
        .field("validation", copy(version, "schema")?)
        .field("subresources", copy(version, "subresources")?)
        .field("versions", list_of(&versions.build()))
        .field("additionalPrinterColumns", list_of(&columns))
        .field("selectableFields", copy(version, "selectableFields")?)
        .field("conversion", FieldBuilder::new(Shape::Struct(conversion.build())))
        .field("preserveUnknownFields", FieldBuilder::new(Shape::Bool));
    let stored = old("CustomResourceDefinition")
        .object()
        .field("spec", FieldBuilder::new(Shape::Struct(spec.build())))
        .field("status", copy(definition, "status")?);
    Some(stored.build())
}

/// A builder with the properties of an existing field.
fn like(field: &schema::Field) -> FieldBuilder {
    let mut built = FieldBuilder::new(field.shape.clone());
    if !field.optional {
        built = built.plain();
    }
    if field.always { built.always() } else { built }
}

/// Converts a definition from `v1` to `v1beta1`.
pub(crate) fn to_stored(definition: &mut Value) {
    let Some(map) = definition.as_map_mut() else { return };
    map.insert("apiVersion", OLD);
    let Some(spec) = map.get_mut("spec").and_then(Value::as_map_mut) else { return };
    spec.get_or_insert_with("preserveUnknownFields", || false.into());
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_map_mut) {
        let webhook = conversion.remove("webhook");
        for (new, old) in CONVERSION {
            if let Some(value) = webhook.as_ref().and_then(|webhook| webhook.get(new)) {
                conversion.insert(old, value.clone());
            }
        }
    }
    each_version(spec, |version| rename_columns(version, "jsonPath", "JSONPath"));
    let Some(first) = spec.get("versions").and_then(Value::as_list).and_then(<[Value]>::first).cloned()
    else {
        return;
    };
    if let Some(name) = first.get("name") {
        spec.insert("version", name.clone());
    }
    for (of_version, of_spec) in SHARED {
        let common = first.get(of_version);
        let mut is_common = true;
        each_version(spec, |version| is_common &= version.get(of_version) == common);
        if is_common && let Some(common) = common {
            each_version(spec, |version| drop(version.remove(of_version)));
            spec.insert(of_spec, common.clone());
        }
    }
}

/// Converts a definition from `v1beta1` to `v1`. A definition in `v1` stays as it is.
pub(crate) fn from_stored(definition: &mut Value) {
    let Some(map) = definition.as_map_mut() else { return };
    if map.get("apiVersion").and_then(Value::as_str) != Some(OLD) {
        return;
    }
    map.insert("apiVersion", NEW);
    let Some(spec) = map.get_mut("spec").and_then(Value::as_map_mut) else { return };
    // Definitions from before structural schemas preserve unknown fields.
    spec.get_or_insert_with("preserveUnknownFields", || true.into());
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_map_mut) {
        let mut webhook = Map::new();
        for (new, old) in CONVERSION {
            if let Some(value) = conversion.remove(old) {
                webhook.insert(new, value);
            }
        }
        if !webhook.is_empty() {
            conversion.insert("webhook", webhook);
        }
    }
    let only = spec.remove("version");
    let has_versions = spec.get("versions").and_then(Value::as_list).is_some_and(|list| !list.is_empty());
    if let Some(name) = only.filter(|_| !has_versions) {
        let mut version = Map::new();
        version.insert("name", name);
        version.insert("served", true);
        version.insert("storage", true);
        spec.insert("versions", Value::List([Value::from(version)].into_iter().collect()));
    }
    for (of_version, of_spec) in SHARED {
        if let Some(common) = spec.remove(of_spec) {
            each_version(spec, |version| drop(version.insert(of_version, common.clone())));
        }
    }
    each_version(spec, |version| rename_columns(version, "JSONPath", "jsonPath"));
}

/// The parts of a webhook, in `v1` and in `v1beta1`.
const CONVERSION: [(&str, &str); 2] =
    [("clientConfig", "webhookClientConfig"), ("conversionReviewVersions", "conversionReviewVersions")];

fn each_version(spec: &mut Map, mut change: impl FnMut(&mut Map)) {
    let versions = spec.get_mut("versions").and_then(Value::as_list_mut);
    versions.into_iter().flat_map(|list| list.iter_mut()).filter_map(Value::as_map_mut).for_each(&mut change);
}

fn rename_columns(version: &mut Map, from: &str, to: &'static str) {
    let columns = version.get_mut("additionalPrinterColumns").and_then(Value::as_list_mut);
    for column in columns.into_iter().flat_map(|list| list.iter_mut()).filter_map(Value::as_map_mut) {
        if let Some(path) = column.remove(from) {
            column.insert(to, path);
        }
    }
}

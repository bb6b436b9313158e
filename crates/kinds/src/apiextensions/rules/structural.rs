//! Structural schemas: every field has a type outside of `allOf`, `anyOf`, `oneOf` and `not`, and these only
//! have rules for values.

use super::walk::{children, several, single, sorted};
use ::schema::view::{Items, View};
use ::schema::views::apiextensions::v1::JSONSchemaProps;
use object::field::{Error, List, Path};
use object::{Map, Value};
use std::collections::HashSet;

/// What a schema is the schema of.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Why a schema has no structural form at all.
pub(super) fn unsupported(schema: JSONSchemaProps<'_>) -> Option<&'static str> {
    let junctors = || {
        let lists = [schema.all_of(), schema.any_of(), schema.one_of()];
        schema.not().into_iter().chain(lists.into_iter().flat_map(Items::iter)).find_map(unsupported)
    };
    let within = || {
        single(schema.items())
            .into_iter()
            .chain(schema.properties().iter().map(|(_, schema)| schema))
            .chain(single(schema.additional_properties()))
            .find_map(unsupported)
    };
    unsupported_field(schema).or_else(junctors).or_else(|| unsupported_form(schema)).or_else(within)
}

/// The schemas that have no structural form because of themselves or of one within, by the place of their
/// maps.
pub(super) fn unsupported_schemas(schema: JSONSchemaProps<'_>) -> HashSet<*const Map> {
    fn mark(schema: JSONSchemaProps<'_>, marked: &mut HashSet<*const Map>) -> bool {
        let mut is_marked = unsupported_field(schema).or_else(|| unsupported_form(schema)).is_some();
        for child in children(schema) {
            is_marked |= mark(child, marked);
        }
        if is_marked {
            marked.insert(std::ptr::from_ref(schema.map()));
        }
        is_marked
    }
    let mut marked = HashSet::new();
    mark(schema, &mut marked);
    marked
}

fn unsupported_field(schema: JSONSchemaProps<'_>) -> Option<&'static str> {
    let fields = [
        (!schema.id().is_empty(), "OpenAPIV3Schema 'id' is not supported"),
        (!schema.dollar_schema().is_empty(), "OpenAPIV3Schema 'schema' is not supported"),
        (schema.dollar_ref().is_some_and(|text| !text.is_empty()), "OpenAPIV3Schema '$ref' is not supported"),
        (!schema.pattern_properties().is_empty(), "OpenAPIV3Schema 'patternProperties' is not supported"),
        (!schema.dependencies().is_empty(), "OpenAPIV3Schema 'dependencies' is not supported"),
        (schema.additional_items().is_some(), "OpenAPIV3Schema 'additionalItems' is not supported"),
        (!schema.definitions().is_empty(), "OpenAPIV3Schema 'definitions' is not supported"),
    ];
    fields.into_iter().find(|(is_set, _)| *is_set).map(|(_, why)| why)
}

fn unsupported_form(schema: JSONSchemaProps<'_>) -> Option<&'static str> {
    if schema.x_kubernetes_preserve_unknown_fields() == Some(false) {
        return Some("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined");
    }
    let is_list = several(schema.items()).len() > 0;
    is_list.then_some("OpenAPIV3Schema 'items' must be a schema, but is an array")
}

/// Whether a schema is not structural.
pub(super) fn is_violated(schema: JSONSchemaProps<'_>) -> bool {
    unsupported(schema).is_some() || !validate(schema, &Path::UNSET).is_empty()
}

/// The errors of a schema that has a structural form, sorted by their texts.
pub(super) fn validate(schema: JSONSchemaProps<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    structure(schema, Level::Root, path, &mut errors);
    values_are_complete(schema, Some(schema), path, path, &mut errors);
    let left_out = errors.left_out();
    let mut sorted = errors.into_vec();
    sorted.sort_by_cached_key(ToString::to_string);
    let mut errors: List = sorted.into_iter().collect();
    for _ in 0..left_out {
        errors.push_with(|| Error::forbidden(path, "must be structural"));
    }
    errors
}

fn structure(schema: JSONSchemaProps<'_>, level: Level, path: &Path<'_>, errors: &mut List) {
    let ty = schema.r#type();
    let at_items = path.child("items");
    match single(schema.items()) {
        Some(items) => structure(items, Level::Item, &at_items, errors),
        None if ty == "array" => errors.push_with(|| Error::required(&at_items, "must be specified")),
        None => {}
    }
    let properties = path.child("properties");
    for (name, property) in schema.properties().iter() {
        structure(property, Level::Field, &properties.key(name), errors);
    }
    let additional = path.child("additionalProperties");
    if let Some(value) = schema.additional_properties() {
        if level == Level::Root {
            errors.push_with(|| Error::forbidden(&additional, "must not be used at the root"));
        }
        if schema.x_kubernetes_embedded_resource() {
            let why = "must not be used if x-kubernetes-embedded-resource is set";
            errors.push_with(|| Error::forbidden(&additional, why));
        }
        if let Some(value) = single(Some(value)) {
            structure(value, Level::Field, &additional, errors);
        }
    }
    own_type(schema, level, path, errors);
    values(schema, is_int_or_string(schema.any_of()), is_all_of_int_or_string(schema), path, errors);
    let preserves = schema.x_kubernetes_preserve_unknown_fields() == Some(true);
    let embedded = schema.x_kubernetes_embedded_resource();
    if schema.x_kubernetes_int_or_string() {
        let why = "must be false if x-kubernetes-int-or-string is true";
        if preserves {
            errors
                .push_with(|| Error::invalid(&path.child("x-kubernetes-preserve-unknown-fields"), true, why));
        }
        if embedded {
            errors.push_with(|| Error::invalid(&path.child("x-kubernetes-embedded-resource"), true, why));
        }
    }
    if embedded && !preserves && schema.properties().is_empty() {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push_with(|| Error::required(&properties, why));
    }
    let is_resource = level == Level::Root || embedded;
    for name in ["kind", "apiVersion"] {
        if let Some(property) = schema.properties().get(name).filter(|_| is_resource)
            && property.r#type() != "string"
        {
            errors.push_with(|| {
                Error::invalid(&properties.key(name).child("type"), property.r#type(), "must be string")
            });
        }
    }
    if let Some(metadata) = schema.properties().get("metadata") {
        let path = properties.key("metadata");
        if is_resource && metadata.r#type() != "object" {
            errors.push_with(|| Error::invalid(&path.child("type"), metadata.r#type(), "must be object"));
        }
        if level == Level::Root && !restricts_names_only(metadata) {
            let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.push_with(|| Error::forbidden(&path, why));
        }
    }
}

fn own_type(schema: JSONSchemaProps<'_>, level: Level, path: &Path<'_>, errors: &mut List) {
    let (ty, path) = (schema.r#type(), path.child("type"));
    let preserves = schema.x_kubernetes_preserve_unknown_fields() == Some(true);
    if schema.x_kubernetes_embedded_resource() && ty != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        errors.push_with(|| match ty {
            "" => Error::required(&path, why),
            ty => Error::invalid(&path, ty, why),
        });
    } else if ty.is_empty() && !schema.x_kubernetes_int_or_string() && !preserves {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push_with(|| Error::required(&path, why));
    }
    if level == Level::Root && !matches!(ty, "" | "object") {
        errors.push_with(|| Error::invalid(&path, ty, "must be object at the root"));
    }
}

/// Whether a schema for metadata has rules for values and for names alone.
fn restricts_names_only(metadata: JSONSchemaProps<'_>) -> bool {
    let names = metadata.properties();
    let only_names = names.iter().all(|(name, _)| matches!(name, "name" | "generateName"));
    let has_more = metadata.map().keys().any(|key| {
        !matches!(key.as_str(), "type" | "default" | "properties" | "externalDocs" | "example" | "$ref")
    });
    only_names && !has_more
}

/// Whether a list is that of an integer or a string, the types that rules for values may name.
fn is_int_or_string(any_of: Items<'_, JSONSchemaProps<'_>>) -> bool {
    fn is_only_type(map: &Map, ty: &str) -> bool {
        let mut rest = map.iter().filter(|(key, _)| !matches!(key.as_str(), "externalDocs" | "example"));
        rest.next().is_some_and(|(key, value)| key.as_str() == "type" && value.as_str() == Some(ty))
            && rest.next().is_none()
    }
    let [one, other] = any_of.values() else { return false };
    let is = |value: &Value, ty| value.as_map().is_some_and(|map| is_only_type(map, ty));
    is(one, "integer") && is(other, "string")
}

fn is_all_of_int_or_string(schema: JSONSchemaProps<'_>) -> bool {
    schema.all_of().get(0).is_some_and(|first| is_int_or_string(first.any_of()))
}

/// The rules for values. An integer or a string may be said to be one in `anyOf`, or in the first `allOf`.
fn values(
    schema: JSONSchemaProps<'_>,
    is_any_of_known: bool,
    is_first_known: bool,
    path: &Path<'_>,
    errors: &mut List,
) {
    if !is_any_of_known {
        let path = path.child("anyOf");
        for (at, schema) in schema.any_of().iter().enumerate() {
            nested(schema, false, &path.index(at), errors);
        }
    }
    let all_of = path.child("allOf");
    for (at, schema) in schema.all_of().iter().enumerate() {
        nested(schema, is_first_known && at == 0, &all_of.index(at), errors);
    }
    let one_of = path.child("oneOf");
    for (at, schema) in schema.one_of().iter().enumerate() {
        nested(schema, false, &one_of.index(at), errors);
    }
    if let Some(schema) = schema.not() {
        nested(schema, false, &path.child("not"), errors);
    }
    let pattern = schema.pattern();
    if !pattern.is_empty()
        && let Err(why) = pattern::check_pattern(pattern)
    {
        errors.push_with(|| {
            let why = format!("must be a valid regular expression, but isn't: {why}");
            Error::invalid(&path.child("pattern"), pattern, why)
        });
    }
}

/// A schema below `allOf`, `anyOf`, `oneOf` or `not`.
fn nested(schema: JSONSchemaProps<'_>, is_any_of_known: bool, path: &Path<'_>, errors: &mut List) {
    values(schema, is_any_of_known, false, path, errors);
    if let Some(items) = single(schema.items()) {
        nested(items, false, &path.child("items"), errors);
    }
    let properties = path.child("properties");
    for (name, property) in schema.properties().iter() {
        nested(property, false, &properties.key(name), errors);
    }
    let additional = !matches!(schema.additional_properties(), None | Some(Value::Bool(false)));
    const EMPTY: &str = "must be empty to be structural";
    const UNDEFINED: &str = "must be undefined to be structural";
    const FALSE: &str = "must be false to be structural";
    let forbidden = [
        ("type", !schema.r#type().is_empty(), EMPTY),
        ("additionalProperties", additional, UNDEFINED),
        ("default", schema.r#default().is_some(), UNDEFINED),
        ("title", !schema.title().is_empty(), EMPTY),
        ("description", !schema.description().is_empty(), EMPTY),
        ("nullable", schema.nullable(), FALSE),
        (
            "x-kubernetes-preserve-unknown-fields",
            schema.x_kubernetes_preserve_unknown_fields() == Some(true),
            FALSE,
        ),
        ("x-kubernetes-embedded-resource", schema.x_kubernetes_embedded_resource(), FALSE),
        ("x-kubernetes-int-or-string", schema.x_kubernetes_int_or_string(), FALSE),
        ("x-kubernetes-list-map-keys", !schema.x_kubernetes_list_map_keys().is_empty(), EMPTY),
        ("x-kubernetes-list-type", schema.x_kubernetes_list_type().is_some(), UNDEFINED),
        ("x-kubernetes-map-type", schema.x_kubernetes_map_type().is_some(), UNDEFINED),
        ("x-kubernetes-validations", !schema.x_kubernetes_validations().is_empty(), EMPTY),
    ];
    for (key, is_set, why) in forbidden {
        if is_set {
            errors.push_with(|| Error::forbidden(&path.child(key), why));
        }
    }
    if schema.properties().get("metadata").is_some() {
        let why = "must not be specified in a nested context";
        errors.push_with(|| Error::forbidden(&properties.key("metadata"), why));
    }
}

/// What the rules for values name is in the structure too. The reference looks at the rules of the root.
fn values_are_complete(
    rules: JSONSchemaProps<'_>,
    schema: Option<JSONSchemaProps<'_>>,
    path: &Path<'_>,
    of_rules: &Path<'_>,
    errors: &mut List,
) {
    if let Some(rules) = rules.not() {
        is_complete(rules, schema, path, &of_rules.child("not"), errors);
    }
    let lists = [("allOf", rules.all_of()), ("anyOf", rules.any_of()), ("oneOf", rules.one_of())];
    for (key, list) in lists {
        let of_rules = of_rules.child(key);
        for (at, rules) in list.iter().enumerate() {
            is_complete(rules, schema, path, &of_rules.index(at), errors);
        }
    }
}

fn is_complete(
    rules: JSONSchemaProps<'_>,
    schema: Option<JSONSchemaProps<'_>>,
    path: &Path<'_>,
    of_rules: &Path<'_>,
    errors: &mut List,
) {
    let Some(known) = schema else {
        errors.push_with(|| Error::required(path, format!("because it is defined in {of_rules}")));
        return;
    };
    values_are_complete(rules, schema, path, of_rules, errors);
    if let Some(items) = single(rules.items()) {
        is_complete(items, single(known.items()), &path.child("items"), &of_rules.child("items"), errors);
    }
    let (properties, of_properties) = (path.child("properties"), of_rules.child("properties"));
    for (name, rules) in sorted(rules.properties()) {
        let schema = known.properties().get(name);
        is_complete(rules, schema, &properties.key(name), &of_properties.key(name), errors);
    }
}

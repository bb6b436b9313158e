//! Every part of a schema by itself: what there is no support for, lists, maps, extensions, expressions.

use super::expressions::{Findings, Scope, Step, has_rules};
use super::requirements::{Requirements, TYPES};
use super::structural;
use super::walk::{several, single, sorted};
use crate::checks;
use ::schema::view::View;
use ::schema::views::apiextensions::v1::{JSONSchemaProps, ValidationRule};
use expressions::field_path::{self, Arrays};
use object::field::{BadValue, Error, List, Path};
use object::{Map, Value};
use std::collections::HashSet;

/// The reasons that an expression can give its errors.
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Where in an object the value of a schema is.
#[derive(Clone, Copy)]
struct Place<'a> {
    is_root: bool,
    is_in_metadata: bool,
    /// Why there can be no defaults.
    no_defaults: Option<NoDefaults<'a>>,
    /// The path to the outermost schema above whose values have no known old value.
    uncorrelated: Option<&'a str>,
}

#[derive(Clone, Copy)]
enum NoDefaults<'a> {
    TopLevel(&'a str),
    AdditionalProperties,
}

/// The errors of a schema and of all parts of it.
pub(super) fn validate(
    schema: JSONSchemaProps<'_>,
    requirements: &Requirements<'_>,
    scope: Option<&Scope<'_>>,
    findings: &mut Findings,
    path: &Path<'_>,
) -> List {
    // A path is only looked up in a schema that has a structural form.
    let without_paths = match structural::unsupported(schema) {
        None => HashSet::new(),
        Some(_) => structural::unsupported_schemas(schema),
    };
    let mut check = Check { requirements, without_paths, findings, errors: List::new() };
    let place = Place { is_root: true, is_in_metadata: false, no_defaults: None, uncorrelated: None };
    check.schema(schema, place, scope, path);
    check.errors
}

struct Check<'a> {
    requirements: &'a Requirements<'a>,
    without_paths: HashSet<*const Map>,
    findings: &'a mut Findings,
    errors: List,
}

impl Check<'_> {
    /// How many errors there are.
    fn mark(&self) -> usize {
        self.errors.len() + self.errors.left_out()
    }

    fn forbid(&mut self, path: &Path<'_>, key: &str, why: impl Into<std::borrow::Cow<'static, str>>) {
        self.errors.push_with(|| Error::forbidden(&path.child(key), why));
    }

    /// Checks a schema. Expressions see it if there is a scope, and are compiled if nothing else is wrong
    /// with it and with all schemas within it.
    fn schema(
        &mut self,
        schema: JSONSchemaProps<'_>,
        place: Place<'_>,
        scope: Option<&Scope<'_>>,
        path: &Path<'_>,
    ) {
        let mark = self.mark();
        self.supported(schema, place, path);
        if schema.unique_items() {
            let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbid(path, "uniqueItems", why);
        }
        self.fields(schema, place, scope, path);
        let within = Place { is_root: false, ..place };
        if let Some(schema) = schema.not() {
            self.schema(schema, within, None, &path.child("not"));
        }
        let lists = [("allOf", schema.all_of()), ("oneOf", schema.one_of()), ("anyOf", schema.any_of())];
        for (key, list) in lists {
            let path = path.child(key);
            for (at, schema) in list.iter().enumerate() {
                self.schema(schema, within, None, &path.index(at));
            }
        }
        let definitions = path.child("definitions");
        for (name, schema) in sorted(schema.definitions()) {
            self.schema(schema, within, None, &definitions.key(name));
        }
        let items = path.child("items");
        // Only the items of a list with keys have old values.
        let own_path = (schema.items().is_some() && schema.x_kubernetes_list_type() != Some("map"))
            .then(|| path.to_string());
        let of_items = Place { uncorrelated: place.uncorrelated.or(own_path.as_deref()), ..within };
        if let Some(of) = single(schema.items()) {
            let scope = scope.and_then(|scope| scope.below(Step::Items, of));
            self.schema(of, of_items, scope.as_ref(), &items);
        }
        for (at, schema) in several(schema.items()).enumerate() {
            self.schema(schema, of_items, None, &items.index(at));
        }
        let dependencies = path.child("dependencies");
        let mut all: Vec<_> = schema.dependencies().iter().collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        for (name, either) in all {
            if let Some(schema) = single(Some(either)) {
                self.schema(schema, within, None, &dependencies.key(name));
            }
        }
        if schema.x_kubernetes_preserve_unknown_fields() == Some(false) {
            let path = path.child("x-kubernetes-preserve-unknown-fields");
            self.errors.push_with(|| Error::invalid(&path, false, "must be true or undefined"));
        }
        self.map_type(schema, path);
        self.list_type(schema, path);
        self.list_keys(schema, path);
        if !list_items(schema, path).is_empty() && self.requirements.list_keys() {
            self.errors.append(list_items(schema, path));
        }
        self.expressions(schema, path);
        if let Some(scope) = scope.filter(|_| has_rules(schema) && self.mark() == mark) {
            self.findings.check(scope, self.requirements, place.uncorrelated, path);
        }
    }

    /// What OpenAPI has and definitions do not.
    fn supported(&mut self, schema: JSONSchemaProps<'_>, place: Place<'_>, path: &Path<'_>) {
        let ty = schema.r#type();
        if !ty.is_empty() && !TYPES.contains(&ty) && self.requirements.valid_types() {
            self.errors.push_with(|| Error::not_supported(&path.child("type"), ty, TYPES));
        }
        if schema.r#default().is_some() {
            match place.no_defaults {
                None => {}
                Some(NoDefaults::TopLevel(name)) => {
                    self.forbid(path, "default", format!("must not be set in top-level {name}"));
                }
                Some(NoDefaults::AdditionalProperties) => {
                    let why = "must not be set inside additionalProperties applying to object metadata";
                    self.forbid(path, "default", why);
                }
            }
        }
        let unsupported = [
            ("id", !schema.id().is_empty(), "id is not supported"),
            ("additionalItems", schema.additional_items().is_some(), "additionalItems is not supported"),
            (
                "patternProperties",
                !schema.pattern_properties().is_empty(),
                "patternProperties is not supported",
            ),
            ("definitions", !schema.definitions().is_empty(), "definitions is not supported"),
            ("dependencies", !schema.dependencies().is_empty(), "dependencies is not supported"),
            ("$ref", schema.dollar_ref().is_some(), "$ref is not supported"),
            ("type", ty == "null", "type cannot be set to null, use nullable as an alternative"),
            ("items", several(schema.items()).len() > 0, "items must be a schema object and not an array"),
            (
                "x-kubernetes-embedded-resource",
                place.is_in_metadata && schema.x_kubernetes_embedded_resource(),
                "must not be used inside of resource meta",
            ),
        ];
        for (key, is_set, why) in unsupported {
            if is_set {
                self.forbid(path, key, why);
            }
        }
    }

    fn fields(
        &mut self,
        schema: JSONSchemaProps<'_>,
        place: Place<'_>,
        scope: Option<&Scope<'_>>,
        path: &Path<'_>,
    ) {
        let properties = sorted(schema.properties());
        if let Some(additional) = schema.additional_properties() {
            if !properties.is_empty() && *additional != Value::Bool(true) {
                let why = "additionalProperties and properties are mutual exclusive";
                self.forbid(path, "additionalProperties", why);
            }
            if let Some(schema) = single(Some(additional)) {
                let no_defaults = match place.is_in_metadata {
                    true => Some(NoDefaults::AdditionalProperties),
                    false => place.no_defaults,
                };
                let place = Place { is_root: false, no_defaults, ..place };
                let scope = scope.and_then(|scope| scope.below(Step::AdditionalProperties, schema));
                self.schema(schema, place, scope.as_ref(), &path.child("additionalProperties"));
            }
        }
        let of_properties = path.child("properties");
        for (name, property) in properties {
            let mut within = Place { is_root: false, ..place };
            if matches!(name, "metadata" | "kind" | "apiVersion")
                && (place.is_root || schema.x_kubernetes_embedded_resource())
            {
                within.is_in_metadata = true;
                if place.is_root {
                    within.no_defaults = Some(NoDefaults::TopLevel(name));
                }
            }
            let scope = scope.and_then(|scope| scope.below(Step::Property(name), property));
            self.schema(property, within, scope.as_ref(), &of_properties.key(name));
        }
    }

    /// An extension that only one type can have.
    fn of_type(&mut self, schema: JSONSchemaProps<'_>, ty: &str, why: &'static str, path: &Path<'_>) -> bool {
        let path = path.child("type");
        match schema.r#type() {
            own if own == ty => return true,
            "" => self.errors.push_with(|| Error::required(&path, why)),
            own => self.errors.push_with(|| Error::invalid(&path, own, why)),
        }
        false
    }

    fn map_type(&mut self, schema: JSONSchemaProps<'_>, path: &Path<'_>) {
        let Some(ty) = schema.x_kubernetes_map_type() else { return };
        self.of_type(schema, "object", "must be object if x-kubernetes-map-type is specified", path);
        self.errors.extend(checks::one_of(ty, &["atomic", "granular"], &path.child("x-kubernetes-map-type")));
    }

    fn list_type(&mut self, schema: JSONSchemaProps<'_>, path: &Path<'_>) {
        let at = path.child("x-kubernetes-list-type");
        let keys = !schema.x_kubernetes_list_map_keys().is_empty();
        let must_be_map = "must be map if x-kubernetes-list-map-keys is non-empty";
        let Some(ty) = schema.x_kubernetes_list_type() else {
            if keys {
                self.errors.push_with(|| Error::required(&at, must_be_map));
            }
            return;
        };
        let why = "must be array if x-kubernetes-list-type is specified";
        if self.of_type(schema, "array", why, path)
            && let Some(wrong) = wrong_set_item(schema)
            && self.requirements.atomic_sets()
        {
            let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
            // The reference shows the list type of the item in both cases.
            let shown = wrong.list_type.map_or(BadValue::Null, BadValue::from);
            self.errors.push_with(|| Error::invalid(&path.child("items").child(wrong.key), shown, why));
        }
        self.errors.extend(checks::one_of(ty, &["atomic", "set", "map"], &at));
        if keys && ty != "map" {
            self.errors.push_with(|| Error::invalid(&at, ty, must_be_map));
        }
    }

    fn list_keys(&mut self, schema: JSONSchemaProps<'_>, path: &Path<'_>) {
        if schema.x_kubernetes_list_type() != Some("map") {
            return;
        }
        let keys = schema.x_kubernetes_list_map_keys();
        let at_keys = path.child("x-kubernetes-list-map-keys");
        if keys.is_empty() {
            let why = "must not be empty if x-kubernetes-list-type is map";
            self.errors.push_with(|| Error::required(&at_keys, why));
        }
        let at_items = path.child("items");
        let Some(items) = single(schema.items()) else {
            self.errors.push_with(|| match schema.items() {
                None => Error::required(&at_items, "must have a schema if x-kubernetes-list-type is map"),
                Some(items) => Error::invalid(
                    &at_items,
                    BadValue::Raw(super::go_syntax::schemas(items)),
                    "must only have a single schema if x-kubernetes-list-type is map",
                ),
            });
            return;
        };
        if items.r#type() != "object" {
            let why = "must be object if parent array's x-kubernetes-list-type is map";
            self.errors.push_with(|| Error::invalid(&at_items.child("type"), items.r#type(), why));
            return;
        }
        let shown = || checks::shown_texts("string", keys);
        let mut seen = HashSet::new();
        for key in keys.iter() {
            match items.properties().get(key) {
                None => self.errors.push_with(|| {
                    Error::invalid(&at_keys, shown(), "entries must all be names of item properties")
                }),
                Some(property) if matches!(property.r#type(), "array" | "object") => {
                    let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.errors.push_with(|| {
                        let properties = at_items.child("properties");
                        Error::invalid(&properties.key(key).child("type"), items.r#type(), why)
                    });
                }
                Some(_) => {}
            }
            if !seen.insert(key) {
                self.errors
                    .push_with(|| Error::invalid(&at_keys, shown(), "must not contain duplicate entries"));
            }
        }
    }

    fn expressions(&mut self, schema: JSONSchemaProps<'_>, path: &Path<'_>) {
        let rules = schema.x_kubernetes_validations();
        let is_without_paths = self.without_paths.contains(&std::ptr::from_ref(schema.map()));
        let lookup = Some(schema).filter(|_| !is_without_paths);
        let path = path.child("x-kubernetes-validations");
        for (at, rule) in rules.iter().enumerate() {
            self.expression(rule, lookup, &path.index(at));
        }
    }

    fn expression(&mut self, rule: ValidationRule<'_>, schema: Option<JSONSchemaProps<'_>>, path: &Path<'_>) {
        let has_breaks = |text: &str| text.contains(['\n', '\r']);
        let (text, message) = (rule.rule().trim(), rule.message().trim());
        let at_message = path.child("message");
        let (of_rule, of_message) = (rule.rule(), rule.message());
        if text.is_empty() {
            self.errors.push_with(|| Error::required(&path.child("rule"), "rule is not specified"));
        } else if !of_message.is_empty() && message.is_empty() {
            let why = "message must be non-empty if specified";
            self.errors.push_with(|| Error::invalid(&at_message, of_message, why));
        } else if has_breaks(message) {
            let why = "message must not contain line breaks";
            self.errors.push_with(|| Error::invalid(&at_message, of_message, why));
        } else if has_breaks(of_rule.trim()) && message.is_empty() {
            let why = "message must be specified if rule contains line breaks";
            self.errors.push_with(|| Error::required(&at_message, why));
        }
        if !rule.message_expression().is_empty() && rule.message_expression().trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            self.errors.push_with(|| Error::required(&path.child("messageExpression"), why));
        }
        if let Some(reason) = rule.reason() {
            self.errors.extend(checks::one_of(reason, &REASONS, &path.child("reason")));
        }
        let (own, path) = (rule.field_path(), path.child("fieldPath"));
        if own.is_empty() {
            return;
        }
        if own.trim().is_empty() {
            let why = "fieldPath must be non-empty if specified";
            self.errors.push_with(|| Error::invalid(&path, own, why));
        }
        if has_breaks(own) {
            let why = "fieldPath must not contain line breaks";
            self.errors.push_with(|| Error::invalid(&path, own, why));
        }
        if schema.is_some_and(|schema| field_path::find(own, schema, Arrays::Allowed).is_err()) {
            self.errors.push_with(|| Error::invalid(&path, own, "fieldPath must be a valid path"));
        }
    }
}

/// What is not atomic in an item of a set.
pub(super) struct SetItem<'a> {
    key: &'static str,
    list_type: Option<&'a str>,
}

/// The item of a set that is not atomic.
pub(super) fn wrong_set_item(schema: JSONSchemaProps<'_>) -> Option<SetItem<'_>> {
    let item = single(schema.items()).filter(|_| schema.x_kubernetes_list_type() == Some("set"))?;
    let list_type = item.x_kubernetes_list_type();
    let key = match item.r#type() {
        "array" if list_type.is_some_and(|ty| ty != "atomic") => "x-kubernetes-list-type",
        "object" if item.x_kubernetes_map_type() != Some("atomic") => "x-kubernetes-map-type",
        _ => return None,
    };
    Some(SetItem { key, list_type })
}

/// Whether an item of a set or map, or a key of a map, can be absent.
pub(super) fn has_wrong_list_items(schema: JSONSchemaProps<'_>) -> bool {
    !list_items(schema, &Path::UNSET).is_empty()
}

fn list_items(schema: JSONSchemaProps<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let (Some(items), Some(ty @ ("set" | "map"))) = (single(schema.items()), schema.x_kubernetes_list_type())
    else {
        return errors;
    };
    let path = path.child("items");
    if items.nullable() {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {ty}");
        errors.push(Error::forbidden(&path.child("nullable"), why));
    }
    if ty == "set" {
        return errors;
    }
    let required: HashSet<&str> = items.required().iter().collect();
    let properties = path.child("properties");
    for key in schema.x_kubernetes_list_map_keys().iter() {
        let Some(property) = items.properties().get(key) else { continue };
        let path = properties.key(key);
        if !required.contains(key) && property.r#default().is_none() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push_with(|| Error::required(&path.child("default"), why));
        }
        if property.nullable() {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push_with(|| Error::forbidden(&path.child("nullable"), why));
        }
    }
    errors
}

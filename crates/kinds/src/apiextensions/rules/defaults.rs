//! Defaults: values of their schema, without fields that it does not name.
//!
//! A default within the metadata of an object is checked as a part of an object that has nothing else.

use super::go_syntax;
use super::requirements::Requirements;
use super::walk::{self, single, sorted};
use crate::custom::embedded_metadata;
use ::schema::go_value;
use ::schema::structural::{Interned, Node, Outermost, is_meta};
use ::schema::views::apiextensions::v1::JSONSchemaProps;
use expressions::declared::Declaration;
use expressions::{Change, OBJECT_BUDGET, Validator};
use object::field::{Aggregate, Error, List, Path};
use object::{Map, Value};

/// The most work that the defaults of a schema make: for each, its bytes times the values in its schema.
const MOST_WORK: usize = 64 << 20;

/// The errors of all defaults in a structural schema.
pub(super) fn validate(
    schema: JSONSchemaProps<'_>,
    requirements: &Requirements<'_>,
    path: &Path<'_>,
) -> List {
    if !walk::any(schema, &|schema| schema.r#default().is_some()) {
        return List::new();
    }
    // Why a schema cannot be compiled, the other rules say.
    let Ok(node) = Node::compile(schema) else { return List::new() };
    let mut check = Check { requirements, work: 0, budget: OBJECT_BUDGET, errors: List::new() };
    let place = Place { object: &node, steps: None, is_in_metadata: false };
    check.schema(schema, &node, &place, true, path);
    check.errors
}

/// Whether a default of a schema has fields that the schema does not name.
pub(super) fn has_unknown_fields(schema: JSONSchemaProps<'_>) -> bool {
    walk::any(schema, &|schema| {
        let value = schema.r#default().map(go_syntax::decoded);
        value.is_some_and(|value| !is_pruned(&value, Some(schema), schema.x_kubernetes_embedded_resource()))
    })
}

/// Where the value of a schema is: in which object, and on which way from there.
struct Place<'a> {
    object: &'a Node,
    steps: Option<&'a Step<'a>>,
    is_in_metadata: bool,
}

struct Step<'a> {
    before: Option<&'a Step<'a>>,
    /// The field; none for an item.
    name: Option<&'a str>,
}

struct Check<'a> {
    requirements: &'a Requirements<'a>,
    work: usize,
    /// What is left for the expressions of all defaults.
    budget: u64,
    errors: List,
}

impl Check<'_> {
    fn schema(
        &mut self,
        schema: JSONSchemaProps<'_>,
        node: &Interned<Node>,
        place: &Place<'_>,
        is_root: bool,
        path: &Path<'_>,
    ) {
        let is_object = is_root || schema.x_kubernetes_embedded_resource();
        let own = Place { object: node, steps: None, is_in_metadata: false };
        let place = if is_object { &own } else { place };
        if let Some(raw) = schema.r#default() {
            self.work += raw.as_str().len().saturating_mul(walk::count(schema));
            if self.work > MOST_WORK {
                let why = "defaults and their schemas are too large to be checked";
                self.errors.push_with(|| Error::forbidden(&path.child("default"), why));
                return;
            }
            let value = go_syntax::decoded(raw);
            let mut errors = match place.is_in_metadata {
                true => within_metadata(&value, node, place, path),
                false => self.outside(&value, schema, node, is_object, path),
            };
            if errors.is_empty() {
                errors = self.of_rules(&value, node, is_object, path);
            }
            self.errors.append(errors);
        }
        if let (Some(items), Some(node)) = (single(schema.items()), &node.items) {
            let step = Step { before: place.steps, name: None };
            self.schema(items, node, &Place { steps: Some(&step), ..*place }, false, &path.child("items"));
        }
        let properties = path.child("properties");
        for (name, property) in sorted(schema.properties()) {
            let Some(node) = node.property(name) else { continue };
            let step = Step { before: place.steps, name: Some(name) };
            let is_in_metadata = place.is_in_metadata || is_object && is_meta(name);
            let place = Place { object: place.object, steps: Some(&step), is_in_metadata };
            self.schema(property, node, &place, false, &properties.key(name));
        }
    }

    fn outside(
        &self,
        value: &Value,
        schema: JSONSchemaProps<'_>,
        node: &Node,
        is_object: bool,
        path: &Path<'_>,
    ) -> List {
        let path = path.child("default");
        let mut errors = List::new();
        if !is_pruned(value, Some(schema), is_object) && self.requirements.pruned_defaults() {
            errors.push(Error::invalid(&path, go_value(value), "must not have unknown fields"));
        }
        let outermost = if is_object { Outermost::Object } else { Outermost::BySchema };
        if let Some(malformed) = node.malformed_embedded(value, outermost, &path) {
            errors.push(malformed);
            return errors;
        }
        let wrong = node.validate_embedded(value, outermost, &path, embedded_metadata);
        match wrong.is_empty() {
            true => errors.append(of_schema(value, node, &path)),
            false => errors.append(wrong),
        }
        errors
    }
}

impl Check<'_> {
    /// The errors of a default by the expressions of its schema: as a value that stays, and as a new one.
    fn of_rules(&mut self, value: &Value, node: &Interned<Node>, is_object: bool, path: &Path<'_>) -> List {
        let declaration = if is_object { Declaration::Resource } else { Declaration::Value };
        let Some(validator) = Validator::compile(node, declaration).filter(|_| self.budget > 0) else {
            return List::new();
        };
        let path = path.child("default");
        let evaluate = |old| {
            let change = Change { new: value, old, ratchets: false };
            validator.validate(change, self.budget, &path, &|work| work())
        };
        let mut outcome = evaluate(Some(value));
        if outcome.errors.is_empty() {
            let new = evaluate(None);
            outcome.left = outcome.left.min(new.left);
            outcome.errors = new.errors;
        }
        self.budget = outcome.left;
        outcome.errors
    }
}

fn within_metadata(value: &Value, node: &Node, place: &Place<'_>, path: &Path<'_>) -> List {
    let path = path.child("default");
    let object = surrounded(value.clone(), place.steps);
    let (schema, root) = (place.object, Path::UNSET);
    let why = match schema.malformed_embedded(&object, Outermost::Object, &root) {
        Some(malformed) => Some(malformed.to_string()),
        None => {
            let wrong = schema.validate_embedded(&object, Outermost::Object, &root, embedded_metadata);
            Aggregate::new(wrong).map(|wrong| wrong.to_string())
        }
    };
    match why {
        None => of_schema(value, node, &path),
        Some(why) => {
            let why = format!("must result in valid metadata: {why}");
            Error::invalid(&path, go_value(value), why).into()
        }
    }
}

fn of_schema(value: &Value, node: &Node, path: &Path<'_>) -> List {
    node.validate(value, Some(&path.to_string()))
}

/// An object that has nothing but a value, and what every object has.
fn surrounded(value: Value, steps: Option<&Step<'_>>) -> Value {
    let mut value = value;
    let mut steps = steps;
    while let Some(step) = steps {
        value = match step.name {
            Some(name) => Map::from_iter([(name, value)]).into(),
            None => Value::from_iter([value]),
        };
        steps = step.before;
    }
    if let Some(object) = value.as_map_mut() {
        object.get_or_insert_with("kind", || "Validation".into());
        object.get_or_insert_with("apiVersion", || "validation/v1".into());
    }
    value
}

/// Whether a value has only fields that the schema names.
fn is_pruned(value: &Value, schema: Option<JSONSchemaProps<'_>>, is_object: bool) -> bool {
    let preserves = schema.is_some_and(|of| of.x_kubernetes_preserve_unknown_fields() == Some(true));
    has_no_unknown(value, schema, is_object, preserves)
}

fn has_no_unknown(
    value: &Value,
    schema: Option<JSONSchemaProps<'_>>,
    is_object: bool,
    preserves: bool,
) -> bool {
    let within = |value: &Value, schema: Option<JSONSchemaProps<'_>>| {
        let is_object = schema.is_some_and(JSONSchemaProps::x_kubernetes_embedded_resource);
        is_pruned(value, schema, is_object)
    };
    match (value, schema) {
        (Value::Map(map), Some(schema)) => map.iter().all(|(key, value)| {
            if is_object && is_meta(key) {
                return true;
            }
            match (schema.properties().get(key), schema.additional_properties()) {
                (Some(property), _) => within(value, Some(property)),
                (None, Some(additional)) => within(value, single(Some(additional))),
                (None, None) => preserves,
            }
        }),
        (Value::Map(map), None) => preserves || map.is_empty(),
        (Value::List(items), Some(schema)) => items.iter().all(|item| match single(schema.items()) {
            // A list within preserved values is preserved too.
            items @ Some(_) if preserves => has_no_unknown(
                item,
                items,
                items.is_some_and(JSONSchemaProps::x_kubernetes_embedded_resource),
                true,
            ),
            None if preserves => true,
            items => within(item, items),
        }),
        (Value::List(items), None) => {
            preserves || items.iter().all(|item| has_no_unknown(item, None, false, false))
        }
        _ => true,
    }
}

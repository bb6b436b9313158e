//! The parts of a schema.

use ::schema::view::View;
use ::schema::views::apiextensions::v1::JSONSchemaProps;
use object::Value;

/// How deep schemas may nest, which is as deep as they can be compiled.
pub(super) const MOST_DEPTH: usize = 256;

/// The schema in a field that can also hold something else.
pub(super) fn single(value: Option<&Value>) -> Option<JSONSchemaProps<'_>> {
    value.and_then(Value::as_map).map(JSONSchemaProps::of)
}

/// The schemas of `items`, if it lists several.
pub(super) fn several(value: Option<&Value>) -> impl ExactSizeIterator<Item = JSONSchemaProps<'_>> {
    let list = value.and_then(Value::as_list).unwrap_or_default();
    list.iter().map(|value| JSONSchemaProps::of(value.as_map().unwrap_or(&EMPTY)))
}

static EMPTY: object::Map = object::Map::new();

/// The schemas right below one, wherever they are.
pub(super) fn children(schema: JSONSchemaProps<'_>) -> Vec<JSONSchemaProps<'_>> {
    let mut all = Vec::new();
    all.extend(single(schema.items()));
    all.extend(several(schema.items()));
    for list in [schema.all_of(), schema.any_of(), schema.one_of()] {
        all.extend(list.iter());
    }
    all.extend(schema.not());
    all.extend(single(schema.additional_properties()));
    all.extend(single(schema.additional_items()));
    for map in [schema.properties(), schema.pattern_properties(), schema.definitions()] {
        all.extend(map.iter().map(|(_, schema)| schema));
    }
    all.extend(schema.dependencies().iter().filter_map(|(_, either)| single(Some(either))));
    all
}

/// Whether a condition holds for a schema or one within it.
pub(super) fn any(schema: JSONSchemaProps<'_>, condition: &dyn Fn(JSONSchemaProps<'_>) -> bool) -> bool {
    condition(schema) || children(schema).into_iter().any(|child| any(child, condition))
}

/// Calls a function with a schema and all within it.
pub(super) fn each<'a>(schema: JSONSchemaProps<'a>, visit: &mut dyn FnMut(JSONSchemaProps<'a>)) {
    visit(schema);
    children(schema).into_iter().for_each(|child| each(child, visit));
}

/// Whether a schema nests deeper than schemas may.
pub(super) fn is_too_deep(schema: JSONSchemaProps<'_>) -> bool {
    fn exceeds(schema: JSONSchemaProps<'_>, depth: usize) -> bool {
        match depth.checked_sub(1) {
            None => true,
            Some(depth) => children(schema).into_iter().any(|child| exceeds(child, depth)),
        }
    }
    exceeds(schema, MOST_DEPTH)
}

/// The entries of a map of schemas, sorted by key.
pub(super) fn sorted<'a>(
    map: ::schema::view::Entries<'a, JSONSchemaProps<'a>>,
) -> Vec<(&'a str, JSONSchemaProps<'a>)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}

/// How many values a schema consists of.
pub(super) fn count(schema: JSONSchemaProps<'_>) -> usize {
    fn within(value: &Value) -> usize {
        1 + match value {
            Value::Map(map) => map.iter().map(|(_, value)| within(value)).sum(),
            Value::List(list) => list.iter().map(within).sum(),
            _ => 0,
        }
    }
    schema.map().iter().map(|(_, value)| within(value)).sum()
}

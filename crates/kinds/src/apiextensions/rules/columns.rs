//! Columns of tables, paths of the scale subresource, selectable fields.

use ::schema::view::Items;
use ::schema::views::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceSubresourceScale, CustomResourceSubresources,
    JSONSchemaProps, SelectableField,
};
use expressions::field_path::{self, Arrays};
use object::field::{Error, List, Path};
use std::collections::HashSet;

const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
/// The most selectable fields of a version.
const MOST_SELECTABLE: usize = 8;

/// The columns that a definition adds to tables.
pub(super) fn columns(columns: Items<'_, CustomResourceColumnDefinition<'_>>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    for (at, column) in columns.iter().enumerate() {
        let path = path.index(at);
        if column.name().is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        }
        let (ty, format) = (column.r#type(), column.format());
        let why = || format!("must be one of {}", TYPES.join(","));
        match ty {
            "" => errors.push(Error::required(&path.child("type"), why())),
            ty if !TYPES.contains(&ty) => errors.push(Error::invalid(&path.child("type"), ty, why())),
            _ => {}
        }
        if !format.is_empty() && !FORMATS.contains(&format) {
            let why = format!("must be one of {}", FORMATS.join(","));
            errors.push(Error::invalid(&path.child("format"), format, why));
        }
        let path = path.child("JSONPath");
        match column.json_path() {
            "" => errors.push(Error::required(&path, "")),
            text => errors.extend(simple_path(text, &path)),
        }
    }
    errors
}

/// The subresources of a version.
pub(super) fn subresources(subresources: Option<CustomResourceSubresources<'_>>, path: &Path<'_>) -> List {
    subresources.and_then(CustomResourceSubresources::scale).map(|of| scale(of, path)).unwrap_or_default()
}

fn scale(scale: CustomResourceSubresourceScale<'_>, path: &Path<'_>) -> List {
    let below = |text: &str, roots: &[&str], path: &Path<'_>, why: &'static str| {
        simple_path(text, path).or_else(|| {
            let is_below = roots.iter().any(|root| text.starts_with(root));
            (!is_below).then(|| Error::invalid(path, text, why))
        })
    };
    let mut errors = List::new();
    let required = [
        ("scale.specReplicasPath", scale.spec_replicas_path(), ".spec.", "should be a json path under .spec"),
        (
            "scale.statusReplicasPath",
            scale.status_replicas_path(),
            ".status.",
            "should be a json path under .status",
        ),
    ];
    for (name, text, root, why) in required {
        let path = path.child(name);
        errors.extend(match text {
            "" => Some(Error::required(&path, "")),
            text => below(text, &[root], &path, why),
        });
    }
    if let Some(text) = scale.label_selector_path().filter(|text| !text.is_empty()) {
        let why = "should be a json path under either .spec or .status";
        errors.extend(below(text, &[".spec.", ".status."], &path.child("scale.labelSelectorPath"), why));
    }
    errors
}

/// Paths begin with a dot; nothing else is checked.
fn simple_path(text: &str, path: &Path<'_>) -> Option<Error> {
    (!text.starts_with('.')).then(|| Error::invalid(path, text, "must be a simple json path starting with ."))
}

/// The fields that objects can be selected by.
pub(super) fn selectable_fields(
    fields: Items<'_, SelectableField<'_>>,
    schema: JSONSchemaProps<'_>,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    let mut known = HashSet::new();
    for (at, field) in fields.iter().enumerate() {
        let path = path.index(at);
        let (text, path) = (field.json_path(), path.child("jsonPath"));
        if text.is_empty() {
            errors.push(Error::required(&path, ""));
            continue;
        }
        let found = match field_path::find(text, schema, Arrays::Refused) {
            Ok(found) => found,
            Err(why) => {
                errors.push_with(|| Error::invalid(&path, text, format!("is an invalid path: {why}")));
                continue;
            }
        };
        if found.root == "metadata" {
            errors.push(Error::invalid(&path, text, "must not point to fields in metadata"));
        }
        let ty = found.schema.map(JSONSchemaProps::r#type).unwrap_or_default();
        if !matches!(ty, "string" | "boolean" | "integer") {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(Error::invalid(&path, text, why));
        }
        if !known.insert(found.path) {
            errors.push(Error::duplicate(&path, text));
        }
    }
    if known.len() > MOST_SELECTABLE {
        errors.push(Error::too_many(path, Some(known.len()), Some(MOST_SELECTABLE)));
    }
    errors
}

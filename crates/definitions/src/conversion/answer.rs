//! The answer of a conversion webhook, checked as the reference checks it.

use super::ReviewVersion;
use kinds::object_meta;
use object::field::{self, Path};
use object::quote::Quoted;
use object::{Map, Value};
use schema::view::View as _;
use schema::views::apiextensions::v1::ConversionReview;
use schema::{Limits, Shape, json};

/// Group, version and kind of an object, as the reference writes them: `example.com/v1, Kind=Widget`.
pub(super) fn kind_of(object: &Value) -> String {
    format!("{}, Kind={}", text(object, "apiVersion"), text(object, "kind"))
}

/// The converted objects in an answer, or what is wrong with the answer.
pub(super) fn objects<'r>(
    review: &'r Value,
    uid: &str,
    version: ReviewVersion,
) -> Result<&'r [Value], String> {
    static EMPTY: Map = Map::new();
    let review = ConversionReview::of(review.as_map().unwrap_or(&EMPTY));
    if version == ReviewVersion::V1 {
        check_kind(review)?;
    }
    let response = review.response().ok_or("no response provided")?;
    if version == ReviewVersion::V1 && response.uid() != uid {
        let (expected, found) = (Quoted(uid), Quoted(response.uid()));
        return Err(format!("expected response.uid={expected}, got {found}"));
    }
    let result = response.result();
    match (result.status(), result.message()) {
        ("Success", _) => Ok(response.converted_objects().values()),
        (status, "") => Err(format!("response.result.status was '{status}', not 'Success'")),
        (_, message) => Err(message.to_owned()),
    }
}

fn check_kind(review: ConversionReview<'_>) -> Result<(), String> {
    let (version, kind) = (review.api_version(), review.kind());
    let expected = ReviewVersion::V1.api_version();
    if kind == "ConversionReview" && version == expected {
        return Ok(());
    }
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    Err(format!(
        "expected webhook response of {expected}, Kind=ConversionReview, got {group}/{version}, Kind={kind}"
    ))
}

/// What is wrong with a converted object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The value is not an object.
    Unreadable(String),
    /// The object has another version or kind.
    Kind(String),
    /// The object has another name, namespace or uid.
    Identity(String),
    /// The labels or annotations are invalid.
    Metadata(String),
}

impl Fault {
    /// In the words of the reference, which are others for the object at a place of a list.
    pub(super) fn text(self, of: &str, at: usize, is_list: bool) -> String {
        match (self, is_list) {
            (Self::Unreadable(why), false) => why,
            (Self::Kind(why), false) => {
                format!("conversion webhook for {of} returned invalid object at index 0: {why}")
            }
            (Self::Identity(why), false) => {
                format!("conversion webhook for {of} returned invalid object: {why}")
            }
            (Self::Metadata(why), false) => {
                format!("conversion webhook for {of} returned invalid metadata: {why}")
            }
            (Self::Metadata(why), true) => {
                format!(
                    "conversion webhook for {of} returned invalid metadata in object at index {at}: {why}"
                )
            }
            (Self::Unreadable(why) | Self::Kind(why) | Self::Identity(why), true) => {
                format!("conversion webhook for {of} returned invalid converted object at index {at}: {why}")
            }
        }
    }
}

/// The converted object, with the metadata of the original except for labels and annotations.
pub(super) fn converted(original: Value, raw: &Value, api_version: &str) -> Result<Value, Fault> {
    let mut object = read(raw).map_err(Fault::Unreadable)?;
    let found = text(&object, "apiVersion");
    if found != api_version {
        return Err(Fault::Kind(format!("invalid groupVersion (expected {api_version}, received {found})")));
    }
    let (expected, found) = (text(&original, "kind"), text(&object, "kind"));
    if expected != found {
        return Err(Fault::Kind(format!("invalid kind (expected {expected}, received {found})")));
    }
    for (field, name) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (expected, found) = (metadata_text(&original, field), metadata_text(&object, field));
        if expected != found {
            return Err(Fault::Identity(format!("must have the same {name}: {expected} != {found}")));
        }
    }
    let metadata = restored(original, &object).map_err(Fault::Metadata)?;
    if let Some(object) = object.as_map_mut() {
        object.insert("metadata", metadata);
    }
    Ok(object)
}

/// The tree of a converted object.
fn read(raw: &Value) -> Result<Value, String> {
    let Value::Raw(raw) = raw else { return Err("unexpected end of JSON input".to_owned()) };
    let limits = Limits { bytes: usize::MAX, ..Limits::REQUEST };
    let decoded = json::decode_shape(&Shape::Any, raw.as_str().as_bytes(), &limits);
    let object = decoded.map_err(|error| error.to_string())?.value;
    match text(&object, "kind") {
        "" => Err(format!("Object 'Kind' is missing in '{}'", object::excerpt::excerpt(&raw.as_str()))),
        _ => Ok(object),
    }
}

/// The metadata of the original with the labels and annotations of what came back.
fn restored(original: Value, object: &Value) -> Result<Map, String> {
    let found = object.get("metadata").ok_or("missing metadata in converted object")?;
    let found = found
        .as_map()
        .ok_or_else(|| format!("invalid metadata of type {} in converted object", go_type(found)))?;
    let mut metadata = match original {
        Value::Map(mut original) => match original.remove("metadata") {
            Some(Value::Map(metadata)) => metadata,
            _ => Map::new(),
        },
        _ => Map::new(),
    };
    for field in ["labels", "annotations"] {
        let entries = match found.get(field) {
            None | Some(Value::Null) => {
                metadata.remove(field);
                continue;
            }
            Some(Value::Map(entries)) => entries,
            Some(other) => {
                return Err(format!(
                    "invalid metadata.{field} of type {} in converted object",
                    go_type(other)
                ));
            }
        };
        if let Some((key, value)) = entries.iter().find(|(_, value)| value.as_str().is_none()) {
            return Err(format!(
                "metadata.{field}[{key}] must be a string, but is {} in converted object",
                go_type(value)
            ));
        }
        if metadata.get(field).and_then(Value::as_map) != Some(entries) {
            check(field, found)?;
        }
        metadata.insert(field, entries.clone());
    }
    Ok(metadata)
}

/// The rules for labels or annotations that a webhook changed.
fn check(field: &'static str, metadata: &Map) -> Result<(), String> {
    let path = Path::new("metadata");
    let errors = match field {
        "labels" => object_meta::labels(Some(metadata), &path.child("labels")),
        // The message of the reference lacks the last letter.
        _ => object_meta::annotations(Some(metadata), &path.child("annotation")),
    };
    field::Aggregate::new(errors).map_or(Ok(()), |errors| Err(errors.to_string()))
}

fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn metadata_text<'v>(object: &'v Value, field: &str) -> &'v str {
    object.get("metadata").map(|metadata| text(metadata, field)).unwrap_or_default()
}

/// The Go type of a JSON value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) | Value::Bytes(_) => "string",
        Value::Map(_) => "map[string]interface {}",
        Value::List(_) => "[]interface {}",
        Value::Null | Value::Raw(_) => "<nil>",
    }
}

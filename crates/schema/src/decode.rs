//! What all decoders share: limits, errors, field paths for errors, and the list of unknown and duplicate
//! fields.

use crate::model::{Field, Shape, Type};
use crate::structural::Pruned;
use object::excerpt::shorten_to;
use object::quote::Quoted;
use object::{Key, Map, Value};
use std::collections::{BTreeSet, HashMap};
use std::fmt::{self, Write};

/// The most bytes of the path of an unknown or duplicate field.
pub(crate) const MOST_PATH: usize = 8 << 10;

/// The limits of a decoder.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of input.
    pub bytes: usize,
    /// The nesting depth of lists and maps.
    pub depth: usize,
    /// Values in the tree, keys of maps included.
    pub values: usize,
    /// Whether malformed metadata of an object within a custom resource is dropped, instead of refused: a
    /// stored object has to stay readable.
    pub drops_malformed: bool,
    /// Whether nulls stay in a custom resource where its schema allows none: an applied configuration keeps
    /// them, and validation refuses them.
    pub keeps_nulls: bool,
}

impl Limits {
    /// For a request body: the reference accepts 3 MiB.
    pub const REQUEST: Self = Self {
        bytes: 3 * 1024 * 1024,
        depth: 512,
        values: 250_000,
        drops_malformed: false,
        keeps_nulls: false,
    };
    /// For stored objects, which were checked when they were written.
    pub const STORED: Self =
        Self { bytes: usize::MAX, depth: 1024, values: usize::MAX, drops_malformed: true, ..Self::REQUEST };
}

impl Default for Limits {
    fn default() -> Self {
        Self::REQUEST
    }
}

/// A decoded object, and the fields that strict validation reports.
#[derive(Debug, Default)]
pub struct Decoded {
    /// The tree.
    pub value: Value,
    /// Unknown and duplicate fields, in the order of the input: at most [`Decoded::MOST_STRICT`], each once.
    pub strict: Vec<Strict>,
    /// Whether pruning by the schema of a custom kind changed the tree.
    pub pruned: bool,
}

impl Decoded {
    /// The limit of `strict`, as in the reference.
    pub const MOST_STRICT: usize = 100;

    /// Removes everything but `kind`, `apiVersion` and `metadata` from an object, and reports it as unknown:
    /// so the reference treats an object in a version that its kind does not have.
    pub fn forget_all(&mut self) {
        let Some(map) = self.value.as_map_mut() else { return };
        let mut unknown = Vec::new();
        map.retain(|key, _| {
            let is_meta = matches!(key.as_str(), "kind" | "apiVersion" | "metadata");
            if !is_meta && unknown.len() < Self::MOST_STRICT {
                unknown.push(shorten_to(MOST_PATH, key.to_string()));
            }
            is_meta
        });
        unknown.sort();
        self.strict.extend(unknown.into_iter().map(Strict::Unknown));
        self.strict.truncate(Self::MOST_STRICT);
    }

    /// The result of decoding a value of a shape. An object of a custom kind is pruned by its schema.
    pub(crate) fn new(
        shape: &Shape,
        mut value: Value,
        mut strict: Vec<Strict>,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let custom = match shape {
            Shape::Struct(ty) => ty.custom.as_ref(),
            _ => None,
        };
        let Some(custom) = custom else { return Ok(Self { value, strict, pruned: false }) };
        let Pruned { changed, malformed } = custom.prune_with(&mut value, &mut strict, limits.keeps_nulls);
        match malformed {
            Some(error) if !limits.drops_malformed => Err(Error::Value(error.to_string())),
            _ => Ok(Self { value, strict, pruned: changed }),
        }
    }
}

/// A field that is dropped with a warning, or an error with `fieldValidation=Strict`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strict {
    /// The type has no such field.
    Unknown(String),
    /// The field occurs more than once.
    Duplicate(String),
    /// Duplicate keys in YAML, with the message of the YAML decoder.
    Yaml(String),
}

impl fmt::Display for Strict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Strict::Unknown(path) => write!(f, "unknown field {}", Quoted(path)),
            Strict::Duplicate(path) => write!(f, "duplicate field {}", Quoted(path)),
            Strict::Yaml(message) => f.write_str(message),
        }
    }
}

/// A decoding error. The messages are those of the reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A syntax error.
    #[error("{0}")]
    Syntax(String),
    /// A value of the wrong type.
    #[error("{}", .0.message())]
    Type(Mismatch),
    /// A value of the right type with an invalid format: a quantity, a time, base64.
    #[error("{0}")]
    Value(String),
    /// More bytes than the limit.
    #[error("request body too large: the limit is {0} bytes")]
    TooLarge(usize),
    /// Deeper than the limit.
    #[error("exceeded max depth")]
    TooDeep,
    /// More values than the limit.
    #[error("too many values: the limit is {0}")]
    TooMany(usize),
}

impl Error {
    /// The error of an object of a custom kind: the reference decodes its metadata alone, so that paths start
    /// there.
    pub fn of_custom(self) -> Self {
        match self {
            Error::Type(mismatch) if mismatch.path == "metadata" => {
                Error::Type(Mismatch { struct_name: String::new(), path: String::new(), ..mismatch })
            }
            Error::Type(mismatch) => {
                let within = mismatch.path.strip_prefix("metadata.").map(str::to_owned);
                Error::Type(Mismatch { path: within.unwrap_or(mismatch.path), ..mismatch })
            }
            other => other,
        }
    }
}

/// A boxed error: one word, so that the results of decoder functions stay small.
pub(crate) type Fault = Box<Error>;

/// A value of the wrong type, and its field path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The JSON type that was found: `string`, `number 1.5`.
    pub found: String,
    /// The struct that has the field; empty at the top.
    pub struct_name: String,
    /// The field's path without indexes; empty at the top.
    pub path: String,
    /// The expected Go type.
    pub wanted: String,
}

impl Mismatch {
    fn message(&self) -> String {
        let Self { found, struct_name, path, wanted } = self;
        if struct_name.is_empty() && path.is_empty() {
            format!("json: cannot unmarshal {found} into Go value of type {wanted}")
        } else {
            format!(
                "json: cannot unmarshal {found} into Go struct field {struct_name}.{path} of type {wanted}"
            )
        }
    }
}

/// The field path of the value that is being decoded: a linked list on the call stack, read only to report an
/// error.
pub(crate) struct DecodePath<'p> {
    parent: Option<&'p DecodePath<'p>>,
    segment: Segment<'p>,
}

enum Segment<'p> {
    Root,
    Field(&'p Type, &'p Field),
    Index(usize),
    Key(&'p str),
    /// A value that the reference decodes with a decoder of its own: field paths in type errors start here.
    OwnDecoder,
}

impl<'p> DecodePath<'p> {
    pub(crate) const ROOT: DecodePath<'static> = DecodePath { parent: None, segment: Segment::Root };

    pub(crate) fn field(&'p self, ty: &'p Type, field: &'p Field) -> DecodePath<'p> {
        DecodePath { parent: Some(self), segment: Segment::Field(ty, field) }
    }

    pub(crate) fn index(&'p self, at: usize) -> DecodePath<'p> {
        DecodePath { parent: Some(self), segment: Segment::Index(at) }
    }

    pub(crate) fn key(&'p self, key: &'p str) -> DecodePath<'p> {
        DecodePath { parent: Some(self), segment: Segment::Key(key) }
    }

    pub(crate) fn own_decoder(&'p self) -> DecodePath<'p> {
        DecodePath { parent: Some(self), segment: Segment::OwnDecoder }
    }

    /// The field path with indexes: `spec.containers[0]`.
    pub(crate) fn path(&self) -> String {
        let mut path = String::new();
        self.write(&mut path);
        shorten_to(MOST_PATH, path)
    }

    /// The field path of a field of this value: `spec.containers[0].image`.
    pub(crate) fn path_to(&self, name: &str) -> String {
        let mut path = String::new();
        if self.write(&mut path) {
            path.push('.');
        }
        path.push_str(name);
        shorten_to(MOST_PATH, path)
    }

    /// Writes the path; returns whether it has any segment, which may be an empty key.
    fn write(&self, path: &mut String) -> bool {
        let started = self.parent.is_some_and(|parent| parent.write(path));
        let mut name = |name: &str| {
            if started {
                path.push('.');
            }
            path.push_str(name);
        };
        match &self.segment {
            Segment::Root | Segment::OwnDecoder => return started,
            Segment::Field(_, field) => name(&field.name),
            Segment::Key(key) => name(key),
            Segment::Index(at) => {
                let _ = write!(path, "[{at}]");
            }
        }
        true
    }

    /// The error for a value of type `found` where `shape` is expected.
    #[cold]
    pub(crate) fn mismatch(&self, found: impl Into<String>, shape: &Shape) -> Error {
        self.mismatch_with(found.into(), self.go_name().unwrap_or_else(|| shape.go_name()))
    }

    /// The error of [`DecodePath::mismatch`] from a type with a decoder of its own, which knows only the name
    /// of its own type.
    #[cold]
    pub(crate) fn mismatch_of(&self, found: impl Into<String>, shape: &Shape) -> Error {
        self.mismatch_with(found.into(), shape.go_name())
    }

    fn mismatch_with(&self, found: String, wanted: String) -> Error {
        let (mut names, mut struct_name) = (vec![], String::new());
        let mut at = Some(self);
        while let Some(place) = at {
            match &place.segment {
                // The reference decodes the metadata of a custom resource by itself.
                Segment::Field(ty, _) if ty.custom.is_some() => break,
                Segment::Field(ty, field) => {
                    if names.is_empty() {
                        struct_name = ty.struct_name.to_string();
                    }
                    names.push(field.name.as_str());
                }
                Segment::OwnDecoder => names.clear(),
                _ => {}
            }
            at = place.parent;
        }
        names.reverse();
        Error::Type(Mismatch { found, struct_name, path: names.join("."), wanted })
    }

    /// The Go type of this value, as far as the field declares it.
    fn go_name(&self) -> Option<String> {
        match (&self.segment, self.parent) {
            (Segment::Root | Segment::OwnDecoder, _) | (_, None) => None,
            (Segment::Field(_, field), _) => Some(field.options.go.to_string()),
            (Segment::Index(_), Some(list)) => list.go_name()?.strip_prefix("[]").map(str::to_string),
            (Segment::Key(_), Some(map)) => {
                let name = map.go_name()?;
                let (_, value) = name.strip_prefix("map[")?.split_once(']')?;
                Some(value.to_string())
            }
        }
    }
}

impl Shape {
    /// The Go type of a shape.
    pub(crate) fn go_name(&self) -> String {
        match self {
            Shape::Bool => "bool".into(),
            Shape::Int32 => "int32".into(),
            Shape::Int64 => "int64".into(),
            Shape::Float64 => "float64".into(),
            Shape::String => "string".into(),
            Shape::Bytes => "[]uint8".into(),
            Shape::Any => "interface {}".into(),
            Shape::Struct(ty) => {
                let mut words = ty.name.rsplit('.');
                let (name, version) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                format!("{version}.{name}")
            }
            Shape::List(element) => format!("[]{}", element.go_name()),
            Shape::Map(value) => format!("map[string]{}", value.go_name()),
            Shape::Time | Shape::MicroTime | Shape::Duration | Shape::Quantity => "string".into(),
            Shape::IntOrString => "int32".into(),
            Shape::Raw(_) | Shape::SchemaOr(..) => "interface {}".into(),
        }
    }
}

/// A bounded list of unknown and duplicate fields.
#[derive(Default)]
pub(crate) struct StrictList {
    list: Vec<Strict>,
    /// Above zero where no fields are reported: inside values that the reference decodes with a decoder of
    /// its own, and when a part of an object is read.
    pub(crate) quiet: u32,
}

impl StrictList {
    /// A list that stays empty.
    pub(crate) fn quiet() -> Self {
        Self { list: Vec::new(), quiet: 1 }
    }

    pub(crate) fn add(&mut self, make: impl FnOnce() -> Strict) {
        if self.quiet > 0 || self.list.len() >= Decoded::MOST_STRICT {
            return;
        }
        let new = make();
        if !self.list.contains(&new) {
            self.list.push(new);
        }
    }

    pub(crate) fn into_vec(self) -> Vec<Strict> {
        self.list
    }
}

/// Merges the values of a field that occurs several times, in their order: structs and maps keep fields that
/// a later value does not have, also within lists; any other value is replaced by the last one. The cost is
/// linear in the size of all values.
pub(crate) fn merge_repeats(mut values: Vec<Value>) -> Value {
    let start = |values: &[Value], is_mergeable: fn(&Value) -> bool| {
        values.iter().rposition(|value| !is_mergeable(value)).map_or(0, |at| at + 1)
    };
    match values.last() {
        Some(Value::Map(_)) if values.len() > 1 => {
            let start = start(&values, |value| matches!(value, Value::Map(_)));
            merge_maps(values.split_off(start))
        }
        Some(Value::List(_)) if values.len() > 1 => {
            let start = start(&values, |value| matches!(value, Value::List(_)));
            merge_lists(values.split_off(start))
        }
        _ => values.pop().unwrap_or_default(),
    }
}

fn merge_maps(maps: Vec<Value>) -> Value {
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut entries: Vec<(Key, Vec<Value>)> = Vec::new();
    for (key, value) in maps.into_iter().filter_map(into_map).flatten() {
        let place = *places.entry(key.clone()).or_insert(entries.len());
        match entries.get_mut(place) {
            Some((_, values)) => values.push(value),
            None => entries.push((key, vec![value])),
        }
    }
    let merged: Vec<_> = entries.into_iter().map(|(key, values)| (key, merge_repeats(values))).collect();
    Map::from_distinct(merged).into()
}

/// The items of the last list, each merged with the items at the same index of the lists before, as far back
/// as those are long enough.
fn merge_lists(lists: Vec<Value>) -> Value {
    let mut lists = lists.iter().rev().filter_map(Value::as_list);
    let mut items: Vec<Vec<Value>> =
        lists.next().unwrap_or_default().iter().map(|item| vec![item.clone()]).collect();
    let mut shared = items.len();
    for list in lists {
        shared = shared.min(list.len());
        for (values, item) in items.iter_mut().zip(list.iter().take(shared)) {
            if item.as_map().is_some() && values.first().is_some_and(|last| last.as_map().is_some()) {
                values.push(item.clone());
            } else {
                // Items of earlier lists are not merged into the item.
                values.push(Value::Null);
            }
        }
    }
    let merge = |mut values: Vec<Value>| {
        values.reverse();
        merge_repeats(values)
    };
    items.into_iter().map(merge).collect()
}

fn into_map(value: Value) -> Option<Map> {
    match value {
        Value::Map(map) => Some(map),
        _ => None,
    }
}

/// Which fields of a struct have been read.
#[derive(Default)]
pub(crate) struct SeenFields {
    low: u64,
    high: BTreeSet<usize>,
}

impl SeenFields {
    /// Marks a field; returns whether it was marked before.
    #[inline]
    pub(crate) fn again(&mut self, at: usize) -> bool {
        if at < 64 {
            let bit = 1 << at;
            let again = self.low & bit != 0;
            self.low |= bit;
            return again;
        }
        !self.high.insert(at)
    }
}

/// Counts values against the limit.
pub(crate) struct Budget {
    limits: Limits,
    left: usize,
    depth: usize,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { limits: *limits, left: limits.values, depth: 0 }
    }

    /// One more value.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<(), Fault> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Fault::new(Error::TooMany(self.limits.values))),
        }
    }

    /// One level deeper.
    #[inline]
    pub(crate) fn enter(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth > self.limits.depth { Err(Fault::new(Error::TooDeep)) } else { Ok(()) }
    }

    /// One level up again.
    #[inline]
    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Levels that may still be entered.
    pub(crate) fn depth_left(&self) -> usize {
        self.limits.depth.saturating_sub(self.depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{builtin, json};

    /// The values of a field merged one after the other, each into what came of those before.
    fn one_by_one(values: &[Value]) -> Value {
        values.iter().cloned().reduce(|before, value| merge_repeats(vec![before, value])).unwrap()
    }

    #[test]
    fn many_repeats_are_merged_as_one_after_the_other() {
        let values = [
            r#"{"a":1,"m":{"x":1,"y":1},"l":[{"p":1,"q":1},{"p":2}]}"#,
            r#"{"b":2,"m":{"y":2},"l":[{"p":3}]}"#,
            r#"{"m":{"z":3},"l":[{"r":1},{"s":1},7]}"#,
            r#"{"m":[1],"l":[{"t":1},{"u":1},{"v":1}]}"#,
            r#"{"a":{"deep":1},"m":{"w":1},"l":[[{"a":1}],{"x":1}]}"#,
            r#"{"l":[[{"b":1}],{"y":1},null]}"#,
        ];
        let decode =
            |text: &&str| json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::default()).unwrap().value;
        let values: Vec<Value> = values.iter().map(decode).collect();
        for start in 0..values.len() {
            for end in start + 1..=values.len() {
                let some = values.get(start..end).unwrap();
                assert_eq!(merge_repeats(some.to_vec()), one_by_one(some), "{start}..{end}");
            }
        }
    }

    #[test]
    fn repeats_of_a_field_cost_no_more_than_their_size() {
        let ty = builtin::by_kind("", "v1", "ConfigMap").unwrap();
        let repeats: Vec<String> = (0..50_000).map(|at| format!(r#""data":{{"k{at}":""}}"#)).collect();
        let begin = std::time::Instant::now();
        let text = format!("{{{}}}", repeats.join(","));
        let value = json::decode(ty, text.as_bytes(), &Limits::default()).unwrap().value;
        assert_eq!(value.get("data").and_then(Value::as_map).map(Map::len), Some(50_000));
        assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{:?}", begin.elapsed());
    }

    #[test]
    fn paths_of_unknown_fields_are_cut() {
        let ty = builtin::by_kind("", "v1", "ConfigMap").unwrap();
        let text = format!(r#"{{"{}":1}}"#, "x".repeat(1 << 20));
        let decoded = json::decode(ty, text.as_bytes(), &Limits::default()).unwrap();
        let shown = decoded.strict.first().unwrap().to_string();
        assert!(shown.len() < MOST_PATH + 100 && shown.contains("more bytes"), "{}", shown.len());
    }
}

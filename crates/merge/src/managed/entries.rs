//! `metadata.managedFields`, read from and written to the tree of an object.
//!
//! The fields of an entry stay text until they are needed, and an entry that did not change is written as
//! it was read: most writes touch one entry of several.

use object::path::{Element, Path};
use object::path_set::{Set, Texts, Untaken};
use object::{Key, Map, RawJson, Text, Value};
use schema::json;
use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// How fields were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn text(self) -> Text {
        match self {
            Self::Apply => const { Text::known("Apply") },
            Self::Update => const { Text::known("Update") },
        }
    }
}

/// An owner of fields. Entries with the same owner are merged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    pub(crate) manager: Text,
    pub(crate) operation: Operation,
    /// The API version of an update; empty for applies, which are one owner in all versions.
    pub(crate) version: Text,
    pub(crate) subresource: Text,
}

impl Id {
    pub(crate) fn new(manager: &str, operation: Operation, version: &str, subresource: &str) -> Self {
        let version = if operation == Operation::Apply { "" } else { version };
        Self { manager: manager.into(), operation, version: version.into(), subresource: subresource.into() }
    }

    /// The text by which the reference orders owners.
    pub(crate) fn text(&self) -> String {
        let operation = self.operation.text();
        let parts = [
            ("manager", &self.manager),
            ("operation", &operation),
            ("apiVersion", &self.version),
            ("subresource", &self.subresource),
        ];
        let parts = parts.iter().filter(|(_, text)| !text.is_empty());
        let parts: Vec<_> = parts.map(|(name, text)| format!("\"{name}\":{}", json::string(text))).collect();
        format!("{{{}}}", parts.join(","))
    }
}

/// The fields of one owner.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    fields: Fields,
    /// The API version of the paths.
    pub(crate) version: Text,
    pub(crate) time: Option<Value>,
    /// The entry as it was read, if it has not changed since.
    source: Option<Value>,
}

#[derive(Clone, Debug)]
enum Fields {
    Text(RawJson),
    Set(Set),
}

impl Owned {
    pub(crate) fn new(set: Set, version: impl Into<Text>, time: Option<Value>) -> Self {
        Self { fields: Fields::Set(set), version: version.into(), time, source: None }
    }

    /// The paths; empty if the text is malformed.
    pub(crate) fn set(&self) -> Set {
        match &self.fields {
            Fields::Set(set) => set.clone(),
            Fields::Text(text) => Set::from_json(text.as_str()).unwrap_or_default(),
        }
    }

    /// Removes paths.
    pub(crate) fn take(&mut self, gone: &Gone) {
        if gone.is_empty() {
            return;
        }
        if let Fields::Text(text) = &self.fields {
            match gone.texts().taken_from(text.as_str()) {
                Ok(left) => {
                    self.fields = Fields::Text(RawJson::from_checked(left));
                    self.source = None;
                    return;
                }
                Err(Untaken::Same) => return,
                Err(Untaken::Foreign) => {}
            }
        }
        let before = self.set();
        let left = before.difference(&gone.set);
        if left != before {
            self.replace_set(left);
        }
    }

    /// Whether all of these paths are owned.
    pub(crate) fn has(&self, paths: &Set) -> bool {
        match &self.fields {
            Fields::Text(text) => Texts::of(paths).are_in(text.as_str()),
            Fields::Set(set) => paths.difference(set).is_empty(),
        }
    }

    /// Whether the paths were read.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.fields, Fields::Set(_))
    }

    /// The entry with another time.
    pub(crate) fn at(self, time: Value) -> Self {
        Self { time: Some(time), source: None, ..self }
    }

    pub(crate) fn replace_set(&mut self, set: Set) {
        self.fields = Fields::Set(set);
        self.source = None;
    }

    pub(crate) fn is_empty(&self) -> bool {
        match &self.fields {
            Fields::Set(set) => set.is_empty(),
            Fields::Text(text) => text.as_str() == "{}",
        }
    }
}

/// Paths that are taken from their owners.
pub(crate) struct Gone {
    set: Set,
    /// To take them from texts; made when the first text is met.
    texts: OnceCell<Texts>,
}

impl Gone {
    pub(crate) fn new(set: Set) -> Self {
        Self { set, texts: OnceCell::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    fn texts(&self) -> &Texts {
        self.texts.get_or_init(|| Texts::of(&self.set))
    }
}

/// All owners.
pub(crate) type Owners = BTreeMap<Id, Owned>;

/// Whether paths are read at once, so that malformed ones are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// When they are needed: this server has written them.
    Lazy,
    /// All of them: a client has sent them.
    Whole,
}

/// Checks the entries of `metadata.managedFields`, including their paths; the error is the reference's reason
/// if one of the entries is invalid.
pub fn check_entries(entries: &[Value]) -> Result<(), String> {
    read(entries, Reading::Whole).map(drop)
}

/// Reads entries; the error is the reference's reason if one of them is invalid.
pub(crate) fn read(entries: &[Value], reading: Reading) -> Result<Owners, String> {
    let mut owners = Owners::new();
    for (at, entry) in entries.iter().enumerate() {
        let text = |key: &str| match entry.get(key) {
            Some(Value::String(text)) => text.clone(),
            _ => Text::EMPTY,
        };
        let operation = match text("operation").as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err("operation must be `Apply` or `Update`".into()),
        };
        let version = text("apiVersion");
        if version.is_empty() {
            return Err("apiVersion must not be empty".into());
        }
        match text("fieldsType").as_str() {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {at}")),
            other => {
                let other = object::quote::Quoted(other);
                return Err(format!("invalid fieldsType {other} in managed fields entry {at}"));
            }
        }
        let fields = match (entry.get("fieldsV1"), reading) {
            (Some(Value::Raw(text)), Reading::Lazy) => Fields::Text(text.clone()),
            (Some(Value::Raw(text)), Reading::Whole) => {
                Fields::Set(Set::from_json(text.as_str()).map_err(|error| {
                    let entry = format!("managed fields entry {at}");
                    format!("error decoding versioned set from {entry}: error decoding set: {error}")
                })?)
            }
            _ => Fields::Set(Set::new()),
        };
        let id = Id::new(&text("manager"), operation, &version, &text("subresource"));
        let source = (reading == Reading::Lazy).then(|| entry.clone());
        owners.insert(id, Owned { fields, version, time: entry.get("time").cloned(), source });
    }
    Ok(owners)
}

/// Writes the entries in their order.
pub(crate) fn write(owners: Owners) -> Vec<Value> {
    write_all(owners.into_iter().collect())
}

/// Writes entries of which several may have one owner.
pub(crate) fn write_all(mut all: Vec<(Id, Owned)>) -> Vec<Value> {
    all.sort_by(order);
    all.into_iter().map(|(id, owned)| entry(id, owned)).collect()
}

fn order((a, left): &(Id, Owned), (b, right): &(Id, Owned)) -> Ordering {
    fn time(owned: &Owned) -> &str {
        owned.time.as_ref().and_then(Value::as_str).unwrap_or("1970-01-01T00:00:00Z")
    }
    a.operation
        .cmp(&b.operation)
        .then_with(|| time(left).cmp(time(right)))
        .then_with(|| a.manager.cmp(&b.manager))
        .then_with(|| left.version.cmp(&right.version))
        .then_with(|| a.subresource.cmp(&b.subresource))
}

fn entry(id: Id, owned: Owned) -> Value {
    if let Some(source) = owned.source {
        return source;
    }
    let fields = match owned.fields {
        Fields::Text(text) => text,
        Fields::Set(set) => RawJson::from_checked(set.to_json()),
    };
    let mut entries = Vec::with_capacity(7);
    let mut text = |key: &'static str, text: Text| {
        if !text.is_empty() {
            entries.push((Key::known(key), Value::String(text)));
        }
    };
    text("manager", id.manager);
    text("operation", id.operation.text());
    text("apiVersion", owned.version);
    let fields_type = const { Text::known("FieldsV1") };
    entries.extend(owned.time.map(|time| (Key::known("time"), time)));
    entries.push((Key::known("fieldsType"), Value::String(fields_type)));
    entries.push((Key::known("fieldsV1"), Value::Raw(fields)));
    if !id.subresource.is_empty() {
        entries.push((Key::known("subresource"), Value::String(id.subresource)));
    }
    Map::from_distinct(entries).into()
}

/// The entries in an object's metadata.
pub(crate) fn of(object: &Value) -> Option<&[Value]> {
    object.get("metadata")?.get("managedFields")?.as_list()
}

/// Takes the entries out of an object.
pub(crate) fn take(object: &mut Value) -> Option<Value> {
    of(object)?;
    object.as_map_mut()?.get_mut("metadata")?.as_map_mut()?.remove("managedFields")
}

/// Puts entries into an object that has none.
pub(crate) fn put(object: &mut Value, entries: Vec<Value>) {
    let Some(object) = object.as_map_mut().filter(|_| !entries.is_empty()) else { return };
    if let Some(metadata) = object.get_or_insert_with("metadata", || Map::new().into()).as_map_mut() {
        metadata.insert("managedFields", entries);
    }
}

/// Whether entries request a reset: one empty entry.
pub(crate) fn is_reset(entries: &[Value]) -> bool {
    matches!(entries, [only] if only.as_map().is_some_and(Map::is_empty))
}

/// Whether a path leads to the entries of an object.
pub(crate) fn is_place(path: &Path) -> bool {
    matches!(&path[..], [Element::Field(metadata), Element::Field(entries)] if metadata == "metadata" && entries == "managedFields")
}

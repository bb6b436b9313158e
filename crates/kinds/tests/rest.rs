//! The kinds of all groups but core, compared with responses of the reference.
//!
//! `reference/rest/answers.tsv` has blocks of lines, with columns separated by tabs:
//!
//! - `object`, an object as a client sends it;
//! - `as`, a version, the object as a client of that version reads it back, with all defaults;
//! - `row`, its cells in a table, where `{"since": time}` is the time that has passed since then;
//! - `columns`, the columns: name, type, format and priority separated by colons.
#![allow(clippy::unwrap_used, reason = "this is test code")]

use kinds::{Cell, Kind};
use object::Value;
use schema::{Limits, Shape, Type, json};

const ANSWERS: &str = include_str!("reference/rest/answers.tsv");

/// An object in a version that clients use.
struct Sent {
    text: &'static str,
    kind: &'static Kind,
    version: String,
}

impl Sent {
    fn new(text: &'static str) -> Self {
        let any = any(text);
        let word = |key: &str| any.get(key).and_then(Value::as_str).unwrap().to_owned();
        let api_version = word("apiVersion");
        let (group, version) = api_version.split_once('/').unwrap();
        let kind = kinds::all().find(|row| row.group == group && row.kind == word("kind")).unwrap();
        Self { text, kind, version: version.into() }
    }

    /// The object in the storage version, with all defaults.
    fn stored(&self) -> Value {
        let mut value = decode(self.ty(&self.version), self.text);
        schema::default(self.ty(&self.version), &mut value);
        let version = self.kind.version(&self.version).unwrap();
        if let Some(conversion) = version.conversion {
            (conversion.default)(value.as_map_mut().unwrap());
            (conversion.to_stored)(&mut value);
        }
        schema::default(self.ty(self.kind.storage_version().unwrap().name), &mut value);
        self.kind.strategy.default(value.as_map_mut().unwrap());
        value
    }

    /// The object in a served version.
    fn read(&self, version: &str) -> Value {
        let mut value = self.stored();
        if let Some(conversion) = self.kind.version(version).unwrap().conversion {
            (conversion.from_stored)(&mut value);
        }
        value.as_map_mut().unwrap().insert("apiVersion", format!("{}/{version}", self.kind.group));
        value
    }

    fn ty(&self, version: &str) -> &'static Type {
        schema::builtin::by_kind(self.kind.group, version, self.kind.kind).unwrap()
    }
}

fn any(text: &str) -> Value {
    json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::default()).unwrap().value
}

fn decode(ty: &'static Type, text: &str) -> Value {
    json::decode(ty, text.as_bytes(), &Limits::default()).unwrap().value
}

fn written(ty: &'static Type, value: &Value) -> String {
    let mut out = Vec::new();
    json::encode(ty, value, &mut out);
    String::from_utf8(out).unwrap()
}

/// Calls `check` with the lines that begin with `word`, and the objects they are about.
fn each(word: &str, mut check: impl FnMut(&Sent, &[&'static str])) {
    let mut sent = None;
    let mut checked = 0;
    for line in ANSWERS.lines() {
        let parts: Vec<&str> = line.split('\t').collect();
        if parts[0] == "object" {
            sent = Some(Sent::new(parts[1]));
        } else if parts[0] == word {
            check(sent.as_ref().unwrap(), &parts[1..]);
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked} lines with {word}");
}

#[test]
fn served_versions_match_the_reference_after_defaulting_and_conversion() {
    each("as", |sent, parts| {
        let version = parts[0].rsplit_once('/').unwrap().1;
        let ty = sent.ty(version);
        let wanted = decode(ty, parts[1]);
        let read = sent.read(version);
        assert_eq!(written(ty, &read), written(ty, &wanted), "{} as {version}", sent.text);
        assert_eq!(read, wanted, "the tree holds what its type cannot tell from nothing: {}", sent.text);
    });
}

#[test]
fn table_cells_match_the_reference() {
    each("row", |sent, parts| {
        let kept = sent.stored();
        let row = (sent.kind.columns.row)(kept.as_map().unwrap());
        let cells: Value = row.cells.iter().map(shown).collect();
        assert_eq!(cells, any(parts[0]), "{}", sent.text);
        assert!(row.conditions.is_empty());
    });
}

fn shown(cell: &Cell) -> Value {
    match cell {
        Cell::Text(text) => text.as_str().into(),
        Cell::Integer(number) => (*number).into(),
        Cell::Float(number) => (*number).into(),
        Cell::Bool(flag) => (*flag).into(),
        Cell::Null => Value::Null,
        Cell::Since { before, time, after } => {
            assert!(before.is_empty() && after.is_empty());
            time.as_deref()
                .map_or("<unknown>".into(), |time| object::Map::from_iter([("since", time)]).into())
        }
    }
}

#[test]
fn table_columns_match_the_reference() {
    each("columns", |sent, parts| {
        let columns = sent.kind.columns.list.iter();
        let columns = columns
            .map(|column| format!("{}:{}:{}:{}", column.name, column.ty, column.format, column.priority));
        assert_eq!(columns.collect::<Vec<_>>(), parts, "{}", sent.kind.resource);
    });
}

//! Tables: column definitions are encoded once per kind; rows are cached without their ages.

use std::ops::Range;
use std::sync::LazyLock;

use bytes::{Buf, BufMut, Bytes};
use cache::Entry;
use kinds::{About, Cell, Column, ColumnDefinition, Columns, Description, RowFn};
use object::time::{MicroTime, Time};
use object::{Map, Value};
use registry::Content;
use schema::{Shape, Status, json};

use super::encodings::CachedEncoding;
use super::{Include, ObjectEncoder, metadata_of, object_meta, partial_head};
use crate::negotiate::MetaVersion;

/// Whether a table has headings: the first event of a watch has them, the others do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Headings {
    /// The table has them.
    Include,
    /// The table has none.
    Omit,
}

/// The columns of a table as JSON.
fn headings(columns: &[ColumnDefinition]) -> Bytes {
    let mut out = String::from("[");
    for (at, column) in columns.iter().enumerate() {
        let description = match &column.description {
            Description::Text(text) => text.to_string(),
            Description::Field(ty, field) => openapi::description(ty, field).unwrap_or_default(),
        };
        let texts = [&*column.name, &*column.ty, &*column.format, &*description];
        let [name, ty, format, description] = texts.map(json::string);
        let comma = if at > 0 { "," } else { "" };
        out.push_str(&format!(
            r#"{comma}{{"name":{name},"type":{ty},"format":{format},"description":{description},"priority":{}}}"#,
            column.priority
        ));
    }
    out.push(']');
    out.into()
}

/// A row as it is cached: the range of the metadata in the object's JSON, the positions of ages in the text
/// with the times that they count from (microseconds), and the text up to the row's object.
///
/// ```text
/// u32 start, u32 end of the metadata | u16 ages | ages times (u32 position in the text, i64 time) | text
/// ```
pub(crate) struct Row;

/// The length of one age.
const AGE: usize = 12;

impl Row {
    /// Encodes a row for the cache.
    pub(crate) fn make(row: &kinds::Row, metadata: Range<usize>) -> Bytes {
        let mut text = Vec::with_capacity(256);
        let mut ages: Vec<(u32, i64)> = Vec::new();
        text.extend_from_slice(b"{\"cells\":[");
        for (at, cell) in row.cells.iter().enumerate() {
            if at > 0 {
                text.push(b',');
            }
            match cell {
                Cell::Text(value) => text.extend_from_slice(json::string(value).as_bytes()),
                Cell::Integer(value) => text.extend_from_slice(value.to_string().as_bytes()),
                Cell::Float(value) => json::encode_shape(&Shape::Float64, &Value::Float(*value), &mut text),
                Cell::Bool(value) => text.extend_from_slice(if *value { b"true" } else { b"false" }),
                Cell::Null => text.extend_from_slice(b"null"),
                Cell::Since { before, time, after } => {
                    let before = json::string(before);
                    text.extend_from_slice(before.strip_suffix('"').unwrap_or(&before).as_bytes());
                    match time.as_deref().and_then(moment) {
                        Some(moment) => ages.push((u32::try_from(text.len()).unwrap_or(u32::MAX), moment)),
                        None => text.extend_from_slice(UNKNOWN),
                    }
                    let after = json::string(after);
                    text.extend_from_slice(after.strip_prefix('"').unwrap_or(&after).as_bytes());
                }
            }
        }
        text.push(b']');
        for (at, condition) in row.conditions.iter().enumerate() {
            text.extend_from_slice(if at == 0 { b",\"conditions\":[" } else { b"," });
            write_condition(condition, &mut text);
            if at + 1 == row.conditions.len() {
                text.push(b']');
            }
        }
        text.extend_from_slice(b",\"object\":");
        let mut kept = Vec::with_capacity(10 + ages.len() * AGE + text.len());
        let short = |place: usize| u32::try_from(place).unwrap_or_default();
        kept.put_u32(short(metadata.start));
        kept.put_u32(short(metadata.end));
        kept.put_u16(u16::try_from(ages.len()).unwrap_or_default());
        for (place, moment) in ages.into_iter().take(usize::from(u16::MAX)) {
            kept.put_u32(place);
            kept.put_i64(moment);
        }
        kept.extend_from_slice(&text);
        kept.into()
    }

    /// Writes a cached row up to its object, and returns the range of the metadata.
    pub(crate) fn write(kept: &[u8], now: MicroTime, out: &mut Vec<u8>) -> Range<usize> {
        let mut head = kept;
        if head.remaining() < 10 {
            return 0..0;
        }
        let metadata = head.get_u32() as usize..head.get_u32() as usize;
        let ages = usize::from(head.get_u16());
        let Some((mut ages, text)) = head.split_at_checked(ages * AGE) else { return 0..0 };
        let now = micros(now);
        let mut written = 0;
        while ages.remaining() >= AGE {
            let (place, moment) = (ages.get_u32() as usize, ages.get_i64());
            out.extend_from_slice(text.get(written..place).unwrap_or_default());
            written = place;
            let age = kinds::human_duration(now.saturating_sub(moment) / MICROS);
            match age.as_bytes() {
                [b'<', ..] => out.extend_from_slice(INVALID),
                age => out.extend_from_slice(age),
            }
        }
        out.extend_from_slice(text.get(written..).unwrap_or_default());
        metadata
    }
}

const MICROS: i64 = 1_000_000;
/// An age that is not known, escaped as JSON escapes it here.
const UNKNOWN: &[u8] = b"\\u003cunknown\\u003e";
/// The age of a time in the future.
const INVALID: &[u8] = b"\\u003cinvalid\\u003e";

/// A time in microseconds.
fn moment(text: &str) -> Option<i64> {
    let time: MicroTime = text.parse().ok().or_else(|| text.parse::<Time>().ok().map(Time::into))?;
    (!time.is_zero()).then(|| micros(time))
}

fn micros(time: MicroTime) -> i64 {
    time.unix().saturating_mul(MICROS).saturating_add(i64::from(time.subsec_nanos() / 1000))
}

fn write_condition(condition: &kinds::Condition, out: &mut Vec<u8>) {
    let [ty, status] = [condition.ty, condition.status].map(json::string);
    out.extend_from_slice(format!(r#"{{"type":{ty},"status":{status}"#).as_bytes());
    for (name, value) in [("reason", condition.reason), ("message", condition.message)] {
        if !value.is_empty() {
            out.extend_from_slice(format!(r#","{name}":{}"#, json::string(value)).as_bytes());
        }
    }
    out.push(b'}');
}

/// The metadata of a list as JSON.
pub(crate) fn list_meta(resource_version: &str, token: &str, remaining: Option<usize>) -> String {
    let mut out = String::from("{");
    let mut member = |name: &str, value: &str| {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&format!("\"{name}\":{value}"));
    };
    if !resource_version.is_empty() {
        member("resourceVersion", &json::string(resource_version));
    }
    if !token.is_empty() {
        member("continue", &json::string(token));
    }
    if let Some(remaining) = remaining {
        member("remainingItemCount", &remaining.to_string());
    }
    out.push('}');
    out
}

/// The map of a tree.
pub(crate) fn map_of(tree: &Value) -> &Map {
    static NONE: Map = Map::new();
    tree.as_map().unwrap_or(&NONE)
}

/// The type of a `Scale`.
const SCALE_TYPE: &str = "autoscaling.v1.Scale";

/// The columns of a `Scale` of a built-in kind.
const SCALE: Columns = Columns {
    list: &[
        Column { format: "", ..Column::NAME },
        Column::integer("Desired", About::Field("autoscaling.v1.ScaleSpec", "replicas")),
        Column::integer("Available", About::Field("autoscaling.v1.ScaleStatus", "replicas")),
        Column::AGE,
    ],
    row: |scale| {
        let replicas = |part: &str| {
            let part = scale.get(part).and_then(|part| part.get("replicas"));
            Cell::Integer(part.and_then(Value::as_i64).unwrap_or_default())
        };
        vec![Cell::name(scale), replicas("spec"), replicas("status"), Cell::age(scale)].into()
    },
};

/// The columns of a `Scale` of a custom kind. A desired number of zero is absent from the object, so its cell
/// is null.
const CUSTOM_SCALE: Columns = Columns {
    list: &[
        Column::NAME,
        Column::integer("Desired", About::Text("Number of desired replicas")),
        Column::integer("Available", About::Text("Number of actual replicas")),
        Column { ty: "date", ..Column::AGE },
    ],
    row: |scale| {
        let replicas = |part: &str| scale.get(part)?.get("replicas")?.as_i64();
        let desired = replicas("spec").filter(|number| *number != 0).map_or(Cell::Null, Cell::Integer);
        let available = Cell::Integer(replicas("status").unwrap_or_default());
        vec![Cell::name(scale), desired, available, Cell::age(scale)].into()
    },
};

/// The columns of an object that is neither of the kind nor a `Scale`.
const PLAIN: Columns = Columns::NAME_AND_CREATION;

static SCALE_HEADINGS: LazyLock<Bytes> = LazyLock::new(|| headings_of(&SCALE));
static CUSTOM_SCALE_HEADINGS: LazyLock<Bytes> = LazyLock::new(|| headings_of(&CUSTOM_SCALE));
static PLAIN_HEADINGS: LazyLock<Bytes> = LazyLock::new(|| headings_of(&PLAIN));

fn headings_of(columns: &Columns) -> Bytes {
    headings(&columns.list.iter().map(ColumnDefinition::from).collect::<Vec<_>>())
}

impl ObjectEncoder {
    /// The columns of the kind as JSON, computed on the first use.
    pub(crate) fn headings(&self) -> Bytes {
        self.served.headings.get_or_init(|| headings(&self.served.columns)).clone()
    }

    fn is_custom(&self) -> bool {
        self.served.ty.custom.is_some()
    }

    /// A table up to its first row.
    pub(crate) fn table_head(&self, version: MetaVersion, meta: &str, headings: Option<&[u8]>) -> Vec<u8> {
        let mut out = Vec::with_capacity(4096);
        let api_version = version.api_version();
        out.extend_from_slice(
            format!(
                r#"{{"kind":"Table","apiVersion":"{api_version}","metadata":{meta},"columnDefinitions":"#
            )
            .as_bytes(),
        );
        out.extend_from_slice(headings.unwrap_or(b"null"));
        out.extend_from_slice(b",\"rows\":[");
        out
    }

    /// The cached row of an object, if the object in the row needs no encoding either.
    pub(crate) fn kept_row(&self, entry: &Entry) -> Option<Bytes> {
        let has_object = match self.include {
            Include::None => true,
            Include::Object => self.is_as_stored(entry) || self.kept(entry, CachedEncoding::Json).is_some(),
            Include::Metadata => self.has_stored_metadata(entry),
        };
        if has_object { self.kept(entry, CachedEncoding::Row) } else { None }
    }

    /// One object as a row.
    pub(crate) fn row(&self, entry: &Entry, version: MetaVersion, out: &mut Vec<u8>) -> Result<(), Status> {
        self.write_row(&self.encoded(entry, CachedEncoding::Row)?, entry, version, out)
    }

    /// Writes a cached row with its object.
    pub(crate) fn write_row(
        &self,
        kept: &[u8],
        entry: &Entry,
        version: MetaVersion,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        let metadata = Row::write(kept, self.now, out);
        match self.include {
            Include::None => out.extend_from_slice(b"null"),
            Include::Object => out.extend_from_slice(&self.json(entry)?),
            Include::Metadata => {
                out.extend_from_slice(partial_head(version));
                if self.has_stored_metadata(entry) {
                    let metadata = entry.bytes().get(metadata).filter(|text| !text.is_empty());
                    out.extend_from_slice(metadata.unwrap_or(b"{}"));
                } else {
                    out.extend_from_slice(&self.metadata(entry)?);
                }
                out.push(b'}');
            }
        }
        out.push(b'}');
        Ok(())
    }

    /// The row of an object that is not stored. A tree of the kind itself is in the working version.
    pub(crate) fn tree_row(
        &self,
        content: &Content,
        version: MetaVersion,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        let (Content::Tree(tree) | Content::Other { value: tree, .. }) = content else { return Ok(()) };
        let row = match content {
            Content::Other { ty, .. } if ty.name == SCALE_TYPE => match self.is_custom() {
                true => &RowFn::Builtin(CUSTOM_SCALE.row),
                false => &RowFn::Builtin(SCALE.row),
            },
            Content::Other { .. } => &RowFn::Builtin(PLAIN.row),
            Content::Entry(_) | Content::Tree(_) => &self.served.row,
        };
        Row::write(&Row::make(&row.row(map_of(tree)), 0..0), self.now, out);
        match self.include {
            Include::None => out.extend_from_slice(b"null"),
            Include::Object => match content {
                Content::Other { ty, value } => json::encode(ty, value, out),
                _ if self.is_working_version() => json::encode(&self.served.ty, tree, out),
                _ => {
                    let mut tree = tree.clone();
                    self.served.out_of_working_now(&mut tree);
                    json::encode(&self.served.ty, &tree, out);
                }
            },
            Include::Metadata => {
                out.extend_from_slice(partial_head(version));
                json::encode_shape(&object_meta()?, &self.metadata_alone(tree), out);
                out.push(b'}');
            }
        }
        out.push(b'}');
        Ok(())
    }

    /// The JSON of a table with one object.
    pub(crate) fn table_of(
        &self,
        content: &Content,
        version: MetaVersion,
        show: Headings,
    ) -> Result<Vec<u8>, Status> {
        let mut out = match content {
            Content::Entry(entry) => {
                let meta = list_meta(&entry.mod_revision().0.to_string(), "", None);
                let headings = (show == Headings::Include).then(|| self.headings());
                let mut out = self.table_head(version, &meta, headings.as_deref());
                self.row(entry, version, &mut out)?;
                out
            }
            Content::Tree(tree) | Content::Other { value: tree, .. } => {
                let headings = match content {
                    Content::Other { ty, .. } if ty.name == SCALE_TYPE => match self.is_custom() {
                        true => CUSTOM_SCALE_HEADINGS.clone(),
                        false => SCALE_HEADINGS.clone(),
                    },
                    Content::Other { .. } => PLAIN_HEADINGS.clone(),
                    Content::Entry(_) | Content::Tree(_) => self.headings(),
                };
                let resource_version = metadata_of(tree).get("resourceVersion").and_then(Value::as_str);
                let meta = list_meta(resource_version.unwrap_or_default(), "", None);
                let headings = (show == Headings::Include).then_some(headings);
                let mut out = self.table_head(version, &meta, headings.as_deref());
                self.tree_row(content, version, &mut out)?;
                out
            }
        };
        out.extend_from_slice(b"]}");
        Ok(out)
    }
}

//! Tables: the columns of a kind, and how an object becomes a row of them.
//!
//! A row does not depend on the current time: a cell with an age holds the start time. So the bytes of a row
//! can be cached, and only ages are written for each request.

use object::Map;
use object::time::{MicroTime, Time};
use schema::view::{Entries, Item};
use schema::views::meta::v1::ObjectMeta;
use std::borrow::Cow;

/// Makes [`Columns`] of a list of columns, each with its cell. A block in front of the list has what the
/// cells share, and `conditions` behind the list the conditions of the row; both may be missing.
///
/// ```ignore
/// columns!(|object| {
///     let set = StatefulSet::of(object);
///     let (spec, status) = (set.spec(), set.status());
/// } [
///     Column::NAME => Cell::name(object),
///     Column::text("Ready", About::Text("Number of the pod with ready state"))
///         => Cell::Text(format!("{}/{}", status.ready_replicas(), spec.replicas().unwrap_or_default())),
///     Column::AGE => Cell::age(object),
/// ])
/// ```
macro_rules! columns {
    (
        |$object:ident| $({ $($binding:tt)* })?
        [ $($column:expr => $cell:expr),+ $(,)? ]
        $(conditions: $conditions:expr)?
    ) => {
        $crate::Columns {
            list: &[$($column),+],
            row: |$object| {
                $($($binding)*)?
                $crate::Row { $(conditions: $conditions,)? ..vec![$($cell),+].into() }
            },
        }
    };
}
pub(crate) use columns;

/// The columns of a kind.
pub struct Columns {
    /// The columns.
    pub list: &'static [Column],
    /// Makes a row of an object in the storage version, with one cell for each column.
    pub row: fn(&Map) -> Row,
}

impl Columns {
    /// The columns of a kind that declares none.
    pub const NAME_AND_CREATION: Self = columns!(|object| [
        Column::NAME => Cell::name(object),
        Column::CREATED_AT => Cell::text(metadata(object).creation_timestamp().unwrap_or_default()),
    ]);

    /// Whether these are the columns of a kind that declares none.
    pub fn are_plain(&self) -> bool {
        self.list == Self::NAME_AND_CREATION.list
    }
}

/// One column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// `string`, `integer`, `date`, ...
    pub ty: &'static str,
    /// `name` for the column with the object's name, otherwise empty.
    pub format: &'static str,
    /// Zero for a column that is always shown, more for wide tables.
    pub priority: i32,
    /// Its description.
    pub about: About,
}

/// Where the description of a column comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// From a field: the name of the type in the schema (`core.v1.ConfigMap`) and the name of the field.
    Field(&'static str, &'static str),
    /// This text.
    Text(&'static str),
}

impl Column {
    /// The object's name.
    pub const NAME: Self =
        Self { format: "name", ..Self::text("Name", About::Field("meta.v1.ObjectMeta", "name")) };
    /// How old the object is.
    pub const AGE: Self = Self::text("Age", About::Field("meta.v1.ObjectMeta", "creationTimestamp"));
    /// The creation time of the object.
    pub const CREATED_AT: Self = Self {
        ty: "date",
        ..Self::text("Created At", About::Field("meta.v1.ObjectMeta", "creationTimestamp"))
    };

    /// A column of text.
    pub const fn text(name: &'static str, about: About) -> Self {
        Self { name, ty: "string", format: "", priority: 0, about }
    }

    /// A column of whole numbers.
    pub const fn integer(name: &'static str, about: About) -> Self {
        Self { ty: "integer", ..Self::text(name, about) }
    }

    /// For wide tables only.
    pub const fn wide(self) -> Self {
        Self { priority: 1, ..self }
    }
}

/// One row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// One cell for each column.
    pub cells: Vec<Cell>,
    /// The conditions of the row, which clients show for the whole row.
    pub conditions: Vec<Condition>,
}

impl From<Vec<Cell>> for Row {
    fn from(cells: Vec<Cell>) -> Self {
        Self { cells, conditions: Vec::new() }
    }
}

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// Another number, of a custom kind.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// No value: `null` in JSON.
    Null,
    /// The age of something that started at `time`, in the short form of kubectl, between two texts:
    /// `before`, `3d21h`, `after`. [`age`] writes it, as `<unknown>` if there is no start time.
    Since {
        /// The text before the age.
        before: Cow<'static, str>,
        /// The start time (RFC 3339); `None` if it is unknown.
        time: Option<String>,
        /// The text after the age.
        after: &'static str,
    },
}

/// A condition of a row, such as `Completed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `Completed`.
    pub ty: &'static str,
    /// `True`.
    pub status: &'static str,
    /// The reason, for programs.
    pub reason: &'static str,
    /// The message, for people.
    pub message: &'static str,
}

impl Cell {
    /// Text, copied.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The name of an object.
    pub fn name(object: &Map) -> Self {
        Self::text(metadata(object).name())
    }

    /// The age of an object.
    pub fn age(object: &Map) -> Self {
        Self::since(metadata(object).creation_timestamp())
    }

    /// The age of something that started at `time`.
    pub fn since(time: Option<&str>) -> Self {
        Self::Since { before: "".into(), time: time.map(str::to_owned), after: "" }
    }

    /// Text, or `otherwise` where there is none.
    pub fn text_or(text: &str, otherwise: &str) -> Self {
        Self::text(if text.is_empty() { otherwise } else { text })
    }

    /// A count.
    pub fn count(count: usize) -> Self {
        Self::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

/// The metadata of an object.
pub fn metadata(object: &Map) -> ObjectMeta<'_> {
    object.get("metadata").and_then(ObjectMeta::read).unwrap_or_else(ObjectMeta::absent)
}

/// The age at `now` of something that started at `time` (RFC 3339), in the short form of kubectl; `<unknown>`
/// without a start time.
///
/// ```
/// let now = "2025-01-03T21:00:00.000000Z".parse().unwrap();
/// assert_eq!(kinds::age(Some("2025-01-01T00:00:00Z"), now), "2d21h");
/// assert_eq!(kinds::age(None, now), "<unknown>");
/// ```
pub fn age(time: Option<&str>, now: MicroTime) -> String {
    let time = time.and_then(|text| text.parse().ok().or_else(|| text.parse().ok().map(Time::into)));
    match time {
        Some(time) if !MicroTime::is_zero(time) => {
            human_duration(now.since(time).as_nanos() / NANOS_PER_SECOND)
        }
        _ => "<unknown>".into(),
    }
}

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Whole seconds in the short form of kubectl, with two or three digits. -1 counts as 0, because clocks
/// differ; less is `<invalid>`.
///
/// ```
/// assert_eq!(kinds::human_duration(90), "90s");
/// assert_eq!(kinds::human_duration(150), "2m30s");
/// assert_eq!(kinds::human_duration(-2), "<invalid>");
/// ```
pub fn human_duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let two = |large: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{small_unit}"),
    };
    match () {
        () if seconds < -1 => "<invalid>".into(),
        () if seconds < 0 => "0s".into(),
        () if seconds < 2 * 60 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 3 * 60 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if days < 2 * 365 => format!("{days}d"),
        () if days < 8 * 365 => two(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

/// Labels, or a selector that is a map of labels, as text: `a=1,b=2`.
pub(crate) fn labels(labels: Entries<'_, &str>) -> String {
    if labels.is_empty() {
        return "<none>".into();
    }
    let mut pairs: Vec<_> = labels.iter().collect();
    pairs.sort_unstable();
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(",")
}

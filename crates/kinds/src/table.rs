//! Tables: the columns of a kind, and how an object becomes a row of them.
//!
//! A row does not depend on the time it is made: cells that show an age hold the time that it counts from, so that the bytes of a row
//! can be kept and only ages are written anew.

use object::Map;
use object::time::{MicroTime, Time};
use schema::view::{Entries, Item};
use schema::views::meta::v1::ObjectMeta;
use std::borrow::Cow;

/// The columns of a kind.
pub struct Columns {
    /// What the columns are.
    pub list: &'static [Column],
    /// Makes an object, in the stored version, a row with as many cells.
    pub row: fn(&Map) -> Row,
}

impl Columns {
    /// Of a kind that has no columns of its own.
    pub const NAME_AND_CREATION: Self =
        Self { list: &[Column::NAME, Column::CREATED_AT], row: name_and_creation };

    /// Whether these are the columns of a kind that has none of its own.
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
    /// What it says.
    pub about: About,
}

/// Where the description of a column comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// It is that of a field: the type's name in the schema (`core.v1.ConfigMap`), and the field's.
    Field(&'static str, &'static str),
    /// It is this.
    Text(&'static str),
}

impl Column {
    /// The object's name.
    pub const NAME: Self =
        Self { format: "name", ..Self::text("Name", About::Field("meta.v1.ObjectMeta", "name")) };
    /// How old the object is.
    pub const AGE: Self = Self::text("Age", About::Field("meta.v1.ObjectMeta", "creationTimestamp"));
    /// When the object was made.
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
    /// What a client should know of the object as a whole.
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
    /// A yes or no.
    Bool(bool),
    /// Nothing: JSON's null.
    Null,
    /// Text that ends, or is, the time that has passed since a moment (RFC 3339), in the short form that people read:
    /// `before`, `3d21h`, `after`. `<unknown>` stands for a moment that is not there ([`age`] writes it).
    Since {
        /// What stands before it.
        before: Cow<'static, str>,
        /// The moment; `None` if it is not known.
        time: Option<String>,
        /// What stands after it.
        after: &'static str,
    },
}

/// What a client should know of a row's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `Completed`.
    pub ty: &'static str,
    /// `True`.
    pub status: &'static str,
    /// The machine-readable word for it.
    pub reason: &'static str,
    /// The sentence a human sees.
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

    /// The time since a moment, if it is known.
    pub fn since(time: Option<&str>) -> Self {
        Self::Since { before: "".into(), time: time.map(str::to_owned), after: "" }
    }

    /// Text, or `otherwise` where there is none.
    pub fn text_or(text: &str, otherwise: &str) -> Self {
        Self::text(if text.is_empty() { otherwise } else { text })
    }

    /// How many there are of something.
    pub fn count(count: usize) -> Self {
        Self::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

/// The metadata of an object.
pub fn metadata(object: &Map) -> ObjectMeta<'_> {
    object.get("metadata").and_then(ObjectMeta::read).unwrap_or_else(ObjectMeta::absent)
}

/// The time since a moment (RFC 3339) in the short form that people read; `<unknown>` for none.
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

/// Whole seconds in the short form that people read, to two or three digits. A second before is now, for clocks that are
/// not quite in step; more is `<invalid>`.
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

/// Labels, or a selector that is a map of them, as people write them.
pub(crate) fn labels(labels: Entries<'_, &str>) -> String {
    if labels.is_empty() {
        return "<none>".into();
    }
    let mut pairs: Vec<_> = labels.iter().collect();
    pairs.sort_unstable();
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(",")
}

fn name_and_creation(object: &Map) -> Row {
    vec![Cell::name(object), Cell::text(metadata(object).creation_timestamp().unwrap_or_default())].into()
}

//! Tables: the columns of a kind, and how an object becomes a row of them.
//!
//! A row does not depend on the time it is made: cells that show an age hold the time that it counts from, so that the bytes of a row
//! can be kept and only ages are written anew.

use object::Map;
use schema::view::Item;
use schema::views::meta::v1::ObjectMeta;

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
    /// `before`, `3d21h`, `after`. `<unknown>` stands for a moment that is not there.
    Since {
        /// What stands before it.
        before: &'static str,
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
        Self::Since { before: "", time: time.map(str::to_owned), after: "" }
    }
}

/// The metadata of an object.
pub fn metadata(object: &Map) -> ObjectMeta<'_> {
    object.get("metadata").and_then(ObjectMeta::read).unwrap_or_else(ObjectMeta::absent)
}

fn name_and_creation(object: &Map) -> Row {
    vec![Cell::name(object), Cell::text(metadata(object).creation_timestamp().unwrap_or_default())].into()
}

//! The tables of a custom kind: a column for the name, and those that the definition adds.

use kinds::{Cell, Column, ColumnDefinition, Description, Row, RowFn};
use object::json_path::JsonPath;
use object::time::Time;
use object::{Map, Value, float};
use schema::view::Items;
use schema::views::apiextensions::v1::CustomResourceColumnDefinition;
use schema::{Shape, json};
use std::sync::Arc;

/// The most values that the paths of all columns of a row may visit together. The cells after that are empty.
const MOST_VALUES: usize = 4_000_000;

/// The columns of a version, and the function that makes rows of them.
pub(crate) struct Table {
    pub(crate) columns: Vec<ColumnDefinition>,
    pub(crate) row: RowFn,
}

/// A column that a definition adds.
struct Source {
    path: JsonPath,
    ty: ColumnType,
}

/// The types of columns.
#[derive(Clone, Copy)]
enum ColumnType {
    Text,
    Integer,
    Number,
    Boolean,
    Date,
    Other,
}

impl Table {
    /// A definition without columns gets the age. The first column whose path cannot be parsed, and all after
    /// it, are left out.
    pub(crate) fn new(added: Items<'_, CustomResourceColumnDefinition<'_>>) -> Self {
        let mut columns = vec![ColumnDefinition::from(&Column::NAME)];
        let mut sources = Vec::new();
        if added.is_empty() {
            let age = Column { ty: "date", ..Column::AGE };
            columns.push(ColumnDefinition::from(&age));
            sources.extend(Source::new(".metadata.creationTimestamp", "date"));
        }
        for column in added.iter() {
            let Some(source) = Source::new(column.json_path(), column.r#type()) else { break };
            sources.push(source);
            let description = match column.description() {
                "" => {
                    format!("Custom resource definition column (in JSONPath format): {}", column.json_path())
                }
                given => given.to_owned(),
            };
            columns.push(ColumnDefinition {
                name: column.name().into(),
                ty: column.r#type().into(),
                format: column.format().into(),
                priority: i32::try_from(column.priority()).unwrap_or_default(),
                description: Description::Text(description.into()),
            });
        }
        let row = move |object: &Map| {
            let root = Value::Map(object.clone());
            let mut cells = Vec::with_capacity(1 + sources.len());
            cells.push(Cell::name(object));
            let mut left = MOST_VALUES;
            cells.extend(sources.iter().map(|source| source.cell(&root, &mut left)));
            Row::from(cells)
        };
        Self { columns, row: RowFn::Custom(Arc::new(row)) }
    }
}

impl Source {
    fn new(path: &str, ty: &str) -> Option<Self> {
        let ty = match ty {
            "string" => ColumnType::Text,
            "integer" => ColumnType::Integer,
            "number" => ColumnType::Number,
            "boolean" => ColumnType::Boolean,
            "date" => ColumnType::Date,
            _ => ColumnType::Other,
        };
        Some(Self { path: JsonPath::parse(path).ok()?, ty })
    }

    fn cell(&self, object: &Value, left: &mut usize) -> Cell {
        let Some(value) = self.path.first_within(object, left) else { return Cell::Null };
        match (self.ty, &*value) {
            (ColumnType::Text, value) => Cell::Text(text(value)),
            (ColumnType::Integer, Value::Int(number)) => Cell::Integer(*number),
            #[allow(clippy::cast_possible_truncation, reason = "as the reference truncates it")]
            (ColumnType::Integer, Value::Float(number)) => Cell::Integer(*number as i64),
            #[allow(clippy::cast_precision_loss, reason = "as the reference rounds it")]
            (ColumnType::Number, Value::Int(number)) => Cell::Float(*number as f64),
            (ColumnType::Number, Value::Float(number)) => Cell::Float(*number),
            (ColumnType::Boolean, Value::Bool(flag)) => Cell::Bool(*flag),
            (ColumnType::Date, Value::String(text)) if text.is_empty() => Cell::since(None),
            (ColumnType::Date, Value::String(text)) => match text.parse::<Time>() {
                Ok(_) => Cell::since(Some(text)),
                Err(_) => Cell::text("<invalid>"),
            },
            _ => Cell::Null,
        }
    }
}

/// A value in a column of texts.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => float::short(*number),
        Value::String(text) => text.to_string(),
        other => {
            let mut out = Vec::new();
            json::encode_shape(&Shape::Any, other, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::view::{Item, View};
    use schema::views::apiextensions::v1::CustomResourceDefinitionVersion;
    use schema::{Limits, json};

    fn decode(text: &str) -> Value {
        json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::REQUEST).unwrap().value
    }

    fn cells(columns: &str, object: &str) -> Vec<Cell> {
        let version = decode(&format!(r#"{{"additionalPrinterColumns":{columns}}}"#));
        let version = CustomResourceDefinitionVersion::of(version.as_map().unwrap());
        let table = Table::new(version.additional_printer_columns());
        let row = table.row.row(decode(object).as_map().unwrap());
        assert_eq!(row.cells.len(), table.columns.len());
        row.cells
    }

    #[test]
    fn cells_have_the_types_of_their_columns() {
        let object = r#"{"metadata":{"name":"n"},"s":"x","i":7,"f":1.5,"b":true,"n":null,"l":[1,"a"],"o":{"b":2,"a":"<"},"d":"2020-01-01T00:00:00Z"}"#;
        let of = |path: &str, ty: &str| {
            let column = format!(r#"[{{"name":"c","type":"{ty}","jsonPath":"{path}"}}]"#);
            cells(&column, object).remove(1)
        };
        assert_eq!(of(".s", "string"), Cell::text("x"));
        assert_eq!(of(".i", "string"), Cell::text("7"));
        assert_eq!(of(".f", "string"), Cell::text("1.5"));
        assert_eq!(of(".b", "string"), Cell::text("true"));
        assert_eq!(of(".n", "string"), Cell::text("<no value>"));
        assert_eq!(of(".l", "string"), Cell::text(r#"[1,"a"]"#));
        assert_eq!(of(".o", "string"), Cell::text(r#"{"a":"\u003c","b":2}"#));
        assert_eq!(of(".missing", "string"), Cell::Null);
        assert_eq!(of(".i", "integer"), Cell::Integer(7));
        assert_eq!(of(".f", "integer"), Cell::Integer(1));
        assert_eq!(of(".s", "integer"), Cell::Null);
        assert_eq!(of(".i", "number"), Cell::Float(7.0));
        assert_eq!(of(".f", "number"), Cell::Float(1.5));
        assert_eq!(of(".b", "boolean"), Cell::Bool(true));
        assert_eq!(of(".s", "boolean"), Cell::Null);
        assert_eq!(of(".d", "date"), Cell::since(Some("2020-01-01T00:00:00Z")));
        assert_eq!(of(".s", "date"), Cell::text("<invalid>"));
        assert_eq!(of(".l[0]", "integer"), Cell::Integer(1));
    }

    #[test]
    fn without_columns_there_is_the_age() {
        let object = r#"{"metadata":{"name":"n","creationTimestamp":"2020-01-01T00:00:00Z"}}"#;
        assert_eq!(cells("[]", object), [Cell::text("n"), Cell::since(Some("2020-01-01T00:00:00Z"))]);
        let table = Table::new(Items::absent());
        assert_eq!(
            table.columns.iter().map(|column| column.ty.as_str()).collect::<Vec<_>>(),
            ["string", "date"]
        );
    }
}

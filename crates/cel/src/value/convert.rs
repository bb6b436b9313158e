//! Values of trees: as plain JSON, or as their schema declares them.

use super::{Bytes, List, Map, Str, Value, formats, json};
use crate::{Failure, Outcome};
use object::shape::{Form, Shape};

impl<'a> Value<'a> {
    /// The value of a tree: as its shape says, or plain JSON without one. A tree that does not fit its shape
    /// is an error.
    pub fn of(tree: &'a object::Value, shape: Option<&'a dyn Shape>) -> Outcome<'a> {
        match shape {
            None => Ok(Self::plain(tree)),
            Some(shape) => Self::shaped(tree, shape),
        }
    }

    /// The value of a tree as plain JSON.
    pub fn plain(tree: &'a object::Value) -> Self {
        match tree {
            object::Value::Null => Self::Null,
            object::Value::Bool(flag) => Self::Bool(*flag),
            object::Value::Int(number) => Self::Int(*number),
            object::Value::Float(number) => Self::Double(*number),
            object::Value::String(text) => Self::String(Str::Borrowed(text)),
            object::Value::Bytes(bytes) => Self::from(formats::base64(bytes)),
            object::Value::Raw(raw) => json::read(raw.as_str()),
            object::Value::List(items) => Self::List(List::Tree(items, None)),
            object::Value::Map(map) => Self::Map(Map::Tree(map, None)),
        }
    }

    fn shaped(tree: &'a object::Value, shape: &'a dyn Shape) -> Outcome<'a> {
        if tree.is_null() {
            return if shape.is_nullable() {
                Ok(Self::Null)
            } else {
                Err(Failure::error("invalid data, got null for schema with nullable=false"))
            };
        }
        match (shape.form(), tree) {
            (Form::Object | Form::Map, object::Value::Map(map)) => Ok(Self::Map(Map::Tree(map, Some(shape)))),
            (Form::List(_), object::Value::List(items)) if shape.items().is_some() => {
                Ok(Self::List(List::Tree(items, Some(shape))))
            }
            (Form::Preserved, _) => Ok(Self::Preserved(tree)),
            (Form::Object | Form::Map | Form::List(_), object::Value::Raw(raw)) => {
                Ok(json::read(raw.as_str()))
            }
            _ => Self::plain(tree).fit(shape),
        }
    }

    /// A value that is not of a tree in the place of one of a tree: what `+` adds to a list of a schema.
    pub(super) fn fit(self, shape: &'a dyn Shape) -> Outcome<'a> {
        let given = self.native_name();
        match (shape.form(), self) {
            (Form::IntOrString | Form::Integer, value @ Self::Int(_))
            | (Form::IntOrString | Form::String, value @ Self::String(_))
            | (Form::Boolean, value @ Self::Bool(_))
            | (Form::Number, value @ Self::Double(_)) => Ok(value),
            (Form::Number, Self::Int(number)) => Ok(Self::Double(number as f64)),
            (Form::Object | Form::Map, Self::Map(Map::Tree(map, _))) => {
                Ok(Self::Map(Map::Tree(map, Some(shape))))
            }
            (Form::List(_), Self::List(List::Tree(items, _))) if shape.items().is_some() => {
                Ok(Self::List(List::Tree(items, Some(shape))))
            }
            (Form::Duration, Self::String(text)) => formats::duration(text.as_str()).map(Self::Duration),
            (Form::Date, Self::String(text)) => formats::date(text.as_str()).map(Self::Timestamp),
            (Form::DateTime, Self::String(text)) => formats::date_time(text.as_str()).map(Self::Timestamp),
            (Form::Bytes, Self::String(text)) => {
                formats::bytes(text.as_str()).map(|bytes| Self::Bytes(Bytes::Shared(bytes.into())))
            }
            (Form::Preserved, value) => Ok(value),
            (form, value) => Err(Failure::error(misfit(form, &value, given))),
        }
    }
}

/// What is said of a value that does not fit its shape.
fn misfit(form: Form<'_>, value: &Value<'_>, given: &str) -> String {
    let expected = match form {
        Form::IntOrString => {
            return "invalid data, expected XIntOrString value to be either a string or integer".into();
        }
        Form::Object | Form::Map => {
            return "invalid data, expected a map for the provided schema with type=object".into();
        }
        Form::List(_) if matches!(value, Value::List(List::Tree(..))) => {
            return "invalid array type, expected Items with a non-empty Schema".into();
        }
        Form::List(_) => {
            return "invalid data, expected an array for the provided schema with type=array".into();
        }
        Form::Unknown | Form::Preserved => {
            return "invalid type, expected object, array, number, integer, boolean or string, or no type \
                    with x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got "
                .into();
        }
        Form::String | Form::Bytes | Form::Duration | Form::Date | Form::DateTime => "string",
        Form::Boolean => "bool",
        Form::Integer => "int",
        Form::Number => "float",
    };
    format!("invalid data, expected {expected}, got {given}")
}

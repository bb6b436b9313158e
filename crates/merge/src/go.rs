//! The names of Go types and the text of values as Go's `fmt` prints them, for error messages of the
//! reference.

use crate::node::Node;
use object::foreign::Foreign;
use object::quote::Quoted;
use object::{Value, float};
use schema::json;
use std::fmt::Write;

/// The Go type of a value, as in the reference's errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GoKind {
    /// Null.
    Nil,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int,
    /// Another number.
    Float,
    /// Text.
    String,
    /// A list.
    List,
    /// An object.
    Map,
}

impl GoKind {
    /// The kind of a value without a type.
    pub(crate) fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => GoKind::Nil,
            Value::Bool(_) => GoKind::Bool,
            Value::Int(_) => GoKind::Int,
            Value::Float(_) => GoKind::Float,
            Value::String(_) | Value::Bytes(_) => GoKind::String,
            Value::List(_) => GoKind::List,
            Value::Map(_) => GoKind::Map,
            Value::Raw(raw) => match value.kind() {
                "object" => GoKind::Map,
                "array" => GoKind::List,
                "string" => GoKind::String,
                "bool" => GoKind::Bool,
                "null" => GoKind::Nil,
                _ if raw.as_str().parse::<i64>().is_ok() => GoKind::Int,
                _ => GoKind::Float,
            },
        }
    }

    /// The kind of a node.
    pub(crate) fn of(node: &Node<'_>) -> Self {
        match node {
            Node::Nil | Node::Null => GoKind::Nil,
            Node::Typed(_, value) => GoKind::of_value(value),
            Node::Doc(_) | Node::Text(json::Node::Object(_)) => GoKind::Map,
            Node::List(_) | Node::Text(json::Node::List(_)) => GoKind::List,
            Node::Text(_) => GoKind::of_value(&node.to_value()),
        }
    }

    /// The name of the kind.
    pub(crate) fn name(self) -> &'static str {
        match self {
            GoKind::Nil => "invalid",
            GoKind::Bool => "bool",
            GoKind::Int => "int64",
            GoKind::Float => "float64",
            GoKind::String => "string",
            GoKind::List => "slice",
            GoKind::Map => "map",
        }
    }

    /// The name of the type.
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            GoKind::Nil => "%!s(<nil>)",
            GoKind::List => "[]interface {}",
            GoKind::Map => "map[string]interface {}",
            other => other.name(),
        }
    }
}

/// A value without a type as `%v` shows it: `map[a:1 b:[x y]]`.
pub(crate) fn show(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out, |scalar, out| {
        // Writing into a String cannot fail.
        let _ = match scalar {
            Value::Null => write!(out, "<nil>"),
            Value::Bool(flag) => write!(out, "{flag}"),
            Value::Int(number) => write!(out, "{number}"),
            Value::Float(number) => write!(out, "{}", float::short(*number)),
            _ => match Foreign::of(scalar) {
                Some(foreign) => write!(out, "{}", foreign.text),
                None => write!(out, "{}", scalar.as_str().unwrap_or_default()),
            },
        };
    });
    out
}

/// A value as `%s` shows it, which marks anything but text as an error.
pub(crate) fn show_as_text(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out, |scalar, out| {
        let _ = match scalar {
            Value::Null => write!(out, "%!s(<nil>)"),
            Value::Bool(flag) => write!(out, "%!s(bool={flag})"),
            Value::Int(number) => write!(out, "%!s(int64={number})"),
            Value::Float(number) => write!(out, "%!s(float64={})", float::short(*number)),
            _ => write!(out, "{}", scalar.as_str().unwrap_or_default()),
        };
    });
    out
}

/// A value as `%#v` shows it: in Go syntax.
pub(crate) fn show_source(value: &Value) -> String {
    match value {
        Value::Map(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let entries: Vec<_> = entries
                .iter()
                .map(|(key, value)| format!("{}:{}", Quoted(key), show_source(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
        Value::List(items) => {
            let items: Vec<_> = items.iter().map(show_source).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Null => "interface {}(nil)".into(),
        Value::String(text) => Quoted(text).to_string(),
        other => Foreign::of(other).map_or_else(|| show(other), |foreign| foreign.source),
    }
}

fn write(value: &Value, out: &mut String, scalar: fn(&Value, &mut String)) {
    match value {
        Value::Map(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            out.push_str("map[");
            for (at, (key, value)) in entries.into_iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write(value, out, scalar);
            }
            out.push(']');
        }
        Value::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                write(item, out, scalar);
            }
            out.push(']');
        }
        other => scalar(other, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::Map;

    #[test]
    fn values_are_shown_as_in_the_messages_of_the_reference() {
        let list = Value::from_iter([Value::Null, true.into(), 7.into(), 1.5.into(), "x".into()]);
        let value: Value = Map::from_iter([("b", list), ("a", Map::new().into())]).into();
        assert_eq!(show(&value), "map[a:map[] b:[<nil> true 7 1.5 x]]");
        let texts = "map[a:map[] b:[%!s(<nil>) %!s(bool=true) %!s(int64=7) %!s(float64=1.5) x]]";
        assert_eq!(show_as_text(&value), texts);
    }
}

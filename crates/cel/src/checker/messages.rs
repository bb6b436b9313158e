//! The messages of Protocol Buffers that every environment knows: the well-known types of `google.protobuf`.

use crate::Type;

/// The package of the messages.
const PACKAGE: &str = "google.protobuf.";

/// The type of a message, as expressions see it; `None` if there is no such message.
pub(super) fn find(name: &str) -> Option<Type> {
    fields(name).map(|_| Type::object(name))
}

/// The type of a field of a message.
pub(super) fn field(name: &str, field: &str) -> Option<Type> {
    fields(name)?.iter().find(|(there, _)| *there == field).map(|(_, form)| match form {
        Form::Int => Type::Int,
        Form::Uint => Type::Uint,
        Form::Double => Type::Double,
        Form::Bool => Type::Bool,
        Form::String => Type::String,
        Form::Bytes => Type::Bytes,
        Form::Value => Type::Dyn,
        Form::Values => Type::list(Type::Dyn),
        Form::Fields => Type::map(Type::String, Type::Dyn),
    })
}

/// The name of the message that a type is made with, if the type is a well-known one.
pub(super) fn name(ty: &Type) -> Option<&'static str> {
    Some(match ty {
        Type::Any => "google.protobuf.Any",
        Type::Dyn => "google.protobuf.Value",
        Type::Null => "google.protobuf.NullValue",
        Type::Duration => "google.protobuf.Duration",
        Type::Timestamp => "google.protobuf.Timestamp",
        Type::List(element) if **element == Type::Dyn => "google.protobuf.ListValue",
        Type::Map(entry) if **entry == (Type::String, Type::Dyn) => "google.protobuf.Struct",
        Type::Wrapper(of) => match **of {
            Type::Bool => "google.protobuf.BoolValue",
            Type::Bytes => "google.protobuf.BytesValue",
            Type::Double => "google.protobuf.DoubleValue",
            Type::Int => "google.protobuf.Int64Value",
            Type::Uint => "google.protobuf.UInt64Value",
            _ => "google.protobuf.StringValue",
        },
        _ => return None,
    })
}

/// The type of a field, before it is made.
enum Form {
    Int,
    Uint,
    Double,
    Bool,
    String,
    Bytes,
    Value,
    Values,
    Fields,
}

fn fields(name: &str) -> Option<&'static [(&'static str, Form)]> {
    Some(match name.strip_prefix(PACKAGE)? {
        "Any" => &[("type_url", Form::String), ("value", Form::Bytes)],
        "Duration" | "Timestamp" => &[("seconds", Form::Int), ("nanos", Form::Int)],
        "Empty" => &[],
        "Struct" => &[("fields", Form::Fields)],
        "Struct.FieldsEntry" => &[("key", Form::String), ("value", Form::Value)],
        "Value" => &[
            ("null_value", Form::Int),
            ("number_value", Form::Double),
            ("string_value", Form::String),
            ("bool_value", Form::Bool),
            ("struct_value", Form::Fields),
            ("list_value", Form::Values),
        ],
        "ListValue" => &[("values", Form::Values)],
        "BoolValue" => &[("value", Form::Bool)],
        "BytesValue" => &[("value", Form::Bytes)],
        "DoubleValue" | "FloatValue" => &[("value", Form::Double)],
        "Int32Value" | "Int64Value" => &[("value", Form::Int)],
        "UInt32Value" | "UInt64Value" => &[("value", Form::Uint)],
        "StringValue" => &[("value", Form::String)],
        _ => return None,
    })
}

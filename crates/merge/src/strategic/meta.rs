//! The schema of the value that is being merged, and the errors of the reference where there is none.

use crate::Error;
use object::quote::Quoted;
use schema::{Alternative, Field, Raw, Shape, Type};

/// The type at a place, as the reference sees it.
#[derive(Clone, Copy)]
pub(crate) enum Meta<'a> {
    /// A struct, behind a pointer or not.
    Struct(&'a Type, Pointer),
    /// A struct whose fields are not those of the JSON.
    Closed(&'static str, Pointer),
    /// No struct: the name of its kind.
    Other(&'static str),
}

/// Whether the reference has a pointer at a place.
#[derive(Clone, Copy)]
pub(crate) enum Pointer {
    Yes,
    No,
}

impl<'a> Meta<'a> {
    /// Of an object of a type.
    pub(crate) fn of(ty: &'a Type) -> Self {
        Meta::Struct(ty, Pointer::No)
    }

    /// Of the values of a field.
    pub(crate) fn of_field(field: &'a Field) -> Self {
        Self::of_shape(&field.shape, if field.optional { Pointer::Yes } else { Pointer::No })
    }

    fn of_shape(shape: &'a Shape, pointer: Pointer) -> Self {
        match shape {
            Shape::Struct(ty) => Meta::Struct(ty, pointer),
            Shape::Raw(Raw::Extension) => Meta::Closed("RawExtension", pointer),
            Shape::Raw(Raw::Json) => Meta::Closed("JSON", pointer),
            Shape::Raw(Raw::Fields) => Meta::Closed("FieldsV1", pointer),
            Shape::SchemaOr(Alternative::Bool, _) => Meta::Closed("JSONSchemaPropsOrBool", pointer),
            Shape::SchemaOr(Alternative::Schemas, _) => Meta::Closed("JSONSchemaPropsOrArray", pointer),
            Shape::SchemaOr(Alternative::Strings, _) => Meta::Closed("JSONSchemaPropsOrStringArray", pointer),
            Shape::Time => Meta::Closed("Time", pointer),
            Shape::MicroTime => Meta::Closed("MicroTime", pointer),
            Shape::Duration => Meta::Closed("Duration", pointer),
            Shape::Quantity => Meta::Closed("Quantity", pointer),
            Shape::IntOrString => Meta::Closed("IntOrString", pointer),
            Shape::Map(_) => Meta::Other("map"),
            Shape::List(_) | Shape::Bytes => Meta::Other("slice"),
            Shape::Bool => Meta::Other("bool"),
            Shape::Int32 => Meta::Other("int32"),
            Shape::Int64 => Meta::Other("int64"),
            Shape::Float64 => Meta::Other("float64"),
            Shape::String => Meta::Other("string"),
            Shape::Any => Meta::Other("interface"),
        }
    }

    /// The name of its kind.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Meta::Struct(_, Pointer::Yes) | Meta::Closed(_, Pointer::Yes) => "ptr",
            Meta::Struct(..) | Meta::Closed(..) => "struct",
            Meta::Other(kind) => kind,
        }
    }

    /// The field called `name`, in whatever case.
    pub(crate) fn field(self, name: &str) -> Result<&'a Field, Error> {
        let missing = |ty: &str| {
            let name = Quoted(name);
            Error::Internal(format!("unable to find api field in struct {ty} for the json field {name}"))
        };
        match self {
            Meta::Struct(ty, _) => ty
                .field(name)
                .or_else(|| ty.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)))
                .ok_or_else(|| missing(&ty.struct_name)),
            Meta::Closed(ty, _) => Err(missing(ty)),
            Meta::Other(kind) => Err(Error::Internal(format!(
                "merging an object in json but data type is not struct, instead is: {kind}"
            ))),
        }
    }

    /// The field called `name`, and what its elements are.
    pub(crate) fn list_field(self, name: &str) -> Result<(&'a Field, Meta<'a>), Error> {
        let field = self.field(name)?;
        let element = match &field.shape {
            Shape::List(inner) if matches!(**inner, Shape::List(_) | Shape::Bytes) => {
                return Err(Error::Internal("unexpected slice of slice".into()));
            }
            Shape::List(inner) => Meta::of_shape(inner, Pointer::No),
            Shape::Bytes => Meta::Other("uint8"),
            shape if field.optional => Meta::of_shape(shape, Pointer::No),
            _ => {
                let kind = self.kind();
                return Err(Error::Internal(format!("expected slice or array type, but got: {kind}")));
            }
        };
        Ok((field, element))
    }
}

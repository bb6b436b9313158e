//! The types of expressions.
//!
//! Parts of types are shared. A type that the checker accepts has at most [`MAX_PARTS`] parts, so that
//! whoever walks or shows one needs no bound of its own.

use std::fmt;
use std::sync::Arc;

/// The most parts of a type of a checked expression; `list(int)` has two.
pub const MAX_PARTS: usize = 1000;

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Any type; checked when the expression is evaluated.
    Dyn,
    /// `google.protobuf.Any`.
    Any,
    /// `null_type`.
    Null,
    /// `bool`.
    Bool,
    /// `int`.
    Int,
    /// `uint`.
    Uint,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// `bytes`.
    Bytes,
    /// `google.protobuf.Duration`.
    Duration,
    /// `google.protobuf.Timestamp`.
    Timestamp,
    /// A scalar or null: `wrapper(int)`.
    Wrapper(Arc<Type>),
    /// `list(element)`.
    List(Arc<Type>),
    /// `map(key, value)`.
    Map(Arc<(Type, Type)>),
    /// An object with fields, by its name ([`crate::TypeProvider`]).
    Struct(Arc<str>),
    /// A type without fields, by its name and parameters.
    Opaque(Arc<Opaque>),
    /// `type(of)`: the type of a value that is a type itself.
    Type(Option<Arc<Type>>),
    /// A parameter of a function's signature, by its name.
    Param(Arc<str>),
    /// A type that the checker has not found yet; in a checked expression there is none.
    Var(u32),
    /// What a fault was found in.
    Error,
}

/// A type without fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Opaque {
    /// Its name.
    pub name: Arc<str>,
    /// Its parameters.
    pub params: Vec<Type>,
}

/// The name of optional types.
pub const OPTIONAL: &str = "optional_type";

impl Type {
    /// `list(element)`.
    pub fn list(element: Type) -> Self {
        Self::List(Arc::new(element))
    }

    /// `map(key, value)`.
    pub fn map(key: Type, value: Type) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    /// `optional_type(of)`.
    pub fn optional(of: Type) -> Self {
        Self::opaque(OPTIONAL, vec![of])
    }

    /// An opaque type.
    pub fn opaque(name: &str, params: Vec<Type>) -> Self {
        Self::Opaque(Arc::new(Opaque { name: name.into(), params }))
    }

    /// An object type; the well-known messages have types of their own.
    pub fn object(name: &str) -> Self {
        let wrapper = |of: Type| Self::Wrapper(Arc::new(of));
        match name.strip_prefix("google.protobuf.") {
            Some("Any") => Self::Any,
            Some("Duration") => Self::Duration,
            Some("Timestamp") => Self::Timestamp,
            Some("NullValue") => Self::Null,
            Some("Value") => Self::Dyn,
            Some("ListValue") => Self::list(Self::Dyn),
            Some("Struct") => Self::map(Self::String, Self::Dyn),
            Some("BoolValue") => wrapper(Self::Bool),
            Some("BytesValue") => wrapper(Self::Bytes),
            Some("DoubleValue" | "FloatValue") => wrapper(Self::Double),
            Some("Int32Value" | "Int64Value") => wrapper(Self::Int),
            Some("UInt32Value" | "UInt64Value") => wrapper(Self::Uint),
            Some("StringValue") => wrapper(Self::String),
            _ => Self::Struct(name.into()),
        }
    }

    /// A parameter of a signature.
    pub fn param(name: &str) -> Self {
        Self::Param(name.into())
    }

    /// What an optional type may have, if this is one.
    pub fn as_optional(&self) -> Option<&Type> {
        match self {
            Self::Opaque(opaque) if &*opaque.name == OPTIONAL => opaque.params.first(),
            _ => None,
        }
    }

    /// The name of the type at run time: `int`, `list`, `google.protobuf.Duration`.
    pub fn name(&self) -> &str {
        match self {
            Self::Dyn => "dyn",
            Self::Any => "google.protobuf.Any",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Wrapper(of) => of.name(),
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Struct(name) | Self::Param(name) => name,
            Self::Opaque(opaque) => &opaque.name,
            Self::Type(_) => "type",
            Self::Var(_) => "_var",
            Self::Error => "error",
        }
    }

    /// Whether a value of this type can be of any type: `dyn`, or `google.protobuf.Any`.
    pub fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any)
    }

    /// The type itself, or what a wrapper is of.
    pub(crate) fn unwrapped(&self) -> &Type {
        match self {
            Self::Wrapper(of) => of,
            other => other,
        }
    }

    /// The first parameter: what elements, keys or values of it are.
    pub(crate) fn first_param(&self) -> Option<&Type> {
        match self {
            Self::List(element) => Some(element),
            Self::Map(entry) => Some(&entry.0),
            Self::Type(of) => of.as_deref(),
            Self::Opaque(opaque) => opaque.params.first(),
            _ => None,
        }
    }

    /// Whether the types are the same but for the names of their parameters: cel-go's `IsEquivalentType`. A
    /// scalar and its wrapper are the same.
    pub(crate) fn is_equivalent(&self, other: &Type) -> bool {
        match (self.unwrapped(), other.unwrapped()) {
            (Self::List(a), Self::List(b)) => a.is_equivalent(b),
            (Self::Map(a), Self::Map(b)) => a.0.is_equivalent(&b.0) && a.1.is_equivalent(&b.1),
            (Self::Type(Some(a)), Self::Type(Some(b))) => a.is_equivalent(b),
            (Self::Opaque(a), Self::Opaque(b)) => {
                a.name == b.name
                    && a.params.len() == b.params.len()
                    && a.params.iter().zip(&b.params).all(|(a, b)| a.is_equivalent(b))
            }
            (Self::Param(_) | Self::Var(_), Self::Param(_) | Self::Var(_)) => true,
            (a, b) => a == b,
        }
    }
}

/// The type as errors of the checker show it: `list(map(string, duration))`.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, |ty| match ty {
            Self::Null => "null",
            Self::Any => "any",
            Self::Duration => "duration",
            Self::Timestamp => "timestamp",
            Self::Error => "!error!",
            other => other.name(),
        })
    }
}

/// A type as cel-go's `Type.String` shows it, which has the names of run time:
/// `list(map(string, google.protobuf.Duration))`.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeNames<'t>(pub &'t Type);

impl fmt::Display for RuntimeNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, Type::name)
    }
}

impl Type {
    /// Writes the type, with these names of types that have no parameters.
    fn write(&self, f: &mut fmt::Formatter<'_>, name: fn(&Type) -> &str) -> fmt::Result {
        let (outer, params) = match self {
            Self::Var(number) => return write!(f, "_var{number}"),
            Self::List(element) => ("list", std::slice::from_ref(&**element)),
            Self::Map(entry) => {
                f.write_str("map(")?;
                entry.0.write(f, name)?;
                f.write_str(", ")?;
                entry.1.write(f, name)?;
                return f.write_str(")");
            }
            Self::Wrapper(of) => ("wrapper", std::slice::from_ref(&**of)),
            Self::Type(Some(of)) => ("type", std::slice::from_ref(&**of)),
            Self::Opaque(opaque) if !opaque.params.is_empty() => (&*opaque.name, &*opaque.params),
            other => return f.write_str(name(other)),
        };
        f.write_str(outer)?;
        for (place, param) in params.iter().enumerate() {
            f.write_str(if place == 0 { "(" } else { ", " })?;
            param.write(f, name)?;
        }
        f.write_str(")")
    }
}

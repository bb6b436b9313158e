//! Values as errors show them, their types, and Go's names of what they are made of.

use super::{List, Map, Value};
use crate::mutation::JSON_PATCH;
use crate::{Failure, Type};
use object::duration::Duration;
use object::float;
use object::shape::{Form, ListForm, Shape};
use std::fmt::{self, Write as _};

/// How deep values are shown.
const DEEPEST: usize = 32;
/// Go's name of an operation of a JSON patch.
const JSON_PATCH_IN_GO: &str = "*mutation.JSONPatchVal";

impl Value<'_> {
    /// The type of the value as expressions see it: `type(value)`.
    pub fn type_of(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Duration(_) => Type::Duration,
            Self::Timestamp(_) => Type::Timestamp,
            Self::Type(_) => Type::Type(None),
            Self::List(_) => Type::list(Type::Dyn),
            Self::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Self::Struct(made) => Type::Struct(made.name.clone()),
            Self::Fields(fields) => fields.type_of(),
            Self::Optional(_) => Type::optional(Type::Dyn),
            Self::Opaque(opaque) => opaque.type_of(),
            Self::Preserved(_) => Type::opaque("unknown", Vec::new()),
        }
    }

    /// Whether a function can be called with the value whose parameter has this type. Of a list and of a map
    /// the first member counts.
    pub fn fits(&self, ty: &Type) -> bool {
        match (ty, self) {
            (Type::Dyn | Type::Any | Type::Param(_), _)
            | (Type::Null | Type::Wrapper(_), Self::Null)
            | (Type::Bool, Self::Bool(_))
            | (Type::Int, Self::Int(_))
            | (Type::Uint, Self::Uint(_))
            | (Type::Double, Self::Double(_))
            | (Type::String, Self::String(_))
            | (Type::Bytes, Self::Bytes(_))
            | (Type::Duration, Self::Duration(_))
            | (Type::Timestamp, Self::Timestamp(_))
            | (Type::Type(_), Self::Type(_)) => true,
            (Type::Wrapper(of), value) => value.fits(of),
            (Type::List(element), Self::List(list)) => match list.get(0) {
                None => true,
                Some(Ok(first)) => first.fits(element),
                Some(Err(_)) => matches!(**element, Type::Dyn | Type::Param(_)),
            },
            (Type::Map(entry), Self::Map(map)) => {
                matches!(**entry, (Type::Dyn | Type::Param(_), Type::Dyn | Type::Param(_)))
                    || map.first().is_none_or(|(key, value)| {
                        key.fits(&entry.0) && value.is_ok_and(|value| value.fits(&entry.1))
                    })
            }
            (Type::Opaque(opaque), Self::Optional(_)) => &*opaque.name == crate::types::OPTIONAL,
            (Type::Opaque(_) | Type::Struct(_), Self::Opaque(_) | Self::Struct(_) | Self::Fields(_)) => {
                self.type_of().name() == ty.name()
            }
            _ => false,
        }
    }

    /// Go's name of the value in cel-go, its `%T`.
    pub(crate) fn go_name(&self) -> &'static str {
        match self {
            Self::Null => "types.Null",
            Self::Bool(_) => "types.Bool",
            Self::Int(_) => "types.Int",
            Self::Uint(_) => "types.Uint",
            Self::Double(_) => "types.Double",
            Self::String(_) => "types.String",
            Self::Bytes(_) => "types.Bytes",
            Self::Duration(_) => "types.Duration",
            Self::Timestamp(_) => "types.Timestamp",
            Self::Type(_) => "*types.Type",
            Self::List(List::Concat(_)) => "*types.concatList",
            Self::List(list) => match list.shape().map(Shape::form) {
                None => "*types.baseList",
                Some(Form::List(ListForm::Set)) => "*common.unstructuredSetList",
                Some(Form::List(ListForm::Map(_))) => "*common.unstructuredMapList",
                Some(_) => "*common.unstructuredList",
            },
            Self::Map(Map::Tree(_, Some(_))) => "*common.unstructuredMap",
            Self::Map(_) => "*types.baseMap",
            Self::Struct(made) if *made.name == *JSON_PATCH => JSON_PATCH_IN_GO,
            Self::Struct(_) => "*dynamic.ObjectVal",
            Self::Fields(_) => "*lazy.MapValue",
            Self::Optional(_) => "*types.Optional",
            Self::Opaque(_) => "ref.Val",
            Self::Preserved(_) => "*common.unknownPreserved",
        }
    }

    /// Go's name of what the value is made of.
    pub(crate) fn native_name(&self) -> &'static str {
        match self {
            Self::Null => "structpb.NullValue",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int64",
            Self::Uint(_) => "uint64",
            Self::Double(_) => "float64",
            Self::String(_) | Self::Type(_) => "string",
            Self::Bytes(_) => "[]uint8",
            Self::Duration(_) => "time.Duration",
            Self::Timestamp(_) => "time.Time",
            Self::List(List::Elements(_)) => "[]ref.Val",
            Self::List(List::Texts(_)) => "[]string",
            Self::List(_) => "[]interface {}",
            Self::Map(Map::Entries(_)) => "map[ref.Val]ref.Val",
            Self::Struct(made) if *made.name == *JSON_PATCH => JSON_PATCH_IN_GO,
            Self::Map(_) | Self::Struct(_) => "map[string]interface {}",
            Self::Optional(Some(value)) => value.native_name(),
            Self::Opaque(opaque) => opaque.native().map_or("*types.Err", |native| native.type_name),
            Self::Fields(_) => "*types.Err",
            Self::Optional(None) | Self::Preserved(_) => "<nil>",
        }
    }

    /// What remains of the value when cel-go goes through the data that it is made of: trees lose their
    /// schema.
    pub(crate) fn without_shape(self) -> Self {
        match self {
            Self::List(List::Tree(items, _)) => Self::List(List::Tree(items, None)),
            Self::Map(Map::Tree(map, _)) => Self::Map(Map::Tree(map, None)),
            Self::List(list @ List::Merged(_)) => Self::List(list.without_shape()),
            Self::Preserved(tree) => Value::plain(tree),
            Self::Type(ty) => Value::from(ty.name().to_owned()),
            Self::Optional(None) => Value::Null,
            Self::Optional(Some(value)) => (*value).clone().without_shape(),
            value => value,
        }
    }
}

impl<'a> Map<'a> {
    /// The first entry.
    fn first(&self) -> Option<(Value<'a>, crate::Outcome<'a>)> {
        match self {
            Self::Entries(entries) => {
                entries.as_slice().first().map(|(key, value)| (key.clone(), Ok(value.clone())))
            }
            Self::Tree(map, None) => {
                map.iter().next().map(|(key, tree)| (Value::from(key.as_str()), Ok(Value::plain(tree))))
            }
            Self::Tree(..) => {
                let key = self.keys().into_iter().next()?;
                let value = self.get(&key).unwrap_or_else(|| Err(Failure::error("no such key")));
                Some((key, value))
            }
        }
    }
}

/// As Go's `%v` shows the value.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self, f, 0)
    }
}

fn show(value: &Value<'_>, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
    if depth > DEEPEST {
        return f.write_str("...");
    }
    match value {
        Value::Null => f.write_str("0"),
        Value::Bool(flag) => write!(f, "{flag}"),
        Value::Int(number) => write!(f, "{number}"),
        Value::Uint(number) => write!(f, "{number}"),
        Value::Double(number) => f.write_str(&double(*number)),
        Value::String(text) => f.write_str(text.as_str()),
        Value::Bytes(bytes) => {
            f.write_char('[')?;
            for (place, byte) in bytes.as_slice().iter().enumerate() {
                write!(f, "{}{byte}", if place == 0 { "" } else { " " })?;
            }
            f.write_char(']')
        }
        Value::Duration(nanos) => write!(f, "{}", Duration::from_nanos(*nanos)),
        Value::Timestamp(time) => {
            let text = time.to_string();
            let (date, clock) = text.split_once('T').unwrap_or((&text, ""));
            let clock = clock.split(['Z', '+', '-']).next().unwrap_or_default();
            let sign = if time.offset < 0 { '-' } else { '+' };
            let minutes = time.offset.unsigned_abs();
            let zone = format!("{sign}{:02}{:02}", minutes / 60, minutes % 60);
            write!(f, "{date} {clock} {zone} {}", if time.offset == 0 { "UTC" } else { &zone })
        }
        Value::Type(ty) => f.write_str(ty.name()),
        Value::List(list) => {
            f.write_char('[')?;
            for (place, element) in list.iter().enumerate() {
                f.write_str(if place == 0 { "" } else { ", " })?;
                shown(&element, f, depth)?;
            }
            f.write_char(']')
        }
        Value::Map(map) => {
            f.write_char('{')?;
            for (place, (key, value)) in map.iter().enumerate() {
                f.write_str(if place == 0 { "" } else { ", " })?;
                show(&key, f, depth + 1)?;
                f.write_str(": ")?;
                shown(&value, f, depth)?;
            }
            f.write_char('}')
        }
        Value::Optional(None) => f.write_str("optional.none()"),
        Value::Optional(Some(value)) => {
            f.write_str("optional(")?;
            show(value, f, depth + 1)?;
            f.write_char(')')
        }
        Value::Struct(made) => f.write_str(&made.name),
        Value::Opaque(opaque) => match opaque.native() {
            Some(native) => f.write_str(&native.text),
            None => f.write_str(opaque.type_of().name()),
        },
        Value::Fields(_) | Value::Preserved(_) => f.write_str(value.type_of().name()),
    }
}

fn shown(value: &crate::Outcome<'_>, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
    match value {
        Ok(value) => show(value, f, depth + 1),
        Err(failure) => write!(f, "{failure}"),
    }
}

/// A number as Go's `%g` shows it.
pub(crate) fn double(number: f64) -> String {
    if number.is_nan() {
        "NaN".into()
    } else if number.is_infinite() {
        if number > 0.0 { "+Inf".into() } else { "-Inf".into() }
    } else {
        float::short(number)
    }
}

//! Field errors: the errors that validation collects, with the messages that clients see.
//!
//! A rule walks an object with a [`Path`], a list of borrowed segments on the stack that costs nothing until
//! an [`Error`] is made of it. Errors are collected in a [`List`] and become one [`Aggregate`], or the causes
//! of a status: [`ErrorType::reason`], [`Error::body`] and [`Error::path`]. Both an error and a list are
//! bounded, whatever the client sent.

mod list;
mod path;
mod value;

pub use list::{Aggregate, List, MOST_ERRORS, MOST_TEXT, more};
pub use path::Path;
pub use value::BadValue;

use crate::excerpt::{MOST_BYTES, excerpt, shorten};
use crate::quote;
use std::borrow::Cow;
use std::fmt;

/// How a field is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorType {
    /// A value that the field refers to does not exist.
    NotFound,
    /// A value is missing.
    Required,
    /// A value that must be unique occurs twice.
    Duplicate,
    /// A value is malformed or out of bounds.
    Invalid,
    /// A value is not one of the values of an enumeration.
    NotSupported,
    /// A well-formed value that may not be given here.
    Forbidden,
    /// A text is too long; the value is not repeated in the message.
    TooLong,
    /// A list or map has too many items.
    TooMany,
    /// The server failed to check the value.
    InternalError,
    /// A value is of another type than the schema says.
    TypeInvalid,
}

impl ErrorType {
    /// The machine-readable name, as in the causes of a status.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::InternalError => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong | Self::InternalError)
    }
}

impl fmt::Display for ErrorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::InternalError => "Internal error",
        })
    }
}

/// One wrong field.
///
/// ```
/// use object::field::{Error, Path};
/// let spec = Path::new("spec");
/// let error = Error::invalid(&spec.child("containers").index(0), "A", "must be lower case");
/// assert_eq!(error.to_string(), r#"spec.containers[0]: Invalid value: "A": must be lower case"#);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// The type of the error.
    pub kind: ErrorType,
    /// Which field, as text.
    pub path: String,
    /// The value of the field.
    pub value: BadValue,
    /// The detail of the message; may be empty.
    pub detail: Cow<'static, str>,
}

impl Error {
    /// A missing value.
    pub fn required(path: &Path<'_>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorType::Required, path, BadValue::Omitted, detail)
    }

    /// A malformed value.
    pub fn invalid(
        path: &Path<'_>,
        value: impl Into<BadValue>,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::new(ErrorType::Invalid, path, value.into(), detail)
    }

    /// A value of the wrong type.
    pub fn type_invalid(
        path: &Path<'_>,
        value: impl Into<BadValue>,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::new(ErrorType::TypeInvalid, path, value.into(), detail)
    }

    /// A value outside the given ones, which the message lists in their order.
    ///
    /// ```
    /// use object::field::{Error, Path};
    /// let error = Error::not_supported(&Path::new("protocol"), "udp", ["TCP", "UDP"]);
    /// assert_eq!(error.body(), r#"Unsupported value: "udp": supported values: "TCP", "UDP""#);
    /// ```
    pub fn not_supported<'v>(
        path: &Path<'_>,
        value: impl Into<BadValue>,
        supported: impl IntoIterator<Item = &'v str>,
    ) -> Self {
        let supported = quote::quote_each(supported);
        let detail = if supported.is_empty() { supported } else { format!("supported values: {supported}") };
        Self::new(ErrorType::NotSupported, path, value.into(), detail)
    }

    /// A value that must be unique and is not.
    pub fn duplicate(path: &Path<'_>, value: impl Into<BadValue>) -> Self {
        Self::new(ErrorType::Duplicate, path, value.into(), "")
    }

    /// A value that may not be given.
    pub fn forbidden(path: &Path<'_>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorType::Forbidden, path, BadValue::Omitted, detail)
    }

    /// A text longer than so many bytes, if the limit can be named.
    pub fn too_long(path: &Path<'_>, most: Option<usize>) -> Self {
        let detail = match most {
            Some(most) => Cow::Owned(format!("may not be more than {most} bytes")),
            None => Cow::Borrowed("value is too long"),
        };
        Self::new(ErrorType::TooLong, path, BadValue::Omitted, detail)
    }

    /// A collection of more items than allowed, where the numbers can be named.
    pub fn too_many(path: &Path<'_>, actual: Option<usize>, most: Option<usize>) -> Self {
        let detail = match most {
            Some(most) => Cow::Owned(format!("must have at most {most} items")),
            None => Cow::Borrowed("has too many items"),
        };
        Self::new(ErrorType::TooMany, path, actual.map_or(BadValue::Omitted, BadValue::from), detail)
    }

    /// A reference to something that does not exist.
    pub fn not_found(path: &Path<'_>, value: impl Into<BadValue>) -> Self {
        Self::new(ErrorType::NotFound, path, value.into(), "")
    }

    /// A failure of the server while it checked a value.
    pub fn internal(path: &Path<'_>, cause: impl fmt::Display) -> Self {
        Self::new(ErrorType::InternalError, path, BadValue::Null, cause.to_string())
    }

    /// An error repeats no more than the beginning of a long path, value or reason.
    fn new(kind: ErrorType, path: &Path<'_>, value: BadValue, detail: impl Into<Cow<'static, str>>) -> Self {
        let detail = match detail.into() {
            Cow::Owned(long) if long.len() > MOST_BYTES => Cow::Owned(shorten(long)),
            detail => detail,
        };
        Self { kind, path: excerpt(path), value: value.shortened(), detail }
    }

    /// About how many bytes the text of the error has.
    fn text_len(&self) -> usize {
        self.path.len() + self.value.text_len() + self.detail.len()
    }

    /// The message without the path.
    pub fn body(&self) -> String {
        Body(self).to_string()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, Body(self))
    }
}

impl std::error::Error for Error {}

struct Body<'a>(&'a Error);

impl fmt::Display for Body<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Error { kind, value, detail, .. } = self.0;
        write!(f, "{kind}")?;
        if kind.shows_value() && *value != BadValue::Omitted {
            write!(f, ": {value}")?;
        }
        if !detail.is_empty() {
            write!(f, ": {detail}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: Path<'static> = Path::new("f");

    #[test]
    fn each_error_type_has_its_message() {
        let cases = [
            (Error::not_found(&PATH, "x"), "FieldValueNotFound", r#"f: Not found: "x""#),
            (Error::required(&PATH, ""), "FieldValueRequired", "f: Required value"),
            (Error::required(&PATH, "why"), "FieldValueRequired", "f: Required value: why"),
            (Error::duplicate(&PATH, 7_i64), "FieldValueDuplicate", "f: Duplicate value: 7"),
            (Error::invalid(&PATH, true, "why"), "FieldValueInvalid", "f: Invalid value: true: why"),
            (Error::type_invalid(&PATH, 1.5, "why"), "FieldValueTypeInvalid", "f: Invalid value: 1.5: why"),
            (
                Error::not_supported(&PATH, "x", ["a", "b\""]),
                "FieldValueNotSupported",
                r#"f: Unsupported value: "x": supported values: "a", "b\"""#,
            ),
            (Error::not_supported(&PATH, "x", []), "FieldValueNotSupported", r#"f: Unsupported value: "x""#),
            (Error::forbidden(&PATH, "why"), "FieldValueForbidden", "f: Forbidden: why"),
            (
                Error::too_long(&PATH, Some(3)),
                "FieldValueTooLong",
                "f: Too long: may not be more than 3 bytes",
            ),
            (Error::too_long(&PATH, None), "FieldValueTooLong", "f: Too long: value is too long"),
            (
                Error::too_many(&PATH, Some(9), Some(3)),
                "FieldValueTooMany",
                "f: Too many: 9: must have at most 3 items",
            ),
            (
                Error::too_many(&PATH, None, Some(3)),
                "FieldValueTooMany",
                "f: Too many: must have at most 3 items",
            ),
            (Error::too_many(&PATH, None, None), "FieldValueTooMany", "f: Too many: has too many items"),
            (Error::internal(&PATH, "broken"), "InternalError", "f: Internal error: broken"),
        ];
        for (error, reason, text) in cases {
            assert_eq!(error.kind.reason(), reason);
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn omitted_value_is_not_in_the_message() {
        assert_eq!(Error::invalid(&PATH, BadValue::Omitted, "why").body(), "Invalid value: why");
        assert_eq!(Error::invalid(&PATH, BadValue::Null, "why").body(), "Invalid value: \"null\": why");
    }
}

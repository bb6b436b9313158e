//! The faults of an object while it is checked, and where they are.

use super::same;
use crate::structural::Constant;
use crate::validate::{go_value, json_text};
use object::Value;
use object::excerpt::excerpt;
use object::field::{self, BadValue, Path};
use object::quote::Quoted;
use std::collections::HashSet;
use std::fmt;

/// Where a value is. Its text is the name that messages have: it begins with a dot for a key of the object
/// that is no field of the schema.
#[derive(Clone, Copy)]
pub(super) enum Place<'p> {
    Root,
    /// A field that the schema names.
    Property(&'p Place<'p>, &'p str),
    /// Any other key, or one that is missing.
    Key(&'p Place<'p>, &'p str),
    Index(&'p Place<'p>, usize),
}

impl Place<'_> {
    /// Whether its name is empty.
    pub(super) fn is_root(&self) -> bool {
        match self {
            Self::Root => true,
            Self::Property(parent, name) => name.is_empty() && parent.is_root(),
            Self::Key(..) | Self::Index(..) => false,
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Property(parent, name) if parent.is_root() => f.write_str(name),
            Self::Property(parent, name) | Self::Key(parent, name) => write!(f, "{parent}.{name}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// One fault.
pub(super) struct Fault {
    kind: FaultKind,
    /// The name of the place; none for a combination of schemas, which names its place in the message.
    name: Option<String>,
    /// The message; faults with equal messages are reported once.
    message: String,
}

enum FaultKind {
    Invalid(BadValue),
    TypeInvalid(BadValue),
    Required,
    NotSupported(BadValue, Vec<String>),
    TooLong(i64),
    TooMany(i64, i64),
}

impl Fault {
    fn new(at: &Place<'_>, kind: FaultKind, message: impl FnOnce(&str) -> String) -> Self {
        let name = excerpt(at);
        Self { kind, message: message(&name), name: Some(name) }
    }

    pub(super) fn invalid(at: &Place<'_>, value: BadValue, message: impl FnOnce(&str) -> String) -> Self {
        Self::new(at, FaultKind::Invalid(value), message)
    }

    /// A value of another type, or with another format.
    pub(super) fn wrong_type(at: &Place<'_>, expected: &str, found: &str) -> Self {
        let shown = object::excerpt::shorten(found);
        Self::new(at, FaultKind::TypeInvalid(BadValue::from(found)), |name| {
            format!("{name} in body must be of type {expected}: {}", Quoted(&shown))
        })
    }

    pub(super) fn required(at: &Place<'_>) -> Self {
        Self::new(at, FaultKind::Required, |name| format!("{name} in body is required"))
    }

    pub(super) fn too_long(at: &Place<'_>, most: i64) -> Self {
        Self::new(at, FaultKind::TooLong(most), |name| {
            format!("{name} in body should be at most {most} chars long")
        })
    }

    pub(super) fn too_many(at: &Place<'_>, size: i64, most: i64, what: &str) -> Self {
        Self::new(at, FaultKind::TooMany(size, most), |name| {
            format!("{name} in body should have at most {most} {what}")
        })
    }

    /// A value that is not one of those that are listed.
    pub(super) fn not_listed(at: &Place<'_>, value: &Value, listed: &[Constant]) -> Self {
        let texts = listed.iter().map(|listed| match listed.value() {
            Value::String(text) => text.as_str().to_owned(),
            other => json_text(other),
        });
        let kind = FaultKind::NotSupported(go_value(value), texts.collect());
        Self::new(at, kind, |name| {
            let shown: Vec<_> = listed.iter().map(|listed| same::go_text(listed.value())).collect();
            format!("{name} in body should be one of [{}]", shown.join(" "))
        })
    }

    /// A combination of schemas that does not hold.
    pub(super) fn combination(at: &Place<'_>, why: &str) -> Self {
        let message = format!("{} {why}", Quoted(&excerpt(at)));
        Self { kind: FaultKind::Invalid(BadValue::from("")), name: None, message }
    }

    fn bytes(&self) -> usize {
        let value = match &self.kind {
            FaultKind::Invalid(BadValue::String(text)) | FaultKind::TypeInvalid(BadValue::String(text)) => {
                text.len()
            }
            FaultKind::NotSupported(_, texts) => texts.iter().map(String::len).sum(),
            _ => 0,
        };
        self.message.len() + value
    }

    fn into_error(self, prefix: &Path<'_>) -> field::Error {
        let name = self.name.as_deref().unwrap_or_default();
        let name = if name == "." { "" } else { name };
        let stripped = name.strip_prefix('.').unwrap_or(name);
        let path = if name.is_empty() { *prefix } else { prefix.child(stripped) };
        let known = |number: i64| usize::try_from(number).ok();
        match self.kind {
            FaultKind::Invalid(value) => field::Error::invalid(&path, value, self.message),
            FaultKind::TypeInvalid(value) => field::Error::type_invalid(&path, value, self.message),
            FaultKind::Required => field::Error::required(&path, ""),
            FaultKind::NotSupported(value, texts) => {
                field::Error::not_supported(&path, value, texts.iter().map(String::as_str))
            }
            FaultKind::TooLong(most) => field::Error::too_long(&path, known(most)),
            FaultKind::TooMany(size, most) => field::Error::too_many(&path, known(size), known(most)),
        }
    }
}

/// Faults in the order they were found. Past the bounds of a list of errors they are only counted.
#[derive(Default)]
pub(super) struct Faults {
    kept: Vec<Fault>,
    bytes: usize,
    left_out: usize,
}

/// How far a list of faults was.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    kept: usize,
    bytes: usize,
    left_out: usize,
}

impl Faults {
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.left_out == 0
    }

    /// How much text they have.
    pub(super) fn size(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, make: impl FnOnce() -> Fault) {
        if self.left_out > 0 || self.kept.len() >= field::MOST_ERRORS || self.bytes >= field::MOST_TEXT {
            self.left_out += 1;
            return;
        }
        let fault = make();
        self.bytes += fault.bytes();
        self.kept.push(fault);
    }

    pub(super) fn append(&mut self, other: Self) {
        let left_out = other.left_out;
        other.kept.into_iter().for_each(|fault| self.push(|| fault));
        self.left_out += left_out;
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { kept: self.kept.len(), bytes: self.bytes, left_out: self.left_out }
    }

    /// Drops the faults that were found since.
    pub(super) fn truncate(&mut self, mark: Mark) {
        self.kept.truncate(mark.kept);
        (self.bytes, self.left_out) = (mark.bytes, mark.left_out);
    }

    /// The errors, each message once.
    pub(super) fn into_list(self, prefix: &Path<'_>) -> field::List {
        let mut known = HashSet::new();
        let mut errors = field::List::new();
        for fault in self.kept {
            if known.insert(fault.message.clone()) {
                errors.push(fault.into_error(prefix));
            }
        }
        errors.leave_out(self.left_out);
        errors
    }
}

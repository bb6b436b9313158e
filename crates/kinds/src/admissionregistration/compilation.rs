//! Expressions are compiled when they are written.
//!
//! A new expression may use what the release before this server knows too; a text that the object had before,
//! everything.

use expressions::admission::{Purpose, Scope};
use expressions::{Fault, Stage};
use object::field::{Error, Path};
use std::collections::HashSet;

/// The texts of expressions of the object that is replaced.
#[derive(Default)]
pub(super) struct Texts<'a>(HashSet<&'a str>);

impl<'a> FromIterator<&'a str> for Texts<'a> {
    fn from_iter<I: IntoIterator<Item = &'a str>>(texts: I) -> Self {
        Self(texts.into_iter().collect())
    }
}

impl Texts<'_> {
    /// What an expression of this text may use.
    pub(super) fn stage(&self, text: &str) -> Stage {
        if self.0.contains(text) { Stage::Stored } else { Stage::New }
    }
}

/// The error of an expression that does not compile.
pub(super) fn check(
    scope: &Scope,
    text: &str,
    purpose: Purpose,
    stage: Stage,
    path: &Path<'_>,
) -> Option<Error> {
    let fault = scope.compile(text, purpose, stage).err()?;
    Some(error(&fault, text, path))
}

/// The error for a fault of the expression that a field has.
pub(super) fn error(fault: &Fault, text: &str, path: &Path<'_>) -> Error {
    match fault {
        Fault::Invalid(detail) => Error::invalid(path, text, detail.clone()),
        Fault::Internal(detail) => Error::internal(path, detail),
    }
}

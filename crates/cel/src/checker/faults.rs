//! The texts of faults, which are cel-go's.

use crate::Type;
use std::fmt::Write;

pub(super) fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}

pub(super) fn not_selectable(ty: &Type) -> String {
    format!("type '{ty}' does not support field selection")
}

pub(super) fn unresolved(name: &str) -> String {
    format!("unexpected failed resolution of '{name}'")
}

pub(super) fn undefined_field(name: &str) -> String {
    format!("undefined field '{name}'")
}

pub(super) fn mismatch(wanted: &Type, ty: &Type) -> String {
    format!("expected type '{wanted}' but found '{ty}'")
}

pub(super) fn field_mismatch(name: &str, wanted: &Type, ty: &Type) -> String {
    format!("expected type of field '{name}' is '{wanted}' but provided type is '{ty}'")
}

pub(super) fn not_a_type(ty: &Type) -> String {
    format!("'{}' is not a type", declared(ty))
}

pub(super) fn not_a_message(ty: &Type) -> String {
    format!("'{}' is not a message type", declared(ty))
}

pub(super) fn not_a_range(ty: &Type) -> String {
    format!("expression of type '{ty}' cannot be range of a comprehension (must be list, map, or dynamic)")
}

/// No overload of a function takes these arguments; of a member function the first one is what it is called
/// on.
pub(super) fn no_overload(name: &str, args: &[Type], member: bool) -> String {
    let mut text = format!("found no matching overload for '{name}' applied to '");
    let (target, args) = match args {
        [target, args @ ..] if member => (Some(target), args),
        args => (None, args),
    };
    if let Some(target) = target {
        let _ = write!(text, "{target}.");
    }
    text.push('(');
    for (place, arg) in args.iter().enumerate() {
        let _ = write!(text, "{}{arg}", if place == 0 { "" } else { ", " });
    }
    text.push_str(")'");
    text
}

/// The name of a type as cel-go declares it, without parameters.
fn declared(ty: &Type) -> String {
    match ty {
        Type::Wrapper(of) => format!("wrapper({})", of.name()),
        other => other.name().to_owned(),
    }
}

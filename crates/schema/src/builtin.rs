//! The built-in types, by name and by kind.

use crate::lookup::Lookup;
#[allow(unused_imports, reason = "the type files decide which rules are named")]
use crate::model::{
    Alternative, Field, FieldOptions, Format, GroupVersionKind, Member, MessageField, Patch, Raw, Ref, Rule,
    Shape, Topology, Type, Union,
};
use object::{Key, Text, Value};

const fn text(text: &'static str) -> Text {
    Text::known(text)
}

#[allow(
    non_upper_case_globals,
    reason = "a static is called as its type is, so that no two names fall together"
)]
pub(crate) mod table {
    use super::*;
    include!(concat!(env!("OUT_DIR"), "/types.rs"));
}

/// All built-in types, by name.
pub fn types() -> &'static [&'static Type] {
    table::ALL
}

/// The built-in types with a group, version and kind, in that order.
pub fn kinds() -> &'static [&'static Type] {
    table::KINDS
}

/// The type called `name`: `core.v1.Container`.
pub fn by_name(name: &str) -> Option<&'static Type> {
    let at = table::ALL.binary_search_by(|ty| ty.name.as_str().cmp(name)).ok()?;
    table::ALL.get(at).copied()
}

/// The type with this group, version and kind.
pub fn by_kind(group: &str, version: &str, kind: &str) -> Option<&'static Type> {
    let wanted = (group, version, kind);
    let at = table::KINDS
        .binary_search_by(|ty| {
            let kind = ty.kind.as_ref();
            kind.map_or(("", "", ""), |k| (k.group.as_str(), k.version.as_str(), k.kind.as_str()))
                .cmp(&wanted)
        })
        .ok()?;
    table::KINDS.get(at).copied()
}

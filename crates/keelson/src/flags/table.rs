//! All flags, one row each, in the files of this module; here is what their rows share.

mod access;
mod api;
mod observation;
mod serving;

use super::{Effect, Flag, Group, ValueType, value};
use crate::options::{ServerOptions, Show};

/// All flags.
pub(super) fn flags() -> impl Iterator<Item = &'static Flag> + Clone {
    [serving::FLAGS, api::FLAGS, access::FLAGS, observation::FLAGS].into_iter().flatten()
}

/// A flag of the reference that has no effect yet.
const fn later(name: &'static str, group: Group, kind: ValueType, default: &'static str) -> Flag {
    Flag { name, group, kind, default, help: "", effect: Effect::Later }
}

/// Adds the values of a list that may be given several times.
fn add(list: &mut Vec<String>, value: &str) -> Result<(), String> {
    if !value.is_empty() {
        list.extend(value.split(',').map(str::to_owned));
    }
    Ok(())
}

/// Sets a path or a text; an empty value is none.
fn optional<T: for<'v> From<&'v str>>(slot: &mut Option<T>, value: &str) -> Result<(), String> {
    *slot = (!value.is_empty()).then(|| value.into());
    Ok(())
}

fn show(options: &mut ServerOptions, value: &str, what: Show) -> Result<(), String> {
    if value::switch(value)? {
        options.show = what;
    }
    Ok(())
}

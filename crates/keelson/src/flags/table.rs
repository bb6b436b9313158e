//! All flags, one row each, in the files of this module; here is what their rows share.

mod access;
mod api;
mod audit;
mod observation;
mod serving;

use super::{Effect, Flag, Group, ValueType, value};
use crate::options::ServerOptions;
use crate::options::Show;
use std::time::Duration;

/// All flags.
pub(super) fn flags() -> impl Iterator<Item = &'static Flag> + Clone {
    [serving::FLAGS, api::FLAGS, access::FLAGS, audit::FLAGS, observation::FLAGS].into_iter().flatten()
}

/// Why flags are ignored.
const ADDRESS_IS_SHARED: &str = "the socket always has SO_REUSEADDR, as in the reference.";
const UNBUFFERED: &str = "each line is written at once.";
const ONE_STREAM: &str = "all lines go to standard error.";
const NO_CONTENTION: &str =
    "there is no record of contended locks in Rust; the profiles block and mutex are empty.";
const OWN_WORKERS: &str = "64 objects of a collection are deleted at a time.";
const ASKED_ANYWAY: &str =
    "etcd is asked about once a second, within --etcd-healthcheck-timeout; /readyz has the last answer.";
const READY_WHEN_LOADED: &str = "the server is ready when all objects are loaded, and not before.";
const ALL_IN_MEMORY: &str = "all objects are always in memory.";

/// A flag of the reference that has nothing to change.
const fn ignored(
    name: &'static str,
    group: Group,
    kind: ValueType,
    default: &'static str,
    why: &'static str,
) -> Flag {
    Flag { name, group, kind, default, help: "", effect: Effect::Ignored(why) }
}

/// Notes that a text is given.
fn switch_on(slot: &mut bool, value: &str) -> Result<(), String> {
    *slot = !value.is_empty();
    Ok(())
}

/// Adds the values of a list that may be given several times.
fn add(list: &mut Vec<String>, value: &str) -> Result<(), String> {
    if !value.is_empty() {
        list.extend(value.split(',').map(str::to_owned));
    }
    Ok(())
}

/// Sets a value that may be absent.
fn some<T: for<'v> From<&'v str>>(slot: &mut Option<T>, value: &str) -> Result<(), String> {
    *slot = Some(value.into());
    Ok(())
}

fn push<T: for<'v> From<&'v str>>(list: &mut Vec<T>, value: &str) -> Result<(), String> {
    list.push(value.into());
    Ok(())
}

fn seconds(slot: &mut Duration, value: &str) -> Result<(), String> {
    *slot = Duration::from_secs(value.parse().map_err(|_| "not a number of seconds")?);
    Ok(())
}

fn text(slot: &mut String, value: &str) -> Result<(), String> {
    value.clone_into(slot);
    Ok(())
}

fn switch(slot: &mut bool, value: &str) -> Result<(), String> {
    value::switch(value).map(|is_on| *slot = is_on)
}

fn duration(slot: &mut Duration, value: &str) -> Result<(), String> {
    object::duration::not_negative(value).map(|duration| *slot = duration)
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

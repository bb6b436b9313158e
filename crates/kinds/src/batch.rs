//! The kinds of `batch`.

use crate::Kind;

mod cron_job;
mod indexes;
mod job;
mod job_spec;
mod job_status;
pub mod schedule;
pub(crate) mod time_zone;

#[cfg(test)]
mod tests;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[&cron_job::KIND, &job::KIND];

/// A decimal number with an optional sign; or what is wrong with it, in the words of the reference.
fn number(text: &str) -> Result<i64, &'static str> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("invalid syntax");
    }
    text.parse().map_err(|_| "value out of range")
}

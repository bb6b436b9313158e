//! The kinds of `batch`.

use crate::Kind;

mod cron_job;
mod job;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[&cron_job::KIND, &job::KIND];

//! Helpers of this crate's own tests.

#![allow(clippy::unwrap_used, reason = "test code")]

use crate::{Entry, Spec, entry::claimed, frame, record};
use std::sync::Arc;
use store::{Head, Key, Revision};

/// The entry that some JSON becomes when it is committed at a revision.
pub(crate) fn entry(spec: &Arc<Spec>, json: &str, revision: u64) -> Arc<Entry> {
    let scanned = record::scan(spec, json).unwrap();
    let key = claimed(spec, &scanned);
    let key = Key::try_from(format!("{}/{key}", spec.prefix())).unwrap();
    let framed = frame::encode(json, scanned.revision).unwrap();
    let head = Head { create_revision: Revision(1), mod_revision: Revision(revision) };
    Arc::new(Entry::read(spec, &key, &head, &framed).unwrap())
}

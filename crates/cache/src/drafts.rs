//! What writers know of the objects that they have given to the store, so that whoever applies their changes need not look for
//! it again: only one can apply changes at a time, and all others wait.
//!
//! 1. A draft is found by where its bytes lie, which its writer keeps, so that no others can lie there.
//! 2. It is there from before its change is committed until that is applied, or its writer has gone away.

use crate::{
    Spec, frame,
    record::{Record, Scanned},
};
use bytes::Bytes;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

#[derive(Default)]
pub(crate) struct Drafts {
    drafts: Mutex<HashMap<usize, Draft>>,
}

/// An object that is on its way through the store.
pub(crate) struct Draft {
    /// The type that it was taken for one of.
    pub(crate) spec: Arc<Spec>,
    /// Its stored form.
    pub(crate) stored: Bytes,
    /// The record of what was given to be stored.
    pub(crate) record: Record,
    /// Where in that the stored form begins to differ.
    pub(crate) from: usize,
    /// By how much what follows has moved in the stored text.
    pub(crate) moved: isize,
}

impl Draft {
    /// What was found in the JSON of an object; `None` if it is too large to be stored.
    pub(crate) fn new(spec: &Arc<Spec>, json: &str, scanned: Scanned<'_>) -> Option<Self> {
        let stored = frame::encode(json, scanned.revision)?;
        Some(Self {
            spec: spec.clone(),
            moved: frame::text_len(&stored) as isize - json.len() as isize,
            from: scanned.revision.start,
            record: scanned.record,
            stored,
        })
    }
}

/// A draft that is there. It is dropped with this.
pub(crate) struct Kept<'a> {
    drafts: &'a Drafts,
    stored: Bytes,
}

impl Drafts {
    pub(crate) fn keep(&self, draft: Draft) -> Kept<'_> {
        let stored = draft.stored.clone();
        self.lock().insert(place(&stored), draft);
        Kept { drafts: self, stored }
    }

    /// Takes the draft of an object out, if this is its stored form, where it was made.
    pub(crate) fn take(&self, stored: &Bytes) -> Option<Draft> {
        let draft = self.lock().remove(&place(stored))?;
        (draft.stored.len() == stored.len()).then_some(draft)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Draft>> {
        self.drafts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        drop(self.drafts.take(&self.stored));
    }
}

fn place(bytes: &Bytes) -> usize {
    bytes.as_ptr().addr()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    fn draft(stored: &Bytes) -> Draft {
        let spec = Arc::new(Spec::cluster("nodes").unwrap());
        Draft { spec, stored: stored.clone(), record: Record::default(), from: 0, moved: 0 }
    }

    #[test]
    fn a_draft_is_found_by_its_bytes_alone() {
        let drafts = Drafts::default();
        let (stored, same) = (Bytes::from(vec![1, 2, 3]), Bytes::from(vec![1, 2, 3]));
        let kept = drafts.keep(draft(&stored));
        assert!(drafts.take(&same).is_none());
        assert_eq!(drafts.take(&stored.clone()).unwrap().stored, stored);
        assert!(drafts.take(&stored).is_none());
        drop(kept);
    }

    #[test]
    fn a_part_of_its_bytes_is_not_the_object() {
        let drafts = Drafts::default();
        let stored = Bytes::from(vec![1, 2, 3]);
        let _kept = drafts.keep(draft(&stored));
        assert!(drafts.take(&stored.slice(..2)).is_none());
    }

    #[test]
    fn a_draft_goes_with_its_writer() {
        let drafts = Drafts::default();
        let stored = Bytes::from(vec![1, 2, 3]);
        drop(drafts.keep(draft(&stored)));
        assert!(drafts.take(&stored).is_none());
        assert!(stored.is_unique());
    }
}

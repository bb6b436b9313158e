//! What mutating plugins keep between the passes over one write: whom they have asked, and whom to ask again.

use object::{Text, Value};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The webhooks, or the policies, that were asked about a write.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<Invoked>);

#[derive(Debug, Default)]
pub(crate) struct Invoked {
    /// Those that are asked again if the object changes after them.
    pub(crate) candidates: BTreeSet<Text>,
    /// Those that are asked in the second pass.
    pub(crate) again: BTreeSet<Text>,
    /// The object after the last one.
    pub(crate) output: Option<Value>,
}

impl Memory {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Invoked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Invoked {
    /// The object has changed: what was asked before is asked again.
    pub(crate) fn changed(&mut self) {
        self.again.append(&mut self.candidates);
    }

    /// Begins the second pass with an object, which another plugin may have changed.
    pub(crate) fn begin_again(&mut self, object: Option<&Value>) {
        if self.output.as_ref() != object {
            self.changed();
        }
    }
}

//! The audit annotations of a request.

use std::sync::{Mutex, PoisonError};

/// The most annotations of a request.
pub const MOST_ANNOTATIONS: usize = 256;

/// The audit annotations of a request.
#[derive(Debug, Default)]
pub struct Annotations(Mutex<Vec<(Box<str>, Box<str>)>>);

impl Annotations {
    /// Adds one. What is there under its key already stays.
    pub(crate) fn add(&self, key: &str, value: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MOST_ANNOTATIONS && !all.iter().any(|(known, _)| **known == *key) {
            all.push((key.into(), value.into()));
        }
    }

    /// All, sorted by their keys.
    pub(crate) fn sorted(&self) -> Vec<(Box<str>, Box<str>)> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.sort();
        all
    }
}

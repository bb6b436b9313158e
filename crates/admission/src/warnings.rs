//! The warnings of a request.

use std::sync::{Arc, Mutex, PoisonError};

/// The warnings of a request, which the client gets with its response, be that an error or not. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Adds some. What was said already is not said again.
    pub fn extend(&self, warnings: impl IntoIterator<Item = String>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for warning in warnings {
            if !all.contains(&warning) {
                all.push(warning);
            }
        }
    }

    /// Everything so far, which is taken away.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_given_once() {
        let warnings = Warnings::default();
        warnings.clone().extend(["a".to_owned(), "b".to_owned()]);
        warnings.extend(["a".to_owned()]);
        assert_eq!(warnings.take(), ["a", "b"]);
        assert!(warnings.take().is_empty());
    }
}

//! A bound for the memory of several stores together.

use crate::Error;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// About how many bytes of memory an entry takes beside its key and its value, in a store and in a cache.
const OVERHEAD: usize = 400;

/// What some [`Memory`](super::Memory) stores may hold together.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
}

impl Budget {
    /// A budget of so many bytes.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicUsize::new(0) })
    }

    /// The bytes that are used.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// The most bytes that may be used.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Whether there is nothing left.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.used() >= self.limit
    }

    /// Uses bytes for what has no store of its own, until the result is dropped. It is not refused.
    #[must_use]
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Held {
        let mut held = Held::new(Some(self.clone()));
        held.add(bytes);
        held
    }
}

/// The part of a budget that one store uses. Dropping it gives it back.
#[derive(Debug, Default)]
pub struct Held {
    budget: Option<Arc<Budget>>,
    bytes: usize,
}

impl Held {
    pub(super) fn new(budget: Option<Arc<Budget>>) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Fails if so many bytes more are past the limit.
    pub(super) fn check(&self, bytes: usize) -> Result<(), Error> {
        match &self.budget {
            Some(budget) if budget.used().saturating_add(bytes) > budget.limit => {
                Err(Error::OverBudget { used: budget.used(), limit: budget.limit })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        if let Some(budget) = &self.budget {
            budget.used.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(super) fn remove(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        if let Some(budget) = &self.budget {
            budget.used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.remove(self.bytes);
    }
}

/// About how many bytes a version of an entry takes: its value is in the store, and again in the cache above.
pub(super) fn size(key: usize, value: usize) -> usize {
    2 * (key + value) + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_counts_until_it_is_dropped() {
        let budget = Budget::new(100);
        let mut one = Held::new(Some(budget.clone()));
        one.add(60);
        let other = budget.hold(50);
        assert_eq!((budget.used(), budget.is_spent()), (110, true));
        assert!(matches!(one.check(1), Err(Error::OverBudget { used: 110, limit: 100 })));
        one.remove(30);
        one.remove(1000);
        assert_eq!((budget.used(), one.bytes()), (50, 0));
        assert!(one.check(50).is_ok() && one.check(51).is_err());
        drop((one, other));
        assert_eq!(budget.used(), 0);
    }
}

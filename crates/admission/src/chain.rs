//! The chain of plugins, and the proof that a write has passed it.

use crate::{Attributes, Operation};
use auth::BoxFuture;
use object::Value;
use schema::Status;

/// One plugin. Most do one of the two steps.
pub trait Plugin: Send + Sync {
    /// The name in flags and configuration: `NamespaceLifecycle`.
    fn name(&self) -> &'static str;

    /// Whether it has anything to do with an operation.
    fn handles(&self, operation: Operation) -> bool;

    /// Mutating admission: may change the object, which is absent for a delete, or refuse the write.
    fn mutate<'a>(
        &'a self,
        _attributes: &'a Attributes<'_>,
        _object: Option<&'a mut Value>,
    ) -> Option<BoxFuture<'a, Result<(), Status>>> {
        None
    }

    /// Validating admission: may refuse the write, or admit it and reserve something for it.
    fn validate<'a>(
        &'a self,
        _attributes: &'a Attributes<'_>,
        _object: Option<&'a Value>,
    ) -> Option<BoxFuture<'a, Result<Option<Reservation>, Status>>> {
        None
    }
}

/// Something that was reserved for a write: an address, a port, a part of a quota. Released when dropped, unless the write was
/// committed.
pub struct Reservation {
    release: Option<Box<dyn FnOnce() + Send>>,
}

impl Reservation {
    /// A reservation that `release` gives back.
    pub fn new(release: impl FnOnce() + Send + 'static) -> Self {
        Self { release: Some(Box::new(release)) }
    }

    /// What was reserved is in use now.
    fn keep(mut self) {
        self.release = None;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release();
        }
    }
}

/// The proof that a write has passed admission, with everything that was reserved for it.
#[must_use]
pub struct Admitted {
    reservations: Vec<Reservation>,
}

impl Admitted {
    /// Adds what a kind reserved.
    pub fn reserve(&mut self, reservation: Reservation) {
        self.reservations.push(reservation);
    }

    /// Two proofs for a write that takes two commits; what was reserved belongs to the second.
    pub fn split(self) -> (Self, Self) {
        (Self { reservations: Vec::new() }, self)
    }

    /// Whether anything was reserved.
    pub fn has_reservations(&self) -> bool {
        !self.reservations.is_empty()
    }

    /// The write was committed: everything that was reserved stays so.
    pub fn committed(self) {
        self.reservations.into_iter().for_each(Reservation::keep);
    }
}

/// The plugins, in their order.
#[derive(Default)]
pub struct Chain {
    plugins: Vec<Box<dyn Plugin>>,
}

impl Chain {
    /// These plugins, in this order.
    pub fn new(plugins: impl IntoIterator<Item = Box<dyn Plugin>>) -> Self {
        Self { plugins: plugins.into_iter().collect() }
    }

    /// Mutating admission. `object` is the new state, absent for a delete.
    pub async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
    ) -> Result<(), Status> {
        for plugin in self.handling(attributes.operation) {
            if let Some(step) = plugin.mutate(attributes, object.as_deref_mut()) {
                step.await?;
            }
        }
        Ok(())
    }

    /// Validating admission. `object` is what will be stored, absent for a delete.
    pub async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<Admitted, Status> {
        let mut admitted = Admitted { reservations: Vec::new() };
        for plugin in self.handling(attributes.operation) {
            if let Some(step) = plugin.validate(attributes, object) {
                admitted.reservations.extend(step.await?);
            }
        }
        Ok(admitted)
    }

    fn handling(&self, operation: Operation) -> impl Iterator<Item = &dyn Plugin> {
        self.plugins.iter().map(|plugin| &**plugin).filter(move |plugin| plugin.handles(operation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn reservation_is_released_unless_the_write_was_committed() {
        let released = Arc::new(AtomicUsize::new(0));
        let reserve = || {
            let released = released.clone();
            Reservation::new(move || {
                released.fetch_add(1, Ordering::Relaxed);
            })
        };
        let mut admitted = Admitted { reservations: Vec::new() };
        admitted.reserve(reserve());
        assert!(admitted.has_reservations());
        admitted.committed();
        assert_eq!(released.load(Ordering::Relaxed), 0);
        drop(Admitted { reservations: vec![reserve(), reserve()] });
        assert_eq!(released.load(Ordering::Relaxed), 2);
    }
}

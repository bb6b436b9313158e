//! The chain of plugins, and the proof that a write has passed it.

use crate::families::{self, PluginCells, Step};
use crate::reinvocation::Memory;
use crate::{Attributes, Operation, managed_fields};
use object::Value;
use schema::Status;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tasks::{BoxFuture, Deferred};

/// One plugin. Most do one of the two steps.
pub trait Plugin: Send + Sync {
    /// Whether the plugin is called for an operation.
    fn handles(&self, operation: Operation) -> bool;

    /// Mutating admission: may change the object, which is absent for a delete, or refuse the write.
    fn mutate<'a>(
        &'a self,
        _attributes: &'a Attributes<'_>,
        _object: Option<&'a mut Value>,
    ) -> Deferred<'a, Result<(), Status>> {
        Deferred::Now(Ok(()))
    }

    /// Validating admission: may refuse the write, or admit it and reserve something for it.
    fn validate<'a>(
        &'a self,
        _attributes: &'a Attributes<'_>,
        _object: Option<&'a Value>,
    ) -> Deferred<'a, Result<Option<Reservation>, Status>> {
        Deferred::Now(Ok(None))
    }
}

/// A plugin whose answers depend on nothing that has to be waited for, and that reserves nothing.
pub trait Immediate: Send + Sync {
    /// Whether the plugin is called for an operation.
    fn handles(&self, operation: Operation) -> bool;

    /// Mutating admission: may change the object, which is absent for a delete, or refuse the write.
    fn mutate(&self, _attributes: &Attributes<'_>, _object: Option<&mut Value>) -> Result<(), Status> {
        Ok(())
    }

    /// Validating admission: may refuse the write.
    fn validate(&self, _attributes: &Attributes<'_>, _object: Option<&Value>) -> Result<(), Status> {
        Ok(())
    }
}

impl<P: Immediate> Plugin for P {
    fn handles(&self, operation: Operation) -> bool {
        Immediate::handles(self, operation)
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a mut Value>,
    ) -> Deferred<'a, Result<(), Status>> {
        Deferred::Now(Immediate::mutate(self, attributes, object))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a Value>,
    ) -> Deferred<'a, Result<Option<Reservation>, Status>> {
        Deferred::Now(Immediate::validate(self, attributes, object).map(|()| None))
    }
}

/// The outcome of a write that something was reserved for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The write was committed, and readers see it.
    Committed,
    /// The write was not committed, and will not be.
    Abandoned,
    /// It is not known whether the write was committed: what was reserved stays reserved until a loop of the
    /// server has found out.
    Unknown,
}

/// Work that is left after a write.
type Rest = Option<BoxFuture<'static, ()>>;

/// Something that was reserved for a write: an address, a port, a part of a quota. It is told the outcome of
/// the write once.
pub struct Reservation {
    settle: Option<Box<dyn FnOnce(Settled) -> Rest + Send>>,
}

impl Reservation {
    /// A reservation that `release` gives back if the write is not committed.
    pub fn new(release: impl FnOnce() + Send + 'static) -> Self {
        Self::settled_by(|settled| {
            if settled == Settled::Abandoned {
                release();
            }
        })
    }

    /// A reservation that is told the outcome of the write in every case.
    pub fn settled_by(settle: impl FnOnce(Settled) + Send + 'static) -> Self {
        Self::followed_by(|settled| {
            settle(settled);
            None
        })
    }

    /// A reservation after which something is left to do that takes time. The request is answered after it;
    /// it is done even if the client goes away.
    pub fn followed_by(settle: impl FnOnce(Settled) -> Rest + Send + 'static) -> Self {
        Self { settle: Some(Box::new(settle)) }
    }

    /// Tells the reservation that the write will not be committed.
    pub async fn abandon(self) {
        self.settle(Settled::Abandoned).await;
    }

    async fn settle(mut self, settled: Settled) {
        if let Some(rest) = self.settle.take().and_then(|settle| settle(settled)) {
            // A task of its own is not dropped with the request. One that panicked has said so.
            let _ = tasks::once(rest).await;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let rest = self.settle.take().and_then(|settle| settle(Settled::Abandoned));
        if let (Some(rest), Ok(runtime)) = (rest, tokio::runtime::Handle::try_current()) {
            tasks::once_on(&runtime, rest);
        }
    }
}

/// The proof that a write has passed admission, with everything that was reserved for it, and the work that
/// follows its commit.
#[must_use]
pub struct Admitted {
    reservations: Vec<Reservation>,
    after_commit: Option<BoxFuture<'static, ()>>,
}

impl Admitted {
    fn new() -> Self {
        Self { reservations: Vec::new(), after_commit: None }
    }

    /// Adds what a kind reserved.
    pub fn reserve(&mut self, reservation: Reservation) {
        self.reservations.push(reservation);
    }

    /// Adds the work of a kind that follows the commit. The request is answered after it; it is done even if
    /// the client goes away.
    pub fn after_commit(&mut self, work: BoxFuture<'static, ()>) {
        self.after_commit = Some(work);
    }

    /// A proof without reservations, for one attempt or the first of two commits of this write.
    pub fn for_attempt(&self) -> Self {
        Self::new()
    }

    /// Whether the outcome of the write matters: for a reservation, or for work that follows the commit.
    pub fn needs_outcome(&self) -> bool {
        !self.reservations.is_empty() || self.after_commit.is_some()
    }

    /// The write was committed: everything that was reserved stays so.
    pub async fn committed(self) {
        self.settle(Settled::Committed).await;
    }

    /// The write was not committed, and will not be.
    pub async fn abandoned(self) {
        self.settle(Settled::Abandoned).await;
    }

    /// Whether the write was committed is not known.
    pub async fn unknown(self) {
        self.settle(Settled::Unknown).await;
    }

    async fn settle(self, settled: Settled) {
        for reservation in self.reservations {
            reservation.settle(settled).await;
        }
        if let Some(work) = self.after_commit.filter(|_| settled == Settled::Committed) {
            // A task of its own, so that a panic does not hide the outcome of the commit.
            let _ = tasks::once(work).await;
        }
    }
}

/// The passes of mutating admission over one write: one, or two if a plugin asks for it after it has changed
/// the object.
#[derive(Debug, Default)]
pub struct Passes {
    is_second: AtomicBool,
    again: AtomicBool,
    /// What the plugin for mutating webhooks keeps between the passes.
    pub(crate) webhooks: Memory,
    /// What the plugin for mutating policies keeps between the passes.
    pub(crate) policies: Memory,
}

impl Passes {
    /// Whether this is the second pass.
    pub fn is_second(&self) -> bool {
        self.is_second.load(Ordering::Relaxed)
    }

    /// Asks for a second pass.
    pub fn again(&self) {
        self.again.store(true, Ordering::Relaxed);
    }
}

/// The plugins, in their order.
#[derive(Default)]
pub struct Chain {
    plugins: Vec<Link>,
}

/// A plugin, and where its time is counted.
struct Link {
    plugin: Box<dyn Plugin>,
    cells: PluginCells,
}

impl Chain {
    /// A chain of these plugins, in this order.
    pub fn new(plugins: impl IntoIterator<Item = Box<dyn Plugin>>) -> Self {
        Self::named(plugins.into_iter().map(|plugin| ("", plugin)))
    }

    /// A chain of these plugins, by their names, in this order.
    pub fn named(plugins: impl IntoIterator<Item = (&'static str, Box<dyn Plugin>)>) -> Self {
        let link = |(name, plugin)| Link { plugin, cells: PluginCells::of(name) };
        Self { plugins: plugins.into_iter().map(link).collect() }
    }

    /// Mutating admission. `object` is the new state, absent for a delete. Managed fields that are malformed
    /// afterwards are put back.
    pub async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
    ) -> Result<(), Status> {
        let passes = Passes::default();
        let attributes = Attributes { passes: Some(&passes), ..*attributes };
        let managed_fields = managed_fields::of(object.as_deref());
        let begin = Instant::now();
        let mut outcome = self.pass(&attributes, object.as_deref_mut()).await;
        if outcome.is_ok() && passes.again.load(Ordering::Relaxed) {
            passes.is_second.store(true, Ordering::Relaxed);
            outcome = self.pass(&attributes, object.as_deref_mut()).await;
        }
        families::step(Step::Admit, attributes.operation, outcome.is_err(), begin.elapsed());
        outcome?;
        managed_fields::restore(managed_fields, object, attributes.warnings);
        Ok(())
    }

    async fn pass(&self, attributes: &Attributes<'_>, mut object: Option<&mut Value>) -> Result<(), Status> {
        let mut begin = Instant::now();
        for Link { plugin, cells } in self.handling(attributes.operation) {
            let outcome = match plugin.mutate(attributes, object.as_deref_mut()) {
                Deferred::Now(outcome) => outcome,
                Deferred::Later(step) => step.await,
            };
            let end = Instant::now();
            cells.observe(Step::Admit, attributes.operation, outcome.is_err(), end - begin);
            begin = end;
            outcome?;
        }
        Ok(())
    }

    /// Validating admission. `object` is what will be stored, absent for a delete.
    pub async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<Admitted, Status> {
        let begin = Instant::now();
        let outcome = self.validate_each(attributes, object).await;
        families::step(Step::Validate, attributes.operation, outcome.is_err(), begin.elapsed());
        outcome
    }

    async fn validate_each(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<Admitted, Status> {
        let mut admitted = Admitted::new();
        let mut begin = Instant::now();
        for Link { plugin, cells } in self.handling(attributes.operation) {
            let outcome = match plugin.validate(attributes, object) {
                Deferred::Now(outcome) => outcome,
                Deferred::Later(step) => step.await,
            };
            let end = Instant::now();
            cells.observe(Step::Validate, attributes.operation, outcome.is_err(), end - begin);
            begin = end;
            admitted.reservations.extend(outcome?);
        }
        Ok(admitted)
    }

    fn handling(&self, operation: Operation) -> impl Iterator<Item = &Link> {
        self.plugins.iter().filter(move |link| link.plugin.handles(operation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[tokio::test]
    async fn reservation_is_told_once_what_became_of_the_write() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let reserve = || {
            let told = told.clone();
            Reservation::settled_by(move |settled| told.lock().unwrap().push(settled))
        };
        let released = Arc::new(AtomicBool::new(false));
        let release = || {
            let released = released.clone();
            Reservation::new(move || released.store(true, Ordering::Relaxed))
        };
        let mut admitted = Admitted::new();
        admitted.reserve(reserve());
        admitted.reserve(release());
        assert!(admitted.needs_outcome());
        admitted.committed().await;
        assert_eq!(*told.lock().unwrap(), [Settled::Committed]);
        assert!(!released.load(Ordering::Relaxed));
        drop(Admitted { reservations: vec![reserve(), release()], ..Admitted::new() });
        assert_eq!(*told.lock().unwrap(), [Settled::Committed, Settled::Abandoned]);
        assert!(released.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn work_after_the_commit_is_done_only_if_the_write_was_committed() {
        let done = Arc::new(AtomicBool::new(false));
        let admitted = || {
            let done = done.clone();
            let mut admitted = Admitted::new();
            admitted.after_commit(Box::pin(async move { done.store(true, Ordering::Relaxed) }));
            assert!(admitted.needs_outcome());
            admitted
        };
        admitted().abandoned().await;
        admitted().unknown().await;
        drop(admitted());
        assert!(!done.load(Ordering::Relaxed));
        admitted().committed().await;
        assert!(done.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn what_is_left_to_do_is_done_before_the_answer_and_without_a_client() {
        let done = Arc::new(Mutex::new(Vec::new()));
        let reserve = || {
            let done = done.clone();
            Reservation::followed_by(move |settled| {
                Some(Box::pin(async move {
                    tokio::task::yield_now().await;
                    done.lock().unwrap().push(settled);
                }))
            })
        };
        Admitted { reservations: vec![reserve()], ..Admitted::new() }.committed().await;
        reserve().abandon().await;
        assert_eq!(*done.lock().unwrap(), [Settled::Committed, Settled::Abandoned]);
        drop(reserve());
        while done.lock().unwrap().len() < 3 {
            tokio::task::yield_now().await;
        }
        assert_eq!(done.lock().unwrap().last(), Some(&Settled::Abandoned));
    }
}

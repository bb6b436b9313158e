//! Hooks of kinds whose writes need more than the object: the reservation of an address, a further
//! authorization.

use admission::{Attributes, Reservation};
use auth::{Authorized, Authorizer};
use cache::Entry;
use object::{Map, Text, Value, field};
use schema::Status;
use std::sync::Arc;
use tasks::BoxFuture;

/// The hooks of a kind. They run in every attempt of a write.
pub trait WriteHook: Send + Sync {
    /// Checks permissions that a write needs besides that of the request. Runs right after mutating
    /// admission; a new object may have no name yet. `None` if there is nothing to check.
    fn authorize<'a>(
        &'a self,
        _proof: &'a Authorized,
        _authorizer: &'a Authorizer,
        _attributes: &'a Attributes<'a>,
        _object: &'a Value,
    ) -> Option<BoxFuture<'a, Result<(), Status>>> {
        None
    }

    /// Checks permissions of a new state of the object itself that is otherwise valid; `None` if there is
    /// nothing to check.
    fn after_validation(&self) -> Option<&dyn ValidHook> {
        None
    }

    /// May complete the new state, refuse the write, and reserve something for it. Runs before the kind's
    /// preparation. The reservation is released unless the change is committed.
    fn before_write<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        _authorizer: &'a Authorizer,
        _object: &'a mut Value,
    ) -> BoxFuture<'a, Result<Option<Reservation>, Status>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Work that follows the commit of a write of the object, or of its mark as being deleted. The request is
    /// answered after it; it is done even if the client goes away.
    fn after_commit(&self, _name: &str, _subresource: &str) -> Option<BoxFuture<'static, ()>> {
        None
    }

    /// A reservation to settle when the removal of an object is committed. Runs right before the commit, with
    /// the last state.
    fn before_remove(&self, _entry: &Entry) -> Option<Reservation> {
        None
    }
}

/// Checks permissions that a valid state of an object needs. Who lacks them gets a field error.
pub trait ValidHook: Send + Sync {
    /// Checks a new state, and the one before.
    fn check<'a>(
        &'a self,
        proof: &'a Authorized,
        authorizer: &'a Authorizer,
        attributes: &'a Attributes<'a>,
        states: (&'a Map, Option<&'a Map>),
    ) -> BoxFuture<'a, Result<(), field::Error>>;
}

/// The hooks, by group and resource.
#[derive(Default, Clone)]
pub struct WriteHooks(Vec<(Text, Text, Arc<dyn WriteHook>)>);

impl WriteHooks {
    /// Adds the hook of a kind.
    #[must_use]
    pub fn with(mut self, group: &str, resource: &str, hook: Arc<dyn WriteHook>) -> Self {
        self.0.push((group.into(), resource.into(), hook));
        self
    }

    pub(crate) fn of(&self, group: &str, resource: &str) -> Option<&dyn WriteHook> {
        let found = self.0.iter().find(|(of, name, _)| of == group && name == resource);
        found.map(|(_, _, hook)| &**hook)
    }
}

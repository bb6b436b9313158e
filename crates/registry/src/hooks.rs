//! What some kinds do around a write that needs more than the object: reserve an address, ask for another
//! permission.

use admission::{Attributes, Reservation};
use auth::{Authorized, Authorizer};
use cache::Entry;
use object::{Text, Value};
use schema::Status;
use std::sync::Arc;
use tasks::BoxFuture;

/// What a kind does around its writes, in every attempt.
pub trait WriteHook: Send + Sync {
    /// May refuse a write for a permission that it needs besides that of the request. Runs right after
    /// mutating admission; the name of a new object may still be left to the server. `None` if there is
    /// nothing to ask.
    fn authorize<'a>(
        &'a self,
        _proof: &'a Authorized,
        _authorizer: &'a Authorizer,
        _attributes: &'a Attributes<'a>,
        _object: &'a Value,
    ) -> Option<BoxFuture<'a, Result<(), Status>>> {
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

    /// May say what is to be done once an object is removed, in whichever way that happens. Runs right before
    /// the commit, with the last state.
    fn before_remove(&self, _entry: &Entry) -> Option<Reservation> {
        None
    }
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

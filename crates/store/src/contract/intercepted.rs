//! A store whose commits are handled by a test.

use crate::{
    BoxFuture, Change, Committed, Entry, Error, Follow, Follower, Health, Key, Revision, Store, Visitor,
    memory::Memory,
};
use std::sync::Arc;

/// A store in memory that may be shared; a function decides the outcome of each commit.
pub struct Intercepted<F> {
    memory: Arc<Memory>,
    commit: F,
}

impl<F> Intercepted<F>
where
    F: Fn(&Memory, Change) -> BoxFuture<'static, Result<Committed, Error>> + Send + Sync + 'static,
{
    /// Has a function handle the commits.
    pub fn new(memory: Arc<Memory>, commit: F) -> Self {
        Self { memory, commit }
    }
}

impl<F> Store for Intercepted<F>
where
    F: Fn(&Memory, Change) -> BoxFuture<'static, Result<Committed, Error>> + Send + Sync + 'static,
{
    fn commit(&self, change: Change) -> BoxFuture<'static, Result<Committed, Error>> {
        (self.commit)(&self.memory, change)
    }

    fn known_revision(&self) -> Revision {
        self.memory.known_revision()
    }

    fn newest_revision(&self) -> BoxFuture<'static, Result<Revision, Error>> {
        self.memory.newest_revision()
    }

    fn changed(&self, after: Revision) -> BoxFuture<'static, Result<(), Error>> {
        self.memory.changed(after)
    }

    fn compacted(&self) -> Revision {
        self.memory.compacted()
    }

    fn get(&self, key: &Key) -> Result<Option<Entry>, Error> {
        self.memory.get(key)
    }

    fn load(&self, prefix: &[u8], at: Option<Revision>, visit: &mut Visitor<'_>) -> Result<Revision, Error> {
        self.memory.load(prefix, at, visit)
    }

    fn follow(&self, follow: Follow) -> Result<Box<dyn Follower>, Error> {
        self.memory.follow(follow)
    }

    fn compact(&self, to: Revision) -> BoxFuture<'static, Result<(), Error>> {
        self.memory.compact(to)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn health(&self) -> Health {
        self.memory.health()
    }

    fn close(&self) {
        self.memory.close();
    }
}

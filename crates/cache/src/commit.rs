//! Writing: from JSON to a committed entry.
//!
//! 1. A change is in memory only after the store has committed it, and after all changes before it. The
//!    writer applies them itself.
//! 2. The writer is answered after its change was applied: a read after the answer sees it.

use crate::{
    Cache, Entry, Error, Resource,
    entry::{claimed, is_named, within},
    error::{Conflict, Invalid},
    families, frame, record,
};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Instant;
use store::{Expect, Head, Key, Op, Returning, Revision};

/// A change of one object.
#[derive(Clone)]
pub struct Change {
    resource: Arc<Resource>,
    namespace: String,
    name: String,
    write: Write,
    expect: Expect,
}

#[derive(Clone)]
enum Write {
    Put(Bytes),
    Delete,
}

/// The outcome of a change.
#[derive(Clone, Debug)]
pub enum Committed {
    /// The object was written; its new state.
    Put(Arc<Entry>),
    /// The object was deleted.
    Deleted {
        /// The revision of the deletion.
        revision: Revision,
        /// Its last state, with that revision; `None` if it could not be read.
        last: Option<Arc<Entry>>,
    },
}

impl Committed {
    /// The revision of the change.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Put(entry) => entry.mod_revision(),
            Self::Deleted { revision, .. } => *revision,
        }
    }

    /// The state that a put wrote, or the last state of a deleted object.
    pub fn entry(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::Put(entry) => Some(entry),
            Self::Deleted { last, .. } => last.as_ref(),
        }
    }
}

impl Change {
    /// Stores an object: its canonical JSON, whose `metadata.resourceVersion` may hold anything or be absent.
    pub fn put(resource: &Arc<Resource>, namespace: &str, name: &str, json: impl Into<Bytes>) -> Self {
        Self::new(resource, namespace, name, Write::Put(json.into()))
    }

    /// Removes an object, which must exist.
    pub fn delete(resource: &Arc<Resource>, namespace: &str, name: &str) -> Self {
        Self::new(resource, namespace, name, Write::Delete)
    }

    fn new(resource: &Arc<Resource>, namespace: &str, name: &str, write: Write) -> Self {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Self { resource: resource.clone(), namespace, name, write, expect: Expect::Any }
    }

    /// The number of bytes of the object that the change stores; zero for a removal.
    pub fn size(&self) -> usize {
        match &self.write {
            Write::Put(json) => json.len(),
            Write::Delete => 0,
        }
    }

    /// The same change, with another state of the object.
    #[must_use]
    pub fn with_object(mut self, json: impl Into<Bytes>) -> Self {
        self.write = Write::Put(json.into());
        self
    }

    /// Makes the change conditional: there is no such object, or its bytes are damaged and the change
    /// replaces them.
    #[must_use]
    pub fn create_or_replace_damaged(mut self) -> Self {
        self.expect = Expect::Absent;
        self
    }

    /// Makes the change conditional: the object is at this revision.
    #[must_use]
    pub fn expect_revision(mut self, revision: Revision) -> Self {
        self.expect = Expect::At(revision);
        self
    }

    /// The operation that the change is counted as.
    fn counted_as(&self) -> &'static str {
        match (&self.write, self.expect) {
            (Write::Delete, _) => "delete",
            (Write::Put(_), Expect::Absent) => "create",
            (Write::Put(_), _) => "update",
        }
    }

    /// The change as the store takes it.
    fn prepare(&self) -> Result<store::Change, Invalid> {
        let spec = self.resource.spec();
        let within = spec.key(&self.namespace, &self.name);
        if spec.namespace_len(&within) != Some(self.namespace.len()) {
            return Err(Invalid::Name { namespace: self.namespace.clone(), name: self.name.clone() });
        }
        let key = Key::try_from(format!("{}/{within}", spec.prefix()))?;
        let mut change = match &self.write {
            Write::Delete => store::Change::delete(key),
            Write::Put(json) => {
                let wrong = |reason: String| Invalid::Json(reason);
                let json = str::from_utf8(json).map_err(|error| wrong(error.to_string()))?;
                let scanned = record::scan(spec, json).map_err(|broken| wrong(broken.to_string()))?;
                if !is_named(spec, &within, &scanned) {
                    return Err(Invalid::Named(claimed(spec, &scanned)));
                }
                let stored = frame::encode(json, scanned.revision);
                store::Change::put(key, stored.ok_or_else(|| wrong("it is too large".into()))?)
            }
        };
        change.expect = self.expect;
        change.lifetime = spec.lifetime();
        let last_is_certain = matches!(self.expect, Expect::At(_));
        if matches!(change.op, Op::Delete) && !last_is_certain {
            change.returning = Returning::Value;
        }
        Ok(change)
    }
}

impl Cache {
    /// Commits a change, and answers once it can be read.
    pub async fn commit(&self, change: Change) -> Result<Committed, Error> {
        change.resource.check_served()?;
        let mut written = change.prepare().map_err(|reason| Error::Invalid { reason })?;
        let before = match change.write {
            Write::Delete => change.current(),
            Write::Put(_) => None,
        };
        let core = change.resource.core();
        let lineage = core.store.lineage();
        // A store may answer without waiting, so that a loop of writes would never let other tasks run.
        tokio::task::coop::consume_budget().await;
        let committed = loop {
            let begin = Instant::now();
            let outcome = core.store.commit(written.clone()).await;
            let failed = matches!(&outcome, Err(error) if !matches!(error, store::Error::Conflict(_)));
            let prefix = change.resource.spec().prefix();
            families::changed(change.counted_as(), prefix, begin.elapsed(), failed);
            if core.store.lineage() != lineage {
                return Err(lost());
            }
            match outcome {
                Err(store::Error::Conflict(conflict)) => match change.conflict(lineage, *conflict).await {
                    Error::Corrupt(damaged) if written.expect == Expect::Absent => {
                        written.expect = Expect::At(damaged.revision);
                    }
                    error => return Err(error),
                },
                outcome => break outcome?,
            }
        };
        core.reach(lineage, committed.revision).await?;
        change.answer(&written, before, committed)
    }
}

/// The error of a change during which the store was replaced by an older state.
fn lost() -> Error {
    let source = std::io::Error::other("the store was replaced by an older state");
    Error::Store(store::Error::Io { fate: store::Fate::Unknown, source: Arc::new(source) })
}

impl Change {
    /// The error of a change whose precondition did not hold, with the current object.
    async fn conflict(&self, lineage: u64, conflict: store::Conflict) -> Error {
        let seen = conflict.found.as_ref().map_or(Revision::ZERO, |found| found.head.mod_revision);
        if let Err(error) = self.resource.core().reach(lineage, seen).await {
            return error;
        }
        let found = match conflict.found {
            None => None,
            Some(found) => {
                let same = self.current().filter(|entry| entry.mod_revision() >= found.head.mod_revision);
                same.or_else(|| match found.value {
                    Some(Ok(value)) => self.read(&conflict.key, &found.head, &value).ok(),
                    _ => None,
                })
            }
        };
        if found.is_none() && seen > Revision::ZERO {
            let damaged = self.resource.lookup(&self.namespace, &self.name);
            if let Err(error @ Error::Corrupt(_)) = damaged {
                return error;
            }
        }
        Box::new(Conflict { found }).into()
    }

    /// The object as it is in memory.
    fn current(&self) -> Option<Arc<Entry>> {
        let key = self.resource.spec().key(&self.namespace, &self.name);
        self.resource.peek(&key).entry().cloned()
    }

    fn read(&self, key: &Key, head: &Head, value: &Bytes) -> Result<Arc<Entry>, Error> {
        let entry = Entry::read(self.resource.spec(), key, head, value);
        entry.map(Arc::new).map_err(|corrupt| Error::Corrupt(Arc::new(corrupt)))
    }

    /// The outcome of a change that was applied: from the log, or, if the change has left the log, built
    /// again.
    fn answer(
        &self,
        written: &store::Change,
        before: Option<Arc<Entry>>,
        committed: store::Committed,
    ) -> Result<Committed, Error> {
        let store::Committed { revision, create_revision, previous } = committed;
        let key = within(self.resource.spec(), &written.key).unwrap_or_default();
        let logged = self.resource.outcome(key, revision);
        match &written.op {
            Op::Put(value) => {
                let head = Head { create_revision, mod_revision: revision };
                let entry = logged.map_or_else(|| self.read(&written.key, &head, value), Ok)?;
                Ok(Committed::Put(entry))
            }
            Op::Delete => {
                let last = logged.or_else(|| {
                    let store::StoredEntry { head, value } = previous?;
                    let same = before.filter(|before| before.mod_revision() == head.mod_revision);
                    let stored = value.and_then(Result::ok);
                    let last = same.or_else(|| self.read(&written.key, &head, &stored?).ok())?;
                    Some(Arc::new(last.tombstone(revision)))
                });
                Ok(Committed::Deleted { revision, last })
            }
        }
    }
}

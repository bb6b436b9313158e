//! Writing: from JSON to a committed entry.
//!
//! 1. A change is in memory only after the store has committed it, and told of it in its turn: the writer applies what it is told
//!    up to its own change, like anyone else.
//! 2. The writer is answered after its change was applied: who was answered, and then asks, sees it.

use crate::{
    Cache, Entry, Error, Freshness, Resource,
    drafts::Draft,
    entry::{claimed, is_named, within},
    error::{Conflict, Invalid},
    record,
};
use bytes::Bytes;
use std::sync::Arc;
use store::{Expect, Head, Key, Op, Returning, Revision, Tag};

/// A change of one object.
#[derive(Clone)]
pub struct Change {
    resource: Arc<Resource>,
    namespace: String,
    name: String,
    write: Write,
    expect: Expect,
    uid: Option<String>,
}

#[derive(Clone)]
enum Write {
    Put(Bytes),
    Delete,
}

/// What became of a change.
#[derive(Clone, Debug)]
pub enum Committed {
    /// The object is in this state.
    Put(Arc<Entry>),
    /// The object is gone.
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

    /// The state that was made, or ended.
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
        Self { resource: resource.clone(), namespace, name, write, expect: Expect::Any, uid: None }
    }

    /// Only if there is no such object.
    #[must_use]
    pub fn create_only(mut self) -> Self {
        self.expect = Expect::Absent;
        self
    }

    /// Only if the object is at this revision.
    #[must_use]
    pub fn expect_revision(mut self, revision: Revision) -> Self {
        self.expect = Expect::At(revision);
        self
    }

    /// Only if the object has this uid.
    #[must_use]
    pub fn expect_uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = Some(uid.into());
        self
    }

    /// The change as the store takes it, and what is known of the object that it puts.
    fn prepare(&self) -> Result<(store::Change, Option<Draft>), Invalid> {
        let spec = self.resource.spec();
        let within = spec.key(&self.namespace, &self.name);
        if spec.namespace_len(&within) != Some(self.namespace.len()) {
            return Err(Invalid::Name { namespace: self.namespace.clone(), name: self.name.clone() });
        }
        let key = Key::try_from(format!("{}/{within}", spec.prefix()))?;
        let (mut change, draft) = match &self.write {
            Write::Delete => (store::Change::delete(key), None),
            Write::Put(json) => {
                let wrong = |reason: String| Invalid::Json(reason);
                let json = str::from_utf8(json).map_err(|error| wrong(error.to_string()))?;
                let scanned = record::scan(spec, json).map_err(|broken| wrong(broken.to_string()))?;
                if !is_named(spec, &within, &scanned) {
                    return Err(Invalid::Named(claimed(spec, &scanned)));
                }
                let uid = Bytes::copy_from_slice(scanned.uid());
                let draft = Draft::new(spec, json, scanned);
                let draft = draft.ok_or_else(|| wrong("it is too large".into()))?;
                (store::Change::put(key, draft.stored.clone()).tag(uid), Some(draft))
            }
        };
        change.guard.revision = self.expect;
        change.guard.tag = self.uid.as_deref().map(Tag::from);
        let last_is_certain = matches!(self.expect, Expect::At(_));
        if matches!(change.op, Op::Delete) && !last_is_certain {
            change.returning = Returning::Value;
        }
        Ok((change, draft))
    }
}

impl Cache {
    /// Commits a change, and answers once it can be read.
    pub async fn commit(&self, change: Change) -> Result<Committed, Error> {
        self.commit_all(vec![change]).await?.pop().ok_or(Error::Closed)
    }

    /// Commits a group of changes: all of them, in order, or none.
    pub async fn commit_all(&self, group: Vec<Change>) -> Result<Vec<Committed>, Error> {
        let mut prepared = Vec::with_capacity(group.len());
        let mut befores = Vec::with_capacity(group.len());
        let mut drafts = Vec::with_capacity(group.len());
        for (index, change) in group.iter().enumerate() {
            change.resource.check_served()?;
            let (write, draft) = change.prepare().map_err(|reason| Error::Invalid { index, reason })?;
            drafts.extend(draft.map(|draft| self.core().drafts.keep(draft)));
            prepared.push(write);
            befores.push(match change.write {
                Write::Delete => change.current(),
                Write::Put(_) => None,
            });
        }
        // A store may answer at once, and a writer go on and on: others have their turn.
        tokio::task::coop::consume_budget().await;
        let written = prepared.clone();
        let outcome = match self.core().store.commit(prepared).await {
            Err(store::Error::Conflict(conflict)) => return Err(self.conflict(&group, *conflict).await),
            outcome => outcome?,
        };
        if let Some(last) = outcome.last() {
            self.core().reach(last.revision).await?;
        }
        drop(drafts);
        let parts = group.iter().zip(written).zip(befores).zip(outcome);
        let answers =
            parts.map(|(((change, written), before), committed)| change.answer(&written, before, committed));
        answers.collect()
    }

    /// What is there in place of what was expected.
    async fn conflict(&self, group: &[Change], conflict: store::Conflict) -> Error {
        let seen = conflict.found.as_ref().map_or(Revision::ZERO, |found| found.head.mod_revision);
        let Some(change) = group.get(conflict.index) else {
            return store::Error::from(Box::new(conflict)).into();
        };
        if let Err(error) = self.core().reach(seen).await {
            return error;
        }
        let found = match conflict.found {
            None => None,
            Some(found) => {
                let same = change.current().filter(|entry| entry.mod_revision() >= found.head.mod_revision);
                same.or_else(|| match found.value {
                    Some(Ok(value)) => change.read(&conflict.key, &found.head, &value).ok(),
                    _ => None,
                })
            }
        };
        if found.is_none() && seen > Revision::ZERO {
            let damaged = change.resource.get(&change.namespace, &change.name, Freshness::Any).await;
            if let Err(error @ Error::Corrupt(_)) = damaged {
                return error;
            }
        }
        Box::new(Conflict { index: conflict.index, found }).into()
    }
}

impl Change {
    /// The object as it is in memory.
    fn current(&self) -> Option<Arc<Entry>> {
        let key = self.resource.spec().key(&self.namespace, &self.name);
        self.resource.peek(&key).entry().cloned()
    }

    fn read(&self, key: &Key, head: &Head, value: &Bytes) -> Result<Arc<Entry>, Error> {
        let entry = Entry::read(self.resource.spec(), key, head, value);
        entry.map(Arc::new).map_err(|corrupt| Error::Corrupt(Arc::new(corrupt)))
    }

    /// The outcome of a change that was applied. The log has it; if it let it go already, it is made once more.
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
            Op::Put { value, tag } => {
                let head = Head { create_revision, mod_revision: revision, tag: tag.clone() };
                let entry = logged.map_or_else(|| self.read(&written.key, &head, value), Ok)?;
                Ok(Committed::Put(entry))
            }
            Op::Delete => {
                let last = logged.or_else(|| {
                    let store::Stored { head, value } = previous?;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::{Options, Spec};
    use store::{Store, embedded::Embedded, memory::Memory};

    #[tokio::test]
    async fn applying_a_change_uses_the_draft_of_its_writer() {
        let directory = tempfile::tempdir().unwrap();
        let embedded = Embedded::open(directory.path(), store::embedded::Options::default()).unwrap();
        for store in [Arc::new(Memory::default()) as Arc<dyn Store>, Arc::new(embedded)] {
            let cache =
                Cache::open(store, [Spec::cluster("nodes").unwrap()], Options::default()).await.unwrap();
            let nodes = cache.resource("nodes").unwrap();
            let json = r#"{"metadata":{"name":"a","uid":"u","labels":{"zone":"b"}}}"#;
            let (write, draft) = Change::put(&nodes, "", "a", json).prepare().unwrap();
            let stored = draft.as_ref().unwrap().stored.clone();
            let core = cache.core();
            let _kept = core.drafts.keep(draft.unwrap());
            let committed = core.store.commit(vec![write]).await.unwrap();
            core.reach(committed.first().unwrap().revision).await.unwrap();
            assert!(core.drafts.take(&stored).is_none());
            let entry = nodes.get("", "a", Freshness::Any).await.unwrap().unwrap();
            assert_eq!((entry.uid(), entry.labels().collect::<Vec<_>>()), ("u", vec![("zone", "b")]));
        }
    }
}

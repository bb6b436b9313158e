//! An etcd that gets what a source holds.
//!
//! 1. The mark is written before anything else and removed last: until then no server starts there.
//! 2. The revision passes that of the source before an object is written, so that no object gets a revision
//!    that the source has given out. In the end history starts at the newest revision: a client that has seen
//!    the source starts over.
//! 3. Each attempt makes up for the difference between what is there and what should be, whatever was
//!    interrupted before.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Instant;

use layout::{Layout, MediaType, Sealed};
use store::{Change, Codec as _, Committed, Entry, Key, Op, Patience, Revision, Store, Unreadable};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::contents::{Comparison, Contents, Digest, unsealed};
use super::source::Source;
use super::{Error, Progress};
use crate::OperationOptions;
use controllers::event_expiry;
use storage::{Cluster, Clusters, Mark, is_under};

/// So many commits are under way, with so many bytes: fewer than the store takes.
const AT_ONCE: usize = 64;
const BYTES_AT_ONCE: usize = 16 << 20;
/// While the revision is raised, history is given up after so many commits.
const COMPACTION: u64 = 10_000;

/// The etcd, and what it gets.
pub(super) struct ToEtcd<'a> {
    pub(super) options: &'a OperationOptions,
    pub(super) clusters: &'a Clusters,
    pub(super) seal: Option<&'a Sealed>,
    pub(super) contents: &'a Contents,
    /// What is said of the source, the same for each attempt.
    pub(super) from: String,
    /// The revision that every object's has to be larger than.
    pub(super) beyond: Revision,
}

impl ToEtcd<'_> {
    /// Makes the etcd hold what the source does, verifies that, and says what was done. Blocking, within the
    /// runtime.
    pub(super) fn run(&self, source: &mut Source) -> Result<String, Error> {
        self.claim()?;
        for cluster in self.clusters.all() {
            self.raise(cluster)?;
        }
        let begin = Instant::now();
        let present = self.clear()?;
        let mut progress =
            Progress::new("writing", Some((self.contents.objects.len() - present.len()) as u64));
        self.write(source, &present, &mut progress)?;
        let written = progress.summary();
        self.verify(source, begin)?;
        let revision = self.release()?;
        let present = match present.len() {
            0 => String::new(),
            count => format!("; {count} objects were there"),
        };
        Ok(format!("{}: {written}{present}; revision {revision}", self.clusters.main.servers))
    }

    /// Writes the mark where nothing is, or where the same has been begun.
    fn claim(&self) -> Result<(), Error> {
        let mark = Mark { from: self.from.clone(), revision: self.contents.revision };
        match Mark::read(&*self.clusters.main.raw, &self.clusters.mark)? {
            Some(Mark { from, .. }) if from == self.from => {}
            Some(Mark { from, .. }) => {
                return Err(Error::OtherMigration { servers: self.clusters.main.servers.clone(), from });
            }
            None => {
                for cluster in self.clusters.all() {
                    check_empty(cluster)?;
                }
            }
        }
        for cluster in self.clusters.all() {
            wait(cluster.raw.commit(Change::put(self.clusters.mark.clone(), mark.value())))?;
        }
        Ok(())
    }

    /// Raises the revision of a cluster by writing the mark again and again.
    fn raise(&self, cluster: &Cluster) -> Result<(), Error> {
        let mark = Mark { from: self.from.clone(), revision: self.contents.revision }.value();
        let mut reached = wait(cluster.raw.newest_revision())?;
        let missing = self.beyond.0.saturating_sub(reached.0);
        let mut progress = Progress::counting("raising the revision of etcd", "commits", missing);
        while reached < self.beyond {
            let mut commits = Commits::default();
            for _ in 0..COMPACTION.min(self.beyond.0 - reached.0) {
                commits.add(&*cluster.raw, Change::put(self.clusters.mark.clone(), mark.clone()))?;
                progress.step(0);
            }
            commits.finish()?;
            reached = wait(cluster.raw.newest_revision())?;
            wait(cluster.raw.compact(reached))?;
        }
        progress.end();
        Ok(())
    }

    /// Removes what should not be there, and answers what is there as it should be. Events are written again,
    /// for their lifetimes.
    fn clear(&self) -> Result<HashSet<Key>, Error> {
        let mut present = HashSet::new();
        let mut progress = Progress::new("comparing", None);
        let mut commits = Commits::default();
        for cluster in self.clusters.all() {
            let mut failed = None;
            self.clusters.load(cluster, wait(cluster.raw.newest_revision())?, &mut |entry| {
                progress.step(entry.as_ref().map_or(0, |entry| entry.value.len()));
                let (key, digest) = match entry {
                    Ok(entry) => (entry.key, Digest::of(&entry.value).ok()),
                    Err(unreadable) => (unreadable.key().clone(), None),
                };
                match self.contents.objects.get(&key) {
                    None => match commits.add(&*cluster.objects, Change::delete(key)) {
                        Ok(()) => {}
                        Err(error) => {
                            failed = Some(error);
                            return ControlFlow::Break(());
                        }
                    },
                    Some(wanted) => {
                        if digest == Some(*wanted) && !self.expires(&key) {
                            present.insert(key);
                        }
                    }
                }
                ControlFlow::Continue(())
            })?;
            if let Some(error) = failed {
                return Err(error);
            }
        }
        commits.finish()?;
        progress.end();
        Ok(present)
    }

    fn write(
        &self,
        source: &mut Source,
        present: &HashSet<Key>,
        progress: &mut Progress,
    ) -> Result<(), Error> {
        let mut commits = Commits::default();
        let mut failed = None;
        let visited = source.visit(&mut |entry| {
            let Some(Entry { key, value, .. }) =
                self.wanted(entry).filter(|entry| !present.contains(&entry.key))
            else {
                return Ok(());
            };
            progress.step(value.len());
            let objects = &self.clusters.holder(&key).objects;
            let change = match self.expires(&key) {
                true => Change::put(key, value).expire_after(self.options.storage.event_ttl),
                false => Change::put(key, value),
            };
            commits.add(&**objects, change).map_err(|error| {
                failed = Some(error);
                store::Error::Closed
            })
        });
        match failed {
            Some(error) => Err(error),
            None => {
                visited?;
                commits.finish()
            }
        }
    }

    /// Reads every object back, and compares it with what it was in the source.
    fn verify(&self, source: &mut Source, begin: Instant) -> Result<(), Error> {
        let mut comparison = Comparison::new(self.contents);
        for cluster in self.clusters.all() {
            let newest = wait(cluster.raw.newest_revision())?;
            self.clusters.load(cluster, newest, &mut |entry| comparison.add(entry))?;
        }
        // An object of an older version may lack what is a default today, which etcd's layout adds when it is
        // read.
        if !comparison.changed.is_empty() {
            let etcd = &self.options.storage.etcd;
            let plain = Layout::new(&etcd.prefix, MediaType::Json).with_families(etcd.families);
            source.visit(&mut |entry| {
                if let Some(wanted) = self.wanted(entry)
                    && let Some(found) = comparison.changed.get(&wanted.key)
                    && normal(&plain, &wanted).as_ref() == Ok(found)
                {
                    comparison.changed.remove(&wanted.key);
                }
                Ok(())
            })?;
        }
        let is_over = begin.elapsed() >= self.options.storage.event_ttl;
        match comparison.finish(|key| is_over && self.expires(key)) {
            Ok(_) => Ok(()),
            Err(differences) => Err(Error::Differs { count: differences.count, names: differences.text() }),
        }
    }

    /// Gives up history, and removes the mark.
    fn release(&self) -> Result<Revision, Error> {
        let mut revision = Revision::ZERO;
        for cluster in self.clusters.all() {
            let newest = wait(cluster.raw.newest_revision())?;
            wait(cluster.raw.compact(newest))?;
            revision = revision.max(newest);
        }
        for cluster in self.clusters.others.iter().chain([&self.clusters.main]) {
            match wait(cluster.raw.commit(Change::delete(self.clusters.mark.clone()))) {
                // Two names may lead to one cluster.
                Ok(_) | Err(store::Error::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(revision)
    }

    /// An entry of the source that is to be written, in its frame.
    fn wanted(&self, entry: Result<Entry, Unreadable>) -> Option<Entry> {
        let entry = unsealed(self.seal, entry.ok()?).ok()?;
        self.contents.objects.contains_key(&entry.key).then_some(entry)
    }

    fn expires(&self, key: &Key) -> bool {
        !self.options.storage.event_ttl.is_zero() && is_under(key, event_expiry::EVENTS)
    }
}

/// The digest of an object as the layout reads its JSON.
fn normal(plain: &Layout, object: &Entry) -> Result<Digest, String> {
    let stored = plain.encode_value(&object.key, object.value.clone())?;
    let decoded = plain.decode_value(&object.key, stored, Patience::Wait);
    Digest::of(&decoded.map_err(|error| error.to_string())?)
}

fn check_empty(cluster: &Cluster) -> Result<(), Error> {
    let mut found = None;
    cluster.raw.load(b"", Some(wait(cluster.raw.newest_revision())?), &mut |entry| {
        found = Some(entry.map_or_else(|unreadable| unreadable.key().clone(), |entry| entry.key));
        ControlFlow::Break(())
    })?;
    match found {
        Some(key) => Err(Error::NotEmpty { servers: cluster.servers.clone(), key }),
        None => Ok(()),
    }
}

/// Waits for work of a store. Blocking, within the runtime.
pub(super) fn wait<T>(work: impl Future<Output = Result<T, store::Error>>) -> Result<T, store::Error> {
    Handle::current().block_on(work)
}

/// Commits that are under way.
#[derive(Default)]
struct Commits {
    tasks: JoinSet<UnderWay>,
    bytes: usize,
}

/// A commit that is under way.
struct UnderWay {
    key: Key,
    bytes: usize,
    outcome: Result<Committed, store::Error>,
}

impl Commits {
    /// Begins one more, after waiting for some of those before if there are enough.
    fn add(&mut self, store: &dyn Store, change: Change) -> Result<(), Error> {
        let (handle, key) = (Handle::current(), change.key.clone());
        let bytes = match &change.op {
            Op::Put(value) => value.len(),
            Op::Delete => 0,
        };
        while self.tasks.len() >= AT_ONCE || !self.tasks.is_empty() && self.bytes + bytes > BYTES_AT_ONCE {
            handle.block_on(self.next())?;
        }
        let commit = store.commit(change);
        self.bytes += bytes;
        self.tasks.spawn_on(async move { UnderWay { key, bytes, outcome: commit.await } }, &handle);
        Ok(())
    }

    fn finish(mut self) -> Result<(), Error> {
        Handle::current().block_on(async {
            while !self.tasks.is_empty() {
                self.next().await?;
            }
            Ok(())
        })
    }

    async fn next(&mut self) -> Result<(), Error> {
        match self.tasks.join_next().await {
            None => Ok(()),
            Some(Ok(UnderWay { key, bytes, outcome })) => {
                self.bytes = self.bytes.saturating_sub(bytes);
                outcome.map(drop).map_err(|cause| Error::Object { key, cause })
            }
            Some(Err(died)) => Err(Error::Runtime(std::io::Error::other(died))),
        }
    }
}

//! Making a store from the entries of a backup or of another store.

use super::{
    Recovered,
    build::Builder,
    engine::Engine,
    files::{self, Directory, Watermark},
    heads::{Heads, trusted},
    layout::Reach,
};
use crate::{Entry, Error, Head, Revision, Visitor};
use bytes::Bytes;
use std::{collections::HashSet, path::Path};

/// A store that is being made from entries. Until it is finished its directory is refused as a store.
/// Everything here blocks.
pub struct Filling {
    directory: Directory,
    builder: Builder,
    present: Heads,
    /// The revisions of what was added: the log has one change for each.
    revisions: HashSet<Revision>,
    /// Entries that share a revision with another entry, as etcd allows. They get revisions of their own at
    /// the end.
    colliding: Vec<Entry>,
}

/// A store that has all its entries, and whose directory is still refused as a store.
pub struct Filled {
    directory: Directory,
    revision: Revision,
}

impl Filling {
    /// The source of a filling that was interrupted in a directory; none if there was no such filling.
    pub fn interrupted(path: &Path) -> Result<Option<String>, Error> {
        files::restoring(path).map_err(Error::read)
    }

    /// Begins in an empty or missing directory; or continues, if an earlier filling from the same `source`
    /// was interrupted there. The source names a state that does not change: the same entries, at one
    /// revision.
    pub fn begin(path: &Path, source: &str) -> Result<Self, Error> {
        let directory = Directory::lock(path)?;
        if directory.restoring()?.as_deref() == Some(source)
            && let Ok(engine) = Engine::open(&directory.engine())
            && let Ok(recovered) = Recovered::read(&engine.view())
        {
            let builder = Builder::over(&directory.engine(), engine);
            return Ok(Self::new(directory, builder, recovered.heads));
        }
        directory.begin_restore(source)?;
        let builder = Builder::create(&directory.engine())?;
        Ok(Self::new(directory, builder, Heads::default()))
    }

    fn new(directory: Directory, builder: Builder, present: Heads) -> Self {
        Self { directory, builder, present, revisions: HashSet::new(), colliding: Vec::new() }
    }

    /// How many entries an earlier filling has written.
    #[must_use]
    pub fn present(&self) -> usize {
        self.present.keys(b"").count()
    }

    /// Adds an entry, unless the store has it already.
    pub fn add(&mut self, entry: Entry) -> Result<(), Error> {
        if !self.revisions.insert(entry.head.mod_revision) {
            self.colliding.push(entry);
            return Ok(());
        }
        match self.present.get(entry.key.as_bytes()) {
            Some(head) if head == entry.head => Ok(()),
            _ => self.builder.add(entry.key, entry.head, Some(entry.value)),
        }
    }

    /// Completes the store: see [`Filling::close`].
    pub fn finish(self, revision: Revision) -> Result<(), Error> {
        self.close(revision)?.complete()
    }

    /// Makes all entries durable. The history of the store starts at `revision`, which no entry is newer
    /// than, or a little later where entries had one revision.
    pub fn close(mut self, mut revision: Revision) -> Result<Filled, Error> {
        for Entry { key, head, value } in self.colliding {
            revision = revision.next();
            self.builder.add(key, Head { mod_revision: revision, ..head }, Some(value))?;
        }
        self.builder.finish(Reach { compacted: revision, swept: revision })?;
        Ok(Filled { directory: self.directory, revision })
    }
}

impl Filled {
    /// The revision that the history of the store starts at.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Visits every entry in key order.
    pub fn load(&self, visit: &mut Visitor<'_>) -> Result<(), Error> {
        let unreadable = |error| self.directory.unreadable(error);
        let engine = Engine::open(&self.directory.engine()).map_err(unreadable)?;
        let view = engine.view();
        let heads = Recovered::read(&view).map_err(unreadable)?.heads;
        for key in heads.keys(b"") {
            let Some(head) = heads.get(key) else { continue };
            let key = trusted(Bytes::copy_from_slice(key)).map_err(unreadable)?;
            let value = view.try_value(&key, head.mod_revision).map_err(Error::read)?;
            if visit(value.map(|value| Entry { key, head, value })).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Marks the store as complete.
    pub fn complete(self) -> Result<(), Error> {
        Watermark::create(&self.directory, self.revision)?;
        self.directory.end_restore()
    }

    /// Leaves the store incomplete, so that the next filling starts over.
    pub fn reject(self) -> Result<(), Error> {
        self.directory.forget_source()
    }
}

//! Building an engine from entries: for restores and rebuilds.

use super::{
    committer::put_rows,
    engine::{Durability, Engine, Rows, View, WriteError},
    files::Directory,
    layout::{self, Logged, Reach},
    media::Disk,
};
use crate::{ChangeKind, Damage, Error, Fate, Head, Key, Revision};
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// The rows are written this many bytes at a time.
const CHUNK: usize = 1 << 20;

/// An engine under construction.
pub(super) struct Builder {
    path: PathBuf,
    engine: Engine,
    rows: Rows,
}

impl Builder {
    /// Starts with an empty engine at `path`, whatever was there.
    pub(super) fn create(path: &Path) -> Result<Self, Error> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::read(error)),
            _ => {}
        }
        let engine = Engine::create(path).map_err(|error| Error::Unusable {
            path: path.into(),
            damage: Damage::Engine(error.to_string()),
        })?;
        Ok(Self { path: path.into(), engine, rows: Rows::default() })
    }

    /// Continues with an engine at `path` that an earlier builder left unfinished.
    pub(super) fn over(path: &Path, engine: Engine) -> Self {
        Self { path: path.into(), engine, rows: Rows::default() }
    }

    /// Adds a live entry; without a value it will be reported as corrupt.
    pub(super) fn add(&mut self, key: Key, head: Head, value: Option<Bytes>) -> Result<(), Error> {
        let logged = Logged { key, kind: ChangeKind::Put, head, previous: None };
        put_rows(&mut self.rows, &logged, value.as_deref());
        if self.rows.bytes() >= CHUNK {
            self.flush()?;
        }
        Ok(())
    }

    /// Makes everything durable and closes the engine.
    pub(super) fn finish(mut self, reach: Reach) -> Result<(), Error> {
        self.rows.put(layout::STATE.into(), layout::state_row(&reach));
        self.flush()?;
        self.engine.sync().map_err(|error| self.failed(error))
    }

    fn flush(&mut self) -> Result<(), Error> {
        let rows = std::mem::take(&mut self.rows);
        self.engine.write(rows, Durability::Lazy, &Disk).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: WriteError) -> Error {
        let error = match error {
            WriteError::Io(error) | WriteError::Sync(error) => error,
            WriteError::Stopped => {
                io::Error::other(format!("the engine in {} has stopped", self.path.display()))
            }
        };
        Error::io(error, Fate::NotWritten)
    }
}

/// Copies all entries that can be read into a new engine beside the old one, without history. An entry whose
/// value is damaged keeps its key, and is reported as corrupt until it is overwritten or deleted.
pub(super) fn rebuild(
    directory: &Directory,
    view: &View,
    heads: BTreeMap<Bytes, Option<Head>>,
    revision: Revision,
) -> Result<(), Error> {
    let mut builder = Builder::create(&directory.rebuilt_engine())?;
    for (key, head) in heads {
        let (Ok(key), Some(head)) = (Key::new(key), head) else { continue };
        let value = view.try_value(&key, head.mod_revision).map_err(Error::read)?;
        builder.add(key, head, value.ok())?;
    }
    builder.finish(Reach { compacted: revision, swept: revision })
}

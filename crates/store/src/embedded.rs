//! The store on disk: one directory, one process, the storage engine [fjall](https://docs.rs/fjall)
//! underneath.
//!
//! | thread | job |
//! |---|---|
//! | committer | judges, writes and syncs all waiting changes as one batch; reopens the engine when it fails |
//! | reader | reads for asynchronous callers: history for followers, values for answers |
//! | reclaimer | expires history, removes the versions that only history needed |
//! | ahead | up to four for the time of a long load or of opening: they read its parts ahead, in order |
//! | fjall's worker | flushes and merges the engine's files |
//!
//! `docs/store.md` has the layout on disk and what each kind of crash and damage leads to.

mod ahead;
mod build;
mod clock;
mod committer;
mod engine;
mod files;
mod filling;
mod heads;
mod journal;
mod layout;
mod media;
mod queue;
mod reader;
mod reclaim;
mod recovery;
mod reserve;
mod salvage;
mod shared;

use crate::{
    BoxFuture, Change, Committed, Damage, Entry, Error, Follow, Follower, Health, Key, Revision, Store,
    Visitor, change::VALUE_LIMIT, feed::check_reach,
};
use committer::{Command, Committer, Condition};
use engine::{Engine, ReadError};
use files::{Contents, Directory, Watermark};
pub use filling::{Filled, Filling};
use journal::Mended;
pub use media::{Disk, Media};
use reader::Reading;
use reclaim::Reclaimer;
use reserve::Reserve;
pub use salvage::{DamagedJournal, Salvage, SalvageReport};
use shared::{Recovered, Shared};
use std::{
    cell::Cell,
    future::ready,
    io,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Sender},
    },
    time::{Duration, SystemTime},
};
use tasks::{Name, Thread};
use tokio::sync::oneshot;

/// How an [`Embedded`] store behaves.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// For how long history is kept.
    pub retention: Duration,
    /// The most bytes in one value.
    pub value_limit: usize,
    /// The bytes of recent events that are kept in memory for followers; the others are read from disk.
    pub window: usize,
    /// The layer between the committer and the disk.
    pub media: Arc<dyn Media>,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            retention: Duration::from_secs(300),
            value_limit: VALUE_LIMIT,
            window: 8 << 20,
            media: Arc::new(Disk),
        }
    }
}

impl EmbeddedOptions {
    /// The interval at which the times of revisions are noted and history is checked for expiry.
    fn tick(&self) -> Duration {
        (self.retention / 20).clamp(Duration::from_millis(20), Duration::from_secs(1))
    }
}

/// A store in a directory that it owns.
pub struct Embedded {
    shared: Arc<Shared>,
    commands: queue::Sender,
    reading: Arc<Reading>,
    threads: Mutex<Option<Threads>>,
}

struct Threads {
    committer: Thread,
    reader: Thread,
    reclaimer: Thread,
    wake: Sender<()>,
}

impl Embedded {
    /// Opens the store in a directory, or makes one there if the directory is empty or missing. Blocking.
    pub fn open(path: &Path, options: EmbeddedOptions) -> Result<Self, Error> {
        check_clock(::clock::system())?;
        let directory = Directory::lock(path)?;
        if directory.settle()? == Contents::Nothing {
            directory.create()?;
        }
        let unreadable = |error| directory.unreadable(error);
        let watermark = Watermark::open(&directory)?;
        let acknowledged = watermark.read()?;
        let uncut = match journal::end(&directory.engine(), acknowledged).map_err(Error::read)? {
            journal::End::Usual(uncut) => uncut,
            journal::End::Early { found } => {
                return Err(directory.unusable(Damage::Lost { acknowledged, found }));
            }
        };
        let opened = open_complete(&directory, acknowledged);
        if let Err(Error::Unusable { .. }) = &opened {
            // A salvage may find more in the journal than the engine does.
            uncut.put_back().map_err(Error::read)?;
        }
        let Opened { mut engine, mended, mut recovered } = opened?;
        if mended == Some(Mended::Resealed) {
            build::rebuild(&directory, &engine.view(), recovered.heads.under(b""), recovered.revision)?;
            drop(engine);
            directory.swap_rebuilt().map_err(Error::read)?;
            engine = Engine::open(&directory.engine()).map_err(unreadable)?;
            recovered = Recovered::read(&engine.view()).map_err(unreadable)?;
        }
        let reserve = Reserve::open(&directory).map_err(Error::read)?;
        let shared = Arc::new(Shared::new(directory, options, engine, recovered));
        Self::start(shared, watermark, reserve).map_err(Error::read)
    }

    /// Opens the store in a directory; it is an error if there is none. Blocking.
    pub fn open_existing(path: &Path, options: EmbeddedOptions) -> Result<Self, Error> {
        if is_vacant(path).map_err(Error::read)? {
            return Err(Error::Unusable { path: path.into(), damage: Damage::Absent });
        }
        Self::open(path, options)
    }

    fn start(shared: Arc<Shared>, watermark: Watermark, reserve: Reserve) -> io::Result<Self> {
        let (commands, received) = queue::queue();
        let (jobs, todo) = mpsc::channel();
        let (wake, woken) = mpsc::channel();
        let journal = Cell::new(recovery::Journal::Sound);
        let mut committer = Committer {
            shared: shared.clone(),
            commands: received,
            reader: jobs.clone(),
            watermark,
            journal,
            reserve,
            condition: Condition::Working,
            unflushed: 0,
            carried: None,
            has_run: false,
        };
        let committer = tasks::thread(Name::StoreCommit, move || committer.run())?;
        let reader = tasks::thread(Name::StoreRead, {
            let shared = shared.clone();
            move || reader::run(&shared, &todo)
        })?;
        let reclaimer = tasks::thread(Name::StoreReclaim, {
            let (shared, commands, reader) = (shared.clone(), commands.clone(), jobs.clone());
            let reclaimer = Reclaimer { shared, commands, reader };
            move || reclaim::run(&reclaimer, &woken)
        })?;
        let threads = Mutex::new(Some(Threads { committer, reader, reclaimer, wake }));
        Ok(Self { shared, commands, reading: Reading::new(jobs), threads })
    }
}

/// fjall writes the time into its tables, and panics if that is before 1970.
fn check_clock(now: SystemTime) -> Result<(), Error> {
    if now >= SystemTime::UNIX_EPOCH {
        return Ok(());
    }
    let why =
        "the clock of the system shows a time before 1970, under which no table can be written: set it first";
    Err(Error::read(io::Error::new(io::ErrorKind::InvalidInput, why)))
}

/// Whether a directory is missing, or holds nothing of a store: then [`Embedded::open`] makes an empty one.
pub fn is_vacant(path: &Path) -> io::Result<bool> {
    files::is_vacant(path)
}

/// An engine that has every acknowledged change.
struct Opened {
    engine: Engine,
    mended: Option<Mended>,
    recovered: Recovered,
}

fn open_complete(directory: &Directory, acknowledged: Revision) -> Result<Opened, Error> {
    let unreadable = |error| directory.unreadable(error);
    let (engine, mended) = open_mended(&directory.engine(), acknowledged).map_err(unreadable)?;
    let recovered = Recovered::read(&engine.view()).map_err(unreadable)?;
    match recovery::check_complete(&recovered, acknowledged) {
        Some(damage) => Err(directory.unusable(damage)),
        None => Ok(Opened { engine, mended, recovered }),
    }
}

/// Opens the engine, after repairing its journals if necessary.
fn open_mended(path: &Path, acknowledged: Revision) -> Result<(Engine, Option<Mended>), ReadError> {
    match Engine::open(path) {
        Ok(engine) => Ok((engine, None)),
        Err(error @ (ReadError::Io(_) | ReadError::Missing(_))) => Err(error),
        Err(damaged) => match journal::mend(path, acknowledged) {
            Ok(Some(mended)) => Ok((Engine::open(path)?, Some(mended))),
            _ => Err(damaged),
        },
    }
}

impl Store for Embedded {
    fn commit(&self, change: Change) -> BoxFuture<'static, Result<Committed, Error>> {
        let sized = change.check_size(self.shared.options.value_limit);
        let commit = sized.and_then(|()| self.commands.commit(change));
        Box::pin(async move { commit?.answer().await })
    }

    fn known_revision(&self) -> Revision {
        self.shared.feed.revision()
    }

    fn newest_revision(&self) -> BoxFuture<'static, Result<Revision, Error>> {
        Box::pin(ready(Ok(self.shared.feed.revision())))
    }

    fn changed(&self, after: Revision) -> BoxFuture<'static, Result<(), Error>> {
        self.shared.feed.changed(after)
    }

    fn compacted(&self) -> Revision {
        self.shared.compacted()
    }

    fn get(&self, key: &Key) -> Result<Option<Entry>, Error> {
        self.shared.get(key)
    }

    fn load(&self, prefix: &[u8], at: Option<Revision>, visit: &mut Visitor<'_>) -> Result<Revision, Error> {
        self.shared.load(prefix, at, visit)
    }

    fn follow(&self, follow: Follow) -> Result<Box<dyn Follower>, Error> {
        if matches!(self.shared.health(), Health::Closed) {
            return Err(Error::Closed);
        }
        check_reach(follow.from, self.shared.compacted(), self.shared.feed.revision())?;
        Ok(self.shared.feed.follow(follow, self.reading.clone()))
    }

    fn compact(&self, to: Revision) -> BoxFuture<'static, Result<(), Error>> {
        let (reply, answer) = oneshot::channel();
        let commands = self.commands.clone();
        let queued = commands.send(Command::Compact { to, reply });
        let wake =
            self.threads.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|t| t.wake.clone());
        Box::pin(async move {
            queued?;
            let compacted = answer.await.unwrap_or_else(|_| Err(commands.unanswered()));
            if let Some(wake) = wake {
                wake.send(()).ok();
            }
            compacted
        })
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn health(&self) -> Health {
        match self.shared.health() {
            Health::Good => self.commands.stalled().map_or(Health::Good, Health::Failing),
            other => other,
        }
    }

    fn close(&self) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Threads { committer, reader, reclaimer, wake }) = threads.take() else { return };
        drop(wake);
        self.commands.send(Command::Close).ok();
        committer.end();
        reclaimer.end();
        self.reading.close();
        reader.end();
        self.shared.set_health(Health::Closed);
        *self.shared.engine.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.shared.directory.unlock();
        self.shared.feed.close();
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_1970_is_refused() {
        assert!(check_clock(SystemTime::UNIX_EPOCH).is_ok());
        let refused = check_clock(SystemTime::UNIX_EPOCH - Duration::from_secs(1)).unwrap_err();
        assert!(refused.to_string().contains("before 1970"), "{refused}");
    }
}

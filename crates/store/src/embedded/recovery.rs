//! Recovery after the disk or the engine has failed.
//!
//! The engine stops for good after a failed write, so it is closed and opened again once the disk takes
//! writes. The state on disk is then the truth: a write that failed may have survived, and is made visible
//! (guarantee 3 holds, because opening the engine syncs the journal, and one whose sync had failed is written
//! anew first). If the engine stopped because its background work met damaged rows, opening it again would
//! not help: it is rebuilt from the rows that can be read. Heads are known in memory, so an entry whose value
//! is lost keeps its key and is reported as corrupt until it is overwritten or deleted.

use super::{
    build,
    engine::{Engine, ReadError, View},
    layout::Reach,
    shared::{Recovered, Shared},
};
use crate::{Error, Event, Fate, Revision};
use std::{
    io,
    sync::{PoisonError, TryLockError},
};

/// Checks whether the disk takes writes again.
pub(super) fn probe(shared: &Shared) -> io::Result<()> {
    shared.options.media.write(1 << 20)?;
    shared.options.media.sync()?;
    shared.directory.probe()
}

/// What the last failure says about the newest journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Journal {
    /// Written pages can be synced.
    Sound,
    /// A sync failed: the system may hold pages that never reached the disk, and take them for clean.
    Suspect,
}

/// Makes the engine usable, and returns the changes after the announced revision that reached the disk.
pub(super) fn attempt(shared: &Shared, journal: Journal) -> Result<Vec<Event>, Error> {
    let in_place = shared.directory.check_place();
    in_place.and_then(|()| probe(shared)).map_err(|error| Error::io(error, Fate::NotWritten))?;
    if is_damaged(shared) {
        rebuild(shared)?;
    }
    let mut slot = shared.engine.write().unwrap_or_else(PoisonError::into_inner);
    // The old engine has to release its files before they can be opened again.
    *slot = None;
    let mut reopened = reopen(shared)?;
    if !reopened.survivors.is_empty() && journal == Journal::Suspect {
        drop(reopened);
        let rewritten = shared.directory.rewrite_journal();
        reopened = reopen(shared)?;
        if let Err(error) = rewritten {
            // Reads can go on; the surviving changes stay invisible until the journal could be written.
            *slot = Some(reopened.engine);
            return Err(Error::read(error));
        }
    }
    shared.raise_compacted(reopened.reach.compacted);
    shared.set_swept(reopened.reach.swept);
    *slot = Some(reopened.engine);
    Ok(reopened.survivors)
}

/// Replaces a journal that holds nothing any more, unless the engine is in use. Only the committer may call
/// this, so that nothing is written meanwhile.
pub(super) fn replace_journal(shared: &Shared) -> io::Result<()> {
    let mut slot = match shared.engine.try_write() {
        Ok(slot) => slot,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return Ok(()),
    };
    let Some(engine) = slot.take_if(|engine| engine.is_flushed()) else { return Ok(()) };
    engine.close_without_journal()?;
    let reopened = Engine::open(&shared.directory.engine());
    *slot = Some(reopened.map_err(|error| io::Error::other(error.to_string()))?);
    Ok(())
}

struct Reopened {
    engine: Engine,
    survivors: Vec<Event>,
    reach: Reach,
}

fn reopen(shared: &Shared) -> Result<Reopened, Error> {
    let open = || {
        let engine = Engine::open(&shared.directory.engine())?;
        let view = engine.view();
        let survivors = survivors(&view, shared.feed.revision())?;
        let reach = Recovered::reach(&view)?;
        drop(view);
        Ok(Reopened { engine, survivors, reach })
    };
    open().map_err(|error| shared.unreadable(error))
}

fn is_damaged(shared: &Shared) -> bool {
    let slot = shared.engine.read().unwrap_or_else(PoisonError::into_inner);
    let verified = slot.as_ref().map(|engine| engine.view().verify());
    matches!(verified, Some(Err(ReadError::Damaged(_))))
}

/// The changes after `announced`, up to the last that is complete.
fn survivors(view: &View, announced: Revision) -> Result<Vec<Event>, ReadError> {
    let mut events: Vec<Event> = Vec::new();
    for logged in view.log(announced, Revision(u64::MAX)) {
        let logged = logged?;
        let expected = events.last().map_or(announced, Event::revision).next();
        if logged.head.mod_revision != expected {
            return Err(ReadError::Damaged(format!("the log has no change {expected}")));
        }
        let value = view.value_of(&logged);
        events.push(logged.event(value));
    }
    Ok(events)
}

/// Puts a rebuilt engine without history in the place of the damaged one.
fn rebuild(shared: &Shared) -> Result<(), Error> {
    let revision = shared.feed.revision();
    let heads = shared.heads.read().unwrap_or_else(PoisonError::into_inner).under(b"");
    {
        let slot = shared.engine.read().unwrap_or_else(PoisonError::into_inner);
        let view = slot.as_ref().ok_or(Error::Closed)?.view();
        build::rebuild(&shared.directory, &view, heads, revision)?;
    }
    let mut slot = shared.engine.write().unwrap_or_else(PoisonError::into_inner);
    *slot = None;
    shared.raise_compacted(revision);
    shared.set_swept(revision);
    shared.directory.swap_rebuilt().map_err(Error::read)
}

/// Checks what was read from an engine against the newest revision that was ever acknowledged.
pub(super) fn check_complete(recovered: &Recovered, acknowledged: Revision) -> Option<crate::Damage> {
    let found = recovered.revision;
    (found < acknowledged).then_some(crate::Damage::Lost { acknowledged, found })
}

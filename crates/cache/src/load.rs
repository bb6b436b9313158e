//! Starting: everything at one revision, and the newest part of the history before it.

use crate::{
    CacheOptions, Entry, Error, Spec,
    entry::within,
    log::{KeyState, Log, Transition},
    open,
    snapshots::read,
    view::{Loaded, View},
};
use std::{
    collections::HashMap,
    mem,
    ops::ControlFlow,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::Instant,
};
use store::{Follow, Revision, Store};

/// How many entries are handed to the readers of bytes at a time.
const PIECE: usize = 64;

/// Everything at one revision.
pub(crate) struct Everything {
    pub(crate) revision: Revision,
    pub(crate) views: Vec<(Arc<Spec>, View)>,
}

/// Some entries of the store, in the order of their keys, with the types that they belong to.
struct LoadPart<T> {
    place: usize,
    found: Vec<(usize, T)>,
}

/// Entries of the store, not read yet.
type Raw = LoadPart<Result<store::Entry, store::Unreadable>>;

/// Loads the entries of some types at the newest revision, and skips the entries of other types.
pub(crate) async fn everything(store: Arc<dyn Store>, specs: Vec<Arc<Spec>>) -> Result<Everything, Error> {
    let work = move || load(&*store, &specs);
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Closed))
}

/// One thread reads the store, as many as there are processors read the bytes.
fn load(store: &dyn Store, specs: &[Arc<Spec>]) -> Result<Everything, Error> {
    let readers = thread::available_parallelism().map_or(1, usize::from).clamp(1, 8);
    let (pieces, received) = mpsc::sync_channel::<Raw>(2 * readers);
    let received = Mutex::new(received);
    let (revision, mut parts) = thread::scope(|scope| {
        let readers: Vec<_> = (0..readers).map(|_| scope.spawn(|| read_pieces(specs, &received))).collect();
        let revision = hand_out(store, specs, pieces);
        let parts: Result<Vec<_>, _> = readers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        let parts = parts.map_err(|_| Error::Closed)?;
        Ok::<_, Error>((revision?, parts.into_iter().flatten().collect::<Vec<_>>()))
    })?;
    parts.sort_unstable_by_key(|part| part.place);
    let mut by_type: Vec<Vec<Loaded>> = specs.iter().map(|_| Vec::new()).collect();
    for (at, loaded) in parts.into_iter().flat_map(|part| part.found) {
        if let Some(all) = by_type.get_mut(at) {
            all.push(loaded);
        }
    }
    let views = specs.iter().zip(by_type).map(|(spec, mut loaded)| {
        open::loaded(store, spec, &mut loaded);
        (spec.clone(), View::new(spec, revision, loaded))
    });
    Ok(Everything { revision, views: views.collect() })
}

fn hand_out(
    store: &dyn Store,
    specs: &[Arc<Spec>],
    pieces: mpsc::SyncSender<Raw>,
) -> Result<Revision, Error> {
    let places: HashMap<&[u8], usize> =
        specs.iter().enumerate().map(|(at, spec)| (spec.prefix().as_bytes(), at)).collect();
    // A single type is asked for alone.
    let prefix = match specs {
        [only] => format!("{}/", only.prefix()),
        _ => String::new(),
    };
    let mut piece = LoadPart { place: 0, found: Vec::with_capacity(PIECE) };
    let revision = store.load(prefix.as_bytes(), None, &mut |found| {
        let key = found.as_ref().map_or_else(store::Unreadable::key, |entry| &entry.key);
        if let Some(at) = places.get(prefix_of(key)) {
            piece.found.push((*at, found));
        }
        if piece.found.len() < PIECE {
            return ControlFlow::Continue(());
        }
        let next = LoadPart { place: piece.place + 1, found: Vec::with_capacity(PIECE) };
        match pieces.send(mem::replace(&mut piece, next)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    pieces.send(piece).map_err(|_| Error::Closed)?;
    Ok(revision)
}

fn read_pieces(specs: &[Arc<Spec>], received: &Mutex<mpsc::Receiver<Raw>>) -> Vec<LoadPart<Loaded>> {
    let mut pieces = Vec::new();
    loop {
        let piece = received.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(LoadPart { place, found }) = piece else { return pieces };
        let loaded = found
            .into_iter()
            .filter_map(|(at, found)| Some((at, read(specs.get(at)?, found, |_| KeyState::Absent))))
            .collect();
        pieces.push(LoadPart { place, found: loaded });
    }
}

/// The part of a key that names its type.
pub(crate) fn prefix_of(key: &store::Key) -> &[u8] {
    key.as_bytes().split(|byte| *byte == b'/').next().unwrap_or_default()
}

/// The logs of the loaded types, with the newest changes before the revision that they were loaded at. Where
/// history cannot be read, the logs start at that revision; they never start later, even if the store has
/// compacted that revision in the meantime.
pub(crate) async fn history(store: &Arc<dyn Store>, loaded: &Everything, options: &CacheOptions) -> Vec<Log> {
    let from = Revision(loaded.revision.0.saturating_sub(options.replay));
    for _ in 0..3 {
        let from = from.max(store.compacted()).min(loaded.revision);
        match replay(store, loaded, options, from).await {
            Ok(logs) => return logs,
            Err(store::Error::Compacted { .. }) => {}
            Err(_) => break,
        }
    }
    loaded.views.iter().map(|_| Log::new(loaded.revision)).collect()
}

async fn replay(
    store: &Arc<dyn Store>,
    loaded: &Everything,
    options: &CacheOptions,
    from: Revision,
) -> Result<Vec<Log>, store::Error> {
    let mut replay = Replay {
        types: loaded
            .views
            .iter()
            .enumerate()
            .map(|(at, (spec, _))| (spec.prefix().as_bytes(), at))
            .collect(),
        loaded,
        logs: loaded.views.iter().map(|_| Log::new(from)).collect(),
        written: HashMap::new(),
        now: Instant::now(),
    };
    let mut at = from;
    if at < loaded.revision {
        let mut follower = store.follow(Follow::after(from).with_previous_values())?;
        while at < loaded.revision {
            let batch = open::batch(store, follower.next().await?).await;
            at = batch.revision;
            let reach = batch.events.partition_point(|event| event.revision() <= loaded.revision);
            let events = batch.events.get(..reach).unwrap_or_default();
            for same_revision in events.chunk_by(|one, next| one.revision() == next.revision()) {
                replay.add(same_revision);
            }
            replay.trim(options.log_bytes);
        }
    }
    Ok(replay.logs)
}

struct Replay<'a> {
    types: HashMap<&'a [u8], usize>,
    loaded: &'a Everything,
    logs: Vec<Log>,
    /// The states that changes have made so far, by key, so that the next change of the key shares them.
    written: HashMap<store::Key, Arc<Entry>>,
    now: Instant,
}

impl Replay<'_> {
    /// Adds the changes of a revision.
    fn add(&mut self, events: &[store::Event]) {
        let mut by_type: HashMap<usize, Vec<Transition>> = HashMap::new();
        for event in events {
            if let Some((at, change)) = self.read(event) {
                by_type.entry(at).or_default().push(change);
            }
        }
        for (at, changes) in by_type {
            if let Some(log) = self.logs.get_mut(at) {
                log.push(changes, self.now);
            }
        }
    }

    /// A change, and the index of its type.
    fn read(&mut self, event: &store::Event) -> Option<(usize, Transition)> {
        let at = *self.types.get(prefix_of(&event.key))?;
        let (spec, view) = self.loaded.views.get(at)?;
        let key = within(spec, &event.key)?;
        let before = match &event.previous {
            Some(store::StoredEntry { head, value: Some(value) }) => {
                let written = self.written.remove(&event.key);
                let shared = written.filter(|entry| entry.mod_revision() == head.mod_revision);
                shared.map_or_else(|| KeyState::read(spec, &event.key, head, value), KeyState::Entry)
            }
            _ => KeyState::Absent,
        };
        let after = match (event.kind, view.get(key)) {
            (store::ChangeKind::Delete, _) => KeyState::Absent,
            (store::ChangeKind::Put, KeyState::Entry(entry)) if entry.mod_revision() == event.revision() => {
                KeyState::Entry(entry)
            }
            (store::ChangeKind::Put, _) => KeyState::read(spec, &event.key, &event.head, &event.value),
        };
        if let KeyState::Entry(entry) = &after {
            self.written.insert(event.key.clone(), entry.clone());
        }
        Some((at, Transition::new(event.revision(), key.into(), before, after)))
    }

    /// Keeps the logs within their budget, the largest first.
    fn trim(&mut self, budget: usize) {
        loop {
            let total: usize = self.logs.iter().map(Log::bytes).sum();
            let largest = self.logs.iter_mut().max_by_key(|log| log.bytes());
            match largest.filter(|log| total > budget && log.bytes() > 0) {
                Some(log) => drop(log.trim(None, total - budget)),
                None => return,
            };
        }
    }
}

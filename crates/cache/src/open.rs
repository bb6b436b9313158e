//! Values that could not be decrypted when they were read: they are opened outside of every lock, several at
//! a time.
//!
//! The store returns values without waiting for a KMS plugin. A value that it could not decrypt is
//! [`Unavailable`], and is kept so in the state of its type: the object is neither shown nor replaced. The
//! following task tries to open all such values again, each second and when a reader asks for one of them.

use crate::{Entry, Spec, log::KeyState, view::Loaded};
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};
use store::{Batch, Key, Revision, Store, Unavailable, Unreadable, Value};
use tokio::sync::{Notify, watch};

/// How many values are opened at the same time: each may wait for a KMS plugin.
const AT_ONCE: usize = 16;

/// Values that were opened, or that still cannot be read, by their key and the revision that wrote them.
#[derive(Default)]
pub(crate) struct Opened(HashMap<(Key, Revision), Value>);

impl Opened {
    pub(crate) fn get(&self, unavailable: &Unavailable) -> Option<&Value> {
        self.0.get(&(unavailable.key.clone(), unavailable.head.mod_revision))
    }
}

/// Opens values, several at a time. Blocking.
pub(crate) fn all(store: &dyn Store, values: &[Arc<Unavailable>]) -> Opened {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut opened = Vec::new();
        while let Some(value) = values.get(next.fetch_add(1, Ordering::Relaxed)) {
            opened.push(((value.key.clone(), value.head.mod_revision), store.open(value)));
        }
        opened
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..values.len().min(AT_ONCE)).map(|_| scope.spawn(work)).collect();
        let mut opened = Opened(work().into_iter().collect());
        // The values of a thread that panicked stay unavailable.
        others.into_iter().filter_map(|thread| thread.join().ok()).for_each(|more| opened.0.extend(more));
        opened
    })
}

/// Opens the values that a load could not decrypt, in place, and returns the opened entries. Blocking.
pub(crate) fn loaded(store: &dyn Store, spec: &Arc<Spec>, loaded: &mut [Loaded]) -> Vec<Arc<Entry>> {
    let values: Vec<_> = loaded.iter().filter_map(Loaded::unavailable).cloned().collect();
    let mut entries = Vec::new();
    if values.is_empty() {
        return entries;
    }
    let opened = all(store, &values);
    for found in loaded {
        let Some(unavailable) = found.unavailable() else { continue };
        match key_state(spec, unavailable, &opened) {
            KeyState::Entry(entry) => {
                entries.push(entry.clone());
                *found = Loaded::Entry(entry);
            }
            KeyState::Unreadable(read) => {
                if let Loaded::Unreadable { why, .. } = found {
                    *why = read;
                }
            }
            KeyState::Absent => {}
        }
    }
    entries
}

/// The state of a key after an attempt to open its value.
pub(crate) fn key_state(spec: &Arc<Spec>, unavailable: &Arc<Unavailable>, opened: &Opened) -> KeyState {
    match opened.get(unavailable) {
        Some(value) => KeyState::read(spec, &unavailable.key, &unavailable.head, value),
        None => KeyState::Unreadable(Unreadable::Unavailable(unavailable.clone())),
    }
}

/// Opens what a follower could not decrypt of a batch, previous values included.
pub(crate) async fn batch(store: &Arc<dyn Store>, mut batch: Batch) -> Batch {
    let values: Vec<_> =
        batch.events.iter_mut().flat_map(values_of).filter_map(|value| unavailable(value)).collect();
    if values.is_empty() {
        return batch;
    }
    let store = store.clone();
    let opened = tokio::task::spawn_blocking(move || all(&*store, &values)).await.unwrap_or_default();
    for value in batch.events.iter_mut().flat_map(values_of) {
        if let Some(read) = unavailable(value).and_then(|unavailable| opened.get(&unavailable).cloned()) {
            *value = read;
        }
    }
    batch
}

fn values_of(event: &mut store::Event) -> impl Iterator<Item = &mut Value> {
    let previous = event.previous.as_mut().and_then(|previous| previous.value.as_mut());
    [Some(&mut event.value), previous].into_iter().flatten()
}

/// The value, if it cannot be decrypted at present.
pub(crate) fn unavailable(value: &Value) -> Option<Arc<Unavailable>> {
    match value {
        Err(Unreadable::Unavailable(unavailable)) => Some(unavailable.clone()),
        _ => None,
    }
}

/// Rounds that open the values of all types that cannot be decrypted.
pub(crate) struct Rounds {
    /// Whether some state may have such a value.
    has_any: AtomicBool,
    /// A round is asked for.
    pub(crate) asked: Notify,
    /// How many rounds have begun, and ended.
    count: watch::Sender<(u64, u64)>,
}

impl Default for Rounds {
    fn default() -> Self {
        Self { has_any: AtomicBool::new(false), asked: Notify::new(), count: watch::Sender::new((0, 0)) }
    }
}

impl Rounds {
    /// A state has got a value that cannot be decrypted: the first round is due.
    pub(crate) fn note(&self) {
        self.has_any.store(true, Ordering::Release);
        self.asked.notify_one();
    }

    /// A state still has a value that cannot be decrypted, after a round.
    pub(crate) fn note_remaining(&self) {
        self.has_any.store(true, Ordering::Release);
    }

    /// Whether there may be a value to open; resets the mark until the next [`Rounds::note`].
    pub(crate) fn take(&self) -> bool {
        self.has_any.swap(false, Ordering::AcqRel)
    }

    /// Whether there may be a value to open.
    pub(crate) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    /// A round begins.
    pub(crate) fn begin(&self) {
        self.count.send_modify(|(begun, _)| *begun += 1);
    }

    /// The round has ended.
    pub(crate) fn end(&self) {
        self.count.send_modify(|(begun, ended)| *ended = *begun);
    }

    /// Asks for a round and waits for its end, at most for a time.
    pub(crate) async fn try_again(&self, wait: Duration) {
        let mut count = self.count.subscribe();
        let (begun, _) = *count.borrow_and_update();
        self.asked.notify_one();
        // Whether it ended or not, the caller looks again.
        let _ = tokio::time::timeout(wait, count.wait_for(|(_, ended)| *ended > begun)).await;
    }
}

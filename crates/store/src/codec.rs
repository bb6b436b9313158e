//! The translation between Keelson's keys and values and those of a store with a layout of its own.
//!
//! The layers above write keys such as `pods/default/web-1` and framed JSON. A store that shares its data
//! with other software has to keep another layout, such as the reference's keys under `/registry/` and
//! Protobuf values in etcd. [`Coded`] translates writes and reads, so that neither side knows the layout of
//! the other. A store with Keelson's own layout needs no codec.

use crate::{
    Batch, BoxFuture, Change, Committed, Conflict, Corrupt, Entry, Error, Event, Follow, Follower, Head,
    Health, Key, Op, Revision, Store, StoredEntry, Unavailable, Unreadable, Value, Visitor,
};
use bytes::Bytes;
use std::{
    collections::HashMap,
    ops::ControlFlow,
    sync::{Arc, Mutex, PoisonError},
};

/// Translates keys and values to the layout of a store, and back.
///
/// 1. Decoding undoes encoding, for keys and for values.
/// 2. `encode_key(key)` starts with `encode_prefix(prefix)` exactly if `key` starts with `prefix`, for
///    prefixes that are empty or have a whole first segment (`pods/`, `pods/default/web`).
/// 3. Keys with the same first segment keep their order.
///
/// The default methods for keys do not translate them.
pub trait Codec: Send + Sync + 'static {
    /// The prefix in the store, for keys that start with a prefix.
    fn encode_prefix(&self, prefix: &[u8]) -> Bytes {
        Bytes::copy_from_slice(prefix)
    }

    /// The key in the store; `None` if the store cannot have such a key.
    fn encode_key(&self, key: &Key) -> Option<Key> {
        Some(key.clone())
    }

    /// Keelson's key for a key of the store; `None` if the key does not belong to Keelson.
    fn decode_key(&self, stored: &Key) -> Option<Key> {
        Some(stored.clone())
    }

    /// The value for the store, or why the value cannot be encoded.
    fn encode_value(&self, key: &Key, value: Bytes) -> Result<Bytes, String>;

    /// Keelson's value for a value of the store, or why it cannot be read. With [`Patience::Now`], the codec
    /// neither blocks nor calls another process.
    fn decode_value(&self, key: &Key, stored: Bytes, patience: Patience) -> Result<Bytes, DecodeError>;
}

/// Whether a codec may wait for another process, such as a KMS plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// The codec answers with the keys that it has.
    Now,
    /// The codec may block for as long as its own time-outs say.
    Wait,
}

/// Why a codec cannot read a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not what the codec writes, with any key.
    #[error("{0}")]
    Damaged(String),
    /// The bytes cannot be decrypted now, or not without waiting.
    #[error("{0}")]
    Unavailable(String),
}

/// A store behind a codec. A value that the codec cannot read is logged once, by its key.
///
/// Loads, followers and commits decode with [`Patience::Now`], so that no value delays another one; a value
/// that is [`Unavailable`] then can be read by [`Store::open`].
pub struct Coded {
    store: Arc<dyn Store>,
    codec: Arc<Reporting>,
}

/// The most keys whose damage is remembered as logged.
const REPORTED: usize = 10_000;

/// A codec, and which unreadable values were logged.
struct Reporting {
    codec: Arc<dyn Codec>,
    /// The revision of the last value of a key that could not be read.
    reported: Mutex<HashMap<Key, Revision>>,
}

impl Reporting {
    /// Decodes a value. A value that cannot be read is logged, unless it was logged before, or waiting could
    /// help.
    fn decode(&self, key: &Key, head: Head, stored: Bytes, patience: Patience) -> Value {
        let reason = match self.codec.decode_value(key, stored.clone(), patience) {
            Ok(value) => return Ok(value),
            Err(reason) => reason,
        };
        let revision = head.mod_revision;
        if patience == Patience::Wait || matches!(reason, DecodeError::Damaged(_)) {
            self.report(key, revision, &reason);
        }
        Err(match reason {
            DecodeError::Damaged(reason) => Corrupt { key: key.clone(), revision, reason }.into(),
            DecodeError::Unavailable(reason) => Unavailable { key: key.clone(), head, reason, stored }.into(),
        })
    }

    /// Logs that a value cannot be read, unless it was logged before.
    fn report(&self, key: &Key, revision: Revision, reason: &DecodeError) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.len() >= REPORTED {
            reported.clear();
        }
        if reported.insert(key.clone(), revision) != Some(revision) {
            log::error!(key:%, revision = revision.0, reason:%; "a stored value cannot be read");
        }
    }
}

impl std::ops::Deref for Reporting {
    type Target = dyn Codec;

    fn deref(&self) -> &Self::Target {
        &*self.codec
    }
}

impl Coded {
    /// Translates for a store.
    pub fn new(store: Arc<dyn Store>, codec: Arc<dyn Codec>) -> Self {
        Self { store, codec: Arc::new(Reporting { codec, reported: Mutex::default() }) }
    }

    fn encode(&self, change: Change) -> Result<Change, Error> {
        let Change { key, op, expect, returning, lifetime } = change;
        let unfit = |reason| Error::Unencodable { key: key.clone(), reason };
        let stored = self.codec.encode_key(&key).ok_or_else(|| unfit("the key has no place".into()))?;
        let op = match op {
            Op::Put(value) => Op::Put(self.codec.encode_value(&key, value).map_err(unfit)?),
            Op::Delete => Op::Delete,
        };
        Ok(Change { key: stored, op, expect, returning, lifetime })
    }
}

/// Translates a value of the store.
fn value(codec: &Reporting, key: &Key, head: Head, value: Value) -> Value {
    match value {
        Ok(stored) => codec.decode(key, head, stored, Patience::Now),
        Err(unreadable) => Err(with_key(unreadable, key.clone())),
    }
}

/// Why an entry cannot be read, by its translated key.
fn with_key(unreadable: Unreadable, key: Key) -> Unreadable {
    match unreadable {
        Unreadable::Corrupt(corrupt) => Corrupt { key, ..(*corrupt).clone() }.into(),
        Unreadable::Unavailable(unavailable) => Unavailable { key, ..(*unavailable).clone() }.into(),
    }
}

fn stored(codec: &Reporting, key: &Key, stored: StoredEntry) -> StoredEntry {
    let StoredEntry { head, value: found } = stored;
    StoredEntry { head, value: found.map(|found| value(codec, key, head, found)) }
}

fn entry(codec: &Reporting, entry: Entry, patience: Patience) -> Option<Result<Entry, Unreadable>> {
    let Entry { key, head, value: found } = entry;
    let key = codec.decode_key(&key)?;
    Some(codec.decode(&key, head, found, patience).map(|value| Entry { key, head, value }))
}

fn unreadable(codec: &Reporting, unreadable: Unreadable) -> Option<Unreadable> {
    let key = codec.decode_key(unreadable.key())?;
    Some(with_key(unreadable, key))
}

fn event(codec: &Reporting, event: Event) -> Option<Event> {
    let Event { key, kind, head, value: found, previous } = event;
    let key = codec.decode_key(&key)?;
    let found = match kind {
        crate::ChangeKind::Put => value(codec, &key, head, found),
        crate::ChangeKind::Delete => found,
    };
    let previous = previous.map(|previous| stored(codec, &key, previous));
    Some(Event { key, kind, head, value: found, previous })
}

fn error(codec: &Reporting, error: Error) -> Error {
    match error {
        Error::Conflict(conflict) => {
            let Conflict { key, found } = *conflict;
            let key = codec.decode_key(&key).unwrap_or(key);
            let found = found.map(|found| stored(codec, &key, found));
            Box::new(Conflict { key, found }).into()
        }
        Error::Corrupt(damaged) => {
            let translated = unreadable(codec, damaged.clone().into());
            translated.map_or_else(|| damaged.into(), Error::from)
        }
        other => other,
    }
}

impl Store for Coded {
    fn commit(&self, change: Change) -> BoxFuture<'static, Result<Committed, Error>> {
        let (key, codec) = (change.key.clone(), self.codec.clone());
        let committed = self.encode(change).map(|change| self.store.commit(change));
        Box::pin(async move {
            let outcome = committed?.await.map_err(|failed| error(&codec, failed))?;
            let previous = outcome.previous.map(|previous| stored(&codec, &key, previous));
            Ok(Committed { previous, ..outcome })
        })
    }

    fn known_revision(&self) -> Revision {
        self.store.known_revision()
    }

    fn lineage(&self) -> u64 {
        self.store.lineage()
    }

    fn newest_revision(&self) -> BoxFuture<'static, Result<Revision, Error>> {
        self.store.newest_revision()
    }

    fn changed(&self, after: Revision) -> BoxFuture<'static, Result<(), Error>> {
        self.store.changed(after)
    }

    fn compacted(&self) -> Revision {
        self.store.compacted()
    }

    fn open(&self, unavailable: &Unavailable) -> Value {
        let Unavailable { key, head, stored, .. } = unavailable;
        self.codec.decode(key, *head, stored.clone(), Patience::Wait)
    }

    fn get(&self, key: &Key) -> Result<Option<Entry>, Error> {
        let Some(stored) = self.codec.encode_key(key) else { return Ok(None) };
        let found = self.store.get(&stored).map_err(|failed| error(&self.codec, failed))?;
        found.and_then(|found| entry(&self.codec, found, Patience::Wait)).transpose().map_err(Error::from)
    }

    fn load(&self, prefix: &[u8], at: Option<Revision>, visit: &mut Visitor<'_>) -> Result<Revision, Error> {
        let codec = &*self.codec;
        self.store.load(&codec.encode_prefix(prefix), at, &mut |found| {
            let found = match found {
                Ok(found) => entry(codec, found, Patience::Now),
                Err(damaged) => unreadable(codec, damaged).map(Err),
            };
            found.map_or(ControlFlow::Continue(()), &mut *visit)
        })
    }

    fn follow(&self, follow: Follow) -> Result<Box<dyn Follower>, Error> {
        let prefix = self.codec.encode_prefix(&follow.prefix);
        let follower = self.store.follow(Follow { prefix, ..follow })?;
        Ok(Box::new(CodedFollower { follower, codec: self.codec.clone() }))
    }

    fn compact(&self, to: Revision) -> BoxFuture<'static, Result<(), Error>> {
        self.store.compact(to)
    }

    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    fn expires(&self) -> bool {
        self.store.expires()
    }

    fn health(&self) -> Health {
        self.store.health()
    }

    fn close(&self) {
        self.store.close();
    }
}

struct CodedFollower {
    follower: Box<dyn Follower>,
    codec: Arc<Reporting>,
}

fn batch(codec: &Reporting, batch: Batch) -> Batch {
    let events = batch.events.into_iter().filter_map(|stored| event(codec, stored)).collect();
    Batch { events, revision: batch.revision }
}

impl Follower for CodedFollower {
    fn next(&mut self) -> BoxFuture<'_, Result<Batch, Error>> {
        Box::pin(async {
            let next = self.follower.next().await.map_err(|failed| error(&self.codec, failed))?;
            Ok(batch(&self.codec, next))
        })
    }

    fn try_next(&mut self) -> Option<Result<Batch, Error>> {
        let next = self.follower.try_next()?;
        Some(next.map(|next| batch(&self.codec, next)).map_err(|failed| error(&self.codec, failed)))
    }
}

//! Objects that need a conversion webhook, as JSON of the requested version: converted in groups, before they
//! are written.
//!
//! The results are kept in the cache of encodings. While they are there, lists and watches do not call the
//! webhook again; a response with one object does, as in the reference. A response holds the objects that it
//! is about to write, so that they are not evicted before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cache::Entry;
use object::Value;
use schema::{Limits, Status, json};
use store::Revision;

use super::ObjectEncoder;
use super::encodings::{CachedEncoding, cache_id};
use crate::large::LARGE;

/// The objects that a response holds, by their keys and revisions. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Converted(Arc<Mutex<HashMap<(String, Revision), Bytes>>>);

impl Converted {
    fn held(&self) -> MutexGuard<'_, HashMap<(String, Revision), Bytes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an earlier result of the conversion is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reuse {
    Kept,
    Nothing,
}

impl ObjectEncoder {
    /// Converts objects that are about to be written, if that needs a webhook; they cannot be written without
    /// this. The objects of the calls before are dropped.
    pub(crate) async fn convert_ahead(&self, entries: &[Arc<Entry>]) -> Result<(), Status> {
        let Some(converted) = &self.converted else { return Ok(()) };
        let ready = self.convert(entries, Reuse::Kept).await?;
        *converted.held() = ready.into_iter().collect();
        Ok(())
    }

    /// [`Self::convert_ahead`] that keeps the objects of the calls before. Returns the number of added bytes.
    pub(crate) async fn convert_also(&self, entries: &[Arc<Entry>]) -> Result<usize, Status> {
        let Some(converted) = &self.converted else { return Ok(0) };
        let ready = self.convert(entries, Reuse::Kept).await?;
        let size = ready.iter().map(|(_, json)| json.len()).sum();
        converted.held().extend(ready);
        Ok(size)
    }

    /// Converts the one object of an answer, if its conversion waits.
    pub(crate) async fn convert_one(&self, entry: &Arc<Entry>) -> Result<(), Status> {
        let Some(converted) = &self.converted else { return Ok(()) };
        let ready = self.convert(std::slice::from_ref(entry), Reuse::Nothing).await?;
        *converted.held() = ready.into_iter().collect();
        Ok(())
    }

    /// Whether an object can be written: it needs no conversion that waits, or is held.
    pub(crate) fn is_ready(&self, entry: &Entry) -> bool {
        self.converted.is_none() || self.is_as_stored(entry) || self.converted_json(entry).is_some()
    }

    /// The JSON of an object that is held.
    pub(super) fn converted_json(&self, entry: &Entry) -> Option<Bytes> {
        self.converted.as_ref()?.held().get(&key(entry)).cloned()
    }

    /// The tree of an object whose conversion waits.
    pub(super) fn converted_tree(&self, entry: &Entry) -> Result<Value, Status> {
        let json = self.kept(entry, CachedEncoding::Json);
        let json = json.ok_or_else(|| Status::internal_error("an object was not converted ahead"))?;
        let decoded = json::decode(&self.served.ty, &json, &Limits::STORED);
        decoded.map(|decoded| decoded.value).map_err(|error| Status::internal_error(&error.to_string()))
    }

    /// The JSON of the objects that are not as they are stored.
    async fn convert(
        &self,
        entries: &[Arc<Entry>],
        reuse: Reuse,
    ) -> Result<Vec<((String, Revision), Bytes)>, Status> {
        let (mut ready, mut due) = (Vec::new(), Vec::new());
        for entry in entries.iter().filter(|entry| !self.is_as_stored(entry)) {
            match self.kept(entry, CachedEncoding::Json).filter(|_| reuse == Reuse::Kept) {
                Some(json) => ready.push((key(entry), json)),
                None => due.push(entry.clone()),
            }
        }
        if due.is_empty() {
            return Ok(ready);
        }
        let objects = self.served.read(&due).await?;
        let id = cache_id(CachedEncoding::Json, &self.served);
        let encode = || {
            for (entry, object) in due.iter().zip(&objects) {
                let mut out = Vec::with_capacity(entry.bytes().len());
                json::encode(&self.served.ty, object, &mut out);
                let json = Bytes::from(out);
                self.cache.encodings().get(entry, id, |_| Ok::<_, Status>(json.clone()))?;
                ready.push((key(entry), json));
            }
            Ok(ready)
        };
        let size: usize = due.iter().map(|entry| entry.bytes().len()).sum();
        match size {
            ..=LARGE => encode(),
            large => self.large.permit(large).await.run(|_| encode()),
        }
    }
}

fn key(entry: &Entry) -> (String, Revision) {
    (entry.key().to_owned(), entry.mod_revision())
}

//! Encoded documents that are shared by the responses that send them.
//!
//! Documents are kept compressed, and most are seldom requested. Another form of a document is made for the
//! first response that needs it, shared with the responses that start while it is sent, and dropped with the
//! last of them: it is in memory once, however many slow clients read it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;

/// The documents that current responses hold, by key.
pub(super) struct InUse<K>(Mutex<HashMap<K, DocumentSlot>>);

/// The slot of a document. Its lock is held while the document is made.
type DocumentSlot = Arc<Mutex<Weak<Vec<u8>>>>;

impl<K> Default for InUse<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> InUse<K> {
    /// The document of a key; `make` makes it if no response holds it. Concurrent callers for the same key
    /// wait while one of them makes it.
    pub(super) fn get<E>(&self, key: K, make: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Bytes, E> {
        let slot = self.slot(key);
        let mut kept = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let document = match kept.upgrade() {
            Some(document) => document,
            None => {
                let document = Arc::new(make()?);
                *kept = Arc::downgrade(&document);
                document
            }
        };
        Ok(Bytes::from_owner(Document(document)))
    }

    /// The slot of a key. Unused slots are removed when a new one is added.
    fn slot(&self, key: K) -> DocumentSlot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(&key) {
            return slot.clone();
        }
        slots.retain(|_, slot| Arc::strong_count(slot) > 1 || is_in_use(slot));
        slots.entry(key).or_default().clone()
    }
}

/// Whether a response holds the document of a slot that has no other owner, so that nobody is making it.
fn is_in_use(slot: &DocumentSlot) -> bool {
    slot.lock().unwrap_or_else(PoisonError::into_inner).strong_count() > 0
}

/// The owner of the bytes of a document.
struct Document(Arc<Vec<u8>>);

impl AsRef<[u8]> for Document {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn responses_at_the_same_time_share_a_document() {
        let in_use = InUse::default();
        let mut made = 0;
        let mut get = |key: &'static str| {
            let outcome = in_use.get(key, || {
                made += 1;
                Ok::<_, Infallible>(format!("{key} {made}").into_bytes())
            });
            outcome.unwrap_or_else(|never| match never {})
        };
        let (first, second, other) = (get("a"), get("a"), get("b"));
        assert_eq!((&*first, &*second, &*other), (&b"a 1"[..], &b"a 1"[..], &b"b 2"[..]));
        assert_eq!(first.as_ptr(), second.as_ptr());
        let rest = second.slice(2..);
        drop((first, second));
        assert_eq!(get("a"), "a 1", "a part of it is enough");
        drop((rest, other));
        assert_eq!(get("a"), "a 3");
        get("c");
        assert_eq!(in_use.0.lock().unwrap().len(), 1, "what nobody uses is given up");
    }
}

//! Documents in the forms in which they are sent, shared by the responses under way.
//!
//! Documents are kept compressed, and most are seldom asked for. So another form of one is made for the first
//! response that needs it, shared with those that come while it is sent, and dropped with the last of them:
//! however many clients read it slowly, it is in memory once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;

/// The documents that responses under way have, by what they are.
pub(super) struct InUse<K>(Mutex<HashMap<K, Slot>>);

/// The place of a document. Who makes it has the lock.
type Slot = Arc<Mutex<Weak<Vec<u8>>>>;

impl<K> Default for InUse<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> InUse<K> {
    /// The document of a key, which `make` makes if no response has it. Concurrent callers for the same one
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

    /// The place of a key. Places that nobody uses are given up when there is a new one.
    fn slot(&self, key: K) -> Slot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(&key) {
            return slot.clone();
        }
        slots.retain(|_, slot| Arc::strong_count(slot) > 1 || is_in_use(slot));
        slots.entry(key).or_default().clone()
    }
}

/// Whether a response has the document. Nobody makes it: the place has no other owner.
fn is_in_use(slot: &Slot) -> bool {
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

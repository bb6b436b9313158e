//! The decrypted keys of stored values, so that the plugin is called once for each key and not for each value.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::Error;
use crate::blocking::off_worker;

use super::key::ReadKey;

/// How many keys are kept. There is one for each start of a server and each key of the plugin.
const MOST: usize = 4096;
/// How long a key is kept when others are added.
const LIFE: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) type KeyDigest = [u8; 32];

type Answer = Result<Arc<ReadKey>, Error>;

/// Keys by the digest of their encrypted form.
#[derive(Default)]
pub(crate) struct Keys {
    kept: RwLock<HashMap<KeyDigest, Kept>>,
    /// Keys that the plugin is asked for at this moment. All readers of the same one share the answer.
    asked: Mutex<HashMap<KeyDigest, Arc<OnceLock<Answer>>>>,
}

struct Kept {
    key: Arc<ReadKey>,
    since: Instant,
}

impl Keys {
    /// The key, by `ask` if it is not known yet. May block while `ask` does.
    pub(crate) fn find(&self, digest: KeyDigest, ask: impl FnOnce() -> Answer) -> Answer {
        if let Some(key) = self.known(&digest) {
            return Ok(key);
        }
        let asked = self.asked().entry(digest).or_default().clone();
        let answer = off_worker(|| {
            asked.get_or_init(|| {
                // Another reader may have got the key since.
                let answer = self.known(&digest).map_or_else(ask, Ok);
                if let Ok(key) = &answer {
                    self.insert(digest, key.clone());
                }
                self.asked().remove(&digest);
                answer
            })
        });
        answer.clone()
    }

    /// Keeps a key.
    pub(crate) fn insert(&self, digest: KeyDigest, key: Arc<ReadKey>) {
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        kept.retain(|_, kept| now.duration_since(kept.since) < LIFE);
        if kept.len() >= MOST {
            let oldest = kept.iter().min_by_key(|(_, kept)| kept.since).map(|(digest, _)| *digest);
            oldest.and_then(|oldest| kept.remove(&oldest));
        }
        kept.insert(digest, Kept { key, since: now });
    }

    fn known(&self, digest: &KeyDigest) -> Option<Arc<ReadKey>> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.get(digest).map(|kept| kept.key.clone())
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<KeyDigest, Arc<OnceLock<Answer>>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kms::envelope::KEY;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    fn key() -> Answer {
        ReadKey::new(KEY, &[7; 32]).map(Arc::new)
    }

    #[test]
    fn readers_of_the_same_key_share_one_call_and_its_error() {
        let (keys, calls) = (Keys::default(), AtomicUsize::new(0));
        let ask = |answer: fn() -> Answer| {
            let (keys, calls) = (&keys, &calls);
            thread::scope(|scope| {
                let readers: Vec<_> = (0..8)
                    .map(|_| {
                        scope.spawn(move || {
                            keys.find([1; 32], || {
                                calls.fetch_add(1, Ordering::SeqCst);
                                thread::sleep(Duration::from_millis(200));
                                answer()
                            })
                            .is_ok()
                        })
                    })
                    .collect();
                readers.into_iter().map(|reader| reader.join().unwrap()).collect::<Vec<_>>()
            })
        };
        assert_eq!(ask(|| Err(Error::TooShort)), [false; 8]);
        assert!(calls.load(Ordering::SeqCst) < 8);
        calls.store(0, Ordering::SeqCst);
        assert_eq!(ask(key), [true; 8]);
        assert_eq!(ask(|| Err(Error::TooShort)), [true; 8]);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn number_of_keys_is_bounded() {
        let keys = Keys::default();
        for at in 0..MOST + 10 {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&at.to_be_bytes());
            keys.insert(digest, key().unwrap());
        }
        assert_eq!(keys.kept.read().unwrap().len(), MOST);
        assert!(!keys.kept.read().unwrap().contains_key(&[0; 32]));
    }
}

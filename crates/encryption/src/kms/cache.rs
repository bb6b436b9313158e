//! The decrypted keys of stored values, so that the plugin is called once for each key and not for each
//! value.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::Error;
use tasks::off_worker;

use super::key::ReadKey;

/// How many keys are kept. There is one for each start of a server and each key of the plugin.
const MOST: usize = 4096;
/// How long a key is kept when others are added.
const LIFE: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) type KeyDigest = [u8; 32];

type Answer = Result<Arc<ReadKey>, Error>;

/// The outcome of a call of the plugin.
pub(crate) enum Asked {
    /// The plugin answered, with a key or an error about this key.
    Answered(Answer),
    /// The plugin did not answer: it is not called again for a moment.
    Unanswered(Error),
}

/// Keys by the digest of their encrypted form.
pub(crate) struct Keys {
    kept: RwLock<HashMap<KeyDigest, Kept>>,
    /// Keys that the plugin is being asked for. All readers of the same key share the answer.
    asked: Mutex<HashMap<KeyDigest, Arc<OnceLock<Answer>>>>,
    failures: Mutex<Failures>,
    /// How long a failure is repeated to others.
    failed_for: Duration,
}

struct Kept {
    key: Arc<ReadKey>,
    since: Instant,
}

/// Recent failures.
#[derive(Default)]
struct Failures {
    /// The plugin did not answer.
    plugin: Option<(Instant, Error)>,
    /// The plugin answered with an error.
    keys: HashMap<KeyDigest, (Instant, Error)>,
}

impl Keys {
    /// No keys so far.
    pub(crate) fn new(failed_for: Duration) -> Self {
        Self { kept: RwLock::default(), asked: Mutex::default(), failures: Mutex::default(), failed_for }
    }

    /// The key, by `ask` if it is not known yet. May block while `ask` does.
    pub(crate) fn find(&self, digest: KeyDigest, ask: impl FnOnce() -> Asked) -> Answer {
        if let Some(key) = self.known(&digest) {
            return Ok(key);
        }
        if let Some(error) = self.failure(&digest) {
            return Err(error);
        }
        let asked = self.asked().entry(digest).or_default().clone();
        let answer = off_worker(|| {
            asked.get_or_init(|| {
                // Another reader may have received the key since.
                let answer = match self.known(&digest) {
                    Some(key) => Ok(key),
                    None => self.take(digest, ask()),
                };
                self.asked().remove(&digest);
                answer
            })
        });
        answer.clone()
    }

    /// Stores the outcome of a call.
    fn take(&self, digest: KeyDigest, asked: Asked) -> Answer {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        failures.keys.retain(|_, (at, _)| now.duration_since(*at) < self.failed_for);
        match asked {
            Asked::Answered(answer) => {
                failures.plugin = None;
                match &answer {
                    Ok(key) => self.insert(digest, key.clone()),
                    Err(error) if failures.keys.len() < MOST => {
                        failures.keys.insert(digest, (now, error.clone()));
                    }
                    Err(_) => {}
                }
                answer
            }
            Asked::Unanswered(error) => {
                failures.plugin = Some((now, error.clone()));
                Err(error)
            }
        }
    }

    /// The recent failure that a call for a key would repeat.
    fn failure(&self, digest: &KeyDigest) -> Option<Error> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let found = failures.keys.get(digest).or(failures.plugin.as_ref());
        found.filter(|(at, _)| at.elapsed() < self.failed_for).map(|(_, error)| error.clone())
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

    /// A key that was found before.
    pub(crate) fn known(&self, digest: &KeyDigest) -> Option<Arc<ReadKey>> {
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
        let (keys, calls) = (Keys::new(Duration::ZERO), AtomicUsize::new(0));
        let ask = |answer: fn() -> Answer| {
            let (keys, calls) = (&keys, &calls);
            thread::scope(|scope| {
                let readers: Vec<_> = (0..8)
                    .map(|_| {
                        scope.spawn(move || {
                            keys.find([1; 32], || {
                                calls.fetch_add(1, Ordering::SeqCst);
                                thread::sleep(Duration::from_millis(200));
                                Asked::Answered(answer())
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
    fn a_failed_call_is_not_repeated_for_a_moment() {
        let keys = Keys::new(Duration::from_secs(3600));
        let refused = keys.find([1; 32], || Asked::Answered(Err(Error::TooShort)));
        assert_eq!(refused.err(), Some(Error::TooShort));
        assert!(keys.find([1; 32], || Asked::Answered(key())).is_err());
        // The plugin answered: other keys are asked for.
        assert!(keys.find([2; 32], || Asked::Answered(key())).is_ok());
        let unanswered = keys.find([3; 32], || Asked::Unanswered(Error::Random));
        assert_eq!(unanswered.err(), Some(Error::Random));
        assert_eq!(keys.find([4; 32], || Asked::Answered(key())).err(), Some(Error::Random));
        assert!(keys.find([2; 32], || Asked::Unanswered(Error::Random)).is_ok(), "a known key needs no call");
    }

    #[test]
    fn number_of_keys_is_bounded() {
        let keys = Keys::new(Duration::ZERO);
        for at in 0..MOST + 10 {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&at.to_be_bytes());
            keys.insert(digest, key().unwrap());
        }
        assert_eq!(keys.kept.read().unwrap().len(), MOST);
        assert!(!keys.kept.read().unwrap().contains_key(&[0; 32]));
    }
}

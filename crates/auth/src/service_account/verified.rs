//! A cache of tokens with valid signatures. Other conditions for the validity of a token are not cached.

use super::Verified;
use aws_lc_rs::digest::{SHA256, digest};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How many tokens a generation has.
const MOST: usize = 2048;
/// Longer tokens are verified each time.
const LONGEST: usize = 8 << 10;

/// A token: only a digest of it is kept.
type Digest = [u8; 32];

/// Tokens in two generations: when the new one is full it becomes the old one; tokens of the old one that
/// were not used since are dropped.
#[derive(Default)]
pub(super) struct Tokens(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    new: HashMap<Digest, Arc<Verified>>,
    old: HashMap<Digest, Arc<Verified>>,
}

impl Tokens {
    /// The claims of a token; those that `verify` finds are kept for as long as the external keys have this
    /// generation.
    pub(super) fn of<E>(
        &self,
        token: &str,
        generation: u64,
        verify: impl FnOnce() -> Result<Option<Verified>, E>,
    ) -> Result<Option<Arc<Verified>>, E> {
        if token.len() > LONGEST {
            return verify().map(|verified| verified.map(Arc::new));
        }
        let mut key = Digest::default();
        key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        {
            let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let is_current = |known: &&Arc<Verified>| known.generation == generation;
            if let Some(known) = generations.new.get(&key).filter(is_current) {
                return Ok(Some(known.clone()));
            }
            if let Some(known) = generations.old.remove(&key).filter(|known| is_current(&known)) {
                generations.insert(key, known.clone());
                return Ok(Some(known));
            }
        }
        let Some(verified) = verify()? else { return Ok(None) };
        let verified = Arc::new(verified);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, verified.clone());
        Ok(Some(verified))
    }

    /// Forgets a token that is of no use any more.
    pub(super) fn remove(&self, token: &str) {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = digest(&SHA256, token.as_bytes());
        generations.new.remove(key.as_ref());
        generations.old.remove(key.as_ref());
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generations.new.len() + generations.old.len()
    }
}

impl Generations {
    fn insert(&mut self, key: Digest, verified: Arc<Verified>) {
        if self.new.len() >= MOST {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.insert(key, verified);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service_account::{Account, Reference};

    fn verified() -> Verified {
        Verified {
            issuer: "i".into(),
            subject: String::new(),
            audiences: Vec::new(),
            id: String::new(),
            expires: None,
            not_before: None,
            issued: None,
            is_legacy: false,
            warn_after: None,
            generation: 0,
            account: Account {
                namespace: String::new(),
                account: Reference::default(),
                pod: None,
                secret: None,
                node: None,
            },
        }
    }

    /// Whether a token is known without verifying it.
    fn knows(tokens: &Tokens, token: &str) -> bool {
        tokens.of(token, 0, || Ok::<_, ()>(None)).unwrap().is_some()
    }

    #[test]
    fn number_of_tokens_is_bounded_and_those_in_use_stay() {
        let tokens = Tokens::default();
        for number in 0..3 * MOST {
            tokens.of(&number.to_string(), 0, || Ok::<_, ()>(Some(verified()))).unwrap();
            assert!(number == 0 || knows(&tokens, "0"), "the first one is in use: {number}");
        }
        assert!(tokens.len() <= 2 * MOST);
        assert!(!knows(&tokens, "1"));
    }

    #[test]
    fn only_verified_tokens_of_usual_length_are_kept() {
        let tokens = Tokens::default();
        assert_eq!(tokens.of("a", 0, || Err::<_, ()>(())), Err(()));
        assert_eq!(tokens.of("a", 0, || Ok::<_, ()>(None)), Ok(None));
        let long = "x".repeat(LONGEST + 1);
        assert!(tokens.of(&long, 0, || Ok::<_, ()>(Some(verified()))).unwrap().is_some());
        assert_eq!(tokens.len(), 0);
        tokens.of("a", 0, || Ok::<_, ()>(Some(verified()))).unwrap();
        assert!(knows(&tokens, "a"));
        assert_eq!(tokens.of("a", 1, || Ok::<_, ()>(None)), Ok(None), "the keys are others");
        tokens.remove("a");
        assert!(!knows(&tokens, "a"));
    }
}

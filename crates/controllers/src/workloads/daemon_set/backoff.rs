//! Pauses between the replacements of pods that fail again and again on a node.

use clock::Instant;
use object::Text;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// How long a pause is remembered; then the next one is the first again.
const REMEMBERED: Duration = Duration::from_secs(30 * 60);
/// How often pauses that are not remembered any more are looked for.
const SWEEP: Duration = Duration::from_secs(60);

/// A daemon set by its uid, its generation, and a node.
pub(super) type Key = (Text, i64, Text);

/// The pauses, by daemon set and node.
#[derive(Default)]
pub(super) struct Backoff(Mutex<State>);

#[derive(Default)]
struct State {
    pauses: HashMap<Key, Pause>,
    swept: Option<Instant>,
}

struct Pause {
    begun: Instant,
    length: Duration,
}

impl Backoff {
    /// Begins the next pause, unless one has not ended: then its length is the outcome.
    pub(super) fn begin(&self, key: Key) -> Option<Duration> {
        let now = Instant::now();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.swept.is_none_or(|swept| now.duration_since(swept) > SWEEP) {
            state.pauses.retain(|_, pause| now.duration_since(pause.begun) <= REMEMBERED);
            state.swept = Some(now);
        }
        let pause = state.pauses.entry(key);
        match pause {
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(Pause { begun: now, length: FIRST });
                None
            }
            std::collections::hash_map::Entry::Occupied(mut known) => {
                let elapsed = now.duration_since(known.get().begun);
                let length = known.get().length;
                if elapsed < length {
                    return Some(length);
                }
                let length = if elapsed > REMEMBERED { FIRST } else { (length * 2).min(LONGEST) };
                known.insert(Pause { begun: now, length });
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_the_longest() {
        let backoff = Backoff::default();
        let key = |node: &str| (Text::from("u"), 1, Text::from(node));
        assert_eq!(backoff.begin(key("a")), None);
        assert_eq!(backoff.begin(key("a")), Some(FIRST));
        assert_eq!(backoff.begin(key("b")), None);
        let mut expected = FIRST;
        for _ in 0..12 {
            tokio::time::advance(expected).await;
            assert_eq!(backoff.begin(key("a")), None);
            expected = (expected * 2).min(LONGEST);
            assert_eq!(backoff.begin(key("a")), Some(expected));
        }
        assert_eq!(expected, LONGEST);
        tokio::time::advance(REMEMBERED * 2).await;
        assert_eq!(backoff.begin(key("a")), None);
        assert_eq!(backoff.begin(key("a")), Some(FIRST));
    }
}

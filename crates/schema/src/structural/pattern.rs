//! Patterns in RE2 syntax, as Go reads them.
//!
//! A pattern is read once with Go's grammar, limits and error texts, and written anew in the syntax of the crate `regex`, which matches in linear
//! time. The crate has a larger grammar, where some of the same text means something else (`\d` is any digit of Unicode, `[a&&b]` an
//! intersection): so nothing is handed on as it was sent. Whether repetitions are greedy does not change whether a text matches, and is left out.
//!
//! Patterns are compiled when a text is first matched, and kept in one bounded cache, so a definition that nobody uses costs nothing.

mod names;
mod parse;

use regex::{Regex, RegexBuilder};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// The most patterns that are kept compiled.
const MOST_KEPT: usize = 512;
/// The most memory that a compiled pattern takes.
const MOST_BYTES: usize = 16 << 20;
/// The most memory that all that are kept take together, where each counts as much as it was allowed.
const MOST_BYTES_KEPT: usize = 128 << 20;
/// A pattern of so many steps takes no more than that.
const KNOWN_TO_FIT: u64 = 1 << 14;
/// The sizes that are tried for a pattern, so that small ones count little.
const SIZES: [usize; 3] = [64 << 10, 1 << 20, MOST_BYTES];
/// The memory that a match may take for states that it finds on the way.
const STATES: usize = 256 << 10;

/// Checks the syntax of a pattern: the error is what Go says of it.
///
/// ```
/// use schema::structural::pattern::check_pattern;
/// assert_eq!(check_pattern(r"^[a-z]\d{1,3}$"), Ok(()));
/// let error = check_pattern("a(").unwrap_err();
/// assert_eq!(error, "error parsing regexp: missing closing ): `a(`");
/// ```
pub fn check_pattern(pattern: &str) -> Result<(), String> {
    let translated = parse::translate(pattern)?;
    if translated.weight > KNOWN_TO_FIT {
        compile(pattern, &translated.text)?;
    }
    Ok(())
}

/// Whether a text has a part that matches a pattern.
pub(crate) fn matches(pattern: &str, text: &str) -> Result<bool, String> {
    Ok(compiled(pattern)?.is_match(text))
}

struct Kept {
    regex: Arc<Regex>,
    bytes: usize,
    used: u64,
}

#[derive(Default)]
struct Cache {
    patterns: HashMap<Box<str>, Kept>,
    bytes: usize,
    clock: u64,
}

impl Cache {
    fn get(&mut self, pattern: &str) -> Option<Arc<Regex>> {
        self.clock += 1;
        let kept = self.patterns.get_mut(pattern)?;
        kept.used = self.clock;
        Some(kept.regex.clone())
    }

    fn insert(&mut self, pattern: &str, regex: Arc<Regex>, bytes: usize) {
        self.clock += 1;
        self.bytes += bytes;
        let kept = Kept { regex, bytes, used: self.clock };
        if let Some(before) = self.patterns.insert(pattern.into(), kept) {
            self.bytes -= before.bytes;
        }
        if self.patterns.len() > MOST_KEPT || self.bytes > MOST_BYTES_KEPT {
            self.forget_half();
        }
    }

    /// Forgets the half that was not used for longest.
    fn forget_half(&mut self) {
        let mut times: Vec<_> = self.patterns.values().map(|kept| kept.used).collect();
        times.sort_unstable();
        let Some(middle) = times.get(times.len() / 2).copied() else { return };
        self.patterns.retain(|_, kept| kept.used > middle);
        self.bytes = self.patterns.values().map(|kept| kept.bytes).sum();
    }
}

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

fn compiled(pattern: &str) -> Result<Arc<Regex>, String> {
    if let Some(regex) = CACHE.lock().unwrap_or_else(PoisonError::into_inner).get(pattern) {
        return Ok(regex);
    }
    let (regex, bytes) = compile(pattern, &parse::translate(pattern)?.text)?;
    let regex = Arc::new(regex);
    let bytes = bytes + pattern.len();
    CACHE.lock().unwrap_or_else(PoisonError::into_inner).insert(pattern, regex.clone(), bytes);
    Ok(regex)
}

/// The compiled pattern, and the memory that it may take.
fn compile(pattern: &str, translated: &str) -> Result<(Regex, usize), String> {
    let mut builder = RegexBuilder::new(translated);
    builder.dfa_size_limit(STATES).nest_limit(parse::DEEPEST_TRANSLATED);
    SIZES
        .into_iter()
        .find_map(|size| Some((builder.size_limit(size).build().ok()?, size + STATES)))
        .ok_or_else(|| parse::too_large(pattern))
}

#[cfg(test)]
mod tests;

//! Patterns in RE2 syntax, as Go reads them.
//!
//! A pattern is parsed with Go's grammar, limits and error texts, and translated to the syntax of the crate
//! `regex`, which matches in linear time. In the larger grammar of the crate some patterns have another
//! meaning (`\d` is any digit of Unicode, `[a&&b]` an intersection), so no part is passed on unparsed.
//! Whether repetitions are greedy does not change whether a text matches, and is left out.
//!
//! Matching takes as many steps as the pattern has, for each character, where its states are too many to be
//! kept. The caller says whether that is too much.
//!
//! Patterns are compiled when a text is first matched, and kept in one bounded cache, so an unused definition
//! costs nothing.

mod names;
mod parse;

use regex::{Regex, RegexBuilder};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// The most patterns that are kept compiled.
const MOST_KEPT: usize = 512;
/// The most memory that a compiled pattern takes.
const MOST_BYTES: usize = 16 << 20;
/// The most memory of all kept patterns together; each counts with the limit that it was compiled under.
const MOST_BYTES_KEPT: usize = 128 << 20;
/// A pattern of at most this many steps takes at most [`MOST_BYTES`].
const KNOWN_TO_FIT: u64 = 1 << 14;
/// The sizes that are tried for a pattern, so that small ones count little.
const SIZES: [usize; 3] = [64 << 10, 1 << 20, MOST_BYTES];
/// The steps of compiling a step of a pattern.
const STEPS_TO_COMPILE: usize = 10;
/// The matching steps that cost as much as one step of the walk over an object.
const MATCHES_IN_A_STEP: usize = 16;
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

/// How many steps have to be compiled before it is known whether a pattern may be used; zero for most
/// patterns.
pub fn steps_to_check(pattern: &str) -> u64 {
    let weight = parse::translate(pattern).map_or(0, |translated| translated.weight);
    if weight > KNOWN_TO_FIT { weight } else { 0 }
}

/// Whether a text has a part that matches a pattern. `spend` is given the steps of compiling and of matching,
/// and returns whether to go on; if not, the result is not known.
pub(crate) fn matches(
    pattern: &str,
    text: &str,
    spend: &mut dyn FnMut(usize) -> bool,
) -> Result<Option<bool>, String> {
    let Some(compiled) = compiled(pattern, spend)? else { return Ok(None) };
    let steps = compiled.weight.saturating_mul(text.len()) / MATCHES_IN_A_STEP;
    Ok(spend(steps).then(|| compiled.regex.is_match(text)))
}

/// A pattern of the administrator, which is compiled once and matched as it is.
///
/// ```
/// use schema::structural::pattern::Pattern;
/// let pattern = Pattern::new(r"//example\.com(:|$)").unwrap();
/// assert!(pattern.is_match("https://example.com:8443"));
/// assert!(!pattern.is_match("https://example.com.org"));
/// ```
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles a pattern: the error is what Go says of it.
    pub fn new(pattern: &str) -> Result<Self, String> {
        let translated = parse::translate(pattern)?;
        compile(pattern, &translated.text).map(|(regex, _)| Self(regex))
    }

    /// Whether a text has a part that matches.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

struct Compiled {
    regex: Regex,
    weight: usize,
}

struct Kept {
    compiled: Arc<Compiled>,
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
    fn get(&mut self, pattern: &str) -> Option<Arc<Compiled>> {
        self.clock += 1;
        let kept = self.patterns.get_mut(pattern)?;
        kept.used = self.clock;
        Some(kept.compiled.clone())
    }

    fn insert(&mut self, pattern: &str, compiled: Arc<Compiled>, bytes: usize) {
        self.clock += 1;
        self.bytes += bytes;
        let kept = Kept { compiled, bytes, used: self.clock };
        if let Some(before) = self.patterns.insert(pattern.into(), kept) {
            self.bytes -= before.bytes;
        }
        if self.patterns.len() > MOST_KEPT || self.bytes > MOST_BYTES_KEPT {
            self.forget_half();
        }
    }

    /// Drops the least recently used half.
    fn forget_half(&mut self) {
        let mut times: Vec<_> = self.patterns.values().map(|kept| kept.used).collect();
        times.sort_unstable();
        let Some(middle) = times.get(times.len() / 2).copied() else { return };
        self.patterns.retain(|_, kept| kept.used > middle);
        self.bytes = self.patterns.values().map(|kept| kept.bytes).sum();
    }
}

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

fn compiled(pattern: &str, spend: &mut dyn FnMut(usize) -> bool) -> Result<Option<Arc<Compiled>>, String> {
    if let Some(compiled) = CACHE.lock().unwrap_or_else(PoisonError::into_inner).get(pattern) {
        return Ok(Some(compiled));
    }
    let translated = parse::translate(pattern)?;
    let weight = usize::try_from(translated.weight).unwrap_or(usize::MAX);
    if !spend((weight + pattern.len()).saturating_mul(STEPS_TO_COMPILE)) {
        return Ok(None);
    }
    let (regex, bytes) = compile(pattern, &translated.text)?;
    let compiled = Arc::new(Compiled { regex, weight });
    let bytes = bytes + pattern.len();
    CACHE.lock().unwrap_or_else(PoisonError::into_inner).insert(pattern, compiled.clone(), bytes);
    Ok(Some(compiled))
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

//! Patterns in RE2 syntax, as Go reads them.
//!
//! A pattern is parsed with Go's grammar, limits and error texts, and translated to the syntax of the crate
//! `regex`, which matches in linear time. In the larger grammar of the crate some patterns have another
//! meaning (`\d` is any digit of Unicode, `[a&&b]` an intersection), so no part is passed on unparsed.
//! Which part of a text a pattern matches is decided as in Go: the leftmost match, and of those that begin
//! there the one that the order of alternatives and the greed of repetitions prefer.
//!
//! Matching takes as many steps as the pattern has, for each character, where its states are too many to be
//! kept. Whoever matches texts of clients is told the steps before they are taken, and says whether to go on.
//!
//! Patterns are compiled when a text is first matched, and kept in one bounded cache, so an unused definition
//! costs nothing. A [`Pattern`] refers to its place in the cache and is as small as its text.

mod names;
mod parse;

use regex::{Regex, RegexBuilder};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock, Weak};
use std::time::Instant;

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
/// The nanoseconds of a search that count as one step.
const NANOS_IN_A_STEP: u128 = 4;
/// The memory that a match may take for states that it finds on the way.
const STATES: usize = 256 << 10;

/// Checks the syntax of a pattern: the error is what Go says of it.
///
/// ```
/// use pattern::check_pattern;
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
pub fn matches(
    pattern: &str,
    text: &str,
    spend: &mut dyn FnMut(usize) -> bool,
) -> Result<Option<bool>, String> {
    let mut ask = |steps| if spend(steps) { Ok(()) } else { Err(()) };
    let Ok(compiled) = compiled(pattern, &mut ask) else { return Ok(None) };
    let compiled = compiled?;
    let steps = compiled.weight.saturating_mul(text.len()) / MATCHES_IN_A_STEP;
    Ok(spend(steps).then(|| compiled.regex.is_match(text)))
}

/// A pattern that is checked once.
///
/// It is compiled when it is first used, and again if it was not used for so long that the cache has dropped
/// it.
///
/// What is named `spend` is given the steps of the work before it is done, about one for each nanosecond,
/// and says with an error that it is too much.
///
/// ```
/// use pattern::Pattern;
/// let pattern = Pattern::new(r"//example\.com(:|$)").unwrap();
/// assert!(pattern.is_match("https://example.com:8443"));
/// assert!(!pattern.is_match("https://example.com.org"));
/// ```
pub struct Pattern {
    text: Box<str>,
    instructions: usize,
    compiled: RwLock<Weak<Compiled>>,
}

impl Pattern {
    /// Checks a pattern: the error is what Go says of it.
    pub fn new(pattern: &str) -> Result<Self, String> {
        match Self::checked(pattern, &mut |_| Ok::<_, Infallible>(())) {
            Ok(checked) => checked,
            Err(never) => match never {},
        }
    }

    /// Checks a pattern of a client: the inner error is what Go says of it.
    pub fn checked<E>(
        pattern: &str,
        spend: &mut impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Result<Self, String>, E> {
        spend(pattern.len())?;
        let translated = match parse::translate(pattern) {
            Ok(translated) => translated,
            Err(why) => return Ok(Err(why)),
        };
        let instructions = usize::try_from(translated.instructions).unwrap_or(usize::MAX);
        let checked = Self { text: pattern.into(), instructions, compiled: RwLock::default() };
        if translated.weight > KNOWN_TO_FIT
            && let Err(why) = checked.compiled(spend)?
        {
            return Ok(Err(why));
        }
        Ok(Ok(checked))
    }

    /// The most steps that matching a text takes.
    fn steps(&self, text: &str) -> usize {
        self.instructions.saturating_mul(text.len())
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a text has a part that matches, without steps being counted.
    pub fn is_match(&self, text: &str) -> bool {
        match self.compiled(&mut |_| Ok::<_, Infallible>(())) {
            Ok(compiled) => compiled.is_ok_and(|compiled| compiled.regex.is_match(text)),
            Err(never) => match never {},
        }
    }

    /// Whether a text has a part that matches.
    pub fn matches<E>(&self, text: &str, spend: &mut impl FnMut(usize) -> Result<(), E>) -> Result<bool, E> {
        spend(self.steps(text))?;
        Ok(self.compiled(spend)?.is_ok_and(|compiled| compiled.regex.is_match(text)))
    }

    /// The leftmost part of a text that matches.
    ///
    /// ```
    /// # use pattern::Pattern;
    /// let mut steps = 0;
    /// let mut spend = |more| { steps += more; if steps < 1_000 { Ok(()) } else { Err("too much") } };
    /// let pattern = Pattern::new("[0-9]+?").unwrap();
    /// assert_eq!(pattern.find("abc 123", &mut spend), Ok(Some("1")));
    /// assert_eq!(pattern.find(&"a".repeat(1_000), &mut spend), Err("too much"));
    /// ```
    pub fn find<'t, E>(
        &self,
        text: &'t str,
        spend: &mut impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Option<&'t str>, E> {
        spend(self.steps(text))?;
        let Ok(compiled) = self.compiled(spend)? else { return Ok(None) };
        Ok(compiled.regex.find(text).map(|found| found.as_str()))
    }

    /// The parts of a text that match and do not overlap, from the left, at most so many. An empty part that
    /// begins where the one before it ends is left out.
    ///
    /// How far a pattern looks past a match is not known before: it may be the rest of the text for each. So
    /// the time that the searches take counts as steps too.
    ///
    /// ```
    /// # use pattern::Pattern;
    /// # use std::convert::Infallible;
    /// let all = |pattern, text| {
    ///     Pattern::new(pattern).unwrap().find_all(text, usize::MAX, &mut |_| Ok::<_, Infallible>(())).unwrap()
    /// };
    /// assert_eq!(all("[0-9]*", "12 3"), ["12", "3"]);
    /// assert_eq!(all("a*", "baab"), ["", "aa", ""]);
    /// ```
    pub fn find_all<'t, E>(
        &self,
        text: &'t str,
        most: usize,
        spend: &mut impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Vec<&'t str>, E> {
        spend(self.steps(text))?;
        let Ok(compiled) = self.compiled(spend)? else { return Ok(Vec::new()) };
        let mut parts = Vec::new();
        let mut before = Instant::now();
        for found in compiled.regex.find_iter(text).take(most) {
            let now = Instant::now();
            spend(usize::try_from((now - before).as_nanos() / NANOS_IN_A_STEP).unwrap_or(usize::MAX))?;
            before = now;
            parts.push(found.as_str());
        }
        Ok(parts)
    }

    /// The compiled pattern. That it cannot be compiled is found out when it is checked.
    fn compiled<E>(
        &self,
        spend: &mut impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Result<Arc<Compiled>, String>, E> {
        let kept = self.compiled.read().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(compiled) = kept {
            compiled.touch();
            return Ok(Ok(compiled));
        }
        let compiled = compiled(&self.text, spend)?;
        if let Ok(compiled) = &compiled {
            *self.compiled.write().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(compiled);
        }
        Ok(compiled)
    }
}

impl Clone for Pattern {
    fn clone(&self) -> Self {
        let compiled = self.compiled.read().unwrap_or_else(PoisonError::into_inner).clone();
        Self { text: self.text.clone(), instructions: self.instructions, compiled: RwLock::new(compiled) }
    }
}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Pattern").field(&self.text).finish()
    }
}

struct Compiled {
    regex: Regex,
    weight: usize,
    /// The time of the last use.
    used: AtomicU64,
}

impl Compiled {
    /// Notes a use. A time that is there already is not written again: threads share it.
    fn touch(&self) {
        let now = CLOCK.load(Relaxed);
        if self.used.load(Relaxed) != now {
            self.used.store(now, Relaxed);
        }
    }
}

struct Kept {
    compiled: Arc<Compiled>,
    bytes: usize,
}

#[derive(Default)]
struct Cache {
    patterns: HashMap<Box<str>, Kept>,
    bytes: usize,
}

impl Cache {
    fn get(&mut self, pattern: &str) -> Option<Arc<Compiled>> {
        let kept = self.patterns.get(pattern)?;
        kept.compiled.touch();
        Some(kept.compiled.clone())
    }

    fn insert(&mut self, pattern: &str, compiled: Arc<Compiled>, bytes: usize) {
        self.bytes += bytes;
        if let Some(before) = self.patterns.insert(pattern.into(), Kept { compiled, bytes }) {
            self.bytes -= before.bytes;
        }
        if self.patterns.len() > MOST_KEPT || self.bytes > MOST_BYTES_KEPT {
            self.forget_half();
        }
    }

    /// Drops the least recently used half; of those that were used at the same time, any.
    fn forget_half(&mut self) {
        let used = |kept: &Kept| kept.compiled.used.load(Relaxed);
        let mut times: Vec<_> = self.patterns.values().map(used).collect();
        times.sort_unstable();
        let half = times.len() / 2;
        let Some(middle) = times.get(half).copied() else { return };
        let mut of_middle = half.saturating_sub(times.iter().filter(|time| **time > middle).count());
        self.patterns.retain(|_, kept| match used(kept).cmp(&middle) {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal => {
                let keep = of_middle > 0;
                of_middle = of_middle.saturating_sub(1);
                keep
            }
        });
        self.bytes = self.patterns.values().map(|kept| kept.bytes).sum();
    }
}

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);
/// The time of the cache, which goes on by one with every pattern that is compiled.
static CLOCK: AtomicU64 = AtomicU64::new(0);

/// The compiled pattern, from the cache if it is there. The inner error is what Go says of the pattern.
fn compiled<E>(
    pattern: &str,
    spend: &mut impl FnMut(usize) -> Result<(), E>,
) -> Result<Result<Arc<Compiled>, String>, E> {
    if let Some(compiled) = CACHE.lock().unwrap_or_else(PoisonError::into_inner).get(pattern) {
        return Ok(Ok(compiled));
    }
    let translated = match parse::translate(pattern) {
        Ok(translated) => translated,
        Err(why) => return Ok(Err(why)),
    };
    let weight = usize::try_from(translated.weight).unwrap_or(usize::MAX);
    spend((weight + pattern.len()).saturating_mul(STEPS_TO_COMPILE))?;
    Ok(compile(pattern, &translated.text).map(|(regex, bytes)| {
        let used = CLOCK.fetch_add(1, Relaxed) + 1;
        let compiled = Arc::new(Compiled { regex, weight, used: used.into() });
        let bytes = bytes + pattern.len();
        CACHE.lock().unwrap_or_else(PoisonError::into_inner).insert(pattern, compiled.clone(), bytes);
        compiled
    }))
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

//! The warnings of a request.
//!
//! They are cut as the reference cuts them, so that the headers of a response stay small: as soon as all
//! together have more than [`MOST_CHARACTERS`], each is cut to [`CUT_CHARACTERS`], and those that come after
//! so many are dropped.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most characters of all warnings of a request, before they are cut.
const MOST_CHARACTERS: usize = 4096;
/// The most characters of one warning, once they are cut.
const CUT_CHARACTERS: usize = 256;

/// The warnings of a request, which the client gets with its response, be that an error or not. Clones share
/// them.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Recorder>>);

#[derive(Debug, Default)]
struct Recorder {
    texts: Vec<String>,
    /// The texts before they were cut.
    seen: HashSet<String>,
    /// The characters of all texts.
    written: usize,
    is_cutting: bool,
}

impl Warnings {
    /// Adds some. What was said already is not said again.
    pub fn extend(&self, warnings: impl IntoIterator<Item = String>) {
        let mut recorder = self.recorder();
        warnings.into_iter().for_each(|warning| recorder.add(warning));
    }

    /// Everything so far, which is taken away.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.recorder()).texts
    }

    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorder {
    fn add(&mut self, mut text: String) {
        // A text with control characters is no header.
        let is_sent = !text.is_empty() && !text.chars().any(char::is_control);
        if !is_sent || (self.is_cutting && self.written >= MOST_CHARACTERS) || !self.seen.insert(text.clone())
        {
            return;
        }
        if !self.is_cutting && self.written + text.chars().count() > MOST_CHARACTERS {
            self.is_cutting = true;
            self.written = self.texts.iter_mut().map(cut).sum();
        }
        self.written += if self.is_cutting { cut(&mut text) } else { text.chars().count() };
        self.texts.push(text);
    }
}

/// Cuts a text; the number of its characters.
fn cut(text: &mut String) -> usize {
    if let Some((end, _)) = text.char_indices().nth(CUT_CHARACTERS) {
        text.truncate(end);
    }
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(texts: impl IntoIterator<Item = String>) -> Vec<String> {
        let warnings = Warnings::default();
        warnings.extend(texts);
        warnings.take()
    }

    #[test]
    fn a_warning_is_given_once() {
        let warnings = Warnings::default();
        warnings.clone().extend(["a".to_owned(), "b".to_owned()]);
        warnings.extend(["a".to_owned()]);
        assert_eq!(warnings.take(), ["a", "b"]);
        assert!(warnings.take().is_empty());
    }

    #[test]
    fn warnings_are_whole_up_to_4096_characters() {
        let texts = ["é".repeat(4000), "b".repeat(96)];
        assert_eq!(recorded(texts.clone()), texts);
    }

    #[test]
    fn warnings_past_4096_characters_are_cut_to_256_each() {
        let kept = recorded(["é".repeat(4000), "b".repeat(97), "c".into()]);
        assert_eq!(kept, ["é".repeat(256), "b".repeat(97), "c".into()]);
        assert_eq!(recorded(["x".repeat(60_000)]), ["x".repeat(256)]);
    }

    #[test]
    fn warnings_past_4096_cut_characters_are_dropped() {
        let many = recorded((0..10_000).map(|at| format!("{at:0>300}")));
        assert_eq!(many.len(), 16);
        let short = recorded((0..10_000).map(|at| format!("{at:0>10}")));
        assert_eq!(short.len(), 410);
    }

    #[test]
    fn warnings_with_control_characters_are_dropped() {
        assert_eq!(recorded(["a\nb".into(), String::new(), "c".into()]), ["c"]);
    }
}

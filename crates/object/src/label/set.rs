//! The labels of an object.

use super::Labels;
use crate::Text;
use std::fmt;

/// Labels, sorted by key.
///
/// ```
/// let labels: object::label::Set = [("b", "2"), ("a", "1")].into_iter().collect();
/// assert_eq!(labels.get("a"), Some("1"));
/// assert_eq!(labels.to_string(), "a=1,b=2");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// Sorted by key, each key once.
    entries: Vec<(Text, Text)>,
}

impl Set {
    /// Inserts a label; replaces one with the same key.
    pub fn insert(&mut self, key: impl Into<Text>, value: impl Into<Text>) {
        let (key, value) = (key.into(), value.into());
        match self.position(&key) {
            Ok(at) => {
                if let Some(entry) = self.entries.get_mut(at) {
                    entry.1 = value;
                }
            }
            Err(at) => self.entries.insert(at, (key, value)),
        }
    }

    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.position(key).ok()?;
        self.entries.get(at).map(|(_, value)| value.as_str())
    }

    /// The labels, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// How many labels there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        self.entries.binary_search_by(|(other, _)| other.as_str().cmp(key))
    }
}

/// Of a key given twice, the last value stays.
impl<K: Into<Text>, V: Into<Text>> FromIterator<(K, V)> for Set {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let mut entries: Vec<(Text, Text)> =
            labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        entries.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                std::mem::swap(&mut later.1, &mut earlier.1);
            }
            same
        });
        Self { entries }
    }
}

impl Labels for Set {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key)
    }

    fn all_labels(&self, each: &mut dyn FnMut(&str, &str) -> bool) -> bool {
        self.iter().all(|(key, value)| each(key, value))
    }
}

/// The text that a selector for these labels has, its parts sorted as wholes.
impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.iter().map(|(key, value)| format!("{key}={value}")).collect();
        parts.sort();
        f.write_str(&parts.join(","))
    }
}

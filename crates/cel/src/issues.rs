//! What is wrong with an expression, shown as cel-go shows it: with the line and a mark below the place.

use std::fmt;
use std::sync::Arc;

/// The number of faults that are kept.
const KEPT: usize = 100;

/// The length in bytes past which a line is not shown.
const LONGEST_LINE: usize = 16_384;

/// The text of an expression, and where its lines begin.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) text: Box<str>,
    /// The code points at which the lines after the first one begin. One more line begins after the end of
    /// the text, which counts as a line feed; in an empty text it begins at 0.
    pub(crate) lines: Vec<u32>,
}

/// A fault at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// The line, from 1; -1 if the fault is of no line.
    pub line: i32,
    /// The column in code points, from 0; -1 if the fault has no column.
    pub column: i32,
    /// What is wrong.
    pub message: String,
}

/// The faults of an expression, at most 100 of them, in the order of their places. [`fmt::Display`] is
/// cel-go's text of them all.
#[derive(Debug, Clone)]
pub struct Issues {
    pub(crate) source: Arc<Source>,
    pub(crate) issues: Vec<Issue>,
    /// How many were found, those that are not kept included.
    pub(crate) found: usize,
}

impl Source {
    /// The source of a text.
    pub(crate) fn new(text: &str) -> Self {
        let mut lines = Vec::new();
        let mut end = 0;
        if text.is_ascii() {
            lines.extend(text.bytes().zip(1..).filter(|(byte, _)| *byte == b'\n').map(|(_, next)| next));
            end = text.len() as u32;
        } else {
            for char in text.chars() {
                end += 1;
                if char == '\n' {
                    lines.push(end);
                }
            }
        }
        lines.push(if text.is_empty() { 0 } else { end + 1 });
        Self { text: text.into(), lines }
    }

    /// The line and the column of a code point.
    pub(crate) fn location(&self, offset: u32) -> (i32, i32) {
        let before = self.lines.partition_point(|begin| *begin <= offset);
        let begin = before.checked_sub(1).and_then(|last| self.lines.get(last)).copied().unwrap_or(0);
        (before as i32 + 1, (offset - begin) as i32)
    }

    /// A line of the text, without its line feed.
    fn line(&self, number: i32) -> Option<&str> {
        if self.text.is_empty() || number > self.lines.len() as i32 {
            return None;
        }
        self.text.split('\n').nth(usize::try_from(number).ok()?.checked_sub(1)?)
    }
}

impl Issues {
    /// No faults yet.
    pub(crate) fn new(source: Arc<Source>) -> Self {
        Self { source, issues: Vec::new(), found: 0 }
    }

    /// Adds a fault at a code point.
    pub(crate) fn report(&mut self, offset: u32, message: String) {
        let (line, column) = self.source.location(offset);
        self.report_at(line, column, message);
    }

    /// Adds a fault at a line and a column.
    pub(crate) fn report_at(&mut self, line: i32, column: i32, message: String) {
        self.found += 1;
        if self.found <= KEPT {
            self.issues.push(Issue { line, column, message });
        }
    }

    /// Whether nothing was found.
    pub(crate) fn is_empty(&self) -> bool {
        self.found == 0
    }

    /// The faults in the order of their places.
    pub(crate) fn sorted(mut self) -> Self {
        self.issues.sort_by_key(|issue| (issue.line, issue.column));
        self
    }

    /// The faults.
    pub fn issues(&self) -> &[Issue] {
        &self.issues
    }
}

/// cel-go's text: every fault with its line and a mark.
impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, issue) in self.issues.iter().enumerate() {
            if place > 0 {
                f.write_str("\n")?;
            }
            let Issue { line, column, message } = issue;
            write!(f, "ERROR: <input>:{line}:{}: {message}", column + 1)?;
            if let Some(text) = self.source.line(*line).filter(|text| text.len() <= LONGEST_LINE) {
                mark(f, text, *column)?;
            }
        }
        if self.found > self.issues.len() {
            write!(f, "\n{} more errors were truncated", self.found - self.issues.len())?;
        }
        Ok(())
    }
}

impl std::error::Error for Issues {}

/// The line, and below it a mark at the column; wide dots stand below characters past ASCII.
fn mark(f: &mut fmt::Formatter<'_>, text: &str, column: i32) -> fmt::Result {
    f.write_str("\n | ")?;
    for (place, part) in text.split('\t').enumerate() {
        if place > 0 {
            f.write_str(" ")?;
        }
        f.write_str(part)?;
    }
    f.write_str("\n | ")?;
    let mut chars = text.chars();
    for char in chars.by_ref().take(usize::try_from(column).unwrap_or(0)) {
        f.write_str(if char.is_ascii() { "." } else { "．" })?;
    }
    f.write_str(if chars.next().is_none_or(|char| char.is_ascii()) { "^" } else { "＾" })
}

//! What came of a replay, for people.

use std::fmt::Write as _;

use comparison::{Difference, Severity};

/// What came of a replay.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) exact: usize,
    pub(crate) wording: usize,
    pub(crate) differ: usize,
    /// Requests that cannot be sent again.
    pub(crate) left_out: usize,
    /// Events of watches that came as recorded, and that did not.
    pub(crate) events: usize,
    pub(crate) other_events: usize,
    text: String,
}

impl Report {
    /// Adds a request with where its answer differs.
    pub(crate) fn request(&mut self, line: &str, differences: &[Difference]) {
        match differences.iter().map(Difference::severity).max() {
            None => self.exact += 1,
            Some(Severity::Wording) => self.wording += 1,
            Some(Severity::Substance) => self.differ += 1,
        }
        self.show(line, differences);
    }

    /// Adds an event with where it differs.
    pub(crate) fn event(&mut self, line: &str, differences: &[Difference]) {
        let is_other = differences.iter().any(|difference| difference.severity() == Severity::Substance);
        *(if is_other { &mut self.other_events } else { &mut self.events }) += 1;
        self.show(line, differences);
    }

    fn show(&mut self, line: &str, differences: &[Difference]) {
        if differences.is_empty() {
            return;
        }
        let _ = writeln!(self.text, "{line}");
        for difference in differences {
            for row in difference.to_string().lines() {
                let _ = writeln!(self.text, "  {row}");
            }
        }
    }

    /// Whether nothing differs but in words.
    pub(crate) fn is_same(&self) -> bool {
        self.differ == 0 && self.other_events == 0
    }

    /// All differences, and their number.
    pub(crate) fn into_text(self) -> String {
        let mut text = self.text;
        let answers = self.exact + self.wording + self.differ;
        let _ = writeln!(
            text,
            "{answers} answers: {} as recorded, {} in other words, {} otherwise; {} requests left out",
            self.exact, self.wording, self.differ, self.left_out
        );
        let _ = writeln!(
            text,
            "{} events: {} as recorded, {} otherwise",
            self.events + self.other_events,
            self.events,
            self.other_events
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_counted_by_their_weight() {
        let difference = |path: &str| Difference { path: path.into(), wanted: Some(1.into()), got: None };
        let mut report = Report::default();
        report.request("GET /a", &[]);
        report.request("GET /b", &[difference("body.message")]);
        report.event("GET /w: event 0", &[]);
        assert!(report.is_same());
        report.request("GET /c", &[difference("body.message"), difference("status")]);
        report.event("GET /w: event 1", &[difference("type")]);
        assert!(!report.is_same());
        let text = report.into_text();
        assert!(
            text.starts_with("GET /b\n  body.message\n    wanted 1\n    got    <absent>\nGET /c\n"),
            "{text}"
        );
        assert!(
            text.contains("3 answers: 1 as recorded, 1 in other words, 1 otherwise; 0 requests left out\n")
        );
        assert!(text.ends_with("2 events: 1 as recorded, 1 otherwise\n"), "{text}");
    }
}

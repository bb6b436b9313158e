//! The list of scenarios that may fail for now. It can only get shorter: one that holds has to leave it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::{Error, Outcome, Scenario};

/// The scenarios of a file that wait for a later piece of work, and for which.
#[derive(Debug, Default)]
pub struct Waiting {
    reasons: BTreeMap<String, String>,
}

/// What the outcome of a scenario means beside the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// It holds, and is expected to.
    Holds,
    /// It does not hold, and waits for this.
    Waits(&'a str),
    /// It does not hold, and should.
    Broken,
    /// It holds, but the list says that it waits for this.
    HoldsAlready(&'a str),
}

impl Waiting {
    /// Reads a list: on each line a scenario, a tab, and what it waits for. Blank lines and lines that start with `#`
    /// do not count. Each scenario has to be one of `scenarios`.
    pub fn load(path: &Path, scenarios: &[Scenario]) -> Result<Self, Error> {
        let named = || path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|cause| Error::Read { path: named(), cause })?;
        let waiting = Self::read(&text).map_err(|line| Error::Line { path: named(), line })?;
        let known = |name: &String| scenarios.iter().any(|scenario| &scenario.name == name);
        match waiting.reasons.keys().find(|name| !known(name)) {
            Some(name) => Err(Error::NoSuchScenario { path: named(), name: name.clone() }),
            None => Ok(waiting),
        }
    }

    /// How many are on it.
    pub fn len(&self) -> usize {
        self.reasons.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.reasons.is_empty()
    }

    /// What `outcome` means. A difference in wording is a difference.
    pub fn judge(&self, outcome: &Outcome) -> Verdict<'_> {
        match (outcome.differing.is_empty(), self.reasons.get(&outcome.scenario)) {
            (true, None) => Verdict::Holds,
            (true, Some(reason)) => Verdict::HoldsAlready(reason),
            (false, None) => Verdict::Broken,
            (false, Some(reason)) => Verdict::Waits(reason),
        }
    }

    /// The error is the number of a line that is not of the form, or names a scenario for the second time.
    fn read(text: &str) -> Result<Self, usize> {
        let mut reasons = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, reason) = line.split_once('\t').ok_or(index + 1)?;
            let empty = name.is_empty() || reason.trim().is_empty();
            if empty || reasons.insert(name.to_owned(), reason.trim().to_owned()).is_some() {
                return Err(index + 1);
            }
        }
        Ok(Self { reasons })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Difference, StepDifferences};

    fn outcome(scenario: &str, differing: usize) -> Outcome {
        let difference = Difference { path: "body.message".into(), wanted: None, got: None };
        let step = StepDifferences { step: 0, line: "GET /".into(), differences: vec![difference] };
        Outcome { scenario: scenario.into(), compared: 2, differing: vec![step; differing] }
    }

    #[test]
    fn the_list_tells_what_an_outcome_means() {
        let waiting = Waiting::read("# comment\n\na\tapply\nb\ttables\n").unwrap();
        assert_eq!(waiting.len(), 2);
        assert_eq!(waiting.judge(&outcome("a", 1)), Verdict::Waits("apply"));
        assert_eq!(waiting.judge(&outcome("a", 0)), Verdict::HoldsAlready("apply"));
        assert_eq!(waiting.judge(&outcome("c", 0)), Verdict::Holds);
        assert_eq!(waiting.judge(&outcome("c", 1)), Verdict::Broken);
    }

    #[test]
    fn a_line_without_a_reason_or_said_twice_is_refused() {
        for (text, line) in [("a\n", 1), ("a\tx\nb\t \n", 2), ("\tx\n", 1), ("a\tx\na\ty\n", 2)] {
            assert_eq!(Waiting::read(text).map(|_| ()), Err(line), "{text:?}");
        }
    }
}

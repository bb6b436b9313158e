//! The list of steps that may differ for now. It can only get shorter: a step that holds has to leave it.
//!
//! A line is a scenario, the numbers of its steps (`3,5-7`, counted from zero), and what they wait for, with
//! tabs between them. A scenario can have several lines. Blank lines and lines that start with `#` do not
//! count.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use crate::scenario::Step;
use crate::{Error, Outcome, Scenario};

/// The steps of a file's scenarios that wait for a later piece of work, and for which.
#[derive(Debug, Default)]
pub struct Waiting {
    reasons: BTreeMap<String, BTreeMap<usize, String>>,
}

/// What is wrong with the outcome of a scenario, beside the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Steps that differ, and are not on the list.
    pub broken: Vec<usize>,
    /// Steps that hold, and are on the list.
    pub holding: Vec<usize>,
}

impl Waiting {
    /// Reads a list. Its scenarios have to be among `scenarios`, its steps have to be compared.
    pub fn load(path: &Path, scenarios: &[Scenario]) -> Result<Self, Error> {
        let named = || path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|cause| Error::Read { path: named(), cause })?;
        let waiting = Self::read(&text).map_err(|line| Error::Line { path: named(), line })?;
        for (name, steps) in &waiting.reasons {
            let scenario = scenarios.iter().find(|scenario| &scenario.name == name);
            let scenario =
                scenario.ok_or_else(|| Error::NoSuchScenario { path: named(), name: name.clone() })?;
            let is_compared = |step: &usize| match scenario.steps.get(*step) {
                Some(Step::Request(request)) => request.check,
                Some(Step::Sleep(_)) | None => false,
            };
            if let Some(step) = steps.keys().find(|step| !is_compared(step)) {
                return Err(Error::NoSuchStep { path: named(), name: name.clone(), step: *step });
            }
        }
        Ok(waiting)
    }

    /// How many steps are on it.
    pub fn len(&self) -> usize {
        self.reasons.values().map(BTreeMap::len).sum()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.reasons.is_empty()
    }

    /// What is wrong with `outcome`. A difference in wording is a difference.
    pub fn judge(&self, outcome: &Outcome) -> Verdict {
        let waiting = self.reasons.get(&outcome.scenario);
        let waits = |step: &usize| waiting.is_some_and(|steps| steps.contains_key(step));
        let differing: BTreeSet<usize> = outcome.differing.iter().map(|step| step.step).collect();
        let listed = waiting.into_iter().flat_map(BTreeMap::keys).copied();
        Verdict {
            broken: differing.iter().copied().filter(|step| !waits(step)).collect(),
            holding: listed.filter(|step| !differing.contains(step)).collect(),
        }
    }

    /// The list for these outcomes: all steps that differ, with the reason that this list has for them, or
    /// `?`.
    pub fn list(&self, outcomes: &[Outcome]) -> String {
        let mut text = String::new();
        for outcome in outcomes {
            let known = self.reasons.get(&outcome.scenario);
            let mut by_reason: Vec<(&str, Vec<usize>)> = Vec::new();
            for step in outcome.differing.iter().map(|step| step.step) {
                let reason = known.and_then(|known| known.get(&step)).map_or("?", String::as_str);
                match by_reason.iter_mut().find(|(known, _)| *known == reason) {
                    Some((_, steps)) => steps.push(step),
                    None => by_reason.push((reason, vec![step])),
                }
            }
            for (reason, steps) in by_reason {
                let _ = writeln!(text, "{}\t{}\t{reason}", outcome.scenario, ranges(&steps));
            }
        }
        text
    }

    /// The error is the number of a line that is not of the form, or names a step for the second time.
    fn read(text: &str) -> Result<Self, usize> {
        let mut waiting = Self::default();
        for (index, line) in text.lines().enumerate() {
            if !line.trim().is_empty() && !line.starts_with('#') {
                waiting.read_line(line).ok_or(index + 1)?;
            }
        }
        Ok(waiting)
    }

    fn read_line(&mut self, line: &str) -> Option<()> {
        let mut columns = line.split('\t');
        let (name, steps, reason) = (columns.next()?, columns.next()?, columns.next()?.trim());
        if name.is_empty() || reason.is_empty() || columns.next().is_some() {
            return None;
        }
        let known = self.reasons.entry(name.to_owned()).or_default();
        for range in steps.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let steps = first.parse().ok()?..=last.parse().ok()?;
            if steps.is_empty() || *steps.end() > 10_000 {
                return None;
            }
            for step in steps {
                if known.insert(step, reason.to_owned()).is_some() {
                    return None;
                }
            }
        }
        Some(())
    }
}

/// `[1, 2, 3, 5]` as `1-3,5`.
pub fn ranges(steps: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for step in steps {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *step => *last = *step,
            _ => ranges.push((*step, *step)),
        }
    }
    let show = |(first, last): (usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.into_iter().map(show).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Difference, StepDifferences};

    fn outcome(scenario: &str, differing: &[usize]) -> Outcome {
        let difference = Difference { path: "body.message".into(), wanted: None, got: None };
        let step = |step: &usize| StepDifferences {
            step: *step,
            line: "GET /".into(),
            differences: vec![difference.clone()],
        };
        Outcome { scenario: scenario.into(), compared: 9, differing: differing.iter().map(step).collect() }
    }

    #[test]
    fn steps_on_the_list_may_differ_and_must_not_hold() {
        let waiting = Waiting::read("# comment\n\na\t1,3-4\tapply\na\t6\ttables\n").unwrap();
        assert_eq!(waiting.len(), 4);
        assert_eq!(waiting.judge(&outcome("a", &[1, 3, 4, 6])), Verdict::default());
        assert_eq!(
            waiting.judge(&outcome("a", &[1, 2, 4, 6])),
            Verdict { broken: vec![2], holding: vec![3] }
        );
        assert_eq!(waiting.judge(&outcome("b", &[])), Verdict::default());
        assert_eq!(waiting.judge(&outcome("b", &[0])), Verdict { broken: vec![0], holding: vec![] });
    }

    #[test]
    fn a_new_list_keeps_the_reasons_that_are_known() {
        let waiting = Waiting::read("a\t1,3-4\tapply\na\t6\ttables\n").unwrap();
        assert_eq!(
            waiting.list(&[outcome("a", &[1, 2, 3, 4, 6]), outcome("b", &[]), outcome("c", &[0, 1])]),
            "a\t1,3-4\tapply\na\t2\t?\na\t6\ttables\nc\t0-1\t?\n"
        );
    }

    #[test]
    fn malformed_and_repeated_lines_are_refused() {
        for (text, line) in [
            ("a\n", 1),
            ("a\tx\n", 1),
            ("a\t1\tx\nb\t1\t \n", 2),
            ("\t1\tx\n", 1),
            ("a\tone\tx\n", 1),
            ("a\t3-1\tx\n", 1),
            ("a\t0-99999999999\tx\n", 1),
            ("a\t1\tx\t\n", 1),
            ("a\t1-2\tx\na\t2\ty\n", 2),
        ] {
            assert_eq!(Waiting::read(text).map(|_| ()), Err(line), "{text:?}");
        }
    }
}

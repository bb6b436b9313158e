//! What was found, as text and as JSON. No finding shows a value: keys, names and field paths alone.

use std::fmt::Write as _;

use object::{Map, Value};
use schema::{Shape, json};
use store::Revision;

use super::problems::{Level, Problem};

/// Something that is wrong with one object or file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) problem: &'static Problem,
    /// The key in its store, or the path of a file.
    pub(super) key: String,
    /// What is wrong, in a sentence.
    pub(super) says: String,
    /// Which entry it is about; none for a file.
    pub(super) entry: Option<EntryId>,
    pub(super) outcome: Outcome,
}

/// The state of an entry that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryId {
    /// Which of the stores it is in.
    pub(super) store: usize,
    pub(super) revision: Revision,
}

/// What became of a repair.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Outcome {
    #[default]
    NotAsked,
    /// What was done.
    Done(&'static str),
    /// Why nothing was done.
    Failed(String),
}

/// Everything that was looked at, and what is wrong with it.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) findings: Vec<Finding>,
    /// Keys that were to be repaired, and why there was nothing to do.
    pub(super) not_repaired: Vec<(String, &'static str)>,
    /// What was read, for the first line.
    pub(super) subject: String,
    pub(super) revision: Revision,
    pub(super) objects: u64,
    /// Keys of other software in an etcd.
    pub(super) others: u64,
    /// Where entries were saved before their repair.
    pub(super) saved: Option<String>,
}

impl Report {
    /// Sorts by level, problem and key.
    pub(super) fn sort(&mut self) {
        let order = |finding: &Finding| (finding.problem.level, finding.problem.name, finding.key.clone());
        self.findings.sort_by_cached_key(order);
    }

    /// How many findings of a level are left.
    pub(super) fn count(&self, level: Level) -> usize {
        let is_left = |finding: &&Finding| {
            finding.problem.level == level && !matches!(finding.outcome, Outcome::Done(_))
        };
        self.findings.iter().filter(is_left).count()
    }

    /// Whether nothing has to be done at once.
    pub(super) fn is_good(&self) -> bool {
        self.count(Level::Error) == 0
            && self.not_repaired.is_empty()
            && !self.findings.iter().any(|finding| matches!(finding.outcome, Outcome::Failed(_)))
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n", self.subject);
        for group in self.findings.chunk_by(|one, next| one.problem.name == next.problem.name) {
            let Some(Finding { problem, .. }) = group.first() else { continue };
            let _ = writeln!(
                text,
                "\n{}: {} ({})",
                problem.level.name(),
                problem.title,
                thousands(group.len() as u64)
            );
            for Finding { key, says, outcome, .. } in group {
                let _ = writeln!(text, "  {key}: {says}");
                match outcome {
                    Outcome::NotAsked => {}
                    Outcome::Done(what) => {
                        let _ = writeln!(text, "    repaired: {what}");
                    }
                    Outcome::Failed(why) => {
                        let _ = writeln!(text, "    not repaired: {why}");
                    }
                }
            }
            let _ = writeln!(text, "  what to do: {}", problem.remedy);
        }
        if !self.not_repaired.is_empty() {
            text.push_str("\nnot repaired:\n");
        }
        for (key, why) in &self.not_repaired {
            let _ = writeln!(text, "  {key}: {why}");
        }
        let _ = writeln!(text, "\n{}", self.summary());
        text
    }

    fn summary(&self) -> String {
        let counted = |count: usize, word: &str| {
            format!("{} {word}{}", thousands(count as u64), if count == 1 { "" } else { "s" })
        };
        let (errors, warnings) = (self.count(Level::Error), self.count(Level::Warning));
        let done = self.findings.iter().filter(|one| matches!(one.outcome, Outcome::Done(_))).count();
        let mut text = match (errors, warnings) {
            (0, 0) if done == 0 => "nothing is wrong".to_owned(),
            _ => format!("{}, {}", counted(errors, "error"), counted(warnings, "warning")),
        };
        let _ = write!(text, " in {} objects", thousands(self.objects));
        if done > 0 {
            let _ = write!(text, "; {} repaired", thousands(done as u64));
        }
        if self.others > 0 {
            let _ = write!(text, "; {} keys of other software", thousands(self.others));
        }
        if let Some(path) = &self.saved {
            let _ = write!(text, "\nwhat was stored before the repair is in {path}");
        }
        text
    }

    /// One JSON document.
    pub(super) fn json(&self) -> String {
        let mut document = Map::new();
        document.insert("findings", self.findings.iter().map(Finding::json).collect::<Vec<Value>>());
        let not_repaired = self.not_repaired.iter().map(|(key, why)| {
            let mut map = Map::new();
            map.insert("key", key.as_str());
            map.insert("message", *why);
            Value::from(map)
        });
        document.insert("notRepaired", not_repaired.collect::<Vec<Value>>());
        for (name, number) in [
            ("errors", self.count(Level::Error) as u64),
            ("warnings", self.count(Level::Warning) as u64),
            ("objects", self.objects),
            ("others", self.others),
            ("revision", self.revision.0),
        ] {
            document.insert(name, i64::try_from(number).unwrap_or(i64::MAX));
        }
        document.insert("subject", self.subject.as_str());
        if let Some(path) = &self.saved {
            document.insert("saved", path.as_str());
        }
        json_text(document)
    }
}

/// The text of a JSON document.
pub(super) fn json_text(document: Map) -> String {
    let mut out = Vec::new();
    json::encode_shape(&Shape::Any, &document.into(), &mut out);
    out.push(b'\n');
    String::from_utf8_lossy(&out).into_owned()
}

impl Finding {
    fn json(&self) -> Value {
        let Self { problem, key, says, outcome, .. } = self;
        let mut map = Map::new();
        map.insert("level", problem.level.name());
        map.insert("problem", problem.name);
        map.insert("key", key.as_str());
        map.insert("message", says.as_str());
        map.insert("remedy", problem.remedy);
        if let Some(repair) = problem.repair {
            map.insert("repair", repair.name());
        }
        match outcome {
            Outcome::NotAsked => {}
            Outcome::Done(what) => drop(map.insert("repaired", *what)),
            Outcome::Failed(why) => drop(map.insert("notRepaired", why.as_str())),
        }
        map.into()
    }
}

/// `12,345`.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::problems;

    fn finding(problem: &'static Problem, key: &str, outcome: Outcome) -> Finding {
        Finding { problem, key: key.into(), says: "it is so".into(), entry: None, outcome }
    }

    #[test]
    fn text_is_grouped_and_sorted_and_ends_with_counts() {
        let findings = vec![
            finding(&problems::STALE, "secrets/default/a", Outcome::NotAsked),
            finding(&problems::DAMAGED, "pods/default/b", Outcome::NotAsked),
            finding(&problems::DAMAGED, "pods/default/a", Outcome::Done("removed")),
        ];
        let mut report =
            Report { findings, objects: 1_234_567, subject: "a store".into(), ..Report::default() };
        report.sort();
        let text = report.text();
        let places: Vec<_> =
            ["a store\n", "error: ", "pods/default/a", "repaired: removed", "pods/default/b", "warning: "]
                .map(|part| text.find(part).unwrap())
                .into();
        assert!(places.is_sorted(), "{text}");
        assert!(text.ends_with("\n1 error, 1 warning in 1,234,567 objects; 1 repaired\n"), "{text}");
        assert!(!report.is_good());
    }

    #[test]
    fn report_without_findings_says_so() {
        let report = Report { subject: "a store".into(), objects: 12, ..Report::default() };
        assert_eq!(report.text(), "a store\n\nnothing is wrong in 12 objects\n");
        assert!(report.is_good());
    }

    #[test]
    fn json_has_a_row_for_each_finding() {
        let failed = finding(&problems::STALE, "secrets/a/\"b\"", Outcome::Failed("it has changed".into()));
        let report = Report { findings: vec![failed], objects: 3, ..Report::default() };
        let document: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        let row = &document["findings"][0];
        assert_eq!(
            (&row["level"], &row["problem"], &row["repair"]),
            (&"warning".into(), &"stale".into(), &"write-again".into())
        );
        assert_eq!((&row["key"], &row["notRepaired"]), (&"secrets/a/\"b\"".into(), &"it has changed".into()));
        assert_eq!(
            (&document["warnings"], &document["errors"], &document["objects"]),
            (&1.into(), &0.into(), &3.into())
        );
        assert!(!report.is_good());
    }

    #[test]
    fn problems_have_names_of_their_own() {
        let mut names: Vec<_> = problems::ALL.iter().map(|problem| problem.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), problems::ALL.len());
    }
}

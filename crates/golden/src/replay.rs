//! Running the scenarios of a file, several at a time.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::http::Target;

use crate::exchange::{Answer, Client};
use crate::scenario::{Scenario, Step};
use crate::{Difference, Severity};
use comparison::normal::Variables;
use comparison::{differences, find, leave_out};

/// What came of one scenario.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Its name.
    pub scenario: String,
    /// How many of its steps were compared.
    pub compared: usize,
    /// Those whose answer is not the recorded one.
    pub differing: Vec<StepDifferences>,
}

/// A step whose answer is not the recorded one.
#[derive(Debug, Clone)]
pub struct StepDifferences {
    /// Counted from zero.
    pub step: usize,
    /// Its method and path, as in the file.
    pub line: String,
    /// Where it differs.
    pub differences: Vec<Difference>,
}

/// Outcomes counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Steps with exactly the recorded answer.
    pub exact: usize,
    /// Steps that differ in wording only.
    pub wording: usize,
    /// Steps that differ otherwise.
    pub differ: usize,
    /// Scenarios without a step that differs otherwise than in wording.
    pub hold: usize,
    /// All scenarios.
    pub scenarios: usize,
}

/// Runs `scenarios`, `at_once` of them at a time, as the administrator whose token is given; `report` is
/// called with each as soon as it is done. The outcomes are in the order of the scenarios.
pub fn replay(
    target: &Target,
    token: &str,
    scenarios: &[&Scenario],
    at_once: NonZeroUsize,
    report: &(dyn Fn(&Outcome) + Sync),
) -> Vec<Outcome> {
    let run = Run::new();
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..at_once.get() {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(scenario) = scenarios.get(index) else { break };
                    let outcome = run_scenario(target, token, scenario, &run.word(index));
                    report(&outcome);
                    outcomes.lock().unwrap_or_else(|broken| broken.into_inner()).push((index, outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(|broken| broken.into_inner());
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

impl Outcome {
    /// The worst of its differences.
    pub fn severity(&self) -> Option<Severity> {
        self.differing.iter().map(StepDifferences::severity).max()
    }

    fn steps(&self, severity: Severity) -> usize {
        self.differing.iter().filter(|step| step.severity() == severity).count()
    }
}

impl StepDifferences {
    /// The worst of its differences.
    pub fn severity(&self) -> Severity {
        self.differences.iter().map(Difference::severity).max().unwrap_or(Severity::Wording)
    }
}

impl Summary {
    /// Counts `outcomes`.
    pub fn of(outcomes: &[Outcome]) -> Self {
        outcomes.iter().fold(Self::default(), |sum, outcome| {
            let (wording, differ) = (outcome.steps(Severity::Wording), outcome.steps(Severity::Substance));
            Self {
                exact: sum.exact + outcome.compared - wording - differ,
                wording: sum.wording + wording,
                differ: sum.differ + differ,
                hold: sum.hold + usize::from(differ == 0),
                scenarios: sum.scenarios + 1,
            }
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "steps: {} exact, {} differ in wording only, {} differ; scenarios: {} of {} hold",
            self.exact, self.wording, self.differ, self.hold, self.scenarios
        )
    }
}

/// One line, as `ok   name: 3/3 steps`; with `{:#}`, the differences below it.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 12;
        let mark = match self.severity() {
            None => "ok  ",
            Some(Severity::Wording) => "text",
            Some(Severity::Substance) => "FAIL",
        };
        let exact = self.compared - self.differing.len();
        write!(f, "{mark} {}: {exact}/{} steps", self.scenario, self.compared)?;
        match self.steps(Severity::Wording) {
            0 => {}
            count => write!(f, ", {count} differ in wording only")?,
        }
        if !f.alternate() {
            return Ok(());
        }
        for StepDifferences { step, line, differences } in &self.differing {
            write!(f, "\n     step {step} {line}")?;
            for difference in differences.iter().take(MOST) {
                write!(f, "\n       {}", difference.to_string().replace('\n', "\n       "))?;
            }
            if differences.len() > MOST {
                write!(f, "\n       and {} more", differences.len() - MOST)?;
            }
        }
        Ok(())
    }
}

fn run_scenario(target: &Target, token: &str, scenario: &Scenario, run: &str) -> Outcome {
    let mut variables = Variables::new(&namespace(&scenario.name, run), run);
    let mut client = Client::new(target, token);
    prepare(&mut client, scenario, variables.namespace());
    let mut outcome = Outcome { scenario: scenario.name.clone(), compared: 0, differing: Vec::new() };
    for (index, step) in scenario.steps.iter().enumerate() {
        let request = match step {
            Step::Sleep(seconds) => {
                thread::sleep(Duration::from_secs_f64(seconds.max(0.0)));
                continue;
            }
            Step::Request(request) => request,
        };
        // A broken connection is a failed step, not the end of the run.
        let answer = client.perform(request, &variables).unwrap_or_else(|error| Answer {
            normal: json!({"status": 0, "error": error.to_string()}),
            body: None,
        });
        let wanted = variables.fill_short(&request.want);
        for (name, path) in &request.save {
            let found = answer.body.as_ref().and_then(|body| find(body, path));
            variables.save(name, found.map(plain).unwrap_or_default());
        }
        if request.check {
            outcome.compared += 1;
            let differences = compare(wanted, answer.normal, &request.ignore);
            if !differences.is_empty() {
                outcome.differing.push(StepDifferences {
                    step: index,
                    line: request.line.clone(),
                    differences,
                });
            }
        }
    }
    outcome
}

/// The scenario's namespace, and the service account that pods in it need. When that fails, the steps show
/// it.
fn prepare(client: &mut Client<'_>, scenario: &Scenario, namespace: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let _ = client.create("/api/v1/namespaces", &object);
    if scenario.serviceaccount {
        let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        let _ = client.create(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &object);
    }
}

fn compare(mut wanted: Value, mut got: Value, ignored: &[String]) -> Vec<Difference> {
    for side in [&mut wanted, &mut got] {
        for path in ignored {
            if let Some(body) = side.get_mut("body") {
                leave_out(body, path);
            }
            for event in side.get_mut("events").and_then(Value::as_array_mut).into_iter().flatten() {
                leave_out(event, path);
            }
        }
    }
    differences(&wanted, &got)
}

/// A saved value as text.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The namespace of a scenario: its name as far as a namespace can have it, and the run.
fn namespace(scenario: &str, run: &str) -> String {
    const LONGEST: usize = 50;
    let fitting = |character: char| {
        if character.is_ascii_lowercase() || character.is_ascii_digit() { character } else { '-' }
    };
    let name: String = scenario.to_lowercase().chars().map(fitting).take(LONGEST).collect();
    format!("{}-{run}", name.trim_matches('-'))
}

/// What makes names unique to a run, and within it to a scenario: some use the same names for what is not in
/// a namespace.
struct Run([char; 3]);

impl Run {
    const LETTERS: [char; 24] = [
        'b', 'c', 'd', 'f', 'g', 'h', 'j', 'k', 'm', 'n', 'p', 'q', 't', 'v', 'w', 'x', 'z', '2', '4', '5',
        '6', '7', '8', '9',
    ];

    fn new() -> Self {
        Self([0; 3].map(|_| fastrand::choice(Self::LETTERS).unwrap_or('b')))
    }

    /// The word of the scenario with this index, of six letters; they repeat after 576.
    fn word(&self, index: usize) -> String {
        let count = Self::LETTERS.len();
        let letters = [index / count % count, index % count];
        let letters = letters.iter().filter_map(|&letter| Self::LETTERS.get(letter));
        std::iter::once(&'r').chain(&self.0).chain(letters).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_of_a_scenario_is_a_valid_name() {
        assert_eq!(namespace("Reads: GET/a_b!", "r1"), "reads--get-a-b-r1");
        assert_eq!(namespace(&"x".repeat(80), "r1").len(), 53);
    }

    #[test]
    fn every_scenario_has_a_unique_run_word() {
        let run = Run::new();
        let mut words: Vec<String> = (0..576).map(|index| run.word(index)).collect();
        assert!(words.iter().all(|word| word.len() == 6 && word.starts_with('r')), "{words:?}");
        words.sort();
        words.dedup();
        assert_eq!(words.len(), 576);
    }

    #[test]
    fn ignored_paths_are_removed_from_both_answers() {
        let wanted = json!({"status": 200, "body": {"a": 1, "b": 2}, "events": [{"a": 1}]});
        let got = json!({"status": 200, "body": {"a": 2, "b": 2}, "events": [{"a": 2}]});
        assert_eq!(compare(wanted.clone(), got.clone(), &[]).len(), 2);
        assert!(compare(wanted, got, &["a".into()]).is_empty());
    }

    #[test]
    fn the_summary_counts_steps_and_scenarios() {
        let step = |path: &str| StepDifferences {
            step: 1,
            line: "GET /x".into(),
            differences: vec![Difference { path: path.into(), wanted: None, got: Some(json!(1)) }],
        };
        let outcome = |differing| Outcome { scenario: "s".into(), compared: 3, differing };
        let outcomes = [
            outcome(vec![]),
            outcome(vec![step("body.message")]),
            outcome(vec![step("body.message"), step("status")]),
        ];
        let summary = Summary::of(&outcomes);
        assert_eq!(
            summary.to_string(),
            "steps: 6 exact, 2 differ in wording only, 1 differ; scenarios: 2 of 3 hold"
        );
        assert_eq!(
            format!("{:#}", outcomes[1]),
            "text s: 2/3 steps, 1 differ in wording only\n     step 1 GET /x\n       body.message\n         wanted <absent>\n         got    1"
        );
    }
}

//! Expressions against facts recorded from the reference: its faults, types, costs, values and errors.
//!
//! `reference/differential` has a selection. A folder that the environment variable `KEELSON_CEL_CASES` names
//! has more, in the same form (`common/case.rs`); `KEELSON_CEL_DIFFERENCES` names a file for all differences.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]
#![allow(clippy::print_stdout, clippy::indexing_slicing, reason = "this is test code")]

mod common;

use cel::Budget;
use common::case::{Case, Tables};
use common::clock::Clock;
use common::show::show;
use object::Value as Tree;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A difference that is meant: where it shows, how to tell it, and why.
struct OnPurpose {
    stage: &'static str,
    applies: fn(&Case, &Difference) -> bool,
    reason: &'static str,
}

const ON_PURPOSE: &[OnPurpose] = &[
    OnPurpose {
        stage: "value",
        applies: |_, difference| {
            let said = &difference.expected;
            said.contains("unsupported conversion to ref.Val: (") && !said.contains("dynamicpb.Message")
        },
        reason: "`(a ? optional.of(quantity(b)) : optional.none()).orValue(c)` has a value: the reference loses the \
                 types of libraries there",
    },
    OnPurpose {
        stage: "value",
        applies: |_, difference| difference.found.contains("ref.Val"),
        reason: "Go's names of the types of libraries (cel.IP) are not known here: ref.Val",
    },
    OnPurpose {
        stage: "value",
        applies: |case, _| case.expression.contains("matches(dyn(int)"),
        reason: "a constant pattern is matched with texts only, in the reference also with names of types",
    },
    OnPurpose {
        stage: "value",
        applies: |case, difference| {
            difference.found.contains("invalid data, ")
                && [".first()", ".last()"].iter().any(|call| case.expression.contains(call))
        },
        reason: "first() and last() of a list whose item does not fit its schema fail, in the reference only who \
                 uses the item fails; objects have been validated before",
    },
    OnPurpose {
        stage: "value",
        applies: |_, difference| difference.expected.contains("internal error: "),
        reason: "the reference panics and recovers, depending on the order of its maps",
    },
    OnPurpose {
        stage: "value",
        applies: |case, _| case.answer("runs").and_then(Tree::as_list).is_some_and(|runs| runs.len() > 1),
        reason: "Go's maps have no order: the recorded answers are some of the possible ones",
    },
    OnPurpose {
        stage: "cost",
        applies: |case, _| case.answer("runs").and_then(Tree::as_list).is_some_and(|runs| runs.len() > 1),
        reason: "Go's maps have no order: the recorded costs are some of the possible ones",
    },
];

/// What is not as it was recorded.
struct Difference {
    /// `parse`, `check`, `type`, `estimate`, `plan`, `value`, `cost`, `panic` or `time`.
    stage: &'static str,
    expected: String,
    found: String,
}

#[test]
fn expressions_are_answered_as_the_reference_answers_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/differential");
    let mut report = Report::default();
    for file in files(&folder) {
        report.replay(&file);
    }
    if let Some(folder) = std::env::var_os("KEELSON_CEL_CASES") {
        for file in files(Path::new(&folder)) {
            report.replay(&file);
        }
    }
    println!("{}", report.table());
    if let Some(path) = std::env::var_os("KEELSON_CEL_DIFFERENCES") {
        std::fs::write(path, &report.details).unwrap();
    }
    assert!(report.seen > 1000, "the facts are lost");
    let shown: String = report.details.lines().take(120).map(|line| format!("{line}\n")).collect();
    assert_eq!(report.unmeant, 0, "{}\n{shown}", report.table());
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files
        .retain(|path| path.extension().is_some_and(|extension| extension == "json" || extension == "jsonl"));
    files.sort();
    files
}

#[derive(Default)]
struct Report {
    seen: usize,
    unmeant: usize,
    /// By class of the case, and stage or reason.
    counts: BTreeMap<(String, String), usize>,
    classes: BTreeMap<String, usize>,
    details: String,
}

impl Report {
    fn replay(&mut self, file: &Path) {
        let text = std::fs::read_to_string(file).unwrap();
        let mut lines = text.lines();
        let tables = Tables::read(lines.next().expect("tables"));
        for line in lines {
            let case = Case::read(line);
            let class = case.text("class").unwrap_or("?").to_owned();
            self.seen += 1;
            *self.classes.entry(class.clone()).or_default() += 1;
            for difference in differences(&tables, &case) {
                self.add(&class, &case, &difference);
            }
        }
    }

    fn add(&mut self, class: &str, case: &Case, difference: &Difference) {
        let meant = ON_PURPOSE
            .iter()
            .find(|meant| meant.stage == difference.stage && (meant.applies)(case, difference));
        let column = match meant {
            Some(meant) => format!("meant: {}", meant.reason),
            None => difference.stage.to_owned(),
        };
        *self.counts.entry((column, class.to_owned())).or_default() += 1;
        if meant.is_none() {
            self.unmeant += 1;
            let Difference { stage, expected, found } = difference;
            let request = case.line.split(",\"a\":").next().unwrap_or_default();
            let request = request.split(", \"a\": ").next().unwrap_or_default();
            let _ = writeln!(
                self.details,
                "[{stage}] {}\n  {request}\n  expected {expected}\n  found    {found}",
                case.expression
            );
        }
    }

    fn table(&self) -> String {
        let mut text = format!("{} cases: {:?}\n", self.seen, self.classes);
        let mut last = "";
        for ((column, class), count) in &self.counts {
            if column != last {
                let total: usize =
                    self.counts.iter().filter(|(key, _)| key.0 == *column).map(|(_, n)| n).sum();
                let _ = write!(text, "\n{column}: {total}:");
                last = column;
            }
            let _ = write!(text, " {class} {count},");
        }
        text
    }
}

fn differences(tables: &Tables, case: &Case) -> Vec<Difference> {
    let start = Clock::start();
    let found = catch_unwind(AssertUnwindSafe(|| compare(tables, case)));
    let mut found = found.unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default();
        vec![Difference { stage: "panic", expected: String::new(), found: said }]
    });
    if start.elapsed() > Duration::from_secs(5) {
        found.push(Difference {
            stage: "time",
            expected: "less than 5 s without optimisation".into(),
            found: format!("{:?}", start.elapsed()),
        });
    }
    found
}

fn compare(tables: &Tables, case: &Case) -> Vec<Difference> {
    let mut differences = vec![];
    let mut same = |stage, expected: &str, found: &str| {
        if expected != found {
            differences.push(Difference { stage, expected: expected.into(), found: found.into() });
        }
        expected == found
    };
    if case.answer("panic").is_some() {
        return differences;
    }
    let env = tables.environment(case);
    let issues = case.answer_text("issues");
    let (parse_issues, check_issues) =
        if case.answer("parse").is_some() { (issues, "") } else { ("", issues) };
    let parsed = env.parse(&case.expression);
    let said = parsed.as_ref().err().map(ToString::to_string).unwrap_or_default();
    if !same("parse", parse_issues, &said) {
        return differences;
    }
    let Ok(ast) = parsed else { return differences };
    let checked = env.check(ast);
    let said = checked.as_ref().err().map(ToString::to_string).unwrap_or_default();
    if !same("check", check_issues, &said) {
        return differences;
    }
    let Ok(checked) = checked else { return differences };
    same("type", case.answer_text("type"), &checked.result_type().to_string());
    let uses_old = case.answer("usesOld").is_some();
    same("uses oldSelf", &uses_old.to_string(), &checked.refers_to("oldSelf").to_string());
    if case.answer("costErr").is_none() {
        let estimate = checked.estimate(&*tables.sizes(case));
        let expected = format!("{}..{}", case.answer_text("min"), case.answer_text("max"));
        same("estimate", &expected, &format!("{}..{}", estimate.min, estimate.max));
    }
    let program = env.program(&checked);
    let said = program.as_ref().err().cloned().unwrap_or_default();
    if !same("plan", case.answer_text("progErr"), &said) {
        return differences;
    }
    let Ok(program) = program else { return differences };
    if case.flag("ne") {
        return differences;
    }
    if uses_old && !case.flag("oo") && case.text("old").is_none() {
        // Such an expression is evaluated only where there is an old value.
        return differences;
    }
    let slots = match tables.slots(case, &env) {
        Ok(slots) => slots,
        // The reference evaluates the expression with a fault in the place of the value; the caller of this
        // crate has no value to begin with.
        Err(_) => return differences,
    };
    let mut budget = Budget { limit: case.limit(), spent: 0, interrupted: None };
    let outcome = match program.evaluate(&slots, &mut budget) {
        Ok(value) => show(&value),
        Err(failure) => format!("error: {failure}"),
    };
    let runs = case.answer("runs").and_then(Tree::as_list).unwrap_or_default();
    let expected: Vec<(String, u64)> = runs
        .iter()
        .map(|run| {
            let text = |name| run.get(name).and_then(Tree::as_str);
            let outcome = text("err").map(|text| format!("error: {text}"));
            let cost = run.get("cost").and_then(Tree::as_i64).unwrap_or_default() as u64;
            (outcome.unwrap_or_else(|| text("value").unwrap_or_default().to_owned()), cost)
        })
        .collect();
    // Long values are recorded in part.
    let is_same = |(text, cost): &(String, u64)| {
        *cost == budget.spent && (*text == outcome || text.contains('…') && outcome.len() > 10_000)
    };
    if expected.iter().any(is_same) {
        return differences;
    }
    match expected.iter().find(|(text, _)| *text == outcome) {
        Some((_, cost)) => {
            same("cost", &format!("{outcome} for {cost}"), &format!("{outcome} for {}", budget.spent))
        }
        None => {
            let expected: Vec<_> = expected.iter().map(|(text, cost)| format!("{text} for {cost}")).collect();
            same("value", &expected.join(" or "), &format!("{outcome} for {}", budget.spent))
        }
    };
    differences
}

//! What Go says of patterns, one case per line.
//!
//! `reference/patterns.txt`: patterns with their error, or with those of the inputs (last line) that they
//! match. `reference/find.txt`: patterns with a text, its first match, and at most `n` of its matches.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

use pattern::{Pattern, check_pattern};
use serde_json::json;
use std::convert::Infallible;

fn lines(text: &str) -> impl Iterator<Item = serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line"))
}

#[test]
fn patterns_match_what_they_match_in_go() {
    let mut lines: Vec<_> = lines(include_str!("reference/patterns.txt")).collect();
    let inputs: Vec<String> =
        serde_json::from_value(lines.pop().expect("inputs")["inputs"].clone()).expect("texts");
    let mut wrong = vec![];
    for line in &lines {
        let pattern = line["pattern"].as_str().expect("a pattern");
        let found = match check_pattern(pattern) {
            Err(error) => json!({"pattern": pattern, "error": error}),
            Ok(()) => {
                let matches: Vec<_> = inputs
                    .iter()
                    .filter(|input| pattern::matches(pattern, input, &mut |_| true) == Ok(Some(true)))
                    .collect();
                json!({"pattern": pattern, "matches": matches})
            }
        };
        if found != *line {
            wrong.push(format!("  expected {line}\n  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn patterns_find_what_they_find_in_go() {
    let (mut cases, mut wrong) = (0, vec![]);
    for line in lines(include_str!("reference/find.txt")) {
        cases += 1;
        let text = line["text"].as_str().expect("a text");
        let pattern = Pattern::new(line["pattern"].as_str().expect("a pattern")).expect("it is valid");
        let most = usize::try_from(line["n"].as_i64().expect("a number")).unwrap_or(usize::MAX);
        let mut spend = |_| Ok::<_, Infallible>(());
        let Ok(first) = pattern.find(text, &mut spend);
        let Ok(all) = pattern.find_all(text, most, &mut spend);
        let found = json!([first.unwrap_or_default(), all]);
        if found != json!([line["first"], line["all"]]) {
            wrong.push(format!("  expected {line}\n  found    {found}"));
        }
    }
    assert!(cases > 5_000, "{cases}");
    let shown = wrong.len().min(40);
    assert!(wrong.is_empty(), "{} of {cases} differ:\n{}", wrong.len(), wrong[..shown].join("\n"));
}

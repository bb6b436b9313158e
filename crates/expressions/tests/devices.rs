//! Types, faults and estimated costs of selectors of devices, as kube-apiserver has them.

#![allow(clippy::unwrap_used, reason = "this is test code")]

use expressions::{Fault, Stage, device};
use std::fmt::Write;

/// Selectors, each in a line that begins with `> `, with what the reference says of them: a line for both
/// stages, or one for each. See the top of the file.
const CASES: &str = include_str!("reference/devices.txt");

fn verdict(selector: &str, stage: Stage) -> String {
    let (kind, detail) = match device::max_cost(selector, stage) {
        Ok(cost) => return format!("= {cost}"),
        Err(Fault::Invalid(detail)) => ("invalid", detail),
        Err(Fault::Internal(detail)) => ("internal", detail),
    };
    format!("! {kind}: {}", detail.replace('\n', "\\n"))
}

#[test]
fn selectors_compile_and_cost_as_in_the_reference() {
    let mut selector = "";
    let (mut count, mut differences) = (0, String::new());
    for line in CASES.lines().filter(|line| !line.starts_with('#')) {
        if let Some(text) = line.strip_prefix("> ") {
            selector = text;
            continue;
        }
        let (stages, wanted) = match line.split_once(' ').unwrap() {
            ("new", wanted) => (&[Stage::New][..], wanted),
            ("stored", wanted) => (&[Stage::Stored][..], wanted),
            _ => (&[Stage::New, Stage::Stored][..], line),
        };
        for stage in stages {
            let found = verdict(selector, *stage);
            if found != wanted {
                writeln!(differences, "{selector}\nreference {wanted}\n{stage:?} {found}\n").unwrap();
            }
            count += 1;
        }
    }
    assert!(count > 600, "{count} cases");
    assert!(differences.is_empty(), "{differences}");
}

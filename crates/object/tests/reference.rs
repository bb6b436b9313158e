//! The leaf modules against facts recorded from the reference implementation: for each text, what it made of
//! it.
//!
//! A fact file has one case per line, its columns split by tabs. `\t`, `\n`, `\r`, `\0` and `\\` are escapes,
//! `\i` is the first column. Lines `@n` come first and hold texts that later columns refer to as `@n`. Where
//! a reading failed, the column holds `!` and the error.

#[path = "reference/field.rs"]
mod field;
#[path = "reference/json_path.rs"]
mod json_path;
#[path = "reference/name.rs"]
mod name;
#[path = "reference/path.rs"]
mod path;
#[path = "reference/quantity.rs"]
mod quantity;
#[path = "reference/selector.rs"]
mod selector;
#[path = "reference/time.rs"]
mod time;

use std::collections::HashMap;

/// Calls a check with the columns of each line, and the line itself for messages.
fn each_fact(facts: &str, mut check: impl FnMut(&[String], &str)) {
    let mut shared = HashMap::new();
    let mut seen = 0;
    for line in facts.lines() {
        let (first, rest) = line.split_once('\t').unwrap_or((line, ""));
        if first.starts_with('@') {
            shared.insert(first, rest);
            continue;
        }
        let input = unescape(first, "");
        let mut columns = vec![input.clone()];
        columns
            .extend(rest.split('\t').map(|column| unescape(shared.get(column).unwrap_or(&column), &input)));
        check(&columns, line);
        seen += 1;
    }
    assert!(seen > 100, "a fact file has lost its facts");
}

fn unescape(column: &str, input: &str) -> String {
    let mut out = String::with_capacity(column.len());
    let mut characters = column.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('0') => out.push('\0'),
            Some('\\') => out.push('\\'),
            Some('i') => out.push_str(input),
            other => unreachable!("no such escape: {other:?}"),
        }
    }
    out
}

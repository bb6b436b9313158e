//! The leaf modules against facts recorded from the reference implementation: for each text, what it made of it.
//!
//! A fact file has one case per line, its columns split by tabs; `\t`, `\n`, `\r` and `\\` stand for themselves.

#[path = "reference/quantity.rs"]
mod quantity;

/// Calls a check with the columns of each line, and the line itself for messages.
fn each_fact(facts: &str, mut check: impl FnMut(&[String], &str)) {
    let mut seen = 0;
    for line in facts.lines() {
        let columns: Vec<String> = line.split('\t').map(unescape).collect();
        check(&columns, line);
        seen += 1;
    }
    assert!(seen > 100, "a fact file has lost its facts");
}

fn unescape(column: &str) -> String {
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
            Some('\\') => out.push('\\'),
            other => unreachable!("no such escape: {other:?}"),
        }
    }
    out
}

//! The names of time zones.

use std::cmp::Ordering;

/// The zones of the IANA database, sorted.
const NAMES: &str = include_str!("time_zones.txt");

/// Whether a zone exists; the message says why not. No name is UTC.
pub fn find(name: &str) -> Result<(), String> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(());
    }
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err("time: invalid location name".into());
    }
    if has_line(NAMES, name) { Ok(()) } else { Err(format!("unknown time zone {name}")) }
}

/// Whether one of the sorted lines of a text is `wanted`.
fn has_line(mut text: &str, wanted: &str) -> bool {
    while let Some(line) = middle_line(text) {
        match line.text.cmp(wanted) {
            Ordering::Equal => return true,
            Ordering::Greater => text = line.before,
            Ordering::Less => text = line.after,
        }
    }
    false
}

struct Line<'a> {
    before: &'a str,
    text: &'a str,
    after: &'a str,
}

/// The line at the middle of a text of ASCII lines.
fn middle_line(text: &str) -> Option<Line<'_>> {
    let (head, tail) = text.split_at_checked(text.len() / 2)?;
    let start = head.rfind('\n').map_or(0, |at| at + 1);
    let end = tail.find('\n').map_or(text.len(), |at| head.len() + at);
    let line = Line {
        before: text.get(..start)?,
        text: text.get(start..end)?,
        after: text.get(end + 1..).unwrap_or_default(),
    };
    (!text.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_zone_is_found_and_no_other() {
        for name in NAMES.lines() {
            assert_eq!(find(name), Ok(()), "{name}");
            assert_eq!(
                find(&format!("{name}x")).is_ok(),
                NAMES.lines().any(|line| line == format!("{name}x")),
                "{name}x"
            );
        }
        assert_eq!(find("Nope/Zone"), Err("unknown time zone Nope/Zone".into()));
        assert_eq!(find("europe/berlin"), Err("unknown time zone europe/berlin".into()));
        assert_eq!(find("../etc"), Err("time: invalid location name".into()));
    }
}

//! The indexes of an Indexed job as text: numbers and intervals in increasing order, `1,3-5,7`.

use super::number;
use object::quote::Quoted;

/// An interval of indexes, both ends included.
#[derive(Clone, Copy)]
struct Interval {
    first: i64,
    last: i64,
}

/// The number of indexes in a text; the message says what is wrong with it. Indexes are below `completions`.
pub(super) fn count(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let mut before: Option<i64> = None;
    let mut total: i64 = 0;
    for part in text.split(',') {
        let interval = parse(part, completions)?;
        if let Some(before) = before.filter(|before| *before >= interval.first) {
            return Err(format!("non-increasing order, previous: {before}, current: {}", interval.first));
        }
        total = total.saturating_add(interval.last - interval.first + 1);
        before = Some(interval.last);
    }
    Ok(total)
}

/// An index that is in both texts. What cannot be read is passed over.
pub(super) fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let readable = |text| {
        let parts =
            Some(text).filter(|text: &&str| !text.is_empty()).into_iter().flat_map(|text| text.split(','));
        parts.filter_map(move |part| parse(part, completions).ok())
    };
    let (mut completed, mut failed) = (readable(completed), readable(failed));
    let (mut done, mut lost): (Option<Interval>, Option<Interval>) = (completed.next(), failed.next());
    while let (Some(complete), Some(fail)) = (done, lost) {
        if complete.first <= fail.last && fail.first <= complete.last {
            return Some(complete.first.max(fail.first));
        }
        if complete.first <= fail.first {
            done = completed.next();
        } else {
            lost = failed.next();
        }
    }
    None
}

fn parse(text: &str, completions: i64) -> Result<Interval, String> {
    let mut parts = text.split('-');
    let (first, last) = (parts.next().unwrap_or_default(), parts.next());
    if parts.next().is_some() {
        return Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            Quoted(text)
        ));
    }
    let index = |text: &str| match number(text) {
        Err(_) => Err(format!("cannot convert string to integer for index: {}", Quoted(text))),
        Ok(index) if index >= completions => Err(format!("too large index: {}", Quoted(text))),
        Ok(index) => Ok(index),
    };
    let first = index(first)?;
    let Some(last) = last else { return Ok(Interval { first, last: first }) };
    let last = index(last)?;
    if first >= last {
        return Err(format!("non-increasing order, previous: {first}, current: {last}"));
    }
    Ok(Interval { first, last })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted_in_increasing_order() {
        let cases = [
            ("", Ok(0)),
            ("0", Ok(1)),
            ("0-2,4,6-7", Ok(6)),
            ("2,1", Err("non-increasing order, previous: 2, current: 1")),
            ("1-1", Err("non-increasing order, previous: 1, current: 1")),
            ("0,9", Err(r#"too large index: "9""#)),
            ("0,", Err(r#"cannot convert string to integer for index: """#)),
            (
                "0-1-2",
                Err(
                    r#"the fragment "0-1-2" violates the requirement that an index interval can have at most two parts separated by '-'"#,
                ),
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(count(text, 9), wanted.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn first_index_of_both_is_found() {
        for (completed, failed, wanted) in [
            ("0-2", "3", None),
            ("0-2,6", "1,4", Some(1)),
            ("0,4-6", "1-3,5", Some(5)),
            ("x,3", "3", Some(3)),
            ("", "3", None),
        ] {
            assert_eq!(overlap(completed, failed, 9), wanted, "{completed} {failed}");
        }
    }
}

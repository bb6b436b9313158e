//! The natural order of keys in YAML output: `a2` before `a10`.

use std::borrow::Cow;
use std::collections::HashMap;

/// Entries sorted by key; the last of duplicate keys is kept.
pub(super) fn sort_keys<'t, T>(entries: Vec<(Cow<'t, str>, T)>) -> Vec<(Cow<'t, str>, T)> {
    let mut distinct: HashMap<Cow<'t, str>, T> = HashMap::with_capacity(entries.len());
    for (key, value) in entries {
        distinct.insert(key, value);
    }
    let mut sorted: Vec<_> = distinct.into_iter().collect();
    // The natural order is no total order. Bytewise sorting first makes the result deterministic.
    sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    merge_sort(sorted)
}

/// Sorts by [`is_before`], which is not known to be a total order, as the library's sort demands.
fn merge_sort<'t, T>(mut left: Vec<(Cow<'t, str>, T)>) -> Vec<(Cow<'t, str>, T)> {
    if left.len() < 2 {
        return left;
    }
    let right = left.split_off(left.len() / 2);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let mut left = merge_sort(left).into_iter().peekable();
    let mut right = merge_sort(right).into_iter().peekable();
    while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
        let next = if is_before(&second.0, &first.0) { right.next() } else { left.next() };
        merged.extend(next);
    }
    merged.extend(left);
    merged.extend(right);
    merged
}

/// Whether `a` is written before `b`: letters after everything else, runs of digits by their value.
fn is_before(a: &str, b: &str) -> bool {
    let common = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let (before, rest_a) = a.split_at_checked(common).unwrap_or((a, ""));
    let rest_b = b.get(common..).unwrap_or_default();
    let (Some(first_a), Some(first_b)) = (rest_a.chars().next(), rest_b.chars().next()) else {
        return rest_a.is_empty() && !rest_b.is_empty();
    };
    match (first_a.is_alphabetic(), first_b.is_alphabetic()) {
        (true, true) => return first_a < first_b,
        (false, false) => {}
        (_, b_is_letter) => return b_is_letter,
    }
    // A zero is significant only after a digit other than zero.
    let mut digits_before = before.bytes().rev().take_while(u8::is_ascii_digit);
    let start = i64::from((first_a == '0' || first_b == '0') && digits_before.any(|digit| digit != b'0'));
    let run = |text: &str| {
        let digits = text.bytes().take_while(u8::is_ascii_digit);
        let value = |value: i64, digit: u8| value.wrapping_mul(10).wrapping_add(i64::from(digit - b'0'));
        (digits.clone().fold(start, value), digits.count())
    };
    (run(rest_a), first_a) < (run(rest_b), first_b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(keys: &[&'static str]) -> Vec<String> {
        let entries = keys.iter().map(|key| (Cow::Borrowed(*key), ())).collect();
        sort_keys(entries).into_iter().map(|(key, ())| key.into_owned()).collect()
    }

    #[test]
    fn runs_of_digits_are_ordered_by_value() {
        assert_eq!(order(&["a10", "a2", "a1", "a", "a02", "a001"]), ["a", "a1", "a001", "a2", "a02", "a10"]);
    }

    #[test]
    fn letters_sort_after_all_other_characters() {
        assert_eq!(order(&["b", "B", "_", "1", "-", "é"]), ["-", "_", "1", "B", "b", "é"]);
    }

    #[test]
    fn last_of_equal_keys_is_kept() {
        let entries = vec![(Cow::Borrowed("a"), 1), ("b".into(), 2), ("a".into(), 3)];
        assert_eq!(sort_keys(entries), [(Cow::Borrowed("a"), 3), ("b".into(), 2)]);
    }

    #[test]
    fn digits_past_64_bits_do_not_stop_the_sort() {
        let keys: Vec<String> =
            (0..400u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string().repeat(2)).collect();
        let entries = keys.iter().map(|key| (Cow::Borrowed(key.as_str()), ())).collect();
        assert_eq!(sort_keys(entries).len(), keys.len());
    }
}

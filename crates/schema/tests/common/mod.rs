//! Fixtures and random JSON.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code, reason = "each test uses a part of it")]

use crate::generate::Random;
use serde_json::Value;

/// The lines of a fixture, each a JSON value.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"))
}

/// Bytes from hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Random text of pieces that are special in YAML.
pub(crate) fn hard_text(random: &mut Random) -> String {
    const BITS: &[&str] = &[
        "a",
        "B",
        "yes",
        "null",
        "1",
        ".5",
        "1e3",
        "0x1f",
        "2001-01-01",
        "é",
        "😀",
        " ",
        "  ",
        "\n",
        "\t",
        "\r",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
        "\u{0}",
        "\u{7f}",
        "-",
        "- ",
        ":",
        ": ",
        " #",
        "?",
        "[",
        "}",
        ",",
        "&",
        "*",
        "!",
        "|",
        ">",
        "'",
        "\"",
        "%",
        "@",
        "`",
        "\\",
        "---",
        "...",
        "<<",
        "~",
        "=",
        "a very long word ",
    ];
    let count = if random.one_in(12) { 40 } else { random.below(6) };
    (0..count).map(|_| *random.pick(&BITS.iter().collect::<Vec<_>>())).collect()
}

/// A random JSON value with a limited depth.
pub(crate) fn any_json(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 6 } else { 10 }) {
        0 => Value::Null,
        1 => Value::Bool(random.one_in(2)),
        2 => Value::from(random.next() as i64 >> random.below(64)),
        3 => Value::from((random.next() as i64 as f64 + 0.5) / 3f64.powi(random.below(60) as i32)),
        4 | 5 => Value::from(hard_text(random)),
        6 | 7 => (0..random.below(5)).map(|_| any_json(random, depth - 1)).collect(),
        _ => Value::Object(
            (0..random.below(5)).map(|_| (hard_text(random), any_json(random, depth - 1))).collect(),
        ),
    }
}

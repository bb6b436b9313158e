//! Numbers, which are floats to the reference.

use super::{Error, Scanner};
use crate::Value;
use crate::quote::Quoted;

/// How large a float may be.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Width {
    /// 32 bits.
    Single,
    /// 64 bits.
    Double,
}

impl<'t> Scanner<'t> {
    /// What is no float may still be a number of another kind, from where the float was given up.
    pub(super) fn skip_number(&mut self) -> Result<(), Error> {
        if self.skip_plain_number()? {
            return Ok(());
        }
        self.unread();
        if self.float(Width::Double).is_ok() {
            return Ok(());
        }
        match self.number_text() {
            "" => Err(self.error("readNumberAsString", "invalid number")),
            text if text.parse::<f64>().is_ok() => Ok(()),
            _ => Err(Error("number has no digits".into())),
        }
    }

    fn skip_plain_number(&mut self) -> Result<bool, Error> {
        let mut dots = 0;
        for (at, byte) in self.bytes.iter().enumerate().skip(self.head) {
            match byte {
                b'0'..=b'9' => {}
                b'.' if dots > 0 => {
                    return Err(self.error("validateNumber", "more than one dot found in number"));
                }
                b'.' => match self.bytes.get(at + 1) {
                    Some(b'0'..=b'9') => dots += 1,
                    Some(_) => return Err(self.error("validateNumber", "missing digit after dot")),
                    None => return Ok(false),
                },
                b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r' if at > self.head => {
                    self.head = at;
                    return Ok(true);
                }
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    /// The characters of a number, whatever their order.
    fn number_text(&mut self) -> &'t str {
        let rest = self.text.get(self.head..).unwrap_or_default();
        let is_part = |byte: u8| matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E' | b'0'..=b'9');
        match rest.bytes().position(|byte| !is_part(byte)) {
            Some(length) => {
                self.head += length;
                rest.get(..length).unwrap_or_default()
            }
            None => {
                self.end();
                rest
            }
        }
    }

    pub(super) fn float(&mut self, width: Width) -> Result<f64, Error> {
        let (fast, slow) = match width {
            Width::Single => ("readFloat32", "readFloat32SlowPath"),
            Width::Double => ("readFloat64", "readFloat64SlowPath"),
        };
        let negative = self.token() == b'-';
        if !negative {
            self.unread();
        }
        let rest = self.bytes.get(self.head..).unwrap_or_default();
        match rest {
            [b',' | b']' | b'}' | b' ' | b'\t' | b'\n', ..] => return Err(self.error(fast, "empty number")),
            [b'.', ..] => return Err(self.error(fast, "leading dot is invalid")),
            [b'0', b'0'..=b'9', ..] => return Err(self.error(fast, "leading zero is invalid")),
            _ => {}
        }
        let text = self.number_text();
        let fault = match text.split_once('.') {
            _ if text.is_empty() => return Err(self.error("readNumberAsString", "invalid number")),
            _ if text.starts_with('-') => Some("-- is not valid"),
            Some((_, "")) => Some("dot can not be last character"),
            Some((_, fraction)) if !fraction.starts_with(|c: char| c.is_ascii_digit()) => {
                Some("missing digit after dot")
            }
            _ => None,
        };
        if let Some(fault) = fault {
            return Err(self.error(slow, fault));
        }
        let refused =
            |reason| Error(format!("strconv.ParseFloat: parsing {}: {reason}", Quoted(text)).into());
        let number: f64 = text.parse().map_err(|_| refused("invalid syntax"))?;
        let most = if width == Width::Single { f64::from(f32::MAX) } else { f64::MAX };
        if number > most {
            return Err(refused("value out of range"));
        }
        Ok(if negative { -number } else { number })
    }
}

/// From a million up, the display of a float differs from that of a whole number; a zero may have a sign.
pub(super) fn value(float: f64) -> Value {
    let whole = float as i64;
    let same = float.abs() < 1e6 && whole as f64 == float && !(whole == 0 && float.is_sign_negative());
    if same { Value::Int(whole) } else { Value::Float(float) }
}

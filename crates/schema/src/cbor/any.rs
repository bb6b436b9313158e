//! Decoding of items without a type, to the values that JSON would give.

use super::decode::{BinaryForm, Decoder, wanted};
use super::item::{Major, unacceptable};
use crate::decode::{DecodePath, Error, Fault};
use crate::json::{write_float, write_text};
use crate::model::Shape;
use object::time::Time;
use object::{Key, Map, Text, Value};
use std::collections::HashSet;

impl Decoder<'_> {
    /// Any item, as a tree.
    pub(super) fn any(&mut self, path: &DecodePath<'_>) -> Result<Value, Fault> {
        self.skip_self_described();
        self.check_tags()?;
        match self.reader.major() {
            Major::Positive | Major::Negative => {
                let major = self.reader.major();
                self.reader.integer().map(Value::Int).map_err(|number| {
                    let why = format!("{number} overflows Go's int64");
                    self.mismatch_with(major, "int64", path, &why)
                })
            }
            Major::Bytes | Major::Text => self.text().map(Value::String),
            Major::Array => {
                let mut elements = self.reader.elements();
                let (mut list, mut first) = (Vec::new(), None);
                while self.reader.more(&mut elements) {
                    if first.is_some() {
                        self.reader.skip();
                        continue;
                    }
                    match self.whole(|decoder| decoder.any(&path.index(list.len()))) {
                        Ok(value) => list.push(value),
                        Err(fault) => first = Some(fault),
                    }
                }
                self.ended(list, first)
            }
            Major::Map => self.map_of(&Shape::Any, path),
            Major::Tag => {
                let mut ahead = self.reader;
                match ahead.head().argument {
                    0 | 1 => self.tagged_time().map(Value::String),
                    _ => self.tagged(|decoder| decoder.any(path)),
                }
            }
            Major::Primitive => self.primitive(),
        }
    }

    fn primitive(&mut self) -> Result<Value, Fault> {
        let head = self.reader.head();
        match (head.info, head.float()) {
            (_, Some(number)) => Ok(Value::Float(number)),
            (20 | 21, _) => Ok(Value::Bool(head.info == 21)),
            (22, _) => Ok(Value::Null),
            _ => Err(unrecognized(head.argument)),
        }
    }

    /// The entries of a map whose values have a shape.
    pub(super) fn map_of(&mut self, shape: &Shape, path: &DecodePath<'_>) -> Result<Value, Fault> {
        let mut elements = self.reader.elements();
        let (mut entries, mut keys) = (Vec::new(), HashSet::new());
        let (mut first, mut repeated, mut entry) = (None, None, 0usize);
        while self.reader.more(&mut elements) {
            let at = entry;
            entry += 1;
            let is_text = matches!(self.reader.major(), Major::Bytes | Major::Text);
            if repeated.is_some() || (first.is_some() && !is_text) {
                self.reader.skip();
                self.reader.skip();
                continue;
            }
            let key = match self.whole(|decoder| decoder.key(path)) {
                Ok(key) => key,
                Err(fault) => {
                    first.get_or_insert(fault);
                    self.reader.skip();
                    continue;
                }
            };
            if keys.contains(&key) {
                repeated = Some(duplicate(&key, at));
            }
            if repeated.is_some() || first.is_some() {
                self.reader.skip();
                continue;
            }
            match self.whole(|decoder| decoder.value(shape, &path.key(&key))) {
                Ok(value) => {
                    keys.insert(key.clone());
                    let value = if value.is_null() { shape.empty_element() } else { value };
                    entries.push((Key::from(key), value));
                }
                Err(fault) => first = Some(fault),
            }
        }
        self.ended(Map::from_distinct(entries), repeated.or(first))
    }

    /// The key of a map's entry.
    fn key(&mut self, path: &DecodePath<'_>) -> Result<Text, Fault> {
        self.skip_self_described();
        self.check_tags()?;
        match self.reader.major() {
            Major::Bytes | Major::Text => self.text(),
            Major::Tag => self.tagged(|decoder| decoder.key(path)),
            // The reference treats a null key as the previous key, or as an empty one.
            major => {
                let too_large = match major {
                    Major::Negative => self.reader.integer().err(),
                    Major::Primitive => self.primitive().map(|_| None)?,
                    _ => None,
                };
                let why = too_large.map(|number| format!("{number} overflows Go's int64"));
                let map = wanted(&Shape::Any, path);
                let key = map.strip_prefix("map[").and_then(|rest| rest.split_once(']'));
                let key = key.map_or("string", |(key, _)| key);
                Err(self.mismatch_with(major, key, path, &why.unwrap_or_default()))
            }
        }
    }

    /// A tagged time, as text.
    fn tagged_time(&mut self) -> Result<Text, Fault> {
        let tag = self.reader.head();
        if tag.argument == 0 {
            let bytes = self.reader.string();
            let text = std::str::from_utf8(&bytes).map_err(|_| invalid_text())?;
            return zoned_time(text);
        }
        let (seconds, nanos) = match self.reader.major() {
            Major::Positive | Major::Negative => {
                let major = self.reader.major();
                let seconds = self.reader.integer().map_err(|number| {
                    let why = format!("{number} overflows Go's int64");
                    self.mismatch_with(major, "time.Time", &DecodePath::ROOT, &why)
                })?;
                (seconds, 0)
            }
            _ => {
                let number = self.reader.head().float().unwrap_or(0.0);
                let nanos = (number.fract() * 1e9) as i64;
                let seconds = number.trunc() as i64;
                if nanos < 0 { (seconds.saturating_sub(1), nanos + 1_000_000_000) } else { (seconds, nanos) }
            }
        };
        let text = Time::from_unix(seconds).to_string();
        // The first second of year 0 and the last of year 9999.
        if !(-62_167_219_200..=253_402_300_799).contains(&seconds) {
            return Err(unwritable_time("year outside of range [0,9999]"));
        }
        Ok(format!("{}{}Z", text.trim_end_matches('Z'), fraction(&format!("{nanos:09}"))).into())
    }
}

/// A time as RFC 3339 text, in its own zone, with the shortest fraction.
fn zoned_time(text: &str) -> Result<Text, Fault> {
    if let Err(error) = object::time::canonicalize(text) {
        return Err(Fault::new(Error::Value(format!("cbor: cannot set {text} for time.Time: {error}"))));
    }
    let (date, rest) = text.split_once('T').unwrap_or((text, ""));
    let zone_at = rest.find(['Z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at_checked(zone_at).unwrap_or((rest, ""));
    let (clock, digits) = clock.split_once(['.', ',']).unwrap_or((clock, ""));
    let digits = digits.get(..9).unwrap_or(digits);
    // An hour may have one digit.
    let clock = if clock.find(':') == Some(1) { format!("0{clock}") } else { clock.into() };
    let zone = if zone.get(1..) == Some("00:00") { "Z" } else { zone };
    if zone.get(1..3).is_some_and(|hours| hours > "23") {
        return Err(unwritable_time("timezone hour outside of range [0,23]"));
    }
    Ok(format!("{date}T{clock}{}{zone}", fraction(digits)).into())
}

/// The digits after a point, without zeros at the end.
fn fraction(digits: &str) -> String {
    let digits = digits.trim_end_matches('0');
    if digits.is_empty() { String::new() } else { format!(".{digits}") }
}

#[cold]
fn unwritable_time(why: &str) -> Fault {
    Fault::new(Error::Value(format!(
        "cbor: decoded time cannot be represented in RFC3339 format with sub-second precision: Time.MarshalText: {why}"
    )))
}

#[cold]
pub(super) fn invalid_text() -> Fault {
    Fault::new(Error::Value("cbor: invalid UTF-8 string".into()))
}

#[cold]
pub(super) fn unrecognized(simple: u64) -> Fault {
    unacceptable(Major::Primitive, &format!("simple value {simple} is not recognized"))
}

#[cold]
pub(super) fn duplicate(key: &str, at: usize) -> Fault {
    Fault::new(Error::Value(format!("cbor: found duplicate map key \"{key}\" at map element index {at}")))
}

impl BinaryForm {
    /// The text of binary data.
    pub(super) fn text(self, bytes: &[u8]) -> String {
        use base64::Engine;
        use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
        match self {
            BinaryForm::Base64Url => URL_SAFE_NO_PAD.encode(bytes),
            BinaryForm::Base64 => STANDARD.encode(bytes),
            BinaryForm::Base16 => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

/// A tree as JSON text, without white space and with sorted keys.
pub(super) fn write_json(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Bool(flag) => out.extend_from_slice(if *flag { b"true" } else { b"false" }),
        Value::Int(number) => out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes()),
        Value::Float(number) => write_float(*number, out),
        Value::String(text) => write_text(text, out),
        Value::List(list) => {
            out.push(b'[');
            for (at, element) in list.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_json(element, out);
            }
            out.push(b']');
        }
        Value::Map(map) => {
            let mut sorted: Vec<_> = map.iter().collect();
            sorted.sort_by_key(|(key, _)| *key);
            out.push(b'{');
            for (at, (key, value)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_text(key, out);
                out.push(b':');
                write_json(value, out);
            }
            out.push(b'}');
        }
        // Decoding without a type gives no other values.
        Value::Null | Value::Bytes(_) | Value::Raw(_) => out.extend_from_slice(b"null"),
    }
}

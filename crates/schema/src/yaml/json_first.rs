//! The fast path for JSON in a YAML body, which is what most clients send.
//!
//! It is taken only if the YAML parser would give the same result: every token has the same meaning in YAML
//! and in JSON, no key is duplicate, and decoding reports no unknown fields.

use crate::decode::{Decoded, Limits};
use crate::json::write_float;
use crate::model::Shape;
use object::Value;

/// The longest key for which the YAML parser surely finds the colon.
const LONGEST_KEY: usize = 1000;

/// Decodes JSON; `None` if the YAML parser has to.
pub(super) fn decode_shape(shape: &Shape, input: &[u8], limits: &Limits) -> Option<Decoded> {
    let start = input.iter().position(|byte| !matches!(byte, b' ' | b'\n' | b'\r'))?;
    if input.get(start) != Some(&b'{') || input.len() > limits.bytes {
        return None;
    }
    let text = std::str::from_utf8(input).ok()?;
    if !SubsetScan::new(text, limits.depth).means_the_same_in_yaml() {
        return None;
    }
    let decoded = crate::json::decode_shape(shape, input, limits).ok()?;
    (decoded.strict.is_empty() && raw_is_sorted(&decoded.value, limits.depth)).then_some(decoded)
}

/// Whether the keys in all raw JSON are in the order in which the YAML parser puts them.
fn raw_is_sorted(value: &Value, depth: usize) -> bool {
    match value {
        Value::Raw(raw) => {
            let mut scan = SubsetScan::new(raw.as_str(), depth);
            scan.means_the_same_in_yaml() && scan.sorted
        }
        Value::List(list) => list.iter().all(|value| raw_is_sorted(value, depth)),
        Value::Map(map) => map.values().all(|value| raw_is_sorted(value, depth)),
        _ => true,
    }
}

/// A scan for JSON that has the same meaning in YAML. It does not check the JSON syntax: the decoder does.
struct SubsetScan<'t> {
    text: &'t str,
    at: usize,
    /// The keys of the open objects, innermost last; `None` for a list.
    open: Vec<Option<Vec<&'t str>>>,
    /// The limit of `open`.
    depth: usize,
    sorted: bool,
}

impl<'t> SubsetScan<'t> {
    fn new(text: &'t str, depth: usize) -> Self {
        Self { text, at: 0, open: Vec::new(), depth, sorted: true }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Whether the text has the same meaning in YAML.
    fn means_the_same_in_yaml(&mut self) -> bool {
        while let Some(byte) = self.peek() {
            let alike = match byte {
                b' ' | b'\n' | b'\r' | b',' | b':' => {
                    self.at += 1;
                    true
                }
                b'\t' => {
                    self.at += 1;
                    // Outside of all brackets a tab could be indentation.
                    !self.open.is_empty()
                }
                b'{' | b'[' => {
                    self.at += 1;
                    self.open.push((byte == b'{').then(Vec::new));
                    self.open.len() <= self.depth
                }
                b'}' | b']' => {
                    self.at += 1;
                    self.close()
                }
                b'"' => self.string(),
                b'-' | b'0'..=b'9' => self.number(),
                b't' => self.word("true"),
                b'f' => self.word("false"),
                b'n' => self.word("null"),
                _ => false,
            };
            if !alike {
                return false;
            }
        }
        true
    }

    fn word(&mut self, word: &str) -> bool {
        let found = self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word));
        self.at += word.len();
        found
    }

    /// Closes a list or object; false if it has a duplicate key.
    fn close(&mut self) -> bool {
        let Some(Some(mut keys)) = self.open.pop() else { return true };
        if keys.is_sorted_by(|a, b| a < b) {
            return true;
        }
        self.sorted = false;
        keys.sort_unstable();
        keys.is_sorted_by(|a, b| a < b)
    }

    fn string(&mut self) -> bool {
        let start = self.at;
        self.at += 1;
        let mut escaped = false;
        loop {
            let Some(byte) = self.peek() else { return false };
            self.at += 1;
            match byte {
                b'"' => break,
                b'\\' => {
                    escaped = true;
                    let Some(letter) = self.peek() else { return false };
                    self.at += 1;
                    // YAML knows neither `\/` nor surrogate pairs.
                    let surrogate = letter == b'u'
                        && matches!(
                            self.text.as_bytes().get(self.at..self.at + 2),
                            Some([b'd' | b'D', b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F'])
                        );
                    if letter == b'/' || surrogate {
                        return false;
                    }
                }
                // Controls, and what is a line break in YAML.
                0..0x20 | 0x7f => return false,
                0xc2 if matches!(self.peek(), Some(0x80..0xa0)) => return false,
                0xe2 if matches!(
                    self.text.as_bytes().get(self.at..self.at + 2),
                    Some([0x80, 0xa8 | 0xa9])
                ) =>
                {
                    return false;
                }
                0xef if matches!(
                    self.text.as_bytes().get(self.at..self.at + 2),
                    Some([0xbf, 0xbe | 0xbf])
                ) =>
                {
                    return false;
                }
                _ => {}
            }
        }
        let is_key =
            self.text.as_bytes().iter().skip(self.at).find(|byte| !b" \t\r\n".contains(byte)) == Some(&b':');
        if !is_key {
            return true;
        }
        let key = self.text.get(start + 1..self.at - 1).unwrap_or_default();
        // The colon must be on the same line.
        while let Some(b' ' | b'\t') = self.peek() {
            self.at += 1;
        }
        let fits = self.peek() == Some(b':') && self.at - start < LONGEST_KEY && !escaped;
        if let Some(Some(keys)) = self.open.last_mut() {
            keys.push(key);
        }
        fits
    }

    fn number(&mut self) -> bool {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let length = rest.iter().take_while(|byte| b"+-.eE0123456789".contains(byte)).count();
        let text = self.text.get(self.at..self.at + length).unwrap_or_default();
        self.at += length;
        match text.parse::<i64>() {
            Ok(number) => itoa::Buffer::new().format(number) == text,
            Err(_) => {
                let Ok(number) = text.parse::<f64>() else { return false };
                let mut written = Vec::with_capacity(32);
                if number.is_finite() {
                    write_float(number, &mut written);
                }
                written == text.as_bytes()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SubsetScan;

    #[test]
    fn json_with_the_same_meaning_in_yaml_takes_the_fast_path() {
        for json in [
            "{}",
            "  {\"a\" : [1, -2, 0.5, true, null, \"x\\n\\u00e9\"], \"b\":{}}\n",
            "{\n\t\"a\": 1\n}",
            "{\"a\":{\"a\":1},\"b\":{\"a\":1}}",
            "{\"~\":\"é😀\"}",
        ] {
            assert!(SubsetScan::new(json, 64).means_the_same_in_yaml(), "{json}");
        }
    }

    #[test]
    fn json_with_another_meaning_in_yaml_takes_the_slow_path() {
        for json in [
            "\t{}",
            "{}\n\t",
            r#"{"a":1,"a":2}"#,
            r#"{"x":[{"a":1,"b":1,"a":2}]}"#,
            r#"{"a":1.0}"#,
            r#"{"a":1e3}"#,
            r#"{"a":-0}"#,
            r#"{"a":"\/"}"#,
            r#"{"a":"\ud83d\ude00"}"#,
            "{\"a\":\"\u{85}\"}",
            "{\"a\":\"\u{2028}\"}",
            "{\"a\":\"\u{7f}\"}",
            "{\"a\"\n:1}",
            r#"{"\u0061":1}"#,
            "{a: 1}",
            "{'a': 1}",
        ] {
            assert!(!SubsetScan::new(json, 64).means_the_same_in_yaml(), "{json}");
        }
        let long = format!("{{\"{}\":1}}", "k".repeat(1024));
        assert!(!SubsetScan::new(&long, 64).means_the_same_in_yaml());
    }

    #[test]
    fn scan_reports_whether_keys_are_sorted() {
        let sorted = |json| {
            let mut scan = SubsetScan::new(json, 64);
            scan.means_the_same_in_yaml() && scan.sorted
        };
        assert!(sorted(r#"{"a":{"x":1,"y":1},"b":1}"#));
        assert!(!sorted(r#"{"a":{"y":1,"x":1},"b":1}"#));
    }
}

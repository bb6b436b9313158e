//! Values of JSON text that a tree keeps unread.

use super::{Entries, List, Map, Value};
use std::sync::Arc;

/// How deep values are nested in a body that the server reads; what is deeper is null.
const DEEPEST: usize = 512;

/// The value of text that is one valid JSON value.
pub(super) fn read<'a>(text: &str) -> Value<'a> {
    Reader { rest: text }.value(0)
}

struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn value<'a>(&mut self, depth: usize) -> Value<'a> {
        self.space();
        match self.rest.as_bytes().first() {
            Some(b'{') if depth < DEEPEST => self.map(depth),
            Some(b'[') if depth < DEEPEST => self.list(depth),
            Some(b'"') => Value::from(self.string()),
            _ => self.scalar(),
        }
    }

    fn map<'a>(&mut self, depth: usize) -> Value<'a> {
        let mut entries = Entries::default();
        self.skip(1);
        while self.more(b'}') {
            let key = self.string();
            self.space();
            self.skip(1);
            let value = self.value(depth + 1);
            entries.insert(Value::from(key), value);
        }
        Value::Map(Map::Entries(Arc::new(entries)))
    }

    fn list<'a>(&mut self, depth: usize) -> Value<'a> {
        let mut elements = Vec::new();
        self.skip(1);
        while self.more(b']') {
            elements.push(self.value(depth + 1));
        }
        Value::List(List::of(elements))
    }

    /// Goes to the next member; at the end goes past it.
    fn more(&mut self, end: u8) -> bool {
        self.space();
        match self.rest.as_bytes().first() {
            None => false,
            Some(byte) if *byte == end => {
                self.skip(1);
                false
            }
            Some(b',') => {
                self.skip(1);
                self.space();
                true
            }
            Some(_) => true,
        }
    }

    fn scalar<'a>(&mut self) -> Value<'a> {
        let end = self.rest.find([',', ']', '}', ' ', '\n', '\r', '\t']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(end.max(1)).unwrap_or((self.rest, ""));
        self.rest = rest;
        match word {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => match (word.parse::<i64>(), word.parse::<f64>()) {
                (Ok(number), _) => Value::Int(number),
                (_, Ok(number)) => Value::Double(number),
                _ => Value::Null,
            },
        }
    }

    fn string(&mut self) -> String {
        let mut out = String::new();
        self.skip(1);
        loop {
            let plain = self.rest.find(['"', '\\']).unwrap_or(self.rest.len());
            out.push_str(self.rest.get(..plain).unwrap_or_default());
            self.skip(plain);
            match self.rest.as_bytes() {
                [b'\\', letter, ..] => {
                    let letter = *letter;
                    self.skip(2);
                    out.push(match letter {
                        b'b' => '\u{8}',
                        b'f' => '\u{c}',
                        b'n' => '\n',
                        b'r' => '\r',
                        b't' => '\t',
                        b'u' => self.code_point(),
                        other => char::from(other),
                    });
                }
                _ => {
                    self.skip(1);
                    return out;
                }
            }
        }
    }

    /// The letter of four hexadecimal digits, or of two halves of a pair.
    fn code_point(&mut self) -> char {
        let first = self.hexadecimal();
        if (0xd800..0xdc00).contains(&first) && self.rest.starts_with("\\u") {
            let before = self.rest;
            self.skip(2);
            let second = self.hexadecimal();
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return char::from_u32(code).unwrap_or('\u{fffd}');
            }
            self.rest = before;
        }
        char::from_u32(first).unwrap_or('\u{fffd}')
    }

    fn hexadecimal(&mut self) -> u32 {
        let digits = self.rest.get(..4).unwrap_or_default();
        let code = u32::from_str_radix(digits, 16).unwrap_or(0xfffd);
        self.skip(4);
        code
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\n', '\r', '\t']);
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }
}

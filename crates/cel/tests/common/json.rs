//! JSON texts as trees. Numbers that are whole and fit are integers, as the server reads them; a float is the
//! nearest one.

use object::{Key, List, Map, Value};

/// The tree of a text.
pub fn read(text: &str) -> Value {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value();
    reader.space();
    assert_eq!(reader.at, text.len(), "JSON goes on: {}", &text[reader.at..]);
    value
}

/// A text as JSON.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            letter if (letter as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", letter as u32)),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self) -> Value {
        self.space();
        match self.peek() {
            b'{' => self.map(),
            b'[' => self.list(),
            b'"' => Value::String(self.string().into()),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::Null),
            _ => self.number(),
        }
    }

    fn map(&mut self) -> Value {
        let mut entries: Vec<(Key, Value)> = vec![];
        self.at += 1;
        while !self.closes(b'}') {
            let key = self.string();
            self.space();
            assert_eq!(self.peek(), b':');
            self.at += 1;
            entries.push((Key::from(key.as_str()), self.value()));
        }
        Value::Map(Map::from_distinct(entries))
    }

    fn list(&mut self) -> Value {
        let mut values = vec![];
        self.at += 1;
        while !self.closes(b']') {
            values.push(self.value());
        }
        Value::List(List::of(values))
    }

    /// Whether a list ends here; otherwise its next element begins.
    fn closes(&mut self, end: u8) -> bool {
        self.space();
        if self.peek() == b',' {
            self.at += 1;
            self.space();
        }
        let closes = self.peek() == end;
        self.at += usize::from(closes);
        closes
    }

    fn string(&mut self) -> String {
        let mut out = String::new();
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            let end = rest.find(['"', '\\']).expect("the end of a text");
            out.push_str(&rest[..end]);
            self.at += end + 1;
            if rest.as_bytes()[end] == b'"' {
                return out;
            }
            let escape = self.peek();
            self.at += 1;
            match escape {
                b'u' => out.push(self.code_point()),
                b'b' => out.push('\u{8}'),
                b'f' => out.push('\u{c}'),
                b'n' => out.push('\n'),
                b'r' => out.push('\r'),
                b't' => out.push('\t'),
                other => out.push(char::from(other)),
            }
        }
    }

    fn code_point(&mut self) -> char {
        let first = self.hex();
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first).expect("a code point");
        }
        assert!(self.text[self.at..].starts_with("\\u"), "half of a pair");
        self.at += 2;
        let second = self.hex();
        char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)).expect("a code point")
    }

    fn hex(&mut self) -> u32 {
        let digits = &self.text[self.at..self.at + 4];
        self.at += 4;
        u32::from_str_radix(digits, 16).expect("four digits")
    }

    fn number(&mut self) -> Value {
        let rest = &self.text[self.at..];
        let end = rest.find(|letter: char| !"+-.eE0123456789".contains(letter)).unwrap_or(rest.len());
        let digits = &rest[..end];
        self.at += end;
        match digits.parse() {
            Ok(whole) => Value::Int(whole),
            Err(_) => Value::Float(digits.parse().unwrap_or_else(|_| panic!("not a number: {digits:?}"))),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Value {
        assert!(self.text[self.at..].starts_with(word), "not JSON");
        self.at += word.len();
        value
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\t' | b'\r') {
            self.at += 1;
        }
    }

    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }
}

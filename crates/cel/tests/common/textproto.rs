//! Messages of protocol buffers as texts: names and values, without a schema.

/// The fields of a message in their order.
#[derive(Debug, Clone, Default)]
pub struct Message(pub Vec<(String, Field)>);

/// The value of a field.
#[derive(Debug, Clone)]
pub enum Field {
    /// A number, or the name of an enum's value, as it is written.
    Word(String),
    /// A text or bytes.
    Text(Vec<u8>),
    /// A message.
    Message(Message),
}

impl Message {
    /// The message that a text is.
    pub fn read(text: &str) -> Self {
        let mut reader = Reader { text: text.as_bytes(), at: 0 };
        let message = reader.message();
        assert!(reader.peek().is_none(), "the text goes on after the message");
        message
    }

    /// All values of a field.
    pub fn all<'m>(&'m self, name: &str) -> impl Iterator<Item = &'m Field> {
        self.0.iter().filter(move |(there, _)| there == name).map(|(_, field)| field)
    }

    /// The last value of a field.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.all(name).last()
    }

    /// The messages of a field.
    pub fn messages<'m>(&'m self, name: &str) -> impl Iterator<Item = &'m Self> {
        self.all(name).filter_map(|field| match field {
            Field::Message(message) => Some(message),
            _ => None,
        })
    }

    /// The message of a field.
    pub fn message(&self, name: &str) -> Option<&Self> {
        self.messages(name).last()
    }

    /// The text of a field, empty without one.
    pub fn text(&self, name: &str) -> String {
        match self.field(name) {
            Some(Field::Text(text)) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        }
    }

    /// Whether a field is true.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.field(name), Some(Field::Word(word)) if word == "true")
    }
}

impl Message {
    /// Whether a name or a text in it, however deep, contains this.
    pub fn mentions(&self, wanted: &str) -> bool {
        self.0.iter().any(|(name, field)| {
            name.contains(wanted)
                || match field {
                    Field::Word(word) => word.contains(wanted),
                    Field::Text(text) => String::from_utf8_lossy(text).contains(wanted),
                    Field::Message(message) => message.mentions(wanted),
                }
        })
    }
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

impl Reader<'_> {
    fn message(&mut self) -> Message {
        let mut fields = vec![];
        while let Some(next) = self.peek() {
            match next {
                b'}' | b'>' => break,
                b',' | b';' => self.at += 1,
                _ => self.field(&mut fields),
            }
        }
        Message(fields)
    }

    fn field(&mut self, fields: &mut Vec<(String, Field)>) {
        let name = if self.take(b'[') {
            let name = self.while_in(|letter| letter != b']');
            self.at += 1;
            name
        } else {
            self.word()
        };
        assert!(!name.is_empty(), "a name at {}", String::from_utf8_lossy(&self.text[self.at..]));
        self.take(b':');
        if self.take(b'[') {
            while !self.take(b']') {
                let value = self.value();
                fields.push((name.clone(), value));
                self.take(b',');
            }
        } else {
            let value = self.value();
            fields.push((name, value));
        }
    }

    fn value(&mut self) -> Field {
        match self.peek() {
            Some(open @ (b'{' | b'<')) => {
                self.at += 1;
                let message = self.message();
                assert!(self.take(open + 2), "the end of a message");
                Field::Message(message)
            }
            Some(b'"' | b'\'') => {
                let mut text = vec![];
                while let Some(quote @ (b'"' | b'\'')) = self.peek() {
                    self.at += 1;
                    self.text(quote, &mut text);
                }
                Field::Text(text)
            }
            _ => Field::Word(self.word()),
        }
    }

    fn text(&mut self, quote: u8, out: &mut Vec<u8>) {
        loop {
            match self.next() {
                end if end == quote => return,
                b'\\' => self.escape(out),
                byte => out.push(byte),
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) {
        let point = |number: Option<u32>| char::from_u32(number.expect("digits")).expect("a code point");
        match self.next() {
            b'a' => out.push(7),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'x' | b'X' => out.push(self.digits(16, 2).expect("digits") as u8),
            b'u' => out.extend(point(self.digits(16, 4)).to_string().bytes()),
            b'U' => out.extend(point(self.digits(16, 8)).to_string().bytes()),
            b'0'..=b'7' => {
                self.at -= 1;
                out.push(self.digits(8, 3).expect("digits") as u8);
            }
            other => out.push(other),
        }
    }

    fn digits(&mut self, radix: u32, most: usize) -> Option<u32> {
        let start = self.at;
        while self.at < start + most && char::from(*self.text.get(self.at)?).is_digit(radix) {
            self.at += 1;
        }
        u32::from_str_radix(std::str::from_utf8(self.text.get(start..self.at)?).ok()?, radix).ok()
    }

    fn word(&mut self) -> String {
        self.peek();
        self.while_in(|letter| letter.is_ascii_alphanumeric() || b"_.+-/".contains(&letter))
    }

    fn while_in(&mut self, belongs: impl Fn(u8) -> bool) -> String {
        let start = self.at;
        while self.text.get(self.at).is_some_and(|letter| belongs(*letter)) {
            self.at += 1;
        }
        String::from_utf8_lossy(&self.text[start..self.at]).into_owned()
    }

    fn take(&mut self, wanted: u8) -> bool {
        let there = self.peek() == Some(wanted);
        self.at += usize::from(there);
        there
    }

    /// The next byte that is neither space nor comment; the reader stands at it.
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.get(self.at)? {
                b'#' => {
                    self.while_in(|letter| letter != b'\n');
                }
                space if space.is_ascii_whitespace() => self.at += 1,
                other => return Some(*other),
            }
        }
    }

    fn next(&mut self) -> u8 {
        let byte = *self.text.get(self.at).expect("the end of a text");
        self.at += 1;
        byte
    }
}

//! White space in JSON text that is known to be valid.

/// The text without white space between tokens.
pub fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut at = 0;
    while let Some(token) = next_token(json.as_bytes(), &mut at) {
        out.push_str(json.get(token).unwrap_or_default());
    }
    out
}

/// The text on several lines with two spaces per level, as the reference writes it for `pretty=true`.
pub fn indent(json: &[u8], out: &mut Vec<u8>) {
    Indenter::new(json).write(out, usize::MAX);
}

/// JSON that is indented piece by piece, like [`indent`]: indentation may make the text a thousand times as
/// long.
pub struct Indenter<T> {
    json: T,
    at: usize,
    level: usize,
    /// The last token opened a level.
    opened: bool,
    /// The first line is not indented yet.
    first: bool,
}

impl<T: AsRef<[u8]>> Indenter<T> {
    /// Indents a text.
    pub fn new(json: T) -> Self {
        Self::nested(json, 0)
    }

    /// Indents a text that is some levels deep, its first line included.
    pub fn nested(json: T, level: usize) -> Self {
        Self { json, at: 0, level, opened: false, first: true }
    }

    /// Appends to `out` until that has `enough` bytes, or a token more. Returns whether everything is
    /// written.
    pub fn write(&mut self, out: &mut Vec<u8>, enough: usize) -> bool {
        let line = |level: usize, out: &mut Vec<u8>| {
            out.push(b'\n');
            out.resize(out.len() + level * 2, b' ');
        };
        if std::mem::replace(&mut self.first, false) {
            out.resize(out.len() + self.level * 2, b' ');
        }
        let json = self.json.as_ref();
        while out.len() < enough {
            let Some(token) = next_token(json, &mut self.at) else { return true };
            let token = json.get(token).unwrap_or_default();
            let closes = matches!(token, b"}" | b"]");
            if self.opened && !closes {
                line(self.level, out);
            }
            if closes {
                self.level = self.level.saturating_sub(1);
                if !self.opened {
                    line(self.level, out);
                }
            }
            self.opened = matches!(token, b"{" | b"[");
            if self.opened {
                self.level += 1;
            }
            out.extend_from_slice(token);
            match token {
                b"," => line(self.level, out),
                b":" => out.push(b' '),
                _ => {}
            }
        }
        self.at >= json.len()
    }
}

/// The range of the token at `at`, past white space, and moves `at` past it: a punctuation mark, a string, or
/// a run of other characters.
fn next_token(bytes: &[u8], at: &mut usize) -> Option<std::ops::Range<usize>> {
    while matches!(bytes.get(*at)?, b' ' | b'\n' | b'\r' | b'\t') {
        *at += 1;
    }
    let start = *at;
    let end = match bytes.get(start)? {
        b'{' | b'}' | b'[' | b']' | b',' | b':' => start + 1,
        b'"' => {
            let mut end = start + 1;
            while let Some(&byte) = bytes.get(end) {
                end += 1;
                match byte {
                    b'"' => break,
                    b'\\' => end += 1,
                    _ => {}
                }
            }
            end.min(bytes.len())
        }
        _ => {
            let rest = bytes.get(start..).unwrap_or_default();
            start + rest.iter().take_while(|byte| !b" \n\r\t{}[],:\"".contains(byte)).count()
        }
    };
    *at = end;
    Some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"a":[],"b":{"c":[1,{"d":"x, {\" }"},[[]]],"e":{}},"é":null}"#;

    fn whole(json: &str) -> String {
        let mut out = Vec::new();
        indent(json.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn pieces_are_the_whole() {
        for size in [1, 3, 10, 1000] {
            let mut indenter = Indenter::new(JSON.as_bytes());
            let mut all = Vec::new();
            loop {
                let mut piece = Vec::new();
                let is_last = indenter.write(&mut piece, size);
                all.extend(piece);
                if is_last {
                    break;
                }
            }
            assert_eq!(String::from_utf8(all).unwrap(), whole(JSON));
        }
    }

    #[test]
    fn nested_text_is_the_part_of_a_larger_one() {
        let around = whole(&format!(r#"{{"items":[{JSON}]}}"#));
        let mut out = Vec::new();
        assert!(Indenter::nested(JSON.as_bytes(), 2).write(&mut out, usize::MAX));
        let nested = String::from_utf8(out).unwrap();
        assert_eq!(around, format!("{{\n  \"items\": [\n{nested}\n  ]\n}}"));
    }

    #[test]
    fn compact_undoes_indent() {
        assert_eq!(compact(&whole(JSON)), JSON);
    }
}

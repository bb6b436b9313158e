//! Mail addresses (RFC 5322) as Go reads one: `a@b`, `"A B" <a@b>`, or a group with one address.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::name::address;

pub(super) fn is_address(text: &str) -> bool {
    let mut rest = Rest(text);
    rest.address(true) == Some(1) && rest.comments().is_some() && rest.0.is_empty()
}

/// What is not read yet. A method that finds something else than it looks for gives nothing.
#[derive(Clone, Copy)]
struct Rest<'t>(&'t str);

impl<'t> Rest<'t> {
    /// An address, or a group if there may be one: the number of addresses.
    fn address(&mut self, group: bool) -> Option<usize> {
        self.space();
        let mut plain = *self;
        if plain.specification().is_some() {
            plain.space();
            if plain.0.starts_with('(') {
                let comment = plain.comment()?;
                comment.split([' ', '\t']).all(is_readable).then_some(())?;
            }
            *self = plain;
            return Some(1);
        }
        if !self.0.is_empty() && !self.0.starts_with('<') {
            self.phrase()?;
        }
        self.space();
        if group && self.take(':') {
            return self.group();
        }
        (self.take('<') && self.specification().is_some() && self.take('>')).then_some(1)
    }

    fn group(&mut self) -> Option<usize> {
        self.space();
        if self.take(';') {
            self.comments()?;
            return Some(0);
        }
        let mut addresses = 0;
        loop {
            addresses += self.address(false)?;
            self.comments()?;
            if self.take(';') {
                self.comments()?;
                return Some(addresses);
            }
            self.take(',').then_some(())?;
        }
    }

    /// `local@domain`.
    fn specification(&mut self) -> Option<()> {
        self.space();
        if self.0.starts_with('"') {
            self.quoted().filter(|quoted| *quoted > 0)?;
        } else {
            self.dotted()?;
        }
        self.take('@').then_some(())?;
        self.space();
        if self.take('[') {
            let (literal, after) = self.0.split_once(']')?;
            // The standard library's own reader: no leading zeros.
            (address::parse_lenient(literal).is_some() && literal.parse::<std::net::IpAddr>().is_ok())
                .then_some(())?;
            self.0 = after;
            return Some(());
        }
        self.dotted().map(|_| ())
    }

    /// One word at least.
    fn phrase(&mut self) -> Option<()> {
        let mut words = 0;
        loop {
            if words > 0 {
                self.comments()?;
            }
            self.space();
            let word = if self.0.is_empty() {
                None
            } else if self.0.starts_with('"') {
                self.quoted().map(|_| ())
            } else {
                self.atom().filter(|word| is_readable(word)).map(|_| ())
            };
            match word {
                Some(()) => words += 1,
                None => return (words > 0).then_some(()),
            }
        }
    }

    /// The number of characters of a quoted text.
    fn quoted(&mut self) -> Option<usize> {
        let mut escaped = false;
        let mut count = 0;
        for (at, character) in self.0.char_indices().skip(1) {
            let white = matches!(character, ' ' | '\t');
            match character {
                '"' if !escaped => {
                    self.0 = self.0.get(at + 1..)?;
                    return Some(count);
                }
                '\\' if !escaped => escaped = true,
                character if is_visible(character) || white => {
                    escaped = false;
                    count += 1;
                }
                _ => return None,
            }
        }
        None
    }

    fn atom(&mut self) -> Option<&'t str> {
        let is_part = |character: char| is_visible(character) && !r#"()<>[]:;@\,""#.contains(character);
        let after = self.0.trim_start_matches(is_part);
        let atom = self.0.get(..self.0.len() - after.len()).filter(|atom| !atom.is_empty())?;
        self.0 = after;
        Some(atom)
    }

    /// An atom whose dots stand alone between other characters.
    fn dotted(&mut self) -> Option<&'t str> {
        self.atom().filter(|atom| atom.split('.').all(|part| !part.is_empty()))
    }

    fn comments(&mut self) -> Option<()> {
        self.space();
        while self.0.starts_with('(') {
            self.comment()?;
            self.space();
        }
        Some(())
    }

    /// What is between two parentheses, which may nest.
    fn comment(&mut self) -> Option<&'t str> {
        let inside = self.0.strip_prefix('(')?;
        let mut depth = 1_usize;
        let mut bytes = inside.bytes().enumerate();
        while let Some((at, byte)) = bytes.next() {
            match byte {
                b'\\' if at + 1 < inside.len() => drop(bytes.next()),
                b'(' => depth += 1,
                b')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.0 = inside.get(at + 1..)?;
                return inside.get(..at);
            }
        }
        None
    }

    fn space(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t']);
    }

    fn take(&mut self, character: char) -> bool {
        let after = self.0.strip_prefix(character);
        self.0 = after.unwrap_or(self.0);
        after.is_some()
    }
}

fn is_visible(character: char) -> bool {
    character.is_ascii_graphic() || !character.is_ascii()
}

/// Whether a word is not encoded (RFC 2047), or in a character set that is known.
fn is_readable(word: &str) -> bool {
    let inside = word.strip_prefix("=?").and_then(|word| word.strip_suffix("?="));
    let Some(inside) = inside.filter(|_| word.len() >= 8) else { return true };
    let mut parts = inside.split('?');
    let (Some(set), Some(encoding), Some(text), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return true;
    };
    let decodes = match encoding {
        "b" | "B" => STANDARD.decode(text).is_ok(),
        "q" | "Q" => is_quoted_printable(text),
        _ => false,
    };
    let known = ["utf-8", "iso-8859-1", "us-ascii"].iter().any(|known| known.eq_ignore_ascii_case(set));
    set.is_empty() || !decodes || known
}

fn is_quoted_printable(text: &str) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let right = match byte {
            b'=' => (0..2).all(|_| bytes.next().is_some_and(|digit| digit.is_ascii_hexdigit())),
            b' '..=b'~' | b'\n' | b'\r' | b'\t' => true,
            _ => false,
        };
        if !right {
            return false;
        }
    }
    true
}

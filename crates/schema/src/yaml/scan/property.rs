//! Directives, anchors, aliases and tags.

use super::Scanner;
use crate::decode::Fault;
use crate::yaml::read::width;
use crate::yaml::token::{Token, TokenType};

impl Scanner<'_> {
    /// `%YAML 1.1` or `%TAG !handle! prefix`, with the rest of the line.
    pub(super) fn scan_directive(&mut self) -> Result<Token, Fault> {
        let start = self.reader.mark.line;
        self.reader.skip();
        let name = self.scan_word()?;
        if name.is_empty() {
            return Err(self.problem("could not find expected directive name"));
        }
        if !self.reader.is_gap(0) {
            return Err(self.problem("found unexpected non-alphabetical character"));
        }
        let token = match name.as_slice() {
            b"YAML" => {
                let (major, minor) = self.scan_version()?;
                Token::new(TokenType::Version(major, minor), start, self.reader.mark.line)
            }
            b"TAG" => self.scan_tag_directive(start)?,
            _ => return Err(self.problem("found unknown directive name")),
        };
        self.end_line()?;
        Ok(token)
    }

    fn scan_word(&mut self) -> Result<Vec<u8>, Fault> {
        let mut word = Vec::new();
        self.reader.want(1)?;
        while self.reader.is_word() {
            self.reader.take(&mut word);
            self.reader.want(1)?;
        }
        Ok(word)
    }

    fn scan_version(&mut self) -> Result<(u8, u8), Fault> {
        self.skip_blanks()?;
        let major = self.scan_version_number()?;
        if self.reader.byte() != b'.' {
            return Err(self.problem("did not find expected digit or '.' character"));
        }
        self.reader.skip();
        Ok((major, self.scan_version_number()?))
    }

    fn scan_version_number(&mut self) -> Result<u8, Fault> {
        let (mut number, mut length) = (0, 0);
        self.reader.want(1)?;
        while let digit @ b'0'..=b'9' = self.reader.byte() {
            length += 1;
            if length > 2 {
                return Err(self.problem("found extremely long version number"));
            }
            number = number * 10 + (digit - b'0');
            self.reader.skip();
            self.reader.want(1)?;
        }
        if length == 0 {
            return Err(self.problem("did not find expected version number"));
        }
        Ok(number)
    }

    fn scan_tag_directive(&mut self, start: usize) -> Result<Token, Fault> {
        self.skip_blanks()?;
        let handle = self.scan_tag_handle()?;
        if !(handle.len() > 1 && handle.ends_with(b"!")) && handle != b"!" {
            return Err(self.problem("did not find expected '!'"));
        }
        self.reader.want(1)?;
        if !self.reader.is_blank() {
            return Err(self.problem("did not find expected whitespace"));
        }
        self.skip_blanks()?;
        let prefix = self.scan_tag_uri(&[])?;
        self.reader.want(1)?;
        if !self.reader.is_gap(0) {
            return Err(self.problem("did not find expected whitespace or line break"));
        }
        let token = Token::new(TokenType::TagDirective, start, self.reader.mark.line);
        Ok(token.with_text(handle).with_suffix(prefix))
    }

    /// `&name` or `*name`.
    pub(super) fn scan_anchor(&mut self, kind: TokenType) -> Result<Token, Fault> {
        let start = self.reader.mark.line;
        self.reader.skip();
        let name = self.scan_word()?;
        let ends = self.reader.is_gap(0)
            || matches!(self.reader.byte(), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !ends {
            return Err(self.problem("did not find expected alphabetic or numeric character"));
        }
        Ok(Token::new(kind, start, start).with_text(name))
    }

    /// `!<uri>`, `!suffix`, `!handle!suffix` or `!`.
    pub(super) fn scan_tag(&mut self) -> Result<Token, Fault> {
        let start = self.reader.mark.line;
        self.reader.want(2)?;
        let (handle, suffix);
        if self.reader.ahead(1) == b'<' {
            self.reader.skip();
            self.reader.skip();
            (handle, suffix) = (Vec::new(), self.scan_tag_uri(&[])?);
            if self.reader.byte() != b'>' {
                return Err(self.problem("did not find the expected '>'"));
            }
            self.reader.skip();
        } else {
            let head = self.scan_tag_handle()?;
            if head.len() > 1 && head.ends_with(b"!") {
                (handle, suffix) = (head, self.scan_tag_uri(&[])?);
            } else {
                let rest = self.scan_tag_uri(&head)?;
                // A lone `!` is a tag by itself.
                (handle, suffix) =
                    if rest.is_empty() { (rest, b"!".to_vec()) } else { (b"!".to_vec(), rest) };
            }
        }
        self.reader.want(1)?;
        if !self.reader.is_gap(0) {
            return Err(self.problem("did not find expected whitespace or line break"));
        }
        Ok(Token::new(TokenType::Tag, start, self.reader.mark.line).with_text(handle).with_suffix(suffix))
    }

    /// `!`, `!!` or `!word!`; or `!word`, the start of a longer tag.
    fn scan_tag_handle(&mut self) -> Result<Vec<u8>, Fault> {
        self.reader.want(1)?;
        if self.reader.byte() != b'!' {
            return Err(self.problem("did not find expected '!'"));
        }
        let mut handle = Vec::new();
        self.reader.take(&mut handle);
        handle.extend(self.scan_word()?);
        if self.reader.byte() == b'!' {
            self.reader.take(&mut handle);
        }
        Ok(handle)
    }

    /// The rest of a tag whose start, `!` included, is `head`.
    fn scan_tag_uri(&mut self, head: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut uri = head.get(1..).unwrap_or_default().to_vec();
        let mut found = !head.is_empty();
        self.reader.want(1)?;
        loop {
            match self.reader.byte() {
                b'%' => self.scan_uri_escape(&mut uri)?,
                byte if self.reader.is_word() || b";/?:@&=+$,.!~*'()[]".contains(&byte) => {
                    self.reader.take(&mut uri);
                }
                _ => break,
            }
            found = true;
            self.reader.want(1)?;
        }
        if !found {
            return Err(self.problem("did not find expected tag URI"));
        }
        Ok(uri)
    }

    /// One character, with `%xx` for each of its bytes.
    fn scan_uri_escape(&mut self, uri: &mut Vec<u8>) -> Result<(), Fault> {
        let mut left = 0;
        loop {
            self.reader.want(3)?;
            let digit = |ahead| char::from(self.reader.ahead(ahead)).to_digit(16);
            let (b'%', Some(high), Some(low)) = (self.reader.byte(), digit(1), digit(2)) else {
                return Err(self.problem("did not find URI escaped octet"));
            };
            let byte = (high * 16 + low) as u8;
            if left == 0 {
                left = width(byte);
                if left == 0 {
                    return Err(self.problem("found an incorrect leading UTF-8 octet"));
                }
            } else if byte & 0xc0 != 0x80 {
                return Err(self.problem("found an incorrect trailing UTF-8 octet"));
            }
            uri.push(byte);
            for _ in 0..3 {
                self.reader.skip();
            }
            left -= 1;
            if left == 0 {
                return Ok(());
            }
        }
    }
}

//! The styles of scalars: plain, quoted, literal and folded.

use super::Scanner;
use crate::decode::Fault;
use crate::yaml::token::{Token, TokenType};

/// Pending white space between the words of a plain or quoted scalar.
#[derive(Default)]
struct Whitespace {
    /// Blanks on the line of the word before.
    blanks: Vec<u8>,
    /// The first line break.
    first: Vec<u8>,
    /// The line breaks after it.
    more: Vec<u8>,
    /// Whether there was a line break, so that blanks are indentation.
    broken: bool,
}

impl Whitespace {
    /// Appends the folded white space before the next word: one line break becomes a space, several lose one.
    fn join(&mut self, text: &mut Vec<u8>) {
        if self.broken {
            match (self.first.first(), self.more.is_empty()) {
                (Some(b'\n'), true) => text.push(b' '),
                (Some(b'\n'), false) => text.append(&mut self.more),
                _ => {
                    text.append(&mut self.first);
                    text.append(&mut self.more);
                }
            }
            self.first.clear();
            self.more.clear();
        } else {
            text.append(&mut self.blanks);
        }
    }
}

/// The chomping of line breaks at the end of a block scalar.
#[derive(PartialEq)]
enum Chomp {
    Strip,
    Clip,
    Keep,
}

impl Scanner<'_> {
    /// Consumes blanks and line breaks; a tab as indentation before the column `indent` is an error.
    fn scan_space(&mut self, space: &mut Whitespace, indent: usize) -> Result<(), Fault> {
        while self.reader.is_blank() || self.reader.is_break() {
            if self.reader.is_blank() {
                if !space.broken {
                    self.reader.take(&mut space.blanks);
                } else if self.reader.byte() == b'\t' && self.reader.mark.column < indent {
                    return Err(self.problem("found a tab character that violates indentation"));
                } else {
                    self.reader.skip();
                }
            } else {
                self.reader.want(2)?;
                if space.broken {
                    self.reader.take_break(&mut space.more);
                } else {
                    space.blanks.clear();
                    self.reader.take_break(&mut space.first);
                    space.broken = true;
                }
            }
            self.reader.want(1)?;
        }
        Ok(())
    }

    pub(super) fn scan_plain_scalar(&mut self) -> Result<Token, Fault> {
        let start = self.reader.mark.line;
        let mut end = start;
        let indent = usize::try_from(self.indent + 1).unwrap_or(0);
        let (mut text, mut space) = (Vec::new(), Whitespace::default());
        loop {
            self.reader.want(4)?;
            let document_mark = self.reader.is_document_mark(b'-') || self.reader.is_document_mark(b'.');
            if document_mark || self.reader.byte() == b'#' {
                break;
            }
            while !self.reader.is_gap(0) && !self.ends_plain() {
                if space.broken || !space.blanks.is_empty() {
                    space.join(&mut text);
                    space.broken = false;
                }
                self.reader.take(&mut text);
                end = self.reader.mark.line;
                self.reader.want(2)?;
            }
            if !(self.reader.is_blank() || self.reader.is_break()) {
                break;
            }
            self.reader.want(1)?;
            self.scan_space(&mut space, indent)?;
            if self.flow_level == 0 && self.reader.mark.column < indent {
                break;
            }
        }
        if space.broken {
            self.key_allowed = true;
        }
        Ok(Token::new(TokenType::Plain, start, end).with_text(text))
    }

    /// Whether the current byte, which is not white space, ends a plain scalar.
    fn ends_plain(&self) -> bool {
        match self.reader.byte() {
            b':' => self.reader.is_gap(1),
            b',' | b'?' | b'[' | b']' | b'{' | b'}' => self.flow_level > 0,
            _ => false,
        }
    }

    pub(super) fn scan_quoted_scalar(&mut self, quote: u8) -> Result<Token, Fault> {
        let start = self.reader.mark.line;
        self.reader.skip();
        let (mut text, mut space) = (Vec::new(), Whitespace::default());
        loop {
            self.reader.want(4)?;
            if self.reader.is_document_mark(b'-') || self.reader.is_document_mark(b'.') {
                return Err(self.problem("found unexpected document indicator"));
            }
            if self.reader.is_end() {
                return Err(self.problem("found unexpected end of stream"));
            }
            space.broken = false;
            while !self.reader.is_gap(0) {
                match self.reader.byte() {
                    b'\'' if quote == b'\'' && self.reader.ahead(1) == b'\'' => {
                        text.push(b'\'');
                        self.reader.skip();
                        self.reader.skip();
                    }
                    byte if byte == quote => break,
                    b'\\' if quote == b'"' && self.reader.is_break_ahead(1) => {
                        self.reader.want(3)?;
                        self.reader.skip();
                        self.reader.skip_break();
                        space.broken = true;
                        break;
                    }
                    b'\\' if quote == b'"' => self.scan_escape(&mut text)?,
                    _ => self.reader.take(&mut text),
                }
                self.reader.want(2)?;
            }
            self.reader.want(1)?;
            if self.reader.byte() == quote {
                break;
            }
            self.scan_space(&mut space, 0)?;
            space.join(&mut text);
        }
        self.reader.skip();
        Ok(Token::new(TokenType::Styled, start, self.reader.mark.line).with_text(text))
    }

    /// An escape in double quotes, at its backslash.
    fn scan_escape(&mut self, text: &mut Vec<u8>) -> Result<(), Fault> {
        let digits = match self.reader.ahead(1) {
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            letter => {
                let plain = match letter {
                    b'0' => "\0",
                    b'a' => "\x07",
                    b'b' => "\x08",
                    b't' | b'\t' => "\t",
                    b'n' => "\n",
                    b'v' => "\x0b",
                    b'f' => "\x0c",
                    b'r' => "\r",
                    b'e' => "\x1b",
                    b' ' => " ",
                    b'"' => "\"",
                    b'\'' => "'",
                    b'\\' => "\\",
                    b'N' => "\u{85}",
                    b'_' => "\u{a0}",
                    b'L' => "\u{2028}",
                    b'P' => "\u{2029}",
                    _ => return Err(self.problem("found unknown escape character")),
                };
                text.extend_from_slice(plain.as_bytes());
                0
            }
        };
        self.reader.skip();
        self.reader.skip();
        if digits == 0 {
            return Ok(());
        }
        self.reader.want(digits)?;
        let mut code = 0u32;
        for ahead in 0..digits {
            let Some(digit) = char::from(self.reader.ahead(ahead)).to_digit(16) else {
                return Err(self.problem("did not find expected hexdecimal number"));
            };
            code = code.wrapping_mul(16) | digit;
        }
        let Some(character) = char::from_u32(code) else {
            return Err(self.problem("found invalid Unicode character escape code"));
        };
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        for _ in 0..digits {
            self.reader.skip();
        }
        Ok(())
    }

    pub(super) fn scan_block_scalar(&mut self, literal: bool) -> Result<Token, Fault> {
        let start = self.reader.mark.line;
        self.reader.skip();
        let (chomp, increment) = self.scan_block_header()?;
        self.end_line()?;
        let base = usize::try_from(self.indent).unwrap_or(0);
        let mut indent = increment.map(|increment| base + increment);
        let (mut text, mut first, mut more) = (Vec::new(), Vec::new(), Vec::new());
        let mut column = self.scan_block_breaks(&mut indent, &mut more)?;
        self.reader.want(1)?;
        let mut after_blank = false;
        while self.reader.mark.column == column && !self.reader.is_end() {
            let blank = self.reader.is_blank();
            // A line break between two lines that are not indented further is folded.
            if !literal && !after_blank && !blank && first.first() == Some(&b'\n') {
                if more.is_empty() {
                    text.push(b' ');
                }
                first.clear();
            } else {
                text.append(&mut first);
            }
            text.append(&mut more);
            after_blank = blank;
            while !self.reader.is_break_or_end() {
                self.reader.take(&mut text);
                self.reader.want(1)?;
            }
            self.reader.want(2)?;
            self.reader.take_break(&mut first);
            column = self.scan_block_breaks(&mut indent, &mut more)?;
        }
        if chomp != Chomp::Strip {
            text.append(&mut first);
        }
        if chomp == Chomp::Keep {
            text.append(&mut more);
        }
        Ok(Token::new(TokenType::Styled, start, self.reader.mark.line).with_text(text))
    }

    /// The indicators after `|` or `>`, in either order.
    fn scan_block_header(&mut self) -> Result<(Chomp, Option<usize>), Fault> {
        self.reader.want(1)?;
        let mut chomp = self.scan_chomp()?;
        let increment = match self.reader.byte() {
            b'0' => return Err(self.problem("found an indentation indicator equal to 0")),
            digit @ b'1'..=b'9' => {
                self.reader.skip();
                self.reader.want(1)?;
                Some(usize::from(digit - b'0'))
            }
            _ => None,
        };
        if chomp.is_none() && increment.is_some() {
            chomp = self.scan_chomp()?;
        }
        Ok((chomp.unwrap_or(Chomp::Clip), increment))
    }

    fn scan_chomp(&mut self) -> Result<Option<Chomp>, Fault> {
        let chomp = match self.reader.byte() {
            b'+' => Chomp::Keep,
            b'-' => Chomp::Strip,
            _ => return Ok(None),
        };
        self.reader.skip();
        self.reader.want(1)?;
        Ok(Some(chomp))
    }

    /// Skips indentation and consumes line breaks up to a line that is not empty; returns the indentation of
    /// the scalar. If it is not known yet, the widest of these lines gives it.
    fn scan_block_breaks(
        &mut self,
        indent: &mut Option<usize>,
        breaks: &mut Vec<u8>,
    ) -> Result<usize, Fault> {
        let mut widest = 0;
        loop {
            let within = |column: usize| indent.is_none_or(|indent| column < indent);
            self.reader.want(1)?;
            while within(self.reader.mark.column) && self.reader.byte() == b' ' {
                self.reader.skip();
                self.reader.want(1)?;
            }
            widest = widest.max(self.reader.mark.column);
            if within(self.reader.mark.column) && self.reader.byte() == b'\t' {
                return Err(self.problem("found a tab character where an indentation space is expected"));
            }
            if !self.reader.is_break() {
                break;
            }
            self.reader.want(2)?;
            self.reader.take_break(breaks);
        }
        let least = usize::try_from(self.indent + 1).unwrap_or(0).max(1);
        Ok(*indent.get_or_insert(widest.max(least)))
    }
}

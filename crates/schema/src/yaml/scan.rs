//! Characters to tokens, as in libyaml: indentation becomes tokens of its own, and a key is recognised only
//! at the colon after it, so tokens stay in a queue while one of them may still be a key.

mod property;
mod scalar;

use super::read::{Mark, Reader};
use super::token::{Token, TokenType};
use super::{fault, fault_at};
use crate::decode::Fault;
use std::collections::{HashMap, VecDeque};

/// The most characters between the start of a key and its colon.
const LONGEST_KEY: usize = 1024;

/// A token that may be a key.
#[derive(Clone, Copy, Default)]
struct SimpleKey {
    possible: bool,
    /// Only a key is allowed here.
    required: bool,
    token: usize,
    mark: Mark,
}

/// The tokens of a stream.
pub(super) struct Scanner<'i> {
    reader: Reader<'i>,
    queue: VecDeque<Token>,
    /// The number of tokens that have left the queue.
    passed: usize,
    /// The first token of the queue can no longer be a key.
    ready: bool,
    started: bool,
    flow_level: usize,
    /// The column of the innermost block collection; -1 outside of all.
    indent: isize,
    indents: Vec<isize>,
    key_allowed: bool,
    /// One for each flow level, and one for the block context.
    keys: Vec<SimpleKey>,
    /// Which of `keys` a token belongs to.
    key_of_token: HashMap<usize, usize>,
}

/// The first token of the queue.
#[derive(Clone, Copy)]
pub(super) struct Peeked {
    pub(super) kind: TokenType,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl<'i> Scanner<'i> {
    pub(super) fn new(input: &'i [u8]) -> Self {
        Self {
            reader: Reader::new(input),
            queue: VecDeque::new(),
            passed: 0,
            ready: false,
            started: false,
            flow_level: 0,
            indent: -1,
            indents: Vec::new(),
            key_allowed: true,
            keys: vec![SimpleKey::default()],
            key_of_token: HashMap::new(),
        }
    }

    /// The next token, without taking it.
    pub(super) fn peek(&mut self) -> Result<Peeked, Fault> {
        if !self.ready {
            self.fetch_enough()?;
        }
        match self.queue.front() {
            Some(token) => Ok(Peeked { kind: token.kind, start: token.start, end: token.end }),
            None => Err(fault("attempted to go past the end of stream; corrupted value?")),
        }
    }

    /// Consumes the token that was peeked at.
    pub(super) fn take(&mut self) -> Result<Token, Fault> {
        self.ready = false;
        self.passed += 1;
        self.queue
            .pop_front()
            .ok_or_else(|| fault("attempted to go past the end of stream; corrupted value?"))
    }

    /// The error for a problem at the current position.
    #[cold]
    fn problem(&self, problem: &str) -> Fault {
        match self.reader.mark.line {
            0 => fault(problem),
            line => fault_at(line + 1, problem),
        }
    }

    /// Fetches tokens until the first one can no longer be a key.
    fn fetch_enough(&mut self) -> Result<(), Fault> {
        loop {
            if !self.queue.is_empty() {
                let key = self.key_of_token.get(&self.passed).copied();
                let Some(key) = key else { break };
                if !self.still_key(key)? {
                    break;
                }
            }
            self.fetch()?;
        }
        self.ready = true;
        Ok(())
    }

    fn fetch(&mut self) -> Result<(), Fault> {
        self.reader.want(1)?;
        if !self.started {
            self.started = true;
            self.push(TokenType::StreamStart, self.reader.mark);
            return Ok(());
        }
        self.skip_to_token()?;
        self.unroll_indent(self.reader.mark.column as isize);
        self.reader.want(4)?;
        if self.reader.is_end() {
            return self.fetch_stream_end();
        }
        let byte = self.reader.byte();
        if self.reader.mark.column == 0 && byte == b'%' {
            self.leave_blocks()?;
            let token = self.scan_directive()?;
            self.queue.push_back(token);
            return Ok(());
        }
        for (mark, kind) in [(b'-', TokenType::DocumentStart), (b'.', TokenType::DocumentEnd)] {
            if self.reader.is_document_mark(mark) {
                self.leave_blocks()?;
                self.push_skipping(kind, 3);
                return Ok(());
            }
        }
        let in_flow = self.flow_level > 0;
        let gap_follows = self.reader.is_gap(1);
        match byte {
            b'[' => self.fetch_flow_start(TokenType::FlowSequenceStart),
            b'{' => self.fetch_flow_start(TokenType::FlowMappingStart),
            b']' => self.fetch_flow_end(TokenType::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(TokenType::FlowMappingEnd),
            b',' => {
                self.remove_key()?;
                self.key_allowed = true;
                self.push_skipping(TokenType::FlowEntry, 1);
                Ok(())
            }
            b'-' if gap_follows => self.fetch_block_entry(),
            b'?' if in_flow || gap_follows => self.fetch_key(),
            b':' if in_flow || gap_follows => self.fetch_value(),
            b'*' | b'&' => {
                self.save_key()?;
                self.key_allowed = false;
                let token =
                    self.scan_anchor(if byte == b'*' { TokenType::Alias } else { TokenType::Anchor })?;
                self.queue.push_back(token);
                Ok(())
            }
            b'!' => {
                self.save_key()?;
                self.key_allowed = false;
                let token = self.scan_tag()?;
                self.queue.push_back(token);
                Ok(())
            }
            b'|' | b'>' if !in_flow => {
                self.remove_key()?;
                self.key_allowed = true;
                let token = self.scan_block_scalar(byte == b'|')?;
                self.queue.push_back(token);
                Ok(())
            }
            b'\'' | b'"' => {
                self.save_key()?;
                self.key_allowed = false;
                let token = self.scan_quoted_scalar(byte)?;
                self.queue.push_back(token);
                Ok(())
            }
            _ if self.starts_plain(byte) => {
                self.save_key()?;
                self.key_allowed = false;
                let token = self.scan_plain_scalar()?;
                self.queue.push_back(token);
                Ok(())
            }
            _ => Err(self.problem("found character that cannot start any token")),
        }
    }

    /// Whether a plain scalar can start with the current byte.
    fn starts_plain(&self, byte: u8) -> bool {
        match byte {
            b'-' => !matches!(self.reader.ahead(1), b' ' | b'\t'),
            b'?' | b':' => self.flow_level == 0 && !self.reader.is_gap(1),
            b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"'
            | b'%' | b'@' | b'`' => false,
            _ => !self.reader.is_gap(0),
        }
    }

    fn push(&mut self, kind: TokenType, at: Mark) {
        self.queue.push_back(Token::new(kind, at.line, at.line));
    }

    /// A token of the given number of characters.
    fn push_skipping(&mut self, kind: TokenType, characters: usize) {
        self.push(kind, self.reader.mark);
        for _ in 0..characters {
            self.reader.skip();
        }
    }

    /// Whether a key is still possible: it has to be on one line, and not too long.
    fn still_key(&mut self, key: usize) -> Result<bool, Fault> {
        let here = self.reader.mark;
        let Some(key) = self.keys.get_mut(key).filter(|key| key.possible) else { return Ok(false) };
        if key.mark.line == here.line && key.mark.index + LONGEST_KEY >= here.index {
            return Ok(true);
        }
        if key.required {
            return Err(self.problem("could not find expected ':'"));
        }
        key.possible = false;
        Ok(false)
    }

    /// Records that the token that begins here may be a key.
    fn save_key(&mut self) -> Result<(), Fault> {
        if !self.key_allowed {
            return Ok(());
        }
        let mark = self.reader.mark;
        let required = self.flow_level == 0 && self.indent == mark.column as isize;
        let token = self.passed + self.queue.len();
        self.remove_key()?;
        let level = self.keys.len().saturating_sub(1);
        if let Some(key) = self.keys.last_mut() {
            *key = SimpleKey { possible: true, required, token, mark };
        }
        self.key_of_token.insert(token, level);
        Ok(())
    }

    /// Drops the possible key of this level.
    fn remove_key(&mut self) -> Result<(), Fault> {
        let Some(key) = self.keys.last_mut().filter(|key| key.possible) else { return Ok(()) };
        if key.required {
            return Err(self.problem("could not find expected ':'"));
        }
        key.possible = false;
        self.key_of_token.remove(&key.token);
        Ok(())
    }

    /// Opens a block collection if the column is greater than the current indentation; its token goes to
    /// `place` in the queue.
    fn roll_indent(&mut self, mark: Mark, place: Option<usize>, kind: TokenType) {
        let column = mark.column as isize;
        if self.flow_level > 0 || self.indent >= column {
            return;
        }
        self.indents.push(self.indent);
        self.indent = column;
        self.insert(place, Token::new(kind, mark.line, mark.line));
    }

    fn insert(&mut self, place: Option<usize>, token: Token) {
        match place {
            Some(place) if place <= self.queue.len() => self.queue.insert(place, token),
            _ => self.queue.push_back(token),
        }
    }

    /// Closes the block collections with an indentation greater than the column.
    fn unroll_indent(&mut self, column: isize) {
        if self.flow_level > 0 {
            return;
        }
        while self.indent > column {
            self.push(TokenType::BlockEnd, self.reader.mark);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn leave_blocks(&mut self) -> Result<(), Fault> {
        self.unroll_indent(-1);
        self.remove_key()?;
        self.key_allowed = false;
        Ok(())
    }

    fn fetch_stream_end(&mut self) -> Result<(), Fault> {
        // The end is on a line of its own.
        if self.reader.mark.column != 0 {
            self.reader.mark.column = 0;
            self.reader.mark.line += 1;
        }
        self.leave_blocks()?;
        self.push(TokenType::StreamEnd, self.reader.mark);
        Ok(())
    }

    fn fetch_flow_start(&mut self, kind: TokenType) -> Result<(), Fault> {
        self.save_key()?;
        let token = self.passed + self.queue.len();
        self.keys.push(SimpleKey { token, mark: self.reader.mark, ..SimpleKey::default() });
        self.flow_level += 1;
        self.key_allowed = true;
        self.push_skipping(kind, 1);
        Ok(())
    }

    fn fetch_flow_end(&mut self, kind: TokenType) -> Result<(), Fault> {
        self.remove_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            if let Some(key) = self.keys.pop() {
                self.key_of_token.remove(&key.token);
            }
        }
        self.key_allowed = false;
        self.push_skipping(kind, 1);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Result<(), Fault> {
        if self.flow_level == 0 {
            if !self.key_allowed {
                return Err(self.problem("block sequence entries are not allowed in this context"));
            }
            self.roll_indent(self.reader.mark, None, TokenType::BlockSequenceStart);
        }
        self.remove_key()?;
        self.key_allowed = true;
        self.push_skipping(TokenType::BlockEntry, 1);
        Ok(())
    }

    fn fetch_key(&mut self) -> Result<(), Fault> {
        if self.flow_level == 0 {
            if !self.key_allowed {
                return Err(self.problem("mapping keys are not allowed in this context"));
            }
            self.roll_indent(self.reader.mark, None, TokenType::BlockMappingStart);
        }
        self.remove_key()?;
        self.key_allowed = self.flow_level == 0;
        self.push_skipping(TokenType::Key, 1);
        Ok(())
    }

    fn fetch_value(&mut self) -> Result<(), Fault> {
        let level = self.keys.len().saturating_sub(1);
        if self.still_key(level)? {
            let key = self.keys.last().copied().unwrap_or_default();
            let place = key.token.checked_sub(self.passed);
            self.insert(place, Token::new(TokenType::Key, key.mark.line, key.mark.line));
            self.roll_indent(key.mark, place, TokenType::BlockMappingStart);
            if let Some(key) = self.keys.last_mut() {
                key.possible = false;
            }
            self.key_of_token.remove(&key.token);
            self.key_allowed = false;
        } else {
            if self.flow_level == 0 {
                if !self.key_allowed {
                    return Err(self.problem("mapping values are not allowed in this context"));
                }
                self.roll_indent(self.reader.mark, None, TokenType::BlockMappingStart);
            }
            self.key_allowed = self.flow_level == 0;
        }
        self.push_skipping(TokenType::Value, 1);
        Ok(())
    }

    /// Skips blanks, comments and line breaks.
    fn skip_to_token(&mut self) -> Result<(), Fault> {
        loop {
            self.reader.want(1)?;
            if self.reader.mark.column == 0 && self.reader.is_byte_order_mark() {
                self.reader.skip();
            }
            self.reader.want(1)?;
            // A tab is not allowed as indentation.
            while self.reader.byte() == b' '
                || (self.reader.byte() == b'\t' && (self.flow_level > 0 || !self.key_allowed))
            {
                self.reader.skip();
                self.reader.want(1)?;
            }
            self.skip_comment()?;
            if !self.reader.is_break() {
                return Ok(());
            }
            self.reader.want(2)?;
            self.reader.skip_break();
            if self.flow_level == 0 {
                self.key_allowed = true;
            }
        }
    }

    fn skip_comment(&mut self) -> Result<(), Fault> {
        if self.reader.byte() == b'#' {
            while !self.reader.is_break_or_end() {
                self.reader.skip();
                self.reader.want(1)?;
            }
        }
        Ok(())
    }

    fn skip_blanks(&mut self) -> Result<(), Fault> {
        self.reader.want(1)?;
        while self.reader.is_blank() {
            self.reader.skip();
            self.reader.want(1)?;
        }
        Ok(())
    }

    /// Skips the rest of a line, which may contain only a comment.
    fn end_line(&mut self) -> Result<(), Fault> {
        self.skip_blanks()?;
        self.skip_comment()?;
        if !self.reader.is_break_or_end() {
            return Err(self.problem("did not find expected comment or line break"));
        }
        if self.reader.is_break() {
            self.reader.want(2)?;
            self.reader.skip_break();
        }
        Ok(())
    }
}

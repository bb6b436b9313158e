//! The tokens of a text, found as they are asked for; what is no token is a fault.

use super::token::{Kind, Scan, scan};

/// A token with its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    /// Its kind.
    pub(super) kind: Kind,
    /// Its first byte, and the byte after it.
    pub(super) begin: usize,
    pub(super) end: usize,
    /// Its first code point.
    pub(super) offset: u32,
}

/// Characters that are no token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unknown {
    pub(super) begin: usize,
    pub(super) end: usize,
    pub(super) offset: u32,
}

/// The tokens of a text that have been found so far.
pub(super) struct Stream<'t> {
    pub(super) text: &'t str,
    /// All tokens, white space and comments too.
    all: Vec<Token>,
    /// The places in `all` of those that count.
    counted: Vec<usize>,
    /// The place in `counted` of the next token.
    next: usize,
    /// Where the search goes on.
    at: usize,
    offset: u32,
}

impl<'t> Stream<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, all: Vec::new(), counted: Vec::new(), next: 0, at: 0, offset: 0 }
    }

    /// Finds tokens until the next but `ahead` is known; characters that are none are told.
    pub(super) fn find<E>(
        &mut self,
        ahead: usize,
        mut unknown: impl FnMut(Unknown) -> Result<(), E>,
    ) -> Result<(), E> {
        while self.counted.len() <= self.next + ahead {
            if self.last().is_some_and(|token| token.kind == Kind::End) {
                return Ok(());
            }
            let (begin, offset) = (self.at, self.offset);
            let found = scan(self.text, begin);
            let (Scan::Token(_, end) | Scan::Unknown(end)) = found;
            self.at = end;
            self.offset += self.text.get(begin..end).map_or(0, |text| text.chars().count() as u32);
            match found {
                Scan::Unknown(_) => unknown(Unknown { begin, end, offset })?,
                Scan::Token(kind, _) => {
                    if !matches!(kind, Kind::Space | Kind::Comment) {
                        self.counted.push(self.all.len());
                    }
                    self.all.push(Token { kind, begin, end, offset });
                }
            }
        }
        Ok(())
    }

    fn last(&self) -> Option<Token> {
        self.all.last().copied()
    }

    /// The place of the next token among those that count.
    pub(super) fn place(&self) -> usize {
        self.next
    }

    /// The number of the next token, or of one after it; of the end if there are fewer.
    pub(super) fn number(&self, ahead: usize) -> usize {
        self.counted.get(self.next + ahead).or(self.counted.last()).copied().unwrap_or(0)
    }

    /// The number of the token before the next one.
    pub(super) fn before(&self) -> Option<usize> {
        self.counted.get(self.next.checked_sub(1)?).copied()
    }

    /// A token by its number.
    pub(super) fn token(&self, number: usize) -> Token {
        let end = Token { kind: Kind::End, begin: self.at, end: self.at, offset: self.offset };
        self.all.get(number).copied().unwrap_or(end)
    }

    /// Passes the next token, unless it is the end.
    pub(super) fn pass(&mut self) {
        if self.token(self.number(0)).kind != Kind::End {
            self.next += 1;
        }
    }

    /// The text of a token.
    pub(super) fn text(&self, token: Token) -> &'t str {
        match token.kind {
            Kind::End => "<EOF>",
            _ => self.text.get(token.begin..token.end).unwrap_or_default(),
        }
    }

    /// The texts of the tokens from one to another, with what is between them and is a token.
    pub(super) fn texts(&self, from: usize, to: usize) -> String {
        let tokens = self.all.get(from..=to).unwrap_or_default();
        tokens.iter().take_while(|token| token.kind != Kind::End).map(|token| self.text(*token)).collect()
    }
}

//! Reading the text form of a selector.

use super::requirement::check_key;
use super::{Error, Operator, Requirement};
use crate::field::Path;
use std::collections::BTreeSet;

pub(super) fn parse(path: &Path<'_>, text: &str) -> Result<Vec<Requirement>, Error> {
    let mut parser = Parser { lexer: Lexer { text, position: 0 }, next: None, path };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            Token::End => return Ok(requirements),
            token if token.starts_requirement() => {}
            token => return Err(unexpected(token, "!, identifier, or 'end of string'")),
        }
        let requirement = parser.requirement().map_err(|error| Error::InRequirement(Box::new(error)))?;
        requirements.push(requirement);
        match parser.take() {
            Token::End => return Ok(requirements),
            Token::Symbol(",") => {
                let next = parser.peek();
                if !next.starts_requirement() {
                    return Err(unexpected(next, "identifier after ','"));
                }
            }
            token => return Err(unexpected(token, "',' or 'end of string'")),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    End,
    /// One of `( ) , ! = == != > <`.
    Symbol(&'a str),
    /// Anything else, `in` and `notin` included: whether those are operators depends on the place.
    Word(&'a str),
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::End => "",
            Self::Symbol(text) | Self::Word(text) => text,
        }
    }

    fn starts_requirement(self) -> bool {
        matches!(self, Self::Word(_) | Self::Symbol("!"))
    }
}

fn unexpected(token: Token<'_>, expected: &'static str) -> Error {
    Error::Unexpected { found: token.text().to_owned(), expected }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// A token that was looked at and not taken.
    next: Option<Token<'a>>,
    path: &'a Path<'a>,
}

impl<'a> Parser<'a> {
    fn peek(&mut self) -> Token<'a> {
        *self.next.get_or_insert_with(|| self.lexer.token())
    }

    fn take(&mut self) -> Token<'a> {
        self.next.take().unwrap_or_else(|| self.lexer.token())
    }

    fn requirement(&mut self) -> Result<Requirement, Error> {
        let mut token = self.take();
        let negated = token == Token::Symbol("!");
        if negated {
            token = self.take();
        }
        let Token::Word(key) = token else { return Err(unexpected(token, "identifier")) };
        if let Some(error) = check_key(self.path, key) {
            return Err(error.into());
        }
        if negated {
            return Ok(Requirement::new_at(self.path, key, Operator::DoesNotExist, &[])?);
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(Requirement::new_at(self.path, key, Operator::Exists, &[])?);
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.set()?,
            _ => BTreeSet::from([self.value()?]),
        };
        let values: Vec<&str> = values.into_iter().collect();
        Ok(Requirement::new_at(self.path, key, operator, &values)?)
    }

    fn operator(&mut self) -> Result<Operator, Error> {
        let token = self.take();
        Ok(match token {
            Token::Word("in") => Operator::In,
            Token::Word("notin") => Operator::NotIn,
            Token::Symbol("=") => Operator::Equals,
            Token::Symbol("==") => Operator::DoubleEquals,
            Token::Symbol("!=") => Operator::NotEquals,
            Token::Symbol(">") => Operator::GreaterThan,
            Token::Symbol("<") => Operator::LessThan,
            token => return Err(unexpected(token, "in, notin, =, ==, !=, gt, lt")),
        })
    }

    /// One value, or the empty one if the requirement ends here.
    fn value(&mut self) -> Result<&'a str, Error> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok("");
        }
        match self.take() {
            Token::Word(value) => Ok(value),
            token => Err(unexpected(token, "identifier")),
        }
    }

    /// Values in parentheses. A value left out next to a comma, and the only one of `()`, is the empty one.
    fn set(&mut self) -> Result<BTreeSet<&'a str>, Error> {
        let token = self.take();
        if token != Token::Symbol("(") {
            return Err(Error::NoSet { found: token.text().to_owned() });
        }
        let mut values = BTreeSet::new();
        match self.peek() {
            Token::Word(_) | Token::Symbol(",") => {}
            Token::Symbol(")") => {
                self.take();
                return Ok(BTreeSet::from([""]));
            }
            token => return Err(unexpected(token, "',', ')' or identifier")),
        }
        loop {
            match self.take() {
                Token::Word(value) => {
                    values.insert(value);
                    match self.peek() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => break,
                        token => return Err(unexpected(token, "',' or ')'")),
                    }
                }
                Token::Symbol(",") => {
                    if values.is_empty() {
                        values.insert("");
                    }
                    match self.peek() {
                        Token::Symbol(")") => {
                            values.insert("");
                            break;
                        }
                        Token::Symbol(",") => {
                            self.take();
                            values.insert("");
                        }
                        _ => {}
                    }
                }
                token => return Err(unexpected(token, "',', or identifier")),
            }
        }
        self.take();
        Ok(values)
    }
}

/// Splits text into tokens. A zero byte ends the token it follows, and ends the text where a token should
/// start.
struct Lexer<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Lexer<'a> {
    fn token(&mut self) -> Token<'a> {
        while self.byte().is_some_and(is_space) {
            self.position += 1;
        }
        let start = self.position;
        match self.byte() {
            None | Some(0) => {
                self.position = self.text.len();
                Token::End
            }
            Some(symbol) if is_symbol(symbol) => {
                self.position += 1;
                if matches!(symbol, b'=' | b'!') && self.byte() == Some(b'=') {
                    self.position += 1;
                }
                Token::Symbol(self.finish(start))
            }
            Some(_) => {
                while self.byte().is_some_and(|byte| byte != 0 && !is_symbol(byte) && !is_space(byte)) {
                    self.position += 1;
                }
                Token::Word(self.finish(start))
            }
        }
    }

    fn finish(&mut self, start: usize) -> &'a str {
        let token = self.text.get(start..self.position).unwrap_or_default();
        if self.byte() == Some(0) {
            self.position += 1;
        }
        token
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn is_symbol(byte: u8) -> bool {
    matches!(byte, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

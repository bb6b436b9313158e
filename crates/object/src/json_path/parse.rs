//! From text to steps, in the reference's reading, which takes a text apart and reads the parts as paths
//! again.

use super::unquote::unquote;
use super::{Condition, End, Filter, Slice, Step};
use crate::quote::{parse_i64, quote};
use std::fmt;

/// How often parts may be read as paths in each other. Brackets do not nest, so a path that means anything
/// needs two.
const MOST_NESTED: usize = 16;

/// Why a text is not a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text, or its line, ends too early.
    #[error("unclosed action")]
    Unclosed,
    /// A character that starts nothing.
    #[error("unrecognized character in action: {}", Named(*.0))]
    Character(char),
    /// `..` after `..`.
    #[error("invalid multiple recursive descent")]
    Recursive,
    /// Digits that are no number.
    #[error("cannot parse number {0}")]
    Number(String),
    /// A bracket is not closed.
    #[error("unterminated array")]
    Array,
    /// What is in brackets is neither name nor place nor slice.
    #[error("invalid array index {0}")]
    Index(String),
    /// A place in a list is no number, or too large a one.
    #[error("array index {0} is not a number")]
    IndexNumber(String),
    /// A condition is not closed.
    #[error("unterminated filter")]
    Filter,
    /// A condition is closed, but its bracket is not.
    #[error("unclosed array expect ]")]
    FilterBracket,
    /// A text in quotes does not end.
    #[error("unterminated quoted string")]
    Quote,
    /// A text in quotes has escapes that do not exist.
    #[error("unquote string {0} error invalid syntax")]
    Escape(String),
    /// Paths are nested too deeply.
    #[error("path is nested too deep")]
    Nested,
}

/// A character as Go names one.
struct Named(char);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "U+{:04X}", u32::from(self.0))?;
        let text = self.0.to_string();
        let shown = matches!(self.0, '"' | '\\') || quote(&text).len() == text.len() + 2;
        if shown { write!(f, " '{text}'") } else { Ok(()) }
    }
}

/// The steps of each action in the text.
pub(super) fn parse(text: &str) -> Result<Vec<Vec<Step>>, Error> {
    parse_nested(text, 0)
}

/// The steps of the first action in the text.
fn parse_part(text: &str, nested: usize) -> Result<Vec<Step>, Error> {
    if nested > MOST_NESTED {
        return Err(Error::Nested);
    }
    let actions = parse_nested(text, nested)?;
    Ok(actions.into_iter().next().unwrap_or_default())
}

fn parse_nested(text: &str, nested: usize) -> Result<Vec<Vec<Step>>, Error> {
    let braced = format!("{{{text}}}");
    let mut rest = braced.as_str();
    let mut actions = Vec::new();
    while let Some((_, action)) = rest.split_once('{') {
        let mut parser = Parser { rest: action, steps: Vec::new(), nested };
        parser.action()?;
        rest = parser.rest;
        actions.push(parser.steps);
    }
    Ok(actions)
}

/// What is left of an action.
struct Parser<'t> {
    rest: &'t str,
    steps: Vec<Step>,
    nested: usize,
}

impl<'t> Parser<'t> {
    /// Reads up to the brace that ends the action.
    fn action(&mut self) -> Result<(), Error> {
        loop {
            if self.eat("}") {
                return Ok(());
            } else if self.eat("[?(") {
                self.filter()?;
            } else if self.eat("..") {
                if matches!(self.steps.last(), Some(Step::Recursive)) {
                    return Err(Error::Recursive);
                }
                self.steps.push(Step::Recursive);
                if self.rest.starts_with(is_alphanumeric) {
                    self.field();
                }
            } else {
                match self.rest.chars().next() {
                    None | Some('\r' | '\n') => return Err(Error::Unclosed),
                    Some(' ' | '@' | '$') => self.skip(1),
                    Some('[') => self.array()?,
                    Some(mark @ ('"' | '\'')) => self.quote(mark)?,
                    Some('.') => {
                        self.skip(1);
                        self.field();
                    }
                    Some('+' | '-') => self.number()?,
                    Some(digit) if is_digit(digit) => self.number()?,
                    Some(letter) if is_alphanumeric(letter) => self.identifier(),
                    Some(other) => return Err(Error::Character(other)),
                }
            }
        }
    }

    fn eat(&mut self, start: &str) -> bool {
        match self.rest.strip_prefix(start) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn skip(&mut self, length: usize) {
        self.take(length);
    }

    fn take(&mut self, length: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    /// A name; an escaped character does not end it.
    fn field(&mut self) {
        let mut escaped = false;
        let end = self.rest.find(|character| match character {
            _ if std::mem::take(&mut escaped) => false,
            '\\' => {
                escaped = true;
                false
            }
            other => is_terminator(other),
        });
        let name = self.take(end.unwrap_or(self.rest.len()));
        self.steps.push(match name {
            "*" => Step::Wildcard,
            _ => Step::Field(name.replace('\\', "").into()),
        });
    }

    fn identifier(&mut self) {
        let name = self.take(self.rest.find(is_terminator).unwrap_or(self.rest.len()));
        self.steps.push(match name {
            "true" => Step::Bool(true),
            "false" => Step::Bool(false),
            _ => Step::Identifier(name.into()),
        });
    }

    fn number(&mut self) -> Result<(), Error> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let digits = self.rest.get(sign..).unwrap_or_default();
        let length =
            digits.find(|character| character != '.' && !is_digit(character)).unwrap_or(digits.len());
        let text = self.take(sign + length);
        let step = match (parse_i64(text), text.parse::<f64>()) {
            (Ok(whole), _) => Step::Int(whole),
            (_, Ok(number)) if number.is_finite() => Step::Float(number),
            _ => return Err(Error::Number(text.into())),
        };
        self.steps.push(step);
        Ok(())
    }

    fn quote(&mut self, mark: char) -> Result<(), Error> {
        let mut before = mark;
        let mut end = None;
        for (at, character) in self.rest.char_indices().skip(1) {
            match character {
                '\n' => break,
                _ if character == mark && before != '\\' => {
                    end = Some(at + 1);
                    break;
                }
                _ => before = character,
            }
        }
        let text = self.take(end.ok_or(Error::Quote)?);
        self.steps.push(Step::Text(unquote(text).ok_or_else(|| Error::Escape(text.into()))?.into()));
        Ok(())
    }

    /// What is in brackets: a name, a place, a slice, or several of those.
    fn array(&mut self) -> Result<(), Error> {
        let end = self.rest.find([']', '\n']).ok_or(Error::Array)?;
        let text = self.take(end).get(1..).unwrap_or_default();
        if !self.eat("]") {
            return Err(Error::Array);
        }
        let text = if text == "*" { ":" } else { text };
        if text.contains(',') {
            let parts = text
                .split(',')
                .map(|part| parse_part(&format!("[{}]", part.trim_matches(' ')), self.nested + 1));
            let union = parts.collect::<Result<_, _>>()?;
            self.steps.push(Step::Union(union));
            return Ok(());
        }
        let quoted = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
        if let Some(name) = quoted.filter(|name| !name.contains('\'')) {
            self.steps.extend(parse_part(&format!(".{name}"), self.nested + 1)?);
            return Ok(());
        }
        self.steps.push(Step::Slice(slice(text)?));
        Ok(())
    }

    /// A condition up to its end, which may not be in the first pair of quotes.
    fn filter(&mut self) -> Result<(), Error> {
        let mut opened = None;
        let mut closed = false;
        let mut before = '(';
        let mut end = None;
        for (at, character) in self.rest.char_indices() {
            match character {
                '\n' => break,
                '"' | '\'' => match opened {
                    None => opened = Some(character),
                    Some(mark) => closed |= before != '\\' && character == mark,
                },
                ')' if opened.is_some() == closed => {
                    end = Some(at);
                    break;
                }
                _ => {}
            }
            before = character;
        }
        let text = self.take(end.ok_or(Error::Filter)?);
        self.skip(1);
        if !self.eat("]") {
            return Err(Error::FilterBracket);
        }
        let nested = self.nested + 1;
        let filter = match split_comparison(text) {
            Some(Comparison { left, operator, right }) => Filter {
                left: parse_part(left, nested)?,
                condition: Condition::Compare {
                    operator: operator.into(),
                    right: parse_part(right, nested)?,
                },
            },
            None => Filter { left: parse_part(text, nested)?, condition: Condition::Exists },
        };
        self.steps.push(Step::Filter(Box::new(filter)));
        Ok(())
    }
}

struct Comparison<'t> {
    left: &'t str,
    operator: &'t str,
    right: &'t str,
}

/// Splits at the first run of operator characters. If nothing follows the run, its last character is the
/// right side.
fn split_comparison(text: &str) -> Option<Comparison<'_>> {
    const OPERATORS: [char; 4] = ['!', '<', '>', '='];
    let (left, rest) = text.split_at_checked(text.find(OPERATORS)?)?;
    let length = rest.find(|character| !OPERATORS.contains(&character)).unwrap_or(rest.len() - 1);
    let (operator, right) = rest.split_at_checked(length)?;
    let whole = !left.is_empty() && !operator.is_empty() && !right.is_empty();
    whole.then_some(Comparison { left, operator, right })
}

/// Reads `start:end:step`, any of which may be missing.
fn slice(text: &str) -> Result<Slice, Error> {
    let parts: Vec<_> = text.split(':').collect();
    let is_number =
        |part: &str| part.strip_prefix('-').unwrap_or(part).bytes().all(|byte| byte.is_ascii_digit());
    if parts.len() > 3 || !parts.iter().all(|part| is_number(part)) {
        return Err(Error::Index(text.into()));
    }
    let number = |part: &str| match part {
        "" => Ok(None),
        _ => parse_i64(part).map(Some).map_err(|_| Error::IndexNumber(part.into())),
    };
    let start = number(parts.first().copied().unwrap_or_default())?;
    let end = match parts.get(1) {
        Some(part) => number(part)?.map_or(End::Open, End::At),
        None => End::Single(start.unwrap_or(0).wrapping_add(1)),
    };
    let step = number(parts.get(2).copied().unwrap_or_default())?;
    Ok(Slice { start, end, step })
}

fn is_terminator(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

fn is_alphanumeric(character: char) -> bool {
    character == '_' || is_digit(character) || (character.is_alphabetic() && !character.is_numeric())
}

/// Whether it is a decimal digit of any script, as of Unicode 15.0.
fn is_digit(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_digit();
    }
    let code = u32::from(character);
    let after = ZEROS.partition_point(|zero| *zero <= code);
    after.checked_sub(1).and_then(|at| ZEROS.get(at)).is_some_and(|zero| code - zero < 10)
}

/// The zero of each row of digits above ASCII; the other nine follow it.
#[rustfmt::skip]
const ZEROS: &[u32] = &[
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50,
    0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40,
    0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x11066,
    0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0, 0x11950,
    0x11c50, 0x11d50, 0x11da0, 0x11f50, 0x16a60, 0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec,
    0x1d7f6, 0x1e140, 0x1e2f0, 0x1e4f0, 0x1e950, 0x1fbf0,
];

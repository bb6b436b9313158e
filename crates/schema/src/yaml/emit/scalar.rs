//! The styles of scalars: plain if the text resolves to the same string, a literal block for several lines, or quotes.

use super::{After, Before, Emitter, INDENT, WIDTH};
use crate::yaml::resolve::is_ambiguous;

/// The styles of scalars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ScalarStyle {
    Plain,
    Single,
    Double,
    Literal,
}

impl ScalarStyle {
    /// The preferred style for a text.
    pub(super) fn wanted(text: &str) -> Self {
        if text.contains('\n') {
            ScalarStyle::Literal
        } else if is_ambiguous(text) {
            ScalarStyle::Double
        } else {
            ScalarStyle::Plain
        }
    }
}

/// The styles that a text allows.
#[derive(Debug)]
pub(super) struct Analysis {
    pub(super) multiline: bool,
    plain: bool,
    single: bool,
    literal: bool,
}

impl Analysis {
    pub(super) fn of(text: &str) -> Self {
        let (mut indicators, mut multiline, mut special) = (false, false, false);
        let (mut break_space, mut space_break) = (false, false);
        let (mut after_space, mut after_break) = (false, false);
        let mut after_gap = true;
        indicators |= text.starts_with("---") || text.starts_with("...");
        let mut characters = text.chars().peekable();
        let mut first = true;
        while let Some(character) = characters.next() {
            let gap_follows = characters.peek().is_none_or(|next| matches!(next, ' ' | '\t'));
            indicators |= match character {
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                    first
                }
                '#' => first || after_gap,
                '?' | '-' => first && gap_follows,
                ':' => gap_follows,
                _ => false,
            };
            special |= !is_printable(character);
            let (space, line_break) = (character == ' ', is_break(character));
            break_space |= space && after_break;
            space_break |= line_break && after_space;
            multiline |= line_break;
            (after_space, after_break) = (space, line_break);
            after_gap = space || line_break || matches!(character, '\t' | '\0');
            first = false;
        }
        let edge = |character: Option<char>| character.is_some_and(|edge| edge == ' ' || is_break(edge));
        let edges = edge(text.chars().next()) || edge(text.chars().next_back());
        Self {
            multiline,
            plain: !(edges || break_space || space_break || special || multiline || indicators),
            single: !(break_space || space_break || special),
            literal: !(text.is_empty() || text.ends_with(' ') || space_break || special),
        }
    }

    /// The allowed style that is nearest to the preferred one.
    pub(super) fn style(&self, wanted: ScalarStyle, in_key: bool) -> ScalarStyle {
        match wanted {
            _ if in_key && self.multiline => ScalarStyle::Double,
            ScalarStyle::Plain if self.plain => ScalarStyle::Plain,
            ScalarStyle::Plain | ScalarStyle::Single if self.single => ScalarStyle::Single,
            ScalarStyle::Literal if self.literal && !in_key => ScalarStyle::Literal,
            _ => ScalarStyle::Double,
        }
    }
}

fn is_break(character: char) -> bool {
    matches!(character, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether a character is written without an escape; a tab and characters past the first plane are not.
fn is_printable(character: char) -> bool {
    match character {
        '\u{feff}' => false,
        '\n' | ' '..='~' | '\u{a0}'..='\u{fffd}' => true,
        _ => false,
    }
}

impl Emitter<'_> {
    pub(super) fn plain(&mut self, text: &str, fold: bool) {
        if !self.spaced {
            self.put(' ');
        }
        let mut spaces = false;
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            let space = character == ' ';
            if space && fold && !spaces && self.column > WIDTH && characters.peek() != Some(&' ') {
                self.start_line();
            } else {
                self.put(character);
            }
            if !space {
                self.indenting = false;
            }
            spaces = space;
        }
        self.spaced = false;
        self.indenting = false;
    }

    pub(super) fn single_quoted(&mut self, text: &str, fold: bool) {
        self.indicator("'", Before::Space, After::Text);
        let (mut spaces, mut breaks) = (false, false);
        let mut characters = text.chars().enumerate().peekable();
        while let Some((at, character)) = characters.next() {
            let next = characters.peek().map(|(_, next)| *next);
            if character == ' ' {
                let within = at > 0 && next.is_some_and(|next| next != ' ');
                if fold && !spaces && self.column > WIDTH && within {
                    self.start_line();
                } else {
                    self.put(character);
                }
                spaces = true;
            } else if is_break(character) {
                if !breaks && character == '\n' {
                    self.line_break();
                }
                self.text_break(character);
                breaks = true;
            } else {
                if breaks {
                    self.start_line();
                }
                if character == '\'' {
                    self.put('\'');
                }
                self.put(character);
                self.indenting = false;
                (spaces, breaks) = (false, false);
            }
        }
        self.indicator("'", Before::Nothing, After::Text);
        self.indenting = false;
    }

    /// A line break that is part of the text.
    fn text_break(&mut self, character: char) {
        if character == '\n' {
            self.line_break();
        } else {
            self.put(character);
            self.column = 0;
        }
        self.indenting = true;
    }

    pub(super) fn double_quoted(&mut self, text: &str, fold: bool) {
        self.indicator("\"", Before::Space, After::Text);
        // The reference checks for a byte order mark at the start of the text for every character.
        let escape_all = text.starts_with('\u{feff}');
        let mut spaces = false;
        let mut characters = text.chars().enumerate().peekable();
        while let Some((at, character)) = characters.next() {
            let next = characters.peek().map(|(_, next)| *next);
            if escape_all
                || !is_printable(character)
                || is_break(character)
                || matches!(character, '"' | '\\')
            {
                self.escape(character);
                spaces = false;
            } else if character == ' ' {
                if fold && !spaces && self.column > WIDTH && at > 0 && next.is_some() {
                    self.start_line();
                    if next == Some(' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(character);
                }
                spaces = true;
            } else {
                self.put(character);
                spaces = false;
            }
        }
        self.indicator("\"", Before::Nothing, After::Text);
        self.indenting = false;
    }

    fn escape(&mut self, character: char) {
        let short = match character {
            '\0' => '0',
            '\x07' => 'a',
            '\x08' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\x0b' => 'v',
            '\x0c' => 'f',
            '\r' => 'r',
            '\x1b' => 'e',
            '"' => '"',
            '\\' => '\\',
            '\u{85}' => 'N',
            '\u{a0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ => {
                let code = u32::from(character);
                let spelt = match code {
                    ..0x100 => format!("\\x{code:02X}"),
                    0x100..0x1_0000 => format!("\\u{code:04X}"),
                    _ => format!("\\U{code:08X}"),
                };
                spelt.chars().for_each(|character| self.put(character));
                return;
            }
        };
        self.put('\\');
        self.put(short);
    }

    pub(super) fn literal(&mut self, text: &str) {
        self.indicator("|", Before::Space, After::Text);
        if text.starts_with(|first| first == ' ' || is_break(first)) {
            self.indicator(&INDENT.to_string(), Before::Nothing, After::Text);
        }
        // One line break at the end is the default; none and several need an indicator.
        let mut end = text.chars().rev();
        let chomp = match (end.next().is_some_and(is_break), end.next().is_none_or(is_break)) {
            (false, _) => "-",
            (true, true) => "+",
            (true, false) => "",
        };
        self.indicator(chomp, Before::Nothing, After::Text);
        self.line_break();
        self.indenting = true;
        self.spaced = true;
        let mut breaks = true;
        for character in text.chars() {
            if is_break(character) {
                self.text_break(character);
                breaks = true;
            } else {
                if breaks {
                    self.start_line();
                }
                self.put(character);
                self.indenting = false;
                breaks = false;
            }
        }
    }
}

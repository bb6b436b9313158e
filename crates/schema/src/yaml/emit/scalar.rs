//! The styles of scalars: plain if the text resolves to the same string, a literal block for several lines,
//! or quotes.

use super::{After, Before, Emitter, INDENT, Position, WIDTH};
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

/// A scalar that is being written.
pub(in crate::yaml) struct Scalar {
    style: ScalarStyle,
    /// Whether long lines are folded.
    fold: bool,
    /// The level to go back to.
    outer: isize,
    /// How much of the text is written.
    at: usize,
    /// The last character was a space.
    spaces: bool,
    /// The last character was a line break.
    breaks: bool,
    /// The reference checks for a byte order mark at the start of the text for every character.
    escape_all: bool,
}

impl Emitter {
    /// Writes what comes before the text of a scalar.
    pub(super) fn begin_scalar(
        &mut self,
        text: &str,
        wanted: ScalarStyle,
        analysis: &Analysis,
        context: Position,
    ) -> Scalar {
        let outer = self.indent;
        self.indent = if outer < 0 { INDENT } else { outer + INDENT };
        let in_key = context == Position::Key;
        let style = analysis.style(wanted, in_key);
        match style {
            ScalarStyle::Plain if !self.spaced => self.put(' '),
            ScalarStyle::Plain => {}
            ScalarStyle::Single => self.indicator("'", Before::Space, After::Text),
            ScalarStyle::Double => self.indicator("\"", Before::Space, After::Text),
            ScalarStyle::Literal => self.begin_literal(text),
        }
        Scalar {
            style,
            fold: !in_key,
            outer,
            at: 0,
            spaces: false,
            breaks: style == ScalarStyle::Literal,
            escape_all: text.starts_with('\u{feff}'),
        }
    }

    /// Writes the text of a scalar and what comes after it, until there are `enough` bytes. Returns whether
    /// all is written.
    pub(in crate::yaml) fn scalar(&mut self, text: &str, scalar: &mut Scalar, enough: usize) -> bool {
        let mut characters = text.get(scalar.at..).unwrap_or_default().chars();
        while let Some(character) = characters.next() {
            let next = characters.clone().next();
            match scalar.style {
                ScalarStyle::Plain => self.plain(character, next, scalar),
                ScalarStyle::Single => self.single_quoted(character, next, scalar),
                ScalarStyle::Double => self.double_quoted(character, next, scalar),
                ScalarStyle::Literal => self.literal(character, scalar),
            }
            scalar.at += character.len_utf8();
            if self.out.len() >= enough {
                return false;
            }
        }
        match scalar.style {
            ScalarStyle::Plain => self.spaced = false,
            ScalarStyle::Single => self.indicator("'", Before::Nothing, After::Text),
            ScalarStyle::Double => self.indicator("\"", Before::Nothing, After::Text),
            ScalarStyle::Literal => {}
        }
        if scalar.style != ScalarStyle::Literal {
            self.indenting = false;
        }
        self.indent = scalar.outer;
        true
    }

    fn plain(&mut self, character: char, next: Option<char>, scalar: &mut Scalar) {
        let space = character == ' ';
        if space && scalar.fold && !scalar.spaces && self.column > WIDTH && next != Some(' ') {
            self.start_line();
        } else {
            self.put(character);
        }
        if !space {
            self.indenting = false;
        }
        scalar.spaces = space;
    }

    fn single_quoted(&mut self, character: char, next: Option<char>, scalar: &mut Scalar) {
        if character == ' ' {
            let within = scalar.at > 0 && next.is_some_and(|next| next != ' ');
            if scalar.fold && !scalar.spaces && self.column > WIDTH && within {
                self.start_line();
            } else {
                self.put(character);
            }
            scalar.spaces = true;
        } else if is_break(character) {
            if !scalar.breaks && character == '\n' {
                self.line_break();
            }
            self.text_break(character);
            scalar.breaks = true;
        } else {
            if scalar.breaks {
                self.start_line();
            }
            if character == '\'' {
                self.put('\'');
            }
            self.put(character);
            self.indenting = false;
            (scalar.spaces, scalar.breaks) = (false, false);
        }
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

    fn double_quoted(&mut self, character: char, next: Option<char>, scalar: &mut Scalar) {
        let escaped = scalar.escape_all
            || !is_printable(character)
            || is_break(character)
            || matches!(character, '"' | '\\');
        if escaped {
            self.escape(character);
        } else if character != ' ' {
            self.put(character);
        } else if scalar.fold && !scalar.spaces && self.column > WIDTH && scalar.at > 0 && next.is_some() {
            self.start_line();
            if next == Some(' ') {
                self.put('\\');
            }
        } else {
            self.put(character);
        }
        scalar.spaces = !escaped && character == ' ';
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

    fn begin_literal(&mut self, text: &str) {
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
    }

    fn literal(&mut self, character: char, scalar: &mut Scalar) {
        if is_break(character) {
            self.text_break(character);
        } else {
            if scalar.breaks {
                self.start_line();
            }
            self.put(character);
            self.indenting = false;
        }
        scalar.breaks = is_break(character);
    }
}

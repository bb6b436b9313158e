//! Go's grammar of patterns, read into the syntax of the crate `regex`.

use super::names::{CATEGORIES, SCRIPTS};
use std::fmt::Write;

/// How deep a pattern may nest.
const DEEPEST: u32 = 1000;
/// How deep it then nests at most in the syntax of the crate, where a group and its repetition are two.
pub(super) const DEEPEST_TRANSLATED: u32 = 3 * DEEPEST;
/// The most that a repetition, with those within it, repeats.
const MOST_REPEATS: u32 = 1000;
/// The most instructions that Go makes of a pattern.
const MOST_INSTRUCTIONS: u64 = (128 << 20) / 40;

/// The most steps that a pattern may compile to.
const HEAVIEST: u64 = 1 << 19;

/// A pattern in the syntax of the crate.
pub(super) struct Translated {
    pub(super) text: String,
    /// About how many steps it compiles to, where a class of Unicode counts as many.
    pub(super) weight: u64,
    /// The instructions that Go makes of it. Matching takes at most as many steps for each character.
    pub(super) instructions: u64,
}

pub(super) fn translate(pattern: &str) -> Result<Translated, String> {
    let mut parser = Parser {
        whole: pattern,
        rest: pattern,
        flags: Flags::default(),
        open: vec![Group::default()],
        out: String::with_capacity(2 * pattern.len()),
    };
    parser.run().map_err(|fault| fault.to_string(pattern))?;
    let Some(group) = parser.open.pop().filter(|_| parser.open.is_empty()) else {
        return Err(Fault::new("missing closing )", pattern).to_string(pattern));
    };
    let Piece { weight, size: instructions, .. } = group.close();
    if weight > HEAVIEST {
        return Err(too_large(pattern));
    }
    Ok(Translated { text: parser.out, weight, instructions })
}

/// The error for a pattern that takes too much memory.
pub(super) fn too_large(pattern: &str) -> String {
    Fault::new("expression too large", pattern).to_string(pattern)
}

struct Fault<'p> {
    why: &'static str,
    part: Option<&'p str>,
}

impl<'p> Fault<'p> {
    fn new(why: &'static str, part: &'p str) -> Self {
        Self { why, part: Some(part) }
    }

    /// A fault of the pattern as a whole.
    fn whole(why: &'static str) -> Self {
        Self { why, part: None }
    }

    fn to_string(&self, pattern: &str) -> String {
        format!("error parsing regexp: {}: `{}`", self.why, self.part.unwrap_or(pattern))
    }
}

#[derive(Clone, Copy, Default)]
struct Flags {
    fold_case: bool,
    lines: bool,
    dot_is_any: bool,
    /// Whether `a*` takes as little as possible and `a*?` as much.
    lazy: bool,
}

/// A piece that a repetition applies to.
struct Piece {
    height: u32,
    /// How often the innermost part repeats.
    repeats: u32,
    /// The instructions that Go makes of it.
    size: u64,
    weight: u64,
}

impl Piece {
    const ATOM: Self = Self { height: 1, repeats: 1, size: 1, weight: 1 };

    fn class(weight: u64) -> Self {
        Self { weight, ..Self::ATOM }
    }
}

/// What is between two parentheses, as far as it was read.
#[derive(Default)]
struct Group {
    /// The flags that hold after it.
    flags: Flags,
    captures: bool,
    /// The alternatives that are complete.
    before: Option<Piece>,
    alternatives: u64,
    pieces: Vec<Piece>,
}

impl Group {
    fn concatenation(&mut self) -> Piece {
        let pieces = std::mem::take(&mut self.pieces);
        let several = u32::from(pieces.len() > 1);
        let mut all = Piece { size: 0, weight: 0, ..Piece::ATOM };
        for piece in pieces {
            all.height = all.height.max(piece.height + several);
            all.repeats = all.repeats.max(piece.repeats);
            all.size += piece.size;
            all.weight += piece.weight;
        }
        Piece { size: all.size.max(1), ..all }
    }

    fn alternative(&mut self) {
        let next = self.concatenation();
        self.alternatives += 1;
        self.before = Some(match self.before.take() {
            None => next,
            Some(before) => Piece {
                height: (before.height - u32::from(self.alternatives > 2)).max(next.height) + 1,
                repeats: before.repeats.max(next.repeats),
                size: before.size + next.size + 1,
                weight: before.weight + next.weight + 1,
            },
        });
    }

    fn close(mut self) -> Piece {
        self.alternative();
        self.before.unwrap_or(Piece::ATOM)
    }
}

struct Parser<'p> {
    whole: &'p str,
    rest: &'p str,
    flags: Flags,
    /// The groups that are open, the pattern itself first.
    open: Vec<Group>,
    /// What was read, in the syntax of the crate. A repetition after it applies to the last piece.
    out: String,
}

impl<'p> Parser<'p> {
    fn run(&mut self) -> Result<(), Fault<'p>> {
        let mut last_repeat: Option<&'p str> = None;
        while let Some(first) = self.rest.chars().next() {
            let before = self.rest;
            let mut repeat = None;
            match first {
                '(' => self.open_group()?,
                '|' => {
                    self.skip(1);
                    self.out.push('|');
                    if let Some(group) = self.open.last_mut() {
                        group.alternative();
                    }
                }
                ')' => self.close_group()?,
                '^' => self.assertion(if self.flags.lines { "(?m:^)" } else { r"\A" }, 1)?,
                '$' => self.assertion(if self.flags.lines { "(?m:$)" } else { r"\z" }, 1)?,
                '.' => self.assertion(if self.flags.dot_is_any { "(?s:.)" } else { r"[^\n]" }, 1)?,
                '[' => self.class()?,
                '*' | '+' | '?' => {
                    self.skip(1);
                    let most = if first == '?' { Some(1) } else { None };
                    self.repeat(before, last_repeat, u32::from(first == '+'), most, false)?;
                    repeat = Some(last_repeat.unwrap_or(before));
                }
                '{' => match counts(before) {
                    None => {
                        self.skip(1);
                        self.literal('{')?;
                    }
                    Some(Counts { least, most, after }) => {
                        let (Some(least), Some(most)) = (least, most) else {
                            return Err(Fault::new("invalid repeat count", upto(before, after)));
                        };
                        self.rest = after;
                        self.repeat(before, last_repeat, least, most, true)?;
                        repeat = Some(before);
                    }
                },
                '\\' => self.escaped()?,
                other => {
                    self.skip(other.len_utf8());
                    self.literal(other)?;
                }
            }
            last_repeat = repeat;
        }
        Ok(())
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn assertion(&mut self, text: &str, bytes: usize) -> Result<(), Fault<'p>> {
        self.skip(bytes);
        self.out.push_str(text);
        self.push(Piece::ATOM)
    }

    fn push(&mut self, piece: Piece) -> Result<(), Fault<'p>> {
        check(&piece)?;
        if let Some(group) = self.open.last_mut() {
            group.pieces.push(piece);
        }
        Ok(())
    }

    /// Writes a class, with the other cases of its characters if they match too.
    fn write_class(&mut self, class: &str) {
        let (before, after) = if self.flags.fold_case { ("(?i:", ")") } else { ("", "") };
        self.out.extend([before, class, after]);
    }

    fn literal(&mut self, character: char) -> Result<(), Fault<'p>> {
        self.code(u32::from(character))
    }

    fn code(&mut self, code: u32) -> Result<(), Fault<'p>> {
        let mut text = String::new();
        write_range(&mut text, code, code);
        self.write_class(if text.is_empty() { NOTHING } else { &text });
        self.push(Piece::ATOM)
    }

    fn open_with(&mut self, captures: bool) {
        self.out.push_str("(?:");
        self.open.push(Group { flags: self.flags, captures, ..Group::default() });
    }

    fn repeat(
        &mut self,
        before: &'p str,
        last: Option<&'p str>,
        least: u32,
        most: Option<u32>,
        counted: bool,
    ) -> Result<(), Fault<'p>> {
        let mut lazy = self.flags.lazy;
        if let Some(after) = self.rest.strip_prefix('?') {
            self.rest = after;
            lazy = !lazy;
        }
        if let Some(last) = last {
            return Err(Fault::new("invalid nested repetition operator", upto(last, self.rest)));
        }
        let Some(group) = self.open.last_mut() else { return Ok(()) };
        let Some(piece) = group.pieces.pop() else {
            return Err(Fault::new("missing argument to repetition operator", upto(before, self.rest)));
        };
        let times = most.unwrap_or(least).max(1);
        let copies = if counted { times } else { 1 };
        let repeats = if counted && most == Some(0) { 1 } else { piece.repeats.saturating_mul(copies) };
        // Writing into a String cannot fail.
        let _ = match most {
            Some(most) => write!(self.out, "{{{least},{most}}}"),
            None => write!(self.out, "{{{least},}}"),
        };
        if lazy {
            self.out.push('?');
        }
        let repeated = Piece {
            height: piece.height + 1,
            repeats,
            size: piece.size.saturating_mul(copies.into()) + 2,
            weight: piece.weight.saturating_mul(copies.into()) + 2,
        };
        check(&repeated)?;
        let several = least >= 2 || most.is_some_and(|most| most >= 2);
        if counted && several && repeats > MOST_REPEATS {
            return Err(Fault::new("invalid repeat count", upto(before, self.rest)));
        }
        group.pieces.push(repeated);
        Ok(())
    }

    fn open_group(&mut self) -> Result<(), Fault<'p>> {
        let start = self.rest;
        let Some(flags) = start.strip_prefix("(?") else {
            self.skip(1);
            self.open_with(true);
            return Ok(());
        };
        let named =
            flags.strip_prefix("P<").or_else(|| flags.strip_prefix('<')).filter(|name| !name.is_empty());
        if let Some(name) = named {
            let Some((name, after)) = name.split_once('>') else {
                return Err(Fault::new("invalid named capture", start));
            };
            let valid = |name: &str| {
                !name.is_empty() && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
            };
            if !valid(name) {
                return Err(Fault::new("invalid named capture", upto(start, after)));
            }
            self.rest = after;
            self.open_with(true);
            return Ok(());
        }
        self.set_flags(start, flags)
    }

    fn set_flags(&mut self, start: &'p str, list: &'p str) -> Result<(), Fault<'p>> {
        let mut flags = self.flags;
        let (mut on, mut seen) = (true, false);
        let mut characters = list.chars();
        for character in characters.by_ref() {
            match character {
                'i' => flags.fold_case = on,
                'm' => flags.lines = on,
                's' => flags.dot_is_any = on,
                'U' => flags.lazy = on,
                '-' if on => {
                    (on, seen) = (false, false);
                    continue;
                }
                ':' | ')' if on || seen => {
                    if character == ':' {
                        self.open_with(false);
                    }
                    self.flags = flags;
                    self.rest = characters.as_str();
                    return Ok(());
                }
                _ => break,
            }
            seen = true;
        }
        Err(Fault::new("invalid or unsupported Perl syntax", upto(start, characters.as_str())))
    }

    fn close_group(&mut self) -> Result<(), Fault<'p>> {
        self.skip(1);
        let closed = if self.open.len() > 1 { self.open.pop() } else { None };
        let Some(group) = closed else { return Err(Fault::new("unexpected )", self.whole)) };
        self.flags = group.flags;
        let captures = group.captures;
        let mut piece = group.close();
        self.out.push(')');
        piece.height += u32::from(captures);
        piece.size += if captures { 2 } else { 0 };
        self.push(piece)
    }

    fn escaped(&mut self) -> Result<(), Fault<'p>> {
        let start = self.rest;
        match start.as_bytes().get(1) {
            Some(b'A') => self.assertion(r"\A", 2),
            Some(b'b') => self.assertion(r"(?-u:\b)", 2),
            Some(b'B') => self.assertion(r"(?-u:\B)", 2),
            Some(b'z') => self.assertion(r"\z", 2),
            Some(b'C') => Err(Fault::new("invalid escape sequence", r"\C")),
            Some(b'Q') => {
                let quoted = start.get(2..).unwrap_or_default();
                let (text, after) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
                text.chars().try_for_each(|character| self.literal(character))?;
                self.rest = after;
                Ok(())
            }
            _ => {
                if let Some((class, after)) = self.shorthand(start)? {
                    self.rest = after;
                    self.write_class(&format!("[{}]", class.text));
                    return self.push(Piece::class(class.weight));
                }
                let (code, after) = escape(start)?;
                self.rest = after;
                self.code(code)
            }
        }
    }

    /// A class that a backslash and a letter name.
    fn shorthand(&self, start: &'p str) -> Result<Option<(Class, &'p str)>, Fault<'p>> {
        let Some(after) = start.strip_prefix('\\') else { return Ok(None) };
        let mut characters = after.chars();
        let letter = characters.next();
        let after = characters.as_str();
        let class = match letter {
            Some('d') => "0-9",
            Some('D') => "[^0-9]",
            Some('w') => "0-9A-Za-z_",
            Some('W') => "[^0-9A-Za-z_]",
            Some('s') => r"\t\n\x0C\r\x20",
            Some('S') => r"[^\t\n\x0C\r\x20]",
            Some('p') => return unicode(start, after, true).map(Some),
            Some('P') => return unicode(start, after, false).map(Some),
            _ => return Ok(None),
        };
        Ok(Some((Class { text: class.to_owned(), weight: 4 }, after)))
    }

    /// A class in brackets.
    fn class(&mut self) -> Result<(), Fault<'p>> {
        let whole = self.rest;
        let mut rest = whole.get(1..).unwrap_or_default();
        let negated = rest.strip_prefix('^');
        rest = negated.unwrap_or(rest);
        let mut text = String::new();
        let mut weight = 2;
        let mut first = true;
        while first || !rest.starts_with(']') {
            first = false;
            if let Some((class, after)) = posix(rest)? {
                text.push_str(class);
                weight += 2;
                rest = after;
                continue;
            }
            if let Some((class, after)) = self.shorthand(rest)? {
                text.push_str(&class.text);
                weight += class.weight;
                rest = after;
                continue;
            }
            let range = rest;
            let (low, after) = class_character(rest, whole)?;
            rest = after;
            let mut high = low;
            if let Some(end) = rest.strip_prefix('-').filter(|end| !end.is_empty() && !end.starts_with(']')) {
                let (last, after) = class_character(end, whole)?;
                rest = after;
                high = last;
                if high < low {
                    return Err(Fault::new("invalid character class range", upto(range, rest)));
                }
            }
            write_range(&mut text, low, high);
            weight += 2;
        }
        self.rest = rest.get(1..).unwrap_or_default();
        let class = match (negated.is_some(), text.is_empty()) {
            (true, true) => r"[\x{0}-\x{10FFFF}]".to_owned(),
            (false, true) => NOTHING.to_owned(),
            (true, false) => format!("[^{text}]"),
            (false, false) => format!("[{text}]"),
        };
        self.write_class(&class);
        self.push(Piece::class(weight))
    }
}

/// A class that no character is in.
const NOTHING: &str = r"[^\x{0}-\x{10FFFF}]";

/// The inside of a class.
struct Class {
    text: String,
    weight: u64,
}

fn check(piece: &Piece) -> Result<(), Fault<'static>> {
    if piece.size > MOST_INSTRUCTIONS {
        return Err(Fault::whole("expression too large"));
    }
    if piece.height > DEEPEST {
        return Err(Fault::whole("expression nests too deeply"));
    }
    Ok(())
}

/// What is between two places of the pattern.
fn upto<'p>(from: &'p str, rest: &str) -> &'p str {
    from.get(..from.len() - rest.len()).unwrap_or(from)
}

struct Counts<'p> {
    /// None where the number is too large, or the order wrong.
    least: Option<u32>,
    most: Option<Option<u32>>,
    after: &'p str,
}

/// Reads `{2}`, `{2,}` or `{2,3}`.
fn counts(text: &str) -> Option<Counts<'_>> {
    let (least, rest) = number(text.strip_prefix('{')?)?;
    let (most, rest) = match rest.strip_prefix(',') {
        None => (Some(least), rest),
        Some(rest) if rest.starts_with('}') => (None, rest),
        Some(rest) => number(rest).map(|(most, rest)| (Some(most), rest))?,
    };
    let after = rest.strip_prefix('}')?;
    let valid = |count: u32| count <= MOST_REPEATS;
    let ordered = most.is_none_or(|most| valid(most) && least <= most);
    Some(Counts {
        least: Some(least).filter(|least| valid(*least)),
        most: Some(most).filter(|_| ordered),
        after,
    })
}

/// A number without leading zeros; a large one is only known to be too large.
fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    if digits.is_empty() || digits.len() > 1 && digits.starts_with('0') {
        return None;
    }
    Some((digits.parse().unwrap_or(u32::MAX), rest))
}

fn posix(text: &str) -> Result<Option<(&'static str, &str)>, Fault<'_>> {
    let Some(name) = text.strip_prefix("[:") else { return Ok(None) };
    let Some((name, after)) = name.split_once(":]") else { return Ok(None) };
    let known = |name: &str| {
        Some(match name {
            "alnum" => "[:alnum:]",
            "alpha" => "[:alpha:]",
            "ascii" => "[:ascii:]",
            "blank" => "[:blank:]",
            "cntrl" => "[:cntrl:]",
            "digit" => "[:digit:]",
            "graph" => "[:graph:]",
            "lower" => "[:lower:]",
            "print" => "[:print:]",
            "punct" => "[:punct:]",
            "space" => "[:space:]",
            "upper" => "[:upper:]",
            "word" => "[:word:]",
            "xdigit" => "[:xdigit:]",
            "^alnum" => "[:^alnum:]",
            "^alpha" => "[:^alpha:]",
            "^ascii" => "[:^ascii:]",
            "^blank" => "[:^blank:]",
            "^cntrl" => "[:^cntrl:]",
            "^digit" => "[:^digit:]",
            "^graph" => "[:^graph:]",
            "^lower" => "[:^lower:]",
            "^print" => "[:^print:]",
            "^punct" => "[:^punct:]",
            "^space" => "[:^space:]",
            "^upper" => "[:^upper:]",
            "^word" => "[:^word:]",
            "^xdigit" => "[:^xdigit:]",
            _ => return None,
        })
    };
    match known(name) {
        Some(class) => Ok(Some((class, after))),
        None => Err(Fault::new("invalid character class range", upto(text, after))),
    }
}

/// A class of Unicode: one letter, or a name in braces.
fn unicode<'p>(start: &'p str, after: &'p str, mut positive: bool) -> Result<(Class, &'p str), Fault<'p>> {
    let wrong = |part| Fault::new("invalid character class range", part);
    let mut characters = after.chars();
    let (name, rest) = match characters.next() {
        None => ("", ""),
        Some('{') => {
            let inside = characters.as_str();
            inside.split_once('}').ok_or_else(|| wrong(start))?
        }
        Some(_) => (upto(after, characters.as_str()), characters.as_str()),
    };
    let seen = upto(start, rest);
    let name = match name.strip_prefix('^') {
        Some(name) => {
            positive = !positive;
            name
        }
        None => name,
    };
    let class = if name == "Any" {
        r"\x{0}-\x{10FFFF}".to_owned()
    } else if name == "C" {
        // Go's category of other characters does not have those that no character has.
        r"\p{Cc}\p{Cf}\p{Co}".to_owned()
    } else if name == "Cs" {
        String::new()
    } else if CATEGORIES.binary_search(&name).is_ok() {
        format!(r"\p{{gc={name}}}")
    } else if SCRIPTS.binary_search(&name).is_ok() {
        format!(r"\p{{sc={name}}}")
    } else {
        return Err(wrong(seen));
    };
    let text = match (positive, class.is_empty()) {
        (true, false) => class,
        (false, false) => format!("[^{class}]"),
        (true, true) => NOTHING.to_owned(),
        (false, true) => r"\x{0}-\x{10FFFF}".to_owned(),
    };
    Ok((Class { text, weight: 600 }, rest))
}

fn class_character<'p>(text: &'p str, whole: &'p str) -> Result<(u32, &'p str), Fault<'p>> {
    let mut characters = text.chars();
    match characters.next() {
        None => Err(Fault::new("missing closing ]", whole)),
        Some('\\') => escape(text),
        Some(character) => Ok((character.into(), characters.as_str())),
    }
}

/// A character after a backslash, or its code.
fn escape(start: &str) -> Result<(u32, &str), Fault<'_>> {
    let mut characters = start.chars();
    characters.next();
    let Some(character) = characters.next() else {
        return Err(Fault::new("trailing backslash at end of expression", ""));
    };
    let octal = |rest: &str| rest.starts_with(|digit| matches!(digit, '0'..='7'));
    let code = match character {
        '1'..='7' if !octal(characters.as_str()) => None,
        '0'..='7' => {
            let mut code = character.to_digit(8).unwrap_or_default();
            for _ in 0..2 {
                let Some(digit) = characters.clone().next().and_then(|digit| digit.to_digit(8)) else {
                    break;
                };
                code = code * 8 + digit;
                characters.next();
            }
            Some(code)
        }
        'x' => hexadecimal(&mut characters),
        'a' => Some(0x07),
        'f' => Some(0x0c),
        'n' => Some(0x0a),
        'r' => Some(0x0d),
        't' => Some(0x09),
        'v' => Some(0x0b),
        other if other.is_ascii() && !other.is_ascii_alphanumeric() => Some(other.into()),
        _ => None,
    };
    let rest = characters.as_str();
    code.map(|code| (code, rest)).ok_or_else(|| Fault::new("invalid escape sequence", upto(start, rest)))
}

/// Two digits, or any number of them in braces.
fn hexadecimal(characters: &mut std::str::Chars<'_>) -> Option<u32> {
    let first = characters.next()?;
    if first != '{' {
        let second = characters.next().and_then(|second| second.to_digit(16));
        return first.to_digit(16).zip(second).map(|(first, second)| first * 16 + second);
    }
    let mut code = None;
    loop {
        let character = characters.next()?;
        if character == '}' {
            return code;
        }
        let next = character.to_digit(16).map(|digit| code.unwrap_or(0) * 16 + digit);
        code = Some(next.filter(|next| *next <= 0x10_ffff)?);
    }
}

/// Writes the characters from `low` to `high`: surrogates are none.
fn write_range(out: &mut String, low: u32, high: u32) {
    for (low, high) in [(low, high.min(0xd7ff)), (low.max(0xe000), high)] {
        if low == high {
            // Writing into a String cannot fail.
            let _ = write!(out, r"\x{{{low:X}}}");
        } else if low < high {
            let _ = write!(out, r"\x{{{low:X}}}-\x{{{high:X}}}");
        }
    }
}

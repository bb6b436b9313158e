//! YAML encoding in the layout of the reference: blocks indented by two, lists under a key not indented, text
//! folded past 80 columns.

mod scalar;

use scalar::{Analysis, ScalarStyle};

pub(super) use scalar::Scalar;

/// Lines are folded at the first space past this column.
const WIDTH: usize = 80;
/// The indentation of each level.
const INDENT: isize = 2;
/// The longest key that is written before its colon; longer ones follow a `?`.
const LONGEST_KEY: usize = 128;

/// The position of a node.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Position {
    Root,
    Element,
    /// After a colon, or a key after a question mark.
    Entry,
    /// A key before its colon.
    Key,
}

/// The text so far and the state of its last line.
pub(super) struct Emitter {
    pub(super) out: Vec<u8>,
    column: usize,
    indent: isize,
    /// The last character was white space.
    spaced: bool,
    /// The line has only indentation and dashes so far.
    indenting: bool,
}

impl Emitter {
    pub(super) fn new() -> Self {
        Self { out: Vec::new(), column: 0, indent: -1, spaced: true, indenting: true }
    }

    pub(super) fn end_document(&mut self) {
        self.start_line();
    }

    /// Begins a list with elements. Returns the level to go back to.
    pub(super) fn begin_list(&mut self, context: Position) -> isize {
        let outer = self.indent;
        self.indent = match outer {
            ..0 => 0,
            _ if context == Position::Entry && !self.indenting => outer,
            _ => outer + INDENT,
        };
        outer
    }

    pub(super) fn begin_element(&mut self) {
        self.start_line();
        self.indicator("-", Before::Space, After::Indent);
    }

    /// Begins a map with entries. Returns the level to go back to.
    pub(super) fn begin_map(&mut self) -> isize {
        let outer = self.indent;
        self.indent = if outer < 0 { 0 } else { outer + INDENT };
        outer
    }

    /// Ends a list or a map.
    pub(super) fn end_level(&mut self, outer: isize) {
        self.indent = outer;
    }

    /// Begins a key, on a line of its own. Returns whether it is long, for [`Self::after_key`].
    pub(super) fn begin_key(&mut self, key: &str) -> (bool, Scalar) {
        self.start_line();
        let analysis = Analysis::of(key);
        // Without quotes it is a merge key. The reference does not quote it and loses the entry.
        let wanted = if key == "<<" { ScalarStyle::Double } else { ScalarStyle::wanted(key) };
        let long = key.len() > LONGEST_KEY || analysis.multiline;
        let context = if long { Position::Entry } else { Position::Key };
        if long {
            self.indicator("?", Before::Space, After::Indent);
        }
        (long, self.begin_scalar(key, wanted, &analysis, context))
    }

    pub(super) fn after_key(&mut self, long: bool) {
        if long {
            self.start_line();
            self.indicator(":", Before::Space, After::Indent);
        } else {
            self.indicator(":", Before::Nothing, After::Text);
        }
    }

    pub(super) fn empty(&mut self, open: &str, close: &str) {
        self.indicator(open, Before::Space, After::Space);
        self.indicator(close, Before::Nothing, After::Text);
    }

    /// Begins null, a boolean or a number.
    pub(super) fn begin_plain(&mut self, text: &str, context: Position) -> Scalar {
        self.begin_scalar(text, ScalarStyle::Plain, &Analysis::of(text), context)
    }

    /// Begins a string.
    pub(super) fn begin_text(&mut self, text: &str, context: Position) -> Scalar {
        self.begin_scalar(text, ScalarStyle::wanted(text), &Analysis::of(text), context)
    }

    fn put(&mut self, character: char) {
        self.out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        self.column += 1;
    }

    fn line_break(&mut self) {
        self.out.push(b'\n');
        self.column = 0;
    }

    /// Moves to the column of the current level, on a new line if needed.
    fn start_line(&mut self) {
        let indent = usize::try_from(self.indent).unwrap_or(0);
        if !self.indenting || self.column > indent || (self.column == indent && !self.spaced) {
            self.line_break();
        }
        if self.column < indent {
            self.out.resize(self.out.len() + indent - self.column, b' ');
            self.column = indent;
        }
        self.spaced = true;
        self.indenting = true;
    }

    fn indicator(&mut self, text: &str, before: Before, after: After) {
        if before == Before::Space && !self.spaced {
            self.put(' ');
        }
        text.chars().for_each(|character| self.put(character));
        self.spaced = after == After::Space;
        self.indenting &= after == After::Indent;
    }
}

/// What an indicator needs before it.
#[derive(PartialEq)]
enum Before {
    Nothing,
    Space,
}

/// How an indicator affects the text after it.
#[derive(PartialEq)]
enum After {
    Text,
    Space,
    Indent,
}

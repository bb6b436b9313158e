//! YAML encoding in the layout of the reference: blocks indented by two, lists under a key not indented, text folded past
//! 80 columns.

mod scalar;

use super::from_json::EmitNode;
use scalar::{Analysis, ScalarStyle};

/// Lines are folded at the first space past this column.
const WIDTH: usize = 80;
/// The indentation of each level.
const INDENT: isize = 2;
/// The longest key that is written before its colon; longer ones follow a `?`.
const LONGEST_KEY: usize = 128;

/// The position of a node.
#[derive(Clone, Copy, PartialEq)]
enum Position {
    Root,
    Element,
    /// After a colon, or a key after a question mark.
    Entry,
    /// A key before its colon.
    Key,
}

/// The text so far and the state of its last line.
pub(super) struct Emitter<'o> {
    out: &'o mut Vec<u8>,
    column: usize,
    indent: isize,
    /// The last character was white space.
    spaced: bool,
    /// The line has only indentation and dashes so far.
    indenting: bool,
}

impl<'o> Emitter<'o> {
    pub(super) fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out, column: 0, indent: -1, spaced: true, indenting: true }
    }

    pub(super) fn document(&mut self, node: &EmitNode<'_>) {
        self.node(node, Position::Root);
        self.start_line();
    }

    fn node(&mut self, node: &EmitNode<'_>, context: Position) {
        let outer = self.indent;
        match node {
            EmitNode::Plain(text) => self.scalar(text, ScalarStyle::Plain, &Analysis::of(text), context),
            EmitNode::Text(text) => {
                self.scalar(text, ScalarStyle::wanted(text), &Analysis::of(text), context)
            }
            EmitNode::List(elements) if elements.is_empty() => self.empty("[", "]"),
            EmitNode::Map(entries) if entries.is_empty() => self.empty("{", "}"),
            EmitNode::List(elements) => {
                self.indent = match outer {
                    ..0 => 0,
                    _ if context == Position::Entry && !self.indenting => outer,
                    _ => outer + INDENT,
                };
                for element in elements {
                    self.start_line();
                    self.indicator("-", Before::Space, After::Indent);
                    self.node(element, Position::Element);
                }
            }
            EmitNode::Map(entries) => {
                self.indent = if outer < 0 { 0 } else { outer + INDENT };
                for (key, value) in entries {
                    self.entry(key, value);
                }
            }
        }
        self.indent = outer;
    }

    fn entry(&mut self, key: &str, value: &EmitNode<'_>) {
        self.start_line();
        let analysis = Analysis::of(key);
        // Without quotes it is a merge key. The reference does not quote it and loses the entry.
        let wanted = if key == "<<" { ScalarStyle::Double } else { ScalarStyle::wanted(key) };
        if key.len() <= LONGEST_KEY && !analysis.multiline {
            self.scalar(key, wanted, &analysis, Position::Key);
            self.indicator(":", Before::Nothing, After::Text);
        } else {
            self.indicator("?", Before::Space, After::Indent);
            self.scalar(key, wanted, &analysis, Position::Entry);
            self.start_line();
            self.indicator(":", Before::Space, After::Indent);
        }
        self.node(value, Position::Entry);
    }

    fn empty(&mut self, open: &str, close: &str) {
        self.indicator(open, Before::Space, After::Space);
        self.indicator(close, Before::Nothing, After::Text);
    }

    fn scalar(&mut self, text: &str, wanted: ScalarStyle, analysis: &Analysis, context: Position) {
        let outer = self.indent;
        self.indent = if outer < 0 { INDENT } else { outer + INDENT };
        let in_key = context == Position::Key;
        match analysis.style(wanted, in_key) {
            ScalarStyle::Plain => self.plain(text, !in_key),
            ScalarStyle::Single => self.single_quoted(text, !in_key),
            ScalarStyle::Double => self.double_quoted(text, !in_key),
            ScalarStyle::Literal => self.literal(text),
        }
        self.indent = outer;
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
        while self.column < indent {
            self.put(' ');
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

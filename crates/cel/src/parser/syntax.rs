//! The tree of the syntax: what was read, with the gaps that faults leave.

use super::build::BEFORE;
use super::grammar::{Form, Label};
use super::stream::Stream;
use super::token::Kind;

/// The number of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part(u32);

/// The bit of the numbers of tokens that were made up.
pub(super) const MADE: u32 = 1 << 31;

/// What belongs to a part.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    /// A token, by its number.
    Token(u32),
    /// A part.
    Part(Part),
}

/// The parts of a text.
pub(super) struct Syntax<'t> {
    pub(super) stream: Stream<'t>,
    parts: Vec<Node>,
    items: Vec<Entry>,
    made: Vec<(String, u32)>,
}

struct Node {
    form: Form,
    /// The number of its first token.
    start: u32,
    /// Its first and its last item.
    first: Option<u32>,
    last: Option<u32>,
}

struct Entry {
    label: Label,
    item: Item,
    next: Option<u32>,
}

impl<'t> Syntax<'t> {
    pub(super) fn new(stream: Stream<'t>) -> Self {
        Self { stream, parts: Vec::new(), items: Vec::new(), made: Vec::new() }
    }

    /// Adds a part.
    pub(super) fn part(&mut self, form: Form, start: u32) -> Part {
        self.parts.push(Node { form, start, first: None, last: None });
        Part(self.parts.len() as u32 - 1)
    }

    /// Adds an item to a part.
    pub(super) fn add(&mut self, part: Part, label: Label, item: Item) {
        if label == Label::None {
            return;
        }
        let number = self.items.len() as u32;
        self.items.push(Entry { label, item, next: None });
        let Some(node) = self.parts.get_mut(part.0 as usize) else { return };
        let last = node.last.replace(number);
        match last.and_then(|last| self.items.get_mut(last as usize)) {
            Some(last) => last.next = Some(number),
            None => node.first = Some(number),
        }
    }

    /// Makes up a token; its number without [`MADE`].
    pub(super) fn make(&mut self, text: String, offset: u32) -> u32 {
        self.made.push((text, offset));
        self.made.len() as u32 - 1
    }

    pub(super) fn set_form(&mut self, part: Part, form: Form) {
        if let Some(node) = self.parts.get_mut(part.0 as usize) {
            node.form = form;
        }
    }

    pub(super) fn form(&self, part: Part) -> Option<Form> {
        self.parts.get(part.0 as usize).map(|node| node.form)
    }

    /// The number of the first token of a part.
    pub(super) fn start(&self, part: Part) -> u32 {
        self.parts.get(part.0 as usize).map_or(0, |node| node.start)
    }

    /// The items of a part that have a label.
    pub(super) fn items(&self, part: Part, label: Label) -> impl Iterator<Item = Item> + '_ {
        let first = self.parts.get(part.0 as usize).and_then(|node| node.first);
        std::iter::successors(first.and_then(|first| self.items.get(first as usize)), |entry| {
            entry.next.and_then(|next| self.items.get(next as usize))
        })
        .filter(move |entry| entry.label == label)
        .map(|entry| entry.item)
    }

    /// The part with a label.
    pub(super) fn child(&self, part: Part, label: Label) -> Option<Part> {
        self.children(part, label).next()
    }

    /// The parts with a label.
    pub(super) fn children(&self, part: Part, label: Label) -> impl Iterator<Item = Part> + '_ {
        self.items(part, label).filter_map(|item| match item {
            Item::Part(part) => Some(part),
            Item::Token(_) => None,
        })
    }

    /// The token with a label.
    pub(super) fn token(&self, part: Part, label: Label) -> Option<u32> {
        self.tokens(part, label).next()
    }

    /// The tokens with a label.
    pub(super) fn tokens(&self, part: Part, label: Label) -> impl Iterator<Item = u32> + '_ {
        self.items(part, label).filter_map(|item| match item {
            Item::Token(number) => Some(number),
            Item::Part(_) => None,
        })
    }

    /// The first code point of a token.
    pub(super) fn offset(&self, number: u32) -> u32 {
        match number & MADE {
            0 if self.stream.text.is_empty() => BEFORE,
            0 => self.stream.token(number as usize).offset,
            _ => self.made.get((number & !MADE) as usize).map_or(BEFORE, |(_, offset)| *offset),
        }
    }

    /// The kind of a token that was read.
    pub(super) fn kind(&self, number: u32) -> Option<Kind> {
        (number & MADE == 0).then(|| self.stream.token(number as usize).kind)
    }

    /// The text of a token.
    pub(super) fn text(&self, number: u32) -> &str {
        match number & MADE {
            0 => self.stream.text(self.stream.token(number as usize)),
            _ => self.made.get((number & !MADE) as usize).map_or("", |(text, _)| text),
        }
    }
}

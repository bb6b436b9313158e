//! JSON text to YAML text, in one piece or piece by piece.

use super::emit::{Emitter, Position, Scalar};
use super::go::yaml_float;
use super::resolve::{self, number};
use super::sort::sort_keys;
use crate::decode::{Error, Fault};
use crate::json::Scanner;
use crate::model::Type;
use object::Value;
use std::borrow::Cow;

/// The nesting limit: above the limit of every decoder.
const DEEPEST: usize = 1000;

/// Writes an object of a type.
pub fn encode(ty: &Type, value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut json = Vec::with_capacity(4096);
    crate::json::encode(ty, value, &mut json);
    from_json(&crate::json::utf8(&json), out)
}

/// Writes JSON as YAML: keys in the order of the reference, the last of duplicate keys.
pub fn from_json(json: &str, out: &mut Vec<u8>) -> Result<(), Error> {
    Writer::new(json)?.write(out, usize::MAX).map(drop)
}

/// JSON that is written as YAML piece by piece, like [`from_json`]: indentation may make the YAML a thousand
/// times as long.
///
/// It holds the JSON, a few bytes for each list and map in it, and the keys of the maps that it is in.
pub struct Writer<T> {
    json: T,
    /// Where each list and map starts and ends, in the order of their starts.
    containers: Vec<Span>,
    /// What is left to write, the next last.
    tasks: Vec<Task>,
    emitter: Emitter,
}

/// From the first byte to past the last.
#[derive(Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
}

enum Task {
    /// The value at an index.
    Node(usize, Position),
    /// The rest of a scalar.
    Scalar(Held, Scalar),
    /// What follows a key; then the value at an index.
    AfterKey { long: bool, value: usize },
    /// The elements from the one at an index on.
    List { next: Option<usize>, outer: isize },
    /// The entries that are left.
    Map { entries: std::vec::IntoIter<Entry>, outer: isize },
}

/// An entry of a map, as the indexes of its key and its value.
#[derive(Clone, Copy)]
struct Entry {
    key: u32,
    value: u32,
}

/// The text of a scalar.
enum Held {
    /// As it stands in the JSON.
    Part(usize, usize),
    Own(String),
}

impl Held {
    /// The text of a scanned string whose opening quote is at `at`.
    fn of(text: Cow<'_, str>, at: usize) -> Self {
        match text {
            Cow::Borrowed(text) => Self::Part(at + 1, at + 1 + text.len()),
            Cow::Owned(text) => Self::Own(text),
        }
    }

    fn text<'t>(&'t self, json: &'t str) -> &'t str {
        match self {
            Self::Part(start, end) => json.get(*start..*end).unwrap_or_default(),
            Self::Own(text) => text,
        }
    }
}

impl<T: AsRef<str>> Writer<T> {
    /// Checks JSON that is to be written.
    pub fn new(json: T) -> Result<Self, Error> {
        let text = json.as_ref();
        let most = u32::MAX as usize;
        if text.len() > most {
            return Err(Error::TooLarge(most));
        }
        let mut scanner = Scanner::new(text);
        let mut containers = Vec::new();
        let checked = find_containers(&mut scanner, DEEPEST, &mut containers).and_then(|()| scanner.end());
        checked.map_err(|fault| *fault)?;
        let tasks = vec![Task::Node(0, Position::Root)];
        Ok(Self { json, containers, tasks, emitter: Emitter::new() })
    }

    /// The bytes of memory that it holds: the text, and what is known of its lists and maps.
    pub fn held(&self) -> usize {
        self.json.as_ref().len() + self.containers.capacity() * size_of::<Span>()
    }

    /// Appends to `out` until that has `enough` bytes, or little more. Returns whether everything is written.
    pub fn write(&mut self, out: &mut Vec<u8>, enough: usize) -> Result<bool, Error> {
        std::mem::swap(out, &mut self.emitter.out);
        let written = self.write_tasks(enough);
        std::mem::swap(out, &mut self.emitter.out);
        written.map_err(|fault| *fault)
    }

    fn write_tasks(&mut self, enough: usize) -> Result<bool, Fault> {
        while self.emitter.out.len() < enough {
            let Some(task) = self.tasks.pop() else { return Ok(true) };
            match task {
                Task::Node(at, context) => self.node(at, context)?,
                Task::Scalar(held, mut scalar) => {
                    if !self.emitter.scalar(held.text(self.json.as_ref()), &mut scalar, enough) {
                        self.tasks.push(Task::Scalar(held, scalar));
                    }
                }
                Task::AfterKey { long, value } => {
                    self.emitter.after_key(long);
                    self.tasks.push(Task::Node(value, Position::Entry));
                }
                Task::List { next, outer } => self.element(next, outer)?,
                Task::Map { entries, outer } => self.entry(entries, outer)?,
            }
            if self.tasks.is_empty() {
                self.emitter.end_document();
            }
        }
        Ok(self.tasks.is_empty())
    }

    fn node(&mut self, at: usize, context: Position) -> Result<(), Fault> {
        let json = self.json.as_ref();
        let mut scanner = Scanner::at(json, at);
        let plain = |text: Cow<'static, str>| Held::Own(text.into_owned());
        let (held, is_text) = match scanner.peek_token() {
            Some(b'{') => {
                let entries = entries(&mut scanner, &self.containers)?;
                if entries.is_empty() {
                    self.emitter.empty("{", "}");
                } else {
                    let outer = self.emitter.begin_map();
                    self.tasks.push(Task::Map { entries: entries.into_iter(), outer });
                }
                return Ok(());
            }
            Some(b'[') => {
                scanner.advance();
                if scanner.peek_token() == Some(b']') {
                    self.emitter.empty("[", "]");
                } else {
                    let outer = self.emitter.begin_list(context);
                    self.tasks.push(Task::List { next: Some(scanner.position()), outer });
                }
                return Ok(());
            }
            Some(b'"') => {
                let at = scanner.position();
                (Held::of(scanner.string()?, at), true)
            }
            Some(b't') => (plain("true".into()), false),
            Some(b'f') => (plain("false".into()), false),
            Some(b'n') => (plain("null".into()), false),
            _ => {
                let text = scanner.number()?;
                match number(text) {
                    Some(resolve::Scalar::Int(number)) => (plain(number.to_string().into()), false),
                    Some(resolve::Scalar::Uint(number)) => (plain(number.to_string().into()), false),
                    Some(resolve::Scalar::Float(number)) => (plain(yaml_float(number).into()), false),
                    // A number out of range is written as a string.
                    _ => (Held::Own(text.to_owned()), true),
                }
            }
        };
        let text = held.text(json);
        let scalar = match is_text {
            true => self.emitter.begin_text(text, context),
            false => self.emitter.begin_plain(text, context),
        };
        self.tasks.push(Task::Scalar(held, scalar));
        Ok(())
    }

    fn element(&mut self, next: Option<usize>, outer: isize) -> Result<(), Fault> {
        let Some(at) = next else {
            self.emitter.end_level(outer);
            return Ok(());
        };
        let mut scanner = Scanner::at(self.json.as_ref(), at);
        skip(&mut scanner, &self.containers)?;
        let next = scanner.more_elements()?.then(|| scanner.position());
        self.tasks.push(Task::List { next, outer });
        self.emitter.begin_element();
        self.tasks.push(Task::Node(at, Position::Element));
        Ok(())
    }

    fn entry(&mut self, mut entries: std::vec::IntoIter<Entry>, outer: isize) -> Result<(), Fault> {
        let Some(Entry { key, value }) = entries.next() else {
            self.emitter.end_level(outer);
            return Ok(());
        };
        self.tasks.push(Task::Map { entries, outer });
        let json = self.json.as_ref();
        let held = Held::of(Scanner::at(json, key as usize).string()?, key as usize);
        let (long, scalar) = self.emitter.begin_key(held.text(json));
        self.tasks.push(Task::AfterKey { long, value: value as usize });
        self.tasks.push(Task::Scalar(held, scalar));
        Ok(())
    }
}

/// Checks a value, and finds its lists and maps.
fn find_containers(scanner: &mut Scanner<'_>, depth: usize, found: &mut Vec<Span>) -> Result<(), Fault> {
    let first = scanner.peek_token();
    let closes = match first {
        Some(b'{' | b'[') => first,
        _ => return scanner.scalar(),
    };
    let Some(depth) = depth.checked_sub(1) else { return Err(Fault::new(Error::TooDeep)) };
    let place = found.len();
    let start = scanner.position() as u32;
    found.push(Span { start, end: start });
    scanner.advance();
    if closes == Some(b'{') {
        let mut first = true;
        while scanner.key(first)?.is_some() {
            first = false;
            find_containers(scanner, depth, found)?;
            if !scanner.more_entries()? {
                break;
            }
        }
    } else if scanner.peek_token() == Some(b']') {
        scanner.advance();
    } else {
        loop {
            find_containers(scanner, depth, found)?;
            if !scanner.more_elements()? {
                break;
            }
        }
    }
    if let Some(span) = found.get_mut(place) {
        span.end = scanner.position() as u32;
    }
    Ok(())
}

/// Moves past a value.
fn skip(scanner: &mut Scanner<'_>, containers: &[Span]) -> Result<(), Fault> {
    match scanner.peek_token() {
        Some(b'{' | b'[') => {
            let start = scanner.position() as u32;
            let place = containers.partition_point(|span| span.start < start);
            let end = containers.get(place).map(|span| span.end as usize);
            end.map(|end| scanner.move_to(end)).ok_or_else(|| scanner.unexpected("looking for a value"))
        }
        _ => scanner.scalar(),
    }
}

/// The entries of the map at the scanner, sorted.
fn entries(scanner: &mut Scanner<'_>, containers: &[Span]) -> Result<Vec<Entry>, Fault> {
    scanner.advance();
    let mut found: Vec<(Cow<'_, str>, Entry)> = Vec::new();
    loop {
        scanner.peek_token();
        let at = scanner.position();
        let Some(key) = scanner.key(found.is_empty())? else { break };
        scanner.peek_token();
        found.push((key, Entry { key: at as u32, value: scanner.position() as u32 }));
        skip(scanner, containers)?;
        if !scanner.more_entries()? {
            break;
        }
    }
    Ok(sort_keys(found).into_iter().map(|(_, entry)| entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(json: &str) -> String {
        let mut out = Vec::new();
        from_json(json, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn pieces_are_the_whole() {
        let words = "word \\\"quoted\\\" ".repeat(200);
        let lines = "line of text\\n\\n".repeat(100);
        let deep = format!("{}{}{}", "[{\"a b\":".repeat(60), format_args!("\"{words}\""), "}]".repeat(60));
        for json in [
            format!(
                r#"{{"b":[1,2.5,{{}},[],null,true],"a":{{"c":"{words}","d":"{lines}"}},"{words}":"é\t"}}"#
            ),
            format!(r#"[["{lines}",[["x"]]],-7,1e400,{{"z":1,"z":2,"a10":3,"a2":4}}]"#),
            deep,
            "\"text\"".to_owned(),
            " { } ".to_owned(),
        ] {
            let whole = whole(&json);
            for size in [1, 7, 100, 5_000] {
                let mut writer = Writer::new(json.as_str()).unwrap();
                let mut all = Vec::new();
                let mut largest = 0;
                loop {
                    let mut piece = Vec::new();
                    let is_last = writer.write(&mut piece, size).unwrap();
                    largest = largest.max(piece.len());
                    all.extend(piece);
                    if is_last {
                        break;
                    }
                }
                assert_eq!(String::from_utf8(all).unwrap(), whole);
                // An indentation and a character at most.
                assert!(largest <= size + 2 * 130 + 16, "{largest} bytes for {size}");
            }
        }
    }

    #[test]
    fn invalid_json_is_refused_at_once() {
        for json in ["", "{", "[1,]", "{\"a\"}", "{} {}", "nul", &"[".repeat(2000)] {
            assert!(Writer::new(json).is_err(), "{json}");
        }
    }
}

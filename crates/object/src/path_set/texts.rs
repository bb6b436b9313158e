//! Compares a set with the texts of other sets without decoding them: most of such a text is skipped.
//!
//! Texts have to be as [`Set::push_json`] writes them. Elements are compared by their texts, so that numbers
//! of one value and different texts are different here.

use super::text::push_key;
use super::{Node, Set};

/// A set with the texts of its elements.
///
/// ```
/// use object::path_set::{Set, Texts};
/// let text = r#"{"f:data":{".":{},"f:x":{},"f:y":{}}}"#;
/// let texts = Texts::of(&Set::from_json(r#"{"f:data":{"f:x":{}}}"#).unwrap());
/// assert!(texts.are_in(text));
/// assert_eq!(texts.taken_from(text).as_deref(), Ok(r#"{"f:data":{".":{},"f:y":{}}}"#));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Texts {
    /// By their keys.
    nodes: Vec<Keyed>,
}

#[derive(Clone, Debug)]
struct Keyed {
    /// The key in the text, with its escapes and without its quotes.
    key: String,
    member: bool,
    below: Texts,
}

/// Why there is no other text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untaken {
    /// None of the paths is in the text.
    Same,
    /// The text is not in the form that sets are written in.
    Foreign,
}

impl Texts {
    /// The texts of a set.
    pub fn of(set: &Set) -> Self {
        let keyed = |node: &Node| {
            let mut key = String::new();
            push_key(&node.element, &mut String::new(), &mut key);
            Keyed {
                key,
                member: node.member,
                below: node.children.as_deref().map(Self::of).unwrap_or_default(),
            }
        };
        let mut nodes: Vec<Keyed> = set.nodes.iter().map(keyed).collect();
        nodes.sort_by(|a, b| a.key.cmp(&b.key));
        Self { nodes }
    }

    /// The text of a set without these paths: what [`Set::difference`] would leave.
    pub fn taken_from(&self, text: &str) -> Result<String, Untaken> {
        let mut reader = Reader { text, at: 0 };
        let mut out = String::with_capacity(text.len());
        out.push('{');
        let level = self.take(&mut reader, &mut out).filter(|_| reader.at == text.len());
        out.push('}');
        match level {
            None => Err(Untaken::Foreign),
            Some(level) if level.changed => Ok(out),
            Some(_) => Err(Untaken::Same),
        }
    }

    /// Whether all of these paths are in the set of a text.
    pub fn are_in(&self, text: &str) -> bool {
        let mut reader = Reader { text, at: 0 };
        self.find(&mut reader).is_some_and(|level| level.all_found)
    }

    fn get(&self, key: &str) -> Option<&Keyed> {
        let place = self.nodes.binary_search_by(|node| node.key.as_str().cmp(key)).ok()?;
        self.nodes.get(place)
    }

    /// Writes what is left of a level.
    fn take(&self, reader: &mut Reader<'_>, out: &mut String) -> Option<Taken> {
        let start = out.len();
        let mut taken = Taken { member: false, changed: false };
        let is_leaf = reader.entries(|reader, entry| {
            let Some(key) = entry.key else {
                taken.member = true;
                return reader.skip();
            };
            let mark = out.len();
            if mark > start {
                out.push(',');
            }
            let Some(node) = self.get(key) else {
                reader.skip()?;
                out.push_str(reader.text.get(entry.start..reader.at)?);
                return Some(());
            };
            out.push('"');
            out.push_str(key);
            out.push_str("\":{");
            let inner = out.len();
            let below = node.below.take(reader, out)?;
            taken.changed |= below.changed || (below.member && node.member);
            let is_member = below.member && !node.member;
            match (is_member, out.len() == inner) {
                (false, true) => {
                    out.truncate(mark);
                    return Some(());
                }
                (true, false) => out.insert_str(inner, "\".\":{},"),
                _ => {}
            }
            out.push('}');
            Some(())
        })?;
        taken.member |= is_leaf;
        Some(taken)
    }

    /// Looks for all of a level.
    fn find(&self, reader: &mut Reader<'_>) -> Option<Found> {
        let mut found = 0;
        let mut member = false;
        let is_leaf = reader.entries(|reader, entry| {
            let Some(key) = entry.key else {
                member = true;
                return reader.skip();
            };
            let Some(node) = self.get(key) else { return reader.skip() };
            let below = node.below.find(reader)?;
            found += usize::from(below.all_found && (below.member || !node.member));
            Some(())
        })?;
        Some(Found { member: member || is_leaf, all_found: found == self.nodes.len() })
    }
}

/// What was read of a level whose rest was written.
struct Taken {
    member: bool,
    changed: bool,
}

/// What was read of a level.
struct Found {
    member: bool,
    all_found: bool,
}

/// A place in the text of a set.
struct Reader<'t> {
    text: &'t str,
    at: usize,
}

/// An entry whose value comes next.
struct Entry<'t> {
    /// Where it starts.
    start: usize,
    /// Its key; nothing for the one that says that the path up to here is in the set.
    key: Option<&'t str>,
}

impl<'t> Reader<'t> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        (self.byte()? == byte).then(|| self.at += 1)
    }

    /// Goes through the entries of a level; whether there are none, which is a leaf.
    fn entries(&mut self, mut each: impl FnMut(&mut Self, Entry<'t>) -> Option<()>) -> Option<bool> {
        self.eat(b'{')?;
        if self.eat(b'}').is_some() {
            return Some(true);
        }
        loop {
            let start = self.at;
            self.string()?;
            let key = self.text.get(start + 1..self.at - 1)?;
            self.eat(b':')?;
            each(self, Entry { start, key: (key != ".").then_some(key) })?;
            match self.byte()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Some(false);
                }
                _ => return None,
            }
        }
    }

    /// Passes over a string.
    fn string(&mut self) -> Option<()> {
        self.eat(b'"')?;
        loop {
            match self.byte()? {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }

    /// Passes over a level.
    fn skip(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.byte()? {
                b'{' => depth += 1,
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'}' => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        self.at += 1;
                        return Some(());
                    }
                }
                b':' | b',' if depth > 0 => {}
                _ => return None,
            }
            self.at += 1;
        }
    }
}

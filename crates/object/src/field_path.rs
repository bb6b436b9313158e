//! Field paths in the form that people write and errors show: `spec.containers[0].ports[name=http]`.
//!
//! Names are split by dots. Brackets hold the place of an item (`[0]`), a condition on one (`[name=http]`),
//! or the key of a map (`[http]`, `['example.com/app']`). In names and in quotes a backslash escapes the next
//! character. The text of every [`field::Path`](crate::field::Path) whose keys need no quotes can be read.

use crate::quote::Quoted;
use crate::{Key, Text, Value};
use std::fmt;
use std::fmt::Write;
use std::str::FromStr;

/// Why a text is not a field path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A name is missing between dots, or before or behind one.
    #[error("field path {} has an empty name", Quoted(.0))]
    EmptyName(String),
    /// A bracket is not closed, or there is nothing in it.
    #[error("field path {} has a bracket without an end or content", Quoted(.0))]
    Bracket(String),
    /// A quote is not closed, or something else follows it.
    #[error("field path {} has a quote that does not end before a bracket", Quoted(.0))]
    Quote(String),
    /// Something other than a dot or a bracket follows a bracket.
    #[error("field path {} has text right behind a bracket", Quoted(.0))]
    AfterBracket(String),
}

/// One step of a field path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The entry of a map.
    Name(Key),
    /// The item of a list at this place.
    Index(usize),
    /// The first item of a list with a field whose text is this.
    Where {
        /// The field.
        field: Key,
        /// The text of its value: of a string, or of a number or truth value as in JSON.
        value: Text,
    },
}

/// A parsed field path.
///
/// ```
/// use object::field_path::FieldPath;
/// use object::{Map, Value};
/// let path: FieldPath = "ports[name=http].port".parse().unwrap();
/// let http: Value = Map::from_iter([("name", Value::from("http")), ("port", 80.into())]).into();
/// let service: Value = Map::from_iter([("ports", Value::from_iter([http]))]).into();
/// assert_eq!(path.get(&service), Some(&80.into()));
/// assert_eq!(path.to_string(), "ports[name=http].port");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldPath {
    steps: Vec<Step>,
}

impl FieldPath {
    /// Reads a field path. An empty text is the path to the whole object.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut steps = Vec::new();
        let mut rest = text;
        let mut name_next = !text.is_empty() && !text.starts_with('[');
        loop {
            if name_next {
                let end = unescaped(rest, &['.', '[']).unwrap_or(rest.len());
                let (name, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
                if name.is_empty() {
                    return Err(Error::EmptyName(text.into()));
                }
                steps.push(Step::Name(without_backslashes(name).into()));
                rest = after;
            }
            name_next = match rest.as_bytes().first() {
                None => return Ok(Self { steps }),
                Some(b'.') => true,
                Some(b'[') => false,
                Some(_) => return Err(Error::AfterBracket(text.into())),
            };
            rest = rest.get(1..).unwrap_or_default();
            if !name_next {
                let (step, after) = bracket(rest, text)?;
                steps.push(step);
                rest = after;
            }
        }
    }

    /// The steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The value at the path.
    pub fn get<'v>(&self, root: &'v Value) -> Option<&'v Value> {
        self.steps.iter().try_fold(root, |value, step| match step {
            Step::Name(name) => value.get(name),
            _ => value.as_list()?.get(position(step, value)?),
        })
    }

    /// The value at the path, mutable. Shared parts on the way are copied, if there is such a value.
    pub fn get_mut<'v>(&self, root: &'v mut Value) -> Option<&'v mut Value> {
        self.get(root)?;
        self.steps.iter().try_fold(root, |value, step| match step {
            Step::Name(name) => value.as_map_mut()?.get_mut(name),
            _ => {
                let at = position(step, value)?;
                value.as_list_mut()?.get_mut(at)
            }
        })
    }
}

impl FromStr for FieldPath {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl FromIterator<Step> for FieldPath {
    fn from_iter<I: IntoIterator<Item = Step>>(steps: I) -> Self {
        Self { steps: steps.into_iter().collect() }
    }
}

/// A text that reads as the same path.
impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            match step {
                Step::Name(name) if is_plain_name(name) => {
                    let dot = if index > 0 { "." } else { "" };
                    write!(f, "{dot}{name}")?;
                }
                Step::Name(name) => write!(f, "[{}]", InQuotes(name))?,
                Step::Index(place) => write!(f, "[{place}]")?,
                Step::Where { field, value } => {
                    f.write_char('[')?;
                    for (separator, text) in [("", field.as_str()), ("=", value)] {
                        f.write_str(separator)?;
                        if is_plain_in_brackets(text) {
                            f.write_str(text)?
                        } else {
                            write!(f, "{}", InQuotes(text))?
                        }
                    }
                    f.write_char(']')?;
                }
            }
        }
        Ok(())
    }
}

struct InQuotes<'t>(&'t str);

impl fmt::Display for InQuotes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('\'')?;
        for character in self.0.chars() {
            if matches!(character, '\'' | '\\') {
                f.write_char('\\')?;
            }
            f.write_char(character)?;
        }
        f.write_char('\'')
    }
}

fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['.', '[', ']', '\\'])
}

fn is_plain_in_brackets(text: &str) -> bool {
    !text.is_empty() && !text.contains(['[', ']', '=', '\'', '"', '\\'])
}

/// Reads what is in a bracket. Returns it and the rest.
fn bracket<'t>(rest: &'t str, text: &str) -> Result<(Step, &'t str), Error> {
    let broken = || Error::Bracket(text.into());
    let (first, rest) = word(rest, text)?;
    if let Some(rest) = rest.strip_prefix('=') {
        let (value, rest) = word(rest, text)?;
        let rest = rest.strip_prefix(']').ok_or_else(broken)?;
        if first.text.is_empty() {
            return Err(broken());
        }
        return Ok((Step::Where { field: first.text.into(), value: value.text.into() }, rest));
    }
    let rest = rest.strip_prefix(']').ok_or_else(broken)?;
    let is_place = !first.quoted && first.text.bytes().all(|byte| byte.is_ascii_digit());
    match first.text.parse() {
        Ok(place) if is_place => Ok((Step::Index(place), rest)),
        _ if first.text.is_empty() && !first.quoted => Err(broken()),
        _ => Ok((Step::Name(first.text.into()), rest)),
    }
}

struct Word {
    text: String,
    quoted: bool,
}

/// Reads up to an equals sign or the end of a bracket, or what is in quotes.
fn word<'t>(rest: &'t str, text: &str) -> Result<(Word, &'t str), Error> {
    let Some(mark) = rest.chars().next().filter(|first| matches!(first, '\'' | '"')) else {
        let end = rest.find(['=', ']']).unwrap_or(rest.len());
        let (word, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        return Ok((Word { text: word.into(), quoted: false }, after));
    };
    let broken = || Error::Quote(text.into());
    let body = rest.get(1..).unwrap_or_default();
    let (word, after) =
        body.split_at_checked(unescaped(body, &[mark]).ok_or_else(broken)?).ok_or_else(broken)?;
    let after = after.get(1..).filter(|after| after.starts_with(['=', ']'])).ok_or_else(broken)?;
    Ok((Word { text: without_backslashes(word), quoted: true }, after))
}

/// The first of some characters that is not escaped.
fn unescaped(text: &str, ends: &[char]) -> Option<usize> {
    let mut escaped = false;
    text.find(|character| {
        let counts = !std::mem::take(&mut escaped);
        escaped = counts && character == '\\';
        counts && ends.contains(&character)
    })
}

fn without_backslashes(text: &str) -> String {
    let mut escaped = false;
    text.chars()
        .filter(|character| {
            escaped = *character == '\\' && !escaped;
            !escaped
        })
        .collect()
}

/// The place of the item that a step means.
fn position(step: &Step, list: &Value) -> Option<usize> {
    match step {
        Step::Name(_) => None,
        Step::Index(place) => Some(*place),
        Step::Where { field, value } => {
            list.as_list()?.iter().position(|item| item.get(field).is_some_and(|found| reads(found, value)))
        }
    }
}

/// Whether a value has this text.
fn reads(value: &Value, text: &str) -> bool {
    match value {
        Value::String(own) => own == text,
        Value::Bool(flag) => text == if *flag { "true" } else { "false" },
        Value::Int(number) => text.parse() == Ok(*number),
        Value::Float(number) => text.parse() == Ok(*number),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Map, field};

    fn path(text: &str) -> FieldPath {
        FieldPath::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    fn choose(field: &str, value: &str) -> Step {
        Step::Where { field: field.into(), value: value.into() }
    }

    #[test]
    fn each_form_is_read() {
        let name = |name: &str| Step::Name(name.into());
        for (text, steps) in [
            ("", vec![]),
            ("a", vec![name("a")]),
            ("a.b[0][1].c", vec![name("a"), name("b"), Step::Index(0), Step::Index(1), name("c")]),
            ("a[name=http]", vec![name("a"), choose("name", "http")]),
            ("a[name='x]y'].b", vec![name("a"), choose("name", "x]y"), name("b")]),
            ("a[name=]", vec![name("a"), choose("name", "")]),
            ("a['n.m'=\"it's\"]", vec![name("a"), choose("n.m", "it's")]),
            ("labels[app]", vec![name("labels"), name("app")]),
            ("labels['example.com/a']", vec![name("labels"), name("example.com/a")]),
            (r"labels['it\'s \\']", vec![name("labels"), name(r"it's \")]),
            (r"labels.example\.com/a", vec![name("labels"), name("example.com/a")]),
            ("labels['0']", vec![name("labels"), name("0")]),
            ("labels['']", vec![name("labels"), name("")]),
            ("[0].a", vec![Step::Index(0), name("a")]),
            ("a[99999999999999999999]", vec![name("a"), name("99999999999999999999")]),
        ] {
            assert_eq!(path(text).steps(), steps, "{text}");
            assert_eq!(path(&path(text).to_string()), path(text), "{text}");
        }
    }

    #[test]
    fn parsed_path_is_displayed_as_written() {
        for text in
            ["spec.containers[0].ports[name=http]", "a['b.c'][d='x=y'].e", "[3].a", "a['']", "a[b='']"]
        {
            assert_eq!(path(text).to_string(), text);
        }
        assert_eq!(path("a[b]").to_string(), "a.b");
    }

    #[test]
    fn broken_texts_are_refused() {
        let refused = |text: &str| FieldPath::parse(text).unwrap_err();
        for text in [".", ".a", "a.", "a..b", "a.[0]"] {
            assert_eq!(refused(text), Error::EmptyName(text.into()));
        }
        for text in ["a[", "a[0", "a[]", "a[=b]", "a[b=c", "a[b=c=d]", "[", "a[0.b"] {
            assert_eq!(refused(text), Error::Bracket(text.into()));
        }
        for text in ["a['b]", "a['b'c]", "a['b", "a[b='c]", "a['b'"] {
            assert_eq!(refused(text), Error::Quote(text.into()));
        }
        assert_eq!(refused("a[0]b"), Error::AfterBracket("a[0]b".into()));
    }

    #[test]
    fn the_path_of_an_error_can_be_read() {
        let spec = field::Path::new("spec");
        let containers = spec.child("containers");
        let shown = containers.index(3).child("ports").to_string();
        assert_eq!(path(&shown).to_string(), shown);
    }

    #[test]
    fn steps_lead_through_maps_and_lists() {
        let port = |number: i64, name: &str| -> Value {
            Map::from_iter([("port", Value::from(number)), ("name", name.into()), ("tls", true.into())])
                .into()
        };
        let original: Value =
            Map::from_iter([("ports", Value::from_iter([port(80, "http"), port(443, "https")]))]).into();
        for (text, expected) in [
            ("ports[1].name", Some("https")),
            ("ports[port=443].name", Some("https")),
            ("ports[tls=true].name", Some("http")),
            ("ports[name=https].name", Some("https")),
            ("ports[name=x].name", None),
            ("ports[2].name", None),
            ("ports[name]", None),
            ("ports.name", None),
            ("[0]", None),
        ] {
            let found = path(text).get(&original).and_then(Value::as_str);
            assert_eq!(found, expected, "{text}");
        }
        let mut changed = original.clone();
        *path("ports[name=http].port").get_mut(&mut changed).unwrap() = 8080.into();
        assert_eq!(path("ports[0].port").get(&changed), Some(&8080.into()));
        assert_eq!(path("ports[0].port").get(&original), Some(&80.into()));
        assert_eq!(path("ports[9]").get_mut(&mut changed), None);
    }
}

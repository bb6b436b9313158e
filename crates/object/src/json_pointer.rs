//! JSON pointers (RFC 6901): `/spec/containers/0/image`, as JSON patches use them.
//!
//! [`Pointer::parse`] holds to the standard. [`Pointer::from_patch`] reads what the reference reads in a
//! patch, which is more. Both lead to the same places: the index of a list may be counted from its end (`-1`
//! is the last item), and the places where an item can be put in are those and `-`, behind the last one.

use crate::quote::{IntegerError, Quoted, parse_i64};
use crate::{Text, Value};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Why a text is not a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The pointer is not empty, and has no leading slash.
    #[error("JSON pointer must be empty or start with '/'")]
    NoSlash,
    /// A tilde without a 0 or 1 behind it.
    #[error("JSON pointer has a '~' that is not followed by '0' or '1'")]
    Escape,
}

/// Why a token is no place in a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// It is no number.
    #[error("strconv.Atoi: parsing {}: {reason}", Quoted(token))]
    NotANumber {
        /// The token.
        token: Text,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// It is no number, where an item is to be put in.
    #[error(
        "value was not a proper array index: '{token}': strconv.Atoi: parsing {}: {reason}",
        Quoted(token)
    )]
    NotAPlace {
        /// The token.
        token: Text,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The list has no such place.
    #[error("Unable to access invalid index: {0}: invalid index referenced")]
    OutOfBounds(i64),
}

/// A parsed pointer.
///
/// ```
/// use object::json_pointer::Pointer;
/// use object::{Map, Value};
/// let pointer: Pointer = "/labels/example.com~1app".parse().unwrap();
/// let labels: Value = Map::from_iter([("example.com/app", "web")]).into();
/// let object: Value = Map::from_iter([("labels", labels)]).into();
/// assert_eq!(pointer.resolve(&object), Some(&"web".into()));
/// assert_eq!(pointer.to_string(), "/labels/example.com~1app");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pointer {
    tokens: Vec<Text>,
}

/// A map or list and the token that leads on from it.
#[derive(Debug, PartialEq)]
pub struct Parent<'p, V> {
    /// The map or list.
    pub container: V,
    /// The key of an entry or the place of an item, whether it is there or not.
    pub token: &'p str,
}

impl Pointer {
    /// Reads a pointer by the standard.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let Some(rest) = text.strip_prefix('/') else {
            return if text.is_empty() { Ok(Self::default()) } else { Err(Error::NoSlash) };
        };
        let escaped = |token: &str| token.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
        if !rest.split('/').all(escaped) {
            return Err(Error::Escape);
        }
        Ok(Self::split(rest))
    }

    /// Reads a pointer as the reference does in a patch: text before the first slash does not count, and a
    /// tilde that escapes nothing is a tilde. Without any slash, it leads nowhere.
    pub fn from_patch(text: &str) -> Option<Self> {
        text.split_once('/').map(|(_, rest)| Self::split(rest))
    }

    fn split(rest: &str) -> Self {
        Self { tokens: rest.split('/').map(|token| unescape(token).into()).collect() }
    }

    /// The tokens, without escapes. There are none for the whole document.
    pub fn tokens(&self) -> &[Text] {
        &self.tokens
    }

    /// The value at the pointer.
    pub fn resolve<'v>(&self, root: &'v Value) -> Option<&'v Value> {
        self.tokens.iter().try_fold(root, |value, token| step(value, token))
    }

    /// The value at the pointer, mutable. Shared parts on the way are copied, if there is such a value.
    pub fn resolve_mut<'v>(&self, root: &'v mut Value) -> Option<&'v mut Value> {
        self.resolve(root)?;
        self.tokens.iter().try_fold(root, |value, token| step_mut(value, token))
    }

    /// The map or list that holds, or would hold, the value at the pointer.
    pub fn resolve_parent<'v>(&self, root: &'v Value) -> Option<Parent<'_, &'v Value>> {
        let (token, parents) = self.tokens.split_last()?;
        let container = parents.iter().try_fold(root, |value, token| step(value, token))?;
        is_container(container).then_some(Parent { container, token })
    }

    /// The mutable map or list that holds, or would hold, the value at the pointer. Shared parts on the way
    /// are copied, if there is such a map or list.
    pub fn resolve_parent_mut<'v>(&self, root: &'v mut Value) -> Option<Parent<'_, &'v mut Value>> {
        self.resolve_parent(root)?;
        let (token, parents) = self.tokens.split_last()?;
        let container = parents.iter().try_fold(root, |value, token| step_mut(value, token))?;
        Some(Parent { container, token })
    }
}

impl FromStr for Pointer {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl<T: Into<Text>> FromIterator<T> for Pointer {
    fn from_iter<I: IntoIterator<Item = T>>(tokens: I) -> Self {
        Self { tokens: tokens.into_iter().map(Into::into).collect() }
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tokens.iter().try_for_each(|token| write!(f, "/{}", escape(token)))
    }
}

/// Puts the escapes into a token: `~0` for a tilde, `~1` for a slash.
pub fn escape(token: &str) -> Cow<'_, str> {
    if token.contains(['~', '/']) { token.replace('~', "~0").replace('/', "~1").into() } else { token.into() }
}

/// Takes the escapes out of a token. A tilde that escapes nothing stays.
pub fn unescape(token: &str) -> Cow<'_, str> {
    let Some((start, rest)) = token.split_once('~') else { return token.into() };
    let mut out = String::from(start);
    for piece in rest.split('~') {
        let (character, plain) = match piece.as_bytes().first() {
            Some(b'0') => ('~', 1),
            Some(b'1') => ('/', 1),
            _ => ('~', 0),
        };
        out.push(character);
        out.push_str(piece.get(plain..).unwrap_or_default());
    }
    out.into()
}

/// The place of an item that a list of this length has. Below zero, places are counted from the end.
///
/// ```
/// use object::json_pointer::item_index;
/// assert_eq!(item_index("-1", 3), Ok(2));
/// assert_eq!(item_index("3", 3).unwrap_err().to_string(),
///     "Unable to access invalid index: 3: invalid index referenced");
/// ```
pub fn item_index(token: &str, length: usize) -> Result<usize, IndexError> {
    let number = parse_i64(token)
        .map_err(|error| IndexError::NotANumber { token: token.into(), reason: reason(error) })?;
    place(number, length).ok_or(IndexError::OutOfBounds(number))
}

/// The place at which an item can be put into a list of this length: before an item, or behind all of them.
///
/// ```
/// use object::json_pointer::insertion_index;
/// assert_eq!(insertion_index("-", 3), Ok(3));
/// assert_eq!(insertion_index("0", 3), Ok(0));
/// assert_eq!(insertion_index("-1", 3), Ok(3));
/// ```
pub fn insertion_index(token: &str, length: usize) -> Result<usize, IndexError> {
    if token == "-" {
        return Ok(length);
    }
    let number = parse_i64(token)
        .map_err(|error| IndexError::NotAPlace { token: token.into(), reason: reason(error) })?;
    place(number, length + 1).ok_or(IndexError::OutOfBounds(number))
}

fn reason(error: IntegerError) -> &'static str {
    match error {
        IntegerError::Syntax => "invalid syntax",
        IntegerError::Range => "value out of range",
    }
}

fn place(number: i64, count: usize) -> Option<usize> {
    let from_start = match usize::try_from(number) {
        Ok(place) => place,
        Err(_) => count.checked_sub(usize::try_from(number.unsigned_abs()).ok()?)?,
    };
    (from_start < count).then_some(from_start)
}

fn step<'v>(value: &'v Value, token: &str) -> Option<&'v Value> {
    match value {
        Value::Map(map) => map.get(token),
        Value::List(items) => items.get(item_index(token, items.len()).ok()?),
        _ => None,
    }
}

fn step_mut<'v>(value: &'v mut Value, token: &str) -> Option<&'v mut Value> {
    match value {
        Value::Map(_) => value.as_map_mut()?.get_mut(token),
        Value::List(_) => {
            let items = value.as_list_mut()?;
            let at = item_index(token, items.len()).ok()?;
            items.get_mut(at)
        }
        _ => None,
    }
}

fn is_container(value: &Value) -> bool {
    matches!(value, Value::Map(_) | Value::List(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Map;

    fn document() -> Value {
        let keys = ["", "a/b", "c%d", "e^f", "g|h", "i\\j", "k\"l", " ", "m~n", "~1"];
        let mut map: Map = keys.iter().enumerate().map(|(at, key)| (*key, at as i64)).collect();
        map.insert("foo", Value::from_iter(["bar", "baz"]));
        map.insert("none", Value::Null);
        map.into()
    }

    fn at<'v>(text: &str, root: &'v Value) -> Option<&'v Value> {
        Pointer::parse(text).unwrap().resolve(root)
    }

    #[test]
    fn the_examples_of_the_standard_hold() {
        let root = document();
        assert_eq!(at("", &root), Some(&root));
        assert_eq!(at("/foo", &root), Some(&Value::from_iter(["bar", "baz"])));
        assert_eq!(at("/foo/0", &root), Some(&"bar".into()));
        let texts = ["/", "/a~1b", "/c%d", "/e^f", "/g|h", "/i\\j", "/k\"l", "/ ", "/m~0n", "/~01"];
        for (number, text) in texts.into_iter().enumerate() {
            assert_eq!(at(text, &root), Some(&Value::Int(number as i64)), "{text}");
            assert_eq!(Pointer::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn items_are_counted_from_either_end() {
        let root = document();
        for (text, item) in [("/foo/-1", "baz"), ("/foo/-2", "bar"), ("/foo/01", "baz"), ("/foo/+1", "baz")] {
            assert_eq!(at(text, &root), Some(&item.into()), "{text}");
        }
        for text in
            ["/foo/2", "/foo/-3", "/foo/-", "/foo/", "/foo/x", "/foo/-9223372036854775808", "/foo/0/x"]
        {
            assert_eq!(at(text, &root), None, "{text}");
        }
    }

    #[test]
    fn missing_targets_give_the_errors_of_the_reference() {
        let refused = |result: Result<usize, IndexError>| result.unwrap_err().to_string();
        let out = |index: i64| format!("Unable to access invalid index: {index}: invalid index referenced");
        assert_eq!(refused(item_index("5", 2)), out(5));
        assert_eq!(refused(item_index("-3", 2)), out(-3));
        assert_eq!(refused(item_index("0", 0)), out(0));
        assert_eq!(refused(insertion_index("4", 3)), out(4));
        assert_eq!(refused(insertion_index("-5", 3)), out(-5));
        assert_eq!(insertion_index("-4", 3), Ok(0));
        assert_eq!(insertion_index("0", 0), Ok(0));
        assert_eq!(refused(item_index("-", 2)), "strconv.Atoi: parsing \"-\": invalid syntax");
        assert_eq!(
            refused(insertion_index("a'b", 2)),
            "value was not a proper array index: 'a'b': strconv.Atoi: parsing \"a'b\": invalid syntax"
        );
        assert_eq!(
            refused(item_index("9223372036854775808", 2)),
            "strconv.Atoi: parsing \"9223372036854775808\": value out of range"
        );
    }

    #[test]
    fn the_standard_is_stricter_than_patches() {
        for (text, error, tokens) in [
            ("a/b", Error::NoSlash, &["b"][..]),
            ("/a~2b", Error::Escape, &["a~2b"]),
            ("/a~", Error::Escape, &["a~"]),
            ("/~~1", Error::Escape, &["~/"]),
        ] {
            assert_eq!(Pointer::parse(text), Err(error), "{text}");
            assert_eq!(Pointer::from_patch(text), Some(tokens.iter().copied().collect()), "{text}");
        }
        assert_eq!(Pointer::parse("a"), Err(Error::NoSlash));
        assert_eq!((Pointer::from_patch("a"), Pointer::from_patch("")), (None, None));
        assert_eq!(Pointer::from_patch("/~01~10").unwrap().tokens(), ["~1/0"]);
    }

    #[test]
    fn a_parent_is_found_for_what_is_not_there_yet() {
        let root = document();
        let parent =
            |text: &str| Pointer::parse(text).unwrap().resolve_parent(&root).map(|p| p.token.to_owned());
        assert_eq!(parent("/new").as_deref(), Some("new"));
        assert_eq!(parent("/foo/-").as_deref(), Some("-"));
        assert_eq!(parent("/foo/0/x"), None);
        assert_eq!(parent("/none/x"), None);
        assert_eq!(parent("/nothing/x"), None);
        assert_eq!(parent(""), None);
    }

    #[test]
    fn a_change_leaves_clones_alone() {
        let original = document();
        let mut changed = original.clone();
        let pointer: Pointer = "/foo/-1".parse().unwrap();
        *pointer.resolve_mut(&mut changed).unwrap() = 7.into();
        let Parent { container, token } = pointer.resolve_parent_mut(&mut changed).unwrap();
        assert_eq!(token, "-1");
        container.as_list_mut().unwrap().push(8.into());
        assert_eq!(at("/foo", &changed), Some(&Value::from_iter([Value::from("bar"), 7.into(), 8.into()])));
        assert_eq!(at("/foo", &original), Some(&Value::from_iter(["bar", "baz"])));
        assert!(Pointer::parse("/foo/9").unwrap().resolve_mut(&mut changed).is_none());
        assert!(Pointer::parse("/foo/9/x").unwrap().resolve_parent_mut(&mut changed).is_none());
    }
}

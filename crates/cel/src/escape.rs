//! Names of properties as expressions write them: `foo-bar` is `foo__dash__bar`, `namespace` is
//! `__namespace__`.

use std::borrow::Cow;

/// The words of the language, which cannot be names of fields as they are.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// What stands for characters that names of expressions cannot have.
const ESCAPES: [(&str, &str); 4] =
    [("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];

/// Whether a name is a word of the language.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// The name of a property as expressions write it; `None` if they cannot write it: it is empty, begins with a
/// digit, or has a character that is no letter or digit of ASCII and none of `_.-/`.
pub fn escape(name: &str) -> Option<Cow<'_, str>> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.as_bytes().first().is_none_or(u8::is_ascii_digit) {
        return None;
    }
    if !name.bytes().all(|byte| plain(byte) || matches!(byte, b'.' | b'-' | b'/')) {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__").into());
    }
    if name.bytes().all(plain) && !name.contains("__") {
        return Some(Cow::Borrowed(name));
    }
    let mut escaped = String::with_capacity(name.len() + 16);
    let mut rest = name;
    while let Some(char) = rest.chars().next() {
        let found = ESCAPES.iter().find_map(|(plain, escape)| Some((escape, rest.strip_prefix(plain)?)));
        match found {
            Some((escape, after)) => {
                escaped.push_str(escape);
                rest = after;
            }
            None => {
                escaped.push(char);
                rest = rest.get(char.len_utf8()..).unwrap_or_default();
            }
        }
    }
    Some(Cow::Owned(escaped))
}

/// The name of the property that expressions write so; `None` if none is written so: it has a word between
/// two pairs of underscores that stands for nothing, or one of the language beside other characters.
pub fn unescape(name: &str) -> Option<Cow<'_, str>> {
    if !name.contains("__") {
        return Some(Cow::Borrowed(name));
    }
    let mut plain = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(char) = rest.chars().next() {
        let Some((word, after)) = escaped_word(rest) else {
            plain.push(char);
            rest = rest.get(char.len_utf8()..).unwrap_or_default();
            continue;
        };
        let escape = rest.strip_suffix(after).unwrap_or(rest);
        match ESCAPES.iter().find(|(_, there)| *there == escape) {
            Some((character, _)) => plain.push_str(character),
            None if is_reserved(word) && escape.len() == name.len() => plain.push_str(word),
            None => return None,
        }
        rest = after;
    }
    Some(Cow::Owned(plain))
}

/// The word between two pairs of underscores at the beginning of a text, and what follows them.
fn escaped_word(text: &str) -> Option<(&str, &str)> {
    let (word, after) = text.strip_prefix("__")?.split_once('_')?;
    if word.is_empty() { None } else { Some((word, after.strip_prefix('_')?)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_the_reference_escapes_them() {
        for (name, escaped) in [
            ("a", Some("a")),
            ("_a1", Some("_a1")),
            ("a_b", Some("a_b")),
            ("a__b", Some("a__underscores__b")),
            ("a___b", Some("a__underscores___b")),
            ("____", Some("__underscores____underscores__")),
            ("foo-bar.baz/qux", Some("foo__dash__bar__dot__baz__slash__qux")),
            ("namespace", Some("__namespace__")),
            ("namespaces", Some("namespaces")),
            ("void", Some("__void__")),
            ("-", Some("__dash__")),
            ("", None),
            ("1a", None),
            ("a b", None),
            ("a-ü", None),
            ("$ref", None),
        ] {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
            if let Some(escaped) = escaped {
                assert_eq!(unescape(escaped).as_deref(), Some(name), "{escaped}");
            }
        }
    }

    #[test]
    fn what_is_no_escape_is_not_unescaped() {
        for (escaped, name) in [
            ("a__b", Some("a__b")),
            ("a__dash__", Some("a-")),
            ("a___dash__", Some("a_-")),
            ("__dash____dot__", Some("-.")),
            ("__int__", None),
            ("a__namespace__", None),
            ("__x__", None),
            ("__dash_", Some("__dash_")),
        ] {
            assert_eq!(unescape(escaped).as_deref(), name, "{escaped}");
        }
    }
}
